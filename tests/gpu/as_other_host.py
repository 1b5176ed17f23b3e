"""Runs a script so that NCCL takes each process for another host. NCCL refuses two processes of one host on one GPU; in
this way it sums over sockets.

jaxina run -n 2 tests/gpu/as_other_host.py SCRIPT [ARGUMENT...]
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

os.environ["NCCL_HOSTID"] = f"host-{os.environ['JAXINA_RANK']}"
os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
sys.argv = sys.argv[1:]
sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
runpy.run_path(sys.argv[0], run_name="__main__")
