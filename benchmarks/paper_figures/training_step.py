"""One worker of figure 4: times training steps whose gradients jaxina sums, gloo sums, or nobody sums, by turns.

    jaxina run -n 4 training_step.py vgg|resnet STEPS FILE.json

jaxina and gloo start from the same parameters and see the same batches. Every step averages its loss and gradient over
the workers. After the first step, jaxina's parameters must equal gloo's up to rounding. At the end, all workers must
have the same bits: for jaxina and for gloo. "alone" is a step with each worker's own gradient; its result is thrown
away.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina
from experiments.workloads.resnet import ResidualNetwork
from experiments.workloads.vgg import PlainNetwork

_WARM_UP = 2
# Sums of float32 in another order, or by fixed point, differ by about a unit in the last place for each worker. After
# one step that is less than this share of the largest parameter. Later steps amplify it, most of all in networks that
# normalize, so the comparison is made after the first step.
_TOLERANCE = 1e-6


@dataclasses.dataclass(frozen=True)
class Model:
    network: Callable[[nnx.Rngs], nnx.Module]
    batch_size: int  # of all workers together


# The studies' small versions of two models of the paper. The one of VGG19 has dense layers with 43 MB of gradient; with
# small batches it mostly communicates. The one of ResNet-50 has less than a megabyte; with large batches it mostly
# computes.
MODELS = {
    "vgg": Model(lambda rngs: PlainNetwork(32, 2048, rngs), 32),
    "resnet": Model(lambda rngs: ResidualNetwork((16, 32, 64), 2, rngs), 512),
}
_SCOPES = {
    "jaxina": jaxina.collectives,
    "gloo": functools.partial(jaxina.collectives, False),
    "alone": functools.partial(jaxina.collectives, False),
}


def make_step(graph: nnx.GraphDef, mesh: Mesh, together: bool) -> Callable:
    optimizer = optax.sgd(1e-3)

    def loss_of(params, images, labels):
        logits = nnx.merge(graph, params)(images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(params, images, labels):
        mine = jax.lax.pcast(params, "workers", to="varying")  # so that gradients are of this worker's share alone
        loss, gradients = jax.value_and_grad(loss_of)(mine, images, labels)
        if together:
            loss, gradients = jax.lax.pmean((loss, gradients), "workers")
        else:
            params = mine
        updates, _ = optimizer.update(gradients, optimizer.init(params), params)
        kept = optax.apply_updates(params, updates)
        return (loss, kept) if together else jax.tree.map(lambda x: x[None], (loss, kept))

    out = P() if together else P("workers")
    return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(P(), P("workers"), P("workers")), out_specs=(out, out)))


def batches(size: int, mesh: Mesh) -> Iterator[tuple[jax.Array, jax.Array]]:
    """Yields random images and labels. All processes make the same ones, and each places its own rows."""
    sharding, rng = NamedSharding(mesh, P("workers")), np.random.default_rng(0)
    while True:
        images = rng.standard_normal((size, 28, 28, 1), np.float32)
        labels = rng.integers(0, 10, size).astype(np.int32)
        yield tuple(
            jax.make_array_from_callback(rows.shape, sharding, lambda index, rows=rows: rows[index])
            for rows in (images, labels)
        )


def first_copy(params: Any) -> list[np.ndarray]:
    return [np.asarray(leaf.addressable_data(0)) for leaf in jax.tree.leaves(params)]


def check_alike_on_all_workers(way: str, params: Any) -> None:
    bits = np.concatenate([leaf.reshape(-1) for leaf in first_copy(params)]).view(np.int32)
    everywhere = multihost_utils.process_allgather(bits)
    if not (everywhere == everywhere[0]).all():
        raise SystemExit(f"{way}: the workers ended with different parameters")


def largest_difference(one: Any, other: Any) -> float:
    """Returns the largest difference of any parameter, as a share of the largest parameter in its array."""
    pairs = zip(first_copy(one), first_copy(other), strict=True)
    return max(float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in pairs)


def main() -> None:
    model, calls, file = MODELS[sys.argv[1]], int(sys.argv[2]), Path(sys.argv[3])
    with jaxina.init(catch_all=False) as job:  # so that jaxina does not take over gloo's sums
        mesh = jax.make_mesh((job.processes,), ("workers",))
        network = model.network(nnx.Rngs(jax.random.key(0, impl="rbg")))
        graph, start = nnx.graphdef(network), nnx.state(network, nnx.Param)
        start = jax.tree.map(
            lambda x: jax.make_array_from_process_local_data(NamedSharding(mesh, P()), np.asarray(x)), start
        )
        steps = {way: make_step(graph, mesh, together=way != "alone") for way in _SCOPES}
        params: dict[str, Any] = dict.fromkeys(_SCOPES, start)
        times: dict[str, list[float]] = {way: [] for way in _SCOPES}
        losses: dict[str, float] = {}
        difference = None
        for images, labels in itertools.islice(batches(model.batch_size, mesh), _WARM_UP + calls):
            for way, scope in _SCOPES.items():
                multihost_utils.sync_global_devices("step")
                with scope():
                    began = time.perf_counter()
                    loss, kept = jax.block_until_ready(steps[way](params[way], images, labels))
                    times[way].append(1e3 * (time.perf_counter() - began))
                if way != "alone":
                    params[way], losses[way] = kept, float(loss)
            if difference is None:
                difference = largest_difference(params["jaxina"], params["gloo"])
                if not difference < _TOLERANCE:
                    raise SystemExit(
                        f"jaxina's parameters differ from gloo's by {difference:g} of the largest after a step"
                    )
        for way in ("jaxina", "gloo"):
            check_alike_on_all_workers(way, params[way])
        slowest = {
            way: np.max(multihost_utils.process_allgather(np.array(t[_WARM_UP:])), axis=0) for way, t in times.items()
        }
        if job.process == 0:
            found = {"parameters": sum(x.size for x in jax.tree.leaves(start)), "steps": calls, "losses": losses}
            found |= {"batch_of_all": model.batch_size, "difference_after_a_step": difference}
            found["times_ms"] = {way: t.tolist() for way, t in slowest.items()}
            file.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
