"""Messages in parts (reduce-scatter and all-to-all), and the two-phase all-reduce that is made of them."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import get, initial, normal, steps, traced_steps
from eight_devices import DEVICES, sharded
from jax.sharding import PartitionSpec as P

from jaxina import compressors
from jaxina.compressors import GATHER, REDUCE_SCATTER, packing
from jaxina.compressors.messages import Message
from jaxina.errors import InvalidArgumentError


def quantized(part: np.ndarray, bits: int, block: int) -> np.ndarray:
    """What a part of an array becomes, in NumPy: float32[length]."""
    limit, result = np.float32(2 ** (bits - 1) - 1), np.empty_like(part)
    for start in range(0, part.size, block):
        values = part[start : start + block]
        largest = np.abs(values).max()
        words = np.rint(values / (largest or np.float32(1)) * limit)
        result[start : start + block] = words / limit * largest
    return result


def two_phases(arrays: np.ndarray, bits: int, block: int) -> np.ndarray:
    """The reference, in NumPy, of workers' arrays [n, size]."""
    workers, size = arrays.shape
    length = -(-size // workers)
    parts = np.pad(arrays, ((0, 0), (0, workers * length - size))).reshape(workers, workers, length)
    means = [
        np.sum(
            [quantized(parts[sender, owner], bits, block) / np.float32(workers) for sender in range(workers)], axis=0
        )
        for owner in range(workers)
    ]
    return np.concatenate([quantized(mean.astype(np.float32), bits, block) for mean in means])[:size]


@pytest.mark.parametrize("workers, bits, block, size", [(4, 8, 16, 200), (3, 4, 256, 100), (8, 8, 4, 50)])
def test_two_phases_give_what_the_reference_gives(workers, bits, block, size):
    arrays = np.stack([normal(seed, (size,)) for seed in range(workers)])
    compressor = get(f"qgz:{bits}:{block}")
    means, _ = steps(compressor, jnp.asarray(arrays), initial(compressor, jnp.asarray(arrays)))
    np.testing.assert_allclose(means, np.tile(two_phases(arrays, bits, block), (workers, 1)), rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(means[0], means[-1])
    error = np.abs(means[0] - arrays.mean(axis=0)).max()
    assert 0 < error <= np.abs(arrays).max() / (2 ** (bits - 1) - 1)  # half a unit of each phase


@pytest.mark.parametrize("bits, words", [(8, 125), (4, 63)])
def test_bytes_are_those_of_the_parts(bits, words):
    """Seven other parts of 125 words and a scale; then the own part and a flag to all, and seven such back."""
    gradients = [normal(seed, (1000,)) for seed in range(8)]
    traffic, _ = compressors.measure(get(f"qgz:{bits}"), gradients, jax.random.key(0))
    assert traffic.sent == 7 * (words + 4) + (words + 4 + 1)
    assert traffic.received == 7 * (words + 4) + 7 * (words + 4 + 1)


def test_both_stochastic_roundings_are_unbiased():
    """The mean of 4,000 draws is within four standard errors of each of 12 elements."""
    compressor, draws = get("qgz:3:4:stochastic"), 4000
    gradients = jnp.stack([normal(seed, (12,)) for seed in range(3)])

    def once(key: jax.Array) -> jax.Array:
        state = compressor.init(gradients[0], key)
        return jax.vmap(lambda g: compressor.update(g, state, "w")[0], axis_name="w")(gradients)[0]

    means = np.asarray(jax.jit(jax.vmap(once))(jax.random.split(jax.random.key(8), draws)), np.float64)
    assert (means.std(axis=0) > 0.02).all()
    distance = np.abs(means.mean(axis=0) - np.asarray(gradients, np.float64).mean(axis=0))
    assert (distance <= 4 * means.std(axis=0) / np.sqrt(draws)).all()


@pytest.mark.parametrize("spec", ["qgz:3:20+ef", "qgz:4:7:stochastic+ef"])
def test_error_feedback_owes_both_roundings(spec):
    compressor, count = get(spec), 20
    gradients = jnp.stack([normal(seed) for seed in (3, 4, 5)])
    state, total = initial(compressor, gradients), np.zeros(gradients.shape[1:])
    for _ in range(count):
        mean, state = steps(compressor, gradients, state)
        total += np.asarray(mean[0], np.float64)
    owed = np.asarray(state["leaves"]["memory"], np.float64).mean(axis=0)
    np.testing.assert_allclose(total + owed, count * np.asarray(gradients).mean(axis=0), atol=1e-3)
    assert np.abs(total - count * np.asarray(gradients).mean(axis=0)).max() > 0.05


def test_a_value_that_is_not_finite_reaches_all_workers():
    compressor, good = get("qgz:8"), jnp.stack([normal(seed) for seed in (1, 2, 3)])
    means, _ = steps(compressor, good.at[1, 8, 7].set(np.nan), initial(compressor, good))
    assert np.isnan(means).all()


@pytest.mark.parametrize("bits", [1, 9])
def test_other_widths_are_refused(bits):
    with pytest.raises(InvalidArgumentError, match=r"bits must be in \[2, 8\]"):
        get(f"qgz:{bits}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scattered(compressors.Compressor):
    """Whole numbers up to `largest`, summed by a reduce-scatter and spread by an all-gather of float32."""

    dtype: str = "int32"
    largest: int = 127

    promise = compressors.Promise(title="scattered", paper="-", unbiased=False, error_feedback="no", note="-")
    kind = REDUCE_SCATTER

    def encode(self, x, state, context):
        parts = jnp.pad(x.reshape(-1), (0, -x.size % context.workers)).reshape(context.workers, -1)
        return {"words": jnp.rint(parts).astype(self.dtype)}, state

    def decode(self, payload, context):
        return payload["words"].reshape(-1)[: context.size].reshape(context.shape).astype(jnp.float32)

    def fields(self, context, summed):
        most = self.largest * (context.workers if summed else 1)
        return {"words": packing.integers(-most, most)}

    def reduce(self, x, state, context):
        payload, state = self.encode(x, state, context)
        total = yield Message(REDUCE_SCATTER, payload, self.fields(context, False), self.fields(context, True))
        fields = {"words": packing.floats()}
        mean = {"words": total["words"] / jnp.float32(context.workers)}
        gathered = yield Message(GATHER, mean, fields, fields)
        return self.decode(gathered, context), state


NUMBERS = np.random.default_rng(3).integers(-100, 100, (DEVICES, 21)).astype(np.float32)


def update(compressor, axis, vma):
    def own(x):
        x = x.reshape(-1)
        mean, _ = compressor.update(
            {"a": x, "b": x[:3]}, compressor.init({"a": x, "b": x[:3]}, jax.random.key(0)), axis
        )
        return mean["a"]

    return jax.jit(sharded(own, outs=P(), vma=vma))


@pytest.mark.parametrize("vma", [True, False])
def test_a_reduce_scatter_and_an_all_gather_are_an_all_reduce(vma):
    np.testing.assert_allclose(update(Scattered(), "w", vma)(NUMBERS), NUMBERS.mean(axis=0), rtol=1e-6)
    two = get("qgz:8:4")
    np.testing.assert_allclose(update(two, "w", vma)(NUMBERS), two_phases(NUMBERS, 8, 4), rtol=1e-5, atol=1e-5)


def test_a_reduce_scatter_counts_all_parts_up_and_one_down():
    """21 numbers are 8 parts of 3. A number up to 127 takes a byte, a sum of eight 11 bits: three are 33 bits."""
    traffic, mean = compressors.measure(Scattered(), list(NUMBERS), jax.random.key(0))
    np.testing.assert_allclose(mean, NUMBERS.mean(axis=0), rtol=1e-6)
    up, gathered = 8 * 3, 3 * 4 + 1  # with a flag
    assert traffic.sent == up + gathered
    assert traffic.received == 5 + 7 * gathered


def test_a_single_worker_gets_what_it_sends():
    x = jnp.asarray(NUMBERS[0])
    mean, _ = Scattered().update(x, Scattered().init(x, jax.random.key(0)))
    np.testing.assert_array_equal(mean, x)


def test_a_reduction_that_ends_in_parts_is_refused():
    class Unfinished(Scattered):
        def reduce(self, x, state, context):
            payload, state = self.encode(x, state, context)
            yield Message(REDUCE_SCATTER, payload, self.fields(context, False), self.fields(context, True))
            return x, state

    with pytest.raises(InvalidArgumentError, match="end it with a GATHER"):
        traced_steps(Unfinished(), jnp.ones((2, 3)), initial(Unfinished(), jnp.ones((2, 3))))


def test_reduce_scatters_that_could_wrap_are_refused():
    x = jnp.ones((4, 3))
    for wrong, message in ((Scattered(dtype="int8"), "'words' is int8"), (Scattered(largest=2**29), "do not fit")):
        with pytest.raises(InvalidArgumentError, match=message):
            traced_steps(wrong, x, initial(wrong, x))
