"""What `jaxina testbed up` leaves and says if it fails. Fakes stand for ip and mount, so it needs no root."""

import pytest

from jaxina import testbed
from jaxina.errors import InvalidArgumentError, SystemCallError
from jaxina.testbed import links, network, random_loss


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A folder of namespaces, with an `ip` that keeps it and gives an error for the commands that `refused` has."""

    class Kernel:
        def __init__(self):
            self.refused = {}

        def names(self):
            return {path.name for path in network.NAMESPACES.iterdir()}

        def run(self, *command):
            error = next((error for start, error in self.refused.items() if command[: len(start)] == start), None)
            if isinstance(error, SystemCallError):
                raise error
            if command[:3] == ("ip", "netns", "add"):
                (network.NAMESPACES / command[3]).touch(exist_ok=False)
            if command[:3] == ("ip", "netns", "del"):
                (network.NAMESPACES / command[3]).unlink()
            if error is not None:  # Ctrl-C, which may come right after the command
                raise error
            return ""

    made = Kernel()
    for name in ("NAMESPACES", "_HOSTS"):
        monkeypatch.setattr(network, name, tmp_path / name)
        (tmp_path / name).mkdir()
    monkeypatch.setattr(network, "STATE", tmp_path / "state.json")
    monkeypatch.setattr(network, "RATES", tmp_path / "rates.jsonl")
    monkeypatch.setattr(network, "_check_tools", lambda link: None)
    monkeypatch.setattr(links, "run", made.run)
    return made


def up():
    return testbed.up(testbed.Size(2), testbed.Link(rate=100))


def test_why_it_failed_is_said(kernel):
    kernel.refused = {("ip", "netns", "add"): SystemCallError("ip netns add: Operation not permitted")}
    with pytest.raises(SystemCallError, match="Operation not permitted"):
        up()
    kernel.refused = {}
    up()  # nothing is left that would be in its way


@pytest.mark.parametrize(
    "command", [("ip", "netns", "add"), ("ip", "-n", "jaxina-worker-1", "link", "set", "lo", "up")]
)
def test_ctrl_c_leaves_nothing(kernel, command):
    kernel.refused = {command: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        up()
    assert kernel.names() == set() and not network.STATE.exists()


def test_the_first_error_is_said_and_down_removes_what_is_left(kernel):
    kernel.refused = {
        ("ip", "-n", "jaxina-worker-1"): SystemCallError("the first"),
        ("ip", "netns", "pids", "jaxina-worker-0"): SystemCallError("the second"),
    }
    with pytest.raises(SystemCallError, match="the first"):
        up()
    assert "jaxina-worker-0" in kernel.names()
    kernel.refused = {}
    with pytest.raises(InvalidArgumentError, match="jaxina testbed down"):
        up()
    testbed.down()
    assert kernel.names() == set()


def test_a_namespace_that_somebody_else_made_meanwhile_stays(kernel, monkeypatch):
    def run(*command):
        if command[:3] == ("ip", "netns", "add") and command[3] == "jaxina-worker-1":
            (network.NAMESPACES / command[3]).touch()
            raise SystemCallError("ip netns add: File exists")
        return kernel.run(*command)

    monkeypatch.setattr(links, "run", run)
    with pytest.raises(SystemCallError, match="File exists"):
        up()
    assert kernel.names() == {"jaxina-worker-1"} and not network.STATE.exists()


def test_a_mount_that_is_refused_has_a_type(kernel, monkeypatch):
    kernel.refused = {("mount",): SystemCallError("mount: permission denied")}
    with pytest.raises(SystemCallError, match="mount: permission denied"), random_loss.pinned(0.5):
        pass
