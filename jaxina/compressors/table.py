"""Writes docs/compressors.md: ``python -m jaxina.compressors.table > docs/compressors.md``.

The promises come from the classes. The bytes are counted in one step of 8 workers with normally distributed gradients
of 128 x 128.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import jax
import numpy as np

from jaxina.compressors.base import SUM, Compressor
from jaxina.compressors.narrow_words import NarrowWords
from jaxina.compressors.registry import OWN, get, parameters
from jaxina.compressors.traffic import measure

ROWS = (
    "none",
    "int32",
    "int16",
    "int8",
    "int8:stochastic",
    "blockfp:12",
    "fp16",
    "bf16",
    "bf16ring",
    "qsgd:64",
    "qsgd:256",
    "qgz:8",
    "qgz:4",
    "terngrad",
    "natural",
    "signsgd",
    "efsignsgd",
    "onebit",
    "topk:0.1",
    "topk:0.01",
    "oktopk:0.01",
    "threshold:2.5",
    "randomk:0.01",
    "dgc:0.01",
    "powersgd:4",
    "thc",
)
WORKERS = 8
SHAPE = (128, 128)

_FEEDBACK = {"on": "on", "off": "off, `+ef`", "own": "built in", "no": "no", "needless": "no"}

_INTRODUCTION = """\
# Gradient compressors

A compressor decides what workers send instead of float32. `jaxina.compressors.get(spec)` makes one from a
[spec](#specs), as in the table's first column. `python -m jaxina.compressors.table` writes this page; do not edit it.

"""

_DATA_PARALLEL = """\
## In a data-parallel step

`all_reduce_mean` takes the place of the psum of gradients. It goes before the optimizer, inside `jax.shard_map`:

```python
import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from jaxina import compressors

mesh = jax.make_mesh((jax.device_count(),), ("workers",), axis_types=(AxisType.Auto,))
split = NamedSharding(mesh, P("workers"))  # the first axis has the workers, or each worker's rows

keys = jax.random.split(jax.random.key(0), 2)
params = {"up": jax.random.normal(keys[0], (16, 64)) / 4, "down": jax.random.normal(keys[1], (64, 8)) / 8}
optimizer = optax.chain(compressors.all_reduce_mean("int8+ef", "workers"), optax.adam(0.01))


@jax.jit(out_shardings=split)
def first_state():  # error feedback differs between workers, so each has a state of its own
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * mesh.size), optimizer.init(params))


@jax.jit(out_shardings=split)
def batch():
    x = jax.random.normal(jax.random.key(1), (128, 16))
    return x, jnp.sin(x[:, :8])


def loss(params, x, y):
    return ((jnp.tanh(x @ params["up"]) @ params["down"] - y) ** 2).mean()


specs = dict(in_specs=(P(), *[P("workers")] * 3), out_specs=(P(), P("workers"), P()))


@jax.jit
@jax.shard_map(mesh=mesh, check_vma=False, **specs)
def step(params, state, x, y):
    value, gradients = jax.value_and_grad(loss)(params, x, y)  # of this worker's rows
    updates, state = optimizer.update(gradients, jax.tree.map(lambda leaf: leaf[0], state), params)
    state = jax.tree.map(lambda leaf: leaf[None], state)
    return optax.apply_updates(params, updates), state, jax.lax.pmean(value, "workers")


state, (x, y) = first_state(), batch()
losses = []
for _ in range(60):
    params, state, value = step(params, state, x, y)
    losses.append(float(value))
```

"""

_SPECS = """\
## Specs

A spec is a name, then arguments, then perhaps `+ef` or `-ef`: `qsgd:64:bucket=1024+ef`. Each argument follows a colon.
It is `name=value`, or a bare value for the next parameter, or the bare name of a switch, such as `stochastic`. These
are the names, with the parameters that may follow and their defaults:

"""

_COMPARISON = """\
## What each promises

| spec | algorithm | unbiased | error feedback | summed by an aggregator | bits sent | bits received | of float32 |
|---|---|---|---|---|---:|---:|---:|
"""

_EXPLANATION = """
* *unbiased*: the expectation of the decoded array, over the random keys, is the array. *Nearly*: except for the few
  values that are clipped, by less than 1 / 128 of each with 8 bits (see the notes).
* *error feedback*: whether what a step could not send is added to the next step. The column has the default. `+ef`
  switches it on, and `-ef` switches it off where it is on.
* *summed by an aggregator*: yes if payloads travel through `lax.psum`, and so through jaxina if it is switched on. The
  others travel through an all-gather, from which a worker receives n - 1 payloads. `qgz`, `oktopk` and the rings have
  an all-to-all of n - 1 parts before it.
* *bits sent* and *received*: for one worker and one gradient element, counted from the packed bytes of one step of
  {workers} workers with normally distributed gradients of {rows} x {columns}, without packet headers.
  Where jaxina carries their sums, `int8` and `int16` send these bytes ([Narrow words](narrow_words.md#bytes)).
  Otherwise more is moved between devices: XLA has no type of, say, 3 bits.
* *of float32*: bytes sent and received together, as a share of what `none` sends and receives.

**Values that are not finite.** If a leaf has a NaN or an infinity on any worker, also after what is owed was added, all
its elements become NaN on all workers, and the leaf's state stays as it was.
{plain} give what IEEE-754 gives, element by element.
A mean whose sum leaves float32's range is infinite, as with `lax.psum`; where jaxina carries the sums of `int8` and
`int16` as they are, such a leaf counts as not finite, too.

**Zeros** stay zeros, except with `signsgd`.

**Leaves of different scale** do not disturb each other. Where jaxina sums float32 (`none`, `randomk` and `powersgd`),
each leaf is a psum of its own, which begins a block of `JAXINA_BLOCK_SIZE` elements with a common exponent. `none` then
has the bits of `jax.lax.pmean` of each leaf. Within a block, numbers that are too small beside the largest become zero,
as in [any sum](jax.md#the-report). What is gathered or sent from worker to worker goes as bytes, and stays as it is.

**In `jax.shard_map`** with its default `check_vma=True`, `jax.grad` with respect to replicated parameters has summed
the gradients over the workers already. A compressor refuses these with an `InvalidArgumentError`. Differentiate with
respect to `jax.lax.pcast(params, "workers", to="varying")`, or pass `check_vma=False`. Then each worker has its own.

**Under a learning-rate schedule**, tell the compressor the rate: `all_reduce_mean("topk:0.01", "workers",
learning_rate=schedule)`, or `update(..., learning_rate=rate)`. Error feedback then accumulates updates, the rate times
the gradient, as the papers do. Without it, gradients are accumulated: what a step holds back is multiplied by the rate
of the later step that sends it.

**Error feedback and momentum** work badly together if little is sent. An element that was held back arrives many steps
late, all at once. Momentum then repeats it for several steps. With Top-1 %, try the optimizer without momentum:
`optax.adam(rate, b1=0)`, or SGD without momentum at up to ten times the rate. In the
[study](studies.md#momentum-and-error-feedback), Top-1 % was worse than float32 on five of six workloads. Without
momentum, three of the five got most of the loss back, and on none was the mean worse.

**The state** is a tree like the parameters for each kind of array, as optimizers have it. `all_reduce_mean` shows how
`optax.tree_map_params` makes its shardings from those of the parameters. Leaves of one shape are computed as one, which
saves time to compile: an update of 148 leaves of 8 shapes takes 5 to 15 s on two cores
(`python -m experiments.compilation_cost`).

**What is gathered** is decoded and summed worker by worker: no array for each worker is in memory. Top-k and the other
sparse compressors add their elements to the sum, so more workers cost them little
(`python -m experiments.compression_cost` times 4 workers).

**On CPUs** jaxina's native code selects the elements that Top-k, DGC and Ok-topk send. `jax.lax.top_k`, which does it
elsewhere, selects the same and takes 4 times as long for 1 % of 65,536 elements, 8 times for 1 % of a million, and 15
times for 10 % of a million (`python benchmarks/jax/top_k.py`). `jax.export` for CPUs takes such a program only with
`disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("jaxina_top_k")]`, and what it makes runs where
`jaxina.compressors` is imported.

"""

_PARTITIONED = """\
## In `jit` with `NamedSharding` (FSDP)

There, arrays are global, and XLA's partitioner sums the gradients where it must. A compressor needs each worker's own
gradient. `per_worker` calls a function on each worker with its part of the batch, and stacks the results along a first
axis of workers. `all_reduce_mean` takes them if it is told the mesh, and its mean has the parameters' shapes again.
Neither needs a `shard_map` in the program. Without optax, `Partitioned` has `init` and `update`.

```python
import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from jaxina import compressors

mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
sharded = NamedSharding(mesh, P("data", None))  # each device has some rows of each array

keys = jax.random.split(jax.random.key(0), 3)
params = {"up": jax.random.normal(keys[0], (16, 64)) / 4, "down": jax.random.normal(keys[1], (64, 8)) / 8}
x = jax.random.normal(keys[2], (128, 16))
params, x, y = jax.device_put((params, x, jnp.sin(x[:, :8])), sharded)


def loss(params, x, y):
    return ((jnp.tanh(x @ params["up"]) @ params["down"] - y) ** 2).mean()


gradients_of = compressors.per_worker(jax.value_and_grad(loss), mesh, "data")
optimizer = optax.chain(compressors.all_reduce_mean("topk:0.1", "data", mesh=mesh), optax.adam(0.01))
state = optimizer.init(params)


def step(params, state, x, y):
    values, gradients = gradients_of(params, x, y)  # [workers], and [workers, ...] for each parameter
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, values.mean()


step = jax.jit(step, out_shardings=(sharded, None, None), donate_argnums=(0, 1))
losses = []
for _ in range(60):
    params, state, value = step(params, state, x, y)
    losses.append(float(value))
```

* Parameters may be sharded over any axes. Those that are sharded over the workers are gathered for each step, and
  every worker gets the whole mean. The gradient, and the memory of error feedback, are whole on each worker.
* A first array axis of the state has the workers, and each device keeps the part of its own worker.
* Axes of the mesh that are not the workers' stay with the partitioner (tensor parallelism).
* Per-worker steps, such as clipping a local gradient, belong into the function that `per_worker` calls.

"""


def document(counted: Sequence[str] = ROWS) -> str:
    """Makes the text of docs/compressors.md.

    Args:
      counted: spec strings, one for each row of the table.
    """
    rng = np.random.default_rng(2021)
    gradients = [rng.normal(size=SHAPE).astype(np.float32) for _ in range(WORKERS)]
    lines = [_row(spec, get(spec), gradients) for spec in counted]
    plain = [f"`{spec}`" for spec in ROWS if get(spec).carries_non_finite]
    explanation = _EXPLANATION.format(
        workers=WORKERS, rows=SHAPE[0], columns=SHAPE[1], plain=", ".join(plain[:-1]) + " and " + plain[-1]
    )
    promises = {get(spec).promise.title: get(spec).promise for spec in ROWS}
    notes = [f"* **{p.title}**. {p.note} *{p.paper}.*" for p in promises.values() if p.paper != "-"]
    specs = [f"* `{name}{''.join(f'[:{one}]' for one in parameters(name))}`" for name in OWN]
    return "".join(
        [_INTRODUCTION, _COMPARISON, *(f"{line}\n" for line in lines), explanation]
        + [_SPECS, *(f"{spec}\n" for spec in specs), "\n", _DATA_PARALLEL, _PARTITIONED]
        + ["## Notes and papers\n\n", *(f"{note}\n" for note in notes)]
    )


def _row(spec: str, compressor: Compressor, gradients: list[np.ndarray]) -> str:
    promise = compressor.promise
    traffic, _ = measure(compressor, gradients, jax.random.key(0))
    elements = gradients[0].size
    return " | ".join(
        [
            f"| `{spec}`",
            promise.title,
            _unbiased(compressor),
            _FEEDBACK[promise.error_feedback],
            "yes" if compressor.kind == SUM else "no",
            f"{8 * traffic.sent / elements:.2f}",
            f"{8 * traffic.received / elements:.2f}",
            f"{100 * (traffic.sent + traffic.received) / (8 * elements):.1f} % |",
        ]
    )


def _unbiased(compressor: Compressor) -> str:
    if getattr(compressor, "stochastic", False):
        return "nearly" if isinstance(compressor, NarrowWords) else "yes"
    return "yes" if compressor.promise.unbiased else "no"


if __name__ == "__main__":
    sys.stdout.write(document())
