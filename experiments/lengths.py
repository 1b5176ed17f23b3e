"""How long do the workloads train? Prints it for each of them: python -m experiments.lengths

* *Passes*: how often a run uses each row of its training data, by the steps and the rows of a batch.
* *Last eighth*: how much better float32's mean score got there, in margins, by the recorded runs with 4 workers. Far
  above 0, the curve is not flat, and its end depends on the number of steps.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from experiments import workloads
from experiments.data import shakespeare
from experiments.grid import DEFAULT, TRANSFORMERS, Grid
from experiments.recorded import BASELINE, Case, curve, grouped
from experiments.workloads.clickthrough import ClickThrough
from experiments.workloads.decoder import LoRA
from experiments.workloads.detector import DIGITS, Detector
from experiments.workloads.ncf import NCF, NEGATIVES


def rows_and_batch(name: str) -> tuple[int, int]:
    """Returns how many rows a workload has to train with, and how many of them a step uses.

    Of `ncf` only interactions count, of `detector` digits.
    """
    if name == "lora":  # its base takes minutes to train, and a batch is that of the decoder, whose class it shares
        decoder = workloads.get("decoder")
        text, _ = shakespeare.characters(LoRA.spelling)
        return len(shakespeare.windows(text.train, decoder.size.length + 1)), decoder.batch_size
    workload = workloads.get(name)
    match workload:
        case NCF():
            return len(workload.data.pairs), -(-workload.batch_size // (1 + NEGATIVES))
        case Detector():
            return len(workload.rows.train["labels"]), DIGITS * workload.batch_size
        case ClickThrough():
            train = workload.data.rows.train
        case _:
            train = workload.rows.train  # type: ignore[attr-defined]
    return len(next(iter(train.values())) if isinstance(train, dict) else train), workload.batch_size


def passes(name: str) -> float:
    """Returns how often a run of a small model uses each row of its training data."""
    rows, batch = rows_and_batch(name)
    return workloads.steps(name, "small") * batch / rows


def main() -> None:
    table = Table("workload", "steps", "passes", "float32 at 6/8", "at 7/8", "at the end", "last eighth, margins")
    for study in map(Grid.read, (DEFAULT, TRANSFORMERS)):
        groups = grouped(study.recorded())
        for name in study.workloads:
            steps = workloads.steps(name, "small")
            row = [name, f"{steps:,}", f"{passes(name):.2g}"]
            if runs := groups.get(Case(name, 4), {}).get(BASELINE):
                _, means, *_ = curve(runs)
                sign = 1 if runs[0]["outcome"]["higher_is_better"] else -1
                row += [f"{mean:.4g}" for mean in means[-3:]]
                row.append(f"{sign * (means[-1] - means[-2]) / study.margins[name]:+.2g}")
            table.add_row(*row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
