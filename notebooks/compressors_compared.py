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
# # Compressors compared
#
# This notebook shows what quantization, sparsification and low rank do to the final metric of a training run. `python
# -m experiments.reproduce` recorded the runs. The notebook reads them, and trains one small network itself.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

jax.config.update("jax_num_cpu_devices", 4)  # before anything starts JAX's backend

import jaxina
from experiments import figures, recorded, workloads
from experiments.grid import DEFAULT, Grid
from experiments.style import line
from experiments.trainer import Programs, Trainer
from jaxina import compressors

plt.rcParams["figure.dpi"] = 70
study = Grid.read(DEFAULT)
groups = recorded.grouped(study.recorded())
for case, runs in groups.items():
    print(f"{case}: {sum(map(len, runs.values()))} runs; cousin of {workloads.kind(case.workload).cousin_of}")

# %% [markdown]
# ## Final metrics
#
# Model, data and steps are the same for every compressor. Each has a learning rate of its own, chosen by a validation
# split. The unit of differences is the margin within which a compressor counts as equal, which the study's file said
# before the first run.

# %%
_ = figures.finals(groups, study.margins)

# %% [markdown]
# ## Block fixed point beside float32
#
# The upper row shows float32, the lower row differences from it with the same seed. Each compressor has its own
# learning rate, so losses may differ for that alone.

# %%
_ = figures.block_fixed_point(groups)

# %% [markdown]
# ## The metric over the steps

# %%
for case, runs in groups.items():
    _ = figures.metric_over_steps(case, runs, study.margins[case.workload])

# %% [markdown]
# ## Metric against bytes
#
# The horizontal axis shows what a worker receives in a step, as a share of float32's bytes. The vertical axis shows how
# far the final metric is from float32's with the same seed, in margins. Lower is worse.

# %%
figure, (panels,) = plt.subplots(
    1, len(groups), figsize=(max(3.4 * len(groups), 6), 4), layout="constrained", sharey=True, squeeze=False
)
for axes, (case, by_compressor) in zip(panels, groups.items()):
    baseline = by_compressor["none"]
    margin = study.margins[case.workload]
    unit = margin if baseline[0]["outcome"]["higher_is_better"] else -margin
    for spec, runs in by_compressor.items():
        differences = recorded.differences(runs, baseline)
        if not differences:
            continue
        share = runs[0]["outcome"]["received"] / baseline[0]["outcome"]["received"]
        away = np.mean(differences) / unit
        style = line(figures.KNOWN.index(spec))
        axes.plot(share, away, style["marker"], color=style["color"], markersize=7, label=figures.name(spec))
    axes.axhspan(-1, 1, color="grey", alpha=0.2)
    axes.set(title=str(case), xlabel="received, share of float32", xscale="log")
    axes.set_yscale("symlog", linthresh=1)
    axes.grid(alpha=0.3)
panels[0].set_ylabel("metric minus float32's, margins")
labelled = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels())}
_ = figure.legend(labelled.values(), labelled.keys(), loc="outside lower center", ncols=5, fontsize=9)

# %% [markdown]
# ## A live run
#
# Four workers train a small convolutional network for 60 steps. jaxina sums the integers.

# %%
jaxina.init()
programs = Programs(workloads.get("vgg"), 4)
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for number, (spec, through) in enumerate(
    {"none": None, "int8:stochastic": jaxina.collectives, "topk:0.01": None}.items()
):
    carrier = {"collectives": through} if through else {}
    outcome = Trainer(programs, compressors.get(spec), 60, **carrier).run(
        seed=0, scale=1.0, split="test", evaluations=1
    )
    losses = np.convolve(outcome.losses, np.ones(5) / 5, mode="valid")
    axes.plot(
        np.arange(5, 61),
        losses,
        label=f"{spec}: {outcome.sent / 1e3:.0f} kB sent a step",
        **{**line(number), "markevery": 8},
    )
    print(f"{spec}: accuracy {outcome.scores[-1][1]:.1f} % after 60 steps")
axes.set(xlabel="step", ylabel="training loss, mean of five steps")
axes.legend()
axes.grid(alpha=0.3)
