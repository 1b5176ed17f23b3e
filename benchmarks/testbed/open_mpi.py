"""Runs Open MPI's all-reduce over TCP on the links of the testbed that is up."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from jaxina import testbed

LIMIT_S = 900
_WORKER = Path(__file__).parents[1] / "all_reduce" / "openmpi_worker.py"


def require() -> None:
    """Ends the program if Open MPI is not installed."""
    if shutil.which("mpirun") is None:
        sys.exit("mpirun is not there: install Debian's openmpi-bin and Python's mpi4py, or leave Open MPI out")


def all_reduce_ms(workers: int, size: int, calls: int) -> float:
    """Returns the median time of all-reduces of `size` bytes of float32, in NumPy arrays without JAX.

    Each result is compared with the exact sum.
    """
    # mpirun runs in worker 0's namespace and starts every rank in a namespace of its own. So the ranks reach mpirun
    # over the testbed's links, too: the PMIX settings allow that.
    bed = testbed.find()
    command = [*bed.inside(bed.worker_namespace(0)), "env"]
    command += ["PMIX_MCA_ptl_base_if_include=eth0", "PMIX_MCA_ptl_base_remote_connections=1"]
    command += ["mpirun", "-n", str(workers), "--oversubscribe", "--allow-run-as-root", "--mca", "pml", "ob1"]
    command += ["--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", "1"]
    name = bed.worker_namespace(0).removesuffix("0") + "$OMPI_COMM_WORLD_RANK"
    command += ["sh", "-c", f'exec ip netns exec "{name}" "$@"', "sh"]
    command += [sys.executable, str(_WORKER), json.dumps([size]), str(calls), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    (record,) = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return statistics.median(record["times_ms"])
