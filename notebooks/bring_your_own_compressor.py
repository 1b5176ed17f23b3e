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
# # Bring your own compressor
#
# A compressor is one class. It says what it promises, how it encodes and decodes, and how its payload is packed. Error
# feedback, the count of bytes and the training step come from the base class.

# %%
import dataclasses

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from experiments.style import COLOURS, line
from jaxina import compressors
from jaxina.compressors import SUM, Compressor, Context, Promise
from jaxina.compressors.packing import floats, integers

plt.rcParams["figure.dpi"] = 80

# %% [markdown]
# Ours divides an array by its largest magnitude. The workers agree on that magnitude first (`propose`). Then it rounds
# at random to one of 2 s + 1 levels. Levels are integers with a common scale, so an aggregator can sum them: kind
# `SUM`.


# %%
@dataclasses.dataclass(frozen=True, kw_only=True)
class Levels(Compressor):
    """``round(s x / max|x|)``, up or down at random, without bias."""

    s: int = 3

    promise = Promise(title="levels", paper="-", unbiased=True, error_feedback="off", note="For this notebook.")
    kind = SUM

    def propose(self, x):
        return {"largest": jnp.abs(x).max()}

    def propose_fields(self):
        return {"largest": floats()}

    def encode(self, x, state, context: Context):
        largest = context.agreed["largest"]
        scaled = self.s * x / jnp.where(largest > 0, largest, 1)
        below = jnp.floor(scaled)
        up = jax.random.uniform(context.private_key, x.shape) < scaled - below
        return {"levels": (below + up).astype(jnp.int32)}, state

    def decode(self, payload, context: Context):
        return payload["levels"].astype(jnp.float32) * context.agreed["largest"] / self.s

    def fields(self, context: Context, summed):
        most = self.s * (context.workers if summed else 1)
        return {"levels": integers(-most, most)}


compressors.register("levels", Levels)

# %% [markdown]
# The compressor has a name now, and a spec can set its parameters.

# %%
mine = compressors.get("levels:s=7")
print(mine, "is", compressors.spec_of(mine))

# %% [markdown]
# ## Does it keep its promise?
#
# It promises to be unbiased. So the mean over many keys must approach the array, and the error must shrink with one
# over the square root of the number of keys.

# %%
x = jnp.asarray(np.random.default_rng(0).normal(size=200).astype(np.float32))


@jax.jit
@jax.vmap
def decoded(key):
    context = Context(x.shape, 1, key, 0, mine.propose(x))
    return mine.decode(mine.encode(x, {}, context)[0], context)


draws = np.asarray(decoded(jax.random.split(jax.random.key(1), 4096)))
counts = 4 ** np.arange(7)
errors = [np.abs(draws[:count].mean(axis=0) - x) for count in counts]
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.plot(counts, [np.mean(e) for e in errors], label="mean over elements", **line(1))
axes.fill_between(
    counts, *([np.quantile(e, q) for e in errors] for q in (0.1, 0.9)), alpha=0.2, color=COLOURS[1], label="10 to 90 %"
)
axes.plot(counts, np.mean(errors[0]) / np.sqrt(counts), color="black", linestyle="dotted", label="1 / root of keys")
axes.set(xlabel="keys averaged", ylabel="|mean - x|", xscale="log", yscale="log")
axes.legend()
axes.grid(alpha=0.3)
largest_deviation = float(jnp.abs(x).max()) / mine.s / 2  # of one draw, that of a fair coin between two levels
assert (errors[-1] < 5 * largest_deviation / np.sqrt(counts[-1])).all()

# %% [markdown]
# ## How many bytes?
#
# Bytes are counted from the packed payloads. These are digits of base 2 s + 1 on the way to the aggregator, and of base
# 2 n s + 1 for the sum on the way back.

# %%
gradients = [np.random.default_rng(seed).normal(size=(128, 128)).astype(np.float32) for seed in range(8)]
for s in (1, 3, 7, 127):
    traffic, mean = compressors.measure(compressors.get(f"levels:s={s}"), gradients, jax.random.key(0))
    error = np.linalg.norm(mean - np.mean(gradients, axis=0)) / np.linalg.norm(np.mean(gradients, axis=0))
    bits = 8 / gradients[0].size
    print(f"s = {s:3}: {traffic.sent * bits:.2f} bits sent, {traffic.received * bits:.2f} received, error {error:.2f}")

# %% [markdown]
# ## Does it train?
#
# We train a logistic regression with eight workers, which `vmap` simulates, and five seeds each. `+ef` in a spec
# switches error feedback on.

# %%
rng = np.random.default_rng(1)
inputs = rng.normal(size=(8, 128, 50)).astype(np.float32)
truth = rng.normal(size=50).astype(np.float32)
labels = (inputs @ truth + rng.logistic(size=(8, 128)) > 0).astype(np.float32)


def loss(weights, inputs, labels):
    logits = inputs @ weights
    return (jnp.logaddexp(0, logits) - labels * logits).mean()


def losses_of(spec, seeds, steps=80):
    compressor = compressors.get(spec)

    @jax.jit
    def step(weights, states):
        values, gradients = jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0, 0))(weights, inputs, labels)
        means, states = jax.vmap(lambda g, s: compressor.update(g, s, "workers"), axis_name="workers")(
            gradients, states
        )
        return weights - 2.0 * means[0], states, values.mean()

    curves = []
    for seed in range(seeds):
        weights, losses = jnp.zeros(50), []
        states = jax.tree.map(lambda leaf: jnp.stack([leaf] * 8), compressor.init(weights, jax.random.key(seed)))
        for _ in range(steps):
            weights, states, value = step(weights, states)
            losses.append(float(value))
        curves.append(losses)
    return np.array(curves)


figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for number, spec in enumerate(("none", "levels:s=1", "levels:s=7", "topk:0.1")):
    curves = losses_of(spec, seeds=5)
    if spec == "none":
        baseline = curves.mean(axis=0)
    curves = 100 * (curves / baseline - 1)
    mean, half = curves.mean(axis=0), 2.776 * curves.std(axis=0, ddof=1) / np.sqrt(5)
    label = f"{spec} (loss {baseline[-1]:.3f} at the end)" if spec == "none" else spec
    axes.plot(mean, label=label, **{**line(number), "markevery": 10})
    axes.fill_between(range(len(mean)), mean - half, mean + half, color=COLOURS[number], alpha=0.2)
axes.set(xlabel="step", ylabel="training loss above float32's, %\n(mean and 95 % band, 5 seeds)")
axes.legend()
axes.grid(alpha=0.3)

# %% [markdown]
# To add the compressor to jaxina, put it into a file in `jaxina/compressors`, add a line to `registry.py` and a spec to
# `tests/python/compressor_cases.py`. The tests there then check its promise.
