"""Shared by the tests of compressors: the specs under test, and functions that run the steps of simulated workers."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxina import compressors
from jaxina.compressors import Compressor, Context

SPECS = [
    "none",
    "int32",
    "int32:paper",
    "int32:stochastic",
    "int16",
    "int8",
    "int8:stochastic",
    "int16:block=7",
    "blockfp:8:stochastic",
    "blockfp:5:block=7",
    "fp16",
    "bf16",
    "fp16ring",
    "bf16ring",
    "qsgd:64:bucket=20",
    "qgz:8:block=7",
    "qgz:3:block=7:stochastic",  # with 4 bits an element is so near a level that 1,500 draws never leave it
    "terngrad",
    "natural",
    "signsgd",
    "efsignsgd",
    "onebit",
    "topk:0.1",
    "oktopk:0.1",
    "threshold:0.5",
    "randomk:0.1",
    "dgc:0.1",
    "dgc:0.01:warmup=8",
    "powersgd:2",
    "thc:block=64",
]
SHAPE = (9, 8)


def normal(seed: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def context_for(compressor: Compressor, x: Any, key: jax.Array, workers: int = 1, worker: int = 0) -> Context:
    """Returns a context in which this worker's own proposal is what the workers agree on."""
    return Context(jnp.shape(x), workers, key, worker, compressor.propose(jnp.asarray(x)))


# The arrays are small and each program runs only a few times, so compiling costs most. Optimization is switched off.
_jit = functools.partial(jax.jit, static_argnums=0, compiler_options={"xla_backend_optimization_level": 0})


@_jit
def encoded(compressor: Compressor, x: jax.Array, key: jax.Array) -> Any:
    """Returns the payload of the first step of one worker of three."""
    context = context_for(compressor, x, key, workers=3)
    return compressor.encode(x, compressor.init_leaf(x, jax.random.key(2)), context)[0]


@_jit
def decoded(compressor: Compressor, x: jax.Array, keys: jax.Array) -> jax.Array:
    """Returns what x becomes with a single worker, once for each key."""

    def once(key: jax.Array) -> jax.Array:
        context = context_for(compressor, x, key)
        payload, _ = compressor.encode(x, compressor.init_leaf(x, jax.random.key(7)), context)
        return compressor.mean(compressor.decode(payload, context), 1)

    return jax.vmap(once)(keys)


@_jit
def sums(compressor: Compressor, arrays: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the decoded sum of the payloads, and the sum of the decoded payloads, for workers' arrays [n, ...]."""

    def one(x: jax.Array, worker: jax.Array) -> tuple[jax.Array, jax.Array]:
        agreed = jax.tree.map(lambda leaf: jax.lax.pmax(leaf, "workers"), compressor.propose(x))
        context = Context(x.shape, len(arrays), key, worker, agreed)
        payload, _ = compressor.encode(x, {}, context)
        total = jax.tree.map(lambda leaf: jax.lax.psum(leaf, "workers"), payload)
        return compressor.decode(total, context), jax.lax.psum(compressor.decode(payload, context), "workers")

    together, one_by_one = jax.vmap(one, axis_name="workers")(arrays, jnp.arange(len(arrays)))
    return together[0], one_by_one[0]


def traced_steps(compressor: Compressor, gradients: Any, state: Any) -> tuple[Any, Any]:
    """Runs one step of simulated workers. Gradients and state have a leading axis of workers."""
    return jax.vmap(lambda g, s: compressor.update(g, s, "workers"), axis_name="workers")(gradients, state)


steps = _jit(traced_steps)


def initial(compressor: Compressor, gradients: Any, seed: int = 0) -> Any:
    """Returns the initial state for the workers of `gradients`. Both have a leading axis of workers."""
    one = jax.tree.map(lambda leaf: leaf[0], gradients)
    workers = len(jax.tree.leaves(gradients)[0])
    state = compressor.init(one, jax.random.key(seed))
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (workers, *leaf.shape)), state)


def get(spec: str) -> Compressor:
    return compressors.get(spec)
