"""The device that is the compiled program in the chip's model, with the project's controller behind its control
service."""

from __future__ import annotations

from pathlib import Path

from conformance.devices import TOFINO
from conformance.devices.compiled import Compiled
from conformance.devices.interpreter import ChipDevice
from conformance.devices.model_tables import ModelTables
from conformance.vector import Packet, Receive, Value, Vector
from jaxina.controller.chip import SIZES


class ModelDevice:
    """A model for each vector, in the size `size`.

    Args:
      size: the program's size.
      harness: the model's packet test harness.
      program: the folder of the compilation, with tofino.bin and context.json in it or below it.
    """

    def __init__(self, size: str, harness: Path, program: Path):
        words = SIZES[size].words
        self.name = f"the compiled program in the size {size}, in the model"
        self.abilities = TOFINO[words] | {"state", "first_epoch"}
        self.block_sizes = {words}
        self._size, self._harness, self._program = size, harness, Compiled(program)

    def begin(self, vector: Vector) -> None:
        tables = ModelTables(self._harness, self._program, SIZES[self._size])
        self._device = ChipDevice(self._size, tables)
        self._device.begin(vector)

    def send(self, endpoint: str, packet: Packet) -> None:
        self._device.send(endpoint, packet)

    def replies(self, expected: int) -> list[Receive]:
        return self._device.replies(expected)

    def state(self, job: str, slot: int, version: int) -> dict[str, Value | None]:
        found = self._device.state(job, slot, version)
        return {**found, "words": found.get("words") or None}  # zeros also stand for no words

    def counts(self, job: str) -> dict[str, int]:
        return self._device.counts(job)

    def end(self) -> None:
        self._device.end()
        self._device.close()

    def close(self) -> None:
        """Does nothing: no model outlasts its vector."""
