"""Checks for sixty programs that jaxina's report agrees with what the engine counts in one run.

    python benchmarks/jax/what_is_carried.py

A program has a mode (how it is sharded), a transformation, and a way (how jaxina is switched on or off). The exit code
is 1 if the report and the engine disagree for any program.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from rich.console import Console
from rich.table import Table

import jaxina

DEVICES, ROWS, TURNS = 4, 8, 3
Body = Callable[[Any], Any]


# ---- transformations, of what the mode hands over: one device's part, one row of pmap, or the whole array


def plain(total: Body, x: Any) -> Any:
    return total(jnp.sin(x))


def gradient(total: Body, x: Any) -> Any:
    return jax.grad(lambda v: total(v * v).sum())(x)


def scan(total: Body, x: Any) -> Any:
    return lax.scan(lambda v, _: (total(v) / ROWS, None), x, None, length=TURNS)[0]


def vmap(total: Body, x: Any) -> Any:
    return jax.vmap(total, in_axes=-1, out_axes=-1)(x)


def remat(total: Body, x: Any) -> Any:
    return jax.grad(lambda v: jax.checkpoint(lambda u: jnp.sin(total(jnp.sin(u))).sum())(v))(x)


TRANSFORMATIONS = {"plain": plain, "grad": gradient, "scan": scan, "vmap": vmap, "remat": remat}

# ---- modes


def by_shard_map(transformation: Callable[..., Any], mesh: jax.sharding.Mesh, x: Any, *, vma: bool) -> Any:
    def body(v: Any) -> Any:
        def total(u: Any) -> Any:
            summed = lax.psum(u, "w")
            return lax.pcast(summed, "w", to="varying") if vma else summed

        return transformation(total, v)

    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("w"), out_specs=P("w"), check_vma=vma))(x)


def by_pmap(transformation: Callable[..., Any], mesh: jax.sharding.Mesh, x: Any) -> Any:
    rows = np.asarray(x).reshape(DEVICES, -1, x.shape[1])
    return jax.pmap(lambda v: transformation(lambda u: lax.psum(u, "w"), v), "w")(rows)


def by_jit(transformation: Callable[..., Any], mesh: jax.sharding.Mesh, x: Any) -> Any:
    return jax.jit(lambda v: transformation(lambda u: u - u.sum(0), v))(x)


MODES = {
    "shard_map": functools.partial(by_shard_map, vma=True),
    "shard_map, check_vma=False": functools.partial(by_shard_map, vma=False),
    "pmap": by_pmap,
    "jit, NamedSharding": by_jit,
}
WAYS: dict[str, Callable[[], contextlib.AbstractContextManager]] = {
    "init()": contextlib.nullcontext,
    "collectives(bucket_bytes=0)": functools.partial(jaxina.collectives, bucket_bytes=0),
    "collectives(False)": functools.partial(jaxina.collectives, False),
}


def settled() -> int:
    """Waits until the engine's count no longer changes. (The engine hands out a result first, then counts it.)"""
    counts = [jaxina.job.current().statistics()["collectives"]]
    while len(counts) < 4 or counts[-1] != counts[-4]:
        time.sleep(0.005)
        counts.append(jaxina.job.current().statistics()["collectives"])
    return counts[-1]


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    jax.config.update("jax_num_cpu_devices", DEVICES)
    table = Table(title=f"JAX {jax.__version__}, one process, {DEVICES} devices", title_justify="left")
    for column in ("mode", "transformation", "way", "carried", "counted", "with XLA, and why"):
        table.add_column(column)
    wrong = total = 0
    with jaxina.init("embedded"):
        mesh = jax.make_mesh((DEVICES,), ("w",), axis_types=(AxisType.Auto,))
        spread = NamedSharding(mesh, P("w"))
        for (mode, run), (name, transformation), (way, scope) in itertools.product(
            MODES.items(), TRANSFORMATIONS.items(), WAYS.items()
        ):
            x = jax.device_put(np.ones((DEVICES * ROWS, 4), np.float32), spread)
            known, before = len(jaxina.report().programs), settled()
            with scope():
                jax.block_until_ready(run(transformation, mesh, x))
            counted = settled() - before
            programs = jaxina.report().programs[known:]
            carried = sum(program.carried for program in programs)
            expected = carried * DEVICES * (TURNS if name == "scan" else 1)
            stays = [f"{one.number} {one.kind}: {one.why}" for program in programs for one in program.stays]
            agrees = counted == expected
            wrong, total = wrong + (not agrees), total + 1
            shown = f"{counted}" if agrees else f"{counted}, not {expected}"
            table.add_row(mode, name, way, str(carried), shown, "; ".join(stays), style="" if agrees else "red")
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    print(
        f"{total} programs, {wrong} of which the report and the engine do not agree. carried: collectives in the "
        f"program's text. counted: by the engine, for {DEVICES} devices and {TURNS} turns of a loop."
    )
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
