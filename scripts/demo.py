"""Trains the MNIST example with four workers, over every aggregator but verbs and with XLA's own collective.

    make demo    # or, with jaxina installed: python scripts/demo.py

It prints a table and writes out/demo.json and out/demo.png. It fails if the aggregators do not end with the same
parameters, bit for bit, or if their test accuracy differs from XLA's by more than one point. One row sends its large
arrays in words of 8 bits. It has other parameters, but its accuracy may differ by half a point only.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))  # shared
sys.path.append(str(Path(__file__).resolve().parents[1] / "examples" / "mnist"))  # curves

from curves import plot_curves
from shared.report import RunRecord

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out"
EXAMPLE = ROOT / "examples" / "mnist" / "train.py"
WORKERS = 4
TRAINING_TIMEOUT = 180  # seconds for one row
ACCURACY_MARGIN = 0.01  # how far a row's test accuracy may be off XLA's
NARROW_MARGIN = 0.005  # the same with words of 8 bits


@dataclass(frozen=True)
class Row:
    """One training of the demo. `bits`: of the words of large arrays."""

    name: str
    collective: str
    launcher_options: tuple[str, ...]
    bits: int = 32

    @property
    def file_stem(self) -> str:
        return "demo-" + self.name.lower().replace(" ", "-").replace("%", "percent")


ROWS = (
    Row("embedded", "jaxina", ("--aggregator", "embedded")),
    Row("direct", "jaxina", ("--aggregator", "direct")),
    Row("atp", "jaxina", ("--aggregator", "atp")),
    Row("udp", "jaxina", ("--aggregator", "udp")),
    Row("udp 8 bits", "jaxina", ("--aggregator", "udp"), bits=8),
    Row("udp 1 % loss", "jaxina", ("--aggregator", "udp", "--loss", "0.01")),
    Row("roce", "jaxina", ("--aggregator", "roce")),
    Row("netreduce", "jaxina", ("--aggregator", "netreduce")),
    Row("XLA gloo", "xla", ()),
)


@dataclass(frozen=True)
class Outcome:
    """The result of one row's training. `statistics` are summed over workers, and empty for XLA's own collective."""

    row: Row
    record: RunRecord
    statistics: dict[str, int]


class DemoError(Exception):
    """A training that failed."""


def train(row: Row) -> Outcome:
    """Trains one row under `jaxina run`. The output goes to a log in the folder of the results."""
    result, stats, log = (OUT / f"{row.file_stem}{end}" for end in (".json", "-stats.json", ".log"))
    for stale in (result, stats):
        stale.unlink(missing_ok=True)
    launcher = [Path(sys.executable).with_name("jaxina"), "run", "-n", str(WORKERS)]
    if row.collective == "jaxina":
        launcher += [*row.launcher_options, "--stats-json", stats]
    script = [EXAMPLE, "--collective", row.collective, "--json", result]
    with log.open("w") as output:
        code = run_bounded([*map(str, launcher + script)], output, TRAINING_TIMEOUT, {"JAXINA_BITS": str(row.bits)})
    if code != 0 or not result.exists():
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        reason = f"exit code {code}" if code is not None else f"took over {TRAINING_TIMEOUT} s"
        raise DemoError(f"{row.name}: the training failed ({reason}); the end of {log}:\n{tail}")
    statistics = summed_statistics(stats) if row.collective == "jaxina" else {}
    return Outcome(row, RunRecord.read(result), statistics)


def run_bounded(command: list[str], output, timeout: float, environment: dict[str, str]) -> int | None:
    """Runs a command. Returns its exit code, or None if it took too long. Then it and its children are ended."""
    process = subprocess.Popen(
        command,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)  # the launcher ends its workers and its switch
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def summed_statistics(file: Path) -> dict[str, int]:
    """Reads the sums that the launcher writes. Raises DemoError if a worker has not reported its statistics."""
    document = json.loads(file.read_text())
    if len(document["workers"]) != WORKERS:
        raise DemoError(f"only {len(document['workers'])} of {WORKERS} workers are in {file}")
    return document["total"]


def problems(outcomes: list[Outcome]) -> list[str]:
    """Returns what is wrong with the outcomes, in sentences. The list is empty if all is well."""
    found = []
    aggregated = [outcome for outcome in outcomes if outcome.row.collective == "jaxina"]
    exact = [outcome for outcome in aggregated if outcome.row.bits == 32]
    hashes = {outcome.row.name: outcome.record.parameter_sha256 for outcome in exact}
    if len(set(hashes.values())) != 1:
        listed = ", ".join(f"{name} {value[:12]}" for name, value in hashes.items())
        found.append(f"the aggregators' final parameters differ: {listed}")
    (native,) = (outcome for outcome in outcomes if outcome.row.collective == "xla")
    for outcome in aggregated:
        difference = outcome.record.test_accuracy - native.record.test_accuracy
        margin = ACCURACY_MARGIN if outcome.row.bits == 32 else NARROW_MARGIN
        if abs(difference) > margin:
            found.append(
                f"{outcome.row.name}: test accuracy is {100 * difference:+.1f} points off XLA's, "
                f"more than {100 * margin:g}"
            )
    found += [
        f"{outcome.row.name}: no words of {outcome.row.bits} bits were sent; the row shows nothing"
        for outcome in aggregated
        if outcome.row.bits < 32 and not outcome.statistics[f"bytes_of_{outcome.row.bits}_bits"]
    ]
    for outcome in aggregated:
        lossy = "--loss" in outcome.row.launcher_options
        if lossy and not (outcome.statistics["packets_dropped"] and outcome.statistics["retransmissions"]):
            found.append(f"{outcome.row.name}: no packet was dropped and sent again; the row shows nothing")
    return found


def table(outcomes: list[Outcome]) -> Table:
    shown = Table(
        title=f"MNIST-5k CNN, {WORKERS} workers, {outcomes[0].record.steps} steps",
        caption="step: median time. sent: by all workers, but not by switches, nor by the\n"
        "workers' own servers (direct: about as much again). packets: sent and received;\n"
        "for embedded, slot passes in shared memory. again: sent again.\n"
        "hash: start of the SHA-256 of the parameters at the end.",
    )
    shown.add_column("summed by", no_wrap=True)
    for column in ("accuracy", "step", "sent", "packets", "again"):
        shown.add_column(column, justify="right", no_wrap=True)
    shown.add_column("hash", no_wrap=True)
    for outcome in outcomes:
        record, statistics = outcome.record, outcome.statistics
        packets = statistics["packets_sent"] + statistics["packets_received"] if statistics else None
        sent = statistics.get("bytes_sent", 0)
        counts = (packets, statistics.get("retransmissions"))
        shown.add_row(
            outcome.row.name,
            f"{100 * record.test_accuracy:.1f} %",
            f"{1e3 * record.median_step_seconds:.1f} ms",
            f"{sent / 1e6:.0f} MB" if sent else "-",
            *("-" if count is None else f"{count:,}" for count in counts),
            record.parameter_sha256[:9],
        )
    return shown


def write_results(outcomes: list[Outcome], seconds: float) -> None:
    rows = [
        {
            "name": outcome.row.name,
            "median_step_seconds": outcome.record.median_step_seconds,
            **dataclasses.asdict(outcome.record),
            "statistics": outcome.statistics,
        }
        for outcome in outcomes
    ]
    document = {"seconds": seconds, "workers": WORKERS, "rows": rows}
    (OUT / "demo.json").write_text(json.dumps(document, indent=1) + "\n")
    plot_curves([(outcome.row.name, outcome.record) for outcome in outcomes], OUT / "demo.png")


def main() -> int:
    console = Console()
    OUT.mkdir(exist_ok=True)
    start = time.monotonic()
    outcomes = []
    for row in ROWS:
        begun = time.monotonic()
        try:
            with console.status(f"{row.name}: {WORKERS} workers are training"):
                outcomes.append(train(row))
        except DemoError as error:
            console.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
            return 1
        seconds = time.monotonic() - begun
        console.print(f"{row.name}: trained in {seconds:.0f} s, start and compilation included")
    seconds = time.monotonic() - start
    console.print(table(outcomes))
    write_results(outcomes, seconds)
    console.print(f"{seconds:.0f} s in all; curves in out/demo.png, every figure in out/demo.json")
    if found := problems(outcomes):
        for problem in found:
            console.print(f"FAILED: {problem}", style="red", highlight=False, soft_wrap=True)
        return 1
    console.print(
        "With words of 32 bits, the aggregators ended with bit-identical parameters. All have XLA's accuracy."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
