#!/usr/bin/env python3
"""Compares jaxina's psum with XLA's own, for operations x types x layouts x vma on and off, and prints a table.

    python benchmarks/jax/conformance.py [--layouts 1x8 2x2] [--markdown FILE]

A layout PxD is P processes of D devices each. The default layouts are 1x8, 2x1, 2x2 and 2x4. The exit code is 1 if any
cell fails. A cell shows:

    =     The results are equal bit for bit. The operands are small integers, whose sums are exact in every type.
    0.12  The operands are random. This is the largest error, as a share of the bound in `conformance_cases.bound`.
    xla   XLA summed, because jaxina does not carry the type. The results are equal bit for bit.
    FAIL  The results differ too much, or jaxina did not carry what it should.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).with_name("conformance_worker.py")
LAYOUTS = ("1x8", "2x1", "2x2", "2x4")
LIMIT_S = 1800


def measure(layout: str) -> dict[str, dict[str, dict[str, str]]]:
    """Returns vma -> operation -> type -> cell. If any process has FAIL in a cell, the cell is FAIL.

    Raises:
      RuntimeError: a process failed.
    """
    processes, devices = layout.split("x")
    command = [sys.executable, "-m", "jaxina.cli", "run", "-n", processes, str(WORKER), devices]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    tables = [line.split("TABLE ", 1)[1] for line in finished.stdout.splitlines() if "TABLE " in line]
    if finished.returncode or len(tables) != int(processes):
        raise RuntimeError(f"{layout}: a process failed\n{finished.stdout}{finished.stderr}")
    first, *others = map(json.loads, tables)
    for other in others:
        for vma, rows in other.items():
            for operation, cells in rows.items():
                for dtype, cell in cells.items():
                    if cell.startswith("FAIL"):
                        first[vma][operation][dtype] = cell
    return first


def render(layout: str, table: dict[str, dict[str, dict[str, str]]]) -> str:
    lines = []
    for vma, rows in table.items():
        types = list(dict.fromkeys(dtype for cells in rows.values() for dtype in cells))
        lines += [f"**{layout}, {vma}**", "", "| operation | " + " | ".join(types) + " |"]
        lines += ["|---" * (len(types) + 1) + "|"]
        for operation, cells in rows.items():
            lines.append(f"| {operation} | " + " | ".join(cells.get(t, "") for t in types) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layouts", nargs="+", default=LAYOUTS)
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    text, cells = "", []
    for layout in options.layouts:
        table = measure(layout)
        part = render(layout, table)
        print(part, flush=True)
        text += part + "\n"
        cells += [cell for rows in table.values() for row in rows.values() for cell in row.values()]
    failed = sum(cell.startswith("FAIL") for cell in cells)
    print(f"{len(cells)} cells, {failed} failed")
    if options.markdown:
        options.markdown.write_text(text)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
