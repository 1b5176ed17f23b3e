"""Reads a study from a TOML file: which workloads, compressors and seeds it has.

For example::

    results = "table4.jsonl"           # in experiments/results
    workloads = ["ncf", "lstm"]
    compressors = ["none", "topk:0.1"]
    workers = 4
    seeds = 3                          # the seeds 0, 1 and 2
    size = "small"
    steps = 100                        # optional; replaces the workload's own number
    collective = "deployed"            # "xla", "jaxina", or "deployed": see `as_deployed`

    [learning_rate_scale]              # optional; keys are compressor names or "workload/name"
    signsgd = 0.1
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

import experiments.adaptive_shift  # noqa: F401 (it registers compressors that studies may name)
from experiments import workloads
from experiments.records import Setting
from jaxina import compressors
from jaxina.compressors import Compressor
from jaxina.compressors.uncompressed import Uncompressed

CONFIGS = Path(__file__).resolve().parent / "configs"
DEFAULT = CONFIGS / "convergence.toml"
DEPLOYED = "deployed"


@dataclasses.dataclass(frozen=True)
class Grid:
    """A study. The module's docstring describes the fields."""

    workloads: tuple[str, ...]
    compressors: tuple[str, ...]
    results: str = "convergence.jsonl"
    workers: int = 4
    seeds: int = 3
    size: str = "small"
    collective: str = DEPLOYED
    steps: int | None = None
    learning_rate_scale: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Grid:
        """Reads a study's file.

        Raises:
          ValueError: the file has an entry that does not exist.
        """
        values = tomllib.loads(file.read_text())
        unknown = values.keys() - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise ValueError(f"{file}: unknown entries {', '.join(sorted(unknown))}")
        for name in ("workloads", "compressors"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)

    def settings(self) -> list[Setting]:
        """Returns all runs. Runs that can share compiled programs are next to each other."""
        runs = []
        for workload in self.workloads:
            steps = self.steps or workloads.get(workload, self.size).steps
            for spec in self.compressors:
                compressor = compressors.get(spec)
                canonical = compressors.spec_of(compressor)
                scale = self._scale(workload, spec)
                collective = self.collective if self.collective != DEPLOYED else as_deployed(compressor)
                runs += [
                    Setting(workload, self.size, canonical, self.workers, seed, steps, scale, collective)
                    for seed in range(self.seeds)
                ]
        return runs

    def selected(self, workload_names: Collection[str], specs: Collection[str]) -> Grid:
        """Returns the part of the study with these workloads and compressors. An empty collection selects all."""
        chosen = {compressors.get(spec) for spec in specs}
        return dataclasses.replace(
            self,
            workloads=tuple(name for name in self.workloads if not workload_names or name in workload_names),
            compressors=tuple(spec for spec in self.compressors if not specs or compressors.get(spec) in chosen),
        )

    def _scale(self, workload: str, spec: str) -> float:
        name = spec.partition(":")[0]
        return self.learning_rate_scale.get(f"{workload}/{name}", self.learning_rate_scale.get(name, 1.0))


def as_deployed(compressor: Compressor) -> str:
    """Returns what carries a compressor's psums when it is deployed.

    jaxina carries all that an aggregator sums, XLA the float32 sums of the baseline. Compressors that gather have no
    psums.
    """
    return "jaxina" if compressor.kind == compressors.SUM and not isinstance(compressor, Uncompressed) else "xla"
