"""Trains workloads with compressed gradients and records the losses, the scores and the bytes sent.

    python -m experiments.data.packages                                    # once: downloads the data sets
    python -m experiments.convergence --workload ncf --compressor topk:0.01 --seeds 5
    python -m experiments.convergence --all                                # the grid of configs/convergence.toml
    python -m experiments.convergence --config experiments/configs/training_breaks.toml
    python -m experiments.summarize                                        # writes tables and figures

A study that was interrupted goes on when it is started again: runs that have a line in the results file are skipped.
Several processes may work on one study and add to one file, each with workloads of its own (--all --workload ncf,
--all --workload lstm).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import jax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import jaxina
from experiments import grid, records, workloads
from experiments.grid import Grid
from experiments.records import RESULTS, Setting
from experiments.trainer import Programs, Trainer
from jaxina import compressors

EVALUATIONS = 8

Carrier = Callable[[], contextlib.AbstractContextManager]


def main(arguments: list[str] | None = None) -> None:
    options = _parse(arguments)
    study = _study(options)
    jax.config.update("jax_num_cpu_devices", study.workers)
    run_all(study.settings(), options.results or RESULTS / study.results)


def run_all(settings: Sequence[Setting], file: Path) -> None:
    """Trains every run that the results file does not hold yet. Consecutive runs share their compiled programs."""
    done = records.finished(file)
    missing = [setting for setting in settings if setting.id not in done]
    carriers = _carriers({setting.collective for setting in missing})
    console = Console(stderr=True)
    console.print(f"{len(settings) - len(missing)} of {len(settings)} runs are in {file}")
    with _progress(console) as progress:
        task = progress.add_task("runs", total=len(settings), completed=len(settings) - len(missing), latest="")
        programs, programs_for, trainer, trainer_for = None, None, None, None
        for setting in missing:
            if (setting.workload, setting.size) != programs_for:
                programs, programs_for = _programs(setting), (setting.workload, setting.size)
            if dataclasses.replace(setting, seed=0) != trainer_for:
                trainer, trainer_for = _trainer(setting, programs, carriers), dataclasses.replace(setting, seed=0)
            _run(trainer, setting, file, progress)
            progress.advance(task)


def _run(trainer: Trainer, setting: Setting, file: Path, progress: Progress) -> None:
    name = f"{setting.workload} {setting.compressor} seed {setting.seed}"
    task = progress.add_task(name, total=setting.steps, latest="compiling")

    def on_step(step: int, loss: float) -> None:
        progress.update(task, completed=step + 1, latest=f"loss {loss:.3f}")

    outcome = trainer.run(setting.seed, EVALUATIONS, on_step)
    progress.remove_task(task)
    workload = trainer.programs.workload
    step, score = outcome.scores[-1]
    progress.console.print(
        f"{name}: {workload.metric} {'-' if score is None else f'{score:.4g}'} after {step} steps, "
        f"{outcome.step_seconds * 1e3:.1f} ms/step, {outcome.sent:.0f} bytes sent"
    )
    result = dataclasses.asdict(outcome)
    result["losses"] = [float(f"{loss:.5g}") if math.isfinite(loss) else None for loss in outcome.losses]
    result |= {
        "metric": workload.metric,
        "higher_is_better": workload.higher_is_better,
        "parameters": trainer.programs.parameter_count(),
    }
    records.append(file, setting, result)


def _programs(setting: Setting) -> Programs:
    return Programs(workloads.get(setting.workload, setting.size), setting.workers)


def _trainer(setting: Setting, programs: Programs, carriers: Mapping[str, Carrier]) -> Trainer:
    return Trainer(
        programs,
        compressors.get(setting.compressor),
        setting.steps,
        setting.learning_rate_scale,
        collectives=carriers[setting.collective],
    )


def _carriers(names: Collection[str]) -> dict[str, Carrier]:
    """Returns for each name a context manager: inside it, XLA or jaxina carries the psums."""
    if "jaxina" in names:
        jaxina.init()
    return {"xla": functools.partial(jaxina.collectives, False), "jaxina": jaxina.collectives}


def _study(options: argparse.Namespace) -> Grid:
    if options.all or options.config:
        study = Grid.read(options.config or grid.DEFAULT).selected(options.workload or (), options.compressor or ())
    elif options.workload and options.compressor:
        study = Grid(tuple(options.workload), tuple(options.compressor))
    else:
        sys.exit("name a --workload and a --compressor, or a --config, or --all")
    given = {name: getattr(options, name) for name in ("workers", "seeds", "steps", "size", "collective")}
    return dataclasses.replace(study, **{name: value for name, value in given.items() if value is not None})


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[latest]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--workload", action="append", choices=workloads.names(), help="train only this; may be repeated"
    )
    parser.add_argument("--compressor", action="append", help="use only this, e.g. topk:0.01; may be repeated")
    parser.add_argument("--config", type=Path, help="run the study in this file")
    parser.add_argument("--all", action="store_true", help=f"run the study {grid.DEFAULT.name}")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--seeds", type=int, help="how many seeds: 0, 1, ...")
    parser.add_argument("--steps", type=int, help="steps of a run; by default the workload's own number")
    parser.add_argument("--size", choices=["small", "large"])
    parser.add_argument(
        "--collective",
        choices=["xla", "jaxina", grid.DEPLOYED],
        help="what carries psums; deployed, the default: XLA for float32 without a compressor, jaxina for all others",
    )
    parser.add_argument("--results", type=Path, help="add to this file; by default to the study's own")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
