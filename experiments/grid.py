"""Reads a study from a TOML file: which workloads, compressors and seeds it has, and what counts as equal.

For example::

    results = "table4"                 # its files are table4.jsonl and so on, in experiments/results
    workloads = ["ncf", "lstm"]
    compressors = ["none", "topk:0.1"] # with "none", float32, with which the others are compared
    workers = [4, 16]
    seeds = 5                          # the seeds 0 to 4
    size = "small"
    collective = "deployed"            # "xla", "jaxina", or "deployed": see `as_deployed`
    pairs = [["topk:0.1", "none"]]     # what is compared with each other, too: one question over all workloads

    [margins]                          # differences of the metric that do not matter
    ncf = 0.01
    lstm = 0.5

    [rates]                            # how learning rates are searched: see `experiments.rates.Search`
    scales = [0.5, 1.0, 2.0]
    seeds = 2
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from pathlib import Path

from experiments import rates, records, study_file, workloads
from experiments.adaptive_shift import AdaptiveShift
from experiments.rates import Search
from experiments.recorded import Record, newest
from experiments.records import RESULTS, Setting
from experiments.study_file import DEPLOYED
from experiments.workloads import TEST
from jaxina import compressors
from jaxina.compressors import Compressor
from jaxina.compressors.uncompressed import Uncompressed
from jaxina.errors import InvalidArgumentError

CONFIGS = Path(__file__).resolve().parent / "configs"
DEFAULT = CONFIGS / "convergence.toml"
SIXTEEN_WORKERS = CONFIGS / "sixteen_workers.toml"
TRANSFORMERS = CONFIGS / "transformers.toml"
MOMENTUM = CONFIGS / "momentum.toml"


@dataclasses.dataclass(frozen=True)
class Grid:
    """A study. The module's docstring describes the fields.

    Raises:
      InvalidArgumentError: a workload has no margin; a margin is not a positive number; there is less than one worker,
        step or seed; or there are so many seeds that those that choose rates would be among them.
    """

    workloads: tuple[str, ...]
    compressors: tuple[str, ...]
    margins: Mapping[str, float]
    results: str
    workers: tuple[int, ...] = (4,)
    seeds: int = 5
    size: str = "small"
    collective: str = DEPLOYED
    steps: int | None = None
    pairs: tuple[tuple[str, str], ...] = ()
    rates: Search = dataclasses.field(default_factory=Search)

    def __post_init__(self) -> None:
        wrong = [name for name in self.workloads if not 0 < self.margins.get(name, 0) < math.inf]
        if wrong:
            raise InvalidArgumentError(f"a study says a margin above 0 for each workload, but not for {wrong}")
        if not 1 <= self.seeds <= rates.FIRST_SEED:
            raise InvalidArgumentError(
                f"a study has 1 to {rates.FIRST_SEED} seeds, since those above choose learning rates; not {self.seeds}"
            )
        if self.steps is not None and self.steps < 1:
            raise InvalidArgumentError(f"a run has at least 1 step, not {self.steps}")
        if min(self.workers, default=1) < 1:
            raise InvalidArgumentError(f"a run has at least 1 worker, not {min(self.workers)}")

    @classmethod
    def read(cls, file: Path) -> Grid:
        """Reads a study's file.

        Raises:
          InvalidArgumentError: the file cannot be read, has an entry that does not exist, or lacks one, or a value is
            not allowed. The message names the file and the entry.
        """
        with study_file.naming(file):
            values = study_file.entries(file)
            for name in ("workloads", "compressors", "workers"):
                if name in values:
                    values[name] = tuple(values[name])
            pairs = tuple((_canonical(one), _canonical(other)) for one, other in values.get("pairs", []))
            return cls(**values | {"rates": Search(**values.get("rates", {})), "pairs": pairs})

    @property
    def file(self) -> Path:
        """The file of results. Large models have one of their own."""
        return RESULTS / (self.results + ("" if self.size == "small" else f"-{self.size}") + ".jsonl")

    def entries(self) -> list[Setting]:
        """Returns a run of each compressor, workload and number of workers: the first seed, with the workload's rate.

        Those that can share compiled programs are next to each other.
        """
        return [
            self._entry(workload, spec, workers)
            for workers in self.workers
            for workload in self.workloads
            for spec in self.compressors
        ]

    def runs(self, entry: Setting, scale: float) -> list[Setting]:
        """Returns the runs of an entry, with this multiple of the workload's rate."""
        return [dataclasses.replace(entry, seed=seed, learning_rate_scale=scale) for seed in range(self.seeds)]

    def recorded(self) -> list[Record]:
        """Returns the recorded results, of all seeds.

        Runs with other steps or another collective than the study's are left out: they are recorded in the same file,
        but their scores are not comparable. Of the revisions of a workload, and of a compressor, the newest one that
        has runs counts; see `outdated`. A run that two processes have made counts once. If a search got more runs and
        now chooses another rate, the runs with the rate before are left out. As long as a search is not over, those
        with all rates stay.
        """
        tuned = records.by_id(rates.FILE)
        chosen: dict[Setting, float | None] = {}  # None: the search is not over

        def counts(record: Record) -> bool:
            run = Setting(**record["setting"])
            entry = dataclasses.replace(
                self._entry(run.workload, run.compressor, run.workers),
                revision=run.revision,
                compressor_revision=run.compressor_revision,
            )
            if run != dataclasses.replace(entry, seed=run.seed, learning_rate_scale=run.learning_rate_scale):
                return False
            if entry not in chosen:
                chosen[entry] = None if self.rates.missing(entry, tuned) else self.rates.best(entry, tuned)
            return chosen[entry] in (None, run.learning_rate_scale)

        return newest([record for record in records.by_id(self.file).values() if counts(record)])

    def complete(self, by_compressor: Mapping[str, list[Record]]) -> dict[str, list[Record]]:
        """Returns the compressors of a case that have a run with each of the study's seeds, and these runs alone.

        A study that still runs has other ones, too: with fewer seeds, or with several rates for one seed.
        """
        found = {}
        for spec, runs in by_compressor.items():
            kept = [run for run in runs if run["setting"]["seed"] < self.seeds]
            if sorted(run["setting"]["seed"] for run in kept) == list(range(self.seeds)):
                found[spec] = kept
        return found

    def lacking(self, by_compressor: Mapping[str, list[Record]]) -> list[str]:
        """Returns which of the study's compressors are not complete in a case."""
        specs = map(_canonical, self.compressors)
        return [spec for spec in specs if spec not in self.complete(by_compressor)]

    def selected(
        self,
        workload_names: Collection[str] = (),
        specs: Collection[str] = (),
        workers: Collection[int] = (),
    ) -> Grid:
        """Returns the part of the study with these workloads, compressors and workers. An empty collection selects all.

        Raises:
          InvalidArgumentError: the study has none of them.
        """
        chosen = {compressors.get(spec) for spec in specs}
        part = dataclasses.replace(
            self,
            workloads=tuple(name for name in self.workloads if not workload_names or name in workload_names),
            compressors=tuple(spec for spec in self.compressors if not specs or compressors.get(spec) in chosen),
            workers=tuple(count for count in self.workers if not workers or count in workers),
        )
        if not (part.workloads and part.compressors and part.workers):
            asked = " ".join(map(str, (*workload_names, *specs, *workers)))
            raise InvalidArgumentError(
                f"the study {self.results} has no runs of {asked}. It has the workloads {', '.join(self.workloads)}, "
                f"and {', '.join(map(str, self.workers))} workers. Other studies are in {CONFIGS}"
            )
        return part

    def _entry(self, workload: str, spec: str, workers: int) -> Setting:
        compressor = compressors.get(spec)
        return Setting(
            workload,
            self.size,
            compressors.spec_of(compressor),
            workers,
            seed=0,
            steps=self.steps or workloads.steps(workload, self.size),
            learning_rate_scale=1.0,
            collective=self.collective if self.collective != DEPLOYED else as_deployed(compressor),
            split=TEST,
            revision=workloads.kind(workload).revision,
            compressor_revision=compressor.revision,
        )


def _canonical(spec: str) -> str:
    return compressors.spec_of(compressors.get(spec))


def outdated(run: Record) -> str:
    """Returns what has changed since a run was recorded, in words: its workload or its compressor; empty if nothing."""
    setting = Setting(**run["setting"])
    if setting.revision < workloads.kind(setting.workload).revision:
        return "the workload"
    return "the compressor" if setting.compressor_revision < compressors.get(setting.compressor).revision else ""


def as_deployed(compressor: Compressor) -> str:
    """Returns what carries a compressor's psums when it is deployed.

    jaxina carries all that an aggregator sums, XLA the float32 sums of the baseline. Compressors that gather have no
    psums. No aggregator has an adaptive shift.
    """
    by_xla = isinstance(compressor, Uncompressed | AdaptiveShift)
    return "jaxina" if compressor.kind == compressors.SUM and not by_xla else "xla"
