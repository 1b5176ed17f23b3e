"""Frames on their way from this host."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Hashable

from jaxina.errors import JaxinaError, SystemCallError
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.transfer.frame import Kind, header_of
from jaxina.fabric.transfer.pacing import steps
from jaxina.fabric.transfer.sender import CancelledError, send

_log = logging.getLogger(__name__)

_AGAIN = 0.2  # seconds until a receiver that was not reached is tried again
_WORTH_MEASURING = 1 << 17  # bytes: a shorter transfer says little about its path


@dataclasses.dataclass(frozen=True)
class Frame:
    """What is sent.

    Attributes:
      kind, names, version: of its header.
      payload: its bytes.
    """

    kind: Kind
    names: tuple[int, ...]
    version: int
    payload: bytes


class Deliveries:
    """Sends frames, each on a thread of its own, until it is taken, refused, cancelled or too late.

    Args:
      secret: the job's.
      patience: seconds without progress until a connection is given up; three times as long after its planned end, a
        transfer is.
      measured: called with a host's name, what its path gave and what was planned, in bytes per second.
    """

    def __init__(self, secret: int, patience: float, measured: Callable[[str, float, float], None]) -> None:
        self._secret = secret
        self._patience = patience
        self._measured = measured
        self._lock = threading.Lock()
        self._running: dict[Hashable, threading.Event] = {}
        self._closed = False

    def start(self, key: Hashable, way: pb.Way, frame: Frame) -> None:
        """Sends a frame. A transfer with the same key before it is cancelled.

        Args:
          key: what `cancel` names.
          way: where and how fast, from now on.
          frame: what.
        """
        if not way.address:
            return  # nobody is there; who planned it will find another way
        now = time.monotonic_ns()
        pieces = [(now + p.begin_ns, now + p.end_ns, p.bytes_per_s) for p in way.pieces]
        cancelled = threading.Event()
        with self._lock:
            if self._closed:
                return
            if (before := self._running.get(key)) is not None:
                before.set()
            self._running[key] = cancelled
        run = threading.Thread(
            target=self._run, args=(key, way, frame, pieces, cancelled), name="jaxina-delivery", daemon=True
        )
        run.start()

    def sends(self, key: Hashable) -> bool:
        """Whether a transfer with this key is under way."""
        with self._lock:
            return key in self._running

    def cancel(self, wanted: Callable[[Hashable], bool]) -> None:
        """Ends the transfers with such keys."""
        with self._lock:
            for key, cancelled in self._running.items():
                if wanted(key):
                    cancelled.set()

    def close(self) -> None:
        """Ends all."""
        with self._lock:
            self._closed = True
        self.cancel(lambda key: True)

    def _run(
        self, key: Hashable, way: pb.Way, frame: Frame, pieces: list[tuple[int, int, int]], cancelled: threading.Event
    ) -> None:
        header = header_of(frame.kind, self._secret, frame.names, frame.version, frame.payload)
        plan = steps(pieces, header.length + header.size)
        planned_end = (pieces[-1][1] if pieces else time.monotonic_ns()) / 1e9
        try:
            while True:
                try:
                    delivery = send(way.address, header, frame.payload, plan, cancelled, self._patience)
                except SystemCallError as error:
                    if time.monotonic() > planned_end + 3 * self._patience:
                        _log.warning("update %#x was not delivered to %s: %s", frame.names[0], way.host, error.message)
                        return
                    if cancelled.wait(_AGAIN):
                        return
                else:
                    if delivery.bytes_per_s is not None and pieces and header.size >= _WORTH_MEASURING:
                        seconds = sum(end - begin for begin, end, _ in pieces) / 1e9
                        self._measured(way.host, delivery.bytes_per_s, header.size / seconds)
                    return
        except CancelledError:
            return
        except JaxinaError as error:
            _log.info("%s does not take update %#x: %s", way.host, frame.names[0], error.message)
        finally:
            with self._lock:
                if self._running.get(key) is cancelled:
                    del self._running[key]
