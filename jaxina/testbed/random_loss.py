"""Random loss on a link, by an eBPF program of six instructions.

tc's netem drops packets too, but many kernels of virtual machines lack it. All of them have classifiers in eBPF.

The program runs at the bridge's port, in both directions. At the sender's own egress it could not run: a drop there
would be reported to the sender.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jaxina.errors import SystemCallError
from jaxina.testbed import links

_SYSTEM_CALL = {"x86_64": 321, "aarch64": 280}
_LOAD, _PIN = 5, 6  # commands of bpf(2)
_CLASSIFIER = 3  # BPF_PROG_TYPE_SCHED_CLS
_RANDOM = 7  # the helper bpf_get_prandom_u32
_PASS, _DROP = 0, 2  # TC_ACT_OK, TC_ACT_SHOT


def instructions(loss: float) -> bytes:
    """Makes the program. It drops a packet if a random number of 32 bits is below loss x 2^32."""
    threshold = round(loss * 2**32)
    signed = threshold - 2**32 if threshold >= 2**31 else threshold

    def instruction(code: int, offset: int = 0, immediate: int = 0) -> bytes:
        return struct.pack("<BBhi", code, 0, offset, immediate)  # all of them use register 0

    return b"".join(
        (
            instruction(0x85, immediate=_RANDOM),  # call
            instruction(0xA6, offset=2, immediate=signed),  # if r0 < threshold skip 2; 32 bits, unsigned
            instruction(0xB7, immediate=_PASS),  # r0 = ...
            instruction(0x95),  # exit
            instruction(0xB7, immediate=_DROP),
            instruction(0x95),
        )
    )


@contextlib.contextmanager
def pinned(loss: float) -> Iterator[Path]:
    """Loads the program, and yields a file that names it, for ``tc filter ... bpf da object-pinned FILE``. Needs root.

    Raises:
      SystemCallError: the kernel does not accept the program, or refuses the mount of its file system.
    """
    with tempfile.TemporaryDirectory(prefix="jaxina-bpf-") as folder:
        links.run("mount", "-t", "bpf", "none", folder)
        try:
            path = Path(folder) / "loss"
            program = _load(loss)
            try:
                name = ctypes.create_string_buffer(os.fsencode(path))
                _bpf(_PIN, struct.pack("<QII", ctypes.addressof(name), program, 0))
            finally:
                os.close(program)
            yield path
        finally:
            links.run("umount", folder)


def _load(loss: float) -> int:
    text = instructions(loss)
    code, licence = ctypes.create_string_buffer(text), ctypes.create_string_buffer(b"Apache-2.0")
    addresses = ctypes.addressof(code), ctypes.addressof(licence)
    return _bpf(_LOAD, struct.pack("<IIQQIIQII", _CLASSIFIER, len(text) // 8, *addresses, *[0] * 5))


def _bpf(command: int, attributes: bytes) -> int:
    number = _SYSTEM_CALL.get(os.uname().machine)
    if number is None:
        raise SystemCallError(f"random loss is not supported on {os.uname().machine}")
    libc = ctypes.CDLL(None, use_errno=True)
    held = ctypes.create_string_buffer(attributes, len(attributes))
    result = libc.syscall(number, command, held, len(attributes))
    if result < 0:
        raise SystemCallError(f"bpf(2), for random loss: {os.strerror(ctypes.get_errno())}")
    return result
