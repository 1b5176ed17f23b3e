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
# # Schedules over unequal links
#
# MLfabric's scheduler decides which worker sends its update when, to whom, and which updates are added on their way.
# This notebook draws a plan, compares it with one without aggregators, and then trains a small network in virtual
# time: with MLfabric, with a ring, and without a scheduler.

# %%
import matplotlib.pyplot as plt
from IPython.display import Markdown, display

from experiments.fabric.baselines import asynchronous, ring
from experiments.fabric.conditions import GIGABIT, Cluster
from experiments.fabric.example_task import BYTES, ExampleTask
from experiments.fabric.picture import draw, example
from experiments.fabric.race import Race
from experiments.fabric.scheduled import scheduled
from experiments.style import line
from jaxina.fabric import Scheduler, Settings, Star, Update
from jaxina.fabric.network import Nic

plt.rcParams["figure.dpi"] = 70

# %% [markdown]
# ## A plan as a picture
#
# Five workers have an update of 100 MB each. Their links have 2 to 10 Gbit/s, the server's has 5. A row is a link. A
# bar is a transfer, as high as its share of the link. Updates 0 and 1 go to the server. Meanwhile c takes updates 3
# and 4 and adds its own, number 2, so that the server's link carries one sum instead of three updates.

# %%
shown = example()
_, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
draw(axes, shown.star, shown.plan, shown.hosts)

# %% [markdown]
# The same updates without an aggregator. The server's link is the bottleneck, and the updates take turns on it:
# shortest first. The slow links of d and e are used at the same time as others, as far as the server's link has room.

# %%
scheduler = Scheduler(shown.star, Settings("server", delay_bound=20))
for name, host in enumerate(shown.hosts[:-1]):
    scheduler.add(Update(name, host, 100_000_000, version=0))
alone = scheduler.plan(0)
_, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
draw(axes, shown.star, alone, shown.hosts)
for what, plan in (("with an aggregator", shown.plan), ("without", alone)):
    ends = [time / 1e9 for time, _ in plan.commits()]
    print(f"{what}: all committed after {ends[-1]:.2f} s, on average after {sum(ends) / len(ends):.2f} s")

# %% [markdown]
# ## A deadline
#
# A bound on delays lets an update be overtaken only so often. Here worker e's update was computed from version 0, and
# the model has version 3. With a bound of 5 it would have to be the first or the second. But e's link is slow, and
# meanwhile the update of c would wait. So e's is not sent at all, and e goes on from a newer model.

# %%
nics = {host: Nic(int(rate * GIGABIT), int(rate * GIGABIT)) for host, rate in {"a": 10, "b": 5, "c": 5, "e": 2}.items()}
star = Star(nics | {"server": Nic(5 * GIGABIT, 5 * GIGABIT)})
for bound in (20, 5):
    scheduler = Scheduler(star, Settings("server", delay_bound=bound))
    for name in range(100, 103):  # three small updates before, so that there is a version 3
        scheduler.add(Update(name, "server", 1, version=0))
    scheduler.plan(0)
    for name, (host, version) in enumerate({"a": 3, "b": 3, "c": 3, "e": 0}.items()):
        scheduler.add(Update(name, host, 100_000_000, version=version, ready=1))
    plan = scheduler.plan(1)
    order = ", ".join(f"{u.worker} (delay {plan.version + i - u.version})" for i, (_, u) in enumerate(plan.commits()))
    dropped = "".join(f"; {d.update.worker} dropped: {d.reason.value}" for d in plan.dropped)
    print(f"bound {bound}: {order}{dropped}")

# %% [markdown]
# ## Accuracy over time
#
# The network of `examples/unequal_links`, 12 workers on 6 hosts, links of 10 Mbit/s that change every 5 s (N2). Time
# is virtual, gradients are real: each is computed from the version that its worker would have. "8 local": an update
# is what 8 steps have changed. On the left a tenth of all computations takes four times as long (C2). On the right
# the same three of the twelve workers always do.

# %%
MEGABIT = GIGABIT // 1000
ways = {
    "ring": (ring(), 1),
    "ring, 8 local": (ring(local_steps=8), 8),
    "unscheduled": (asynchronous(), 1),
    "MLfabric, 8 local": (scheduled(24, local_steps=8), 8),
}
outcomes = {}
for compute in ("C2", "slow hosts"):
    cluster = Cluster(
        compute, "N2", hosts=6, workers=12, step_seconds=0.05, size=BYTES, rate=10 * MEGABIT, server_rate=10 * MEGABIT
    )
    for way, (start, local) in ways.items():
        race = Race(way, cluster, 0, ExampleTask(cluster.workers, 0), 10**9, 12 * local)
        outcomes[compute, way] = race.run(start, 30.0)

# %%
figure, panels = plt.subplots(1, 2, figsize=(11, 4.8), sharey=True, layout="constrained")
for axes, compute in zip(panels, ("C2", "slow hosts")):
    for number, way in enumerate(ways):
        times, _, scores = zip(*outcomes[compute, way].scores)
        axes.plot(times, [100 * score for score in scores], label=way, **(line(number) | {"markevery": 4}))
    axes.set(xlabel="virtual seconds", title=compute, ylim=(20, 95))
    axes.grid(alpha=0.3)
panels[0].set_ylabel("accuracy, %")
_ = figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(ways))

# %%
rows = ["| compute | way | updates | dropped | mean delay | most | to 85 % |", "|---|---|---|---|---|---|---|"]
for (compute, way), outcome in outcomes.items():
    reached = outcome.reached(0.85)
    ages = outcome.ages
    rows.append(
        f"| {compute} | {way} | {len(ages)} | {outcome.dropped // ways[way][1]} | {sum(ages) / len(ages):.1f} "
        f"| {max(ages)} | " + ("not reached |" if reached is None else f"{reached:.1f} s |")
    )
display(Markdown("\n".join(rows)))

# %% [markdown]
# Local steps are worth more than a scheduler. Of the two ways with 8 local steps, the ring is as good or better while
# slow computations come now and then: it loses little by waiting, and has no server whose link all updates share.
# Where the same workers are always slow, MLfabric does not wait for them. Without a scheduler, all updates share the
# server's link.
