"""Trains workloads with compressed gradients and records the losses, the scores and the bytes sent.

    python -m experiments.data.packages                                    # once: downloads the data sets
    python -m experiments.convergence                                      # the study of configs/convergence.toml
    python -m experiments.convergence --workload ncf --compressor none --compressor topk:0.01 --seeds 7
    python -m experiments.convergence --config experiments/configs/training_breaks.toml
    python -m experiments.summarize                                        # writes tables and figures

Every compressor gets a learning rate of its own first (`experiments.rates`). A study that was interrupted goes on when
it is started again: runs that have a line in the results are skipped. Several processes may work on one study: started
with the same arguments, they divide its compressors among themselves. Runs with other `--steps` or another
`--collective` than the study's are recorded, but are in no table.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import jaxina
from experiments import rates, records, study_file, workloads
from experiments.allocator import like_a_worker
from experiments.claims import Claims
from experiments.grid import DEFAULT, Grid
from experiments.pretrained import FOLDER
from experiments.recorded import Record
from experiments.records import Setting
from experiments.trainer import Outcome, Programs, Trainer
from experiments.workloads import TEST
from jaxina import compressors
from jaxina.errors import InvalidArgumentError

EVALUATIONS = 8
WINDOWS = 100
"""The training loss is recorded as means over windows of steps, about so many."""

Carrier = Callable[[], contextlib.AbstractContextManager]


def main(arguments: list[str] | None = None) -> None:
    options = _parse(arguments)
    with study_file.one_line():
        study = Grid.read(options.config)
        given = {name: getattr(options, name) for name in ("seeds", "steps", "size", "collective")}
        study = dataclasses.replace(study, **{name: value for name, value in given.items() if value is not None})
        study = _chosen(study, options)
        study.entries()  # raises if a compressor that was named does not exist
        jax.config.update("jax_num_cpu_devices", max(study.workers))
        Study(study).run()


class Study:
    """Runs what a study's results lack, and what no other process runs."""

    def __init__(self, study: Grid) -> None:
        self._study = study
        self._console = Console(stderr=True)
        self._programs: tuple[tuple[str, int], Programs] | None = None

    def run(self) -> None:
        records.provenance()  # of the code that is loaded now
        entries = self._study.entries()
        carriers = _carriers(any(entry.collective == "jaxina" for entry in entries))
        with Claims(self._study.file.parent) as claims, _progress(self._console) as progress:
            task = progress.add_task("compressors", total=len(entries), latest="")
            others = []
            for entry in entries:
                with claims.taken(entry, wait=False) as taken:
                    if not taken:
                        others.append(entry)
                        continue
                    self._run_entry(entry, carriers[entry.collective], progress)
                progress.advance(task)
            for entry in others:  # the process that had it may have been interrupted
                name = f"{entry.workload} x{entry.workers} {entry.compressor}"
                progress.console.print(f"{name}: waits until no other process works on it", highlight=False)
                with claims.taken(entry, wait=True):
                    self._run_entry(entry, carriers[entry.collective], progress)
                progress.advance(task)

    def _run_entry(self, entry: Setting, carrier: Carrier, progress: Progress) -> None:
        """Searches the learning rate of a compressor, then trains with it. All runs share their compiled programs."""
        trainer: Trainer | None = None
        tuned, found = records.by_id(rates.FILE), records.by_id(self._study.file)

        def train(setting: Setting) -> dict:
            nonlocal trainer
            if trainer is None:
                trainer = Trainer(self._of(entry), compressors.get(entry.compressor), entry.steps, carrier)
                _check_base(trainer.programs.workload.base, entry, [*tuned.values(), *found.values()])
            file = self._study.file if setting.split == TEST else rates.FILE
            return records.append(file, setting, _train(trainer, setting, progress))

        while missing := self._study.rates.missing(entry, tuned):
            for setting in missing:
                tuned[setting.id] = train(setting)
        for setting in self._study.runs(entry, self._study.rates.best(entry, tuned)):
            if setting.id not in found:
                train(setting)

    def _of(self, entry: Setting) -> Programs:
        """Returns the programs of an entry's workload. Consecutive entries share them."""
        key = entry.workload, entry.workers
        if self._programs is None or self._programs[0] != key:
            self._programs = key, Programs(workloads.get(entry.workload, entry.size), entry.workers)
        return self._programs[1]


def _train(trainer: Trainer, setting: Setting, progress: Progress) -> dict:
    """Returns what is recorded of a run."""
    name = f"{setting.workload} x{setting.workers} {setting.compressor} seed {setting.seed}"
    task = progress.add_task(name, total=setting.steps, latest="compiling")

    def on_step(step: int, loss: float) -> None:
        progress.update(task, completed=step + 1, latest=f"loss {loss:.3f}")

    start = time.perf_counter()
    outcome = trainer.run(setting.seed, setting.learning_rate_scale, setting.split, EVALUATIONS, on_step)
    seconds = time.perf_counter() - start
    progress.remove_task(task)
    workload = trainer.programs.workload
    step, score = outcome.scores[-1]
    progress.console.print(
        f"{name}, rate x {setting.learning_rate_scale:g}: {setting.split} {workload.metric} "
        f"{'-' if score is None else f'{score:.4g}'} after {step} steps, "
        f"{outcome.median_step_seconds * 1e3:.1f} ms/step, "
        f"{outcome.sent:.0f} bytes sent",
        highlight=False,
    )
    return dataclasses.asdict(outcome) | {
        **_thinned(outcome),
        "step_seconds": outcome.median_step_seconds,
        "seconds": round(seconds, 2),
        "metric": workload.metric,
        "higher_is_better": workload.higher_is_better,
        "parameters": trainer.programs.parameter_count(),
        "base": workload.base,
    }


def _check_base(base: str, entry: Setting, recorded: Iterable[Record]) -> None:
    """Checks that a workload builds on the same trained parameters here as in the recorded runs.

    Raises:
      InvalidArgumentError: it does not.
    """

    def place(setting: Mapping[str, Any]) -> tuple:
        return setting["workload"], setting["size"], setting.get("revision", 1)

    own = place(dataclasses.asdict(entry))
    others = [run for run in recorded if place(run["setting"]) == own and run["outcome"].get("base", "") != base]
    if others:
        raise InvalidArgumentError(
            f"{entry.workload} builds on other trained parameters here than in {len(others)} recorded run(s), since "
            f"other machines round otherwise. Bring the files of {FOLDER} from the machine that made those runs, or "
            "begin anew in another folder, with EXPERIMENTS_RESULTS=FOLDER"
        )


def _thinned(outcome: Outcome) -> dict[str, int | list[float | None]]:
    """Returns the losses as means over windows of `window` steps. An incomplete last window is left out."""
    window = max(1, len(outcome.losses) // WINDOWS)
    kept = np.array(outcome.losses[: len(outcome.losses) // window * window]).reshape(-1, window).mean(axis=1)
    return {"window": window, "losses": [float(f"{loss:.5g}") if math.isfinite(loss) else None for loss in kept]}


def _carriers(with_jaxina: bool) -> dict[str, Carrier]:
    """Returns for each name a context manager: inside it, XLA or jaxina carries the psums."""
    if with_jaxina:
        jaxina.init()
    return {"xla": functools.partial(jaxina.collectives, False), "jaxina": jaxina.collectives}


def _chosen(study: Grid, options: argparse.Namespace) -> Grid:
    """Returns the part of the study that the options name. They may name compressors that the study lacks."""
    workers = options.workers or study.workers
    named = options.compressor or study.compressors
    return dataclasses.replace(study, compressors=tuple(named), workers=tuple(workers)).selected(options.workload or ())


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
    parser.add_argument("--config", type=Path, default=DEFAULT, help="the study's file")
    parser.add_argument(
        "--workload", action="append", choices=workloads.names(), help="train only this; may be repeated"
    )
    parser.add_argument("--compressor", action="append", help="use only this, e.g. topk:0.01; may be repeated")
    parser.add_argument("--workers", action="append", type=int, help="only so many; may be repeated")
    parser.add_argument("--seeds", type=int, help="how many seeds: 0, 1, ...")
    parser.add_argument("--steps", type=int, help="steps of a run; by default the workload's own number")
    parser.add_argument("--size", choices=["small", "large"])
    parser.add_argument(
        "--collective",
        choices=study_file.COLLECTIVES,
        help="what carries psums; deployed, the default: XLA for float32 without a compressor, jaxina for all others",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    like_a_worker()
    main()
