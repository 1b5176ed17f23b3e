"""`jaxina run`: tagged output, exit codes, dead workers, Ctrl-C, and no process left behind.

The workers are plain Python and do not import jaxina, so that only the launcher is tested.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from control_fakes import eventually

from jaxina.cli.launcher import INTERRUPT_GRACE, TERMINATE_GRACE
from jaxina.cli.tagged_output import LineSplitter


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text("import os, signal, subprocess, sys, time\nrank = int(os.environ['JAXINA_RANK'])\n" + text)
        return path

    return write


@pytest.fixture
def start():
    """A function that starts `jaxina run ARGS`. Processes that still run at the end are killed."""
    started = []

    def run(*arguments, **options):
        process = subprocess.Popen(
            # Under nohup SIGHUP would be ignored.
            ["env", "--default-signal=HUP", sys.executable, "-m", "jaxina.cli", "run", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finish(process, timeout=30):
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out.splitlines(), err.splitlines()


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def pids(folder, count):
    """Waits for the process ids that the workers (or their children) write into the folder, and returns them."""
    assert eventually(lambda: len(list(folder.glob("pid-*"))) == count, timeout=20)
    assert eventually(lambda: all(p.read_text() for p in folder.glob("pid-*")))
    return [int(path.read_text()) for path in folder.glob("pid-*")]


NOTE_PID = "open(f'{sys.argv[1]}/pid-{rank}', 'w').write(str(os.getpid()))\n"


def test_lines_are_tagged_and_arguments_reach_the_script(start, script):
    path = script("print('out', sys.argv[1:]); print('err', file=sys.stderr); sys.stdout.write('no newline')")
    code, out, err = finish(start("-n", 3, path, "--lr", "0.1", "-n", "5"))
    assert code == 0
    assert sorted(out) == sorted(
        line for r in range(3) for line in (f"[{r}] out ['--lr', '0.1', '-n', '5']", f"[{r}] no newline")
    )
    assert sorted(err[:-1]) == [f"[{r}] err" for r in range(3)]
    assert err[-1] == "jaxina run: no worker called jaxina.init(), so jaxina summed nothing"


def test_workers_get_their_variables(start, script):
    path = script(
        "print(*(os.environ.get(f'JAXINA_{n}') for n in ('RANK', 'PROCESSES', 'AGGREGATOR', "
        "'COORDINATOR')),"
        " os.environ.get('JAX_NUM_CPU_DEVICES'))"
    )
    code, out, _ = finish(start("-n", 2, "--devices-per-process", 4, path))
    assert code == 0
    fields = [line.split() for line in sorted(out)]
    assert [f[1:4] + f[5:] for f in fields] == [[str(r), "2", "embedded", "4"] for r in range(2)]
    assert fields[0][4] == fields[1][4] and fields[0][4].startswith("127.0.0.1:")


def test_a_module_and_a_program(start, tmp_path):
    (tmp_path / "some_module.py").write_text("import sys; print('module', sys.argv[1:])")
    code, out, _ = finish(start("-n", 1, "-m", "some_module", "-x", cwd=tmp_path))
    assert (code, out) == (0, ["[0] module ['-x']"])
    code, out, _ = finish(start("-n", 2, "sh", "-c", "echo $JAXINA_RANK"))
    assert (code, sorted(out)) == (0, ["[0] 0", "[1] 1"])


def test_the_exit_code_and_last_lines_of_the_worker_that_failed(start, script):
    path = script("time.sleep(0 if rank == 1 else 60)\nprint('about to fail', file=sys.stderr)\nsys.exit(7)")
    began = time.monotonic()
    code, _, err = finish(start("-n", 3, path))
    assert code == 7
    assert time.monotonic() - began < 15
    text = "\n".join(err)
    assert "worker 1 (pid " in err[-1] and err[-1].endswith("ended with exit code 7")
    assert text.count("about to fail") == 2, "once as it came, once at the end"


def test_a_killed_worker_ends_the_run_with_its_signal(start, script, tmp_path):
    process = start("-n", 3, script(NOTE_PID + "time.sleep(60)"), tmp_path)
    workers = pids(tmp_path, 3)
    os.kill(int((tmp_path / "pid-2").read_text()), signal.SIGKILL)
    killed = time.monotonic()
    code, _, err = finish(process)
    assert time.monotonic() - killed < 10, "the others would sleep for 60 s"
    assert code == 128 + signal.SIGKILL
    assert "worker 2 (pid " in err[-1] and err[-1].endswith("was killed by SIGKILL")
    assert not any(alive(pid) for pid in workers)


def test_survivors_may_say_what_happened_to_them(start, script):
    path = script("sys.exit(3) if rank else (time.sleep(1), print('survivor says so'))")
    code, out, _ = finish(start("-n", 2, path))
    assert code == 3 and out == ["[0] survivor says so"]


@pytest.mark.parametrize("number,code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_signal_ends_all(start, script, tmp_path, number, code):
    process = start("-n", 3, script(NOTE_PID + "time.sleep(60)"), tmp_path)
    workers = pids(tmp_path, 3)
    sent = time.monotonic()
    process.send_signal(number)
    assert finish(process)[0] == code
    assert time.monotonic() - sent < 4, "workers that obey SIGTERM end at once"
    assert not any(alive(pid) for pid in workers)


def test_ctrl_c_runs_the_users_code_in_every_worker(start, script, tmp_path):
    path = script(
        "import atexit; atexit.register(print, 'atexit')\n" + NOTE_PID + "try: time.sleep(60)\n"
        "except KeyboardInterrupt: print('except')\nfinally: print('finally')"
    )
    process = start("-n", 3, path, tmp_path)
    pids(tmp_path, 3)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, out, _ = finish(process)
    assert code == 130 and time.monotonic() - sent < 1.5
    assert sorted(out) == sorted(f"[{r}] {what}" for r in range(3) for what in ("except", "finally", "atexit"))


def test_workers_that_ignore_sigterm_are_killed(start, script, tmp_path):
    path = script("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + NOTE_PID + "time.sleep(60)")
    process = start("-n", 2, path, tmp_path)
    workers = pids(tmp_path, 2)
    process.send_signal(signal.SIGTERM)
    assert finish(process, timeout=15)[0] == 143
    assert not any(alive(pid) for pid in workers)


def test_a_second_ctrl_c_kills_at_once(start, script, tmp_path):
    ignored = "".join(f"signal.signal(signal.{name}, signal.SIG_IGN)\n" for name in ("SIGINT", "SIGTERM"))
    process = start("-n", 2, script(ignored + NOTE_PID + "time.sleep(60)"), tmp_path)
    workers = pids(tmp_path, 2)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 130
    assert time.monotonic() - sent < INTERRUPT_GRACE + TERMINATE_GRACE, "they would have been killed by then anyway"
    assert not any(alive(pid) for pid in workers)


def test_a_killed_launcher_leaves_no_worker(start, script, tmp_path):
    process = start("-n", 3, script(NOTE_PID + "time.sleep(60)"), tmp_path)
    workers = pids(tmp_path, 3)
    process.kill()
    process.wait()
    assert eventually(lambda: not any(alive(pid) for pid in workers))


def test_children_of_workers_end_with_the_run(start, script, tmp_path):
    """A child that keeps its worker's pipes open must not keep the run open either."""
    path = script(
        "child = subprocess.Popen(['sleep', '60'])\n"
        "open(f'{sys.argv[1]}/pid-child-{rank}', 'w').write(str(child.pid))\n"
    )
    process = start("-n", 2, path, tmp_path)
    children = pids(tmp_path, 2)
    began = time.monotonic()
    assert finish(process)[0] == 0
    assert time.monotonic() - began < 10
    assert not any(alive(pid) for pid in children)


def test_much_output_of_many_workers_is_complete_and_unbroken(start, script):
    path = script("for i in range(3000): print(f'{rank}:{i}:' + 'x' * 100)")
    code, out, _ = finish(start("-n", 4, path))
    assert code == 0
    for rank in range(4):
        expected = [f"[{rank}] {rank}:{i}:" + "x" * 100 for i in range(3000)]
        assert [line for line in out if line.startswith(f"[{rank}]")] == expected


def test_a_reader_that_goes_away_does_not_hang_the_run(start, script):
    process = start("-n", 1, script("for i in range(20000): print('x' * 100)"))
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=20) == 0


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams(script, closed):
    path = script("open(0).read(); print('out'); print('err', file=sys.stderr); sys.exit(7)")
    command = f'exec "$@" {closed}'
    arguments = [sys.executable, "-m", "jaxina.cli", "run", "-n", "2", str(path)]
    done = subprocess.run(
        ["bash", "-c", command, "bash", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 7
    assert done.stdout.count("out") == (0 if "1>" in closed else 2)
    assert ("err" in done.stderr) == ("2>" not in closed) and "coordinator" not in done.stderr


def test_stats_json_without_an_engine_says_so(start, script, tmp_path):
    code, _, err = finish(start("-n", 1, "--stats", "--stats-json", tmp_path / "s.json", script("")))
    assert code == 0 and "no statistics" in err[-1]
    assert json.loads((tmp_path / "s.json").read_text()) == {"workers": [], "total": {}}


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["-n", "2", "no-such-script.py"], "neither a file here nor a program"),
        (["-n", "0", "true"], "-n"),
        (["-n", "2"], "SCRIPT"),
        (["-n", "2", "--aggregator", "cloud", "true"], "one of embedded, direct, atp, udp"),
        (["-n", "2", "--loss", "2", "true"], "loss=2.0 is not allowed"),
        (["-n", "2", "--switch", "here", "true"], "HOST:PORT"),
        (["-n", "2", "--switch", "10.0.0.1:51000", "true"], "the embedded aggregator has no network"),
        (["-n", "2", "--loss", "0.1", "true"], "the embedded aggregator has no network"),
        (["-n", "2", "--aggregator", "direct", "--switch", "a:1", "true"], "the direct aggregator has no switch"),
        (["-n", "2", "--aggregator", "embedded", "--loss", "0.1", "true"], "the embedded aggregator has no network"),
        (["-n", "4", "--aggregator", "udp", "--racks", "2", "true"], "needs --aggregator atp and no --switch"),
        (
            ["-n", "4", "--aggregator", "atp", "--switch", "a:1", "--racks", "2", "true"],
            "needs --aggregator atp and no",
        ),
        (["-n", "2", "--aggregator", "atp", "--racks", "3", "true"], "2 workers cannot be in 3 racks"),
        (["-n", "2", "--stats-json", "/no/such/folder/s.json", "true"], "there is no folder /no/such/folder"),
        (["-n", "2", "--trace", "/no/such/folder/t.json", "true"], "there is no folder /no/such/folder"),
        (["-n", "2", "--no-such-option", "true"], "no-such-option"),
    ],
)
def test_bad_usage_is_exit_code_2_with_a_helpful_line(start, arguments, message):
    code, out, err = finish(start(*arguments))
    assert code == 2 and message in " ".join(err) and out == []
    assert "Traceback" not in " ".join(err)


def test_an_overwritten_line_shows_its_last_state():
    lines = []
    splitter = LineSplitter(lines.append)
    splitter.feed(b"10%\r50%\r10")
    splitter.feed(b"0%\r\nnext\xff\n")
    splitter.feed(b"end")
    splitter.feed(b"")
    assert lines == ["100%", "next\N{REPLACEMENT CHARACTER}", "end"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_switch_starts_leaves_no_file(start, tmp_path, number):
    process = start("-n", 1, "--aggregator", "udp", "true", env={**os.environ, "TMPDIR": str(tmp_path)})
    assert eventually(lambda: any(tmp_path.glob("jaxina-run-*")), timeout=30)
    process.send_signal(number)
    assert finish(process)[0] == -number
    assert list(tmp_path.iterdir()) == []


def test_the_private_switch_ends_with_the_run(start, script):
    mark = f"MARK={uuid.uuid4()}"
    path = script("print(os.environ['JAXINA_SWITCH'], flush=True); time.sleep(60 * rank)")
    process = start("-n", 2, "--aggregator", "udp", path, env={**os.environ, "MARK": mark[5:]})
    assert eventually(lambda: len(_marked(mark)) >= 3, timeout=30), "run, switch, worker"
    assert re.match(r"\[[01]\] 127\.0\.0\.1:\d+$", process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 143
    assert _marked(mark) == []


def _marked(mark):
    """Returns the processes that have the mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes() and alive(path.parent.name):
                found.append(path.parent.name)
        except OSError:
            continue
    return found
