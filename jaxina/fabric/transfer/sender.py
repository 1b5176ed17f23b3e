"""Sends a frame, paced, and reads the answer."""

from __future__ import annotations

import contextlib
import dataclasses
import select
import socket
import struct
import threading
import time
from collections.abc import Sequence

from jaxina.config import split_address
from jaxina.errors import InvalidArgumentError, SystemCallError, from_code
from jaxina.fabric.transfer.frame import Header
from jaxina.fabric.transfer.pacing import NANOSECONDS, Step, delivered_per_second, pace

ANSWER = struct.Struct("!BH")
"""The length of the error's code, which is 0 if the frame was taken, and that of its message."""

_BUFFER = 1 << 18  # bytes: more would let a transfer run far ahead of a change of its rate
_SLICE = 0.01  # seconds of a transfer that are handed to the kernel at once
_SLICE_BYTES = (1 << 9, 1 << 18)  # at least and at most
_CONNECT = 5.0  # seconds


class CancelledError(Exception):
    """The transfer is not needed any more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Delivery:
    """A frame that was taken.

    Attributes:
      seconds: from the connection to the answer.
      bytes_per_s: what the path gave, if that is known.
    """

    seconds: float
    bytes_per_s: float | None


def send(
    address: str,
    header: Header,
    payload: bytes | memoryview,
    plan: Sequence[Step],
    cancelled: threading.Event,
    idle: float,
) -> Delivery:
    """Sends a frame, each stretch of it not before its time.

    Args:
      address: HOST:PORT of the receiver.
      header, payload: the frame.
      plan: its stretches, with times of `time.monotonic_ns`. Together as long as the frame.
      cancelled: ends the transfer from another thread.
      idle: seconds without progress after which it fails.

    Raises:
      CancelledError: it was cancelled.
      SystemCallError: the receiver was not reached, or the connection broke.
      JaxinaError: the receiver refused the frame, with this error.
    """
    text = memoryview(header.pack() + bytes(payload))
    if sum(step.bytes for step in plan) != len(text):
        raise InvalidArgumentError(f"the plan is not for the {len(text)} bytes of the frame")
    _wait_until(plan[0].begin, cancelled)
    begin = time.monotonic()
    try:
        with socket.create_connection(split_address(address), timeout=min(_CONNECT, idle)) as connection:
            connection.settimeout(idle)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            refused = _write(connection, text, plan, cancelled)
            code, message = _answer(connection)
            measured = None if refused or code else delivered_per_second(connection)
    except OSError as error:
        raise SystemCallError(f"the transfer to {address} failed: {error}") from error
    if code:
        raise from_code(code, message)
    return Delivery(time.monotonic() - begin, measured)


def _wait_until(begin: int, cancelled: threading.Event) -> None:
    """Waits for a time of `time.monotonic_ns`."""
    left = begin - time.monotonic_ns()
    if cancelled.is_set() or (left > 0 and cancelled.wait(left / NANOSECONDS)):
        raise CancelledError


def _write(connection: socket.socket, text: memoryview, plan: Sequence[Step], cancelled: threading.Event) -> bool:
    """Sends all of it. Returns whether the receiver answered before, or stopped reading: then it has refused it."""
    answered = select.poll()  # `select.select` takes no descriptor from 1,024 on
    answered.register(connection, select.POLLIN)
    done = 0
    for step in plan:
        pace(connection, step.rate)
        begin, first, end = max(step.begin, time.monotonic_ns()), done, done + step.bytes
        most = min(max(int(step.rate * _SLICE), _SLICE_BYTES[0]), _SLICE_BYTES[1]) if step.rate else _SLICE_BYTES[1]
        while done < end:
            # The kernel does not pace a connection's first ten segments, which over loopback are 640 KB.
            _wait_until(begin + (done - first) * NANOSECONDS // step.rate if step.rate else begin, cancelled)
            if answered.poll(0):
                return True
            try:
                done += connection.send(text[done : min(end, done + most)])
            except (BrokenPipeError, ConnectionResetError):
                return True
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    return False


def _answer(connection: socket.socket) -> tuple[str, str]:
    code_bytes, message_bytes = ANSWER.unpack(read(connection, ANSWER.size))
    code = read(connection, code_bytes).decode("ascii", "replace")
    return code, read(connection, message_bytes).decode("utf-8", "replace")


def read(connection: socket.socket, size: int, end: float | None = None) -> bytes:
    """Reads exactly so many bytes. It takes memory only for what has come, whatever a header says will.

    Args:
      connection: from where.
      size: bytes.
      end: the time of `time.monotonic` by which they must have come. None: only silence takes too long, as the
        connection's timeout says.

    Raises:
      OSError: the connection ended before, or they took too long.
    """
    text = bytearray()
    while len(text) < size:
        if end is not None:
            fail_at(connection, end)
        part = connection.recv(min(size - len(text), 1 << 20))
        if not part:
            raise ConnectionError(f"the connection ended after {len(text)} of {size} bytes")
        text += part
    return bytes(text)


def fail_at(connection: socket.socket, end: float) -> None:
    """Has the next call of the connection fail at a time of `time.monotonic`.

    Raises:
      TimeoutError: it is over.
    """
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("the other end is too slow")
    connection.settimeout(left)
