"""Makes everything that is recorded in experiments/results: the studies, their tables and their figures.

    python -m experiments.reproduce --plan              # what is missing, and how long it will take
    python -m experiments.reproduce                     # does it; after an interruption, start it again
    python -m experiments.reproduce --only ncf          # stages whose names contain "ncf"; tables are made each time
    python -m experiments.reproduce --size large        # the studies with large models, on a GPU

From whatever folder it is called, it writes into the checkout's experiments/results. With EXPERIMENTS_RESULTS=FOLDER in
the environment it begins anew, in a folder of its own.

Every run and every stage is written down when it ends, with versions, commit, machine and time. What is written down is
not done again. The estimate comes from recorded runs. A workload that was never run is trained for a few steps first,
also with --plan, and the times are added to probes.jsonl. That may take minutes; --no-probes leaves it out.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from experiments import durations, grid, records
from experiments.durations import Durations
from experiments.grid import Grid

CONFIGS = (  # in the order in which they run
    "convergence",
    "sixteen_workers",
    "fixed_shift",
    "transformers",
    "narrow_words",
    "training_breaks",
    "momentum",
)


class Analysis(NamedTuple):
    """What needs no grid, and is made once.

    Attributes:
      command: the arguments of ``python -m experiments.``.
      made: a pattern of what it writes, in the checkout. If there is nothing of that kind, it is made again.
    """

    command: str
    made: str


# Each takes minutes, the races hours.
ANALYSES = {
    "data sets": Analysis("data.packages", "out/data/*"),
    "base of lora": Analysis("pretrained --size {size}", "out/models/*-{size}-*.npz"),
    "bias of rounding": Analysis("unbiased_rounding", "{results}/unbiased_rounding.json"),
    "effect of f": Analysis("effect_of_f", "{results}/effect_of_f.json"),
    "sums of narrow words": Analysis("narrow_words", "{results}/narrow_words.json"),
    "cost of compression": Analysis("compression_cost", "{results}/compression_cost.json"),
    "races over unequal links": Analysis(
        "fabric.study train --compute C2 --gradients 6000 --score-every 240 --rates 0.1,0.3", "{results}/fabric.jsonl"
    ),
    "topics over unequal links": Analysis("fabric.lda run --seeds 3", "{results}/fabric_lda.jsonl"),
}
# Tables and figures of the studies. They take seconds and are made each time.
PAGES = {
    "tables and figures": "summarize --size {size} " + " ".join(f"experiments/configs/{name}.toml" for name in CONFIGS),
    "overview": "overview",
    "emulated speed-ups": "emulator",
    "time to accuracy": "time_to_accuracy",
}
# What comes last, because it needs recorded runs of small models, root's rights and a machine that does nothing else.
MEASUREMENTS = {"time to accuracy over real links": Analysis("measured_time", "{results}/measured_time.json")}


@dataclasses.dataclass(frozen=True)
class Command(records.Identified):
    """What identifies a stage whose end is written down."""

    command: str


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of the work.

    Attributes:
      name: for people.
      command: the arguments of ``python -m experiments.``.
      left: what is missing, in words; empty if it is done.
      seconds: how long the rest will take; None if nobody knows.
      recorded: whether the end of the stage is written down. Studies write down their runs instead.
    """

    name: str
    command: str
    left: str
    seconds: float | None
    recorded: bool = False


def analyses(named: Mapping[str, Analysis], size: str) -> Iterator[Stage]:
    """Yields a stage for each analysis. It is done if its end is written down, and what it made is there."""
    ends = records.by_id(_file())
    for name, analysis in named.items():
        command = analysis.command.format(size=size)
        before = ends.get(Command(command).id)
        taken = before["outcome"]["seconds"] if before else None
        made = records.ROOT / analysis.made.format(size=size, results=records.RESULTS.resolve())
        done = before is not None and any(made.parent.glob(made.name))
        yield Stage(name, command, "" if done else "not made", 0.0 if done else taken, recorded=True)


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
    names = [*ANALYSES, *(title for title, _, _ in parts(size)), *_measurements(size)]
    wrong = [text for text in only if not any(text in name for name in names)]
    return (
        f"no stage has {', '.join(map(repr, wrong))} in its name. The stages are: {'; '.join(names)}" if wrong else ""
    )


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


def show(stages: Iterable[Stage], console: Console) -> None:
    table = Table("stage", "missing", "time")
    total, unknown = 0.0, 0
    for stage in stages:
        if stage.left:
            table.add_row(stage.name, stage.left, "unknown" if stage.seconds is None else duration(stage.seconds))
            total, unknown = total + (stage.seconds or 0.0), unknown + (stage.seconds is None)
        else:
            table.add_row(stage.name, "-", "-", style="dim")
    known = f"{duration(total)} on a machine as busy as that of the records. Searches may take some runs more."
    table.caption = known + (f" Not counted: stages of unknown time ({unknown})." if unknown else "")
    console.print(table)


def duration(seconds: float) -> str:
    """Returns a time for people, such as "3 h 20 min"."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def run(stage: Stage) -> None:
    """Runs a stage, and writes down its end if its runs do not.

    Raises:
      SystemExit: the stage failed. What it has written down stays.
    """
    start = time.perf_counter()
    code = _call(stage.command)
    if code:
        raise SystemExit(f"{stage.name} failed (exit status {code}): python -m experiments.{stage.command}")
    if stage.recorded:
        records.append(_file(), Command(stage.command), {"seconds": round(time.perf_counter() - start, 1)})


def _call(command: str) -> int:
    """Runs ``python -m experiments.COMMAND`` in a process of its own: each needs other settings of JAX.

    It runs in the checkout, where a command's files of studies are. Results go where this process's go.
    """
    environment = os.environ | {"EXPERIMENTS_RESULTS": str(records.RESULTS.resolve())}
    arguments = [sys.executable, "-m", *f"experiments.{command}".split()]
    return subprocess.run(arguments, cwd=records.ROOT, env=environment, check=False).returncode


def _measurements(size: str) -> Mapping[str, Analysis]:
    return MEASUREMENTS if size == "small" else {}


def _file() -> Path:
    return records.RESULTS / "stages.jsonl"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--plan",
        action="store_true",
        help="only say what is missing and how long it will take; times workloads that were never run (--no-probes)",
    )
    parser.add_argument("--only", action="append", default=[], help="stages with this in their names; may be repeated")
    parser.add_argument("--size", choices=["small", "large"], default="small")
    parser.add_argument("--no-probes", action="store_true", help="time no steps of workloads that were never run")
    options = parser.parse_args(arguments)
    if wrong := unknown(options.only, options.size):
        print(f"error: {wrong}", file=sys.stderr)
        raise SystemExit(2)
    console = Console()

    def is_asked(name: str) -> bool:
        return not options.only or any(text in name for text in options.only)

    found = [*analyses(ANALYSES, options.size), *studies(options.size, console, not options.no_probes, is_asked)]
    last = list(analyses(_measurements(options.size), options.size))
    chosen = {stage.name: stage for stage in (*found, *last) if is_asked(stage.name)}
    show(chosen.values(), console)
    if options.plan:
        return
    pages = [Stage(name, command.format(size=options.size), "made each time", None) for name, command in PAGES.items()]
    for stage in (*found, *pages, *last):
        if stage in pages or (stage.name in chosen and stage.left):
            console.rule(f"{stage.name}: {stage.left}")
            run(stage)


if __name__ == "__main__":
    main()
