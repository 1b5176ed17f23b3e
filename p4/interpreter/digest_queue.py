"""The digests that a device has for its controller. It knows when the controller has handled all."""

from __future__ import annotations

import queue
import threading

from jaxina.controller.tables import Digest


class DigestQueue:
    """Any thread may put digests. One thread takes them; it has handled one when it asks for the next."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Digest] = queue.SimpleQueue()
        self._unhandled = 0  # digests that the controller has not handled yet
        self._taken = 0  # how many of these it is handling now: 0 or 1
        self._changed = threading.Condition()

    def put(self, digest: Digest) -> None:
        with self._changed:
            self._unhandled += 1
        self._waiting.put(digest)

    def next(self, timeout: float) -> Digest | None:
        """The next digest. None if there is none within `timeout` seconds."""
        with self._changed:
            self._unhandled -= self._taken
            self._taken = 0
            self._changed.notify_all()
        try:
            digest = self._waiting.get(timeout=timeout)
        except queue.Empty:
            return None
        self._taken = 1
        return digest

    def settle(self, timeout: float) -> None:
        """Waits until the controller has handled all digests.

        Raises:
          TimeoutError: it has not within `timeout` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: not self._unhandled, timeout):
                raise TimeoutError("the controller does not take its digests")
