#!/usr/bin/env python3
"""Kills, stops and cuts off workers, fills disks, and checks that all others get the right error in time.

    tests/python/death_campaign.py --kills 100 --stops 20

Engine, shared memory, sockets and switch are the real ones. The processes sum without JAX, through
jaxina._native.all_reduce. The seed decides which worker dies and when. The program prints a table. The exit code is 1
if a promise did not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator

from real_processes.namespaces import Namespaces, own_shared_memory
from real_processes.row import DETECT, HEADER, SWITCH_GONE, Row, counted
from real_processes.switch import Switch
from real_processes.trial import Trial, job_settings

from jaxina import config

_PATIENCE = 2.0  # the timeout in trials that end by a timeout


def _survivors(workers: int, *victims: int) -> list[int]:
    return [rank for rank in range(workers) if rank not in victims]


def kills(transport: str, trials: int, switch: Switch | None, draw: random.Random) -> Row:
    row = Row(f"SIGKILL of a worker, {transport}", DETECT)
    for number in range(trials):
        workers = 2 + number % 3
        with counted(row), Trial(workers, job_settings(transport, switch)) as trial:
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
    row = Row("SIGKILL of worker 0, direct", DETECT)
    for number in range(trials):
        workers = 2 + number % 3
        with counted(row), Trial(workers, job_settings("direct", None)) as trial:
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
        with counted(row), Trial(workers, job_settings(transport, switch, **changes)) as trial:
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
    row = Row("SIGKILL of the switch", SWITCH_GONE)
    for _ in range(trials):
        with counted(row), Switch() as switch, Trial(2, job_settings("udp", switch)) as trial:
            trial.wait_until_summing()
            time.sleep(draw.uniform(0, 0.1))
            since = time.monotonic()
            switch.process.kill()
            for rank in range(2):
                row.check(trial, rank, since, ("SWITCH_UNREACHABLE",), re.escape(switch.address))
    return row


def server_kills(trials: int, draw: random.Random) -> Row:
    """A host of its own is the job's server. The sums that it had are gone with it."""
    row = Row("SIGKILL of a server", DETECT)
    for _ in range(trials):
        with counted(row), Switch() as server, Trial(2, job_settings("direct", None, servers=server.address)) as trial:
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
        with counted(row), Namespaces() as spaces, Switch(f"{spaces.hub}:0", spaces.run_in("hub")) as switch:
            settings = job_settings("udp", switch, timeout=_PATIENCE, heartbeat_timeout=_PATIENCE)
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
        with counted(row), Trial(2, job_settings(transport, switch, join_timeout=3.0), tamper) as trial:
            row.check(trial, 0, since, ("NEVER_JOINED", "WORKER_LOST", "JOB_REJECTED"))
            row.check(trial, 1, since, ("JOB_REJECTED",))
    return row


def half_open(trials: int, switch: Switch) -> Row:
    """Connections that send nothing, or nonsense, delay neither a join nor the report of a death."""
    row = Row("SIGKILL among 250 half-open connections", DETECT)
    host, port = config.split_address(switch.address)
    for _ in range(trials):
        with contextlib.ExitStack() as open_ones, counted(row):
            for number in range(250):
                connection = open_ones.enter_context(socket.create_connection((host, port), timeout=10))
                connection.sendall((b"", b"PRI * HTTP/2.0\r\n", b"\0" * 9)[number % 3])
            with Trial(3, job_settings("udp", switch)) as trial:
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
        own_shared_memory(b"size=16k")

    before = mount_small if where == "in /dev/shm, a small tmpfs" else limit_files
    for _ in range(trials):
        since = time.monotonic()
        with counted(row), Trial(2, job_settings("embedded", None, join_timeout=3.0), before) as trial:
            row.check(trial, 0, since, ("SHARED_MEMORY",), "cannot reserve .* Make room")
            row.check(trial, 1, since, ("NEVER_JOINED", "SHARED_MEMORY"))
    return row


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
        own_shared_memory()  # else the segments of other programs would count as left
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
