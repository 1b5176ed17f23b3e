"""How the members of a generation sum: a small job of its own for each generation, at the engine of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from jaxina import _native
from jaxina._native import GroupConfig, SoftwareSwitch
from jaxina.config import Configuration
from jaxina.control.data_address import check_address
from jaxina.control.interfaces import at_free_port
from jaxina.control.topology import this_place
from jaxina.elastic import elastic_pb2 as pb
from jaxina.errors import InvalidArgumentError, WorkerLostError


class Aggregation(Protocol):
    """A way to sum.

    Attributes:
      server: where this member sums its part; None: nowhere.
      terms: what must be equal in all members, by name.
    """

    server: pb.Server | None
    terms: dict[str, str]

    def prepare(self, formed: pb.Formed) -> None:
        """Makes ready what other members need from this one. Called before this member says that it is ready."""
        ...

    def configure(self, config: GroupConfig, formed: pb.Formed) -> None:
        """Chooses the transport of a generation."""
        ...

    def close(self) -> None: ...


class Embedded:
    """Sums in shared memory of this host."""

    server: pb.Server | None = None

    def __init__(self) -> None:
        self.terms = {"one host (several need the aggregator direct)": this_place().machine}

    def prepare(self, formed: pb.Formed) -> None:
        """Does nothing: the first member creates the segment when it first sums."""

    def configure(self, config: GroupConfig, formed: pb.Formed) -> None:
        config.use_embedded(formed.segment)

    def close(self) -> None:
        """Does nothing: the engine leaves the segment."""


class Direct:
    """Sums by the members themselves, over UDP. Of n members, the one of rank r sums the slots i with i mod n = r.

    Args:
      configuration: this process's.
      host: the numeric address at which the other members reach this one.
    """

    def __init__(self, configuration: Configuration, host: str):
        self._configuration = configuration
        self._host = host
        self._job: int | None = None
        self._switch = at_free_port(
            configuration.ports or (),
            host,
            lambda port: SoftwareSwitch(
                host, 1, configuration.loss, (configuration.loss_seed + (1 << 32)) % 2**64, [port] if port else []
            ),
        )
        room = self._switch.slots_that_fit(configuration.shape(devices=1, workers=1))
        self.server: pb.Server | None = pb.Server(host=host, port=self._switch.ports[0], room=room)
        self.terms: dict[str, str] = {}

    def prepare(self, formed: pb.Formed) -> None:
        for member in formed.members:
            check_address(member.server.host, member.server.port, f"the server of member {member.number}")
        if self._job is not None:
            self._switch.remove_job(self._job)
            self._job = None
        if len(formed.members) > 1:
            shape = self._configuration.shape(devices=len(formed.members), workers=len(formed.members))
            self._switch.add_part(formed.job, formed.secret, shape, formed.rank, len(formed.members))
            self._job = formed.job

    def configure(self, config: GroupConfig, formed: pb.Formed) -> None:
        servers = [member.server for member in formed.members]
        rooms = [server.room for server in servers]
        # A pass goes to one of the servers, so all of them together have room for more passes than each has.
        window = min(config.shape.slots, len(servers) * min(rooms)) if all(rooms) else 0
        config.use_udp(
            [(server.host, server.port) for server in servers],
            at_workers=True,
            first_window=window,
            host="" if self._configuration.interface is None else self._host,
            loss=self._configuration.loss,
            loss_seed=(self._configuration.loss_seed + formed.rank) % 2**64,
        )

    def close(self) -> None:
        self._switch.stop()


def aggregation_of(configuration: Configuration, host: str) -> Aggregation:
    """The way to sum that the configuration names.

    Raises:
      InvalidArgumentError: a team cannot sum that way.
    """
    if configuration.aggregator == "embedded":
        return Embedded()
    if configuration.aggregator == "direct" and configuration.servers is None:
        return Direct(configuration, host)
    raise InvalidArgumentError(
        f"a team sums by the aggregators embedded or direct, without servers of their own, not by "
        f"{configuration.aggregator}: an elastic team on one host needs embedded, one on several hosts direct"
    )


class OpenEngine:
    """The engine of this process, open for one generation. A context manager.

    Args:
      configuration: this process's.
      aggregation: how to sum.
      formed: the generation.
      is_over: whether the generation is over.
    """

    def __init__(
        self,
        configuration: Configuration,
        aggregation: Aggregation,
        formed: pb.Formed,
        is_over: Callable[[], bool],
    ):
        self._configuration = configuration
        self._aggregation = aggregation
        self._formed = formed
        self._is_over = is_over

    def __enter__(self) -> None:
        _native.start(self._connect, lambda group, code, message: None)

    def __exit__(self, *_: object) -> None:
        _native.shutdown()

    def _connect(self, group: list[int]) -> GroupConfig:
        """The engine's connector. It is called when the generation's first sum is submitted."""
        formed, configuration = self._formed, self._configuration
        # Ends of generations that come later reach the engine, which knows the group from now on.
        if self._is_over():
            raise WorkerLostError(f"generation {formed.generation} is over")
        config = GroupConfig(
            shape=configuration.shape(devices=len(group), workers=len(group)),
            worker=formed.rank,
            local=[formed.rank],
            job=formed.job,
            secret=formed.secret,
            join_timeout_s=configuration.timeout,  # for a member that computes long before its first sum
            collective_timeout_s=configuration.timeout,
        )
        self._aggregation.configure(config, formed)
        return config
