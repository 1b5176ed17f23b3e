#!/usr/bin/env python3
"""Runs a job at a switch under a real Prometheus, and the queries of the Grafana board against it.

    tests/campaigns/board_queries.py     # needs Debian's package prometheus: prometheus and promtool on PATH

Every query must be accepted and give at least one series, and promtool must accept what a worker and the switch serve.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxina.control.client import SwitchClient

BOARD = Path(__file__).parents[2] / "deploy/grafana/jaxina.json"
WORKERS = 2
SCRAPES = 15  # seconds of scrapes, one per second
# There are series only while the switch waits for somebody, or once it has refused a packet of a job.
MAY_BE_EMPTY = {"jaxina_switch_job_awaited", "jaxina_switch_job_packets_refused_total"}
PROGRAM = """
import time
import jax, jaxina
with jaxina.init():
    total = jax.pmap(lambda x: jax.lax.psum(x, "w"), "w")
    until = time.monotonic() + 600
    while time.monotonic() < until:
        jax.block_until_ready(total(jax.numpy.ones((1, 100_000))))
"""


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        return [held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)]


@contextlib.contextmanager
def running(*command: str, **environment: str) -> Iterator[None]:
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def fetched(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}/{path}", timeout=10) as reply:
        return reply.read().decode()


def until_served(address: str) -> str:
    deadline = time.monotonic() + 120
    while True:
        try:
            return fetched(address, "metrics")
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def checked(address: str) -> bool:
    """Whether promtool accepts what is served there."""
    ran = subprocess.run(["promtool", "check", "metrics"], input=until_served(address), capture_output=True, text=True)
    print(f"promtool check metrics, {address}: exit code {ran.returncode} {ran.stderr.strip()}")
    return ran.returncode == 0


def disturb(switch: str, seconds: float) -> None:
    """Sends the switch packets that it must refuse."""
    with SwitchClient(switch, 10) as client, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        port = client.status().data_ports[0]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            stranger.sendto(b"a stranger's packet", ("127.0.0.1", port))
            time.sleep(0.1)


def answered(prometheus: str, query: str) -> dict[str, Any]:
    path = "api/v1/query?" + urllib.parse.urlencode({"query": query.replace("$__rate_interval", "10s")})
    return json.loads(fetched(prometheus, path))


def main() -> None:
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        raise SystemExit("this needs prometheus and promtool on PATH (Debian's package prometheus)")
    control, metrics, *others = free_ports(3)
    switch, prometheus = f"127.0.0.1:{metrics}", f"127.0.0.1:{others[0]}"
    first = next(port for port in range(20000, 60000, 10) if free(port, WORKERS))
    workers = [f"127.0.0.1:{first + rank}" for rank in range(WORKERS)]
    jaxina = [sys.executable, "-m", "jaxina.cli"]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as started:
        program, settings = Path(folder) / "program.py", Path(folder) / "prometheus.yml"
        program.write_text(PROGRAM)
        targets = json.dumps([*workers, switch])
        settings.write_text(
            "global: {scrape_interval: 1s}\n"
            f"scrape_configs: [{{job_name: jaxina, static_configs: [{{targets: {targets}}}]}}]"
        )
        serving = [*jaxina, "switch", "--bind", f"127.0.0.1:{control}", "--metrics", switch]
        started.enter_context(running(*serving))
        until_served(switch)
        job = [
            *jaxina,
            "run",
            "-n",
            str(WORKERS),
            "--aggregator",
            "udp",
            "--switch",
            f"127.0.0.1:{control}",
            str(program),
        ]
        started.enter_context(running(*job, JAXINA_METRICS=f"127.0.0.1:{first}"))
        right = checked(workers[0]) and checked(switch)
        storage = [f"--storage.tsdb.path={folder}/data", f"--web.listen-address={prometheus}"]
        started.enter_context(running("prometheus", f"--config.file={settings}", *storage))
        until_served(prometheus)
        disturb(f"127.0.0.1:{control}", SCRAPES)
        for panel in json.loads(BOARD.read_text())["panels"]:
            for target in panel["targets"]:
                query = target["expr"]
                answer = answered(prometheus, query)
                series = len(answer["data"]["result"]) if answer["status"] == "success" else 0
                good = series > 0 or (answer["status"] == "success" and MAY_BE_EMPTY & set(re.findall(r"\w+", query)))
                right = right and bool(good)
                print(f"{'ok   ' if good else 'WRONG'} {series:3} series: {panel['title']}: {query}", flush=True)
    sys.exit(0 if right else 1)


def free(port: int, count: int) -> bool:
    """Whether nobody listens at the ports from `port` on."""
    try:
        with contextlib.ExitStack() as held:
            for one in range(port, port + count):
                held.enter_context(socket.create_server(("127.0.0.1", one)))
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
