"""partitioned.py runs this in every process of a job. It runs programs and writes the results of each into a folder.

The arguments are the folder and the programs' names. For program i and process r, the file i.r.npz holds this process's
parts of the results. The file i.r.json holds the counts, or the error; it is written last.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.errors import JaxRuntimeError
from partitioned_programs import Program, programs

import jaxina

COMPUTATION = re.compile(r"^(ENTRY )?%([\w.-]+) \(.*\{$")
ROOT = re.compile(r"^\s*ROOT %[\w.-]+ = \S+ ([a-z][\w-]*)\(")
COLLECTIVE = re.compile(
    r" = (?:\(.*?\)|\S+) (all-reduce|reduce-scatter|all-gather|all-to-all|collective-permute)(?:-start)?\(([^)]*)\)"
)
CALLED = re.compile(r"(calls|to_apply|body|condition)=%([\w.-]+)")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


def in_text(text: str) -> dict[str, int]:
    """Counts in the text of an optimized HLO module: collectives; the arrays that they take; the sums of arrays in one
    run; the other collectives in one run.

    This code is independent of jaxina._hlo, from which the report comes, so that it can check the report.
    """
    bodies: dict[str, list[str]] = {}
    name = entry = ""
    for line in text.splitlines():
        if found := COMPUTATION.match(line):
            name = found.group(2)
            entry = name if found.group(1) else entry
            bodies[name] = []
        elif name:
            bodies[name].append(line)
    runs = dict.fromkeys(bodies, 0) | {entry: 1}
    for caller in reversed(bodies):  # the text has a computation before its callers
        for line in bodies[caller]:
            trips = TRIPS.search(line)
            for how, callee in CALLED.findall(line):
                runs[callee] += runs[caller] * (int(trips.group(1)) if trips and how == "body" else 1)
    roots = {name: found.group(1) for name, body in bodies.items() for found in map(ROOT.match, body) if found}
    counts = dict.fromkeys(("collectives", "arrays", "sums", "others"), 0)
    for name, body in bodies.items():
        for line in body:
            if not (found := COLLECTIVE.search(line)):
                continue
            arrays, applied = found.group(2).count("%"), dict(CALLED.findall(line)).get("to_apply", "")
            counts["collectives"] += 1
            counts["arrays"] += arrays
            if roots.get(applied) == "add":
                counts["sums"] += runs[name] * arrays
            else:
                counts["others"] += runs[name]
    return counts


def settled() -> int:
    """Waits until the engine's count no longer changes. (The engine hands out a result first, then counts it.)"""
    counts = [jaxina.job.current().statistics()["collectives"]]
    while len(counts) < 4 or counts[-1] != counts[-4]:
        time.sleep(0.005)
        counts.append(jaxina.job.current().statistics()["collectives"])
    return counts[-1]


def run(program: Program, file: Path) -> dict[str, Any]:
    """Runs a program, writes this process's parts of the results to `file`, and returns the counts."""
    mesh = program.mesh(jax.devices())
    known, before = len(jaxina.report().programs), settled()
    with jax.set_mesh(mesh):
        arguments, jitted = program.enter(*program.place(mesh)), program.jitted(mesh)
        text = jitted.lower(*arguments).compile().as_text()
        results = jax.tree.leaves(program.leave(arguments, jitted(*arguments)))
        jax.block_until_ready(results)
    counted = settled() - before
    reported = jaxina.report().programs[known:]
    parts = {}
    for place, result in enumerate(results):
        (shard,) = result.addressable_shards
        ranges = [piece.indices(size)[:2] for piece, size in zip(shard.index, result.shape, strict=True)]
        parts[f"{place}"], parts[f"{place}.index"] = np.asarray(shard.data), np.asarray(ranges, int).reshape(-1, 2)
    np.savez(file, **parts)
    return {
        "counted": counted,
        "carried": sum(one.carried for one in reported),
        "tensors": sum(one.tensors for one in reported),
        "stays": [str(one) for one in reported if one.stays],
        **{f"text_{what}": number for what, number in in_text(text).items()},
    }


def main(folder: Path, names: list[str]) -> None:
    known = programs()
    with jaxina.init():
        for number, name in enumerate(names):
            file = folder / f"{number}.{jax.process_index()}"
            try:
                found = run(known[name], file.with_name(file.name + ".npz"))
            except JaxRuntimeError as error:
                found = {"error": str(error)}
            file.with_name(file.name + ".json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
