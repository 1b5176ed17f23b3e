"""The controller of a Tofino ends, and another one begins, while the chip keeps what is in its tables and registers."""

from __future__ import annotations

import random

import pytest
from busy_chip import Switch as BusySwitch
from busy_chip import Workers, traffic
from conformance.devices.interpreter import description
from tofino_fakes import BUSY, CHIP, Switch, join, soon

from jaxina.control.client import SwitchClient
from jaxina.control.server import ControlServer
from jaxina.controller import chip, take_over
from jaxina.controller.data_plane import TofinoPlane
from jaxina.controller.dry_run import DryRun
from jaxina.controller.tables import Digest, Entry


def ports(tables):
    """Returns the writes of ports since the last call."""
    writes = [str(write) for write in tables.writes if write.entry.table == "$PORT"]
    tables.writes.clear()
    return writes


def begin(folder, tables, text):
    """Begins a controller, and ends it without leaving anything in order."""
    file = folder / "chip.toml"
    file.write_text(text)
    TofinoPlane(tables, chip.read(file)).stop()


def test_a_port_that_is_as_it_should_be_stays_up(tmp_path):
    text, tables = CHIP.format(size="one-pipe"), DryRun()
    begin(tmp_path, tables, text)
    assert len(ports(tables)) == 2
    begin(tmp_path, tables, text)
    assert ports(tables) == []
    begin(tmp_path, tables, text.replace("speed = 25", "speed = 10") + "[[loopback]]\nnumber = 20\n")
    assert [write.split(" -> ")[0] for write in ports(tables)] == [
        "delete $PORT $DEV_PORT=4",
        "insert $PORT $DEV_PORT=4",
        "insert $PORT $DEV_PORT=20",
    ]
    begin(tmp_path, tables, text.replace("speed = 25", "speed = 10") + "[[port]]\nnumber = 20\n")
    assert [write.split(" ")[0] for write in ports(tables)] == ["delete", "insert"]  # no longer in loopback


def test_digests_about_a_dead_controllers_jobs_are_dropped(tmp_path):
    tables = DryRun()
    for worker in range(3):
        tables.digests.put(Digest("contradiction", {"rid": 1 << 5 | worker, "slot_index": 0}))
    take_over.empty(tables)  # before any job can be made
    assert tables.digests.empty()


@pytest.mark.parametrize(
    "mode,settings",
    [
        ('"pause"', "$TX_PAUSE_FRAME_EN=True, $RX_PAUSE_FRAME_EN=True"),
        ('"pfc"\npriority = 3', "$TX_PFC_EN_MAP=8, $RX_PFC_EN_MAP=8"),
    ],
)
def test_ports_change_if_flow_control_does(tmp_path, mode, settings):
    plain, tables = CHIP.format(size="one-pipe"), DryRun()
    text = f"{plain}\n[flow_control]\nmode = {mode}\n"
    begin(tmp_path, tables, text)
    written = ports(tables)
    assert len(written) == 2 and all(f"$PORT_ENABLE=True, {settings})" in write for write in written)
    begin(tmp_path, tables, text)
    assert ports(tables) == []
    begin(tmp_path, tables, plain)
    assert [write.split(" ")[0] for write in ports(tables)] == ["delete", "delete", "insert", "insert"]


def test_ports_that_the_file_does_not_name_are_left_alone(tmp_path, caplog):
    tables = DryRun()
    tables.insert([Entry("$PORT", {"$DEV_PORT": 64}, {"$SPEED": "BF_SPEED_10G"})])
    begin(tmp_path, tables, CHIP.format(size="one-pipe"))
    assert "port 64 is set up in the chip" in caplog.text
    assert tables.entries("$PORT", ()) and not [w for w in ports(tables) if "=64" in w and "delete" in w]


def test_a_job_ends_with_its_controller_and_the_next_one_works(tmp_path):
    first = Switch(tmp_path)
    before = first.matches()
    processes, _ = join(first)
    for worker in (0, 1):
        first.hears(1, worker)
    assert soon(lambda: len(first.matches()) > len(before) + 4)
    # The controller dies: its port closes, and nobody puts its tables in order.
    first.server.stop()
    for process in processes:
        assert process.engine.aborted.wait(BUSY)
        assert process.engine.aborts[0][1] == "SWITCH_UNREACHABLE"
    first.plane.stop()
    file = tmp_path / "chip.toml"
    second = Switch.__new__(Switch)
    second.tables = first.tables
    second.plane = TofinoPlane(first.tables, chip.read(file))
    second.server = ControlServer(second.plane, "127.0.0.1:0", ask_every=0)
    second.plane.ended = second.server.end_job
    second.client = SwitchClient(second.server.address, BUSY)
    try:
        assert second.matches() == before
        _, parts = join(second)
        assert [part.worker for part in parts] == [0, 1]
    finally:
        second.close()
        first.client.close()


IN_THE_CHIP = 8  # packets


def drain(switch):
    while waiting := switch.tables.chip.waiting:
        switch.link.step(next(iter(waiting)))
    switch.link.receive(0)


@pytest.mark.parametrize("size", ["one-pipe", "four-pipes"])
def test_packets_of_a_dead_controllers_job_disturb_no_other(size, monkeypatch):
    made, chance = BusySwitch(size), random.Random(size)
    try:
        workers = Workers(made, chance, passes=3)
        while not min(workers.epochs.values()):
            if sum(made.tables.chip.waiting.values()) < IN_THE_CHIP:
                workers.send()
            if waiting := made.tables.chip.waiting:
                made.link.step(chance.choice(sorted(waiting)))
            workers.receive()
        assert made.tables.chip.waiting
        assert max(workers.epochs.values()) > 0
        made.plane.stop()
        monkeypatch.setattr(take_over.time, "sleep", lambda _: drain(made))  # the chip goes on meanwhile
        made.plane = TofinoPlane(made.tables, description(size))
        monkeypatch.undo()
        assert not made.tables.chip.waiting
        made.link.close_endpoints()
        made.begin_job()
        traffic(made, chance, losses=0.02)
    finally:
        made.plane.stop()
