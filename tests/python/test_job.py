"""jaxina.init and jaxina.shutdown, in this process and in launched processes that sum."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import jax
import pytest
from control_fakes import eventually

import jaxina
from jaxina import _native, _watching, job, joining
from jaxina.errors import InvalidArgumentError, NotInitializedError, SwitchUnreachableError


@pytest.fixture(autouse=True)
def shut_down():
    yield
    if job.current() is not None:
        jaxina.shutdown()


def test_init_shutdown_and_init_again():
    for _ in range(3):
        made = jaxina.init()
        assert (made.aggregator, made.process, made.processes) == ("embedded", 0, 1)
        assert made.statistics()["collectives"] == 0
        jaxina.shutdown()
        assert job.current() is None


def test_init_twice_says_what_to_do():
    jaxina.init()
    with pytest.raises(InvalidArgumentError, match="shutdown"):
        jaxina.init()


def test_shutdown_without_init():
    with pytest.raises(NotInitializedError):
        jaxina.shutdown()


def test_a_failed_init_can_be_repeated():
    with pytest.raises(InvalidArgumentError, match="slots"):
        jaxina.init(slots=-1)
    with jaxina.init(slots=4) as made:
        assert made.configuration.slots == 4
    assert job.current() is None


def test_leaving_the_block_of_an_old_job_leaves_the_new_one():
    with jaxina.init():
        jaxina.shutdown()
        new = jaxina.init()
    assert job.current() is new


def test_shutdown_does_not_start_jax_s_backend(monkeypatch):
    """In a job of several processes, that would wait for the others."""
    monkeypatch.setattr(joining, "backend_started", lambda: False)
    monkeypatch.setattr(jax, "live_arrays", lambda: pytest.fail("this starts the backend"))
    jaxina.init()
    jaxina.shutdown()


def test_an_interrupted_shutdown_still_stops_all(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(joining, "backend_started", lambda: True)
    monkeypatch.setattr(jax, "effects_barrier", interrupted)
    jaxina.init()
    with pytest.raises(KeyboardInterrupt):
        jaxina.shutdown()
    assert job.current() is None and not _native.running()
    assert jaxina.init() is job.current()
    monkeypatch.undo()


def test_an_init_that_fails_late_leaves_no_job(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(_watching, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            jaxina.init()
    assert job.current() is None and not _native.running()
    assert jaxina.init() is job.current()


def test_no_switch_at_the_address():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(SwitchUnreachableError, match=f"{address}.*jaxina switch"):
        jaxina.init("udp", switch=address, join_timeout=1)
    assert job.current() is None


# ---- launched processes

PROGRAM = """
import os, signal, sys, time
import jax, jax.numpy as jnp, numpy as np
import jaxina
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
rank = int(os.environ["JAXINA_RANK"])

def leave(code, *ranks):
    # Ends this process only when all `ranks` are here, because the end of one process may end the others.
    open(f"{__file__}.told{rank}", "w").close()
    deadline = time.monotonic() + 20
    while not all(os.path.exists(f"{__file__}.told{r}") for r in ranks):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os._exit(code)

def summer():
    mesh = Mesh(np.array(jax.devices()), ("w",))
    n, local = mesh.size, jax.local_device_count()
    first = jax.process_index() * local
    psum = lambda x: jax.lax.psum(x, "w")
    f = jax.jit(jax.shard_map(psum, mesh=mesh, in_specs=P("w"), out_specs=P()))
    def add(elements=1000):
        row = np.arange(elements, dtype=np.float32)
        mine = np.stack([row + first + d for d in range(local)])
        x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("w")), mine, (n, elements))
        with jaxina.errors.typed():
            y = f(x)
            y.block_until_ready()
        expected = n * row + n * (n - 1) / 2
        np.testing.assert_array_equal(np.asarray(y.addressable_data(0))[0], expected)
    return add
"""

TRANSPORTS = ["embedded", "direct", "udp"]


@pytest.fixture
def run(tmp_path):
    """A function that runs PROGRAM and more under `jaxina run`. It returns the exit code, stdout's lines and stderr."""

    def launch(text, *options, timeout=90, **environment):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM + text)
        command = [sys.executable, "-m", "jaxina.cli", "run", *map(str, options), str(path)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=20)
        return process.returncode, out.splitlines(), err

    return launch


@pytest.mark.parametrize("aggregator", TRANSPORTS)
def test_processes_sum_and_leave_in_order(run, aggregator, tmp_path):
    code, out, err = run(
        "jaxina.init()\nadd = summer()\nfor _ in range(3): add()\nprint('done')",
        *("-n", 2, "--devices-per-process", 2, "--aggregator", aggregator),
        *("--stats", "--stats-json", tmp_path / "stats.json"),
    )
    assert code == 0, err
    assert sorted(out) == ["[0] done", "[1] done"]
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert [w["process"] for w in stats["workers"]] == [0, 1]
    assert stats["total"]["collectives"] == 3 * 4, "three sums of four members"
    assert (stats["total"]["bytes_sent"] > 0) == (aggregator != "embedded")
    assert "2 workers, 12 collectives" in err
    assert "WARNING" not in err


def test_a_process_finishes_what_it_has_dropped_before_it_leaves(run):
    """Process 1 does not keep the sum. It leaves the job long before process 0 begins that sum."""
    code, out, err = run(
        """
jaxina.init(timeout=20)
mesh = Mesh(np.array(jax.devices()), ("w",))
body = lambda x: jax.lax.psum(x @ x.T, "w")  # XLA runs smaller programs within their dispatch
step = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("w"), out_specs=P()))
x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("w")), np.ones((300, 300), np.float32))
step(x).block_until_ready()
if rank == 0:
    while not os.path.exists(f"{__file__}.dropped"):
        time.sleep(0.02)
    time.sleep(0.5)  # process 1 would have left by now
    assert (np.asarray(step(x).addressable_data(0)) == 600).all()
else:
    step(x)
    open(f"{__file__}.dropped", "w").close()
jaxina.shutdown()
print("done")
""",
        *("-n", 2),
    )
    assert (code, sorted(out)) == (0, ["[0] done", "[1] done"]), err


def test_a_failed_callback_keeps_shutdown_from_waiting_for_nothing_else(monkeypatch):
    waited = []

    class Result:
        def is_deleted(self):
            return False

        def block_until_ready(self):
            waited.append(self)
            raise RuntimeError("this one fails as well")

    def fails():
        raise RuntimeError("a callback failed")

    results = [Result(), Result()]
    monkeypatch.setattr(joining, "backend_started", lambda: True)
    monkeypatch.setattr(jax, "effects_barrier", fails)
    monkeypatch.setattr(jax, "live_arrays", lambda: results)
    jaxina.init()
    jaxina.shutdown()
    assert waited == results


@pytest.mark.parametrize("aggregator", TRANSPORTS)
def test_init_again_after_shutdown_in_all_processes(run, aggregator):
    code, out, err = run(
        """
for turn in range(3):
    with jaxina.init() as job:
        add = summer()
        add()
        print(turn, job.statistics()["collectives"])
""",
        *("-n", 2, "--aggregator", aggregator),
    )
    assert code == 0, err
    assert sorted(out) == sorted(f"[{r}] {turn} 1" for r in range(2) for turn in range(3))


# With direct, the control service is in worker 0.
@pytest.mark.parametrize(
    "aggregator, devices, victim",
    [("embedded", 1, 1), ("embedded", 2, 1), ("udp", 2, 1), ("direct", 1, 1), ("direct", 1, 0)],
)
def test_a_killed_worker_is_a_typed_error_on_the_survivors_within_two_seconds(run, aggregator, devices, victim):
    survivors = [rank for rank in range(3) if rank != victim]
    code, out, err = run(
        f"""
jaxina.init()
add = summer()
add()
if rank == {victim}:
    print("dies at", time.time(), flush=True)
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    add()
except jaxina.errors.WorkerLostError as error:
    print("lost at", time.time(), error.message, flush=True)
    leave(0, *{survivors})
""",
        *("-n", 3, "--devices-per-process", devices, "--aggregator", aggregator),
    )
    assert code == 128 + signal.SIGKILL, err
    (died,) = [float(line.split()[3]) + 0.5 for line in out if "dies at" in line]
    lost = [line for line in out if "lost at" in line]
    assert sorted(line[:3] for line in lost) == [f"[{rank}]" for rank in survivors], (out, err)
    for line in lost:
        assert float(line.split()[3]) - died < 2
        assert f"worker {victim}" in line


def test_one_stream_leaves_a_process_however_many_devices_it_has(run, tmp_path):
    first = {}
    for devices in (1, 3):
        stats = tmp_path / f"{devices}.json"
        code, _, err = run(
            "jaxina.init()\nadd = summer()\nfor _ in range(3): add(5000)",
            *("-n", 2, "--devices-per-process", devices, "--aggregator", "udp"),
            *("--stats-json", stats),
        )
        assert code == 0, err
        total = json.loads(stats.read_text())["total"]
        assert total["collectives"] == 3 * 2 * devices
        first[devices] = total["packets_sent"] - total["retransmissions"]
    assert first[1] == first[3] > 0


@pytest.mark.parametrize("aggregator", ["embedded", "udp"])
def test_devices_of_one_process_that_disagree_end_the_job_for_all(run, aggregator):
    code, out, err = run(
        """
from jax import lax
jaxina.init(timeout=30)
mesh = Mesh(np.array(jax.devices()), ("w",))
psum = lambda x: lax.psum(x, "w")
def disagree(x):
    return lax.cond(lax.axis_index("w") == 1, lambda: psum(x)[0, :2], lambda: psum(x[:, :2])[0])
f = jax.jit(
    jax.shard_map(disagree, mesh=mesh, in_specs=P("w"), out_specs=P(), check_vma=False)
)
x = jax.make_array_from_callback(
    (mesh.size, 8), NamedSharding(mesh, P("w")), lambda i: np.ones((1, 8), np.float32)
)
began = time.monotonic()
try:
    with jaxina.errors.typed():
        f(x).block_until_ready()
except jaxina.errors.MismatchError as error:
    print(time.monotonic() - began < 20, error.message, flush=True)
leave(0, 0, 1)
""",
        *("-n", 2, "--devices-per-process", 2, "--aggregator", aggregator),
    )
    assert code == 0, err
    assert len(out) == 2 and all("True" in line for line in out), (out, err)
    assert all("devices 0 and 1 sum different things" in line for line in out), out
    assert all("In this process it is psum" in line or "In this process it is all-reduce" in line for line in out), out


@pytest.mark.parametrize("aggregator", ["embedded", "udp"])
def test_an_uncaught_exception_ends_the_others(run, aggregator):
    code, out, err = run(
        """
jaxina.init()
add = summer()
add()
if rank == 1:
    raise ValueError("bad data")
try:
    add()
except jaxina.errors.JaxinaError as error:
    print(error.code, error.message, flush=True)
""",
        *("-n", 2, "--aggregator", aggregator),
    )
    assert code == 1 and "ValueError: bad data" in err
    assert len(out) == 1 and out[0].startswith("[0] WORKER_LOST"), (out, err)


def test_a_process_that_never_calls_init_is_named_in_all_others(run):
    code, out, err = run(
        """
if rank == 2:
    time.sleep(30)
try:
    jaxina.init(join_timeout=4)
except jaxina.errors.NeverJoinedError as error:
    print(error.message, flush=True)
    sys.exit(5)
""",
        *("-n", 4),
    )
    assert code == 5, err
    assert len(out) == 3 and all("process 2 of 4 did not call jaxina.init()" in line for line in out)


def test_a_process_that_never_comes_to_the_psum_is_named(run):
    code, out, err = run(
        """
jaxina.init(timeout=6)
add = summer()
if rank == 1:
    time.sleep(30)
try:
    add()
except jaxina.errors.NeverJoinedError as error:
    print(error.message, flush=True)
    leave(5, 0, 2)
""",
        *("-n", 3),
    )
    assert code == 5, err
    assert len(out) == 2 and all("process 1 never reached" in line for line in out), (out, err)


@pytest.mark.parametrize("end", ["sys.exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"], ids=["exit", "SIGKILL"])
def test_a_process_that_ends_before_the_first_psum_is_not_waited_for(run, end):
    _, out, err = run(
        f"""
import signal
jaxina.init()
add = summer()
if rank == 1:
    {end}
began = time.monotonic()
try:
    add()
except jaxina.errors.WorkerLostError as error:
    print(time.monotonic() - began < 10, error.message, flush=True)
    leave(5, 0, 2)
""",
        *("-n", 3, "--grace", 20),
    )
    assert len(out) == 2 and all("True worker 1 (process 1) ended" in line for line in out), (out, err)


def test_processes_that_disagree_are_a_mismatch_in_all(run):
    code, out, err = run(
        """
try:
    jaxina.init(block_size=256 if rank else 128)
except jaxina.errors.MismatchError as error:
    print(error.message, flush=True)
    sys.exit(5)
""",
        *("-n", 3),
    )
    assert code == 5, err
    assert len(out) == 3 and all("block_size" in line for line in out)


def test_init_after_the_first_use_of_devices_says_so(run):
    code, _, err = run("jax.devices()\njaxina.init(join_timeout=3)", "-n", 2)
    assert code == 1 and "call it before anything that asks for devices" in err
    assert "Aborted" not in err and "Check failure" not in err


def test_no_switch_is_a_typed_error_in_all_and_another_init_may_follow(run):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    began = time.monotonic()
    code, out, err = run(
        """
# Waits patiently until both are here, so that `join_timeout` is only the time for the switch.
jax.distributed.initialize(num_processes=2, process_id=rank)
try:
    jaxina.init(join_timeout=3)
except jaxina.errors.SwitchUnreachableError as error:
    print(error.message, flush=True)
jaxina.init("embedded")
summer()()
""",
        *("-n", 2, "--aggregator", "udp", "--switch", address),
    )
    assert code == 0 and time.monotonic() - began < 60, err
    assert len(out) == 2 and all(f"no switch answers at {address}" in line for line in out), out
    assert "Aborted" not in err and "core dumped" not in err


@pytest.fixture
def switch(tmp_path):
    """A switch on loopback. Yields its process, its address and its log."""
    log = tmp_path / "switch.log"
    with log.open("w") as file:
        process = subprocess.Popen([sys.executable, "-m", "jaxina.cli", "switch", "--bind", "127.0.0.1:0"], stderr=file)
    try:
        assert eventually(lambda: "control at" in log.read_text(), timeout=30)
        yield process, log.read_text().partition("control at ")[2].partition(",")[0], log
    finally:
        process.kill()
        process.wait()


def test_a_switch_that_is_killed_is_a_typed_error_on_all_workers(run, switch, tmp_path):
    process, address, _ = switch
    code, out, err = run(
        """
jaxina.init()
add = summer()
killed = os.environ["KILLED"]
try:
    add()  # in worker 1 this one may fail already
    if rank == 0:
        with open(killed, "w") as file: file.write(str(time.time()))
        os.kill(int(os.environ["SWITCH_PID"]), signal.SIGKILL)
    for _ in range(100000): add()
except jaxina.errors.SwitchUnreachableError as error:
    print(time.time() - float(open(killed).read()), error.message, flush=True)
""",
        *("-n", 2, "--aggregator", "udp", "--switch", address),
        SWITCH_PID=str(process.pid),
        KILLED=str(tmp_path / "killed"),
    )
    assert code == 0, err
    assert len(out) == 2 and all(address in line for line in out), (out, err)
    assert all(float(line.split()[1]) < 5 for line in out)


def test_a_run_uses_the_switch_it_is_given_and_leaves_it_empty(run, switch):
    _, address, log = switch
    options = ("-n", 2, "--aggregator", "udp", "--switch", address)
    code, _, err = run("jaxina.init()\nsummer()()", *options)
    assert code == 0, err
    assert eventually(lambda: re.search(r"job \d+: ended", log.read_text()))
    assert "complete" in log.read_text() and "aborted" not in log.read_text()
