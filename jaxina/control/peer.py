"""Whom a call comes from, as far as quotas are concerned."""

from __future__ import annotations

import ipaddress
import urllib.parse

_NETWORK = 64  # bits of an IPv6 address: a host may have all the rest


def address_of(peer: str) -> str:
    """The address in gRPC's `peer` (`ipv4:10.0.0.1:5`, `ipv6:%5B::1%5D:5`), without the port. Of an
    IPv6 address, its network; what is no IP address stands for itself.
    """
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return kind
    host = urllib.parse.unquote(rest).rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return kind
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, _NETWORK), strict=False))
