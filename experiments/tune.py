"""Tunes the learning rates for float32: python -m experiments.tune [WORKLOAD ...]

It trains each workload without compression at multiples of the learning rate in the workload's file, from a seed that
no study uses. The studies use the rate of that file for every compressor; no rate is tuned for a compressor. The
results are results/tuning.jsonl and tuning.md. After an interruption, start it again: it goes on where it was.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax

from experiments import records, workloads
from experiments.convergence import run_all
from experiments.records import RESULTS, Setting

SCALES = (0.5, 1.0, 2.0, 4.0)
SEED = 100
WORKERS = 4


def settings(names: list[str]) -> list[Setting]:
    return [
        Setting(name, "small", "none", WORKERS, SEED, workloads.get(name).steps, scale, "xla")
        for name in names
        for scale in SCALES
    ]


def table(found: list[dict]) -> str:
    """Returns a Markdown table. A row has a workload's final metric at each multiple of its learning rate."""
    lines = [
        "# Learning rates",
        "",
        (
            "Written by `python -m experiments.tune`: float32, seed 100, the final metric at multiples of the "
            "learning rate in the workload's file."
        ),
        "",
        "| workload | metric | " + " | ".join(f"x {scale:g}" for scale in SCALES) + " |",
        "|---|---|" + "---:|" * len(SCALES),
    ]
    for name in dict.fromkeys(record["setting"]["workload"] for record in found):
        runs = {r["setting"]["learning_rate_scale"]: r["outcome"] for r in found if r["setting"]["workload"] == name}
        metric = next(iter(runs.values()))["metric"]
        scores = [runs[scale]["scores"][-1][1] if scale in runs else None for scale in SCALES]
        lines.append(f"| {name} | {metric} | " + " | ".join("-" if s is None else f"{s:.4g}" for s in scores) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", choices=[[], *workloads.names()])
    parser.add_argument("--results", type=Path, default=RESULTS / "tuning.jsonl")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", WORKERS)
    run_all(settings(options.workloads or workloads.names()), options.results)
    options.results.with_suffix(".md").write_text(table(records.read(options.results)))


if __name__ == "__main__":
    main()
