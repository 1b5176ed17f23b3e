#!/usr/bin/env python3
"""What the program takes of a Tofino 1, and what it carries.

    p4/tofino/resources.py FOLDER     # of one compilation: its metrics.json and context.json
    p4/tofino/resources.py --rates    # packets and goodput of both sizes: arithmetic alone
"""

import json
import sys
from pathlib import Path

STAGES = 12
SRAMS = 12 * 80  # of 1024 x 128 bits
TCAMS = 12 * 24  # of 512 x 44 bits
STATEFUL_ALUS = 12 * 4
PARSER_ROWS = 256  # of each gress
PHV_BITS = 64 * 32 + 96 * 16 + 64 * 8
TAGALONG_BITS = 32 * 32 + 48 * 16 + 32 * 8

LINE_RATE = 100e9  # bit/s of a port
# Preamble, start and gap between frames 20, Ethernet 14 + 4, IPv4 20, UDP 8, jaxina's header 36 (or
# RoCEv2's BTH 12, RETH 16, immediate 4 and ICRC 4: as much), and one exponent padded to 4.
OVERHEAD = 20 + 18 + 20 + 8 + 36 + 4
PASSAGE = 15  # header of a packet that comes round again
PIPE_WORDS = 64
HALF = 4 * PIPE_WORDS // 2


def recirculated(pipes: int) -> tuple[list[int], list[int]]:
    """Bytes of a packet in its passes after the first: those of every update, those of a result."""
    empty = OVERHEAD + PASSAGE
    words = 4 * PIPE_WORDS * pipes
    consuming = [empty + words - 4 * PIPE_WORDS * step for step in range(1, pipes)]
    reading = [empty + HALF * half for half in range(1, 2 * pipes)]
    return consuming, reading


def rates() -> str:
    """A Markdown table."""
    columns = []
    for pipes in (1, 4):
        words = PIPE_WORDS * pipes
        frame = OVERHEAD + 4 * words
        consuming, reading = recirculated(pipes)
        columns.append(
            [
                f"{words} words",
                str(frame),
                f"{LINE_RATE / 8 / frame / 1e6:.1f}",
                f"{400 * words / frame:.1f} % = {LINE_RATE * 4 * words / frame / 1e9:.1f} Gbit/s",
                f"{len(consuming)} and {len(reading)}",
                f"{sum(consuming) / frame:.2f}",
                f"{sum(reading) / frame:.2f}",
            ]
        )
    rows = [
        "",
        "bytes of a frame, preamble and gap with it",
        "million updates per second and 100 Gbit/s port",
        "goodput of that port",
        "recirculations: of every update, and of the one that completes a pass",
        "recirculated per worker at line rate, in ports: updates",
        "recirculated per job at line rate, in ports: results",
    ]
    lines = [f"| {row} | {one} | {four} |" for row, one, four in zip(rows, *columns, strict=True)]
    return "\n".join([lines[0], "|---|---|---|", *lines[1:]])


def only(folder: Path, name: str) -> dict:
    """The one file of that name below the folder."""
    found = list(folder.rglob(name))
    if len(found) != 1:
        raise SystemExit(f"{folder}: {len(found)} files {name}, not 1")
    return json.loads(found[0].read_text())


def bits(groups: list[dict], which: str = "bits_occupied") -> int:
    return sum(group[which] for group in groups)


def stages_of(context: dict) -> tuple[set[int], set[tuple[str, int]]]:
    """The stages in which tables lie, and each register's stages."""
    used: set[int] = set()
    registers: set[tuple[str, int]] = set()

    def visit(node: object, table: str, kind: str) -> None:
        if isinstance(node, dict):
            table, kind = node.get("name", table), node.get("table_type", kind)
            if "stage_number" in node:
                used.add(node["stage_number"])
                if kind == "stateful":
                    registers.add((table, node["stage_number"]))
            for value in node.values():
                visit(value, table, kind)
        elif isinstance(node, list):
            for value in node:
                visit(value, table, kind)

    for table in context["tables"]:
        visit(table, "", "")
    return used, registers


def report(folder: Path) -> str:
    """A Markdown table of one compilation."""
    metrics, context = only(folder, "metrics.json"), only(folder, "context.json")
    mau, phv = metrics["mau"], metrics["phv"]
    stages, registers = stages_of(context)
    latency = ", ".join(f"{gress['gress']} {gress['cycles']}" for gress in mau["latency"])
    rows = [
        ("stages", len(stages), STAGES),
        ("stateful ALUs", len(registers), STATEFUL_ALUS),
        ("SRAM blocks", mau["srams"], SRAMS),
        ("TCAM blocks", mau["tcams"], TCAMS),
        ("PHV bits", bits(phv["normal"]), PHV_BITS),
        ("tagalong PHV bits", bits(phv.get("tagalong", [])), TAGALONG_BITS),
        ("parser rows, ingress", metrics["parser"]["ingress"]["tcam_rows"], PARSER_ROWS),
        ("parser rows, egress", metrics["parser"]["egress"]["tcam_rows"], PARSER_ROWS),
    ]
    lines = [f"compiler {metrics['compiler_version']}, latency in cycles: {latency}", ""]
    lines += ["| resource | used | of | share |", "|---|---:|---:|---:|"]
    lines += [f"| {name} | {used} | {of} | {100 * used / of:.0f} % |" for name, used, of in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(rates() if sys.argv[1] == "--rates" else report(Path(sys.argv[1])))
