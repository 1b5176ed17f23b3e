"""Reads the state of a slot's version from the interpreted chip's registers (p4/README.md, "Registers")."""

from __future__ import annotations

from interpreter.chip import Chip
from interpreter.errors import UndefinedError
from interpreter.values import Unknown

from conformance.vector import Value
from jaxina.controller.pool import Job

_EPOCHS = 2**32
_NO_PASS = (0xFFFFFFFF, 0)  # the epochs in the tags of versions that were never used, by the version's number
_ADDERS = 32


class Registers:
    """The registers of a chip. `pipes` is how many of its pipes hold words."""

    def __init__(self, chip: Chip, pipes: int):
        self._pipes = [memory.registers for memory in chip.pipes[:pipes]]

    def begin_with(self, job: Job, epoch: int) -> None:
        """Sets the turn of a fresh job's slots."""
        for slot in range(job.slots):
            for registers in self._pipes:
                cell = registers["Ingress.slot_turn.turns"][job.slot_base + slot]
                cell["turn"] = epoch

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
        pipe = self._pipes[counting if job.ends else 0]
        exponent = pipe["Ingress.exponent_maximum.exponents"].get(at, {}).get("f1", 0)
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
        for registers in self._pipes:
            for half in ("low", "high"):
                for adder in range(_ADDERS):
                    word = registers[f"Ingress.adder_{adder:02}.words"].get(at, {}).get(half)
                    if word is None or isinstance(word, Unknown):
                        return ()
                    words.append(word - (word >> 31 << 32))
        return tuple(words)

    def _known(self, name: str, at: int, field: str, pipe: int = 0) -> int:
        cells = self._pipes[pipe][f"Ingress.{name}"]
        if at not in cells:
            raise UndefinedError(f"nothing has been written to cell {at} of {name} in pipe {pipe % len(self._pipes)}")
        return cells[at][field].__index__()
