"""Which of a host's addresses a process uses: the one that JAXINA_INTERFACE names, or the one of the route."""

from __future__ import annotations

import dataclasses
import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import TypeVar

from jaxina import _native
from jaxina.config import split_address, variable
from jaxina.errors import InvalidArgumentError, SystemCallError

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class InterfaceAddress:
    """One address of a network interface of this host.

    Attributes:
      interface: the interface's name.
      address: numeric.
      prefix_length: of its subnet, in bits.
      mtu: bytes.
      up: whether the interface is up and has a link.
      loopback: whether it is the loopback interface.
    """

    interface: str
    address: str
    prefix_length: int
    mtu: int
    up: bool
    loopback: bool

    def __str__(self) -> str:
        return f"{self.interface} ({self.address}/{self.prefix_length}{'' if self.up else ', down'})"


def addresses() -> list[InterfaceAddress]:
    """All IPv4 and IPv6 addresses of this host, without IPv6's link-local ones."""
    return [InterfaceAddress(*one) for one in _native.interface_addresses()]


def named(wanted: str, family: int | None = None, given: str = "") -> str:
    """The address that names of interfaces or subnets choose.

    Args:
      wanted: names of interfaces, or subnets, with commas between. The first that this host has is taken. Of several
        addresses of an interface the first is taken.
      family: AF_INET or AF_INET6, if only such an address will do.
      given: what the user has given, for messages. Empty: the setting.

    Returns:
      A numeric address of an interface that is up.

    Raises:
      InvalidArgumentError: no interface that is up has such an address. The message lists what there is.
    """
    here = addresses()
    for one in wanted.split(","):
        for found in here:
            if _matches(one, found) and found.up and family in (None, _family(found.address)):
                return found.address
    what = "" if family is None else " and an IPv6 address" if family == socket.AF_INET6 else " and an IPv4 address"
    raise InvalidArgumentError(
        f"{given or variable('interface') + '=' + wanted}: this host has no interface of that name or subnet "
        f"that is up{what}. It has "
        f"{', '.join(map(str, here)) or 'none'}"
    )


def _matches(wanted: str, found: InterfaceAddress) -> bool:
    if "/" not in wanted:
        return found.interface == wanted
    network = ipaddress.ip_network(wanted, strict=False)
    address = ipaddress.ip_address(found.address)
    return address.version == network.version and address in network


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def own_host_towards(coordinator: str | None, interface: str | None) -> str:
    """The numeric address at which the other processes of a job reach this one.

    Args:
      coordinator: HOST:PORT. If it is None, this process is alone, and the result is the loopback address.
      interface: the setting. None: the interface towards the coordinator.

    Raises:
      InvalidArgumentError: no interface of this host fits `interface`.
      SystemCallError: there is no route to the coordinator.
    """
    if coordinator is None:
        return "127.0.0.1"
    host, port = split_address(coordinator)
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        if interface is not None:
            return named(interface, family)
        with socket.socket(family, kind) as way:
            way.connect(address)  # sends nothing
            return str(way.getsockname()[0])
    except OSError as error:
        raise SystemCallError(f"there is no route to the job's coordinator {coordinator}: {error}") from error


def resolve_bind(bind: str, option: str = "--bind") -> str:
    """Replaces the name of an interface, or a subnet, in an address to listen at by the interface's address.

    Args:
      bind: HOST:PORT, INTERFACE:PORT or SUBNET:PORT.
      option: the option that it comes from, for messages.

    Returns:
      HOST:PORT.

    Raises:
      InvalidArgumentError: no interface has an address in the subnet, or the text is no such address.
    """
    try:
        host, port = split_address(bind)
        if "/" in host:
            ipaddress.ip_network(host, strict=False)
    except ValueError as error:
        raise InvalidArgumentError(f"{option} {bind}: {error}") from None
    if "/" in host or any(host == one.interface for one in addresses()):
        return with_port(named(host, given=f"{option} {bind}"), port)
    return bind


def with_port(host: str, port: int) -> str:
    """HOST:PORT, with the brackets that an IPv6 address needs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listening_address(address: str, interface: str | None) -> str:
    """Where the first host of a job listens for others that know it by `address`.

    Args:
      address: HOST:PORT, as it was given to all hosts.
      interface: the setting.

    Returns:
      HOST:PORT. If HOST is a name, and `interface` is given, it becomes that interface's address.

    Raises:
      InvalidArgumentError: no interface fits; or this host's own tables say that HOST is the loopback address, at which
        no other host reaches it.
    """
    host, port = split_address(address)
    if host == "localhost" or _is_numeric(host):
        return address
    if interface is not None:
        return with_port(named(interface), port)
    try:
        found = str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise InvalidArgumentError(f"{address}: unknown host: {error.strerror}") from error
    if ipaddress.ip_address(found).is_loopback:
        raise InvalidArgumentError(
            f"{address}: on this host, {host} is {found} (see /etc/hosts), which no other host reaches. Give "
            "an address in "
            f"numbers, or set {variable('interface')} on every host. This host has "
            f"{', '.join(str(one) for one in addresses() if not one.loopback) or 'no network interface'}"
        )
    return address


def described(address: str) -> str:
    """The address HOST:PORT with its interface's name, such as "10.0.0.1:51000 of eth1", for messages."""
    host, _ = split_address(address)
    found = next((one.interface for one in addresses() if one.address == host), None)
    return address if found is None else f"{address} of {found}"


def at_free_port(ports: Sequence[int], host: str, make: Callable[[int], T]) -> T:
    """Calls `make` with one port after the other until it does not raise InvalidArgumentError.

    Args:
      ports: the ports; empty: 0, so that the system chooses one.
      host: the address, for messages.
      make: listens at a port.

    Raises:
      InvalidArgumentError: every port is taken. The message has the last one's reason.
    """
    for port in ports or (0,):
        try:
            return make(port)
        except InvalidArgumentError as error:
            why = error
    if not ports:
        raise why
    raise InvalidArgumentError(
        f"{variable('ports')}={ports[0]}-{ports[-1]}: no port of {host} in this range can be used. The last "
        f"one: {why.message}"
    )
