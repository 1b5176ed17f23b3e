"""Runs the suites of `jaxina certify`: each is one `jaxina run` of `jaxina.certificate.worker`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jaxina import config, testbed
from jaxina.certificate.combinations import CODECS, DEVICES, SWITCHED, TRANSPARENT, Interpreter, Suite
from jaxina.certificate.verdict import Line, SuiteResult
from jaxina.certificate.worker import Options
from jaxina.cli.children import die_with
from jaxina.cli.private_switch import private_switch, transparent_switch
from jaxina.errors import InvalidArgumentError

WORKER = ("-m", "jaxina.certificate.worker")
"""What an interpreter is called with."""
_DESCRIPTION_TIMEOUT = 60.0  # seconds
_STOP_TIMEOUT = 20.0
_LOOK = 0.2  # seconds between two looks at what the processes have written
_PER_SUITE, _PER_COMBINATION = 120.0, 5.0  # seconds that a suite may take at most
_LAST_LINES = 15
_RATE = 1000  # Mbit/s of the testbed's links


def described(path: str) -> Interpreter:
    """Asks an interpreter what it has.

    Raises:
      InvalidArgumentError: it cannot be run, or does not have jaxina.
    """
    try:
        done = subprocess.run(
            [path, *WORKER, "describe"], capture_output=True, text=True, timeout=_DESCRIPTION_TIMEOUT, check=False
        )
        told = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise InvalidArgumentError(f"--python {path}: {error}") from error
    if told is None:
        why = (done.stderr.strip().splitlines() or ["it ended with exit code " + str(done.returncode)])[-1]
        raise InvalidArgumentError(f"--python {path} cannot import jaxina: {why}. Install jaxina there")
    codecs = tuple(name for name in CODECS if name in told["codecs"])
    return Interpreter(path, told["versions"], codecs, told["verbs"])


@contextlib.contextmanager
def switches(suites: Sequence[Suite]) -> Iterator[dict[str, str]]:
    """Runs the software switches that these suites need. Yields their control addresses, by the loss."""
    settings = [setting for suite in suites for setting in suite.settings]
    losses = sorted({setting.loss for setting in settings if setting.transport in SWITCHED})
    threads = min(2, os.cpu_count() or 1)
    with contextlib.ExitStack() as stack:
        yield {f"{loss:g}": stack.enter_context(private_switch(loss, 1, threads, rdma=True)) for loss in losses}


@contextlib.contextmanager
def testbed_with_switch(_: Sequence[Suite]) -> Iterator[dict[str, str]]:
    """Makes a testbed with a transparent switch in the place of its bridge. Yields the switch's address.

    Raises:
      JaxinaError: there can be none, or there is one already.
    """
    made = testbed.up(testbed.Size(DEVICES), testbed.Link(_RATE))
    try:
        with transparent_switch(made) as address:
            yield {TRANSPARENT: address}
    finally:
        testbed.down()


def run(suite: Suite, addresses: dict[str, str], native: bool, progress: Callable[[int], None]) -> SuiteResult:
    """Runs a suite.

    Args:
      suite: what to run.
      addresses: of the switches, as `switches` or `testbed_with_switch` has them.
      native: whether XLA sums as well.
      progress: is told how many combinations are done.

    Returns:
      What its processes have written, also if they failed.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jaxina-certify-") as folder:
        options = Options(suite.settings, suite.cases, addresses, folder, native)
        log = Path(folder) / "log"
        with log.open("w") as output:
            error = _run(_command(suite, options), _environment(suite), output.fileno(), suite, folder, progress)
        files = [Path(folder) / f"{process}.jsonl" for process in range(suite.layout.processes)]
        lines = [_lines(file) for file in files]
        written = log.read_text(errors="replace").splitlines()
        last = "\n".join(written[-_LAST_LINES:]) if error else ""
    return SuiteResult(suite, lines, error, last, time.monotonic() - began)


def _command(suite: Suite, options: Options) -> list[str]:
    layout = suite.layout
    launcher = [sys.executable, "-m", "jaxina.cli", *(("testbed", "run") if suite.testbed else ()), "run"]
    launcher += ["-n", str(layout.processes), "--no-catch-all", "--devices-per-process", str(layout.devices)]
    if suite.testbed:
        launcher += ["--aggregator", "netreduce", "--switch", options.switches[TRANSPARENT]]
    return [*launcher, suite.interpreter.path, *WORKER, options.to_text()]


def _environment(suite: Suite) -> dict[str, str]:
    own = {config.variable("codec"): suite.codec, config.variable("log"): "warning", "JAX_PLATFORMS": "cpu"}
    return {**os.environ, **own}


def _run(
    command: list[str],
    environment: dict[str, str],
    output: int,
    suite: Suite,
    folder: str,
    progress: Callable[[int], None],
) -> str:
    """Runs a command to its end. Returns why it failed; empty if it did not."""
    parent = os.getpid()
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        preexec_fn=lambda: die_with(parent),
    )
    limit = _PER_SUITE + _PER_COMBINATION * len(suite)
    deadline = time.monotonic() + limit
    try:
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(_LOOK)
                return "" if code == 0 else f"the run ended with exit code {code}"
            progress(sum(line["kind"] == "sum" for line in _lines(Path(folder) / "0.jsonl")))
        return f"the run took over {limit:.0f} s"
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)  # the launcher ends its workers
    try:
        process.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _lines(file: Path) -> list[Line]:
    """The whole lines of a process's file. The last one may still be on its way."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
