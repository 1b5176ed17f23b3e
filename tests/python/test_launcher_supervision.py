"""`jaxina run` as a supervisor: restarts, logs, input, the cause of a failure, several nodes, the coordinator's end."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from control_fakes import eventually

RANK = "import os, signal, sys, time\nrank = int(os.environ['JAXINA_RANK'])\n"
SUM = """
import jax, jaxina
jaxina.init(timeout=30)
f = jax.pmap(lambda x: jax.lax.psum(x, 'w'), 'w')
def step():
    return f(jax.numpy.ones((1, 4)))
jax.block_until_ready(step())
"""


@pytest.fixture
def start(tmp_path):
    """A function that starts `jaxina run ARGUMENTS SCRIPT`. Processes that still run at the end are killed."""
    started = []

    def run(text, *arguments, script_arguments=(), **options):
        path = tmp_path / f"script{len(started)}.py"
        path.write_text(RANK + text)
        command = [
            sys.executable,
            "-m",
            "jaxina.cli",
            "run",
            *map(str, arguments),
            str(path),
            *map(str, script_arguments),
        ]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen(command, text=True, start_new_session=True, **pipes)
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finish(process, timeout=60, text=None):
    out, err = process.communicate(text, timeout=timeout)
    return process.returncode, out, err


def test_all_start_again_as_often_as_allowed(start):
    text = "n = os.environ['JAXINA_RESTARTS']\nprint('start', n, flush=True)\nsys.exit(5 if rank and n != '{}' else 0)"
    code, out, err = finish(start(text.format(2), "-n", 2, "--max-restarts", 3))
    assert code == 0, err
    assert sorted(out.splitlines()) == sorted(f"[{r}] start {n}" for r in range(2) for n in range(3))
    assert "restart 2 of 3" in err and "restart 3 of 3" not in err
    code, _, err = finish(start(text.format(9), "-n", 2, "--max-restarts", 1))
    assert code == 5 and "restart 1 of 1" in err


@pytest.mark.parametrize("gone", [False, True])
def test_what_the_run_cannot_say_does_not_end_it(start, gone):
    text = "print('started', flush=True); sys.exit(7)"
    if gone:
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open("/dev/full", os.O_WRONLY)
    try:
        process = start(text, "-n", 1, "--max-restarts", 1, stderr=writer)
    finally:
        os.close(writer)
    code, out, _ = finish(process)
    assert code == 7 and out.count("started") == 2


def test_ctrl_c_starts_nothing_again(start, tmp_path):
    process = start("print('up', flush=True); time.sleep(60)", "-n", 2, "--max-restarts", 5)
    assert "up" in process.stdout.readline() and "up" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130 and out == "" and "again" not in err


def test_each_worker_has_a_log(start, tmp_path):
    folder = tmp_path / "deep" / "logs"
    text = "print('out', rank, flush=True); print('err', rank, file=sys.stderr, flush=True)"
    code, _, _ = finish(start(text, "-n", 3, "--log-dir", folder))
    assert code == 0
    for rank in range(3):
        assert sorted((folder / f"{rank}.log").read_text().splitlines()) == [f"err {rank}", f"out {rank}"]
    code, _, err = finish(start(text, "-n", 1, "--log-dir", "/proc/no-such-folder"))
    assert code == 1 and "--log-dir" in err and "Traceback" not in err


def test_worker_0_has_the_input(start):
    process = start("print('read', sys.stdin.read())", "-n", 2, stdin=subprocess.PIPE)
    code, out, _ = finish(process, text="what was typed")
    assert code == 0 and sorted(out.splitlines()) == ["[0] read what was typed", "[1] read "]


def test_a_progress_bar_is_seen_while_it_moves(start):
    process = start("sys.stderr.write('\\r10 %'); sys.stderr.flush(); time.sleep(60)", "-n", 1)
    assert process.stderr.readline() == "[0] 10 %\n"


def test_no_file_of_results_is_refused_after_the_run(start):
    process = start("print('ran')", "-n", 1, "--stats-json", "/no/such/folder/x.json")
    code, out, err = finish(process)
    assert code == 2 and out == "" and "/no/such/folder" in err


def test_the_cause_is_told_once_and_those_who_only_lost_a_worker_say_one_line(start):
    text = (
        SUM
        + """
if rank == 1:
    raise RuntimeError("the real cause")
while True:
    jax.block_until_ready(step())
"""
    )
    code, _, err = finish(start(text, "-n", 3))
    assert code == 1
    last = err.splitlines()[-1]
    assert "worker 1 (pid " in last and "failed because of that" in last, last
    assert "  │ RuntimeError: the real cause" in err
    for rank in (0, 2):
        said = [line for line in err.splitlines() if line.startswith(f"[{rank}]") and "INFO" not in line]
        assert len(said) == 1 and "jaxina: WORKER_LOST" in said[0] and "script0.py:" in said[0], said


def test_who_fails_while_the_others_are_busy_is_noticed_at_once(start):
    text = """
import jax, jaxina
jaxina.init()
if rank == 1:
    sys.exit(3)
time.sleep(200)
"""
    code, _, err = finish(start(text, "-n", 2))
    assert code == 3 and err.splitlines()[-1].endswith("ended with exit code 3"), err


@pytest.mark.parametrize("dead", [0, 1])
def test_survivors_can_save_whoever_dies(start, tmp_path, dead):
    text = (
        SUM
        + f"""
if rank == {dead}:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    with jaxina.errors.typed():
        while True:
            jax.block_until_ready(step())
except jaxina.errors.WorkerLostError:
    time.sleep(1)  # saving takes a while
    print('saved', flush=True)
    open(f'{{sys.argv[1]}}/saved-{{rank}}', 'w').close()
"""
    )
    process = start(text, "-n", 3, "--grace", 20, script_arguments=[tmp_path])
    survivors = [rank for rank in range(3) if rank != dead]
    saved = [tmp_path / f"saved-{rank}" for rank in survivors]
    assert eventually(lambda: all(path.exists() for path in saved), timeout=40), process.stderr.read()
    process.send_signal(signal.SIGTERM)
    code, out, err = finish(process)
    assert code == 137 and out.count("saved") == 2, err


def test_two_nodes_make_one_job(start, tmp_path):
    """Two launchers on this host stand for launchers on two hosts."""
    command = [sys.executable, "-m", "jaxina.cli", "switch", "--bind", "127.0.0.1:0", "--announce-fd", "1", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as switch, contextlib.ExitStack() as at_end:
        at_end.callback(switch.terminate)
        address = switch.stdout.readline().strip()
        coordinator = "127.0.0.1:" + address.rpartition(":")[2]  # the switch has this port
        refused = start(
            "", "-n", 1, "--nodes", 2, "--coordinator", coordinator, "--aggregator", "udp", "--switch", address
        )
        code, _, err = finish(refused)
        assert code == 2 and f"cannot listen at {coordinator}" in err
        shared = ["-n", 2, *of_two_nodes("udp"), "--switch", address]
        text = SUM + "print('sum', float(step()[0, 0]), jax.process_count())"
        nodes = [start(text, *shared, "--node", number) for number in range(2)]
        found = [finish(node) for node in nodes]
        assert [code for code, _, _ in found] == [0, 0], found
        lines = sorted(line for _, out, _ in found for line in out.splitlines())
        assert lines == [f"[{rank}] sum 4.0 4" for rank in range(4)]


def test_two_nodes_need_no_switch_if_the_workers_sum_themselves(start):
    shared = ["-n", 1, *of_two_nodes("direct")]
    text = SUM + "print('sum', float(step()[0, 0]), jax.process_count())"
    nodes = [start(text, *shared, "--node", number) for number in range(2)]
    found = [finish(node) for node in nodes]
    assert [code for code, _, _ in found] == [0, 0], found
    assert sorted(line for _, out, _ in found for line in out.splitlines()) == ["[0] sum 2.0 2", "[1] sum 2.0 2"]


@pytest.mark.parametrize("fails", [False, True])
def test_the_first_node_stays_until_the_others_have_ended(start, tmp_path, fails):
    """JAX would abort them without the coordinator, for example while they save."""
    shared = ["-n", 1, *of_two_nodes("direct"), "--grace", 30]
    text = f"""
import atexit, jax, jaxina
from pathlib import Path
def save():
    while not Path(sys.argv[1], 'waits').exists():
        time.sleep(0.02)
    print('saved', flush=True)
atexit.register(lambda: rank and save())  # runs when the others know already that this process has ended
jaxina.init()
jaxina.shutdown()
if not rank and {fails}:
    os._exit(3)
"""
    first, second = [start(text, *shared, "--node", node, script_arguments=[tmp_path]) for node in range(2)]
    assert any("waiting for the workers of the other hosts" in line for line in first.stderr)
    (tmp_path / "waits").touch()
    assert finish(second)[:2] == (0, "[1] saved\n")
    assert finish(first)[0] == (3 if fails else 0)


def of_two_nodes(aggregator):
    """Arguments of `jaxina run` for the nodes of one job on this host."""
    return ["--nodes", 2, "--coordinator", f"127.0.0.1:{free_port()}", "--aggregator", aggregator]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--nodes", "2", "--aggregator", "udp", "--switch", "a:1"], "--coordinator"),
        (["--nodes", "2", "--coordinator", "a:1"], "--aggregator direct, or a switch that all of them reach"),
        (
            ["--nodes", "2", "--node", "2", "--coordinator", "a:1", "--aggregator", "udp", "--switch", "a:1"],
            "not below",
        ),
    ],
)
def test_nodes_that_cannot_be(start, arguments, message):
    code, out, err = finish(start("print('ran')", "-n", 1, *arguments))
    assert code == 2 and message in err and out == ""


def test_a_program_without_jaxina_finds_the_others_too(start):
    text = (
        "import jax\n"
        "jax.distributed.initialize(num_processes=int(os.environ['JAXINA_PROCESSES']), process_id=rank)\n"
        "print('of', jax.process_count())"
    )
    code, out, err = finish(start(text, "-n", 2))
    assert code == 0 and sorted(out.splitlines()) == ["[0] of 2", "[1] of 2"], err


def test_the_coordinator_ends_with_the_run(start):
    process = start("print(os.environ['JAXINA_COORDINATOR'], flush=True); time.sleep(60)", "-n", 1)
    port = int(re.search(r":(\d+)$", process.stdout.readline().strip()).group(1))
    assert _listening(port)
    process.kill()
    process.wait()
    assert eventually(lambda: not _listening(port), timeout=10)


def _listening(port):
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)


def test_a_coordinator_by_hand(tmp_path):
    command = [sys.executable, "-m", "jaxina.cli", "coordinator", "-n", "2"]
    coordinator = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = coordinator.stdout.readline().removeprefix("JAXINA_COORDINATOR=").split()[0]
        path = tmp_path / "script.py"
        path.write_text(RANK + SUM + "print('sum', float(step()[0, 0]))")
        workers = [
            subprocess.Popen(
                [sys.executable, str(path)],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "JAXINA_COORDINATOR": address, "JAXINA_PROCESSES": "2", "JAXINA_RANK": str(rank)},
            )
            for rank in range(2)
        ]
        assert [worker.communicate(timeout=60)[0].strip() for worker in workers] == ["sum 2.0"] * 2
        coordinator.send_signal(signal.SIGINT)
        assert coordinator.wait(10) == 0 and coordinator.stderr.read() == ""
    finally:
        coordinator.kill()
        coordinator.communicate()
