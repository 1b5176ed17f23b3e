"""The configuration. Every ``JAXINA_*`` variable is declared here, once.

A value comes from an argument of `jaxina.init` or an option of the command line. If there is none, it comes from the
environment, and else from the default. ``jaxina info`` prints all settings, and where each value came from.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from jaxina._native import (
    MAX_BLOCK_SIZE,
    MAX_BLOCKS_PER_CHUNK,
    MAX_SLOTS,
    MAX_WORKERS,
    MIN_BLOCK_SIZE,
    JobShape,
    check_encryption,
)
from jaxina.errors import InvalidArgumentError

BITS = (8, 16, 32, 64)
ROUNDINGS = ("nearest", "stochastic")
AGGREGATORS = ("embedded", "direct", "atp", "udp", "roce", "verbs", "netreduce")
PREFIX = "JAXINA_"

_RING_AND_SWITCH = "netreduce with a switch"  # a default of netreduce for jobs that name a switch
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


def split_address(text: str) -> tuple[str, int]:
    """Splits ``HOST:PORT`` or ``[IPv6]:PORT`` into the host, without brackets, and the port.

    Raises:
      ValueError: the text is not such an address. The message says why.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address needs brackets, such as [::1]:51000")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host, int(port)


RdmaDevice = tuple[str, int | None, int | None]  # name, port and GID index; "" and None mean any


def split_device(text: str) -> RdmaDevice:
    """Splits ``NAME[:PORT[:GID]]`` into an RDMA device's name, its port and the index of a GID.

    Raises:
      ValueError: the text is not such a device.
    """
    match = re.fullmatch(r"([^:\s]+)(?::(\d{1,3})(?::(\d{1,3}))?)?", text, re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} is not NAME[:PORT[:GID]]")
    port, gid_index = (None if number is None else int(number) for number in match.groups()[1:])
    if (port is not None and not 1 <= port <= 255) or (gid_index is not None and gid_index > 255):
        raise ValueError(f"{text!r} has a port that is not from 1 to 255, or a GID index above 255")
    return match.group(1), port, gid_index


def rdma_device() -> Kind:
    """An RDMA device, as `split_device` takes it."""

    def parse(text: str) -> str:
        split_device(text)
        return text

    return Kind(parse, "NAME, NAME:PORT or NAME:PORT:GID, such as mlx5_0:1:3")


def _setting(kind: Kind, default: Any, doc: str) -> Any:
    metadata = {"kind": kind, "default": default, "doc": doc}
    return dataclasses.field(default=None, repr=not kind.secret, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Configuration:
    """A resolved configuration: one attribute per setting, and where each value came from.

    docs/configuration.md describes the settings. A default that is a dict depends on the aggregator, and on whether
    a switch is named.

    Attributes:
      origins: for each setting "argument", "environment" or "default".
    """

    aggregator: str = _setting(
        choice(*AGGREGATORS),
        "embedded",
        "Where arrays are summed: in shared memory of this host (embedded), by the workers themselves over a network "
        "(direct), the same with switches that combine updates on the way (atp), or at a switch that is reached by "
        "datagrams (udp), by RDMA from user space (roce) or by an RDMA NIC (verbs). Or in a ring of reliable RDMA "
        "connections between the workers, also through a switch that adds what passes (netreduce).",
    )
    switch: str = _setting(
        hosts_and_ports(),
        "127.0.0.1:51000",
        "Control address of the switch (atp, udp, roce, verbs; netreduce has one only if it is named). `jaxina switch` "
        "starts a switch. With atp, several "
        "addresses with commas between: slot i then goes through switch i mod their number. With atp, each worker may "
        "name the switch of its own rack.",
    )
    servers: str | None = _setting(
        hosts_and_ports(),
        None,
        "Control addresses of hosts that sum instead of the workers (direct, atp): `jaxina switch` on each.",
    )
    interface: str | None = _setting(
        interfaces(),
        None,
        "Network interface that this process uses for the others, by its name or by the subnet of its address. Of "
        "several, the first that this host has. If not set, the interface towards the job's coordinator.",
    )
    ports: tuple[int, ...] | None = _setting(
        port_range(),
        None,
        "Ports at which this process may listen: for packets of its server (UDP; direct, atp), for control calls (TCP; "
        "direct, atp, netreduce) and for XLA's own collectives (TCP). It takes the first that is free, so all "
        "processes of "
        "a host may have the same range: three ports for each. If not set, the system picks them.",
    )
    token: str | None = _setting(
        token(),
        None,
        "The token that a switch asks its callers for, if it was started with one. The switch, its workers and `jaxina "
        "status` must have the same. With direct, the workers ask each other for it. It is read from the environment "
        "only, or by `jaxina switch --token-file`. Without TLS it travels unencrypted, so it does not keep out those "
        "who can read the network.",
    )
    tls_authority: str | None = _setting(
        path(),
        None,
        "Certificate of the authority that issues the certificates of the cluster's processes, PEM. With it "
        "and the next two, control calls, those to the coordinator and metrics are encrypted, and both ends must have "
        "a certificate of the authority. It needs the package cryptography (`pip install 'jaxina[tls]'`).",
    )
    tls_certificate: str | None = _setting(
        path(), None, "This process's certificate, PEM, with the DNS name jaxina. All processes may have the same."
    )
    tls_key: str | None = _setting(path(), None, "The private key of that certificate, PEM, without a password.")
    encryption: str = _setting(
        choice("yes", "no"),
        "no",
        "Whether the packets of sums are encrypted, with AES-128-GCM (udp, direct). All processes of a job must have "
        "the same. It needs TLS, by which the keys travel, and OpenSSL 3 on every host. With embedded no packet leaves "
        "the host, so nothing is done. The other aggregators cannot encrypt, and are refused.",
    )
    slots: int = _setting(
        integer(1, MAX_SLOTS),
        {
            "embedded": 8,
            "direct": 128,
            "atp": 128,
            "udp": 128,
            "roce": 16,
            "verbs": 64,
            "netreduce": 28,  # a pass takes 2 (n - 1) steps there
            _RING_AND_SWITCH: 3,  # what is in flight behind a lost packet is sent again: docs/netreduce.md
        },
        "Pool size s: how many chunks of a group may be in flight at once.",
    )
    block_size: int = _setting(
        integer(MIN_BLOCK_SIZE, MAX_BLOCK_SIZE),
        256,
        "Block size k: how many elements share one exponent.",
    )
    blocks_per_chunk: int = _setting(
        integer(1, MAX_BLOCKS_PER_CHUNK),
        {"embedded": 32, "direct": 1, "atp": 1, "udp": 1, "roce": 16, "verbs": 16, "netreduce": 16},
        "How many blocks one slot pass carries. The defaults are for blocks of 256 elements. With another block size, "
        "the default is as many blocks as make a chunk of the same size, but at least 1.",
    )
    bits: int = _setting(
        one_of(*BITS),
        32,
        "Bits that a float of at most 32 bits takes on the wire, unless `jaxina.collectives` says otherwise. 8 and 16 "
        "are for large arrays only.",
    )
    rounding: str = _setting(
        choice(*ROUNDINGS), "nearest", "How 8 and 16 bits are rounded, unless `jaxina.collectives` says otherwise."
    )
    join_timeout: float = _setting(
        seconds(), 60.0, "How long to wait for the other workers and for the switch when joining."
    )
    timeout: float = _setting(seconds(), 300.0, "How long one collective may take.")
    late_after: float | None = _setting(
        seconds_or_never(),
        None,
        "After how long a collective is late. Then the watchdog says which worker has not come, and what it is doing. "
        "If not set, a fifth of JAXINA_TIMEOUT. inf: never.",
    )
    heartbeat_timeout: float = _setting(
        seconds(),
        20.0,
        "How long a worker may be silent before it is taken for dead. If its process ends, that is noticed at once.",
    )
    loss: float = _setting(
        share(),
        0.0,
        "Share of arriving packets to drop, for experiments (direct, atp, udp, roce, netreduce; not with an RDMA "
        "device).",
    )
    loss_seed: int = _setting(integer(0, 2**64 - 1), 0, "Seed that chooses the dropped packets.")
    rdma_device: str | None = _setting(
        rdma_device(),
        None,
        "RDMA device to use (verbs, netreduce), as `rdma link` names it, perhaps with a port and the index of a GID. "
        "Without these, the first port and GID that have RoCEv2 over IPv4. If not set, verbs takes any device, and "
        "netreduce uses sockets.",
    )
    codec: str | None = _setting(
        choice("scalar", "avx2", "avx512"),
        None,
        "Instruction set of the CPU codec. If not set, the widest that the processor has. Read from the environment "
        "only.",
    )
    keep_memory: str = _setting(
        choice("yes", "no"),
        "yes",
        "Whether `jaxina run` makes its workers' malloc keep freed memory, in huge pages (glibc only). Otherwise "
        "malloc gives it back to the system, which must clear it again for every result.",
    )
    strict: str = _setting(
        choice("yes", "no"),
        "no",
        "Whether to refuse a program, when it is compiled, if one of its sums stays with XLA without being in "
        "`jaxina.collectives(False)`.",
    )
    catch_all: str = _setting(
        choice("yes", "no"),
        "yes",
        "Whether jaxina also takes XLA's own collectives, above all those that the partitioner inserts. This needs "
        "arrays on CPU, one device per process, and `init` before JAX's backend starts.",
    )
    log: str = _setting(
        choice("debug", "info", "warning", "error"),
        "warning",
        "Lowest level that the `jaxina` logger prints to stderr. `jaxina run` sets info for process 0.",
    )
    coordinator: str | None = _setting(
        host_and_port(),
        None,
        "Address of the coordinator, where the processes find each other. Set by `jaxina run`, or printed by `jaxina "
        "coordinator`.",
    )
    keeper: str | None = _setting(
        host_and_port(),
        None,
        "Address of the keeper of an elastic team, for `jaxina.elastic.steps`. Printed by `jaxina keeper`.",
    )
    rank: int | None = _setting(
        integer(0, MAX_WORKERS - 1), None, "This process's number, from 0. Set by `jaxina run`."
    )
    processes: int | None = _setting(integer(1, MAX_WORKERS), None, "Number of processes. Set by `jaxina run`.")
    stats_file: str | None = _setting(
        path(),
        None,
        "File to which this process writes its engine's statistics at shutdown, as JSON. Set by `jaxina run`.",
    )

    error_file: str | None = _setting(
        path(),
        None,
        "File to which this process writes the error that ended it, as JSON. Set by `jaxina run`.",
    )
    restarts: int = _setting(integer(0, 2**31 - 1), 0, "How often all workers were restarted. Set by `jaxina run`.")

    metrics: str | None = _setting(
        host_and_port(),
        None,
        "Where this process serves its counters to Prometheus, at http://HOST:PORT/metrics. HOST may be the "
        "name of a network "
        "interface. Worker r adds r to the port, so that the workers of a host may have one setting. It needs "
        "the package "
        "prometheus-client (`pip install 'jaxina[metrics]'`).",
    )

    trace: str | None = _setting(
        path(),
        None,
        "File to which this process writes a timeline of its slots, packets and waits at shutdown, for "
        "ui.perfetto.dev. With several processes, each puts its number before the name's extension. `jaxina run "
        "--trace` merges them into one file.",
    )

    origins: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)

    def shape(self, devices: int, workers: int, whole_chunks: bool = False) -> JobShape:
        """Makes the shape of a job.

        Args:
          devices: how many devices sum, in all processes together.
          workers: how many processes take part.
          whole_chunks: whether the aggregator takes whole chunks only.

        Raises:
          InvalidArgumentError: slots, blocks and chunks do not fit together.
          TooManyWorkersError: there are too many devices or workers.
        """
        return JobShape(
            devices=devices,
            workers=workers,
            slots=self.slots,
            block_size=self.block_size,
            blocks_per_chunk=self.blocks_per_chunk,
            whole_chunks=whole_chunks,
        )

    @property
    def shared(self) -> dict[str, Any]:
        """The settings on which all processes of a job must agree, by name."""
        names = ("aggregator", "slots", "block_size", "blocks_per_chunk", "bits", "rounding", "catch_all")
        values = {name: getattr(self, name) for name in names}
        values["encryption"] = "yes" if self.encrypts else "no"
        if self.aggregator == "atp":
            values["switches"] = len(self.switches_on_the_way)  # each worker names those of its own rack
        elif self.uses_switch:
            values["switch"] = self.switch
        if self.servers is not None:
            values["servers"] = self.servers
        if self.aggregator == "netreduce":
            values["rdma_device"] = "none" if self.device is None else "one of this host"
        return values

    @property
    def late_after_s(self) -> float:
        """After how many seconds a collective is late; infinity: never."""
        return self.timeout / 5 if self.late_after is None else self.late_after

    @property
    def uses_switch(self) -> bool:
        """Whether updates go to a switch, which sums or combines them, or pass one that adds."""
        if self.aggregator == "netreduce":
            return self.origins["switch"] != "default"
        return self.aggregator not in ("embedded", "direct")

    @property
    def encrypts(self) -> bool:
        """Whether the packets of sums are encrypted."""
        return self.encryption == "yes" and self.aggregator != "embedded"

    @property
    def device(self) -> RdmaDevice | None:
        """The RDMA device that this process sums with; None if it uses none."""
        if self.rdma_device is not None and self.aggregator in ("verbs", "netreduce"):
            return split_device(self.rdma_device)
        return ("", None, None) if self.aggregator == "verbs" else None

    @property
    def switches_on_the_way(self) -> list[str]:
        """The control addresses of the switches that combine updates on their way to servers."""
        return self.switch.split(",") if self.aggregator == "atp" else []

    @property
    def dedicated_servers(self) -> list[str]:
        """The control addresses of hosts that sum instead of the workers."""
        return [] if self.servers is None else self.servers.split(",")


def fields() -> list[dataclasses.Field[Any]]:
    """Lists the settings, in the order in which they are documented."""
    return [field for field in dataclasses.fields(Configuration) if "kind" in field.metadata]


def variable(name: str) -> str:
    """The environment variable of the setting `name`."""
    return PREFIX + name.upper()


def default_text(field: dataclasses.Field[Any]) -> str:
    """The default of a setting, as text; empty if it has none."""
    default = field.metadata["default"]
    if isinstance(default, dict):
        values = dict.fromkeys(default.values())  # equal values stand together
        named = {value: ", ".join(name for name, other in default.items() if other == value) for value in values}
        return ", ".join(f"{value} ({names})" for value, names in named.items())
    return "" if default is None else f"{default:g}" if isinstance(default, float) else str(default)


def shown(field: dataclasses.Field[Any], value: Any) -> str:
    """The value of a setting as text that may be printed. A secret value is shown as "(set)"."""
    if isinstance(value, tuple):  # a range of ports
        return f"{value[0]}-{value[-1]}"
    return "" if value is None else "(set)" if field.metadata["kind"].secret else str(value)


def resolve(environ: Mapping[str, str] | None = None, **arguments: Any) -> Configuration:
    """Resolves the configuration.

    Args:
      environ: the environment; None means `os.environ`.
      **arguments: values of settings, by name. One that is None is not given.

    Raises:
      InvalidArgumentError: a value is not allowed, or values do not fit together. The message names the value and says
        what is allowed.

    Example:
      >>> from jaxina import config
      >>> configuration = config.resolve({"JAXINA_SLOTS": "16"}, aggregator="udp")
      >>> configuration.slots, configuration.origins["slots"], configuration.origins["timeout"]
      (16, 'environment', 'default')
    """
    environ = os.environ if environ is None else environ
    for name in arguments:
        if name not in {field.name for field in fields()}:
            raise InvalidArgumentError(f"{name!r} is not a setting; `jaxina info` lists them")
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for field in fields():
        name, kind, default = field.name, field.metadata["kind"], field.metadata["default"]
        if arguments.get(name) is not None:
            values[name], origins[name] = _read(kind, name, arguments[name]), "argument"
        elif environ.get(variable(name), "") != "":
            values[name], origins[name] = (
                _read(kind, variable(name), environ[variable(name)]),
                "environment",
            )
        else:
            values[name], origins[name] = _default_of(default, values, origins), "default"
            if name == "blocks_per_chunk":  # the default is for blocks of 256 elements; keep the chunk's size
                blocks = 256 * values[name] // values["block_size"]
                values[name] = min(max(blocks, 1), MAX_BLOCKS_PER_CHUNK)
    configuration = Configuration(**values, origins=origins)
    _check_together(configuration)
    return configuration


def _default_of(default: Any, values: Mapping[str, Any], origins: Mapping[str, str]) -> Any:
    """The default of a setting, given those before it."""
    if not isinstance(default, dict):
        return default
    named = origins["switch"] != "default"
    if values["aggregator"] == "netreduce" and named and _RING_AND_SWITCH in default:
        return default[_RING_AND_SWITCH]
    return default[values["aggregator"]]


def _read(kind: Kind, name: str, value: Any) -> Any:
    try:
        return kind.parse(str(value).strip())
    except ValueError:
        given = name if kind.secret else f"{name}={value!r}"
        raise InvalidArgumentError(f"{given} is not allowed: give {kind.allowed}") from None


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Lists variables that start with ``JAXINA_`` but are not settings. Most likely they are typing errors."""
    known = {variable(field.name) for field in fields()}
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)


def check_used(configuration: Configuration) -> None:
    """Checks that the aggregator uses the settings that were given.

    A setting from the environment may be meant for other runs. So it is refused only if nobody chose the aggregator.

    Raises:
      InvalidArgumentError: the aggregator does not use a setting that was given, or cannot encrypt as was asked.
    """
    aggregator = configuration.aggregator
    if configuration.encrypts:
        _check_encryption(configuration)
    if configuration.servers is not None and aggregator not in ("direct", "atp"):
        raise InvalidArgumentError(
            f"{variable('servers')}={configuration.servers} is given, but the {aggregator} aggregator has no servers: "
            "choose direct or atp, or leave servers out"
        )
    if configuration.loss and configuration.device is not None and configuration.origins["loss"] == "argument":
        raise InvalidArgumentError(
            f"{variable('loss')}={configuration.loss} is given, but an RDMA device cannot drop packets: leave loss or "
            f"{variable('rdma_device')} out, or choose {variable('aggregator')}=roce"
        )
    if configuration.uses_switch:
        if aggregator != "atp" and "," in configuration.switch:
            raise InvalidArgumentError(
                f"{variable('switch')}={configuration.switch} names several switches, but the {aggregator} aggregator "
                "uses one: choose atp, or name one switch"
            )
        return
    ignored = {"argument", "environment"} if configuration.origins["aggregator"] == "default" else {"argument"}
    unused = {"embedded": (("switch", "network"), ("loss", "network")), "direct": (("switch", "switch"),)}
    for name, lacks in unused.get(aggregator, ()):
        given = getattr(configuration, name)
        if given and configuration.origins[name] in ignored:
            raise InvalidArgumentError(
                f"{variable(name)}={given} is given, but the {aggregator} aggregator has no {lacks}: choose "
                f"{variable('aggregator')}=udp (or --aggregator udp, or jaxina.init('udp')), or leave {name} out"
            )


# Why aggregators cannot encrypt.
_CLEAR = {
    "atp": "switches on the way add what they read in packets",
    "roce": "the switch takes RDMA packets, which RDMA devices could not decrypt",
    "verbs": "RDMA devices write what arrives to memory as it is",
    "netreduce": "RDMA devices, and the switch on the way, take packets as they are",
}


def _check_encryption(configuration: Configuration) -> None:
    asked = f"{variable('encryption')}=yes"
    if why := _CLEAR.get(configuration.aggregator):
        raise InvalidArgumentError(
            f"{asked} is given, but {configuration.aggregator} cannot encrypt: {why}. Choose udp or direct, or an "
            "encrypted network (WireGuard or IPsec)"
        )
    if configuration.servers is not None:
        raise InvalidArgumentError(
            f"{asked} is given, but the hosts of {variable('servers')} cannot encrypt yet: leave them out, so that the "
            "workers sum, or choose udp"
        )
    if configuration.tls_authority is None:
        raise InvalidArgumentError(
            f"{asked} needs TLS, or the keys would travel in the clear: set {variable('tls_authority')}, "
            f"{variable('tls_certificate')} and {variable('tls_key')} at the workers and at the switch"
        )
    check_encryption()


def _check_together(configuration: Configuration) -> None:
    configuration.shape(devices=1, workers=1)  # raises if slots, blocks and chunks do not fit together
    coordinator, rank, processes = configuration.coordinator, configuration.rank, configuration.processes
    if any(value is not None for value in (coordinator, rank, processes)):
        if coordinator is None or rank is None or processes is None:
            raise InvalidArgumentError(
                f"{variable('coordinator')}, {variable('rank')} and {variable('processes')} belong together: set all "
                "three, or none"
            )
        if rank >= processes:
            raise InvalidArgumentError(
                f"{variable('rank')}={rank} is not below {variable('processes')}={processes}: ranks count from 0"
            )
