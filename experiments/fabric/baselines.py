"""Ways of training without a scheduler."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from experiments.fabric.conditions import SERVER
from experiments.fabric.race import Race

Start = Callable[[Race], None]


def ring(backup: int = 0, local_steps: int = 1, dealt: bool = False) -> Start:
    """All-reduce in a ring, which all wait for.

    Args:
      backup: so many of the slowest workers of a round are left out (backup workers).
      local_steps: steps on the worker's own copy between two all-reduces (local SGD).
      dealt: the ranks are dealt to the hosts in turn, so that each worker's neighbours are on other hosts. Each host's
        link then carries the ring once for each of its workers: the paper's 320 ms (section 2). If not, a host's
        workers are neighbours, and its link carries the ring once: the paper's 160 ms.
    """

    def start(race: Race) -> None:
        race.env.process(_rounds(race, backup, local_steps, dealt))

    return start


def _rounds(race: Race, backup: int, local_steps: int, dealt: bool):
    workers = race.cluster.workers
    while True:
        seconds = [race.conditions.compute_seconds(w, local_steps) for w in range(workers)]
        members = sorted(sorted(range(workers), key=lambda w: seconds[w])[: workers - backup])
        yield race.env.timeout(max(seconds[w] for w in members))
        yield race.conditions.links.send(
            ring_path(race, members, dealt), 2 * (len(members) - 1) / len(members) * race.cluster.size
        )
        changes = [race.learner.change(race.learner.model, w, local_steps) for w in members]
        race.commit_round(changes, local_steps)
        race.outcome.dropped += backup * local_steps


def ring_path(race: Race, members: Sequence[int], dealt: bool = False) -> tuple[int, ...]:
    """All links of the ring, each as often as the ring crosses it. A ring is as fast as its slowest link."""
    star, host = race.conditions.star, race.conditions.host
    if dealt:
        each = race.cluster.workers // race.cluster.hosts
        members = sorted(members, key=lambda w: (w % each, w))
    hosts = [host[w] for w in members]
    return tuple(link for a, b in zip(hosts, hosts[1:] + hosts[:1], strict=True) for link in star.path(a, b))


def asynchronous(slack: float = math.inf) -> Start:
    """Each worker gets the model, computes, and sends its gradient, whenever it likes.

    Args:
      slack: a worker does not begin a step if another is so many steps behind (stale-synchronous).
    """

    def start(race: Race) -> None:
        clocks = [0] * race.cluster.workers
        waiting: list[Any] = []
        for worker in range(race.cluster.workers):
            race.env.process(_worker(race, worker, slack, clocks, waiting))

    return start


def _worker(race: Race, worker: int, slack: float, clocks: list[int], waiting: list[Any]):
    star, host, links = race.conditions.star, race.conditions.host[worker], race.conditions.links
    while True:
        while clocks[worker] - min(clocks) > slack:
            event = race.env.event()
            waiting.append(event)
            yield event
        model, version = race.learner.model, race.learner.version
        yield links.send(star.path(SERVER, host), race.cluster.size)
        yield race.compute(worker)
        change = race.learner.change(model, worker, 1)
        yield links.send(star.path(host, SERVER), race.cluster.size)
        race.commit([change], [version], 1)
        clocks[worker] += 1
        for event in waiting:
            event.succeed()
        waiting.clear()
