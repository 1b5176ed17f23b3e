"""The devices that are atp.p4, in the P4 interpreter and in the chip's model, with the project's controller."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from interpreter.controller_tables import ChipTables
from interpreter.errors import UndefinedError
from interpreter.program import Program

from conformance import datagram
from conformance.combiner_specification import children_of
from conformance.devices import ATP_ON_TOFINO
from conformance.devices.combiner import introduction, sender_of
from conformance.devices.compiled import Compiled
from conformance.devices.harness import HarnessError
from conformance.devices.interpreter import ADDRESS, ChipLink, TablesOfAChip, WrongWayError, description
from conformance.devices.model_tables import ModelTables
from conformance.devices.program import names_of
from conformance.vector import Job, Packet, Receive, Value, Vector
from jaxina._native import JobShape
from jaxina.control.roles import Child, Combine
from jaxina.controller.atp_plane import AtpPlane
from jaxina.controller.atp_pool import ENTRIES
from jaxina.controller.chip import ATP
from jaxina.controller.chip_plane import UDP_PORT

TO = (ADDRESS, UDP_PORT)  # where children and servers send
WARM_UP = 10_000  # milliseconds; entries of a chip that has just begun seem taken for a lifetime


class TimedTables(TablesOfAChip, Protocol):
    """A chip that is no hardware, whose time passes when it is told."""

    def wait(self, milliseconds: int) -> None: ...


class AtpDevice:
    """A chip that runs atp.p4. Each vector has a chip of its own, from `fresh_tables`.

    Attributes:
      tables: the chip of this vector.
      plane: its controller.
      link: the way to its ports.
      names: the numbers of its jobs.
    """

    abilities = ATP_ON_TOFINO
    block_sizes = frozenset({ATP.words})

    def begin(self, vector: Vector) -> None:
        self.names = names_of(vector)
        self._came: list[Receive] = []
        self.tables = self.fresh_tables()
        self.tables.wait(WARM_UP)
        self.plane = AtpPlane(self.tables, description(ATP.name), vector.entries or ENTRIES)
        self.link = ChipLink(self.tables)
        for job in vector.jobs:
            for endpoint in (*(f"{job.name}s{number}" for number in range(job.servers)), *children_of(job)):
                self.link.open(endpoint)
            self.register(job)
        self._before = {job.name: self._totals(job.name) for job in vector.jobs}

    def fresh_tables(self) -> TimedTables:
        raise NotImplementedError

    def send(self, endpoint: str, packet: Packet) -> None:
        try:
            self.link.send(endpoint, TO, datagram.encode(packet, self.names))
        except (UndefinedError, WrongWayError, HarnessError) as error:
            failure = Packet("impossible", {"why": str(error).replace(" ", "_")})
            self._came.append(Receive(endpoint, failure))

    def wait(self, milliseconds: int) -> None:
        self.tables.wait(milliseconds)

    def replies(self, expected: int) -> list[Receive]:
        """There is nothing to wait for: send() has taken the packet all the way."""
        for endpoint, _, payload in self.link.receive(0):
            self._came.append(Receive(endpoint, datagram.decoded(payload, self.names, False)))
        came, self._came = self._came, []
        return came

    def state(self, job: str, slot: int, version: int) -> dict[str, Value | None]:
        raise NotImplementedError("a switch that combines updates has no slots")

    def counts(self, job: str) -> dict[str, int]:
        if job == "-":
            return dict(self.plane.statistics()["rejected"])
        before = self._before[job]
        return {name: value - before.get(name, 0) for name, value in self._totals(job).items()}

    def end(self) -> None:
        self.plane.stop()

    def close(self) -> None:
        """Does nothing: no chip outlasts its vector."""

    def register(self, job: Job) -> None:
        """Makes a job whose endpoints are there. The chip learns each child's address from its first packet."""
        upstream = tuple(self.link.address_of(f"{job.name}s{number}") for number in range(job.servers))
        children = children_of(job)
        members = tuple(
            Child(workers, int(sender[1:]) if isinstance(sender := sender_of(job, endpoint), str) else None)
            for endpoint, workers in children.items()
        )
        shape = JobShape(
            devices=job.workers, workers=job.workers, slots=job.slots, block_size=job.block, blocks_per_chunk=job.blocks
        )
        ids = self.names.jobs[job.name], self.names.secrets[job.name]
        self.plane.combine_job(*ids, shape, Combine(0, members, upstream))
        for endpoint in children:
            self.send(endpoint, introduction(job, endpoint))
        assert not self.replies(0), "the packets from which a chip learns addresses are dropped"

    def _totals(self, job: str) -> dict[str, int]:
        counted = self.plane.statistics()["jobs"][self.names.jobs[job]]
        return {**{name: value for name, value in counted.items() if name != "rejected"}, **counted["rejected"]}


class _ChipTables(ChipTables):
    def __init__(self, program: Program, pipe: int):
        super().__init__(program, pipe)
        self._now = 0
        self.chip.now = lambda: self._now

    def wait(self, milliseconds: int) -> None:
        self._now += milliseconds * 1_000_000


class InterpretedAtp(AtpDevice):
    """The interpreted program, of this preprocessed text."""

    def __init__(self, text: str):
        self.name = "atp.p4"
        self._program = Program(text)

    def fresh_tables(self) -> TimedTables:
        return _ChipTables(self._program, ATP.pool_pipe)


class ModelAtp(AtpDevice):
    """The compiled program in the chip's model, as in model.py. `harness` is the model's packet test harness, `program`
    the folder of the compilation."""

    def __init__(self, harness: Path, program: Path):
        self.name = "the compiled atp.p4, in the model"
        self._harness, self._program = harness, Compiled(program)

    def fresh_tables(self) -> TimedTables:
        return ModelTables(self._harness, self._program, ATP)
