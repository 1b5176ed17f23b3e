"""What a job is told when its scheduler starts."""

from __future__ import annotations

import dataclasses

from jaxina.errors import InvalidArgumentError
from jaxina.fabric.codec import Codec
from jaxina.fabric.model import Optimizer
from jaxina.fabric.service import fabric_pb2 as pb

SERVER, REPLICA = "server", "replica"
MOST_WORKERS = 1024


def worker_host(rank: int) -> str:
    """The name of a worker."""
    return f"worker-{rank}"


def host_of(role: pb.Role.ValueType, rank: int) -> str:
    """The name of a host, by its role."""
    if role == pb.WORKER:
        return worker_host(rank)
    return SERVER if role == pb.SERVER else REPLICA


@dataclasses.dataclass(frozen=True)
class JobSettings:
    """A job.

    Attributes:
      workers: how many it has room for.
      rate: of each host's link, each way, in bytes per second, until a monitor tells another.
      delay_bound: every update's delay is below it, in turns.
      groups: how many aggregators a batch uses at most.
      optimizer: of the server.
      compressor: the spec of the updates' compressor; "none" for float32.
      divergence_bound: Div_max, if the job has a replica; else None.
      patience: seconds that the next turn may be late, before its update is sent another way or given up.
      seed: of the draw of aggregators.

    Raises:
      InvalidArgumentError: a value is out of range, or no such compressor can be used.
    """

    workers: int
    rate: int = 125_000_000
    delay_bound: int = 30
    groups: int = 2
    optimizer: Optimizer = dataclasses.field(default_factory=Optimizer)
    compressor: str = "none"
    divergence_bound: float | None = None
    patience: float = 10.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MOST_WORKERS:
            raise InvalidArgumentError(f"a job has 1 to {MOST_WORKERS} workers, not {self.workers}")
        if self.rate < 1:
            raise InvalidArgumentError(f"a rate of {self.rate} bytes per second carries nothing")
        if self.delay_bound < 1:
            raise InvalidArgumentError(f"a delay bound of {self.delay_bound} lets no update through: 1 is the least")
        if self.groups < 0:
            raise InvalidArgumentError(f"{self.groups} aggregators are not possible")
        if self.divergence_bound is not None and not 0 < self.divergence_bound < float("inf"):
            raise InvalidArgumentError(f"a divergence bound of {self.divergence_bound} is not a positive number")
        if not 0 < self.patience <= 3600:
            raise InvalidArgumentError(f"a patience of {self.patience} s is not above 0 and at most 3600")
        Codec(self.compressor, 1)

    @property
    def hosts(self) -> list[str]:
        """The names of all hosts."""
        spare = [] if self.divergence_bound is None else [REPLICA]
        return [*(worker_host(rank) for rank in range(self.workers)), SERVER, *spare]
