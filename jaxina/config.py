"""Configuration: every `JAXINA_*` variable, declared once, here.

A value comes from an argument of :func:`jaxina.init` (or an option of the command line), else from
the environment, else from the default. `jaxina info` prints the table with each value's origin.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

from jaxina._native import (
    MAX_BLOCK_SIZE,
    MAX_BLOCKS_PER_CHUNK,
    MAX_SLOTS,
    MAX_WORKERS,
    MIN_BLOCK_SIZE,
    JobShape,
)
from jaxina.errors import InvalidArgumentError

PREFIX = "JAXINA_"

TOKEN_CHARACTERS = (16, 256)  # of JAXINA_TOKEN, from and to


@dataclasses.dataclass(frozen=True)
class Kind:
    """A type of value: how a text is read, and what is allowed, in words. `parse` raises
    ValueError otherwise. A secret value is printed nowhere.
    """

    parse: Callable[[str], Any]
    allowed: str
    secret: bool = False


def integer(low: int, high: int) -> Kind:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return Kind(parse, f"an integer from {low} to {high}")


def seconds() -> Kind:
    def parse(text: str) -> float:
        value = float(text)
        if not 0 < value <= 86400:
            raise ValueError
        return value

    return Kind(parse, "seconds, above 0 and at most 86400")


def share() -> Kind:
    def parse(text: str) -> float:
        value = float(text)
        if not 0 <= value < 1:
            raise ValueError
        return value

    return Kind(parse, "a share from 0 to below 1, as 0.01")


def choice(*names: str) -> Kind:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError
        return text

    return Kind(parse, "one of " + ", ".join(names))


def host_and_port() -> Kind:
    def parse(text: str) -> str:
        split_address(text)
        return text

    return Kind(parse, "HOST:PORT, as 10.0.0.1:51000 or [::1]:51000")


def path() -> Kind:
    return Kind(str, "a file name")


def token() -> Kind:
    low, high = TOKEN_CHARACTERS

    def parse(text: str) -> str:
        if not low <= len(text) <= high or not all("!" <= character <= "~" for character in text):
            raise ValueError
        return text

    return Kind(parse, f"{low} to {high} printable ASCII characters, no spaces", secret=True)


def split_address(text: str) -> tuple[str, int]:
    """`HOST:PORT` or `[IPv6]:PORT` in two parts, the host without brackets. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address needs brackets, as [::1]:51000")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def _setting(kind: Kind, default: Any, doc: str) -> Any:
    metadata = {"kind": kind, "default": default, "doc": doc}
    return dataclasses.field(default=None, repr=not kind.secret, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Configuration:
    """One resolved configuration. A default that is a dict depends on the aggregator."""

    aggregator: str = _setting(
        choice("embedded", "udp", "roce", "verbs"),
        "embedded",
        "What sums: shared memory of this host (embedded), or a switch reached by datagrams (udp), "
        "by RDMA from user space (roce) or by an RDMA NIC (verbs).",
    )
    switch: str = _setting(
        host_and_port(),
        "127.0.0.1:51000",
        "Control address of the switch (all but embedded); `jaxina switch` starts one.",
    )
    token: str | None = _setting(
        token(),
        None,
        "What a shared switch asks of its callers, where it was started with one: the same for the "
        "switch, its workers and `jaxina status`; read from the environment only, or by `jaxina "
        "switch --token-file`. It travels in clear: it keeps out those who do not read the network.",
    )
    slots: int = _setting(
        integer(1, MAX_SLOTS),
        {"embedded": 8, "udp": 128, "roce": 16, "verbs": 64},
        "Pool size s: how many chunks of a group are in flight at once.",
    )
    block_size: int = _setting(
        integer(MIN_BLOCK_SIZE, MAX_BLOCK_SIZE),
        256,
        "Block size k: elements that share one exponent.",
    )
    blocks_per_chunk: int = _setting(
        integer(1, MAX_BLOCKS_PER_CHUNK),
        {"embedded": 32, "udp": 1, "roce": 16, "verbs": 16},
        "Blocks that one slot pass carries. Left out, and with another block size than 256, as many as "
        "make a chunk of as many words, at least 1.",
    )
    join_timeout: float = _setting(
        seconds(), 60.0, "How long to wait for the other workers and for the switch when joining."
    )
    timeout: float = _setting(seconds(), 300.0, "How long one collective may take.")
    heartbeat_timeout: float = _setting(
        seconds(),
        20.0,
        "Silence after which the switch takes a worker for dead. A worker whose process ends is noticed at once.",
    )
    loss: float = _setting(share(), 0.0, "Share of arriving packets to drop, for experiments (udp, roce).")
    loss_seed: int = _setting(integer(0, 2**64 - 1), 0, "Seed of the dropped packets.")
    rdma_device: str | None = _setting(
        Kind(str, "a device's name"),
        None,
        "RDMA device (verbs), as `rdma link` lists them; any that has RoCEv2 over IPv4 otherwise.",
    )
    codec: str | None = _setting(
        choice("scalar", "avx2", "avx512"),
        None,
        "Instruction set of the CPU codec, instead of the widest the processor has; read from the environment only.",
    )
    keep_memory: str = _setting(
        choice("yes", "no"),
        "yes",
        "Whether `jaxina run` lets its workers' malloc keep what they free, in huge pages, instead of "
        "giving it back to the system, which would have to clear it again for every result (glibc).",
    )
    strict: str = _setting(
        choice("yes", "no"),
        "no",
        "Whether a program is refused, when it is compiled, of which a sum stays with XLA and is not in "
        "`jaxina.collectives(False)`.",
    )
    catch_all: str = _setting(
        choice("yes", "no"),
        "yes",
        "Whether XLA's own collectives come to jaxina too, those that the partitioner puts in above all, where that is "
        "possible: on CPU, with one device a process, and if `init` comes before JAX's backend starts.",
    )
    log: str = _setting(
        choice("debug", "info", "warning", "error"),
        "warning",
        "What the `jaxina` logger prints to stderr; `jaxina run` lets process 0 say info.",
    )
    coordinator: str | None = _setting(
        host_and_port(),
        None,
        "Address where the processes find each other; set by `jaxina run`, or what `jaxina coordinator` prints.",
    )
    rank: int | None = _setting(integer(0, MAX_WORKERS - 1), None, "This process's number; set by `jaxina run`.")
    processes: int | None = _setting(integer(1, MAX_WORKERS), None, "Number of processes; set by `jaxina run`.")
    stats_file: str | None = _setting(
        path(),
        None,
        "Where this process writes its engine's statistics (JSON) at shutdown; set by `jaxina run`.",
    )

    error_file: str | None = _setting(
        path(),
        None,
        "Where this process says which error has ended it (JSON); set by `jaxina run`.",
    )
    restarts: int = _setting(integer(0, 2**31 - 1), 0, "How often all workers were started again; set by `jaxina run`.")

    trace: str | None = _setting(
        path(),
        None,
        "Where this process writes a timeline of its slots, packets and waits at shutdown, for "
        "ui.perfetto.dev; of several processes, each puts its number before the name's ending. "
        "`jaxina run --trace` makes one file of them.",
    )

    # For each field: "argument", "environment" or "default".
    origins: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)

    def shape(self, devices: int, workers: int, whole_chunks: bool = False) -> JobShape:
        """The shape of a job of `workers` processes with `devices` devices in all.

        Raises:
          InvalidArgumentError, TooManyWorkersError: there can be no such job.
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
        """The settings on which all processes of a job must agree."""
        names = ("aggregator", "slots", "block_size", "blocks_per_chunk", "catch_all")
        values = {name: getattr(self, name) for name in names}
        if self.aggregator != "embedded":
            values["switch"] = self.switch
        return values


def fields() -> list[dataclasses.Field[Any]]:
    """The settings, in the order of their documentation."""
    return [field for field in dataclasses.fields(Configuration) if "kind" in field.metadata]


def variable(name: str) -> str:
    return PREFIX + name.upper()


def default_text(field: dataclasses.Field[Any]) -> str:
    default = field.metadata["default"]
    if isinstance(default, dict):
        return ", ".join(f"{value} ({aggregator})" for aggregator, value in default.items())
    return "" if default is None else f"{default:g}" if isinstance(default, float) else str(default)


def shown(field: dataclasses.Field[Any], value: Any) -> str:
    """The value as a person may see it."""
    return "" if value is None else "(set)" if field.metadata["kind"].secret else str(value)


def resolve(environ: Mapping[str, str] | None = None, **arguments: Any) -> Configuration:
    """Reads the configuration: arguments that are not None, then `environ` (os.environ), then
    defaults.

    Raises:
      InvalidArgumentError: a value is not allowed; the message names it, and says what is.
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
            values[name] = default[values["aggregator"]] if isinstance(default, dict) else default
            origins[name] = "default"
            if name == "blocks_per_chunk":  # the default is for blocks of 256
                blocks = 256 * values[name] // values["block_size"]
                values[name] = min(max(blocks, 1), MAX_BLOCKS_PER_CHUNK)
    configuration = Configuration(**values, origins=origins)
    _check_together(configuration)
    return configuration


def _read(kind: Kind, name: str, value: Any) -> Any:
    try:
        return kind.parse(str(value).strip())
    except ValueError:
        given = name if kind.secret else f"{name}={value!r}"
        raise InvalidArgumentError(f"{given} is not allowed: give {kind.allowed}") from None


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like ours but are not: most likely typing errors."""
    known = {variable(field.name) for field in fields()}
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)


def check_used(configuration: Configuration) -> None:
    """Raises InvalidArgumentError if a setting was given that the aggregator does not use. What comes from the
    environment may stand there for other runs, if the aggregator was chosen."""
    if configuration.aggregator != "embedded":
        return
    ignored = {"argument", "environment"} if configuration.origins["aggregator"] == "default" else {"argument"}
    for name, given in (("switch", configuration.switch), ("loss", configuration.loss or None)):
        if given is not None and configuration.origins[name] in ignored:
            raise InvalidArgumentError(
                f"{variable(name)}={given} is given, but the embedded aggregator has no network: choose "
                f"{variable('aggregator')}=udp (or --aggregator udp, or jaxina.init('udp')), or leave it out"
            )


def _check_together(configuration: Configuration) -> None:
    configuration.shape(devices=1, workers=1)  # raises where slots, blocks and chunks do not go together
    coordinator, rank, processes = configuration.coordinator, configuration.rank, configuration.processes
    if any(value is not None for value in (coordinator, rank, processes)):
        if coordinator is None or rank is None or processes is None:
            raise InvalidArgumentError(
                f"{variable('coordinator')}, {variable('rank')} and {variable('processes')} belong "
                "together: set all "
                "three, or none"
            )
        if rank >= processes:
            raise InvalidArgumentError(
                f"{variable('rank')}={rank} is not below {variable('processes')}={processes}: ranks count from 0"
            )
