"""conformance.py runs this in every process of a job. It prints this process's table as JSON.

The argument is the number of this process's devices.
"""

from __future__ import annotations

import json
import sys

import conformance_cases
import jax
from jax.sharding import AxisType

import jaxina


def main(devices: int) -> None:
    jax.config.update("jax_num_cpu_devices", devices)
    jax.config.update("jax_enable_x64", True)
    with jaxina.init(catch_all=False):  # so that the results to compare with come from gloo
        size = jax.device_count()
        sizes = (size // 2, 2)
        mesh = jax.make_mesh(sizes, conformance_cases.AXES, axis_types=(AxisType.Auto,) * 2)
        tables = {
            name: conformance_cases.table(mesh, vma, conformance_cases.OPERATIONS, conformance_cases.TYPES)
            for name, vma in (("vma on", True), ("vma off", False))
        }
    print("TABLE " + json.dumps(tables), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
