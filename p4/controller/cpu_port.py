"""The chip's port to the controller's host: frames for the switch itself come here and are answered.

The data plane forwards broadcasts to this port, and what is sent to the switch's MAC address and is no update. An
answer goes back into the chip, which forwards it as it forwards all other traffic.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import struct
import threading
from typing import Protocol

from jaxina.controller.answers import answer
from jaxina.controller.chip import Chip
from jaxina.errors import InvalidArgumentError, SystemCallError

_log = logging.getLogger("jaxina.switch")

_ALL_PROTOCOLS, _VLAN = 0x0003, 0x8100  # ETH_P_ALL, ETH_P_8021Q
_SOL_PACKET, _ADD_MEMBERSHIP, _AUXILIARY_DATA, _UNICAST = 263, 1, 8, 3  # of linux/if_packet.h
_MEMBERSHIP = struct.Struct("=iHH8s")  # packet_mreq: interface, type, length of the address, the address
# tpacket_auxdata: status, lengths, offsets, and the tag that the kernel has taken off the frame: TCI and TPID
_AUXILIARY = struct.Struct("=IIIHHHH")
_HAS_TAG = 1 << 4  # of the status
_LONGEST = 65536  # bytes; more than a frame has
_POLL = 0.2  # seconds


class Frames(Protocol):
    """A way to the chip's port."""

    def receive(self, timeout: float) -> bytes | None:
        """Waits for a frame, at most `timeout` seconds. Raises SystemCallError if there is no way any more."""
        ...

    def send(self, frame: bytes) -> None:
        """Sends a frame, or loses it. Raises SystemCallError if there is no way any more."""
        ...

    def close(self) -> None: ...


class PacketSocket:
    """The frames of a network interface of this host.

    Args:
      interface: such as that of the driver's kernel module for the chip's port.
      mac: a MAC address whose frames the interface takes, besides its own.

    Raises:
      InvalidArgumentError: if there is no such interface, or this process may not read its frames.
    """

    def __init__(self, interface: str, mac: int):
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
        except OSError as error:
            raise InvalidArgumentError(
                f"cannot read frames ({error.strerror}): run the switch as root or with CAP_NET_RAW, or leave [cpu] "
                "out of its file"
            ) from None
        try:
            self._socket.bind((interface, _ALL_PROTOCOLS))
            wanted = _MEMBERSHIP.pack(socket.if_nametoindex(interface), _UNICAST, 6, mac.to_bytes(6))
            self._socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, wanted)
            self._socket.setsockopt(_SOL_PACKET, _AUXILIARY_DATA, 1)
        except OSError as error:
            self._socket.close()
            raise InvalidArgumentError(f"the interface {interface} of [cpu] cannot be used: {error.strerror}") from None
        self._interface = interface

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self, timeout: float) -> bytes | None:
        self._socket.settimeout(timeout)
        try:
            frame, about, _, (_, _, kind, _, _) = self._socket.recvmsg(_LONGEST, socket.CMSG_SPACE(_AUXILIARY.size))
        except TimeoutError:
            return None
        except OSError as error:
            raise SystemCallError(f"reading frames of {self._interface}: {error.strerror}") from error
        return None if kind == socket.PACKET_OUTGOING else _with_tag(frame, about)

    def send(self, frame: bytes) -> None:
        try:
            self._socket.send(frame)
        except OSError as error:
            raise SystemCallError(f"sending a frame by {self._interface}: {error.strerror}") from error

    def close(self) -> None:
        self._socket.close()


def _with_tag(frame: bytes, about: list[tuple[int, int, bytes]]) -> bytes:
    """Puts the tag back that Linux takes off each frame."""
    for level, kind, data in about:
        if (level, kind) == (_SOL_PACKET, _AUXILIARY_DATA) and len(data) == _AUXILIARY.size:
            status, *_, tag, tag_type = _AUXILIARY.unpack(data)
            if status & _HAS_TAG:
                return frame[:12] + struct.pack(">HH", tag_type or _VLAN, tag) + frame[12:]
    return frame


class CpuPort:
    """Answers frames for the switch on a thread of its own, from construction to `stop`.

    Args:
      frames: the way to the chip's port.
      chip: the switch's description, with `cpu`.
    """

    def __init__(self, frames: Frames, chip: Chip):
        if chip.cpu is None:
            raise InvalidArgumentError("the switch's file has no [cpu]")
        self._frames = frames
        self._mac = chip.cpu.mac.to_bytes(6)
        self._address = ipaddress.IPv4Address(chip.address).packed
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jaxina-cpu-port", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._frames.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                frame = self._frames.receive(_POLL)
                if frame is not None and (reply := answer(frame, self._mac, self._address)) is not None:
                    self._frames.send(reply)
            except SystemCallError as error:
                _log.error("%s", error)
                self._stopping.wait(_POLL)
