"""Computes what the ports must carry by which packets come round for another pass.

    python -m jaxina.controller.port_load      # the tables of docs/tofino.md

All of it is arithmetic on packet sizes. A retransmission comes on top, and a port that is at its limit causes some. So
the controller refuses a job with which a port would have to carry more than its speed.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from jaxina.controller.chip import ATP, LANES, PORTS_OF_A_PIPE, RECIRCULATION_SPEED, SIZES, Chip, Size
from jaxina.errors import JobRejectedError

# Bytes besides the words: preamble, start and gap between frames 20, Ethernet 14 + 4, IPv4 20, UDP 8, jaxina's header
# 36, and one exponent padded to 4. RoCEv2 has as many as jaxina's header: BTH 12, RETH 16, immediate 4 and ICRC 4.
_OVERHEAD = 20 + 18 + 20 + 8 + 36 + 4
_PASSAGE = 16  # bytes of passage_h, the header of a packet that comes round again
_PIPE_WORDS = 64
_HALF = 4 * _PIPE_WORDS // 2


@dataclasses.dataclass(frozen=True)
class Step:
    """A pass that a packet makes after its first.

    Attributes:
      pipe: where.
      frame: bytes on the port that leads there, with preamble and gap.
      of_sum: whether only the update that completes a pass of its slot comes here, and not every update.
    """

    pipe: int
    frame: int
    of_sum: bool


def steps(size: Size) -> tuple[Step, ...]:
    """Returns the steps from step 1 on. Words are added on the way out. On the way back, half of a pipe's words are
    read at a time (p4/tofino/constants.p4). In atp.p4 one packet of a pass comes round: to read a sum, or with all of
    its words because the pass found its entry taken."""
    empty = _OVERHEAD + _PASSAGE
    if size == ATP:
        return (Step(size.pool_pipe, empty + 4 * size.words, of_sum=True),)
    consuming = [
        Step(pipe, empty + 4 * (size.words - _PIPE_WORDS * pipe), of_sum=False) for pipe in range(1, size.pipes)
    ]
    back = [size.pipes - 1, *(pipe for pipe in reversed(range(size.pipes - 1)) for _ in range(2))]
    reading = [Step(pipe, empty + _HALF * halves, of_sum=True) for halves, pipe in enumerate(back, 1)]
    return (*consuming, *reading)


def frame_bytes(size: Size) -> int:
    """Returns the bytes of an update on a worker's link."""
    return _OVERHEAD + 4 * size.words


class Load(Protocol):
    """A job, as far as it matters for ports."""

    @property
    def slots(self) -> int: ...

    @property
    def slot_base(self) -> int: ...

    @property
    def members(self) -> int: ...


def load(chip: Chip, jobs: Sequence[Load]) -> dict[int, float]:
    """Returns what the packets of these jobs need at the ports that lead to another pass, by port, in Gbit/s.

    Each worker sends at the chip's worker_rate, as far as the chip's ports suffice for all workers.
    """
    size = chip.size
    workers = sum(job.members for job in jobs)
    elsewhere = sum(port.speed for port in chip.ports if port.pipe != size.pool_pipe)
    rate = min(chip.worker_rate, sum(port.speed for port in chip.ports) / workers)
    handed_over = min(rate, elsewhere / workers)
    loads: dict[int, float] = collections.defaultdict(float)
    for job in jobs:
        # A slot's packets take one way.
        lanes = collections.Counter(slot % LANES for slot in range(job.slot_base, job.slot_base + job.slots))
        for lane, count in lanes.items():
            for step in steps(size):
                packets = rate * count / job.slots * (1 if step.of_sum else job.members)
                loads[chip.way(step.pipe, lane)] += packets * step.frame / frame_bytes(size)
        for worker in range(job.members):
            loads[chip.hand_over_way(worker)] += handed_over
    return dict(loads)


def check(chip: Chip, jobs: Sequence[Load]) -> None:
    """Checks that the ports can carry what these jobs need.

    Raises:
      JobRejectedError: if one cannot; the message says what would help.
    """
    port, needed = max(load(chip, jobs).items(), key=lambda item: item[1] / chip.speed_of(item[0]))
    if needed > chip.speed_of(port):
        hands_over = ", with and without hand_over," if port == chip.hand_over_way(0) else ""
        raise JobRejectedError(
            f"with this job, {needed:.0f} Gbit/s of packets would come round by port {port}, which carries "
            f"{chip.speed_of(port)}, if every worker sends {chip.worker_rate:g} Gbit/s. In the switch's file, add "
            f"[[loopback]] ports{hands_over} in pipe {port // PORTS_OF_A_PIPE}, or set worker_rate to what a worker "
            "really sends"
        )


# ---- the tables of docs/tofino.md


def _table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def rates() -> str:
    """Returns a Markdown table of packet rates, goodput and recirculations of all sizes, for ports of 100 Gbit/s."""
    columns = [["", *_ROWS]]
    for size in SIZES.values():
        frame, words = frame_bytes(size), 4 * size.words
        consuming = [step.frame for step in steps(size) if not step.of_sum]
        reading = [step.frame for step in steps(size) if step.of_sum]
        columns.append(
            [
                f"{size.words} words",
                str(frame),
                f"{100e9 / 8 / frame / 1e6:.1f}",
                f"{100 * words / frame:.1f} %",
                f"{len(consuming)} and {len(reading)}",
                f"{sum(consuming) / frame:.2f}",
                f"{sum(reading) / frame:.2f}",
            ]
        )
    return _table([list(row) for row in zip(*columns, strict=True)])


_ROWS = (
    "bytes of a frame, preamble and gap with it",
    "million updates per second and 100 Gbit/s port",
    "goodput of that port",
    "recirculations: of every update, and of the one that completes a pass",
    "recirculated per worker at line rate, in ports: updates",
    "recirculated per job at line rate, in ports: results",
)


def ports_needed(size: Size, workers: int, rate: float) -> Mapping[int, int]:
    """Returns how many ports of 100 Gbit/s a job needs for its further passes, by pipe. Its packets are spread evenly.

    Args:
      size: the program's.
      workers: of the job, all at ports of the pool's pipe.
      rate: what each of them sends, in Gbit/s.
    """
    needed: dict[int, float] = collections.defaultdict(float)
    for step in steps(size):
        needed[step.pipe] += rate * step.frame / frame_bytes(size) * (1 if step.of_sum else workers)
    return {pipe: math.ceil(gigabits / RECIRCULATION_SPEED - 1e-9) for pipe, gigabits in needed.items()}


def needs() -> str:
    """Returns a Markdown table of the ports that jobs need for their further passes."""
    rows = [["size", "workers", "10 Gbit/s each", "40 Gbit/s", "100 Gbit/s"]]
    for size in SIZES.values():
        for workers in (4, 8, 16, 32):
            cells = [ports_needed(size, workers, rate) for rate in (10, 40, 100)]
            texts = [" + ".join(str(cell[pipe]) for pipe in sorted(cell)) for cell in cells]
            rows.append([f"`{size.name}`", str(workers), *texts])
    return _table(rows)


if __name__ == "__main__":
    print(rates(), needs(), sep="\n\n")
