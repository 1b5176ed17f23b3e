"""Writes a C++ file with placeholders for the names that jaxlib's MPItrampoline looks up and jaxina does not implement.

    abi_names.py OUTPUT SOURCE...

MPItrampoline is linked into jaxlib. When it loads a library, it resolves every name of its MPI ABI, and ends the
process if one is missing. This script finds the names in jaxlib's shared libraries and leaves out those that the SOURCE
files define. Each other name becomes a function that fails, or a constant that is zero.
"""

from __future__ import annotations

import importlib.util
import mmap
import re
import sys
from pathlib import Path

NAME = re.compile(rb"\0(MPIX?ABI_\w+)(?=\0)")


def wanted() -> set[str]:
    """Returns the names of the MPI ABI that stand in jaxlib's shared libraries."""
    found: set[str] = set()
    folder = Path(importlib.util.find_spec("jaxlib").origin).parent
    for library in sorted(folder.glob("*.so")):
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            found.update(name.decode() for name in NAME.findall(content))
    return found


def main(output: str, *sources: str) -> None:
    provided = {name for source in sources for name in re.findall(r"\bMPIX?ABI_\w+", Path(source).read_text())}
    names = sorted(wanted() - provided)
    if not names:
        sys.exit("no names of MPItrampoline's ABI found in jaxlib")
    constants = [name for name in names if name.isupper()]
    functions = [name for name in names if not name.isupper()]
    lines = ["// Made by abi_names.py.", '#include "xla_ffi/mpi/abi.h"', 'extern "C" {']
    lines += [f"JAXINA_MPI_EXPORT extern const Handle {name}; const Handle {name} = 0;" for name in constants]
    lines += [f'JAXINA_MPI_EXPORT int {name}() {{ return not_provided("{name}"); }}' for name in functions]
    lines += ["}"]
    Path(output).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
