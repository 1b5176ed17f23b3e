"""All settings. Every ``JAXINA_*`` variable is declared here, once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxina._native import MAX_BLOCK_SIZE, MAX_BLOCKS_PER_CHUNK, MAX_SLOTS, MAX_WORKERS, MIN_BLOCK_SIZE, JobShape
from jaxina.config import installed
from jaxina.config.addresses import RdmaDevice, split_device
from jaxina.config.kinds import (
    Kind,
    choice,
    host_and_port,
    hosts_and_ports,
    integer,
    interfaces,
    one_of,
    path,
    port_range,
    rdma_device,
    seconds,
    seconds_or_never,
    share,
    token,
)

BITS = (8, 16, 32, 64)
ROUNDINGS = ("nearest", "stochastic")
AGGREGATORS = ("embedded", "direct", "atp", "udp", "roce", "verbs", "netreduce")
DEFAULT_BLOCK_SIZE = 256  # k: how many elements share one exponent
PREFIX = "JAXINA_"
RING_AND_SWITCH = "netreduce with a switch"  # a default of netreduce for jobs that name a switch
EMBEDDED_ON_GPU = "embedded, GPU"  # a default of embedded for processes that have a GPU


def _setting(kind: Kind, default: Any, doc: str) -> Any:
    metadata = {"kind": kind, "default": default, "doc": doc}
    return dataclasses.field(default=None, repr=not kind.secret, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Configuration:
    """A resolved configuration: one attribute per setting, and where each value came from.

    docs/configuration.md describes the settings. A default that is a dict depends on the aggregator, and on whether
    a switch is named and whether the process has a GPU.

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
        "only, or by the option --token-file of `jaxina switch`, `jaxina keeper` and `jaxina fabric`. Without TLS it "
        "travels unencrypted, so it does not keep out those who can read the network.",
    )
    tls_authority: str | None = _setting(
        path(),
        None,
        "Certificate of the authority that issues the certificates of the cluster's processes, PEM. With it "
        "and the next two, control calls, those to the coordinator and metrics are encrypted, and both ends must have "
        "a certificate of the authority. It needs the package cryptography (`pip install 'jaxina[tls]'` in the "
        "environment that has jaxina).",
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
            EMBEDDED_ON_GPU: 256,  # a GPU takes many chunks at once: docs/performance.md
            RING_AND_SWITCH: 3,  # what is in flight behind a lost packet is sent again: docs/netreduce.md
        },
        "Pool size s: how many chunks of a group may be in flight at once.",
    )
    block_size: int = _setting(
        integer(MIN_BLOCK_SIZE, MAX_BLOCK_SIZE),
        DEFAULT_BLOCK_SIZE,
        "Block size k: how many elements share one exponent.",
    )
    blocks_per_chunk: int = _setting(
        integer(1, MAX_BLOCKS_PER_CHUNK),
        {
            "embedded": 32,
            "direct": 1,
            "atp": 1,
            "udp": 1,
            "roce": 16,
            "verbs": 16,
            "netreduce": 16,
            EMBEDDED_ON_GPU: 63,
        },
        f"How many blocks one slot pass carries. The defaults are for blocks of {DEFAULT_BLOCK_SIZE} elements. With "
        "another block size, the default is as many blocks as make a chunk of the same size, but at least 1.",
    )
    bits: int = _setting(
        one_of(*BITS),
        32,
        "Bits that a float of at most 32 bits takes on the wire, unless `jaxina.collectives` says otherwise. 8 and 16 "
        "are for large arrays only, and not for netreduce.",
    )
    rounding: str = _setting(
        choice(*ROUNDINGS), "nearest", "How 8 and 16 bits are rounded, unless `jaxina.collectives` says otherwise."
    )
    join_timeout: float = _setting(
        seconds(), 60.0, "How long to wait for the other workers and for the switch when joining."
    )
    timeout: float = _setting(
        seconds(), 300.0, "How long one collective may take, without the time in which its process is stopped."
    )
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
        "prometheus-client (`pip install 'jaxina[metrics]'` in the environment that has jaxina).",
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
        """What must be the same in all processes of a job, by name: settings, and versions of packages."""
        names = ("aggregator", "slots", "block_size", "blocks_per_chunk", "bits", "rounding", "catch_all")
        values = {name: getattr(self, name) for name in names}
        values |= {f"version of {package}": installed.version(package) for package in installed.ALIKE}
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
