"""Compressors in programs of `jax.jit` over arrays with `NamedSharding`, such as FSDP."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import eight_devices  # noqa: F401 (it gives the process its devices, before JAX starts)
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import get, initial, normal, traced_steps
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxina import compressors
from jaxina.errors import InvalidArgumentError

optax = pytest.importorskip("optax")

PARAMS = {"up": normal(1, (16, 24)), "down": normal(2, (24, 8))}
BATCH = (normal(3, (32, 16)), normal(4, (32, 8)))
RATE = 0.1


def loss(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    return ((jnp.tanh(x @ params["up"]) @ params["down"] - y) ** 2).mean()


def make_mesh(sizes: tuple[int, ...], kind: AxisType = AxisType.Auto) -> jax.sharding.Mesh:
    return jax.make_mesh(sizes, ("data", "model")[: len(sizes)], axis_types=(kind,) * len(sizes))


def shardings(mesh: jax.sharding.Mesh) -> dict[str, NamedSharding]:
    """Each parameter is split over all devices, and with two axes its hidden units over "model"."""
    hidden = "model" if "model" in mesh.shape else None
    return {"up": NamedSharding(mesh, P("data", hidden)), "down": NamedSharding(mesh, P(hidden, "data"))}


def simulated(spec: str, workers: int, count: int) -> tuple[Any, Any]:
    """The parameters and the memories after `count` steps of workers of `jax.vmap`."""
    compressor, params = get(spec), jax.tree.map(jnp.asarray, PARAMS)
    parts = [part.reshape(workers, -1, part.shape[1]) for part in BATCH]
    state = None

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, *parts)
        means, state = traced_steps(compressor, gradients, state or initial(compressor, gradients))
        return jax.tree.map(lambda p, mean: p - RATE * mean[0], params, means), state

    for _ in range(count):
        params, state = step(params, state)
    return params, state["leaves"].get("memory", {})


def program(spec: str, mesh: jax.sharding.Mesh) -> tuple[Any, Any, Any, Any]:
    """A user's program: its step, and the step's arguments."""
    gradients_of = compressors.per_worker(jax.value_and_grad(loss), mesh, "data")
    optimizer = optax.chain(compressors.all_reduce_mean(spec, "data", mesh=mesh), optax.sgd(RATE))
    params = jax.device_put(PARAMS, shardings(mesh))
    state = optimizer.init(params)
    of_state = jax.tree.map(lambda x: x.sharding, state)

    def step(params: Any, state: Any, batch: Any) -> Any:
        losses, gradients = gradients_of(params, *batch)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, losses.mean()

    compiled = jax.jit(step, out_shardings=(shardings(mesh), of_state, None))
    return compiled, params, state, jax.device_put(BATCH, NamedSharding(mesh, P("data")))


@pytest.mark.parametrize(
    "spec, sizes, kind",
    [
        ("topk:0.1", (8,), AxisType.Auto),
        ("qgz:4:block=7+ef", (8,), AxisType.Explicit),
        ("int8+ef", (4, 2), AxisType.Auto),
        ("oktopk:0.1", (4, 2), AxisType.Auto),
    ],
)
def test_sharded_parameters_are_trained_as_simulated_workers_train_them(spec, sizes, kind):
    mesh, count = make_mesh(sizes, kind), 3
    step, params, state, batch = program(spec, mesh)
    before = jax.tree.map(lambda x: x.sharding, (params, state))
    for _ in range(count):
        params, state, value = step(params, state, batch)
    jax.tree.map(lambda x, place: np.testing.assert_equal(x.sharding, place), (params, state), before)
    expected, memory = simulated(spec, sizes[0], count)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), params, expected)
    for name, own in state[0]["leaves"]["memory"].items():
        np.testing.assert_allclose(own, memory[name], rtol=1e-3, atol=1e-4)
        assert np.abs(own).max() > 1e-4
        assert own.sharding.spec[0] == "data"
        assert own.addressable_shards[0].data.shape[0] == 1, "a device has its own worker's memory alone"
    assert float(value) < loss(PARAMS, *BATCH)


def test_gradients_travel_compressed():
    """The partitioner has no sum of gradients left: of float32 it gathers parameters, and averages the loss."""
    step, params, state, batch = program("topk:0.1", make_mesh((8,)))
    text = step.lower(params, state, batch).compile().as_text()
    moved = re.findall(r"= \(?(\w+)\[([\d,]*)\].* (all-reduce|reduce-scatter|all-to-all|all-gather)(?:-start)?\(", text)
    sums = [size for dtype, size, kind in moved if kind in ("all-reduce", "reduce-scatter")]
    assert set(sums) <= {""}, moved
    payload = sum(8 * -(-array.size // 10) for array in PARAMS.values()) + len(PARAMS)  # values, indices, flags
    gathered = [int(np.prod([int(n) for n in size.split(",")])) for dtype, size, kind in moved if dtype == "u8"]
    assert sum(gathered) <= 8 * (payload + 16), moved
    assert gathered, moved


def test_a_schedule_and_tree_map_params_work_with_a_mesh():
    mesh = make_mesh((8,))
    average = compressors.all_reduce_mean("topk:0.5", "data", mesh=mesh, learning_rate=lambda step: 1.0 / (1 + step))
    gradients = jnp.tile(jnp.float32([3, 2]), (8, 1))
    state = jax.jit(average.init)(jnp.zeros(2))
    update = jax.jit(average.update)
    first, state = update(gradients, state)
    second, state = update(gradients, state)
    assert (first.tolist(), second.tolist()) == ([3, 0], [0, 6])  # the 2 of rate 1 counts 4 at rate 1 / 2
    places = optax.tree_map_params(average, lambda array, param: array.shape[1:] == param.shape, state, jnp.zeros(2))
    assert places["leaves"] == {"memory": True}


def test_several_axes_may_be_the_workers():
    mesh = make_mesh((4, 2))
    average = compressors.Partitioned(get("none"), mesh, ("data", "model"))
    gradients = compressors.per_worker(jax.grad(loss), mesh, ("data", "model"))(PARAMS, *BATCH)
    mean, _ = average.update(gradients, average.init(PARAMS, jax.random.key(0)))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), mean, jax.grad(loss)(PARAMS, *BATCH)
    )


def test_what_is_wrong_is_said():
    mesh = make_mesh((8,))
    average = compressors.Partitioned(get("none"), mesh, "data")
    state = average.init(PARAMS, jax.random.key(0))
    with pytest.raises(InvalidArgumentError, match=r"gradient\['down'\] has the shape \(24, 8\).*per_worker"):
        average.update(jax.grad(loss)(PARAMS, *BATCH), state)
    with pytest.raises(InvalidArgumentError, match="learning rate must be at least 0"):
        average.update(jax.tree.map(lambda x: jnp.stack([x] * 8), PARAMS), state, learning_rate=-0.1)
    with pytest.raises(InvalidArgumentError, match="the mesh has the axes data, and not workers"):
        compressors.all_reduce_mean("none", "workers", mesh=mesh)
    with pytest.raises(InvalidArgumentError, match="the mesh has the axes data, and not model"):
        compressors.per_worker(loss, mesh, ("data", "model"))
    with pytest.raises(InvalidArgumentError, match=r"batch\[0\] has the shape \(12, 16\).* 8 workers of 'data'"):
        compressors.per_worker(loss, mesh, "data")(PARAMS, BATCH[0][:12], BATCH[1][:12])


@pytest.mark.parametrize("number, spec", [(0, P()), (1, P("data", None))])
def test_the_page_s_examples_run(number, spec):
    page = (Path(__file__).resolve().parents[2] / "docs" / "compressors.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(code) == 2
    found: dict[str, Any] = {}
    exec(compile(code[number], "docs/compressors.md", "exec"), found)
    assert found["losses"][-1] < 0.5 * found["losses"][0]
    assert found["params"]["up"].sharding.spec == spec
