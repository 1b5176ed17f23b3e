"""The paper's cluster: who is slow, and how the links change (section 7)."""

from __future__ import annotations

import dataclasses

import numpy as np
import simpy

from experiments.fabric.fluid_network import FluidNetwork
from jaxina.fabric import Star
from jaxina.fabric.network import Nic
from jaxina.testbed.schedule import SCHEDULES, SHARES

GIGABIT = 125_000_000  # bytes per second


@dataclasses.dataclass(frozen=True)
class Compute:
    """A share of the computations takes several times as long, or all computations of a share of the workers."""

    slow_share: float
    slower: float
    same_workers: bool = False


COMPUTE = {
    "C1": Compute(0.1, 2),
    "C2": Compute(0.1, 4),
    "C3": Compute(0.04, 2),
    "slow hosts": Compute(0.2, 4, same_workers=True),
}
"""C1 to C3 are the paper's."""


@dataclasses.dataclass(frozen=True)
class Cluster:
    """What is simulated.

    Attributes:
      compute, network: names in `COMPUTE` and `jaxina.testbed.schedule.SCHEDULES`.
      hosts: machines. Both workers of a machine share its link.
      workers: in all, divided evenly.
      step_seconds: a gradient's time on a worker that is not slow.
      size: bytes of an update, and of the model.
      rate, server_rate: of a full link, and of the server's, in bytes per second.
      change_seconds: how often each link's rate is drawn anew. Ways in and out are independent.
      lag_seconds: how late the scheduler knows of it.
    """

    compute: str = "C1"
    network: str = "N1"
    hosts: int = 15
    workers: int = 30
    step_seconds: float = 0.14
    size: int = 100_000_000
    rate: int = 10 * GIGABIT
    server_rate: int = 10 * GIGABIT
    change_seconds: float = 5.0
    lag_seconds: float = 0.2


SERVER = "server"


class Conditions:
    """A cluster in virtual time. The server has a machine of its own, whose link does not change.

    Args:
      env: the clock.
      cluster: what is simulated.
      seed: of the draws. Two ways of training with one seed meet the same links, and each worker's n-th computation
        takes the same time.
    """

    def __init__(self, env: simpy.Environment, cluster: Cluster, seed: int) -> None:
        self.env = env
        self.cluster = cluster
        self._seed = seed
        self._draw = np.random.default_rng((seed, 1))
        self._steps = [np.random.default_rng((seed, 2, w)) for w in range(cluster.workers)]
        names = [f"h{i}" for i in range(cluster.hosts)]
        nics = {name: Nic(self._rate(), self._rate()) for name in names}
        self.star = Star(nics | {SERVER: Nic(cluster.server_rate, cluster.server_rate)})
        self.links = FluidNetwork(env, self.star.rates)
        self.host = [names[w * cluster.hosts // cluster.workers] for w in range(cluster.workers)]
        self.on_rate: list = []  # called with (link, rate) once the monitor knows
        env.process(self._change())

    def compute_seconds(self, worker: int, steps: int = 1) -> float:
        """How long the worker's next computations take."""
        return sum(self._step_seconds(worker) for _ in range(steps))

    def _step_seconds(self, worker: int) -> float:
        kind = COMPUTE[self.cluster.compute]
        if kind.same_workers:
            slow = worker < kind.slow_share * self.cluster.workers
        else:
            slow = self._steps[worker].random() < kind.slow_share
        return self.cluster.step_seconds * (kind.slower if slow else 1)

    def _rate(self) -> int:
        return round(self._draw.choice(SHARES, p=SCHEDULES[self.cluster.network]) * self.cluster.rate)

    def _change(self):
        while True:
            yield self.env.timeout(self.cluster.change_seconds)
            self._set_rates([(link, self._rate()) for link in range(2 * self.cluster.hosts)])

    def _set_rates(self, changed: list[tuple[int, int]]) -> None:
        """Links have other rates from now on, and the monitor learns of it."""
        for link, rate in changed:
            self.links.set_rate(link, rate)
        self.env.process(self._tell(changed))

    def _tell(self, changed: list[tuple[int, int]]):
        yield self.env.timeout(self.cluster.lag_seconds)
        for tell in self.on_rate:
            for link, rate in changed:
                tell(link, rate)
