"""Writes the vector files from the specification: `python -m conformance.generate [FOLDER]` in p4/."""

from __future__ import annotations

import sys
from pathlib import Path

from conformance import vector
from conformance.scenarios import COMBINING, SCENARIOS

FOLDER = Path(__file__).with_name("vectors")
WORDS = {"one-pipe": 64, "two-pipes": 128, "four-pipes": 256}  # of a block, by the size of the program in p4/tofino
SIZES = tuple(WORDS.values())
ATP = "atp"  # the program atp.p4, which has one size, and the folder of the vectors for switches that combine updates


def files() -> dict[str, str]:
    """Returns the files' texts, by path below the folder."""
    made = {}
    for size in SIZES:
        for scenario in SCENARIOS:
            name = scenario.__name__
            made[f"{size}/{name}.txt"] = vector.to_text(scenario(size))
    size = WORDS["one-pipe"]
    for scenario in COMBINING:
        made[f"{ATP}/{size}/{scenario.__name__}.txt"] = vector.to_text(scenario(size))
    return made


def write(folder: Path) -> None:
    made = files()
    for path in folder.rglob("*.txt"):
        if str(path.relative_to(folder)) not in made:
            path.unlink()
    for name, text in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
