"""The chip's driver refuses a write, at any point of a job's life. No later job may suffer from what is left."""

from __future__ import annotations

import contextlib
import itertools
import logging
import struct
import zlib

import pytest
from conformance.datagram import HEADER, MAGIC
from conformance.devices.interpreter import ADDRESS, ChipLink, description, text_of
from interpreter.controller_tables import ChipTables
from interpreter.program import Program
from tofino_fakes import CHIP, soon

from jaxina._native import JobShape
from jaxina.control.data_plane import QueuePairs
from jaxina.control.roles import Child, Combine
from jaxina.controller import chip, journal
from jaxina.controller.atp_plane import AtpPlane
from jaxina.controller.chip_plane import UDP_PORT
from jaxina.controller.data_plane import ROCE_PORT, TofinoPlane
from jaxina.controller.dry_run import DryRun
from jaxina.controller.tables import Digest
from jaxina.errors import JobRejectedError, SystemCallError

SHAPE = JobShape(devices=2, workers=2, slots=4, block_size=64, blocks_per_chunk=1, whole_chunks=True)
COMBINE = Combine(0, (Child((0, 2), 1), Child((1,))), (("198.18.64.5", 40000),))


class Refusing:
    """A class of tables whose driver refuses writes. It is mixed in before the tables.

    Attributes:
      refuses: `refuses(number, operation, entry)` says whether the write of an entry is refused, by its number.
      goes_on: whether the driver takes the entries behind the refused one in the same call.
      count: the number of entries that were written.
      have: the entries in match tables: (table, key).
    """

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.goes_on, self.have = False, set()
        self.heal()

    def heal(self):
        self.count, self.refuses = 0, lambda *write: False

    def insert(self, entries):
        self._write("insert", super().insert, entries, self.have.add)

    def modify(self, entries):
        self._write("modify", super().modify, entries, lambda name: None)

    def delete(self, entries):
        self._write("delete", super().delete, entries, self.have.discard)

    def _write(self, operation, write, entries, note):
        refused = ""
        for entry in entries:
            self.count += 1
            if self.refuses(self.count, operation, entry):
                refused = f"the driver refuses to {operation} {entry}"
            if refused and not self.goes_on:
                break
            if not self.refuses(self.count, operation, entry):
                write([entry])
                note((entry.table, tuple(entry.key.items())))
        if refused:
            raise SystemCallError(refused)


class RefusingDryRun(Refusing, DryRun):
    pass


class RefusingChip(Refusing, ChipTables):
    pass


class Life:
    """A job of two workers on a plane: it begins, one of them is heard over UDP, the other one connects twice over RDMA
    or is heard as a child, and the job ends. The log takes what a call raises, as in the control service."""

    def __init__(self, plane):
        self.plane, self.combines = plane, isinstance(plane, AtpPlane)

    def begin(self, job):
        if self.combines:
            self.plane.combine_job(job, 0x55, SHAPE, COMBINE)
        else:
            self.plane.add_job(job, 0x55, SHAPE)
        return self.plane.part_of(job)

    def join(self, part):
        """Returns the errors."""
        comes = self.hear if self.combines else self.connect
        return [self.attempt(self.hear, part, 1), self.attempt(comes, part, 0), self.attempt(comes, part, 0)]

    def end(self, job):
        if not self.combines:
            self.attempt(self.plane.abort_job, job, "WORKER_LOST", "")
        self.attempt(self.plane.remove_job, job)

    def live(self, job):
        """Returns how many writes it took, or were tried."""
        with contextlib.suppress(SystemCallError):  # the job could not begin, and its caller knows
            self.join(self.begin(job))
            self.end(job)
        return self.plane._tables.count

    def hear(self, part, worker):
        station = {"mac": 1, "ip": 0xC6124001 + worker, "port": 40000 + worker, "ingress_port": 5 * worker}
        self.plane._on_digest(Digest("heard", {"rid": part.rid(worker), **station}))

    def connect(self, part, worker):
        end = QueuePairs(f"198.18.64.{worker + 1}", 4791, 2048, tuple(range(7, 8 + SHAPE.slots)), 5, 6, 0x100000)
        return self.plane.connect_queue_pairs(part.id, worker, end)

    def attempt(self, call, *arguments):
        try:
            call(*arguments)
        except SystemCallError as error:
            return error
        return None


def plane_on(tables, size):
    return (AtpPlane if size == "atp" else TofinoPlane)(tables, description(size))


@contextlib.contextmanager
def running_plane(tables, size):
    plane = plane_on(tables, size)
    try:
        yield plane
    finally:
        plane.stop()


@pytest.fixture(autouse=True)
def packets_leave_at_once(monkeypatch):
    monkeypatch.setattr(journal, "PACKET_LIFETIME", 0)


WHICH = {
    "one write": lambda at: lambda number, operation, entry: number == at,
    "all from it on": lambda at: lambda number, operation, entry: number >= at,
    "all deletions from it on": lambda at: lambda number, operation, entry: number >= at and operation == "delete",
}


@pytest.mark.parametrize("refused", WHICH)
@pytest.mark.parametrize("size", ["one-pipe", "atp"])
@pytest.mark.parametrize(
    "goes_on", [pytest.param(True, id="dry run"), pytest.param(False, id="interpreter", marks=pytest.mark.nightly)]
)
def test_whichever_write_is_refused_no_later_job_meets_what_is_left(goes_on, size, refused):
    tables = RefusingDryRun() if goes_on else RefusingChip(Program(text_of(size)), 0)
    with running_plane(tables, size) as plane:
        life, before, jobs = Life(plane), set(tables.have), itertools.count(1)
        tables.goes_on = goes_on
        for at in itertools.count(1):
            tables.heal()
            tables.refuses = WHICH[refused](at)
            written = life.live(next(jobs))
            left = tables.have - before
            assert plane._pool.leaving or not left, f"write {at}"
            if refused != "all deletions from it on":
                tables.heal()
            following = life.begin(next(jobs))
            for leaving in plane._pool.leaving.values():
                assert following.index != leaving.index, f"write {at}"
                assert size == "atp" or abs(following.slot_base - leaving.slot_base) >= SHAPE.slots, f"write {at}"
            assert plane._pool.leaving or not left & tables.have, f"write {at}"
            tables.heal()
            assert not any(life.join(following)) and set(following.stations) == {0, 1}, f"write {at}"
            life.end(following.id)
            assert tables.have == before and not plane._pool.taken, f"write {at}"
            if written < at:
                break
        assert at > 40


def test_a_worker_whose_entries_are_refused_is_heard_when_it_comes_again():
    for size in ("one-pipe", "atp"):
        tables = RefusingDryRun()
        with running_plane(tables, size) as plane:
            life = Life(plane)
            part = life.begin(7)
            inserts = 0
            while 1 not in part.stations:
                inserts += 1
                tables.heal()
                tables.refuses = lambda number, operation, entry, at=inserts: number == at
                assert life.attempt(life.hear, part, 1) is None or not part.stations
            assert inserts > 3


def test_jobs_that_cannot_begin_fill_no_table():
    tables = RefusingDryRun()
    with running_plane(tables, "atp") as plane:
        before = set(tables.have)
        tables.refuses = lambda number, operation, entry: operation == "insert" and "admission" in entry.table
        for _ in range(17):
            with pytest.raises(SystemCallError, match="refuses to insert"):
                Life(plane).begin(5)
        assert tables.have == before


def test_a_refusal_names_what_removed_jobs_keep():
    tables = RefusingDryRun()
    with running_plane(tables, "one-pipe") as plane:
        life, whole = Life(plane), JobShape(devices=2, workers=2, slots=1020, block_size=64, blocks_per_chunk=1)
        plane.add_job(7, 0x55, whole)
        tables.refuses = lambda number, operation, entry: operation == "delete"
        plane.remove_job(7)
        with pytest.raises(JobRejectedError, match=r"4 are free.*1 jobs have ended.*restart `jaxina switch`"):
            plane.add_job(8, 0x55, whole)
        with pytest.raises(JobRejectedError, match="still has an earlier job 7"):
            life.begin(7)
        assert plane.statistics()["jobs"] == {}
        tables.heal()
        plane.add_job(8, 0x55, whole)


class Chip:
    """An interpreted chip whose driver refuses writes, and endpoints at its ports."""

    def __init__(self):
        self.tables = RefusingChip(Program(text_of("one-pipe")), 0)
        self.plane = plane_on(self.tables, "one-pipe")
        self.link = ChipLink(self.tables)
        for endpoint in ("old0", "old1", "new0", "new1"):
            self.link.open(endpoint)

    def send(self, endpoint, job, worker, epoch, value):
        """Sends an update. Returns the first words of the results that come back, by endpoint."""
        head = HEADER.pack(MAGIC, 1, 1, job, 0x55, worker, 0, epoch, 0x1234, 64, 0, 0)
        body = head + words(value)
        self.link.send(endpoint, (ADDRESS, UDP_PORT), body + struct.pack(">I", zlib.crc32(body)))
        return {to: struct.unpack(">i", data[40:44])[0] for to, _, data in self.link.receive(0) if data[3] == 2}

    def write(self, endpoint, end, value):
        """Sends an update over RDMA."""
        head = struct.pack(">BBHIIQIII", 0x2B, 0, 0xFFFF, end.qpns[0], 0, 0, end.rkey, 256, 0x1234)
        self.link.send(endpoint, (ADDRESS, ROCE_PORT), head + words(value) + bytes(4))
        self.link.receive(0)


def words(value):
    return struct.pack(">64i", *[value] * 64)


@pytest.mark.parametrize(
    "operation,table,times",
    [
        ("insert", "$pre.node", 1),
        ("modify", "udp_updates", 1),
        ("delete", "udp_updates", 2),
        ("delete", "roce_writes", 1000),
    ],
)
def test_a_dead_jobs_workers_change_no_sum_of_the_next_one(operation, table, times):
    made = Chip()
    try:
        plane, old = made.plane, Life(made.plane)
        part = old.begin(7)
        end = plane.connect_queue_pairs(7, 1, QueuePairs("198.18.64.2", 40000, 2048, (1, 2, 3, 4, 5), 5, 6, 0x100000))
        made.send("old0", 7, 0, 0, 10)  # only heard
        refusals = itertools.count()
        made.tables.refuses = lambda _, what, entry: (
            what == operation and table in entry.table and next(refusals) < times
        )
        old.attempt(old.connect, part, 0)
        old.end(7)
        if operation != "delete":
            made.tables.heal()
        plane.add_job(8, 0x55, SHAPE)
        made.tables.heal()
        for worker in (0, 1):
            made.send(f"new{worker}", 8, worker, 5, 0)  # only heard
        assert made.send("new0", 8, 0, 0, 1000) == {}
        made.write("old1", end, 11)
        made.send("old0", 7, 0, 0, 10)
        assert made.send("new1", 8, 1, 0, 2000) == {"new0": 3000, "new1": 3000}
    finally:
        made.plane.stop()


@pytest.mark.parametrize("error", [SystemCallError("the driver refuses"), KeyError("rid"), RuntimeError("the client")])
def test_digests_are_heard_after_one_that_went_wrong(tmp_path, caplog, error):
    class Tables(DryRun):
        broken = False

        def next_digest(self, timeout):
            if self.broken:
                raise error
            return super().next_digest(timeout)

    file = tmp_path / "chip.toml"
    file.write_text(CHIP.format(size="one-pipe"))
    tables, told = Tables(), []
    plane = TofinoPlane(tables, chip.read(file))
    try:
        plane.add_job(7, 0x55, SHAPE)
        wrong = [True]

        def ended(*what):
            if wrong.pop() if wrong else False:
                raise error
            told.append(what)

        plane.ended = ended
        digest = Digest("contradiction", {"rid": 1 << 5 | 1, "slot_index": 0})
        tables.digests.put(digest)
        tables.digests.put(digest)
        assert soon(lambda: told)
        tables.broken = True
        assert soon(lambda: "waiting for digests" in caplog.text)
        tables.broken = False
        tables.digests.put(digest)
        assert soon(lambda: len(told) == 2)
    finally:
        plane.stop()
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [bool(record.exc_info) for record in logged] == [not isinstance(error, SystemCallError)] * 2
