"""The launcher of `jaxina run` in this process, with scripts of the shell as workers."""

import contextlib
import io
import os
import resource
import select
import signal
import threading
import time

import pytest
from control_fakes import eventually

from jaxina.cli import launcher as launcher_module
from jaxina.cli.launcher import Launcher
from jaxina.cli.tagged_output import TaggedOutput
from jaxina.errors import InvalidArgumentError, SystemCallError

# Another file's tests may have started JAX in this process, and JAX warns of every fork. The launcher itself never
# imports JAX, and its forks run a few calls to the system and a program.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")


def launcher(*workers, output=None):
    commands = [["bash", "-c", worker] for worker in workers]
    output = output or TaggedOutput()
    return Launcher(commands.__getitem__, range(len(workers)), lambda _: {}, output, lambda _: "", failure_grace=0.1)


def test_the_end_of_a_worker_and_of_its_output_may_come_together(tmp_path):
    """The launcher reads the worker's output to its end when it sees the worker's end. It must not read it again."""
    fails, ends = tmp_path / "fails", tmp_path / "ends"
    until = "until [ -e '{}' ]; do sleep 0.02; done".format

    class Slow(TaggedOutput):
        def out(self, rank, line):
            failed = launched._workers[0].process
            fails.touch()
            os.waitid(os.P_PID, failed.pid, os.WEXITED | os.WNOWAIT)
            ends.touch()  # its child ends
            end = select.poll()
            end.register(failed.stderr.fileno(), 0)
            assert end.poll(20_000)

    fails_first = f"{until(fails)}; ({until(ends)}; echo late >&2) & exit 4"
    launched = launcher(fails_first, "echo now; sleep 60", output=Slow())
    outcome = launched.run()
    assert outcome.code == 4 and outcome.last_lines == ("late",)


def test_a_child_that_writes_without_end_does_not_hold_the_launcher():
    with open(os.devnull, "w") as nowhere:
        outcome = launcher("yes & sleep 0.2; exit 4", "sleep 60", output=TaggedOutput(stdout=nowhere)).run()
    assert outcome.code == 4


def test_what_a_worker_leaves_may_end_by_itself(tmp_path):
    up, saved = tmp_path / "up", tmp_path / "saved"
    saves = f"trap 'sleep 0.3; touch {saved}; exit' TERM; touch {up}; sleep 60 & wait"
    outcome = launcher(f'bash -c "{saves}" <&- >&- 2>&- & until [ -e {up} ]; do sleep 0.02; done').run()
    assert outcome.code == 0 and saved.exists()


def test_a_workers_number_stays_its_own_until_all_have_ended(tmp_path):
    """Else another process could get the number, and the signals to what the worker has left."""
    launched = launcher("exit 0", f"until [ -e {tmp_path}/end ]; do sleep 0.02; done")
    exists = []

    def look():
        if eventually(lambda: launched._workers and launched._workers[0].ended):
            exists.append(os.path.exists(f"/proc/{launched._workers[0].process.pid}"))
        (tmp_path / "end").touch()

    thread = threading.Thread(target=look)
    thread.start()
    assert launched.run().code == 0
    thread.join()
    assert exists == [True]


@pytest.fixture
def held(tmp_path):
    """What a worker's script begins with, to leave something behind in a session of its own that holds its pipes."""
    pid = tmp_path / "pid"
    inner = f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 20"
    yield f"setsid bash -c '{inner}' & until [ -e {pid} ]; do sleep 0.02; done"
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("code", [0, 4])
def test_what_a_worker_leaves_in_a_session_of_its_own_does_not_hold_the_launcher(monkeypatch, held, code):
    monkeypatch.setattr(launcher_module, "TERMINATE_GRACE", 0.2)
    out, err = io.StringIO(), io.StringIO()
    began = time.monotonic()
    launched = launcher(f"{held}; echo said >&2; printf last; exit {code}", output=TaggedOutput(out, err))
    outcome = launched.run()
    assert time.monotonic() - began < 10
    assert outcome.code == code and outcome.last_lines == (("said",) if code else ())
    assert out.getvalue() == "[0] last\n" and err.getvalue() == "[0] said\n"


def test_ctrl_c_while_the_others_end_is_known_afterwards():
    launched = launcher("exit 4", "trap '' TERM; sleep 60 & wait; sleep 60")

    def interrupt():
        if eventually(lambda: launched._ending):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    outcome = launched.run()
    thread.join()
    assert outcome.code == 4 and outcome.interrupted


@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "non-blocking"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_run_whose_reader_has_stopped(number, blocking):
    reader, writer = os.pipe()
    os.set_blocking(writer, blocking)
    with open(writer, "w") as stdout:
        launched = launcher("yes", output=TaggedOutput(stdout, io.StringIO()))

        def blocked():
            return launched._output._writing is not None

        def end():
            for known in (lambda: launched._interrupted_by == number, lambda: True):
                if eventually(blocked) and eventually(lambda: not select.select([], [stdout], [], 0)[1]):
                    os.kill(os.getpid(), number)
                    eventually(known, 20)  # if two are pending, they are one
            ended.wait(20)
            os.close(reader)

        ended = threading.Event()
        thread = threading.Thread(target=end)
        thread.start()
        began = time.monotonic()
        outcome = launched.run()
        took = time.monotonic() - began
        ended.set()
        thread.join()
    assert outcome.interrupted and took < 15


@pytest.mark.parametrize("handler, code", [(signal.SIG_IGN, 0), (signal.SIG_DFL, 129)])
def test_a_run_under_nohup_outlives_its_terminal(handler, code):
    before = signal.signal(signal.SIGHUP, handler)
    try:
        outcome = launcher("kill -HUP $PPID; sleep 0.2").run()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (outcome.code, outcome.interrupted) == (code, code != 0)


def test_ctrl_c_while_workers_start_reaches_the_last_one_and_starts_no_more():
    def environment(rank):
        if rank == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return {}

    launched = Launcher(lambda _: ["sleep", "60"], range(3), environment, TaggedOutput(), lambda _: "", 0.1)
    began = time.monotonic()
    outcome = launched.run()
    assert outcome.code == 130 and outcome.interrupted
    assert time.monotonic() - began < 4, "none waited for SIGTERM"
    assert len(launched._workers) == 2


def test_a_signal_without_a_name():
    outcome = launcher("kill -35 $$").run()
    assert outcome.code == 128 + 35 and outcome.reason.endswith("was killed by signal 35")


@pytest.mark.parametrize("text, why", [("hello", "Exec format error"), ("#!/no/such/interpreter\n", "No such file")])
def test_what_is_no_program_is_named(tmp_path, text, why):
    program = tmp_path / "program"
    program.write_text(text)
    program.chmod(0o700)
    launched = Launcher(lambda _: [str(program)], range(2), lambda _: {}, TaggedOutput(), lambda _: "", 0.1)
    with pytest.raises(InvalidArgumentError, match=rf"{program} cannot be started: {why}.*first line"):
        launched.run()


def test_many_workers_raise_the_limit_on_open_files():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 20, limits[1]))
    try:
        assert launcher(*["true"] * 10).run().code == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_too_low_a_limit_on_open_files_is_named(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    with pytest.raises(SystemCallError, match=r"20 workers would have \d+ files .* but the hard limit .* is 64"):
        launcher(*["true"] * 20).run()


def test_output_that_cannot_be_written_is_said_once_and_ends_nothing(tmp_path):
    (tmp_path / "0.log").symlink_to("/dev/full")
    said = io.StringIO()
    with open("/dev/full", "w") as full:
        output = TaggedOutput(stdout=full, stderr=said, folder=tmp_path)
        assert launcher("for i in 1 2 3; do echo out; echo err >&2; done", output=output).run().code == 0
        output.close()
    lines = said.getvalue().splitlines()
    assert lines.count("[0] err") == 3 and len(lines) == 5
    assert sum("0.log: No space left" in line and "--log-dir" in line for line in lines) == 1
    assert sum("cannot write stdout: No space left" in line for line in lines) == 1


@pytest.mark.parametrize("buffering", [-1, 0], ids=["buffered", "python -u"])
def test_a_stream_that_does_not_block_loses_nothing(buffering):
    """Some callers give their programs such a pipe, and read it when they have time."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    lines = [character * length for character, length in zip("abcdef", (10, 200_000, 3, 70_000, 9000, 1), strict=True)]
    filled, read = [], []

    def late():
        filled.append(eventually(lambda: not select.select([], [writer], [], 0)[1]))
        with open(reader) as stream:
            read.extend(stream)

    thread = threading.Thread(target=late)
    thread.start()
    said = io.StringIO()
    with io.TextIOWrapper(open(writer, "wb", buffering), write_through=not buffering) as stdout:
        output = TaggedOutput(stdout=stdout, stderr=said)
        for line in lines:
            output.out(3, line)
    thread.join()
    assert filled == [True]
    assert read == [f"[3] {line}\n" for line in lines] and not said.getvalue()


def test_characters_that_the_output_lacks_are_escaped():
    written = io.BytesIO()
    output = TaggedOutput(stdout=io.TextIOWrapper(written, encoding="ascii"))
    output.out(0, "caf\N{LATIN SMALL LETTER E WITH ACUTE}")
    assert written.getvalue() == rb"[0] caf\xe9" + b"\n"
