"""The record that a training run writes, and the progress bar that it shows."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar


@dataclass
class RunRecord:
    """A training run: its settings; loss, training accuracy and seconds of each step; its final result."""

    collective: str
    seed: int
    batch_size: int
    steps: int
    processes: int
    devices: int
    jax_version: str
    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    test_accuracy: float = 0.0
    parameter_sha256: str = ""

    def add_step(self, loss: float, accuracy: float, seconds: float) -> None:
        self.loss.append(loss)
        self.accuracy.append(accuracy)
        self.step_seconds.append(seconds)

    @property
    def median_step_seconds(self) -> float:
        """The median over all steps but the first, which compiles."""
        return statistics.median(self.step_seconds[1:] or self.step_seconds)

    def summary(self) -> str:
        return (
            f"{self.collective}: {self.steps} steps on {self.devices} devices of "
            f"{self.processes} processes, test accuracy {100 * self.test_accuracy:.1f} %, "
            f"median step {1e3 * self.median_step_seconds:.1f} ms, "
            f"parameters sha256 {self.parameter_sha256[:16]}"
        )

    def write(self, file: Path) -> None:
        document = asdict(self) | {"median_step_seconds": self.median_step_seconds}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> RunRecord:
        document = json.loads(file.read_text())
        del document["median_step_seconds"]
        return cls(**document)


class Progress:
    """A progress bar with the latest loss, accuracy and step time. It shows nothing if `visible` is false.

    If stderr is not a terminal, as under `jaxina run`, it prints a line after every tenth of the steps instead.
    """

    def __init__(self, visible: bool) -> None:
        console = Console(stderr=True)
        self._lines = visible and not console.is_terminal
        self._bar = Bar(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[latest]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not visible or self._lines,
        )

    @contextmanager
    def over(self, steps: int) -> Iterator[None]:
        with self._bar:
            self._task = self._bar.add_task("training", total=steps, latest="compiling")
            yield

    def show(self, record: RunRecord) -> None:
        latest = (
            f"loss {record.loss[-1]:.3f}  accuracy {100 * record.accuracy[-1]:5.1f} %  "
            f"{1e3 * record.step_seconds[-1]:.1f} ms/step"
        )
        self._bar.update(self._task, advance=1, latest=latest)
        done = len(record.loss)
        if self._lines and 10 * done // record.steps > 10 * (done - 1) // record.steps:
            print(f"step {done}/{record.steps}  {latest}", file=sys.stderr, flush=True)
