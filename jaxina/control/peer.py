"""The address that a call comes from, as quotas use it."""

from __future__ import annotations

import ipaddress
import urllib.parse

_NETWORK = 64  # bits of an IPv6 address that name a network; one host may have all addresses in it


def address_of(peer: str) -> str:
    """Extracts the address from gRPC's peer string, such as ``ipv4:10.0.0.1:5`` or ``ipv6:%5B::1%5D:5``.

    Returns:
      An IPv4 address without the port; of an IPv6 address its network; of a peer that has no IP address the kind of
      peer, such as "unix".
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
