"""The device that is a switch behind a control service.

Jobs are made, joined and connected as workers do it, so every backend of `jaxina switch` can be tested.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from conformance import datagram
from conformance.devices import probe
from conformance.devices.links import Address, Link
from conformance.devices.rdma import RdmaWorkers
from conformance.rdma_packet import End
from conformance.vector import Job, Packet, Receive, Value, Vector

_CONTROL_TIMEOUT = 10.0
_JOB_TIMEOUT = 600.0
_LEARNS_WITHIN = 20.0
_AGAIN_AFTER = 0.2
_LOOK_AFTER = 0.01


class SwitchDevice:
    """A switch.

    Args:
      control: HOST:PORT of the control service.
      address: the IPv4 address to which packets are sent.
      link: the link to the switch.
      abilities: what the switch can do, see devices/__init__.py.
      block_sizes: the block sizes that it serves, in words.
    """

    def __init__(
        self,
        control: str,
        address: str,
        link: Link,
        abilities: Iterable[str],
        block_sizes: set[int],
    ):
        # Imported here, because the other devices do not need jaxina to be installed.
        from jaxina.control.client import SwitchClient

        self.name = f"the switch at {control}"
        self.abilities = set(abilities)
        self.block_sizes = block_sizes
        self._address = address
        self._link = link
        self._client = SwitchClient(control, _CONTROL_TIMEOUT)

    def begin(self, vector: Vector) -> None:
        self._names = datagram.Names({"unknown": 0}, {"wrong": 0x0BAD, "unknown": 0xDEAD})
        self._ports: list[int] = []
        self._sessions: list[Any] = []
        self._addresses: dict[str, Address] = {}
        self._came: list[Receive] = []
        self._rdma = "rdma" in vector.needs
        self._workers = RdmaWorkers(self._link, self._names, "checksum" in self.abilities)
        mtu, block = vector.jobs[0].mtu, vector.jobs[0].block
        ports = len(self._client.status().data_ports)
        probing = Job(probe.NAME, 1, 1 if self._rdma else ports, block, 1, mtu=mtu)  # each port has its slots
        for job in (probing, *vector.jobs):
            self._create(job)
        self._probe = probe.Probe(
            probing,
            self._link,
            lambda packet: self.send(probe.ENDPOINT, packet),
            lambda sender, payload: self._decode(probe.ENDPOINT, sender, payload).packet,
            self._take,
        )
        self._settle()
        self._came.clear()
        status = self._fresh_status()
        self._before = {"-": dict(status.rejected)}
        for job in vector.jobs:
            self._before[job.name] = self._totals(status, job.name)

    def send(self, endpoint: str, packet: Packet) -> None:
        if self._rdma:
            self._workers.send(endpoint, packet)
        else:
            port = self._ports[int(packet["slot"]) % len(self._ports)]
            self._link.send(endpoint, (self._address, port), datagram.encode(packet, self._names))

    def replies(self, expected: int) -> list[Receive]:
        self._settle()
        came, self._came = self._came, []
        return came

    def state(self, job: str, slot: int, version: int) -> dict[str, Value | None]:
        raise NotImplementedError("the control service does not tell registers")

    def counts(self, job: str) -> dict[str, int]:
        status = self._fresh_status()
        now = dict(status.rejected) if job == "-" else self._totals(status, job)
        before = self._before[job]
        counted = {name: value - before.get(name, 0) for name, value in now.items()}
        traffic = ("packets_sent", "bytes_")
        return {name: value for name, value in counted.items() if value and not name.startswith(traffic)}

    def end(self) -> None:
        for session in self._sessions:
            session.leave()
        self._link.close_endpoints()

    def close(self) -> None:
        self._client.close()
        self._link.close()

    def _settle(self) -> None:
        """Waits until `_came` has all of the switch's replies."""
        self._probe.settle()

    def _create(self, job: Job) -> None:
        grant = self._client.create_job(
            devices=job.workers,
            workers=job.workers,
            slots=job.slots,
            block_size=job.block,
            blocks_per_chunk=job.blocks,
            join_timeout=_JOB_TIMEOUT,
            heartbeat_timeout=_JOB_TIMEOUT,
            # Else RDMA messages carry a check, for which a packet processor has no room.
            whole_chunks=not job.narrow,
        )
        self._names.jobs[job.name] = grant.job
        self._names.secrets[job.name] = grant.secret
        self._ports = grant.data_ports
        self._sessions.append(
            self._client.join(
                grant.job,
                grant.secret,
                range(job.workers),
                heartbeat_timeout=_JOB_TIMEOUT,
                statistics=dict,
                aborted=lambda code, message: None,
            )
        )
        if self._rdma:
            self._workers.connect(job, self._connect)
            return
        for worker in range(job.workers):
            endpoint = f"{job.name}{worker}"
            self._addresses[endpoint] = self._link.open(endpoint)
            self._introduce(job, worker)

    def _connect(self, job: str, worker: int, end: End, mtu: int) -> End:
        from jaxina.control.data_plane import QueuePairs

        ours = QueuePairs(end.address, end.udp_port, mtu, end.qpns, end.psn, end.rkey, end.memory)
        ids = self._names.jobs[job], self._names.secrets[job]
        theirs = self._client.connect_queue_pairs(*ids, worker, ours)
        return End(self._address, theirs.udp_port, theirs.qpns, theirs.psn, theirs.rkey, 0)

    def _introduce(self, job: Job, worker: int) -> None:
        """Makes a worker's address known. A chip learns it from the worker's first packet, and drops that packet. So
        this sends a packet that changes nothing, until the switch counts it."""
        endpoint, packet = f"{job.name}{worker}", self._introduction(job, worker)
        deadline = time.monotonic() + _LEARNS_WITHIN
        before = self._totals(self._fresh_status(), job.name).get("ahead", 0)
        while time.monotonic() < deadline:
            self.send(endpoint, packet)
            again = time.monotonic() + _AGAIN_AFTER
            while time.monotonic() < again:
                if self._totals(self._client.status(), job.name).get("ahead", 0) > before:
                    return
                time.sleep(_LOOK_AFTER)
        raise TimeoutError(f"the switch does not know worker {worker} of job {job.name}")

    @staticmethod
    def _introduction(job: Job, worker: int) -> Packet:
        """Returns an update of an epoch that no slot has reached: it is refused, and changes nothing."""
        fields: dict[str, Value] = {
            "job": job.name,
            "secret": job.name,
            "worker": worker,
            "slot": 0,
            "epoch": 2,
            "fingerprint": 2,
            "exponents": (0,),
            "words": (),
        }
        return Packet("update", fields)

    def _fresh_status(self) -> Any:
        """Returns a status that the switch has made after this call began. The switch repeats a status for a while."""
        told = self._client.status().uptime_s
        while (status := self._client.status()).uptime_s == told:
            time.sleep(_LOOK_AFTER)
        return status

    def _totals(self, status: Any, name: str) -> dict[str, int]:
        (job,) = [job for job in status.jobs if job.job == self._names.jobs[name]]
        return {**job.counters, **job.rejected}

    def _take(self, endpoint: str, sender: Address, payload: bytes) -> None:
        self._came.append(self._decode(endpoint, sender, payload))

    def _decode(self, endpoint: str, sender: Address, payload: bytes) -> Receive:
        if self._rdma:
            return self._workers.decode(endpoint, sender, payload)
        return Receive(endpoint, datagram.decoded(payload, self._names, "checksum" in self.abilities))
