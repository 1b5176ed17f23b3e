"""Asks whether NCCL gives the sums of two processes that share one GPU to a plug-in (CollNet).

If it does, programs that jaxina cannot reach today could use its switch: PyTorch, and JAX without shard_map.

    make cuda   # also builds the plug-in
    python3 benchmarks/cuda/collnet/spike.py --jax --plugin build/cuda/benchmarks/cuda/libnccl-net-jaxina.so

NCCL uses CollNet only between nodes, and refuses two ranks on one GPU of a node. So each process says that it is a
node of its own (NCCL_HOSTID). The plug-in adds in shared memory and counts. Each line of the table is one try, with its
own two processes, and sums three sizes twice: 130.0 MiB if all of it goes through the plug-in. Everything ends within
--seconds.
"""

import argparse
import importlib.util
import json
import mmap
import os
import re
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TWO_NODES = {"NCCL_HOSTID": "node-{rank}"}
SECONDS_PER_VARIANT = 8.0
NOT_LOADED = "plug-in not loaded"
SUFFIXES = ("counters", "draft", "json", "nccl", "out", "store")
NAMES_OF_COUNTERS = ("net_inits", "collnet_inits", "groups", "all_reduces", "all_reduce_bytes", "sends", "send_bytes")


@dataclass
class Variant:
    name: str
    framework: str
    environment: dict[str, str]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    problem: str = ""

    def file(self, logs: Path, rank: int, suffix: str) -> Path:
        return logs / f"{self.name.replace(' ', '-')}.{rank}.{suffix}"

    def reports(self, logs: Path) -> list[dict[str, Any]]:
        paths = [self.file(logs, rank, "json") for rank in range(2)]
        return [json.loads(path.read_text()) if path.exists() else {"sums": []} for path in paths]

    def log(self, logs: Path) -> str:
        paths = [self.file(logs, rank, "nccl") for rank in range(2)]
        return "\n".join(path.read_text(errors="replace") for path in paths if path.exists())

    def counters(self, logs: Path) -> dict[str, int]:
        """Of rank 0: the ranks count the same."""
        path = self.file(logs, 0, "counters")
        content = path.read_bytes() if path.exists() else b""
        if len(content) != 8 * len(NAMES_OF_COUNTERS):
            return dict.fromkeys(NAMES_OF_COUNTERS, 0)
        return dict(zip(NAMES_OF_COUNTERS, struct.unpack(f"{len(NAMES_OF_COUNTERS)}Q", content), strict=True))


def variants(with_jax: bool) -> list[Variant]:
    """In the order of their worth, in case the time is short."""
    chain = TWO_NODES | {"NCCL_ALGO": "allreduce:collnetchain"}
    direct = TWO_NODES | {"NCCL_ALGO": "allreduce:collnetdirect"}
    result = [Variant("torch chain", "torch", chain), Variant("torch default", "torch", TWO_NODES)]
    if with_jax:
        result += [Variant("jax default", "jax", TWO_NODES), Variant("jax chain", "jax", chain)]
    result.append(Variant("torch direct", "torch", direct))
    # These two are for comparison: the plug-in without CollNet, and what NCCL says to two ranks on a GPU of one node.
    result.append(Variant("torch ring", "torch", TWO_NODES | {"NCCL_ALGO": "allreduce:ring"}))
    result.append(Variant("torch one node", "torch", {}))
    return result


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(variant: Variant, plugin: Path, logs: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NCCL_")}
    meeting = str(free_port()) if variant.framework == "jax" else str(variant.file(logs, 0, "store"))
    for rank in range(2):
        environment = clean | {
            "CUDA_VISIBLE_DEVICES": clean.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0],
            "JAXINA_COLLNET_COUNTERS": str(variant.file(logs, rank, "counters")),
            "NCCL_COLLNET_ENABLE": "1",
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_FILE": str(variant.file(logs, rank, "nccl")),
            "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH,TUNING,NET",
            "NCCL_MNNVL_ENABLE": "0",  # the nodes are not really two, so nothing may join them by NVLink
            "NCCL_MULTI_RANK_GPU_ENABLE": "1",
            "NCCL_NET_PLUGIN": str(plugin),
            "NCCL_RAS_ENABLE": "0",
            "NCCL_SOCKET_IFNAME": "lo",
            "TORCH_NCCL_ENABLE_MONITORING": "0",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        environment |= {name: value.format(rank=rank) for name, value in variant.environment.items()}
        command = [sys.executable, HERE / "worker.py", variant.framework, str(rank), meeting]
        with variant.file(logs, rank, "out").open("wb") as output:
            process = subprocess.Popen(
                [*command, variant.file(logs, rank, "json")],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        variant.processes.append(process)


def running(variant: Variant) -> bool:
    return any(process.poll() is None for process in variant.processes)


def take_turn(variant: Variant, logs: Path, deadline: float) -> None:
    while not all(report.get("ready") for report in variant.reports(logs)):
        if not all(process.poll() is None for process in variant.processes):
            return
        if time.monotonic() > deadline:
            variant.problem = "not tried: its processes were not ready in time"
            return
        time.sleep(0.05)
    if deadline - time.monotonic() < 1:
        variant.problem = "not tried: no time left"
        return
    for process in variant.processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.close()
    end = min(deadline, time.monotonic() + SECONDS_PER_VARIANT)
    while running(variant):
        failed = any(process.poll() not in {None, 0} for process in variant.processes)
        if failed:
            end = min(end, time.monotonic() + 1)  # the other one may say more
        if time.monotonic() > end:
            variant.problem = "" if failed else "hung, killed"
            return
        time.sleep(0.02)


def stop(variant: Variant) -> None:
    for process in variant.processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        for left in Path("/dev/shm").glob(f"jaxina-collnet-{process.pid}-*"):
            left.unlink(missing_ok=True)


def one_line(text: str) -> str:
    return " ".join(text.split())[:160]


def outcome(variant: Variant, logs: Path) -> str:
    reports = variant.reports(logs)
    sums = [part for report in reports for part in report["sums"]]
    wrong = sorted({part["bytes"] for part in sums if not part["right"]})
    if wrong:
        return f"WRONG SUMS of {wrong} bytes"
    done = f"{min(len(report['sums']) for report in reports)} of 3 sums right"
    if all(report.get("finished") for report in reports):
        return done
    warning = re.findall(r"NCCL WARN (.*)", variant.log(logs))
    errors = [report["error"] for report in reports if "error" in report]
    if variant.problem or not (warning or errors):
        return f"{done}; {variant.problem or 'died, see its .out files'}"
    return f"{done}; {one_line(warning[0] if warning else errors[0])}"


def collnet_state(log: str) -> str:
    if "Loaded collnet plugin" not in log:
        return NOT_LOADED
    for pattern in (r"Communicator has \d+ nodes? .*disabling CollNet", r"Cannot initialize CollNet.*"):
        if found := re.search(pattern, log):
            return one_line(found[0])
    if re.search(r"Connected Coll[nN]et", log):
        return "connected"
    return "set up, not connected" if "jaxina: CollNet group" in log else "loaded, not set up"


def algorithms(log: str) -> str:
    chosen = dict(re.findall(r"AllReduce: (\d+) Bytes -> Algo (\w+)", log))
    return ", ".join(f"{int(size) >> 10} KiB {name}" for size, name in chosen.items() if int(size) >= 1024) or "-"


def print_table(tried: list[Variant], logs: Path) -> None:
    rows = [("variant", "sums", "CollNet", "NCCL chose", "iallreduce", "MiB", "64 MiB in")]
    for variant in tried:
        log, counters = variant.log(logs), variant.counters(logs)
        largest = [part["seconds"] for report in variant.reports(logs) for part in report["sums"][2:]]
        rows.append(
            (
                variant.name,
                outcome(variant, logs),
                collnet_state(log),
                algorithms(log),
                str(counters["all_reduces"]),
                f"{counters['all_reduce_bytes'] / 2**20:.1f}",
                f"{max(largest) * 1000:.0f} ms" if largest else "-",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_machine(tried: list[Variant], logs: Path) -> None:
    reports = [report for variant in tried for report in variant.reports(logs)]
    versions = sorted({found for variant in tried for found in re.findall(r"NCCL version (\S+)", variant.log(logs))})
    known = "?"
    nccl = importlib.util.find_spec("nvidia.nccl") if importlib.util.find_spec("nvidia") else None
    for folder in (nccl.submodule_search_locations or []) if nccl else []:
        with (Path(folder) / "lib/libnccl.so.2").open("rb") as file:
            library = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            known = "known" if library.find(b"MULTI_RANK_GPU_ENABLE") >= 0 else "not known"
    print(
        f"NCCL {', '.join(versions) or '?'} (NCCL_MULTI_RANK_GPU_ENABLE: {known}),",
        ", ".join(sorted({report[what] for report in reports for what in ("library", "gpu") if what in report})),
    )


def print_verdict(tried: list[Variant], logs: Path) -> bool:
    """Returns whether there is one."""
    used = [variant for variant in tried if variant.counters(logs)["all_reduces"] > 0]
    right = [variant.name for variant in used if outcome(variant, logs) == "3 of 3 sums right"]
    if not any(variant.log(logs) for variant in tried):
        print("VERDICT: none. No process came as far as NCCL.")
        return False
    # That it was called says more than NCCL's words, which differ between its versions.
    if not used and all(collnet_state(variant.log(logs)) == NOT_LOADED for variant in tried):
        print(f"VERDICT: none. NCCL did not load the plug-in; {logs} says why.")
        return False
    if not used:
        print("VERDICT: no. NCCL never called the plug-in's iallreduce.")
    elif not right:
        print(f"VERDICT: NCCL called the plug-in ({', '.join(v.name for v in used)}), but not all sums came out right.")
    else:
        print(f"VERDICT: yes. The plug-in made the sums, and they are right: {', '.join(right)}.")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", type=Path, required=True, help="the plug-in, which `make cuda` has built")
    parser.add_argument(
        "--logs", type=Path, default=Path("build/collnet"), help="a folder for what NCCL and the processes say"
    )
    parser.add_argument("--jax", action="store_true", help="also try JAX")
    parser.add_argument("--seconds", type=float, default=38)
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds - 1.5  # for the table
    logs = arguments.logs.resolve()
    plugin = arguments.plugin.resolve()
    if not plugin.is_file():
        parser.error(f"there is no {plugin}: `make cuda` builds it")
    logs.mkdir(parents=True, exist_ok=True)
    for suffix in SUFFIXES:  # of an earlier run
        for old in logs.glob(f"*.[01].{suffix}"):
            old.unlink()
    tried = variants(arguments.jax)
    try:
        for variant in tried:
            start(variant, plugin, logs)
        for variant in tried:
            take_turn(variant, logs, deadline)
            stop(variant)
    finally:
        for variant in tried:
            stop(variant)
    print_machine(tried, logs)
    print_table(tried, logs)
    return 0 if print_verdict(tried, logs) else 1


if __name__ == "__main__":
    sys.exit(main())
