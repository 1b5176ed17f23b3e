#!/usr/bin/env python3
"""Kills, stops and cuts off workers, fills disks, and checks that all others get the right error in time.

    tests/python/death_campaign.py --kills 100 --stops 20

Engine, shared memory, sockets and switch are the real ones. The processes sum without JAX, through
jaxina._native.all_reduce. They are forked from a process that has imported everything, so a trial takes only a second.
The seed decides which worker dies and when. The program prints a table. The exit code is 1 if a promise did not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import json
import multiprocessing
import os
import pathlib
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jaxina import _native, config, job, joining
from jaxina.errors import JaxinaError

_fork = multiprocessing.get_context("fork")
_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000

_ELEMENTS = 200_000
_UP_WITHIN = 60.0  # seconds in which all workers of a trial must have summed once
_END_WITHIN = 30.0  # seconds in which a worker must report an error and end; otherwise it counts as hanging
_DETECT = 2.0  # seconds in which all survivors must know of a death
_SWITCH_GONE = 5.0  # seconds in which all workers must know that the switch is gone
_PATIENCE = 2.0  # the timeout in trials that end by a timeout


# ---- what runs in a worker


class FileStore:
    """A key-value store in a folder, for the rendezvous. Real programs use the store of jax.distributed."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder

    def _path(self, key: str) -> pathlib.Path:
        return self._folder / key.replace("/", "%")

    def set(self, key: str, value: str) -> None:
        partial = self._path(f"{key}.{os.getpid()}")
        partial.write_text(value)
        partial.rename(self._path(key))

    def get(self, key: str, timeout: float) -> str | None:
        deadline = time.monotonic() + timeout
        while (value := self.look(key)) is None and time.monotonic() < deadline:
            time.sleep(0.002)
        return value

    def look(self, key: str) -> str | None:
        try:
            return self._path(key).read_text()
        except FileNotFoundError:
            return None


@dataclasses.dataclass
class OneDeviceEach:
    """Device d belongs to process d."""

    process: int
    processes: int

    def owners(self, devices: Any) -> list[int]:
        return list(devices)

    def only_devices(self) -> list[int]:
        return list(range(self.processes))


Settings = dict[str, Any]


def _work(
    rank: int, workers: int, folder: pathlib.Path, settings: Settings, before: Any, elements: int, tell: Any
) -> None:
    """Sums until an error ends it, then sends which error it was, when it came, and how many sums were wrong."""
    try:
        if before is not None:
            before(rank)
        joining.jax_store = lambda: FileStore(folder)
        # JAX has no computations here, and asking it for them would start its backend.
        job._finish_computations = lambda: None
        job._current = job._start(config.resolve(**settings), OneDeviceEach(rank, workers), 1)
        group = list(range(workers))
        mine = np.arange(elements, dtype=np.float32) % 1000 + rank
        expected = (np.arange(elements, dtype=np.float32) % 1000) * workers + sum(range(workers))
        sums = wrong = 0
        try:
            while True:
                wrong += not np.array_equal(_native.all_reduce(group, rank, mine), expected)
                sums += 1
                if sums == 1:
                    tell.send({"rank": rank, "exact": not wrong})
        except JaxinaError as error:
            ended = {"code": error.code, "message": error.message, "at": time.monotonic()}
            tell.send({"rank": rank, **ended, "wrong": wrong})
        job.shutdown()
    except JaxinaError as error:  # raised when it joined or when it left
        tell.send({"rank": rank, "code": error.code, "message": error.message, "at": time.monotonic()})
    tell.send({"rank": rank, "ended": True})


# ---- one trial


class Trial:
    """Starts `workers` processes that sum arrays. As a context manager it ends all of them."""

    def __init__(
        self,
        workers: int,
        settings: Settings,
        before: Callable[[int], None] | None = None,
        elements: int = _ELEMENTS,
    ):
        self._folder = tempfile.TemporaryDirectory(prefix="deaths-")
        self._ends = []
        self._told: list[list[dict[str, Any]]] = [[] for _ in range(workers)]
        self.processes = []
        for rank in range(workers):
            receive, send = _fork.Pipe(duplex=False)
            arguments = (rank, workers, pathlib.Path(self._folder.name), settings, before, elements, send)
            process = _fork.Process(target=_work, args=arguments, daemon=True)
            process.start()
            send.close()
            self.processes.append(process)
            self._ends.append(receive)

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        self._folder.cleanup()

    def _hear(self, rank: int, what: str, deadline: float) -> dict[str, Any] | None:
        """Returns the worker's first message with the key `what`, or None if it ends or takes too long."""
        while True:
            for message in self._told[rank]:
                if what in message:
                    return message
            try:
                if not self._ends[rank].poll(max(0.0, deadline - time.monotonic())):
                    return None
                self._told[rank].append(self._ends[rank].recv())
            except EOFError:
                return None

    def wait_until_summing(self) -> None:
        deadline = time.monotonic() + _UP_WITHIN
        for rank in range(len(self.processes)):
            told = self._hear(rank, "exact", deadline)
            if told is None:
                raise RuntimeError(f"worker {rank} does not sum: {self._told[rank]}")
            if not told["exact"]:
                raise RuntimeError(f"worker {rank} has a wrong sum")

    def error_of(self, rank: int) -> dict[str, Any] | None:
        return self._hear(rank, "code", time.monotonic() + _END_WITHIN)

    def ends(self, rank: int) -> bool:
        """Returns whether the worker leaves the job and its process ends, after its error."""
        ended = self._hear(rank, "ended", time.monotonic() + _END_WITHIN)
        self.processes[rank].join(_END_WITHIN)
        return ended is not None and self.processes[rank].exitcode == 0


# ---- results


@dataclasses.dataclass
class Row:
    """One line of the table."""

    what: str
    allowed: float  # seconds until every survivor has its error
    trials: int = 0
    errors: int = 0  # survivors that got the right error in time
    hangs: int = 0
    left: int = 0  # files left in /dev/shm
    times: list[float] = dataclasses.field(default_factory=list)
    failures: list[str] = dataclasses.field(default_factory=list)

    def check(self, trial: Trial, rank: int, since: float, codes: tuple[str, ...], names: str = "") -> None:
        """Checks that the worker raises one of the codes in time, with a message that matches `names`, and ends."""
        error = trial.error_of(rank)
        if error is None or not trial.ends(rank):
            self.hangs += 1
            self.failures.append(f"worker {rank} hangs, or ended without an error: {error}")
            return
        took = error["at"] - since
        self.times.append(took)
        if error["code"] not in codes or not re.search(names, error["message"]):
            self.failures.append(f"worker {rank}: {error['code']}: {error['message']}")
        elif error.get("wrong"):
            self.failures.append(f"worker {rank} had {error['wrong']} wrong sums")
        elif took > self.allowed:
            self.failures.append(f"worker {rank} took {took:.2f} s")
        else:
            self.errors += 1

    def text(self) -> str:
        worst = f"{max(self.times):6.2f}" if self.times else "     -"
        middle = f"{sorted(self.times)[len(self.times) // 2]:6.2f}" if self.times else "     -"
        return (
            f"{self.what:44} {self.trials:6} {self.errors:6} {middle} {worst} {self.allowed:7.2f} {self.hangs:5} "
            f"{self.left:4} {len(self.failures):8}"
        )


HEADER = f"{'':44} trials errors median  worst allowed hangs left failures"


def _own_shared_memory(options: bytes = b"") -> None:
    """A /dev/shm of this process and its children alone. Needs root."""
    if _libc.unshare(_CLONE_NEWNS) or _libc.mount(b"none", b"/", None, (1 << 18) | (1 << 14), None):  # private
        raise OSError(ctypes.get_errno(), "unshare")
    if _libc.mount(b"none", b"/dev/shm", b"tmpfs", 0, options):
        raise OSError(ctypes.get_errno(), "mount")


def _segments() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if name.startswith("jaxina-")}


@contextlib.contextmanager
def _counted(row: Row) -> Iterator[None]:
    """A context for one trial of the row. An exception, or a file left in /dev/shm, is a failure."""
    before = _segments()
    row.trials += 1
    try:
        yield
    except (RuntimeError, JaxinaError) as error:
        row.failures.append(str(error))
    left = _segments() - before
    row.left += len(left)
    if left:
        row.failures.append(f"left in /dev/shm: {sorted(left)}")


class Switch:
    """A `jaxina switch` in a process of its own."""

    def __init__(
        self, bind: str = "127.0.0.1:0", prefix: tuple[str, ...] = (), options: tuple[str, ...] = (), threads: int = 1
    ):
        read, write = os.pipe()
        command = [*prefix, sys.executable, "-m", "jaxina.cli", "switch", "--bind", bind, "--threads", str(threads)]
        self.process = subprocess.Popen(
            [*command, "--quiet", *options, "--announce-fd", str(write)], pass_fds=[write], stderr=subprocess.DEVNULL
        )
        os.close(write)
        with open(read) as announced:
            self.address = announced.readline().strip()
        if not self.address:
            raise RuntimeError("the switch did not start")

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def _settings(transport: str, switch: Any, **changes: Any) -> Settings:
    settings: Settings = {"aggregator": transport, "join_timeout": 30.0, "timeout": 60.0, "heartbeat_timeout": 20.0}
    if transport == "udp":
        assert switch is not None
        settings["switch"] = switch.address
    return settings | changes


def _survivors(workers: int, *victims: int) -> list[int]:
    return [rank for rank in range(workers) if rank not in victims]


def kills(transport: str, trials: int, switch: Switch | None, draw: random.Random) -> Row:
    row = Row(f"SIGKILL of a worker, {transport}", _DETECT)
    for number in range(trials):
        workers = 2 + number % 3
        with _counted(row), Trial(workers, _settings(transport, switch)) as trial:
            trial.wait_until_summing()
            victim = draw.randrange(workers)
            time.sleep(draw.uniform(0, 0.1))
            since = time.monotonic()
            trial.processes[victim].kill()
            for rank in _survivors(workers, victim):
                row.check(trial, rank, since, ("WORKER_LOST",), rf"\bworkers? {victim}\b")
    return row


def leader_kills(trials: int, draw: random.Random) -> Row:
    """Worker 0 runs the control service of the job, which ends with it."""
    row = Row("SIGKILL of worker 0, direct", _DETECT)
    for number in range(trials):
        workers = 2 + number % 3
        with _counted(row), Trial(workers, _settings("direct", None)) as trial:
            trial.wait_until_summing()
            time.sleep(draw.uniform(0, 0.1))
            since = time.monotonic()
            trial.processes[0].kill()
            for rank in _survivors(workers, 0):
                row.check(trial, rank, since, ("WORKER_LOST",), r"\bworker 0\b")
    return row


def stops(transport: str, trials: int, switch: Switch | None, draw: random.Random) -> Row:
    """A stopped worker keeps its connections and its memory. Only a timeout shows that it is gone."""
    row = Row(f"SIGSTOP of a worker, {transport}", 1.1 * _PATIENCE)
    for number in range(trials):
        workers = 2 + number % 3
        # The collective's timeout ends the job. In every second trial over a network, the control service does, because
        # it misses heartbeats. With direct it is worker 0's, so that one is not stopped there.
        silent = transport != "embedded" and number % 2 == 1
        changes = {"heartbeat_timeout": _PATIENCE} if silent else {"timeout": _PATIENCE}
        with _counted(row), Trial(workers, _settings(transport, switch, **changes)) as trial:
            trial.wait_until_summing()
            victim = draw.randrange(1 if silent and transport == "direct" else 0, workers)
            time.sleep(draw.uniform(0, 0.1))
            since = time.monotonic()
            os.kill(trial.processes[victim].pid, signal.SIGSTOP)
            for rank in _survivors(workers, victim):
                row.check(
                    trial, rank, since, ("WORKER_LOST",) if silent else ("TIMEOUT", "WORKER_LOST"), rf"\b{victim}\b"
                )
    return row


def switch_kills(trials: int, draw: random.Random) -> Row:
    row = Row("SIGKILL of the switch", _SWITCH_GONE)
    for _ in range(trials):
        with _counted(row), Switch() as switch, Trial(2, _settings("udp", switch)) as trial:
            trial.wait_until_summing()
            time.sleep(draw.uniform(0, 0.1))
            since = time.monotonic()
            switch.process.kill()
            for rank in range(2):
                row.check(trial, rank, since, ("SWITCH_UNREACHABLE",), re.escape(switch.address))
    return row


def server_kills(trials: int, draw: random.Random) -> Row:
    """A host of its own is the job's server. The sums that it had are gone with it."""
    row = Row("SIGKILL of a server", _DETECT)
    for _ in range(trials):
        with _counted(row), Switch() as server, Trial(2, _settings("direct", None, servers=server.address)) as trial:
            trial.wait_until_summing()
            time.sleep(draw.uniform(0, 0.1))
            since = time.monotonic()
            server.process.kill()
            for rank in range(2):
                row.check(trial, rank, since, ("WORKER_LOST",), rf"\bserver.*{re.escape(server.address)}")
    return row


def unplugged(trials: int) -> Row:
    """Worker 1's link goes down. The switch tells worker 0 that 1 is silent. Worker 1 only sees that nothing comes."""
    row = Row("link of worker 1 unplugged", 1.1 * _PATIENCE)
    for _ in range(trials):
        with _counted(row), Namespaces() as spaces, Switch(f"{spaces.hub}:0", spaces.run_in("hub")) as switch:
            settings = _settings("udp", switch, timeout=_PATIENCE, heartbeat_timeout=_PATIENCE)
            with Trial(2, settings, lambda rank: spaces.enter(f"w{rank}")) as trial:
                trial.wait_until_summing()
                since = time.monotonic()
                spaces.unplug("w1")
                row.check(trial, 0, since, ("WORKER_LOST", "TIMEOUT"), r"\b1\b")
                row.check(trial, 1, since, ("TIMEOUT", "SWITCH_UNREACHABLE"))
    return row


def wrong_secret(transport: str, trials: int, switch: Switch | None) -> Row:
    row = Row(f"worker 1 has a wrong secret, {transport}", 10.0)  # the time includes the start of the processes

    def tamper(rank: int) -> None:
        if rank == 1:
            from jaxina.control import rendezvous

            follow = rendezvous.Rendezvous._follow
            rendezvous.Rendezvous._follow = lambda self: (a := follow(self)) | {"secret": a["secret"] ^ 1}

    for _ in range(trials):
        since = time.monotonic()
        with _counted(row), Trial(2, _settings(transport, switch, join_timeout=3.0), tamper) as trial:
            row.check(trial, 0, since, ("NEVER_JOINED", "WORKER_LOST", "JOB_REJECTED"))
            row.check(trial, 1, since, ("JOB_REJECTED",))
    return row


def half_open(trials: int, switch: Switch) -> Row:
    """Connections that send nothing, or nonsense, delay neither a join nor the report of a death."""
    row = Row("SIGKILL among 250 half-open connections", _DETECT)
    host, port = config.split_address(switch.address)
    for _ in range(trials):
        with contextlib.ExitStack() as open_ones, _counted(row):
            for number in range(250):
                connection = open_ones.enter_context(socket.create_connection((host, port), timeout=10))
                connection.sendall((b"", b"PRI * HTTP/2.0\r\n", b"\0" * 9)[number % 3])
            with Trial(3, _settings("udp", switch)) as trial:
                trial.wait_until_summing()
                since = time.monotonic()
                trial.processes[2].kill()
                for rank in range(2):
                    row.check(trial, rank, since, ("WORKER_LOST",), r"\b2\b")
    return row


def no_room(trials: int, where: str) -> Row:
    """Shared memory has no room for the slots: a limit on file sizes, or a small tmpfs at /dev/shm."""
    row = Row(f"no room {where}", 10.0)

    def limit_files(_: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    def mount_small(rank: int) -> None:
        _own_shared_memory(b"size=16k")

    before = mount_small if where == "in /dev/shm, a small tmpfs" else limit_files
    for _ in range(trials):
        since = time.monotonic()
        with _counted(row), Trial(2, _settings("embedded", None, join_timeout=3.0), before) as trial:
            row.check(trial, 0, since, ("SHARED_MEMORY",), "cannot reserve .* Make room")
            row.check(trial, 1, since, ("NEVER_JOINED", "SHARED_MEMORY"))
    return row


class Namespaces:
    """hub -- w0, hub -- w1: three network namespaces joined by veth pairs. Needs root."""

    hub = "10.213.0.1"

    def __init__(self) -> None:
        self._tag = f"jx{os.getpid() % 100000}"

    @staticmethod
    def unavailable() -> str:
        """Returns why there can be no namespaces here, or an empty string if there can be."""
        if os.geteuid() != 0:
            return "network namespaces need root"
        probe = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
        return "" if probe.returncode == 0 else f"no network namespaces here: {probe.stderr.strip()}"

    def __enter__(self) -> Namespaces:
        try:
            for name in ("hub", "w0", "w1"):
                self._ip("netns", "add", self._tag + name)
                self._ip("-n", self._tag + name, "link", "set", "lo", "up")
            self._ip("-n", self._tag + "hub", "address", "add", f"{self.hub}/32", "dev", "lo")
            for number, name in enumerate(("w0", "w1"), start=1):
                hub, worker = self._tag + "hub", self._tag + name
                self._ip("-n", hub, "link", "add", name, "type", "veth", "peer", "name", "uplink", "netns", worker)
                self._ip("-n", hub, "address", "add", f"10.213.{number}.1/24", "dev", name)
                self._ip("-n", hub, "link", "set", name, "up")
                self._ip("-n", worker, "address", "add", f"10.213.{number}.2/24", "dev", "uplink")
                self._ip("-n", worker, "link", "set", "uplink", "up")
                self._ip("-n", worker, "route", "add", f"{self.hub}/32", "via", f"10.213.{number}.1")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in ("hub", "w0", "w1"):
            subprocess.run(["ip", "netns", "delete", self._tag + name], capture_output=True)

    @staticmethod
    def _ip(*arguments: str) -> None:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")

    def run_in(self, name: str) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self._tag + name)

    def enter(self, name: str) -> None:
        with open(f"/run/netns/{self._tag}{name}") as space:
            if _libc.setns(space.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")

    def unplug(self, name: str) -> None:
        self._ip("-n", self._tag + "hub", "link", "set", name, "down")


def campaign(number_of_kills: int, number_of_stops: int, others: int, seed: int) -> Iterator[Row]:
    """Runs all kinds of trials. Yields the row of each kind when its trials are done."""
    draw = random.Random(seed)
    with Switch() as switch:
        yield kills("embedded", number_of_kills // 2, None, draw)
        yield kills("udp", number_of_kills - number_of_kills // 2, switch, draw)
        yield kills("direct", number_of_kills // 4, None, draw)
        yield leader_kills(number_of_kills // 4, draw)
        yield stops("embedded", number_of_stops // 2, None, draw)
        yield stops("udp", number_of_stops - number_of_stops // 2, switch, draw)
        yield stops("direct", number_of_stops // 2, None, draw)
        yield half_open(others, switch)
        yield wrong_secret("embedded", others, None)
        yield wrong_secret("udp", others, switch)
        yield wrong_secret("direct", others, None)
    yield switch_kills(others, draw)
    yield server_kills(others, draw)
    yield no_room(others, "in /dev/shm, a file-size limit")
    if why := Namespaces.unavailable():
        print(f"skipped: links and small file systems: {why}")
    else:
        yield no_room(others, "in /dev/shm, a small tmpfs")
        yield unplugged(others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--others", type=int, default=5, help="trials of each other kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    if not Namespaces.unavailable():
        _own_shared_memory()  # else the segments of other programs would count as left
    started = time.monotonic()
    rows = []
    print(HEADER, flush=True)
    for row in campaign(arguments.kills, arguments.stops, arguments.others, arguments.seed):
        rows.append(row)
        print(row.text(), flush=True)
        for failure in row.failures:
            print(f"    {failure}")
    print(f"{sum(row.trials for row in rows)} trials in {time.monotonic() - started:.0f} s; times in seconds")
    if arguments.json:
        arguments.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    sys.exit(any(row.failures for row in rows))


if __name__ == "__main__":
    main()
