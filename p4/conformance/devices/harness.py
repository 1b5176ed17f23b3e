"""Drives the packet test harness of the chip's model, a process that takes commands as lines on its standard input.

README.md, "The model", says what the harness must offer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import subprocess
import time
from pathlib import Path

_SENT = re.compile(r"(\d+) ([0-9A-F]+)")  # port and frame
_LEARNED = re.compile(r"digest (\d+) ([0-9a-f]+)")
_LOST = re.compile(r"lost (\d+)")
_READ = re.compile(r"(?:register [^(]+\(physical|counter [^(]+\(virtual) \d+\): (.*)")
_ADDRESS, _VALUE = r"[0-9a-fx]+", r"([0-9a-fx]+)"
_REGISTER = re.compile(rf"reg {_ADDRESS} {_VALUE}")
# What the harness says besides, when it begins and at each packet.
_OTHER = re.compile(
    r"Tofino Verification Model.*|Created \d+ .*threads|(?:Opening|Loaded) context file.*"
    r"|:.*:Waiting for packets to process"
    r"|counter [^(]+\(physical.*|(?:unexpected )?packet output on port \d+:|[0-9a-f]{4} (?: [0-9a-f ]{2})+.*"
)
_LAST_LINES = 12
_PAUSE = 0.005  # seconds; some threads of the model wake up by themselves, and look for work
_WAITING = {"S", "Z", "X"}  # states of threads that sleep, or have ended


class HarnessError(Exception):
    """The harness has refused a command, or has ended."""


@dataclasses.dataclass
class Answer:
    """What the harness has printed since the last command.

    Attributes:
      frames: (port, frame) of each frame that left the chip.
      digests: (pipe, bytes) of each digest.
      lost: the port of each copy that the chip has lost.
      values: the fields of each register or counter that was read.
      numbers: the registers of the chip that were read by address.
    """

    frames: list[tuple[int, bytes]] = dataclasses.field(default_factory=list)
    digests: list[tuple[int, bytes]] = dataclasses.field(default_factory=list)
    lost: list[int] = dataclasses.field(default_factory=list)
    values: list[dict[str, int]] = dataclasses.field(default_factory=list)
    numbers: list[int] = dataclasses.field(default_factory=list)


class Harness:
    """A running model that has loaded a program.

    Args:
      binary: the harness.
      program: the folder with the compiler's tofino.bin and context.json.

    Raises:
      HarnessError: if the harness does not load the program.
    """

    def __init__(self, binary: Path, program: Path):
        # What leaves the chip goes to the observation log. As the log is the standard output, it is in order with the
        # answers to commands.
        self._process = subprocess.Popen(
            [str(binary), "--observation-log", "/dev/stdout", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=program,
            text=True,
            bufsize=1,
        )
        self._asked = 0
        self._last: list[str] = []
        try:
            self.ask(f"load {program.resolve()}", "learn")
        except HarnessError:
            self.close()
            raise

    def ask(self, *commands: str) -> Answer:
        """Gives the commands, and returns what was printed until the last one was done.

        Raises:
          HarnessError: if the harness refuses a command, or ends.
        """
        self._asked += 1
        done = f"echo done {self._asked}"
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write("\n".join([*commands, done]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the loop below says why it has ended
        answer, refused = Answer(), []
        for line in map(str.rstrip, self._process.stdout):
            if line == done:
                if refused:
                    raise HarnessError("; ".join(refused[:3]) + f" (after {commands[0][:120]})")
                return answer
            self._last = [*self._last[1 - _LAST_LINES :], line]
            if not self._understand(line, answer):
                refused.append(line)
        raise HarnessError("the harness has ended: " + " / ".join(self._last))

    def rest(self) -> None:
        """Lets the model's threads take a packet on: `idle` does not wait for all of them.

        This waits for a time, and until each thread waits for something or has waited twice. So a busy machine, where
        the threads get to run late, makes no difference.
        """
        before = self._waits()
        time.sleep(_PAUSE)
        while any(
            state not in _WAITING and waits < before.get(thread, (state, 0))[1] + 2
            for thread, (state, waits) in self._waits().items()
        ):
            time.sleep(_PAUSE)

    def _waits(self) -> dict[str, tuple[str, int]]:
        """Returns each thread's state, and how often it has waited."""
        found = {}
        for path in Path(f"/proc/{self._process.pid}/task").glob("*/status"):
            with contextlib.suppress(OSError):  # the thread has ended since
                fields = dict(line.split(":", 1) for line in path.read_text().splitlines())
                found[path.parent.name] = fields["State"].split()[0], int(fields["voluntary_ctxt_switches"])
        return found

    @staticmethod
    def _understand(line: str, answer: Answer) -> bool:
        """Reads a line of output. Returns whether it is one that a command that succeeds may print."""
        if found := _SENT.fullmatch(line):
            answer.frames.append((int(found[1]), bytes.fromhex(found[2])))
        elif found := _LEARNED.fullmatch(line):
            answer.digests.append((int(found[1]), bytes.fromhex(found[2])))
        elif found := _LOST.fullmatch(line):
            answer.lost.append(int(found[1]))
        elif found := _READ.fullmatch(line):
            answer.values.append({name: int(value) for name, value in (one.split("=") for one in found[1].split())})
        elif found := _REGISTER.fullmatch(line):
            answer.numbers.append(int(found[1], 0))
        else:
            return not line or bool(_OTHER.fullmatch(line))
        return True

    def close(self) -> None:
        """Ends the process. Its own clean-up takes seconds and matters to nobody."""
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()
