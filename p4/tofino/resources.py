#!/usr/bin/env python3
"""Prints which of a Tofino 1's resources the program takes.

p4/tofino/resources.py FOLDER     # from one compilation's resources.json and phv.json
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
    print(report(Path(sys.argv[1])))
