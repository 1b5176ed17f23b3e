"""Trains a workload with several compressors in a job of several processes. `experiments.measured_time` starts it.

    jaxina run -n 4 python -m experiments.linked_worker FILE WORKLOAD SEED SPEC=SCALE...

The job has as many workers as devices. jaxina carries the sums of compressors, and XLA those of float32 and all
gathers. Process 0 writes to FILE, for each compressor, the seconds of its steps and its scores on the test split.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

import jax

import jaxina
from experiments import workloads
from experiments.convergence import EVALUATIONS
from experiments.grid import as_deployed
from experiments.trainer import Programs, Trainer
from experiments.workloads import TEST
from jaxina import compressors


def main() -> None:
    file, name, seed, *chosen = sys.argv[1:]
    job = jaxina.init(catch_all=False)  # what jaxina does not sum is gloo's, not its own peers'
    programs = Programs(workloads.get(name), jax.device_count())
    outcomes = {}
    for spec, scale in (text.rsplit("=", 1) for text in chosen):
        compressor = compressors.get(spec)
        carrier = functools.partial(jaxina.collectives, as_deployed(compressor) == "jaxina")
        trainer = Trainer(programs, compressor, programs.workload.steps, carrier)
        outcome = trainer.run(int(seed), float(scale), TEST, EVALUATIONS)
        if job.process == 0:
            print(f"{spec}: {1e3 * outcome.median_step_seconds:.1f} ms a step, {outcome.scores[-1]}", flush=True)
        outcomes[spec] = {"step_seconds": outcome.step_seconds, "scores": outcome.scores}
    if job.process == 0:
        Path(file).write_text(json.dumps(outcomes))


if __name__ == "__main__":
    main()
