"""``jaxina certify``: hashes sums over everything that must not change them, and compares."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from jaxina import config
from jaxina.bench import report
from jaxina.certificate import combinations, tables
from jaxina.certificate.combinations import Interpreter, NotRun, Suite
from jaxina.certificate.verdict import SuiteResult, Verdict, judge
from jaxina.cli import certificate_runs
from jaxina.cli.output_files import check_output, writing
from jaxina.errors import InvalidArgumentError

_SHOWN = 20  # problems that are printed


def register(app: typer.Typer) -> None:
    app.command("certify")(certify)


def certify(
    quick: Annotated[bool, typer.Option("--quick", help="Few combinations: seconds instead of minutes.")] = False,
    python: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Also run with this Python's JAX. It must have the same jaxina. Repeatable."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all hashes to FILE, after each step.")
    ] = None,
    testbed: Annotated[
        bool,
        typer.Option(
            "--testbed",
            help="Also netreduce through a transparent switch, in network namespaces that are made for it (root).",
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Take what FILE has already from there, and run the rest.")
    ] = False,
) -> None:
    """Certify that sums have the same bits, whatever forms them.

    Hashes the sums of one program over transports, losses, layouts of four
    devices (1x4: one process with four), slots, chunks, buckets, widths of words,
    codecs and versions of JAX, and compares them with each other and with
    the specification. XLA's own collective is hashed beside. The exit code is 1 if a
    hash differs, or a combination fails.
    """
    check_output("--json", json_file)
    for field in config.fields():  # the combinations have settings of their own
        os.environ.pop(config.variable(field.name), None)
    if resume and (json_file is None or not json_file.exists()):
        raise InvalidArgumentError("--resume needs --json FILE of an earlier run that was stopped")
    interpreters = _interpreters(python or [])
    suites, not_run = combinations.plan(interpreters, quick, testbed)
    earlier = _read(json_file, suites) if resume and json_file is not None else {}
    try:
        with _ended_by_sigterm():
            results = _Runs(suites, earlier, json_file).run()
    except KeyboardInterrupt:
        how = "the same command with --resume goes on" if json_file is not None else "with --json it could go on later"
        Console(stderr=True, highlight=False).print(f"stopped; {how}", markup=False, soft_wrap=True)
        raise typer.Exit(128 + signal.SIGINT) from None
    verdict = judge(results)
    if json_file is not None:
        _write(json_file, results, tables.record(verdict, not_run))
    _print(verdict, not_run, results)
    raise typer.Exit(1 if verdict.problems else 0)


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Lets SIGTERM do what Ctrl-C does, so that what was started ends too, and a testbed is taken down."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interpreters(paths: list[str]) -> list[Interpreter]:
    found = [certificate_runs.described(path) for path in [sys.executable, *paths]]
    own = found[0].versions["jaxina"]
    for one in found:
        if one.versions["jaxina"] != own:
            raise InvalidArgumentError(
                f"--python {one.path} has jaxina {one.versions['jaxina']}, and this is {own}: install the same there"
            )
    return found


class _Runs:
    """Runs the suites that have not run, and shows how far they are."""

    def __init__(self, suites: list[Suite], earlier: dict[str, SuiteResult], json_file: Path | None):
        self._suites = suites
        self._earlier = earlier
        self._json_file = json_file
        self._console = Console(stderr=True)
        self._done = 0
        self.results: list[SuiteResult] = []

    def run(self) -> list[SuiteResult]:
        """Runs them. Those in a testbed come first, since there is most that may prevent them."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        # Without a thread that refreshes: processes are forked meanwhile.
        with Progress(*columns, console=self._console, auto_refresh=False, transient=True) as progress:
            bar = progress.add_task("", total=sum(map(len, self._suites)))
            for in_testbed, places in (
                (True, certificate_runs.testbed_with_switch),
                (False, certificate_runs.switches),
            ):
                suites = [suite for suite in self._suites if suite.testbed is in_testbed]
                missing = [suite for suite in suites if suite.key not in self._earlier]
                with contextlib.ExitStack() as stack:
                    addresses = stack.enter_context(places(missing)) if missing else {}
                    for suite in suites:
                        self._suite(suite, addresses, progress, bar)
        return self.results

    def _suite(self, suite: Suite, addresses: dict[str, str], progress: Progress, bar: TaskID) -> None:
        result = self._earlier.get(suite.key)
        if result is None:
            progress.update(bar, description=str(suite), refresh=True)
            native = suite.codec == suite.interpreter.codecs[-1] and not suite.testbed
            result = certificate_runs.run(
                *(suite, addresses, native),
                lambda so_far: progress.update(bar, completed=self._done + so_far, refresh=True),
            )
            if not self._console.is_terminal:
                self._console.print(f"{suite}: {len(suite)} in {result.seconds:.0f} s", highlight=False)
        self.results.append(result)
        self._done += len(suite)
        progress.update(bar, completed=self._done, refresh=True)
        if self._json_file is not None:
            _write(self._json_file, self.results, {})


def _read(file: Path, suites: list[Suite]) -> dict[str, SuiteResult]:
    """The results that a file has of these suites."""
    try:
        found = json.loads(file.read_text())["suites"]
        found = {suite.key: SuiteResult(suite, **found[suite.key]) for suite in suites if suite.key in found}
        return {key: result for key, result in found.items() if not result.error}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidArgumentError(f"--json {file} is no certificate that --resume could continue: {error}") from error


def _write(file: Path, results: list[SuiteResult], verdict: dict[str, Any]) -> None:
    """Writes what there is, so that the file is whole at any time."""
    suites = {
        result.suite.key: {name: getattr(result, name) for name in ("lines", "error", "output", "seconds")}
        for result in results
    }
    new = file.with_name(file.name + ".new")
    with writing("--json", file):
        new.write_text(json.dumps({**report.environment(), "verdict": verdict, "suites": suites}, indent=1) + "\n")
        new.replace(file)


def _print(verdict: Verdict, not_run: list[NotRun], results: list[SuiteResult]) -> None:
    console = Console(highlight=False)
    console.print(tables.hashes(verdict), tables.transports(verdict), tables.interpreters(verdict))
    if verdict.native:
        console.print(tables.native(verdict))
    for one in not_run:
        console.print(f"not run: {one.what}: {one.why}", markup=False, soft_wrap=True)
    problems = verdict.problems
    for outcome in problems[:_SHOWN]:
        console.print(f"FAILED: {outcome.combination}: {outcome.problem}", style="red", markup=False, soft_wrap=True)
    if len(problems) > _SHOWN:
        console.print(f"and {len(problems) - _SHOWN:,} more; --json FILE has all", style="red")
    for result in results:
        if result.error:
            console.print(f"{result.suite}: {result.error}; its output ends with", style="red", soft_wrap=True)
            console.print(result.output, markup=False, soft_wrap=True)
    seconds = sum(result.seconds for result in results)
    good = len(verdict.outcomes) - len(problems)
    machine = report.environment()["machine"]
    console.print(
        f"{good:,} of {len(verdict.outcomes):,} combinations have the bits that they must have; {seconds:.0f} s on "
        f"{machine['cores']} cores, {machine['processor']}",
        style="red" if problems else "green",
        soft_wrap=True,
    )
