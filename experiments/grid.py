"""A study as a file: which workloads, compressors and seeds.

The file is TOML::

    results = "table4.jsonl"           # in experiments/results
    workloads = ["ncf", "lstm"]
    compressors = ["none", "topk:0.1"]
    workers = 8
    seeds = 3                          # 0, 1, 2
    size = "small"
    steps = 100                        # optional: instead of the workload's own

    [learning_rate_scale]              # optional, by compressor name, or "workload/name"
    signsgd = 0.1
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path

from experiments import workloads
from experiments.records import Setting
from jaxina import compressors

CONFIGS = Path(__file__).resolve().parent / "configs"
DEFAULT = CONFIGS / "table4.toml"


@dataclasses.dataclass(frozen=True)
class Grid:
    """See the module's text."""

    workloads: tuple[str, ...]
    compressors: tuple[str, ...]
    results: str = "convergence.jsonl"
    workers: int = 8
    seeds: int = 3
    size: str = "small"
    steps: int | None = None
    learning_rate_scale: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Grid:
        """Raises ValueError for an unknown entry, workload or compressor."""
        values = tomllib.loads(file.read_text())
        unknown = values.keys() - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise ValueError(f"{file}: unknown entries {', '.join(sorted(unknown))}")
        for name in ("workloads", "compressors"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)

    def settings(self, collective: str) -> list[Setting]:
        """All runs; those that can share compiled programs follow each other."""
        runs = []
        for workload in self.workloads:
            steps = self.steps or workloads.get(workload, self.size).steps
            for spec in self.compressors:
                canonical = compressors.spec_of(compressors.get(spec))
                scale = self._scale(workload, spec)
                runs += [
                    Setting(workload, self.size, canonical, self.workers, seed, steps, scale, collective)
                    for seed in range(self.seeds)
                ]
        return runs

    def _scale(self, workload: str, spec: str) -> float:
        name = spec.partition(":")[0]
        return self.learning_rate_scale.get(f"{workload}/{name}", self.learning_rate_scale.get(name, 1.0))
