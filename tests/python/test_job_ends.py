"""What ends a job of launched processes is a typed error in all of them."""

import signal
import socket
import time

import pytest


# With direct, the control service is in worker 0.
@pytest.mark.parametrize(
    "aggregator, devices, victim",
    [("embedded", 1, 1), ("embedded", 2, 1), ("udp", 2, 1), ("direct", 1, 1), ("direct", 1, 0)],
)
def test_a_killed_worker_is_a_typed_error_on_the_survivors_within_two_seconds(run_job, aggregator, devices, victim):
    survivors = [rank for rank in range(3) if rank != victim]
    code, out, err = run_job(
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


@pytest.mark.parametrize("aggregator", ["embedded", "udp"])
def test_devices_of_one_process_that_disagree_end_the_job_for_all(run_job, aggregator):
    code, out, err = run_job(
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
def test_an_uncaught_exception_ends_the_others(run_job, aggregator):
    code, out, err = run_job(
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


def test_a_process_that_never_calls_init_is_named_in_all_others(run_job):
    code, out, err = run_job(
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


def test_a_process_that_never_comes_to_the_psum_is_named(run_job):
    code, out, err = run_job(
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
def test_a_process_that_ends_before_the_first_psum_is_not_waited_for(run_job, end):
    _, out, err = run_job(
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


def test_processes_that_disagree_are_a_mismatch_in_all(run_job):
    code, out, err = run_job(
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


def test_no_switch_is_a_typed_error_in_all_and_another_init_may_follow(run_job):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    began = time.monotonic()
    code, out, err = run_job(
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


def test_a_switch_that_is_killed_is_a_typed_error_on_all_workers(run_job, job_switch, tmp_path):
    process, address, _ = job_switch
    code, out, err = run_job(
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
