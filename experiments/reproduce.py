"""Makes everything that is recorded in experiments/results: the studies, their tables and their figures.

    python -m experiments.reproduce --plan              # what is missing, and how long it will take
    python -m experiments.reproduce                     # does it; after an interruption, start it again
    python -m experiments.reproduce --only ncf          # stages whose names contain "ncf"; tables are made each time
    python -m experiments.reproduce --size large        # the studies with large models, on a GPU
    python -m experiments.reproduce --again compression_cost    # measures that anew, though its result is there

From whatever folder it is called, it writes into the checkout's experiments/results. With EXPERIMENTS_RESULTS=FOLDER in
the environment it begins anew, in a folder of its own.

Every run is written down when it ends, and so is every measurement, with versions, code, machine and time. What is
written down is not done again, unless it has other settings than today's code. Whether a stage is made is read out of
its results, so those of a fresh checkout count.

The estimate comes from recorded runs and measurements. A workload that was never run is trained for a few steps first,
also with --plan, and the times are added to probes.jsonl. That may take minutes; --no-probes leaves it out.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from rich.console import Console
from rich.table import Column, Table

from experiments import durations, grid, records, stages
from experiments.durations import Durations
from experiments.grid import Grid
from experiments.stages import ANALYSES, Analysis, duration

CONFIGS = (  # in the order in which they run
    "convergence",
    "sixteen_workers",
    "fixed_shift",
    "gan_one_rate",
    "transformers",
    "narrow_words",
    "training_breaks",
    "momentum",
)
# Tables and figures of the studies. They take seconds and are made each time.
PAGES = {
    "tables and figures": "summarize --size {size} " + " ".join(f"experiments/configs/{name}.toml" for name in CONFIGS),
    "overview": "overview",
    "emulated speed-ups": "emulator",
    "time to accuracy": "time_to_accuracy",
}


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of the work.

    Attributes:
      name: for people.
      command: the arguments of ``python -m experiments.``.
      left: what is missing, in words; empty if it is done.
      seconds: how long the rest will take; None if nobody knows.
      made: when and for how long it was made, in words, if that is known.
    """

    name: str
    command: str
    left: str
    seconds: float | None
    made: str = ""


def analyses(named: Mapping[str, Analysis], size: str, again: Collection[str] = ()) -> Iterator[Stage]:
    """Yields a stage for each analysis. What `again` has the commands of is to be made, though it may be there."""
    for name, analysis in named.items():
        left, seconds, made = analysis.state(size)
        if analysis.command in again:
            left = left or "again"
        yield Stage(name, analysis.command.format(size=size), left, seconds, made)


def studies(size: str, console: Console, probing: bool, is_asked: Callable[[str], bool]) -> Iterator[Stage]:
    """Yields a stage for each workload and number of workers of each study, if its name is asked for."""
    for title, name, part in parts(size):
        if not is_asked(title):
            continue
        missing = durations.left(part)
        command = f"convergence --config experiments/configs/{name}.toml --workload {part.workloads[0]}"
        command += f" --workers {part.workers[0]} --size {size}"
        seconds = 0.0
        if missing:
            known = _known(name, part, console, probing)
            place = durations.place_of(missing[0])
            seconds = sum(map(known.seconds, missing)) if known.knows(place) else None
        words = f"{len(missing)} runs" if missing else ""
        yield Stage(title, command, words, seconds)


def parts(size: str) -> Iterator[tuple[str, str, Grid]]:
    """Yields the name of each stage of a study, its file's name without ending, and its part of the study."""
    for name in CONFIGS:
        whole = dataclasses.replace(grid.Grid.read(grid.CONFIGS / f"{name}.toml"), size=size)
        for workers in whole.workers:
            for workload in whole.workloads:
                part = whole.selected([workload], workers=[workers])
                yield f"{name}: {workload}, {workers} workers", name, part


def unknown(only: Iterable[str], size: str) -> str:
    """Returns what is wrong with `--only`, in words; empty if each of its texts is in a stage's name."""
    names = [*ANALYSES, *(title for title, _, _ in parts(size)), *stages.after_studies(size)]
    wrong = [text for text in only if not any(text in name for name in names)]
    return (
        f"no stage has {', '.join(map(repr, wrong))} in its name. The stages are: {'; '.join(names)}" if wrong else ""
    )


def not_repeatable(again: Iterable[str], size: str) -> str:
    """Returns what is wrong with `--again`, in words; empty if each of its commands can be made again."""
    there = stages.repeatable(size)
    wrong = [command for command in again if command not in there]
    return f"--again takes {', '.join(there)}; not {', '.join(map(repr, wrong))}" if wrong else ""


def _known(name: str, part: Grid, console: Console, probing: bool) -> Durations:
    """Returns the durations of recorded runs, and probes a workload that has none."""
    entry = part.entries()[0]
    known = durations.recorded(part)
    if probing and not known.knows(durations.place_of(entry)):
        console.print(f"timing {entry.workload}, {entry.workers} workers (--no-probes leaves this out)", style="dim")
        config = f"experiments/configs/{name}.toml"
        _call(f"probe {entry.workload} --config {config} --workers {entry.workers} --size {entry.size}")
        known = durations.recorded(part)
    return known


def show(chosen: Iterable[Stage], console: Console) -> None:
    """Prints what is missing and how long it will take, and when the rest was made."""
    table = Table(Column("stage", no_wrap=True), "missing", "time")
    times = []
    for stage in chosen:
        if stage.left:
            table.add_row(stage.name, stage.left, "unknown" if stage.seconds is None else duration(stage.seconds))
            times.append(stage.seconds)
        else:
            table.add_row(stage.name, "-", stage.made or "-", style="dim")
    known = [seconds for seconds in times if seconds is not None]
    said = [] if times else ["Nothing is missing."]
    if known:
        said.append(f"{duration(sum(known))} on a machine as busy as that of the records.")
        said.append("Searches may take some runs more.")
    if len(known) < len(times):
        said.append(f"Stages of unknown time: {len(times) - len(known)}.")
    table.caption = " ".join(said)
    console.print(table)


def run(stage: Stage) -> None:
    """Runs a stage.

    Raises:
      SystemExit: the stage failed. What it has written down stays.
    """
    code = _call(stage.command)
    if code:
        raise SystemExit(f"{stage.name} failed (exit status {code}): python -m experiments.{stage.command}")


def _call(command: str) -> int:
    """Runs ``python -m experiments.COMMAND`` in a process of its own: each needs other settings of JAX.

    It runs in the checkout, where a command's files of studies are. Results go where this process's go.
    """
    environment = os.environ | {"EXPERIMENTS_RESULTS": str(records.RESULTS.resolve())}
    arguments = [sys.executable, "-m", *f"experiments.{command}".split()]
    return subprocess.run(arguments, cwd=records.ROOT, env=environment, check=False).returncode


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--plan",
        action="store_true",
        help="only say what is missing and how long it will take; times workloads that were never run (--no-probes)",
    )
    parser.add_argument("--only", action="append", default=[], help="stages with this in their names; may be repeated")
    parser.add_argument(
        "--again",
        action="append",
        default=[],
        metavar="COMMAND",
        help="a measurement or analysis to make again although its result is there, such as compression_cost; may be "
        "repeated. Its result is overwritten",
    )
    parser.add_argument("--size", choices=["small", "large"], default="small")
    parser.add_argument("--no-probes", action="store_true", help="time no steps of workloads that were never run")
    options = parser.parse_args(arguments)
    if wrong := unknown(options.only, options.size) or not_repeatable(options.again, options.size):
        print(f"error: {wrong}", file=sys.stderr)
        raise SystemExit(2)
    console = Console()

    def is_asked(name: str) -> bool:
        return not options.only or any(text in name for text in options.only)

    size, again = options.size, options.again
    found = [*analyses(ANALYSES, size, again), *studies(size, console, not options.no_probes, is_asked)]
    last = list(analyses(stages.after_studies(size), size, again))
    chosen = {stage.name: stage for stage in (*found, *last) if is_asked(stage.name) or stage.command in again}
    show(chosen.values(), console)
    if options.plan:
        return
    pages = [Stage(name, command.format(size=size), "made each time", None) for name, command in PAGES.items()]
    for stage in (*found, *pages, *last):
        if stage in pages or (stage.name in chosen and stage.left):
            console.rule(f"{stage.name}: {stage.left}")
            run(stage)


if __name__ == "__main__":
    main()
