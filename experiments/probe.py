"""Times a few steps of float32 on a workload, for the estimates of `experiments.reproduce`.

    python -m experiments.probe clickthrough
    python -m experiments.probe decoder --config experiments/configs/transformers.toml

A line of results/probes.jsonl says what a step and what the rest of the run took.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import time
from pathlib import Path

import jax

import jaxina
from experiments import durations, records, study_file, workloads
from experiments.data import packages
from experiments.grid import DEFAULT, Grid
from experiments.recorded import BASELINE
from experiments.trainer import Programs, Trainer
from jaxina import compressors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=workloads.names())
    parser.add_argument("--config", type=Path, default=DEFAULT, help="the file of a study that has the workload")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--size", choices=["small", "large"], default="small")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", options.workers)
    with study_file.one_line():
        study = dataclasses.replace(Grid.read(options.config), size=options.size, workers=(options.workers,))
        (entry,) = study.selected([options.workload], [BASELINE]).entries()
    setting = durations.probe_of(entry)
    for package in packages.ALL:
        package.download()
    workload = workloads.get(setting.workload, setting.size)
    start = time.perf_counter()
    programs = Programs(workload, setting.workers)
    trainer = Trainer(
        programs,
        compressors.get(setting.compressor),
        setting.steps,
        functools.partial(jaxina.collectives, False),
    )
    outcome = trainer.run(setting.seed, setting.learning_rate_scale, setting.split, 1)
    seconds = time.perf_counter() - start
    records.append(
        durations.PROBES, setting, {"step_seconds": outcome.median_step_seconds, "seconds": round(seconds, 2)}
    )


if __name__ == "__main__":
    main()
