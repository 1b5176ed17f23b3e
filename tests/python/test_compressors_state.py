"""The state of a compressor: its form, its memory under a schedule, and what it knows of the optimizer."""

from __future__ import annotations

import dataclasses

import eight_devices  # noqa: F401 (it gives the process its devices, before JAX starts)
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import get, initial, normal, steps
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxina import compressors
from jaxina.compressors import packing
from jaxina.errors import InvalidArgumentError

optax = pytest.importorskip("optax")

RATES = np.float32([0.0, 0.5, 1.0, 0.1, 0.01, 0.01])


def schedule(step):
    return jnp.asarray(RATES)[step]


def trained(compressor: str, *, told: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns what SGD with the schedule added to parameters, the memory, and minus the sum of rates x gradients."""
    average = compressors.all_reduce_mean(compressor, None, learning_rate=schedule if told else None)
    optimizer = optax.chain(average, optax.sgd(schedule))
    params = jnp.zeros((9, 8))
    state, wanted = optimizer.init(params), np.zeros((9, 8))
    update = jax.jit(optimizer.update)
    for step, rate in enumerate(RATES):
        gradient = normal(step)
        updates, state = update(gradient, state, params)
        params = optax.apply_updates(params, updates)
        wanted -= rate * gradient
    return np.asarray(params), np.asarray(state[0]["leaves"]["memory"]), wanted


@pytest.mark.parametrize("spec", ["topk:0.1", "efsignsgd", "powersgd:2", "int8+ef", "qgz:4+ef"])
def test_under_a_schedule_what_is_owed_counts_with_the_rate_of_its_step(spec):
    """Parameters and memory together are the sum of rates x gradients. With a memory of gradients they are not."""
    moved, memory, wanted = trained(spec, told=True)
    np.testing.assert_allclose(moved - memory, wanted, atol=1e-5)
    assert np.abs(memory).max() > 1e-4, "something is owed"
    moved, memory, wanted = trained(spec, told=False)
    assert np.abs(moved - RATES[-1] * memory - wanted).max() > 1e-3


def test_a_schedule_by_hand():
    """Top-1 of 2. At rate 1 the 2 is owed: 2 of updates, 20 gradients at rate 0.1. At rate 0 nothing changes."""
    compressor = get("topk:0.5")
    state = compressor.init(jnp.zeros(2), jax.random.key(0))
    first, state = compressor.update(jnp.float32([3, 2]), state, learning_rate=1.0)
    none, state = compressor.update(jnp.float32([7, 5]), state, learning_rate=0.0)
    assert state["leaves"]["memory"].tolist() == [0, 2]
    second, state = compressor.update(jnp.float32([4, 1]), state, learning_rate=0.1)
    assert first.tolist() == [3, 0]
    assert none.tolist() == [7, 0]
    np.testing.assert_allclose(second, [0, 21], rtol=1e-6)
    np.testing.assert_allclose(state["leaves"]["memory"], [0.4, 0], rtol=1e-6)


@pytest.mark.parametrize("rate", [-0.1, np.nan, np.inf, "0.1", 1j, True, np.ones(2)])
def test_a_rate_that_is_no_number_of_at_least_zero_is_refused(rate):
    """With an infinite rate the memory would be NaN: it is the rate times the error, which may be 0."""
    compressor = get("topk:0.5")
    with pytest.raises(InvalidArgumentError, match="learning rate must be a"):
        compressor.update(jnp.ones(2), compressor.init(jnp.ones(2), jax.random.key(0)), learning_rate=rate)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decayed(compressors.Compressor):
    """Sends the gradient with the weight decay of SGD, which needs parameters, rate and step."""

    promise = compressors.Promise(title="decayed", paper="-", unbiased=True, error_feedback="no", note="-")
    kind = compressors.SUM

    def encode(self, x, state, context):
        return {"values": x + 0.5 * context.params + context.learning_rate + context.step}, state

    def decode(self, payload, context):
        return payload["values"]

    def fields(self, context, summed):
        return {"values": packing.floats()}


def test_a_compressor_sees_parameters_rate_and_step():
    optimizer = compressors.all_reduce_mean(Decayed(), None, learning_rate=lambda step: 10.0 * (step + 1))
    params = {"a": jnp.float32([2, 4]), "b": jnp.float32([6, 8])}
    gradients = jax.tree.map(jnp.ones_like, params)
    state = optimizer.init(params)
    updates, state = jax.jit(optimizer.update)(gradients, state, params)
    assert (updates["a"].tolist(), updates["b"].tolist()) == ([12, 13], [14, 15])
    updates, _ = jax.jit(optimizer.update)(gradients, state, params)
    assert updates["a"].tolist() == [23, 24]


def test_parameters_or_states_of_other_leaves_are_refused():
    compressor, x = get("topk:0.5"), jnp.ones(2)
    state = compressor.init({"a": x}, jax.random.key(0))
    with pytest.raises(InvalidArgumentError, match="the gradients are"):
        compressor.update({"b": x}, state)
    with pytest.raises(InvalidArgumentError, match="the gradients are"):
        compressor.update({"a": x}, state, params={"a": x, "b": x})


@pytest.mark.parametrize("spec", ["topk:0.5", "dgc:0.5", "oktopk:0.5"])
def test_the_state_may_be_donated_and_the_key_stays(spec):
    compressor, gradient, key = get(spec), jnp.ones(8), jax.random.key(0)
    step = jax.jit(compressor.update, donate_argnums=1)
    _, state = step(gradient, compressor.init(gradient, key))
    _, state = step(gradient, state)
    assert int(state["step"]) == 2
    assert jax.random.bits(key) == jax.random.bits(jax.random.key(0))


def test_leaves_must_have_the_same_names():
    class Uneven(Decayed):
        def init_leaf(self, x, key):
            return {"matrix" if x.ndim > 1 else "vector": x}

    with pytest.raises(InvalidArgumentError, match=r"the arrays \['vector'\] and another one \['matrix'\]"):
        Uneven().init([jnp.ones((2, 2)), jnp.ones(2)], jax.random.key(0))


PARAMS = {"kernel": normal(1, (16, 12)), "bias": normal(2, (12,)), "norm": [normal(3, (12,)), normal(4, (12,))]}
SPECS = {"kernel": P("model"), "bias": P("model"), "norm": [P(), P("model")]}


@pytest.mark.parametrize("spec", ["topk:0.1", "dgc:0.1", "powersgd:2", "int8+ef"])
def test_shardings_of_the_state_follow_from_those_of_the_parameters(spec):
    """On four devices, a step of parameters that are sharded gives what it gives on one device."""
    mesh = jax.make_mesh((4,), ("model",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4])
    optimizer = optax.chain(compressors.all_reduce_mean(spec, None), optax.sgd(0.1, momentum=0.9))
    params, gradients = jax.tree.map(jnp.asarray, PARAMS), jax.tree.map(lambda x: jnp.asarray(x[::-1]), PARAMS)
    state = optimizer.init(params)
    placed = optax.tree_map_params(
        optimizer,
        lambda array, param, own: NamedSharding(mesh, own if array.shape == param.shape else P()),
        state,
        params,
        SPECS,
        transform_non_params=lambda _: NamedSharding(mesh, P()),
    )
    of_params = jax.tree.map(lambda own: NamedSharding(mesh, own), SPECS)
    own = placed[0]["leaves"]["q" if spec == "powersgd:2" else "momentum" if spec == "dgc:0.1" else "memory"]
    assert own["kernel"].spec == (P() if spec == "powersgd:2" else P("model"))

    def step(params, gradients, state):
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    places = (of_params, of_params, placed)
    sharded = jax.jit(step, in_shardings=places, out_shardings=(of_params, placed))
    arguments = jax.device_put((params, gradients, state), places)
    (there, _, state_there), one_device = arguments, jax.jit(step)
    for _ in range(2):
        there, state_there = sharded(there, arguments[1], state_there)
        params, state = one_device(params, gradients, state)
    leaves = state_there[0]["leaves"]
    jax.tree.map(lambda array, place: np.testing.assert_equal(array.sharding, place), leaves, placed[0]["leaves"])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), there, params)


ALIKE = ((9, 8), (40,), (9, 8), (), (40,))
UNLIKE = ((9, 8), (40,), (72,), (), (5, 8))  # of the same elements


@pytest.mark.parametrize("spec", ["int8:stochastic+ef", "qsgd:64:bucket=20", "topk:0.1"])
def test_leaves_of_one_shape_are_computed_as_each_alone(spec):
    """These algorithms read an array in row-major order. So the reference is the same elements, in unequal shapes."""
    compressor = get(spec)
    gradients = [jnp.stack([normal(10 * w + i, shape) for w in range(3)]) for i, shape in enumerate(ALIKE)]
    apart = [x.reshape(3, *shape) for x, shape in zip(gradients, UNLIKE, strict=True)]
    means, state = steps(compressor, gradients, initial(compressor, gradients))
    expected, state_apart = steps(compressor, apart, initial(compressor, apart))
    for got, right in zip(
        *map(jax.tree.leaves, ((means, state["leaves"]), (expected, state_apart["leaves"]))), strict=True
    ):
        np.testing.assert_array_equal(got, np.reshape(right, got.shape))


def test_many_leaves_of_few_shapes_make_a_small_program():
    """A layer more adds only what puts its leaves beside the others: no sort, and no random number."""

    def count(layers: int) -> int:
        compressor, leaves = get("qsgd:4"), [jnp.ones((2, 16))] * layers
        step = jax.vmap(lambda g, s: compressor.update(g, s, "workers"), axis_name="workers")
        return str(jax.make_jaxpr(step)(leaves, initial(compressor, leaves))).count("random_bits")

    assert count(2) == count(20) > 0
