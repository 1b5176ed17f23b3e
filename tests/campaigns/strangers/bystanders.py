"""Those who must not notice the stranger: a switch, and a job whose workers sum back to back and check every sum."""

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

import death_campaign
import numpy as np

from jaxina import _native, config, job, joining
from jaxina.control.client import SwitchClient
from jaxina.errors import JaxinaError
from strangers.network import HUB, Network

CONTROL_PORT, DATA_PORT, RDMA_PORT = 51_000, 51_001, 4791
TENSORS = 4  # by turns, so that an old sum is a wrong one
_UP_WITHIN = 60.0  # seconds
_ANSWER_WITHIN = 2.0  # an honest caller's patience
_ADDRESS_SPACE = 16 << 30  # of the switch: it fails before the machine does
_RDMA_PACKETS = (12 + 16 + 4096 + 4, 12 + 4096 + 4)  # FIRST and MIDDLE at loopback's MTU, with headers and ICRC
_fork = death_campaign._fork


class Switch(death_campaign.Switch):
    """A switch with RDMA in the hub's namespace, with no right to a receive buffer beyond what any user gets."""

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
        """Raises ProcessLookupError if the switch has ended."""
        if self.process.poll() is not None:
            raise ProcessLookupError(f"the switch ended, exit code {self.process.returncode}")
        proc = pathlib.Path(f"/proc/{self.process.pid}")
        lines = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines() if ":" in line)
        return Usage(int(lines["VmRSS"].split()[0]) >> 10, int(lines["Threads"]), _processor(self.process.pid))


def _processor(pid: int | None) -> float:
    """Seconds of processor time that the process has had."""
    times = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def machine_processor() -> float:
    """Seconds of processor time that everything on the machine has had."""
    user, nice, system, _, _, interrupts, soft, stolen, *_ = pathlib.Path("/proc/stat").read_text().split()[1:11]
    return sum(map(int, (user, nice, system, interrupts, soft, stolen))) / os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Usage:
    """Of the switch's process."""

    mib: int  # resident
    threads: int
    processor: float  # seconds so far


def _work(
    rank: int, workers: int, folder: str, settings: Any, elements: int, network: Network, counts: Any, tell: Any
) -> None:
    """Sums until it is killed or an error ends it. counts[2 * rank] are sums, the next are wrong ones."""
    try:
        network.enter("hub")
        joining.jax_store = lambda: death_campaign.FileStore(pathlib.Path(folder))
        job._current = job._start(config.resolve(**settings), death_campaign.OneDeviceEach(rank, workers), 1)
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
    """Worker processes; a context manager that leaves none behind."""

    def __init__(self, network: Network, switch: Switch, transport: str, workers: int, elements: int):
        self._folder = tempfile.TemporaryDirectory(prefix="strangers-")
        self._counts = _fork.RawArray(ctypes.c_uint64, 2 * workers)
        self._workers = workers
        self._heard, tell = _fork.Pipe(duplex=False)
        settings = {"aggregator": transport, "switch": switch.address, "join_timeout": 30.0, "timeout": 30.0}
        self.processes = []
        for rank in range(workers):
            arguments = (rank, workers, self._folder.name, settings, elements, network, self._counts, tell)
            self.processes.append(_fork.Process(target=_work, args=arguments, daemon=True))
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
        """That every worker has."""
        return min(self._counts[0::2])

    @property
    def processor(self) -> float:
        """Seconds of processor time that the workers have had."""
        return sum(_processor(process.pid) for process in self.processes)

    @property
    def wrong(self) -> int:
        return sum(self._counts[1::2])

    def error(self) -> str:
        """Why the job has ended; empty while it runs."""
        while self._heard.poll():
            try:
                return str(self._heard.recv())
            except EOFError:
                return "the workers have ended"
        return ""


def overhear(network: Network, ports: tuple[int, ...], tell: Any, packets: int = 500, seconds: float = 3.0) -> None:
    """Sends through the pipe what goes by to these ports of the switch: [(port, payload)]."""
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
    """The tap sees merged datagrams, before the kernel cuts them."""
    if rdma:
        # Those of a merged one are all first or all middle packets of messages. Other lengths come alone, or are left out.
        whole = next((size for size in _RDMA_PACKETS if len(datagram) % size == 0), len(datagram))
        if whole <= max(_RDMA_PACKETS):
            yield from (datagram[at : at + whole] for at in range(0, len(datagram), whole))
        return
    while len(datagram) >= 36:
        size = 36 + (datagram[30] + 3) // 4 * 4 + 4 * int.from_bytes(datagram[28:30], "big")
        yield datagram[:size]
        datagram = datagram[size:]


def try_to_come_in(network: Network, address: str, tell: Any) -> None:
    """An honest newcomer from the hub asks for a job, and tells the error: empty if it got one."""
    network.enter("hub")
    try:
        with SwitchClient(address, _ANSWER_WITHIN) as client:
            shape = dict(devices=2, workers=2, slots=128, block_size=256, blocks_per_chunk=1)
            client.create_job(**shape, join_timeout=1.0, heartbeat_timeout=5.0)
        tell.send("")
    except JaxinaError as error:
        tell.send(error.code)
