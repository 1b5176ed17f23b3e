"""Runs `jaxina bench` and `jaxina run` on the testbed, and reads their records and timelines, for all figures."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxina import testbed

LIMIT_S = 300
# Links that lose packets take packets one by one, without the kernel's offloads. Links with this loss do so, too, but
# lose nothing in practice. They are the baseline for links that lose packets.
NEXT_TO_NO_LOSS = 1e-9
_ETHERNET = 14


@contextlib.contextmanager
def links(workers: int, rate: int, loss: float = 0.0) -> Iterator[None]:
    """A context with the testbed up, at `rate` Mbit/s. It needs root.

    If a testbed with just these links is up already, the context uses it and leaves it up.
    """
    link = testbed.Link(rate, loss)
    if testbed.network.STATE.exists():
        held = testbed.find()
        if (held.workers, held.link) == (workers, link):
            yield
            return
    testbed.up(testbed.Size(workers), link)
    try:
        yield
    finally:
        testbed.down()


def bench(workers: int, size: int, *options: str, on_links: bool = True, slots: int | None = None) -> dict[str, Any]:
    """Runs `jaxina bench`, which compares every result with the exact sum. Returns its record for `size` bytes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.json"
        arguments = ["bench", "-n", str(workers), "-b", str(size), "-e", str(size), "--json", str(file), *options]
        environment = {} if slots is None else {"JAXINA_SLOTS": str(slots)}
        jaxina([*(("testbed", "run") if on_links else ()), *arguments], environment)
        (record,) = json.loads(file.read_text())["records"]
    return record


def jaxina(arguments: list[str], environment: dict[str, str] | None = None) -> None:
    command = [sys.executable, "-m", "jaxina.cli", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_S, env={**os.environ, **(environment or {})}
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}")


def events_of_worker_0(trace: Path) -> list[dict[str, Any]]:
    """Returns the events of worker 0's timeline. `jaxina bench --trace` writes one event on each line."""
    with trace.open() as lines:
        return [json.loads(line.rstrip(",\n")) for line in lines if '"pid":0,' in line]


def last_collective(events: list[dict[str, Any]]) -> tuple[float, float]:
    """Returns the begin and the end of the last collective, in microseconds."""
    times = {phase: [e["ts"] for e in events if e["ph"] == phase and e["name"] == "collective"] for phase in "be"}
    return times["b"][-1], times["e"][-1]


def wire_bytes_per_packet(record: dict[str, Any]) -> float:
    """Returns the mean size on the link of the packets that jaxina sent, with Ethernet's header."""
    return record["engine"]["bytes_sent"] / record["engine"]["packets_sent"] + _ETHERNET


def wire_bytes_per_element(record: dict[str, Any]) -> float:
    """Returns the bytes on the link for one element of a sum by jaxina, if no packet is sent again."""
    engine = record["engine"]
    passes = engine["packets_sent"] - engine["retransmissions"]
    return passes * wire_bytes_per_packet(record) / engine["elements"]
