#!/usr/bin/env python3
"""Prints which of a Tofino 1's resources the program takes, and which rates it reaches.

p4/tofino/resources.py FOLDER     # resources, from one compilation's resources.json and phv.json
p4/tofino/resources.py --rates    # packet rates and goodput of both sizes, by arithmetic alone
"""

import json
import sys
from pathlib import Path

STAGES = 12
SRAMS = 12 * 80  # blocks of 1024 x 128 bits
TCAMS = 12 * 24  # blocks of 512 x 44 bits
STATEFUL_ALUS = 12 * 4
LOGICAL_TABLES = 12 * 16
PARSER_ROWS = 256  # of each gress
PHV_BITS = 64 * 32 + 96 * 16 + 64 * 8
TAGALONG_BITS = 32 * 32 + 48 * 16 + 32 * 8

LINE_RATE = 100e9  # bit/s of a port
# Bytes besides the words: preamble, start and gap between frames 20, Ethernet 14 + 4, IPv4 20, UDP 8, jaxina's header
# 36, and one exponent padded to 4. RoCEv2 has as many as jaxina's header: BTH 12, RETH 16, immediate 4 and ICRC 4.
OVERHEAD = 20 + 18 + 20 + 8 + 36 + 4
PASSAGE = 15  # bytes of passage_h, the header of a packet that comes round again
PIPE_WORDS = 64
HALF = 4 * PIPE_WORDS // 2


def recirculated(pipes: int) -> tuple[list[int], list[int]]:
    """Returns the packet's bytes in each pass after the first: in those of every update, and in the further ones of an
    update that becomes a result."""
    empty = OVERHEAD + PASSAGE
    words = 4 * PIPE_WORDS * pipes
    consuming = [empty + words - 4 * PIPE_WORDS * step for step in range(1, pipes)]
    reading = [empty + HALF * half for half in range(1, 2 * pipes)]
    return consuming, reading


def rates() -> str:
    """Returns a Markdown table of packet rates, goodput and recirculations of both sizes."""
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
    """Reads the only JSON file with this name below the folder."""
    found = list(folder.rglob(name))
    if len(found) != 1:
        raise SystemExit(f"{folder}: {len(found)} files {name}, not 1")
    return json.loads(found[0].read_text())


def phv_bits(phv: dict, kind: str) -> int:
    """Counts the bits of all containers in use. A container belongs to ingress or to egress as a whole, so the unused
    part of one is not free to the other."""
    used = {c["phv_number"]: c["bit_width"] for c in phv["containers"] if c["container_type"] == kind}
    return sum(used.values())


def used_by(entries: list[dict]) -> list[tuple[str, str]]:
    """Returns who uses each memory, and for what."""
    return [(usage["used_by"], usage["used_for"]) for entry in entries for usage in entry["usages"]]


def controls_in(stage: dict) -> str:
    """Names the controls that have tables in the stage. A control has the name of its file."""
    names = [table["table_name"] for table in stage["logical_tables"]["ids"]]
    adders = sum("adder_" in name for name in names)
    controls = sorted(path.stem for path in Path(__file__).parent.glob("*.p4"))
    found = [control for control in controls if control != "adder" and any(control in name for name in names)]
    return ", ".join([*found, *([f"adder x {adders}"] if adders else [])])


def report(folder: Path) -> str:
    """Returns Markdown tables of one compilation's resources, from the files that the compiler writes with -g."""
    files, phv = only(folder, "resources.json"), only(folder, "phv.json")
    resources = files["resources"]
    stages = [stage for stage in resources["mau"]["mau_stages"] if stage["logical_tables"]["ids"]]
    parsers = {parser["gress"]: len(parser["states"]) for parser in resources["parser"]["parsers"]}
    memories = [used for stage in stages for used in used_by(stage["rams"]["srams"])]
    pools = sum("adder" in user and purpose == "stateful_ram" for user, purpose in memories)
    rows = [
        ("stages", len(stages), STAGES),
        ("stateful ALUs", sum(len(stage["meter_alus"]["meters"]) for stage in stages), STATEFUL_ALUS),
        ("SRAM blocks", sum(len(stage["rams"]["srams"]) for stage in stages), SRAMS),
        ("SRAM blocks of the sums alone", pools, SRAMS),
        ("TCAM blocks", sum(len(stage["tcams"]["tcams"]) for stage in stages), TCAMS),
        ("logical tables", sum(len(stage["logical_tables"]["ids"]) for stage in stages), LOGICAL_TABLES),
        ("PHV bits", phv_bits(phv, "normal"), PHV_BITS),
        ("tagalong PHV bits", phv_bits(phv, "tagalong"), TAGALONG_BITS),
        ("parser rows, ingress", parsers["ingress"], PARSER_ROWS),
        ("parser rows, egress", parsers["egress"], PARSER_ROWS),
    ]
    lines = [f"compiler {files['compiler_version']}", ""]
    lines += ["| resource | used | of | share |", "|---|---:|---:|---:|"]
    lines += [f"| {name} | {used} | {of} | {100 * used / of:.0f} % |" for name, used, of in rows]
    lines += ["", "| stage | stateful ALUs | SRAM | TCAM | controls |", "|---|---:|---:|---:|---|"]
    for stage in stages:
        counts = [stage["meter_alus"]["meters"], stage["rams"]["srams"], stage["tcams"]["tcams"]]
        lines.append(f"| {stage['stage_number']} | {' | '.join(str(len(c)) for c in counts)} | {controls_in(stage)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(rates() if sys.argv[1] == "--rates" else report(Path(sys.argv[1])))
