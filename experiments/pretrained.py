"""Trains the model that `lora` adapts, once, and keeps it: python -m experiments.pretrained [--size large]

It is trained in float32 on one device, without workers. The file is in out/models, which git ignores. Its name has what
the model depends on. Other machines may round otherwise, so their models differ in the last digits.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx, traverse_util
from rich.progress import track

from experiments.records import ROOT
from experiments.workloads import Workload

FOLDER = ROOT / "out" / "models"
SEED = 1000  # of the initial values and the batches; studies have smaller ones


def parameters(workload: Workload) -> dict[str, Any]:
    """Returns the trained parameters of a workload, a nested dict of arrays. They are trained if there is no file."""
    file = file_of(type(workload), "large" if workload.large else "small")
    if not file.exists():
        trained = train(workload, workload.steps)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.npz")
        np.savez(part, **{"/".join(map(str, path)): leaf for path, leaf in traverse_util.flatten_dict(trained).items()})
        part.replace(file)
    with np.load(file) as leaves:
        paths = {tuple(int(part) if part.isdigit() else part for part in name.split("/")): name for name in leaves}
        return traverse_util.unflatten_dict({path: leaves[name] for path, name in paths.items()})


def file_of(kind: type[Workload], size: str) -> Path:
    """Returns where the trained model of a workload is kept. No data is loaded for that."""
    return FOLDER / f"{kind.__name__.lower()}-{size}-{getattr(kind.lengths, size)}-{kind.revision}.npz"


def train(workload: Workload, steps: int) -> dict[str, Any]:
    """Returns the parameters after some steps in float32, a nested dict."""
    graph = nnx.graphdef(nnx.eval_shape(lambda: workload.network(nnx.Rngs(SEED))))
    optimizer = workload.optimizer(steps, True)

    @jax.jit
    def begin() -> tuple[Any, Any]:
        params = nnx.state(workload.network(nnx.Rngs(SEED)), nnx.Param)
        return params, optimizer.init(params)

    @jax.jit
    def step(params: Any, state: Any, batch: Any) -> tuple[Any, Any]:
        gradient = jax.grad(lambda p: workload.loss(nnx.merge(graph, p), batch))(params)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    (params, state), batches = begin(), workload.batches(SEED)
    for _ in track(range(steps), description=f"training the base of lora, {type(workload).__name__}"):
        params, state = step(params, state, next(batches))
    return jax.tree.map(np.asarray, nnx.to_pure_dict(params))


def main() -> None:
    from experiments.workloads.decoder import Shakespeare

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=["small", "large"], default="small")
    size = parser.parse_args().size
    parameters(Shakespeare(size))
    print(file_of(Shakespeare, size))


if __name__ == "__main__":
    main()
