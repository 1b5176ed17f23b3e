"""A transfer's share of its path over time, as its sender follows it."""

from __future__ import annotations

import dataclasses
import socket
import struct
from collections.abc import Sequence

NANOSECONDS = 1_000_000_000

_SO_MAX_PACING_RATE = 47
_TCP_INFO_BYTES = 176
_BYTES_ACKED = struct.Struct("=Q")
_TELLING = 50_000  # microseconds; the kernel counts in ticks of some milliseconds
_AT_ACKED, _AT_BUSY = 120, 168  # tcpi_bytes_acked, and tcpi_busy_time in microseconds


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A stretch of a transfer.

    Attributes:
      begin: when it may begin, in nanoseconds.
      rate: bytes per second.
      bytes: how many it has.
    """

    begin: int
    rate: int
    bytes: int


def steps(pieces: Sequence[tuple[int, int, int]], size: int) -> list[Step]:
    """Divides a transfer among the pieces of its reservation.

    Args:
      pieces: (from, to, bytes per second), as a reservation has them. If there are none, the path has no links.
      size: bytes of the transfer. What the pieces leave, such as a header, goes with the last one.
    """
    found: list[Step] = []
    left = size
    for begin, end, rate in pieces:
        share = min(left, (end - begin) * rate // NANOSECONDS)
        if share > 0:
            found.append(Step(begin, rate, share))
            left -= share
    if left > 0 and found:
        last = found.pop()
        found.append(dataclasses.replace(last, bytes=last.bytes + left))
    elif left > 0:
        begin, _, rate = pieces[-1] if pieces else (0, 0, 0)
        found.append(Step(begin, rate, left))
    return found


def pace(connection: socket.socket, rate: int) -> None:
    """Has the kernel send no faster than `rate` bytes per second on the connection. 0: as fast as it goes."""
    limit = rate if 0 < rate < 2**32 - 1 else 2**32 - 1
    connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=I", limit))


def delivered_per_second(connection: socket.socket) -> float | None:
    """What the path gave while there was something to send, in bytes per second: acknowledged bytes and busy time of
    TCP_INFO. None if too little was sent to tell."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    if len(info) < _TCP_INFO_BYTES:
        return None  # a kernel before 4.10
    (acked,) = _BYTES_ACKED.unpack_from(info, _AT_ACKED)
    (busy,) = _BYTES_ACKED.unpack_from(info, _AT_BUSY)
    return acked * 1e6 / busy if busy >= _TELLING else None
