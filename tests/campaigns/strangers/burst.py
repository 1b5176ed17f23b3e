"""Sends many datagrams by one system call (sendmmsg), for which Python has no function."""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Sequence

_libc = ctypes.CDLL(None, use_errno=True)


class _Part(ctypes.Structure):  # struct iovec
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


class _Message(ctypes.Structure):  # struct mmsghdr
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_size", ctypes.c_uint32),
        ("parts", ctypes.POINTER(_Part)),
        ("part_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("sent", ctypes.c_uint),
    )


class Burst:
    """Sends `count` datagrams with the same payload at once, to each port by turns. Linux allows at most 1024."""

    def __init__(self, host: str, ports: Sequence[int], payload: bytes, count: int):
        self._payload = ctypes.create_string_buffer(payload, len(payload))
        self._part = _Part(ctypes.cast(self._payload, ctypes.c_void_p), len(payload))
        self._messages = (_Message * count)()
        for message in self._messages:
            message.parts, message.part_count = ctypes.pointer(self._part), 1
        self._sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in ports]
        for one, port in zip(self._sockets, ports, strict=True):
            one.connect((host, port))

    def send(self) -> None:
        """Sends the datagrams to the next port. What does not fit into our own queue is lost, as on any network."""
        self._sockets.append(self._sockets.pop(0))
        _libc.sendmmsg(self._sockets[0].fileno(), self._messages, len(self._messages), socket.MSG_DONTWAIT)
