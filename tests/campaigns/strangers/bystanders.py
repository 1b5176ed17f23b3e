"""The attacked side: a switch, and jobs whose workers sum back to back and check every sum."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import pathlib
import socket
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import real_processes.switch
from real_processes.members import FileStore, OneDeviceEach
from real_processes.trial import fork

from jaxina import _native, config, job, joining
from jaxina.control.client import SwitchClient
from jaxina.errors import JaxinaError
from strangers.network import HUB, Network

CONTROL_PORT, DATA_PORT, RDMA_PORT = 51_000, 51_001, 4791
TENSORS = 4  # used by turns, so that an old sum is a wrong one
_UP_WITHIN = 60.0  # seconds in which a job must begin to sum
_ANSWER_WITHIN = 2.0  # seconds that an honest caller waits for an answer
_ADDRESS_SPACE = 16 << 30  # limits the switch, so that it runs out of memory before the machine does
_RDMA_PACKETS = (12 + 16 + 4096 + 4, 12 + 4096 + 4)  # FIRST and MIDDLE at loopback's MTU, with headers and ICRC


class Switch(real_processes.switch.Switch):
    """A switch with RDMA in the hub's namespace. It may not have a larger receive buffer than any user gets."""

    def __init__(self, network: Network, threads: int):
        self.threads = threads
        rights = ("setpriv", "--pdeathsig", "KILL", "--bounding-set=-net_admin", "--inh-caps=-net_admin")
        prefix = (*rights, "prlimit", f"--as={_ADDRESS_SPACE}")
        options = ("--data-ports", f"{DATA_PORT}-{DATA_PORT + threads - 1}", "--rdma", f"{HUB}:{RDMA_PORT}")
        super().__init__(f"{HUB}:{CONTROL_PORT}", (*network.run_in("hub"), *prefix), options, threads)

    @property
    def data_ports(self) -> tuple[int, ...]:
        return tuple(range(DATA_PORT, DATA_PORT + self.threads))

    def usage(self) -> Usage:
        """Returns the usage of the switch's process. Raises ProcessLookupError if the switch has ended."""
        if self.process.poll() is not None:
            raise ProcessLookupError(f"the switch ended, exit code {self.process.returncode}")
        proc = pathlib.Path(f"/proc/{self.process.pid}")
        lines = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines() if ":" in line)
        return Usage(int(lines["VmRSS"].split()[0]) >> 10, int(lines["Threads"]), _processor(self.process.pid))


def _processor(pid: int | None) -> float:
    """Returns the processor time that the process has had, in seconds."""
    times = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def machine_processor() -> float:
    """Returns the processor time that everything on the machine has had, in seconds."""
    user, nice, system, _, _, interrupts, soft, stolen, *_ = pathlib.Path("/proc/stat").read_text().split()[1:11]
    return sum(map(int, (user, nice, system, interrupts, soft, stolen))) / os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Usage:
    """What the switch's process uses."""

    mib: int  # resident memory
    threads: int
    processor: float  # seconds of processor time so far


def _work(
    rank: int, workers: int, folder: str, settings: Any, elements: int, network: Network, counts: Any, tell: Any
) -> None:
    """Sums until it is killed or an error ends it. counts[2 * rank] counts sums, counts[2 * rank + 1] wrong sums."""
    try:
        network.enter("hub")
        joining.jax_store = lambda: FileStore(pathlib.Path(folder))
        job._current = job._start(config.resolve(**settings), OneDeviceEach(rank, workers), 1)
        places = np.arange(elements, dtype=np.int64)
        patterns = [(places * (7 + turn) + turn) % 1000 for turn in range(TENSORS)]
        mine = [(pattern + rank).astype(np.float32) for pattern in patterns]
        all_ranks = sum(range(workers))
        expected = [(pattern * workers + all_ranks).astype(np.float32).view(np.uint32) for pattern in patterns]
        group = list(range(workers))
        turn = 0
        while True:
            total = _native.all_reduce(group, rank, mine[turn])
            if not np.array_equal(np.asarray(total).view(np.uint32), expected[turn]):
                counts[2 * rank + 1] += 1
            counts[2 * rank] += 1
            turn = (turn + 1) % TENSORS
    except JaxinaError as error:
        tell.send(f"worker {rank}: {error.code}: {error.message}")


class Job:
    """A job of worker processes. As a context manager it ends all of them."""

    def __init__(self, network: Network, switch: Switch, transport: str, workers: int, elements: int):
        self._folder = tempfile.TemporaryDirectory(prefix="strangers-")
        self._counts = fork.RawArray(ctypes.c_uint64, 2 * workers)
        self._workers = workers
        self._heard, tell = fork.Pipe(duplex=False)
        settings = {"aggregator": transport, "switch": switch.address, "join_timeout": 30.0, "timeout": 30.0}
        self.processes = []
        for rank in range(workers):
            arguments = (rank, workers, self._folder.name, settings, elements, network, self._counts, tell)
            self.processes.append(fork.Process(target=_work, args=arguments, daemon=True))
            self.processes[-1].start()
        tell.close()

    def __enter__(self) -> Job:
        deadline = time.monotonic() + _UP_WITHIN
        while self.sums < 10:
            if (error := self.error()) or time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError(error or f"the job does not sum within {_UP_WITHIN:g} s")
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()
        self._folder.cleanup()

    @property
    def sums(self) -> int:
        """The number of sums that every worker has."""
        return min(self._counts[0::2])

    @property
    def processor(self) -> float:
        """The processor time that the workers have had, in seconds."""
        return sum(_processor(process.pid) for process in self.processes)

    @property
    def wrong(self) -> int:
        return sum(self._counts[1::2])

    def error(self) -> str:
        """Returns why the job has ended, or an empty string while it runs."""
        while self._heard.poll():
            try:
                return str(self._heard.recv())
            except EOFError:
                return "the workers have ended"
        return ""


def overhear(network: Network, ports: tuple[int, ...], tell: Any, packets: int = 500, seconds: float = 3.0) -> None:
    """Listens to packets for these ports of the switch, and sends them through the pipe: [(port, payload)]."""
    network.enter("hub")
    heard: list[tuple[int, bytes]] = []
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003)) as tap:  # all protocols
        tap.bind(("lo", 0x0003))
        tap.settimeout(0.1)
        deadline = time.monotonic() + seconds
        while len(heard) < packets and time.monotonic() < deadline:
            try:
                packet = tap.recv(1 << 16)
            except TimeoutError:
                continue
            ip = 4 * (packet[0] & 15)
            port = int.from_bytes(packet[ip + 2 : ip + 4], "big")
            if packet[9] == socket.IPPROTO_UDP and port in ports:
                heard += [(port, payload) for payload in _packets_of(packet[ip + 8 :], port == RDMA_PORT)]
    tell.send(tuple(heard))


def _packets_of(datagram: bytes, rdma: bool) -> Iterator[bytes]:
    """Splits what the tap saw into packets. The tap sees merged datagrams, before the kernel cuts them."""
    if rdma:
        # A merged datagram has only FIRST or only MIDDLE packets. A datagram of another length is a packet by itself,
        # or is left out.
        whole = next((size for size in _RDMA_PACKETS if len(datagram) % size == 0), len(datagram))
        if whole <= max(_RDMA_PACKETS):
            yield from (datagram[at : at + whole] for at in range(0, len(datagram), whole))
        return
    while len(datagram) >= 36:
        size = 36 + (datagram[30] + 3) // 4 * 4 + 4 * int.from_bytes(datagram[28:30], "big")
        yield datagram[:size]
        datagram = datagram[size:]


def try_to_come_in(network: Network, address: str, tell: Any) -> None:
    """Asks for a job as an honest newcomer in the hub. Sends the error's code, or an empty string if it got the job."""
    network.enter("hub")
    try:
        with SwitchClient(address, _ANSWER_WITHIN) as client:
            shape = dict(devices=2, workers=2, slots=128, block_size=256, blocks_per_chunk=1)
            client.create_job(**shape, join_timeout=1.0, heartbeat_timeout=5.0)
        tell.send("")
    except JaxinaError as error:
        tell.send(error.code)
