"""Trains workloads with compressed gradients and writes down what became of them.

    python -m experiments.data.packages                                    # once: the data sets
    python -m experiments.convergence --workload ncf --compressor topk:0.01 --seeds 5
    python -m experiments.convergence --all                                # the grid of configs/convergence.toml
    python -m experiments.convergence --config experiments/configs/figure11.toml
    python -m experiments.summarize                                        # tables and figures

Interrupted, it goes on with the first run that has no line in the results. Several processes may share a study's workloads
(--all --workload ncf, --all --workload lstm): they add to one file.
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
    """Those of the runs that the results file does not hold yet."""
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
    """Context managers in which psums are carried by what is named."""
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
        "--workload", action="append", choices=workloads.names(), help="may be repeated; of a study, only these"
    )
    parser.add_argument(
        "--compressor", action="append", help="spec, as topk:0.01; may be repeated; of a study, only these"
    )
    parser.add_argument("--config", type=Path, help="a study's file")
    parser.add_argument("--all", action="store_true", help=f"the study {grid.DEFAULT.name}")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--seeds", type=int, help="how many: 0, 1, ...")
    parser.add_argument("--steps", type=int, help="instead of the workload's own")
    parser.add_argument("--size", choices=["small", "large"])
    parser.add_argument(
        "--collective",
        choices=["xla", "jaxina", grid.DEPLOYED],
        help="what carries psums; deployed, the default: jaxina, but for float32's",
    )
    parser.add_argument("--results", type=Path, help="file to add to, instead of the study's in experiments/results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
