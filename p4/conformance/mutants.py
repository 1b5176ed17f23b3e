"""Programs with one changed line, each of which some vector must find.

    python -m conformance.mutants --compiler P4C --model HARNESS OUT [NAME ...]      # in p4/

This compiles the changed programs into OUT, one after the other, and runs the vectors on each in the chip's model until
one fails. What OUT holds of an earlier run is used again if the text is the same. The exit code is 1 if a program
does not compile, or if no vector finds it. `tests/python/test_p4_program.py` runs the same programs in the interpreter.
"""

from __future__ import annotations

import argparse
import dataclasses
import filecmp
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from conformance import vector
from conformance.generate import FOLDER, WORDS
from conformance.runner import Device, run
from jaxina.controller.chip import ATP, SIZES

PROGRAMS = Path(__file__).parents[1] / "tofino"
_ONE_PIPE, _FOUR_PIPES = "one-pipe", "four-pipes"


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A changed program: in the size `size`, the file has `new` where the program has `old`."""

    size: str
    file: str
    old: str
    new: str

    def write(self, folder: Path) -> Path:
        """Writes the program's text into a new folder, and returns the main file."""
        shutil.copytree(PROGRAMS, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        text = (folder / self.file).read_text()
        if self.old not in text:
            raise ValueError(f"{self.file} has no {self.old!r}")
        (folder / self.file).write_text(text.replace(self.old, self.new))
        return folder / f"{ATP.program if self.size == ATP.name else SIZES[self.size].program}.p4"


MUTANTS = {
    "stamps are not checked": Mutant(
        *(_ONE_PIPE, "worker_stamp.p4"), "if (stamp.even == md.epoch)", "if (stamp.even == 1)"
    ),  # an even epoch is never 1
    "stamps are not written": Mutant(_FOUR_PIPES, "worker_stamp.p4", "stamp.odd = md.epoch;", ""),
    "the count is not started": Mutant(_ONE_PIPE, "worker_count.p4", "value = hdr.passage.others;", ""),
    "a retransmission is counted": Mutant(
        *(_FOUR_PIPES, "worker_count.p4"), "(SAME_PASS, 1) : look_up();", "(SAME_PASS, 1) : count_worker();"
    ),
    "the largest exponent is lost": Mutant(
        *(_ONE_PIPE, "exponent_maximum.p4"), "value = max(value, md.exponent);", "value = md.exponent;"
    ),
    "a pass's first words are added": Mutant(
        *(_ONE_PIPE, "adder.p4"), "(UDP_UPDATE, OTHER_PASS, 0) : write_both", "(UDP_UPDATE, OTHER_PASS, 0) : add_both"
    ),
    "later pipes add a pass's first words": Mutant(
        *(_FOUR_PIPES, "adder.p4"), "(CONSUMING, OTHER_PASS, 0) : write_both", "(CONSUMING, OTHER_PASS, 0) : add_both"
    ),
    "a retransmission's words are added": Mutant(
        *(_ONE_PIPE, "adder.p4"), "(UDP_UPDATE, REPETITION, 1) : read_high", "(UDP_UPDATE, REPETITION, 1) : add_both"
    ),
    "high words are not added": Mutant(_FOUR_PIPES, "adder.p4", "sum.high + high;", "high;"),
    "a result goes to one worker": Mutant(
        *(_ONE_PIPE, "recirculation.p4"),
        "(LAST_STEP, RESULT, 1, false) : multicast_words",
        "(LAST_STEP, RESULT, 1, false) : copy_words_to_sender",
    ),
    "four pipes in a wrong order": Mutant(_FOUR_PIPES, "recirculation.p4", "consume(2)", "consume(3)"),
    "a pipe is left out": Mutant(_FOUR_PIPES, "recirculation.p4", "read_low(7)", "read_low(9)"),
    "the turn does not move on": Mutant(_FOUR_PIPES, "slot_turn.p4", "value.turn = md.epoch + 1;", ""),
    "jobs share slots": Mutant(_ONE_PIPE, "job_admission.p4", "md.slot + slot_base;", "md.slot;"),
    "a queue pair names any slot": Mutant(
        *(_ONE_PIPE, "job_admission.p4"), "(hdr.bth.qpn[9:0] == hdr.reth.slot[9:0])", "(md.well_formed == 1)"
    ),
    "sequence numbers stand still": Mutant(_FOUR_PIPES, "sequence_number.p4", "number = number + 1;", ""),
    "results lie at one place": Mutant(
        *(_ONE_PIPE, "replies.p4"), "md.place = hdr.reth.address_high[1:0];", "md.place = 0;"
    ),
    "every copy is the sender's": Mutant(
        *(_FOUR_PIPES, "replies.p4"), "md.rid = eg_intr_md.egress_rid[12:0];", "md.rid = hdr.passage.rid;"
    ),
    "metadata that nothing has set": Mutant(_ONE_PIPE, "ingress_parser.p4", "md.contributed = 0;", ""),
}


def finders(size: str, device: Device) -> Iterator[str]:
    """Yields the names of the vectors that the device fails."""
    folder = FOLDER / ATP.name / str(ATP.words) if size == ATP.name else FOLDER / str(WORDS[size])
    for path in sorted(folder.glob("*.txt")):
        if run(vector.read(path), device).failures:
            yield path.stem


def _compile(compiler: str, mutant: Mutant, folder: Path) -> Path:
    """Compiles a mutant into the folder, if that does not hold it already. Returns where the result is.

    Raises:
      subprocess.CalledProcessError: if the compiler refuses the text. `compiler.log` says why.
    """
    text, made = folder / "tofino", folder / mutant.size
    fresh = folder / "text"
    shutil.rmtree(fresh, ignore_errors=True)
    main_file = text / mutant.write(fresh).name
    same = text.is_dir() and not filecmp.dircmp(text, fresh).diff_files
    if not (same and list(made.rglob("tofino.bin"))):
        for old in (text, made):
            shutil.rmtree(old, ignore_errors=True)
        fresh.rename(text)
        made.mkdir()
        pipes = f"PIPES={1 if mutant.size == ATP.name else SIZES[mutant.size].pipes}"
        with (folder / "compiler.log").open("w") as log:
            subprocess.run(
                [compiler, "--target", "tofino", "--arch", "tna", "-g", "-D", pipes, "-o", made, main_file],
                stdout=log,
                stderr=subprocess.STDOUT,
                check=True,
            )
    shutil.rmtree(fresh, ignore_errors=True)
    return made


def _in_model(size: str, harness: Path, made: Path) -> Device:
    """Returns the model that runs a compiled program."""
    from conformance.devices.atp import ModelAtp
    from conformance.devices.model import ModelDevice

    return ModelAtp(harness, made) if size == ATP.name else ModelDevice(size, harness, made)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", required=True, metavar="P4C", help="a compiler for Tofino")
    parser.add_argument("--model", required=True, type=Path, metavar="HARNESS", help="the model's packet test harness")
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder for the compiled programs")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which changed programs; left out, all")
    options = parser.parse_args()
    from conformance.atp_mutants import ATP_MUTANTS

    mutants = MUTANTS | ATP_MUTANTS
    if unknown := set(options.names) - set(mutants):
        parser.error(f"no such changed program: {', '.join(sorted(unknown))}")
    survived = broken = 0
    for name in options.names or mutants:
        mutant, folder = mutants[name], options.out.resolve() / name.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            made = _compile(options.compiler, mutant, folder)
        except subprocess.CalledProcessError:
            broken += 1
            print(f"{name} ({mutant.size}): does not compile, see {folder}/compiler.log", flush=True)
            continue
        found = next(finders(mutant.size, _in_model(mutant.size, options.model.resolve(), made)), None)
        survived += found is None
        print(f"{name} ({mutant.size}): {f'found by {found}' if found else 'not found'}", flush=True)
    return 1 if survived or broken else 0


if __name__ == "__main__":
    sys.exit(main())
