"""The campaign's network: two network namespaces of its own, joined by a link.

    hub: the switch and the workers at 10.214.1.1   --   stranger: the attacker at 10.214.1.2

The rest of the subnet has no hosts.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

from real_processes.namespaces import Namespaces

HUB, STRANGER = "10.214.1.1", "10.214.1.2"
BROADCAST = "10.214.1.255"
SILENT_RESOLVER = "10.214.1.2"  # the stranger does not answer questions about names
# Addresses without a host. They are few enough for the kernel's table of neighbours, which all namespaces share.
ABSENT = [f"10.214.1.{host}" for host in range(20, 250)]
_LARGEST_MTU = 65535  # a raw socket does not fragment


class Network(Namespaces):
    hub = HUB

    def __init__(self) -> None:
        self._tag = f"jxs{os.getpid() % 100000}"
        self._files = pathlib.Path(f"/etc/netns/{self._tag}hub")  # `ip netns exec` mounts these files over /etc

    def __enter__(self) -> Network:
        try:
            for name in ("hub", "stranger"):
                self._ip("netns", "add", self._tag + name)
                self._ip("-n", self._tag + name, "link", "set", "lo", "up")
            hub, stranger = self._tag + "hub", self._tag + "stranger"
            pair = ("outside", "type", "veth", "peer", "name", "uplink", "netns", stranger)
            self._ip("-n", hub, "link", "add", *pair)
            for name, device, address in ((hub, "outside", HUB), (stranger, "uplink", STRANGER)):
                self._ip("-n", name, "address", "add", f"{address}/24", "dev", device)
                self._ip("-n", name, "link", "set", device, "mtu", str(_LARGEST_MTU), "up")
            # Let packets through whose source a careless router would accept: the switch's own address, its broadcast.
            for where in ("all", "outside"):
                for name, value in (("accept_local", 1), ("rp_filter", 0)):
                    self._set("hub", f"net/ipv4/conf/{where}/{name}", value)
            self._files.mkdir(parents=True)
            (self._files / "resolv.conf").write_text(f"nameserver {SILENT_RESOLVER}\n")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in ("hub", "stranger"):
            subprocess.run(["ip", "netns", "delete", self._tag + name], capture_output=True)
        shutil.rmtree(self._files, ignore_errors=True)

    def _set(self, name: str, key: str, value: int) -> None:
        write = f"echo {value} > /proc/sys/{key}"
        subprocess.run([*self.run_in(name), "sh", "-c", write], check=True, capture_output=True)
