"""Programs whose sums a transparent switch forms on the way between the workers, in a testbed of namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from patience import PATIENCE

from jaxina import testbed

PROGRAM = Path(__file__).with_name("direct_sums.py")
WORKERS = 3
MISSING = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {' '.join(MISSING)}"),
    pytest.mark.skipif(testbed.network.STATE.exists(), reason="somebody's testbed is up"),
    pytest.mark.usefixtures("only_testbed"),
]
JAXINA = [sys.executable, "-m", "jaxina.cli"]

STEPS = """
import os
import jax, jax.numpy as jnp
import jaxina
jaxina.init()
step = jax.pmap(lambda x: jax.lax.psum(x, "w"), "w")
x = jnp.ones((1, 1_000_000))
try:
    with jaxina.errors.typed():
        for count in range(10_000):
            assert (step(x) == jax.process_count()).all()
            if count == 3:
                print("summing", flush=True)
except jaxina.errors.JaxinaError as error:
    print("ended with", type(error).__name__, flush=True)
    os._exit(3)  # the network is gone, so JAX's own end would wait for the others
"""


# Worker 1 is stopped in the middle of its sums, for 6.5 s. Its process continues because another one tells it to.
STOPPED = """
import os, signal, subprocess, threading, time
import jax, jax.numpy as jnp
import jaxina
jaxina.init()
step = jax.pmap(lambda x: jax.lax.psum(x, "w"), "w")
x = jnp.ones((1, 1_000_000))

def stop():
    subprocess.Popen(["sh", "-c", f"sleep 6.5; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)

longest, begin = 0.0, time.monotonic()
for count in range(30):
    if count == 5 and jax.process_index() == 1:
        threading.Timer(0.01, stop).start()
    assert (step(x) == jax.process_count()).all()
    longest, begin = max(longest, time.monotonic() - begin), time.monotonic()
assert longest > 6, longest
print("all sums are right", flush=True)
"""


class Switch:
    """A transparent switch in the place of the testbed's bridge, or one for each rack and one above them."""

    def __init__(self, workers: int = WORKERS, racks: int = 1) -> None:
        made = testbed.up(testbed.Size(workers, racks=racks), testbed.Link(rate=1000))
        self.workers = workers
        self.processes: list[subprocess.Popen[bytes]] = []
        options: list[str] = []
        for rack in range(racks if racks > 1 else 0):
            control = f"{made.transparent_rack_host(rack)}:51000"
            self._start(made.inside(made.rack_namespace(rack)), testbed.without_bridge(made, rack), control)
            in_rack = range(rack * workers // racks, (rack + 1) * workers // racks)
            options += ["--rack", f"{control}={','.join(map(made.worker_host, in_rack))}"]
        self.address = f"{made.transparent_host}:51000"
        self._start(made.inside(testbed.BRIDGE), testbed.without_bridge(made), self.address, *options)

    def _start(self, inside: Sequence[str], ports: Sequence[str], address: str, *options: str) -> None:
        read_end, write_end = os.pipe()
        command = [*inside, *JAXINA, "switch", "--transparent", ",".join(ports), "--bind", address, *options]
        self.processes.append(
            subprocess.Popen([*command, "--announce-fd", str(write_end), "--quiet"], pass_fds=[write_end])
        )
        os.close(write_end)
        assert os.read(read_end, 100).decode().strip() == address
        os.close(read_end)

    def start(self, program: Path, *options: str, **settings: str) -> subprocess.Popen[str]:
        run = ["run", "-n", str(self.workers), "--aggregator", "netreduce", "--switch", self.address, *options]
        command = [*JAXINA, "testbed", "run", *run, str(program)]
        environment = {**os.environ, **settings}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def stop(self) -> None:
        for process in self.processes:
            self.kill(process)


@pytest.fixture
def switches() -> Iterator[Callable[..., Switch]]:
    """A function that makes the switches. They and the testbed are gone at the end."""
    made: list[Switch] = []

    def make(*arguments: int) -> Switch:
        made.append(Switch(*arguments))
        return made[-1]

    try:
        yield make
        for one in made:
            one.stop()
    finally:
        testbed.down()


@pytest.fixture
def switch(switches: Callable[..., Switch]) -> Switch:
    return switches()


def end_by_a_dead_switch(switch: Switch, folder: Path) -> None:
    """Kills a switch while a job sums, and requires that the job ends with the error that says so."""
    program = folder / "steps.py"
    program.write_text(STEPS)
    run = switch.start(program)
    assert run.stdout is not None
    told = ""
    while told.count("summing") < switch.workers:
        line = run.stdout.readline()
        assert line, told
        told += line
    switch.kill(switch.processes[0])
    rest, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode != 0
    # The first worker that ends may have the others ended before they notice.
    assert "ended with SwitchUnreachableError" in rest, rest
    assert "AssertionError" not in rest, rest


def test_sums_of_all_types_are_formed_on_the_way(switch: Switch):
    run = switch.start(PROGRAM, "--loss", "0.002")
    told, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, told
    assert told.count("42 sums are right") == WORKERS, told


@pytest.mark.nightly
def test_racks_add_first(switches: Callable[..., Switch], tmp_path: Path):
    racked = switches(4, 2)
    run = racked.start(PROGRAM, "--loss", "0.002")
    told, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, told
    assert told.count("42 sums are right") == 4, told
    # A rack's switch that dies ends the next job.
    end_by_a_dead_switch(racked, tmp_path)


@pytest.mark.nightly
def test_queue_pairs_survive_a_worker_that_is_stopped_for_less_than_the_timeout(switch: Switch, tmp_path: Path):
    program = tmp_path / "stopped.py"
    program.write_text(STOPPED)
    run = switch.start(program, JAXINA_HEARTBEAT_TIMEOUT="8", JAXINA_TIMEOUT="8")
    told, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, told
    assert told.count("all sums are right") == WORKERS, told


def test_a_switch_that_dies_ends_the_job_with_an_error(switch: Switch, tmp_path: Path):
    end_by_a_dead_switch(switch, tmp_path)


def test_workers_of_other_aggregators_are_told_what_the_switch_is(switch: Switch):
    command = [*JAXINA, "testbed", "run", "run", "-n", "2", "--aggregator", "udp", "--switch", switch.address]
    done = subprocess.run([*command, str(PROGRAM)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode != 0
    assert "transparent" in done.stdout + done.stderr, done.stdout + done.stderr
