"""The best orders and plans there are, found by trying all or by a solver: for small batches."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_array

from jaxina.fabric import Calendar, Star, Update, shortest_first_order
from jaxina.fabric.calendar import NANOSECONDS
from jaxina.fabric.network import Nic


def mean_end(network: Star, server: str, order: Sequence[Update]) -> float:
    """The mean end of transfers that are reserved in this order, in nanoseconds."""
    calendar = Calendar(network.rates)
    return sum(calendar.reserve(network.path(u.worker, server), u.size, u.ready).end for u in order) / len(order)


def best_mean_end(network: Star, server: str, updates: Sequence[Update]) -> float:
    """The least mean end over all orders, in nanoseconds."""
    return min(mean_end(network, server, order) for order in itertools.permutations(updates))


def least_too_old(deadlines: Sequence[int]) -> int:
    """The least number of updates that miss their deadline in any order, in which each commit takes one place."""
    for kept in range(len(deadlines), -1, -1):
        for chosen in itertools.combinations(sorted(deadlines), kept):
            if all(d > place for place, d in enumerate(chosen)):
                return len(deadlines) - kept
    raise AssertionError


def least_mean_end_of_any_rates(network: Star, server: str, updates: Sequence[Update], steps: int, step: int) -> float:
    """The least mean end over all ways to share the links, by a mixed integer program (the paper's section 10.1).

    The rates may change at each of `steps` steps of `step` nanoseconds, and any number of transfers may share a link.
    An update's end is taken to be the beginning of the step in which its last byte arrives, so the true optimum is not
    smaller than what is returned.
    """
    count = len(updates)
    moved = count * steps  # the variables: bytes of update g in step t, then whether it ends after step t
    cost = np.concatenate([np.zeros(moved), np.full(moved, step / count)])
    rows, low, high = [], [], []

    def constrain(entries: dict[int, float], least: float, most: float) -> None:
        rows.append(entries)
        low.append(least)
        high.append(most)

    for g, update in enumerate(updates):
        constrain({g * steps + t: 1.0 for t in range(steps)}, update.size, np.inf)
        for t in range(steps):
            done = {g * steps + s: 1.0 for s in range(t + 1)}
            constrain(done | {moved + g * steps + t: float(update.size)}, update.size, np.inf)
    for link, rate in enumerate(network.rates):
        users = [g for g, u in enumerate(updates) if link in network.path(u.worker, server)]
        for t in range(steps):
            if users:
                constrain({g * steps + t: 1.0 for g in users}, 0.0, rate * step / NANOSECONDS)
    matrix = lil_array((len(rows), 2 * moved))
    for i, entries in enumerate(rows):
        for j, value in entries.items():
            matrix[i, j] = value
    upper = np.concatenate([np.full(moved, np.inf), np.ones(moved)])
    found = milp(
        cost,
        integrality=np.concatenate([np.zeros(moved), np.ones(moved)]),
        bounds=Bounds(0, upper),
        constraints=LinearConstraint(matrix.tocsr(), low, high),
        options={"time_limit": 600},  # seconds of the clock: other programs may have the processor
    )
    assert found.status == 0, found.message
    return float(found.fun)


def ratio_to_solver(seed: int) -> float:
    """Shortest first's mean end over the least of any rates, both rounded down to seconds: a random batch of 2 to 4."""
    network, updates = random_batch(random.Random(seed), 4)
    planned = shortest_first_order(network, Calendar(network.rates), "server", updates, 0).transfers
    latest = max(t.end for t in planned)
    optimum = least_mean_end_of_any_rates(network, "server", updates, latest // NANOSECONDS + 1, NANOSECONDS)
    rounded = sum((t.end - 1) // NANOSECONDS * NANOSECONDS for t in planned) / len(planned)
    assert rounded >= optimum * (1 - 1e-6), "the solver found less than the optimum"
    return rounded / optimum if optimum > 0 else 1.0


def random_batch(draw: random.Random, most: int) -> tuple[Star, list[Update]]:
    """A star with a server of 10 bytes per second, and up to `most` updates of its workers."""
    workers = [f"w{i}" for i in range(draw.randint(2, 5))]
    network = Star({w: Nic(draw.choice([1, 2, 5, 10]), 10) for w in workers} | {"server": Nic(10, 10)})
    count = draw.randint(2, most)
    return network, [Update(i, draw.choice(workers), draw.choice([10, 20, 40]), 0) for i in range(count)]
