"""The types that settings have: how each is read from text, and what is allowed."""

from __future__ import annotations

import dataclasses
import ipaddress
import math
from collections.abc import Callable
from typing import Any

from jaxina.config.addresses import split_address, split_device

_LONGEST_INTERFACE = 15  # characters that Linux allows in an interface's name
TOKEN_CHARACTERS = (16, 256)  # the least and the most characters of JAXINA_TOKEN


@dataclasses.dataclass(frozen=True)
class Kind:
    """A type of setting.

    Attributes:
      parse: converts a text to the value. It raises ValueError if the text is not allowed.
      allowed: what is allowed, in words.
      secret: whether the value must never be printed.
    """

    parse: Callable[[str], Any]
    allowed: str
    secret: bool = False


def integer(low: int, high: int) -> Kind:
    """An integer from `low` to `high`, both included."""

    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return Kind(parse, f"an integer from {low} to {high}")


def seconds() -> Kind:
    """A duration in seconds: above 0, and at most a day."""

    def parse(text: str) -> float:
        value = float(text)
        if not 0 < value <= 86400:
            raise ValueError
        return value

    return Kind(parse, "seconds, above 0 and at most 86400")


def seconds_or_never() -> Kind:
    """A duration in seconds, or infinity for never."""

    def parse(text: str) -> float:
        return math.inf if text == "inf" else float(seconds().parse(text))

    return Kind(parse, f"{seconds().allowed}, or inf for never")


def share() -> Kind:
    """A share from 0 to below 1."""

    def parse(text: str) -> float:
        value = float(text)
        if not 0 <= value < 1:
            raise ValueError
        return value

    return Kind(parse, "a share from 0 to below 1, such as 0.01")


def choice(*names: str) -> Kind:
    """One of some names."""

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError
        return text

    return Kind(parse, "one of " + ", ".join(names))


def one_of(*values: int) -> Kind:
    """One of some integers."""

    def parse(text: str) -> int:
        if int(text) not in values:
            raise ValueError
        return int(text)

    return Kind(parse, "one of " + ", ".join(map(str, values)))


def host_and_port() -> Kind:
    """An address, as `split_address` takes it."""

    def parse(text: str) -> str:
        split_address(text)
        return text

    return Kind(parse, "HOST:PORT, such as 10.0.0.1:51000 or [::1]:51000")


def interfaces() -> Kind:
    """Names of network interfaces, or subnets, with commas between."""

    def parse(text: str) -> str:
        for one in text.split(","):
            if "/" in one:
                ipaddress.ip_network(one, strict=False)
            elif not one or len(one) > _LONGEST_INTERFACE or not all("!" <= letter <= "~" for letter in one):
                raise ValueError
        return text

    return Kind(
        parse, "the name of a network interface or a subnet, such as eth1 or 10.0.0.0/24, or several with commas"
    )


def port_range() -> Kind:
    """A range of ports, as a tuple of all of them."""

    def parse(text: str) -> tuple[int, ...]:
        first, _, last = text.partition("-")
        if not 0 < int(first) <= int(last or first) < 65536:
            raise ValueError
        return tuple(range(int(first), int(last or first) + 1))

    return Kind(parse, "FIRST-LAST, such as 50100-50199")


def hosts_and_ports() -> Kind:
    """Addresses, as `split_address` takes them, with commas between."""

    def parse(text: str) -> str:
        for one in text.split(","):
            split_address(one)
        return text

    return Kind(parse, "HOST:PORT, or several with commas between, such as 10.0.0.1:51000,10.0.0.2:51000")


def path() -> Kind:
    """The name of a file."""
    return Kind(str, "a file name")


def token() -> Kind:
    """A token for calls to a switch. Secret."""
    low, high = TOKEN_CHARACTERS

    def parse(text: str) -> str:
        if not low <= len(text) <= high or not all("!" <= character <= "~" for character in text):
            raise ValueError
        return text

    return Kind(parse, f"{low} to {high} printable ASCII characters, no spaces", secret=True)


def rdma_device() -> Kind:
    """An RDMA device, as `split_device` takes it."""

    def parse(text: str) -> str:
        split_device(text)
        return text

    return Kind(parse, "NAME, NAME:PORT or NAME:PORT:GID, such as mlx5_0:1:3")
