"""Which process owns which device."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Sequence
from typing import Protocol

from jaxina._native import SECOND_STREAM
from jaxina.errors import InvalidArgumentError


class Topology(Protocol):
    """Which process owns which device."""

    process: int  # this process's number
    processes: int

    def owners(self, devices: Sequence[int]) -> list[int]:
        """The process of each device. Devices are given as global ids, of either stream (`SECOND_STREAM`)."""
        ...


class JaxTopology:
    """The topology that JAX knows.

    It asks JAX for devices only when a group is first used, because asking starts JAX's backend.
    """

    def __init__(self, process: int, processes: int):
        self.process = process
        self.processes = processes

    def owners(self, devices: Sequence[int]) -> list[int]:
        if self.processes == 1:
            return [self.process] * len(devices)
        import jax

        process_of = {device.id: device.process_index for device in jax.devices()}
        return [process_of[device % SECOND_STREAM] for device in devices]

    def only_devices(self) -> list[int]:
        """The global id of each process's device, by process number.

        Raises:
          InvalidArgumentError: a process has more than one device.
        """
        import jax

        device_of = {device.process_index: device.id for device in jax.devices()}
        if len(device_of) != jax.device_count():
            raise InvalidArgumentError(
                "XLA hands its own collectives to jaxina only if each process has one device, but here "
                f"{len(device_of)} processes have {jax.device_count()} devices"
            )
        return [device_of[process] for process in range(self.processes)]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a process runs. It is shown in messages, and tells whether two processes can share memory.

    Attributes:
      host: the host's name.
      pid: the process's id.
      machine: the same for all processes under one running kernel, and different for others.
    """

    host: str
    pid: int
    machine: str

    def __str__(self) -> str:
        return f"host {self.host}, pid {self.pid}"


def this_place() -> Place:
    """Where this process runs."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            machine = file.read().strip()
    except OSError:
        machine = socket.gethostname()
    return Place(socket.gethostname(), os.getpid(), machine)
