"""Networks and a shared memory of one's own. They need root."""

from __future__ import annotations

import ctypes
import os
import subprocess

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000


def own_shared_memory(options: bytes = b"") -> None:
    """A /dev/shm of this process and its children alone."""
    if _libc.unshare(_CLONE_NEWNS) or _libc.mount(b"none", b"/", None, (1 << 18) | (1 << 14), None):  # private
        raise OSError(ctypes.get_errno(), "unshare")
    if _libc.mount(b"none", b"/dev/shm", b"tmpfs", 0, options):
        raise OSError(ctypes.get_errno(), "mount")


class Namespaces:
    """hub -- w0, hub -- w1: three network namespaces joined by veth pairs."""

    hub = "10.213.0.1"

    def __init__(self) -> None:
        self._tag = f"jx{os.getpid() % 100000}"

    @staticmethod
    def unavailable() -> str:
        """Returns why there can be no namespaces here, or an empty string if there can be."""
        if os.geteuid() != 0:
            return "network namespaces need root"
        probe = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
        return "" if probe.returncode == 0 else f"no network namespaces here: {probe.stderr.strip()}"

    def __enter__(self) -> Namespaces:
        try:
            for name in ("hub", "w0", "w1"):
                self._ip("netns", "add", self._tag + name)
                self._ip("-n", self._tag + name, "link", "set", "lo", "up")
            self._ip("-n", self._tag + "hub", "address", "add", f"{self.hub}/32", "dev", "lo")
            for number, name in enumerate(("w0", "w1"), start=1):
                hub, worker = self._tag + "hub", self._tag + name
                self._ip("-n", hub, "link", "add", name, "type", "veth", "peer", "name", "uplink", "netns", worker)
                self._ip("-n", hub, "address", "add", f"10.213.{number}.1/24", "dev", name)
                self._ip("-n", hub, "link", "set", name, "up")
                self._ip("-n", worker, "address", "add", f"10.213.{number}.2/24", "dev", "uplink")
                self._ip("-n", worker, "link", "set", "uplink", "up")
                self._ip("-n", worker, "route", "add", f"{self.hub}/32", "via", f"10.213.{number}.1")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in ("hub", "w0", "w1"):
            subprocess.run(["ip", "netns", "delete", self._tag + name], capture_output=True)

    @staticmethod
    def _ip(*arguments: str) -> None:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")

    def run_in(self, name: str) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self._tag + name)

    def enter(self, name: str) -> None:
        with open(f"/run/netns/{self._tag}{name}") as space:
            if _libc.setns(space.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")

    def unplug(self, name: str) -> None:
        self._ip("-n", self._tag + "hub", "link", "set", name, "down")
