"""The programs of partitioned.py: plain jit with shardings. XLA's partitioner chooses what moves between devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

ROWS, COLUMNS = P("w"), P(None, "w")


@dataclasses.dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
      function: the function that is jitted.
      inputs: arrays that are the same in every process. Floats are float32.
      specs: the partition specs of the inputs, as a prefix of their tree.
      outs: the partition specs of the results, as a prefix of their tree. If None, XLA chooses.
      axes: the mesh's axes, "w" alone or "a" and "b".
      jit: what jits the function.
      enter: makes the function's arguments from the inputs.
      leave: makes the arrays to compare from the function's arguments after the call and from its result.
    """

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    specs: tuple[Any, ...]
    outs: Any = None
    axes: tuple[str, ...] = ("w",)
    jit: Callable[..., Any] = jax.jit
    enter: Callable[..., tuple[Any, ...]] = lambda *inputs: inputs
    leave: Callable[[tuple[Any, ...], Any], Any] = lambda arguments, result: result

    def mesh(self, devices: list[jax.Device]) -> Mesh:
        sizes = (len(devices),) if len(self.axes) == 1 else (2, len(devices) // 2)
        return jax.make_mesh(sizes, self.axes, devices=devices, axis_types=(AxisType.Auto,) * len(self.axes))

    def place(self, mesh: Mesh) -> tuple[Any, ...]:
        """Returns the inputs as global arrays."""

        def one(spec: P, values: np.ndarray) -> jax.Array:
            return jax.make_array_from_callback(values.shape, NamedSharding(mesh, spec), lambda index: values[index])

        whole = jax.tree.broadcast(self.specs, self.inputs, is_leaf=lambda spec: isinstance(spec, P))
        return jax.tree.map(one, whole, self.inputs, is_leaf=lambda spec: isinstance(spec, P))

    def jitted(self, mesh: Mesh) -> Any:
        if self.outs is None:
            return self.jit(self.function)
        laid_out = jax.tree.map(
            lambda spec: NamedSharding(mesh, spec), self.outs, is_leaf=lambda spec: isinstance(spec, P)
        )
        return self.jit(self.function, out_shardings=laid_out)

    def unjitted(self, *inputs: Any) -> Any:
        arguments = self.enter(*inputs)
        return self.leave(arguments, self.function(*arguments))


def random(*shape: int) -> np.ndarray:
    """Returns normal random numbers, divided by the root of the last dimension but one, as a layer's weights are."""
    values = np.random.default_rng(shape).standard_normal(shape)
    return (values / np.sqrt(shape[-2])).astype(np.float32)


def tokens(count: int, below: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, below, count).astype(np.int32)


# ---- programs that mostly move data


def convolution(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def experts(x: Any, weights: Any) -> Any:
    """Moves the rows of each expert from all devices to the expert's device, and the results back."""
    arrived = lax.with_sharding_constraint(x, ROWS)
    return lax.with_sharding_constraint(jnp.tanh(jnp.einsum("erd,edf->erf", arrived, weights)), COLUMNS)


def pipeline(stages: Any, batches: Any) -> Any:
    """In each turn, every stage hands its rows to the next stage, and the first stage takes a new batch."""

    def turn(held: Any, batch: Any) -> Any:
        held = lax.with_sharding_constraint(jnp.roll(held, 1, 0), ROWS)
        held = jnp.where((jnp.arange(len(held)) == 0)[:, None, None], batch, held)
        return jnp.tanh(jnp.einsum("sbd,sde->sbe", held, stages)), None

    empty = jnp.zeros((len(stages), *batches.shape[1:]), batches.dtype)
    return lax.scan(turn, empty, batches)[0]


# ---- layers


def batch_normalization(x: Any, scale: Any) -> Any:
    return (x - x.mean(0)) * lax.rsqrt(x.var(0) + 1e-3) * scale


def histogram(x: Any) -> Any:
    return jnp.sum(x[:, None] == jnp.arange(16), 0)


def vocabulary(table: Any, words: Any, following: Any) -> Any:
    """Returns cross-entropy and gradient of a model that has nothing but an embedding table."""

    def loss(table: Any) -> Any:
        logits = table[words] @ table.T
        right = jnp.take_along_axis(logits, following[:, None], 1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(logits, 1) - right)

    return jax.value_and_grad(loss)(table)


def attention(weights: Any, x: Any) -> Any:
    """Returns the gradient through one layer of attention. Each device has a part of the heads."""

    def loss(weights: Any, x: Any) -> Any:
        query, key, value = (jnp.einsum("bsd,dhk->bshk", x, weights[name]) for name in ("query", "key", "value"))
        looks = jax.nn.softmax(jnp.einsum("bshk,bthk->bhst", query, key))
        return jnp.mean(jnp.einsum("bhst,bthk,hkd->bsd", looks, value, weights["merge"]) ** 2)

    return jax.grad(loss, (0, 1))(weights, x)


def block(x: Any, layer: Any) -> Any:
    return x + jnp.tanh(x @ layer["up"]) @ layer["down"]


def scanned(x: Any, layers: Any) -> Any:
    return lax.scan(lambda x, layer: (block(x, layer), None), x, layers)[0]


def rematerialized(x: Any, layers: Any) -> Any:
    def loss(layers: Any) -> Any:
        again = jax.checkpoint(lambda x, layer: (block(x, layer), None))
        return jnp.mean(lax.scan(again, x, layers)[0] ** 2)

    return jax.grad(loss)(layers)


# ---- training steps


def loss(parameters: Any, x: Any, y: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ parameters["up"]) @ parameters["down"] - y) ** 2)


def descent(parameters: Any, x: Any, y: Any) -> Any:
    value, gradients = jax.value_and_grad(loss)(parameters, x, y)
    return jax.tree.map(lambda old, gradient: old - 0.1 * gradient, parameters, gradients), value


def adam(parameters: Any, state: Any, x: Any, y: Any) -> Any:
    value, gradients = jax.value_and_grad(loss)(parameters, x, y)
    updates, state = optax.adam(0.01).update(gradients, state)
    return optax.apply_updates(parameters, updates), state, value


def adam_state(parameters: Any) -> Any:
    """Returns a state as after many steps. With nu near zero, Adam would divide rounding errors by each other."""
    state = optax.ScaleByAdamState(
        np.int32(100), jax.tree.map(lambda p: p / 8, parameters), jax.tree.map(lambda p: 1 + p * p, parameters)
    )
    return state, optax.EmptyState()


class Network(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.up, self.down = nnx.Linear(16, 32, rngs=rngs), nnx.Linear(32, 8, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.down(nnx.tanh(self.up(x)))


def nnx_arguments(parameters: Any, x: Any, y: Any) -> tuple[Any, ...]:
    model = nnx.eval_shape(lambda: Network(nnx.Rngs(0)))
    nnx.update(model, parameters)
    return model, nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param), x, y


def nnx_step(model: Network, optimizer: nnx.Optimizer, x: Any, y: Any) -> Any:
    value, gradients = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    optimizer.update(model, gradients)
    return value


def nnx_results(arguments: tuple[Any, ...], value: Any) -> Any:
    return nnx.to_pure_dict(nnx.state(arguments[0])), value


def programs() -> dict[str, Program]:
    square, mlp = random(16, 16), {"up": random(16, 32), "down": random(32, 8)}
    x, y = random(24, 16), random(24, 8)
    deep = {"up": random(3, 16, 32) / 4, "down": random(3, 32, 16) / 4}
    parallel = {"up": P(None, None, "w"), "down": P(None, "w")}  # the hidden units are split
    cut, cut_twice = {"up": COLUMNS, "down": COLUMNS}, {"up": P("a", "b"), "down": P("b", "a")}
    heads = {name: random(16, 4, 8) / 4 for name in ("query", "key", "value")} | {"merge": random(4, 8, 16) / 4}
    heads_cut = dict.fromkeys(("query", "key", "value"), COLUMNS) | {"merge": ROWS}
    linears = {
        "up": {"kernel": mlp["up"], "bias": random(2, 32)[0]},
        "down": {"kernel": mlp["down"], "bias": random(2, 8)[0]},
    }
    linears_cut = {"up": {"kernel": COLUMNS, "bias": ROWS}, "down": {"kernel": ROWS, "bias": P()}}
    state = adam_state(mlp)

    def adam_specs(parameters: Any) -> Any:
        return optax.ScaleByAdamState(P(), parameters, parameters), optax.EmptyState()

    return {
        "reshard rows to columns": Program(lambda x: x + 0, (square,), (ROWS,), COLUMNS),
        "x.T": Program(lambda x: x.T, (square,), (ROWS,), ROWS),
        "jnp.roll": Program(lambda x: jnp.roll(x, 3, 0), (square,), (ROWS,), ROWS),
        "x[::-1]": Program(lambda x: x[::-1], (square,), (ROWS,), ROWS),
        "slice and concatenate": Program(lambda x: jnp.concatenate([x[5:], x[:5]]), (square,), (ROWS,), ROWS),
        "sort": Program(lambda x: jnp.sort(x, 0), (square,), (ROWS,), ROWS),
        "padded convolution": Program(convolution, (random(2, 16, 8, 4), random(3, 3, 4, 4)), (COLUMNS, P()), COLUMNS),
        "experts": Program(experts, (random(4, 8, 16), random(4, 16, 16)), (COLUMNS, ROWS), COLUMNS),
        "pipeline": Program(pipeline, (random(4, 16, 16), random(6, 8, 16)), (ROWS, P()), ROWS),
        "matmul, 2-D mesh": Program(
            jnp.matmul, (random(16, 32), random(32, 8)), (P("b", "a"), P("a", "b")), P("b"), ("a", "b")
        ),
        "batch normalization": Program(batch_normalization, (x, random(2, 16)[0]), (ROWS, P()), ROWS),
        "histogram": Program(histogram, (tokens(64, 16),), (ROWS,), P()),
        "vocabulary cut": Program(
            vocabulary, (random(16, 32), tokens(12, 16), tokens(16, 16)[:12]), (ROWS, P(), P()), (P(), ROWS)
        ),
        "attention, tensor parallel": Program(attention, (heads, random(4, 8, 16)), (heads_cut, P()), (heads_cut, P())),
        "scan over layers": Program(scanned, (x, deep), (P(), parallel), P()),
        "remat in scan": Program(rematerialized, (x, deep), (P(), parallel), parallel),
        "train step, data parallel": Program(descent, (mlp, x, y), (P(), ROWS, ROWS), P()),
        "train step, FSDP": Program(
            adam, (mlp, state, x, y), (cut, adam_specs(cut), ROWS, ROWS), (cut, adam_specs(cut), P())
        ),
        "train step, FSDP and tensor parallel, 2-D mesh": Program(
            adam,
            (mlp, state, x, y),
            (cut_twice, adam_specs(cut_twice), P("a"), P("a")),
            (cut_twice, adam_specs(cut_twice), P()),
            ("a", "b"),
        ),
        "train step, nnx.jit": Program(
            nnx_step, (linears, x, y), (linears_cut, P(), P()), jit=nnx.jit, enter=nnx_arguments, leave=nnx_results
        ),
    }
