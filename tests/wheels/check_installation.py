"""Looks at an installation from wheels: what `jaxina info` says, and that the part for GPUs is loaded and answers."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import jaxina
from jaxina import _native, errors


def main() -> None:
    information = subprocess.run(["jaxina", "info", "--json"], check=True, capture_output=True, text=True).stdout
    facts = json.loads(information)["facts"]
    print(f"Python {platform.python_version()}, JAX {facts['jax, jaxlib']}, {_native.__file__}")
    print(f"codec {facts['codec']}; verbs: {facts['verbs']}; CUDA: {facts['CUDA']}")
    assert "site-packages" in jaxina.__file__, jaxina.__file__
    assert facts["CUDA"].startswith("built with CUDA 13."), facts["CUDA"]
    # Python brings it, and jaxina loads it.
    assert facts["encryption"].startswith("OpenSSL 3"), facts["encryption"]
    assert callable(jaxina.init)  # its first use loads the part for GPUs
    assert _native.gpu_handlers().keys() == {"jaxina_all_reduce_start", "jaxina_all_reduce_done"}
    if facts["GPUs"] == "none":  # then what the part for GPUs throws must reach Python as jaxina's own error
        try:
            _native.gpu_link(1)
        except errors.GpuError as error:
            print("as it should without a GPU:", error)
        else:
            sys.exit("a GPU's link was measured where there is no GPU")


if __name__ == "__main__":
    main()
