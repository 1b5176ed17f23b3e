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
# # Block fixed point, looked at
#
# A block of k floats shares one exponent, and each float becomes an integer. This notebook shows what that does to a
# gradient.

# %%
import matplotlib.pyplot as plt
import numpy as np

from experiments.style import COLOURS, line
from jaxina import numerics

plt.rcParams["figure.dpi"] = 80
WORKERS, BLOCK = 8, 256

# %% [markdown]
# We use a synthetic gradient of eight workers. Its rows differ in size, as those of an embedding do, and it has few
# large values (Student's t, three degrees of freedom). `experiments/effect_of_f.py` does the same with gradients of
# real training.

# %%
rng = np.random.default_rng(2021)
sizes = np.exp(rng.normal(-6, 1.5, size=(64, 1)))
gradients = (sizes * rng.standard_t(3, size=(WORKERS, 64, 256))).astype(np.float32).reshape(WORKERS, -1)
exact = gradients.astype(np.float64).sum(axis=0)

# %% [markdown]
# ## Exponents
#
# Every worker sends one byte for each block, b = m + 126, where m is the smallest integer with max|x| < 2^m. The
# aggregator takes the maximum over the workers.

# %%
exponents = np.stack([numerics.block_exponents(row, BLOCK) for row in gradients]).astype(int)
agreed = exponents.max(axis=0)

figure, (above, below) = plt.subplots(2, 1, figsize=(8, 4), layout="constrained", height_ratios=[4, 1], sharex=True)
shades = {"cmap": "cividis", "vmin": exponents.min() - 126, "vmax": exponents.max() - 126, "aspect": "auto"}
image = above.imshow(exponents - 126, **shades)
above.set(ylabel="worker", title=f"Exponent m of each block of {BLOCK} elements")
below.imshow(agreed[None] - 126, **shades)
below.set(yticks=[0], yticklabels=["maximum"], xlabel="block")
_ = figure.colorbar(image, ax=[above, below], label="m (elements are below 2^m)")

# %% [markdown]
# ## Errors
#
# With f = 2^S, every worker's rounding error is at most half a step, 1 / (2 f). So the error of the sum is at most n /
# (2 f) plus the rounding of the result to float32. The uniform errors of eight workers add up to something close to a
# normal distribution.


# %%
def summed(bits, block=BLOCK):
    """The sum in words of so many bits, and each element's f."""
    exponents = np.max([numerics.block_exponents(row, block) for row in gradients], axis=0).astype(int)
    power = np.repeat(bits - 1 - 3 - (exponents - 126), block)
    limit = (2 ** (bits - 1) - 1) // WORKERS
    words = np.clip(np.rint(np.ldexp(gradients.astype(np.float64), power)), -limit, limit)
    return np.ldexp(words.sum(axis=0), -power), np.ldexp(1.0, power)


figure, panels = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharey=True)
for axes, (bits, color) in zip(panels, ((8, COLOURS[1]), (16, COLOURS[2]), (32, COLOURS[3]))):
    result, f = summed(bits)
    steps = (result - exact) * f
    axes.hist(steps, bins=np.linspace(-4, 4, 65), density=True, color=color)
    at = np.linspace(-4, 4, 200)
    axes.plot(at, np.exp(-(at**2) * 12 / (2 * WORKERS)) / np.sqrt(2 * np.pi * WORKERS / 12), color="black", linewidth=1)
    axes.set(
        title=f"int{bits}: {np.linalg.norm(result - exact) / np.linalg.norm(exact):.1g} of the sum's norm",
        xlabel="error, steps of 1 / f",
    )
panels[0].set_ylabel("density")
_ = figure.suptitle("Error of the sum of 8 workers; black: normal, variance n / 12. The bound is n / 2 = 4 steps")

# %% [markdown]
# int8 and int16 show the rounding of eight workers. int32 shows less. A float32 has 24 significant bits, so the large
# elements of a block lose only a few bits or none, and their errors are simple fractions of a step.
#
# All words here leave room for the sum, as jaxina's words of 32 bits do. Its words of 8 and 16 bits leave none, and the
# sum is shifted back into them: the page *Narrow words* compares both.

# %% [markdown]
# ## What is lost, element by element

# %%
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for number, bits in enumerate((8, 16, 32)):
    result, _ = summed(bits)
    size = np.abs(exact)
    bins = np.geomspace(size[size > 0].min(), size.max(), 25)
    which = np.digitize(size, bins)
    relative = np.abs(result - exact) / np.maximum(size, 1e-30)
    centres = [i for i in range(1, len(bins)) if (which == i).sum() >= 20]
    at = [np.sqrt(bins[i - 1] * bins[i]) for i in centres]
    low, middle, high = (np.array([np.quantile(relative[which == i], q) for i in centres]) for q in (0.1, 0.5, 0.9))
    axes.plot(at, np.maximum(middle, 1e-10), label=f"int{bits}, median", **line(number + 1))
    axes.fill_between(at, np.maximum(low, 1e-10), np.maximum(high, 1e-10), color=line(number + 1)["color"], alpha=0.2)
axes.axhline(1, color="grey", linestyle="dotted", label="nothing is left")
axes.set(
    xlabel="|sum of an element|",
    ylabel="relative error (band: 10 to 90 %)",
    xscale="log",
    yscale="log",
    ylim=(1e-10, 10),
)
axes.legend(loc="upper right", bbox_to_anchor=(1, 0.55))
axes.grid(alpha=0.3)

# %% [markdown]
# ## Bits and blocks
#
# Each bit halves the error. Smaller blocks help if sizes differ between neighbours. They cost one byte for each block.

# %%
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for number, block in enumerate((32, 256, 4096)):
    bits = [5, 6, 8, 10, 12, 16, 20, 24, 28, 32]
    errors = [np.linalg.norm(summed(b, block)[0] - exact) / np.linalg.norm(exact) for b in bits]
    axes.plot(bits, errors, label=f"blocks of {block}", **line(number + 1))
axes.axhline(2.0**-24, color="grey", linestyle="dotted", label="rounding of float32")
axes.set(xlabel="bits of a word", ylabel="relative error of the sum (Euclidean)", yscale="log", xticks=bits)
axes.legend()
axes.grid(alpha=0.3)

# %% [markdown]
# These words are the ones that go over the wire:

# %%
row = gradients[0][:BLOCK]
words = numerics.quantize(row, agreed[:1].astype(np.uint8), WORKERS, BLOCK)
print("first elements:", row[:4], "\nas words:", words[:4])
assert np.abs(words).max() <= (2**31 - 1) // WORKERS
