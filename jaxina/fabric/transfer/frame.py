"""What travels between hosts: a header that says what it is, and a payload.

All numbers are in network byte order. A header ends with its own CRC-32, and has that of the payload. The secret
travels in the clear: it keeps jobs apart, but does not help against somebody who reads the network.
"""

from __future__ import annotations

import dataclasses
import enum
import hmac
import struct
import zlib

from jaxina.errors import InvalidArgumentError, JobRejectedError

MAGIC = b"jxfb"
PROTOCOL = 1
MAX_NAMES = 4096
"""Of the updates in a sum."""

_START = struct.Struct("!4sBBHQQQI")
_CHECKSUM = struct.Struct("!I")
START_BYTES = _START.size
"""What must be read to know how long the header is."""


class Kind(enum.IntEnum):
    """What a frame carries.

    Its version is that of the model that an update was computed from, the newest of these for a sum, and for a model
    its own. The names are those of the updates, or of the request for the model.
    """

    UPDATE = 1
    """One update, as the job's compressor packs it."""
    SUM = 2
    """A sum of updates, float32, little endian."""
    MODEL = 3
    """The model, float32, little endian."""
    STATE = 4
    """The model, and the optimizer's state, float32, little endian."""
    LOST = 5
    """Nothing. In a log: the turn of the named update, which the server did not get."""


@dataclasses.dataclass(frozen=True, slots=True)
class Header:
    """What a frame says of itself.

    Attributes:
      kind: what it carries.
      secret: the job's.
      names: at least one, without repetition.
      version: see `Kind`.
      size: bytes of the payload.
      checksum: CRC-32 of the payload.
    """

    kind: Kind
    secret: int = dataclasses.field(repr=False)
    names: tuple[int, ...]
    version: int
    size: int
    checksum: int

    @property
    def length(self) -> int:
        """How long the header is."""
        return header_bytes(len(self.names))

    def pack(self) -> bytes:
        """The header's bytes."""
        start = _START.pack(
            MAGIC, PROTOCOL, self.kind, len(self.names), self.secret, self.version, self.size, self.checksum
        )
        text = start + struct.pack(f"!{len(self.names)}Q", *self.names)
        return text + _CHECKSUM.pack(zlib.crc32(text))

    def check(self, payload: bytes | bytearray | memoryview) -> None:
        """Compares the payload with the header.

        Raises:
          InvalidArgumentError: it has another length or another checksum.
        """
        if len(payload) != self.size:
            raise InvalidArgumentError(f"the payload has {len(payload)} bytes, and its header says {self.size}")
        if zlib.crc32(payload) != self.checksum:
            raise InvalidArgumentError("the payload is not what its header's checksum says: it was changed on its way")


def header_bytes(names: int) -> int:
    """How long the header of a frame with so many names is."""
    return START_BYTES + 8 * names + _CHECKSUM.size


def header_of(kind: Kind, secret: int, names: tuple[int, ...], version: int, payload: bytes | memoryview) -> Header:
    """The header for a payload."""
    return Header(kind, secret, names, version, len(payload), zlib.crc32(payload))


def names_in(start: bytes) -> int:
    """How many names follow the first `START_BYTES` of a header.

    Raises:
      InvalidArgumentError: it is no header.
    """
    magic, protocol, _, names, *_ = _START.unpack(start)
    if magic != MAGIC:
        raise InvalidArgumentError("these are no frames of jaxina.fabric")
    if protocol != PROTOCOL:
        raise InvalidArgumentError(f"the frame has version {protocol} of the protocol, and this host {PROTOCOL}")
    if not 1 <= names <= MAX_NAMES:
        raise InvalidArgumentError(f"a frame has 1 to {MAX_NAMES} names, not {names}")
    return int(names)


def unpack(text: bytes, secret: int) -> Header:
    """Reads a whole header.

    Args:
      text: `header_bytes` of it.
      secret: the job's.

    Raises:
      InvalidArgumentError: it is no header, or was changed on its way.
      JobRejectedError: its secret is not the job's.
    """
    count = names_in(text[:START_BYTES])
    if len(text) != header_bytes(count):
        raise InvalidArgumentError(f"a header with {count} names has {header_bytes(count)} bytes, not {len(text)}")
    if _CHECKSUM.unpack(text[-_CHECKSUM.size :])[0] != zlib.crc32(text[: -_CHECKSUM.size]):
        raise InvalidArgumentError("the header is not what its checksum says: it was changed on its way")
    _, _, kind, _, its_secret, version, size, checksum = _START.unpack(text[:START_BYTES])
    if not hmac.compare_digest(its_secret.to_bytes(8, "big"), secret.to_bytes(8, "big")):
        raise JobRejectedError("the frame's secret is not this job's")
    if kind not in list(Kind):
        raise InvalidArgumentError(f"there is no kind of frame {kind}")
    names = struct.unpack(f"!{count}Q", text[START_BYTES : -_CHECKSUM.size])
    if len(set(names)) < count:
        raise InvalidArgumentError("the frame names an update twice")
    return Header(Kind(kind), its_secret, names, version, size, checksum)
