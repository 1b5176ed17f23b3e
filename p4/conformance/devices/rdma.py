"""The workers' ends of RDMA connections to a device."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from conformance import datagram, rdma_packet
from conformance.devices.links import Address, Link
from conformance.rdma_packet import End, Memory
from conformance.rdma_specification import BEGINS, PLACES
from conformance.vector import Job, Packet, Receive

Connect = Callable[[str, int, End, int], End]  # (job, worker, worker's end, MTU) -> switch's end


class RdmaWorkers:
    """The workers of a vector's jobs. Each has an endpoint, and queue pairs that are connected to the device's."""

    def __init__(self, link: Link, names: datagram.Names, check_icrc: bool = True):
        self._link = link
        self._check_icrc = check_icrc
        self._names = names
        self._addresses: dict[str, Address] = {}
        self._ours: dict[str, End] = {}
        self._theirs: dict[str, End] = {}
        self._memory: dict[str, Memory] = {}
        self._passes: dict[str, dict[str, Packet]] = {}  # by endpoint and place of the result

    def connect(self, job: Job, connect: Connect) -> None:
        for worker in range(job.workers):
            endpoint = f"{job.name}{worker}"
            address, port = self._addresses[endpoint] = self._link.open(endpoint)
            number = len(self._ours) + 1
            # All numbers differ between workers, so that a mix-up shows.
            ours = End(
                address=address,
                udp_port=port,
                qpns=tuple(0x1000 * number + queue for queue in range(job.slots + 1)),
                psn=0,
                rkey=zlib.crc32(endpoint.encode()),
                memory=0x10_0000_0000 * number,
            )
            self._ours[endpoint] = ours
            self._theirs[endpoint] = connect(job.name, worker, ours, job.mtu)
            self._memory[endpoint] = Memory(job)
            self._passes[endpoint] = {}

    def send(self, endpoint: str, packet: Packet) -> None:
        owner = f"{packet['job']}{packet['worker']}"  # the endpoint to which the named queue pair belongs
        if packet.kind in BEGINS:
            self._passes[endpoint][f"{packet['slot']}.{int(packet['epoch']) % PLACES}"] = packet
        switch = self._theirs[owner]
        to = (switch.address, switch.udp_port)
        covered = rdma_packet.encode(packet, switch)
        covered += rdma_packet.icrc(self._addresses[endpoint], to, covered)
        self._link.send(endpoint, to, covered)

    def decode(self, endpoint: str, sender: Address, payload: bytes) -> Receive:
        ours, switch = self._ours[endpoint], self._theirs[endpoint]
        try:
            if self._check_icrc:
                rdma_packet.check_icrc(sender, self._addresses[endpoint], payload)
            packet = rdma_packet.decode(
                payload, ours, switch, self._memory[endpoint], self._names, self._passes[endpoint]
            )
        except ValueError as error:
            packet = Packet("unreadable", {"why": str(error).replace(" ", "_")})
        return Receive(endpoint, packet)
