"""Signals that a command waits for."""

import os
import signal
import threading
import time

from jaxina.cli.signals import Signals


def test_a_signal_before_the_wait_is_not_lost():
    with Signals([signal.SIGUSR1, signal.SIGTERM]) as signals:
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert [signals.wait(), signals.wait()] == [signal.SIGUSR1, signal.SIGTERM]


def test_a_signal_ends_the_wait():
    def later():
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGUSR1)

    with Signals([signal.SIGUSR1]) as signals:
        threading.Thread(target=later).start()
        assert signals.wait() == signal.SIGUSR1


def test_other_signals_do_not_end_the_wait():
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        with Signals([signal.SIGUSR1]) as signals:
            os.kill(os.getpid(), signal.SIGUSR2)
            os.kill(os.getpid(), signal.SIGUSR1)
            assert signals.wait() == signal.SIGUSR1
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_thread_can_send_one():
    with Signals([signal.SIGTERM]) as signals:
        threading.Thread(target=signals.send, args=(signal.SIGTERM,)).start()
        assert signals.wait() == signal.SIGTERM


def test_what_was_set_before_is_set_again():
    def handler(*_):
        pass

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with Signals([signal.SIGUSR1]):
            assert signal.getsignal(signal.SIGUSR1) is not handler
        assert signal.getsignal(signal.SIGUSR1) is handler
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(signal.SIGUSR1, before)


class JustBefore:
    """A socket of which each read is preceded by a signal."""

    def __init__(self, reader):
        self._reader = reader

    def recv(self, size):
        os.kill(os.getpid(), signal.SIGUSR1)
        return self._reader.recv(size)

    def close(self):
        self._reader.close()


# A handler that set a threading.Event hung when the signal came inside of the event's `wait`.
def test_a_signal_inside_of_the_wait_ends_it():
    with Signals([signal.SIGUSR1]) as signals:
        signals._reader = JustBefore(signals._reader)
        assert signals.wait() == signal.SIGUSR1
