"""A service that has failed by itself: its process does not stay behind, and late calls do not raise."""

import subprocess
import sys

import pytest
from control_fakes import FakeDataPlane

from jaxina.control.membership import Membership
from jaxina.control.server import ControlServer
from jaxina.control.service_thread import ServiceThread
from jaxina.errors import ShutDownError, SystemCallError

COMMANDS = {
    ("switch", "--bind", "127.0.0.1:0"): "jaxina.control.membership.Membership.expire",
    ("fabric", "scheduler", "--bind", "127.0.0.1:0", "-n", "1", "--rate", "100"): "jaxina.fabric.service.job.Job.tick",
    ("keeper", "--bind", "127.0.0.1:0", "--members", "2"): "jaxina.elastic.roster.Roster.tick",
}


def fail(*_):
    raise ZeroDivisionError("a defect")


def test_calls_after_the_end_are_quiet_and_status_says_so(monkeypatch):
    monkeypatch.setattr(Membership, "expire", fail)
    with ControlServer(FakeDataPlane(), "127.0.0.1:0") as server:
        assert isinstance(server.ended.exception(10), SystemCallError)
        server.end_job(1, "SYSTEM", "a packet port was lost")
        server.drain(fail)
        with pytest.raises(ShutDownError, match=server.address):
            server.status()
        server.stop()


def test_a_call_between_the_end_of_the_loop_and_that_of_the_thread_is_not_made():
    """The thread lives on for a moment after its loop was closed."""

    async def serve(thread):
        thread.listening("here")
        await thread.until_stopped()

    called = []
    service = ServiceThread("the service", serve)
    service.ended.add_done_callback(lambda _: called.append(service.call(fail)))
    service.stop()
    assert called == [False]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_command_ends_with_the_failure_of_its_service(command):
    module, name, method = COMMANDS[command].rsplit(".", 2)
    program = f"""
import sys
from {module} import {name}
from jaxina.cli import main

def fail(*_):
    raise ZeroDivisionError("a defect")

{name}.{method} = fail
sys.argv = ["jaxina", *{list(command)!r}]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].startswith("jaxina: SYSTEM: the "), done.stderr
    assert "a defect" in done.stderr.splitlines()[-1], done.stderr
