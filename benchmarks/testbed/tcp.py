#!/usr/bin/env python3
"""Measures the aggregator "atp" while a TCP stream fills one worker's link.

    apt-get install iproute2 ethtool
    benchmarks/testbed/tcp.py --workers 4 --rate 200 --json out/tcp.json

It needs root, because it makes a testbed (`jaxina testbed`), and removes it afterwards. A host of its own is the
server, another one sends a TCP stream (Linux's default congestion control) to worker 0 without end. The workers sum
float32 meanwhile (`jaxina bench`, which compares every result with the exact sum). A table says what share of the
link to worker 0 both use together, and which part of that is atp's: from the counters of the link's interface, of
which the stream's own bytes are subtracted, between the 10th and the 90th percentile of the time in which atp's
results come.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from compare import keep, run, spread
from rich import box
from rich.console import Console
from rich.table import Table
from switch_process import switch_at

from jaxina import testbed
from jaxina.bench.stolen_time import StolenTime

STREAM_PORT = 5001
SAMPLES_S = 0.1
_FRAME = 1514 / 1448  # bytes that the link carries per byte of the stream, in full packets
# A sample with fewer bytes of the other traffic, as a share of the link, is one in which atp sums nothing.
_ACTIVE = 0.02

RECEIVE = f"""
import socket, sys, time
server = socket.create_server(("", {STREAM_PORT}), family=socket.AF_INET)
print("ready", flush=True)
connection, _ = server.accept()
total, told = 0, 0.0
while data := connection.recv(1 << 20):
    total += len(data)
    if (now := time.monotonic()) - told > 0.01:
        print(now, total, flush=True)
        told = now
"""
SEND = """
import socket, sys
stream = socket.create_connection((sys.argv[1], int(sys.argv[2])))
while True:
    stream.sendall(bytes(1 << 16))
"""


class Samples:
    """Samples the bytes that went to worker 0, and those of the stream, while the context lasts."""

    def __init__(self, bed: testbed.Testbed, stream: subprocess.Popen[str] | None):
        self._bed, self._stream = bed, stream
        self._of_stream = 0
        self.taken: list[tuple[float, int, int]] = []  # when, bytes on the link, bytes of the stream
        self._ended = threading.Event()

    def __enter__(self) -> Samples:
        self._threads = [threading.Thread(target=self._sample)]
        if self._stream is not None:
            self._threads.append(threading.Thread(target=self._read, daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._threads[0].join()

    def _read(self) -> None:
        assert self._stream is not None and self._stream.stdout is not None
        for line in self._stream.stdout:
            self._of_stream = int(line.split()[1])

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLES_S):
            of_stream = self._of_stream
            self.taken.append((time.monotonic(), self._bed.received_bytes(0), of_stream))


@contextlib.contextmanager
def stream_to_worker(bed: testbed.Testbed, sender: str) -> Iterator[subprocess.Popen[str]]:
    """Runs an endless TCP stream from the namespace to worker 0. Yields the receiver."""
    inside = bed.inside(bed.worker_namespace(0))
    receiver = subprocess.Popen([*inside, sys.executable, "-c", RECEIVE], stdout=subprocess.PIPE, text=True)
    try:
        assert receiver.stdout is not None and receiver.stdout.readline() == "ready\n"
        send = [*bed.inside(sender), sys.executable, "-c", SEND, bed.worker_host(0), str(STREAM_PORT)]
        process = subprocess.Popen(send)
        try:
            yield receiver
        finally:
            process.kill()
            process.wait()
    finally:
        receiver.kill()
        receiver.wait()


def shares(taken: list[tuple[float, int, int]], rate: int) -> tuple[float, float]:
    """What part of the link was used, and atp's part of that."""
    per_second = rate * 1e6 / 8
    steps = []  # seconds, bytes of atp, bytes of the stream
    for (t0, link0, stream0), (t1, link1, stream1) in itertools.pairwise(taken):
        of_stream = (stream1 - stream0) * _FRAME
        steps.append((t1 - t0, link1 - link0 - of_stream, of_stream))
    active = [i for i, (seconds, of_atp, _) in enumerate(steps) if of_atp > _ACTIVE * per_second * seconds]
    chosen = steps[active[len(active) // 10] : active[9 * len(active) // 10] + 1]
    seconds, of_atp, of_stream = (sum(values) for values in zip(*chosen, strict=True))
    return (of_atp + of_stream) / (per_second * seconds), of_atp / (of_atp + of_stream)


def measure(with_stream: bool, bed: testbed.Testbed, options: argparse.Namespace) -> dict[str, float]:
    stolen, load = StolenTime(), os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(switch_at(bed.server_namespace(0), bed.server_host(0)))
        stack.enter_context(mock.patch.dict(os.environ, {"JAXINA_SERVERS": server}))
        how = ("--port-rate", options.rate) if options.marks else ()
        switch = stack.enter_context(switch_at(bed.switch_namespace, bed.switch_host, *how))
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "bench.json"
        command = [sys.executable, "-m", "jaxina.cli", "testbed", "run", "bench", "-n", options.workers, "-w", 1]
        command += ["-b", options.size, "-e", options.size, "-i", options.iterations, "--aggregator", "atp"]
        receiver = stack.enter_context(stream_to_worker(bed, bed.server_namespace(1))) if with_stream else None
        samples = stack.enter_context(Samples(bed, receiver))
        run([*command, "--switch", switch, "--json", file])
        (record,) = json.loads(file.read_text())["records"]
    used, of_atp = shares(samples.taken, options.rate)
    found = {"ms": record["results"]["jaxina"]["median_ms"], "used": used, "atp": of_atp}
    return found | {"stolen": stolen.share(), "load": load}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rate", type=int, default=200, help="Mbit/s of a worker's link")
    parser.add_argument("--size", type=int, default=10_000_000, help="bytes")
    parser.add_argument("-i", "--iterations", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--marks", action="store_true", help="the switch knows the rate and marks packets")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rounds: list[dict[str, dict[str, float]]] = []
    bed = testbed.up(testbed.Size(options.workers, servers=2), testbed.Link(options.rate))
    try:
        for number in range(options.rounds):
            rounds.append({name: measure(name == "TCP beside", bed, options) for name in ("alone", "TCP beside")})
            print(f"round {number + 1}: {rounds[-1]}", file=sys.stderr, flush=True)
    finally:
        testbed.down()
    made = Table(
        title=f"{options.workers} workers, links of {options.rate} Mbit/s, {options.size:,} bytes; median and range",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("", "ms", "of the link to worker 0", "atp's part of that", "stolen, %", "load"):
        made.add_column(heading, justify="right" if heading else "left")
    for name in rounds[0]:
        found = [one[name] for one in rounds]
        made.add_row(
            name,
            spread([one["ms"] for one in found], 0),
            spread([one["used"] for one in found]),
            spread([one["atp"] for one in found]),
            spread([100 * one["stolen"] for one in found], 0),
            spread([one["load"] for one in found], 0),
        )
    Console(width=120).print(made)
    keep(options.json, {**vars(options), "json": None}, rounds)


if __name__ == "__main__":
    main()
