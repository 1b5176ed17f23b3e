"""Reads the state of a slot's version from a chip's registers (p4/README.md, "Registers")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from interpreter.errors import UndefinedError
from interpreter.values import Unknown
from interpreter.values import Value as Held

from conformance.vector import Value
from jaxina.controller.pool import Job

_EPOCHS = 2**32
_NO_PASS = (0xFFFFFFFF, 0)  # the epochs in the tags of versions that were never used, by the version's number
_ADDERS = 32


class Cells(Protocol):
    """The registers of a chip."""

    def cell(self, pipe: int, register: str, index: int) -> Mapping[str, Held]:
        """Returns the fields of a register's cell in a pipe; none if nothing has been written there."""
        ...

    def set_field(self, register: str, index: int, field: str, value: int) -> None:
        """Changes one field of a cell in all pipes."""
        ...


class Registers:
    """The registers of a chip. `pipes` is how many of its pipes hold words."""

    def __init__(self, cells: Cells, pipes: int):
        self._cells = cells
        self._pipes = range(pipes)

    def begin_with(self, job: Job, epoch: int) -> None:
        """Sets the turn of a fresh job's slots."""
        for slot in range(job.slots):
            self._cells.set_field("Ingress.slot_turn.turns", job.slot_base + slot, "turn", epoch)

    def state(self, job: Job, slot: int, version: int) -> dict[str, Value | None]:
        """Returns the state by the names of a vector's `state` line. `exponents` is None if the register holds 0,
        because 0 also stands for no exponent."""
        at = job.version_index(slot, version)
        tag = self._known("pass_tag.tags", at, "epoch")
        if tag == _NO_PASS[version]:
            turn = self._known("slot_turn.turns", job.slot_base + slot, "turn")
            back = 1 if (turn - 1) % 2 == version else 2
            never = {"epoch": (turn - back) % _EPOCHS, "count": job.workers}
            return {**never, "seen": (), "exponents": (), "words": ()}
        words = self._words(at)
        # The last pipe that has words of a pass counts its workers.
        counting = -1 if words else 0
        stamp = ("even", "odd")[version]
        seen = [
            worker
            for worker in range(job.workers)
            if self._known("worker_stamp.stamps", job.stamp_index(slot, worker), stamp, counting) == tag
        ]
        missing = self._known("worker_count.missing", at, "f1", counting)
        # An exponent comes before the words of a datagram, so the first pipe sees it. It comes behind the words of an
        # RDMA message, so the last pipe sees it.
        pipe = self._pipes[counting if job.over_rdma else 0]
        exponent = self._cells.cell(pipe, "Ingress.exponent_maximum.exponents", at).get("f1", 0)
        return {
            "epoch": tag,
            "count": job.workers - missing,
            "seen": tuple(seen),
            "exponents": (exponent,) if exponent else None,
            "words": words,
        }

    def _words(self, at: int) -> tuple[int, ...]:
        """Returns the words of a version, or () for a pass without words, whose words no packet has set."""
        words: list[int] = []
        for pipe in self._pipes:
            cells = [self._cells.cell(pipe, f"Ingress.adder_{adder:02}.words", at) for adder in range(_ADDERS)]
            for half in ("low", "high"):
                for cell in cells:
                    word = cell.get(half)
                    if word is None or isinstance(word, Unknown):
                        return ()
                    words.append(word - (word >> 31 << 32))
        return tuple(words)

    def _known(self, name: str, at: int, field: str, pipe: int = 0) -> int:
        cell = self._cells.cell(self._pipes[pipe], f"Ingress.{name}", at)
        if not cell:
            raise UndefinedError(f"nothing has been written to cell {at} of {name} in pipe {self._pipes[pipe]}")
        return cell[field].__index__()
