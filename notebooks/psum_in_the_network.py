# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # psum in the network
#
# Eight devices in one process play eight workers. `jax.lax.psum` sums their gradients, first in XLA, then in jaxina's
# aggregator, with the same line of user code.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.sharding import PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 8)  # before anything starts JAX's backend

import jaxina
from experiments.style import COLOURS, line

plt.rcParams["figure.dpi"] = 80
mesh = jax.make_mesh((8,), ("workers",), axis_types=(jax.sharding.AxisType.Auto,))

# %% [markdown]
# Each worker has its own vector, a row of `x`. The sizes of the elements differ by a factor of a thousand, as in
# gradients.

# %%
rng = np.random.default_rng(2021)
x = (rng.normal(size=(8, 4096)) * np.geomspace(1e-3, 1, 4096)).astype(np.float32)
exact = x.astype(np.float64).sum(axis=0)

# %% [markdown]
# This is the usual program in JAX: a `psum` inside a `shard_map`.


# %%
def total(rows):
    return jax.lax.psum(rows, "workers")


def summed(rows):
    return jax.jit(jax.shard_map(total, mesh=mesh, in_specs=P("workers"), out_specs=P()))(rows)[0]


by_xla = np.asarray(summed(x))
print("largest error of XLA's sum:", np.abs(by_xla - exact).max())

# %% [markdown]
# Now we run the same program while a jaxina job is running. The psum becomes a stream of integers in *block fixed
# point*: every 256 elements share an exponent, on which the workers agree, and the aggregator adds 32-bit integers.

# %%
jaxina.init()
by_jaxina = np.asarray(summed(x))
print("largest error of jaxina's sum:", np.abs(by_jaxina - exact).max())

# %% [markdown]
# The compiler got one custom call instead of an all-reduce:

# %%
program = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=P("workers"), out_specs=P())).lower(x).as_text()
print(*(text.strip()[:60] for text in program.splitlines() if "all_reduce" in text), sep="\n")

# %% [markdown]
# The order of addition does not matter for integers, but it matters for floats. Let the workers swap places a few
# times. float32 sums in other orders differ in their last bits. jaxina's sums have the same bits every time.

# %%
orders = [np.random.default_rng(seed).permutation(8) for seed in range(20)]


def different(sums):
    return len({row.tobytes() for row in sums})


through_jaxina = [np.asarray(summed(x[order])) for order in orders]
one_after_the_other = [np.add.reduce(x[order], axis=0, dtype=np.float32) for order in orders]
print("different results of 20 orders: float32", different(one_after_the_other), "- jaxina", different(through_jaxina))
assert different(through_jaxina) == 1

# %% [markdown]
# The figure shows the errors of both, element by element. float32's error follows the size of each element. The error
# of block fixed point has the same size for all elements of a block. It depends on the block's scale, and it is small
# beside the block's largest element.

# %%
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for number, (label, result) in enumerate({"float32 (XLA)": by_xla, "block fixed point (jaxina)": by_jaxina}.items()):
    axes.plot(np.abs(result - exact) + 1e-14, ".", markersize=2, color=COLOURS[1 + number], label=label)
axes.set(xlabel="element", ylabel="|error| of the sum of 8 workers", yscale="log", ylim=(1e-12, 1e-5))
axes.legend(markerscale=6)
axes.grid(alpha=0.3)

# %% [markdown]
# Now we train a linear model with and without jaxina. `jax.grad` of a replicated parameter inserts a sum over the
# workers. That psum goes through jaxina, too.

# %%
inputs = rng.normal(size=(8, 64, 16)).astype(np.float32)
targets = inputs @ rng.normal(size=16).astype(np.float32) + 0.1 * rng.normal(size=(8, 64)).astype(np.float32)


def loss(weights, inputs, targets):
    return jax.lax.pmean(((inputs[0] @ weights - targets[0]) ** 2).mean(), "workers")


def train(steps):
    sharded = jax.shard_map(loss, mesh=mesh, in_specs=(P(), P("workers"), P("workers")), out_specs=P())
    step = jax.jit(jax.value_and_grad(sharded))
    weights, losses = jnp.zeros(16), []
    for _ in range(steps):
        value, gradient = step(weights, inputs, targets)
        weights = weights - 0.1 * gradient
        losses.append(float(value))
    return losses


with jaxina.collectives(False):  # XLA's own sums
    native = train(30)
carried = train(30)

# %%
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(native, label="summed by XLA", **{**line(1), "markevery": 5})
axes.plot(carried, label="summed by jaxina", **{**line(2), "markevery": (2, 5)})
axes.set(xlabel="step", ylabel="mean squared error", yscale="log")
axes.legend()
axes.grid(alpha=0.3)
print("largest relative difference of the loss:", max(abs(a / b - 1) for a, b in zip(native, carried)))

# %% [markdown]
# `jaxina.init(aggregator="udp", switch=...)` or `JAXINA_AGGREGATOR=udp` sends the same integers to a software switch
# instead of shared memory. The sum has the same bits.
