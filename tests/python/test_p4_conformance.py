"""The conformance vectors: the files are what the specification says, and the runner finds differences.

Native tests run the vectors on the software aggregator, and on aggregators with planted bugs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance import generate, runner, vector, words
from conformance.specification import Aggregator
from conformance.vector import Comment, Count, Job, Packet, Receive, Send, State
from patience import PATIENCE

from jaxina import _native, testbed
from jaxina.control.server import ControlServer
from jaxina.control.switch_planes import SwitchPlanes
from jaxina.errors import InvalidArgumentError

P4 = Path(generate.__file__).parents[1]


@pytest.fixture(scope="module")
def generated():
    return generate.files()


def test_the_files_are_those_that_the_specification_generates(generated):
    written = {str(p.relative_to(generate.FOLDER)) for p in generate.FOLDER.rglob("*.txt")}
    assert written == set(generated)
    for name, text in generated.items():
        assert (generate.FOLDER / name).read_text() == text, f"{name}: run conformance.generate"


def test_files_are_read_as_they_were_written(generated):
    for name, text in generated.items():
        if name.startswith("64/"):
            assert vector.to_text(vector.read(generate.FOLDER / name)) == text


@pytest.mark.parametrize("numbers", [[], [5], [1, 2], [3, 3, 3], [1, 2, 3, 9, 8], [2**31 - 1, -(2**31), -(2**31) + 1]])
def test_words_are_read_as_they_were_written(numbers):
    assert words.from_text(words.to_text(numbers)) == numbers


def test_appendix_a_is_the_papers():
    """Checks the events of the paper's appendix A one by one: who sends, and who gets the result."""
    events: list[tuple[str, list[str]]] = []
    for step in vector.read(generate.FOLDER / "64" / "appendix_a.txt").steps:
        if isinstance(step, Send):
            events.append((step.endpoint, []))
        elif isinstance(step, Receive) and step.packet.kind == "result":
            events[-1][1].append(step.endpoint)
    everyone = ["A0", "A1", "A2"]
    t0, t1, t4, t5, t6, t8 = (
        ("A0", []),
        ("A1", []),
        ("A0", []),
        ("A1", []),
        ("A2", everyone),
        ("A0", ["A0"]),
    )
    t12, t13, t15 = ("A1", []), ("A2", []), ("A0", everyone)
    assert events == [t0, t1, t4, t5, t6, t8, t12, t13, t15]


class Interpreter:
    """The specification, as a device for the runner."""

    name = "the specification"
    abilities = frozenset(
        ("notices", "state", "counters", "first_epoch", "checksum", "short", "blocks", "sizes", "mismatch", "narrow")
    )
    block_sizes = frozenset({64, 256})

    def begin(self, wanted):
        self.aggregator = Aggregator()
        self.came = []
        for job in wanted.jobs:
            self.aggregator.add_job(job)

    def send(self, endpoint, packet):
        self.came = self.aggregator.on_packet(endpoint, packet)

    def replies(self, expected):
        return self.came

    def state(self, job, slot, version):
        held = self.aggregator.slots[job, slot].versions[version]
        lists = {"exponents": tuple(held.exponents), **held.form, "words": tuple(held.words)}
        return {"epoch": held.epoch, "count": held.count, "seen": tuple(sorted(held.seen)), **lists}

    def counts(self, job):
        return self.aggregator.counts[job]

    def end(self):
        pass


def differences(device, name="algorithm_3"):
    outcome = runner.run(vector.read(generate.FOLDER / "64" / f"{name}.txt"), device)
    assert not outcome.lacking
    return outcome.failures


def test_the_runner_passes_what_is_right():
    for path in (generate.FOLDER / "64").glob("*.txt"):
        wanted = vector.read(path)
        if "rdma" not in wanted.needs:
            outcome = runner.run(wanted, Interpreter())
            assert not outcome.failures and not outcome.lacking


def test_the_runner_sees_each_difference():
    class Silent(Interpreter):
        def replies(self, expected):
            return self.came[1:]

    class Talkative(Interpreter):
        def replies(self, expected):
            return [*self.came, Receive("A0", Packet("result", {}))]

    class Wrong(Interpreter):
        def replies(self, expected):
            return [Receive(r.endpoint, Packet(r.packet.kind, {**r.packet.fields, "epoch": 9})) for r in self.came]

    class Elsewhere(Interpreter):
        def replies(self, expected):
            return [Receive("A9", r.packet) for r in self.came]

    class OtherState(Interpreter):
        def state(self, *which):
            return {**super().state(*which), "count": 7}

    class StateUntold(Interpreter):
        def state(self, *which):
            return {}

    class OtherCounts(Interpreter):
        def counts(self, job):
            return {**super().counts(job), "stale": 1}

    for kind in (Silent, Talkative, Wrong, Elsewhere, OtherState, StateUntold, OtherCounts):
        assert differences(kind()), kind.__name__


def test_the_runner_says_in_what_way_packets_differ():
    first, second = (Receive("A0", Packet("result", {"epoch": epoch})) for epoch in (0, 1))
    lines = [f"recv A0 result epoch={epoch}" for epoch in (0, 1)]

    class Device(Interpreter):
        def __init__(self, came):
            self.sends = came

        def begin(self, wanted):
            pass

        def send(self, endpoint, packet):
            self.came = self.sends

    def failure(came):
        sent = Send("A0", Packet("update", {}))
        wanted = vector.Vector("ours", set(), [sent, first, second])
        (text,) = runner.run(wanted, Device(came)).failures
        return text.splitlines()[1:]

    turned = [f"came in this order: {line}" for line in reversed(lines)]
    assert failure([second, first]) == turned
    assert failure([first, second, first]) == [f"extra   {lines[0]}"]
    assert failure([second]) == [f"missing {lines[0]}"]
    assert failure([second, second]) == [f"missing {lines[0]}", f"extra   {lines[1]}"]


def test_a_device_is_not_asked_for_what_it_cannot():
    class Limited(Interpreter):
        abilities = Interpreter.abilities - {"checksum"}
        block_sizes = frozenset({64})

    corrupt = vector.read(generate.FOLDER / "64" / "corrupt.txt")
    assert runner.run(corrupt, Limited()).lacking == {"checksum"}
    larger = vector.read(generate.FOLDER / "256" / "appendix_a.txt")
    assert runner.run(larger, Limited()).lacking == {"blocks of 256"}

    class Mute(Interpreter):
        def replies(self, expected):
            return [r for r in self.came if r.packet.kind == "result"]

    assert differences(Mute())
    Mute.abilities = Interpreter.abilities - {"notices"}
    assert not differences(Mute())


def test_every_line_of_a_file_is_understood():
    path = generate.FOLDER / "64" / "wrong_job.txt"
    kinds = {type(step) for step in vector.read(path).steps}
    assert kinds == {Comment, Job, Send, Receive, State, Count}


def conformance(*arguments, inside=()):
    """Runs `python -m conformance`. Returns its exit code and output."""
    done = subprocess.run(
        [*inside, sys.executable, "-m", "conformance", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=P4,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_software_switch_passes_over_loopback():
    datagrams = _native.SoftwareSwitch("127.0.0.1", 1, 0.0, 0)
    rdma = _native.RoceSwitch("127.0.0.1", 0, True, 0.0, 0)
    try:
        planes = SwitchPlanes(datagrams, rdma)
        with ControlServer(planes, "127.0.0.1:0", ask_every=0) as server:
            code, output = conformance("--control", server.address, "--size", 64)
            assert code == 0, output
            assert " 0 failed, 2 not run" in output  # those that are not run are epochs_wrap and narrow_epochs
            code, output = conformance("--control", server.address, "--tofino", 64, "appendix_a", "corrupt")
            assert code == 0 and "1 vectors passed, 0 failed, 5 not run" in output, output
    finally:
        datagrams.stop()


# `jaxina`, but its switch reads its counters whenever it is asked. The runner asks often.
_ASKED_AT_WILL = """
from jaxina.control import limits
limits.ASK_EVERY = 0
import jaxina.cli
jaxina.cli.main()
"""

MISSING = [tool for tool in ("ip", "tc", "ethtool", "taskset") if shutil.which(tool) is None]


@pytest.fixture
def one_worker_network(only_testbed: None) -> Iterator[testbed.Testbed]:
    try:
        made = testbed.up(testbed.Size(1), testbed.Link(10_000))
    except InvalidArgumentError as error:
        pytest.skip(str(error))
    try:
        # With offloads, the frames of one message would cross the bridge as one.
        offloads = [text for name in ("tx-udp-segmentation", "gso") for text in (name, "off")]
        ethtool = [*made.inside(made.switch_namespace), "ethtool", "-K", "eth0", *offloads]
        subprocess.run(ethtool, check=True, capture_output=True)
        yield made
    finally:
        testbed.down()


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {' '.join(MISSING)}")
def test_raw_frames_reach_a_switch_behind_an_interface(one_worker_network, tmp_path):
    """The runner is in a worker's namespace, the software switch in the switch's namespace. A bridge joins them."""
    bed = one_worker_network
    control = f"{bed.switch_host}:51000"
    log = (tmp_path / "switch.log").open("w+")
    # The switch must stay on one core. If a thread changed its core between two frames, two cores would hand them on,
    # in any order: a virtual pair of interfaces keeps the order only of frames from one core.
    one_core = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
    switch = subprocess.Popen(
        [*bed.inside(bed.switch_namespace), *one_core]
        + [sys.executable, "-c", _ASKED_AT_WILL, "switch"]
        + ["--bind", control, "--threads", "2", "--rdma", bed.switch_host],
        stderr=log,
    )
    try:
        inside = bed.inside(bed.worker_namespace(0))
        code, output = conformance(
            *("--control", control, "--interfaces", "eth0", "--size", 64),
            *(
                "appendix_a",
                "hierarchy",
                "wrong_job",
                "stale_epochs",
                "rdma_lost_packet",
                "rdma_no_access",
            ),
            inside=inside,
        )
        assert code == 0, output + Path(log.name).read_text()
        assert output.splitlines()[-1].startswith("6 vectors passed, 0 failed, 0 not run")
    finally:
        switch.terminate()
        switch.wait(timeout=20)
        log.close()
