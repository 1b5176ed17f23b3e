"""Ok-topk gives what a plain reference gives, and its bytes do not grow with the number of workers."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import get, initial, normal, steps
from eight_devices import DEVICES, sharded
from jax.sharding import PartitionSpec as P

from jaxina import compressors
from jaxina.compressors.packing import packed_length

SIZE, RATIO, K = 200, 0.05, 10
WORKERS = 3


class Reference:
    """Ok-topk in NumPy, for arrays [n, SIZE]."""

    def __init__(self, workers: int, reuse: int, regions: int) -> None:
        self.reuse, self.regions = reuse, regions
        self.memory = np.zeros((workers, SIZE), np.float32)
        self.thresholds = np.zeros(workers, np.float32)
        self.global_threshold = np.float32(0)
        self.quantiles = np.linspace(0, SIZE, 65)[1:-1].astype(int)

    def step(self, gradients: np.ndarray, number: int) -> tuple[np.ndarray, int]:
        """Returns the mean, and the bytes that worker 0 sends."""
        workers = len(gradients)
        x = gradients + self.memory
        due = number % self.reuse == 0
        if due:
            self.thresholds = np.sort(np.abs(x), axis=1)[:, -K]
        chosen = [np.flatnonzero(np.abs(row) >= t)[: 2 * K] for row, t in zip(x, self.thresholds, strict=True)]
        sent = packed_length(1, 64) + 1  # a count and a flag
        if number % self.regions == 0:
            own = [row[[i * len(row) // 64 for i in range(1, 64)]] for row in chosen]
            self.quantiles = sum(row // workers for row in own)
            sent += packed_length(63, SIZE + 1)
        ends = [0, *self.quantiles, SIZE]
        place = np.arange(workers + 1) * 64 / workers
        low = np.minimum(place.astype(int), 63)
        edges = [int(ends[i] + (p - i) * (ends[i + 1] - ends[i])) for i, p in zip(low, place, strict=True)]

        def sparse(count: int) -> int:
            return packed_length(1, SIZE + 1) + 4 * count + packed_length(count, SIZE)

        parts = [[row[(row >= a) & (row < b)] for a, b in itertools.pairwise(edges)] for row in chosen]
        sent += sum(sparse(len(part)) for part in parts[0][1:])
        sums = np.zeros(SIZE, np.float32)
        for row, indices in zip(x, chosen, strict=True):
            sums[indices] += row[indices]
        if due:
            self.global_threshold = np.sort(np.abs(sums))[-K]
            own_sums = np.count_nonzero(sums[edges[0] : edges[1]])
            sent += 4 * min(own_sums, K)
        sent += packed_length(1, K + 1)
        best = np.flatnonzero(np.abs(sums) >= self.global_threshold)
        in_region = [best[(best >= a) & (best < b)][: 2 * K] for a, b in itertools.pairwise(edges)]
        sent += sparse(len(in_region[0]))
        arrived = np.concatenate(in_region)
        mean = np.zeros(SIZE, np.float32)
        mean[arrived] = sums[arrived] / np.float32(workers)
        for w in range(workers):
            self.memory[w] = x[w]
            self.memory[w, np.intersect1d(chosen[w], arrived)] = 0
        return mean, sent


@pytest.mark.parametrize("reuse, regions", [(1, 1), (2, 3)])
def test_steps_give_what_the_reference_gives(reuse, regions):
    compressor = get(f"oktopk:{RATIO}:{reuse}:{regions}")
    reference, state = Reference(WORKERS, reuse, regions), None
    meter = compressors.Meter(compressor)
    step = jax.jit(jax.vmap(lambda g, s: meter.update(g, s, "w"), axis_name="w"))
    for number in range(5):
        # The chosen elements are at other places in later steps, and of other sizes.
        gradients = np.stack([normal(10 * number + w, (SIZE,)) * (1 + number) for w in range(WORKERS)])
        gradients[:, : 20 * number] *= 3
        state = initial(compressor, gradients) if state is None else state
        means, state, arrays = step(jnp.asarray(gradients), state)
        mean, sent = reference.step(gradients, number)
        np.testing.assert_allclose(means, np.tile(mean, (WORKERS, 1)), rtol=1e-5, err_msg=f"step {number}")
        np.testing.assert_allclose(state["leaves"]["memory"], reference.memory, rtol=1e-5, err_msg=f"step {number}")
        assert meter.traffic(arrays).sent == sent, f"step {number}"
        assert np.count_nonzero(means[0]) >= K // 2
    assert len(np.unique(np.asarray(state["leaves"]["global_threshold"]))) == 1


def test_nothing_is_forgotten():
    compressor, count = get(f"oktopk:{RATIO}:8"), 40
    gradients = jnp.stack([normal(seed, (SIZE,)) for seed in (3, 4, 5)])
    state, total, sizes = initial(compressor, gradients), np.zeros(SIZE), []
    for _ in range(count):
        mean, state = steps(compressor, gradients, state)
        total += np.asarray(mean[0], np.float64)
        sizes.append(float(jnp.linalg.norm(state["leaves"]["memory"])))
    owed = np.asarray(state["leaves"]["memory"], np.float64).mean(axis=0)
    np.testing.assert_allclose(total + owed, count * np.asarray(gradients).mean(axis=0), atol=2e-4)
    assert max(sizes[30:]) < 1.5 * max(sizes[:30])


def test_what_is_received_does_not_grow_with_the_workers():
    """In a step that reuses thresholds: less than 6 k numbers of 4 bytes. Top-k's grows by 5.5 k for each worker.

    Without a memory, since in the first steps it grows, and with it what is above the thresholds.
    """
    compressor, k = get("oktopk:0.05-ef"), 40

    def received(workers: int) -> int:
        gradients = np.stack([normal(seed, (20 * k,)) for seed in range(workers)])
        meter = compressors.Meter(compressor)
        step = jax.jit(jax.vmap(lambda g, s: meter.update(g, s, "w"), axis_name="w"))
        _, state, _ = step(gradients, initial(compressor, gradients))
        return meter.traffic(step(gradients, state)[2]).received

    two, eight = received(2), received(8)
    assert two < eight < 6 * k * 4
    top_k = compressors.measure(get("topk:0.05"), [normal(seed, (20 * k,)) for seed in range(8)], jax.random.key(0))
    assert top_k[0].received > 7 * 5 * k


def test_regions_share_the_work():
    """All chosen elements are in the first tenth. Regions of equal length would give all of them to worker 0."""
    gradients = np.stack([normal(seed, (4000,)) for seed in range(4)]) * np.where(np.arange(4000) < 400, 100, 1)
    meter = compressors.Meter(get("oktopk:0.02:1:1"))
    state = initial(get("oktopk:0.02:1:1"), gradients)
    _, _, arrays = jax.jit(jax.vmap(lambda g, s: meter.update(g, s, "w"), axis_name="w"))(gradients, state)
    counts = np.asarray(arrays[1][0]["count"])[:, 0]  # of the all-to-all: [sender, leaf, receiver]
    assert counts.sum(axis=1).tolist() == [80] * 4
    assert (np.abs(counts.sum(axis=0) - 80) <= 20).all()


def test_devices_give_what_simulated_workers_give():
    compressor = get(f"oktopk:{RATIO}")
    gradients = np.stack([normal(seed, (SIZE,)) for seed in range(DEVICES)])

    def own(x):
        x = {"a": x.reshape(-1), "b": x.reshape(-1)[:9]}
        return compressor.update(x, compressor.init(x, jax.random.key(0)), "w")[0]["a"]

    got = jax.jit(sharded(own, outs=P()))(gradients)
    expected, _ = steps(compressor, jnp.asarray(gradients), initial(compressor, gradients))
    np.testing.assert_allclose(got, expected[0], rtol=1e-5, atol=1e-6)
