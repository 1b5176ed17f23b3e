"""The table of a campaign: how many survivors had the right error, and when."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Iterator

from jaxina.errors import JaxinaError
from real_processes.trial import Trial

DETECT = 2.0  # seconds in which all survivors must know of a death
SWITCH_GONE = 5.0  # seconds in which all workers must know that the switch is gone


@dataclasses.dataclass
class Row:
    """One line of the table."""

    what: str
    allowed: float  # seconds until every survivor has its error
    trials: int = 0
    errors: int = 0  # survivors that got the right error in time
    hangs: int = 0
    left: int = 0  # files left in /dev/shm
    times: list[float] = dataclasses.field(default_factory=list)
    failures: list[str] = dataclasses.field(default_factory=list)

    def check(self, trial: Trial, rank: int, since: float, codes: tuple[str, ...], names: str = "") -> None:
        """Checks that the worker raises one of the codes in time, with a message that matches `names`, and ends."""
        error = trial.error_of(rank)
        if error is None or not trial.ends(rank):
            self.hangs += 1
            self.failures.append(f"worker {rank} hangs, or ended without an error: {error}")
            return
        took = error["at"] - since
        self.times.append(took)
        if error["code"] not in codes or not re.search(names, error["message"]):
            self.failures.append(f"worker {rank}: {error['code']}: {error['message']}")
        elif error.get("wrong"):
            self.failures.append(f"worker {rank} had {error['wrong']} wrong sums")
        elif took > self.allowed:
            self.failures.append(f"worker {rank} took {took:.2f} s")
        else:
            self.errors += 1

    def text(self) -> str:
        worst = f"{max(self.times):6.2f}" if self.times else "     -"
        middle = f"{sorted(self.times)[len(self.times) // 2]:6.2f}" if self.times else "     -"
        return (
            f"{self.what:44} {self.trials:6} {self.errors:6} {middle} {worst} {self.allowed:7.2f} {self.hangs:5} "
            f"{self.left:4} {len(self.failures):8}"
        )


HEADER = f"{'':44} trials errors median  worst allowed hangs left failures"


def _segments() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if name.startswith("jaxina-")}


@contextlib.contextmanager
def counted(row: Row) -> Iterator[None]:
    """A context for one trial of the row. An exception, or a file left in /dev/shm, is a failure."""
    before = _segments()
    row.trials += 1
    try:
        yield
    except (RuntimeError, JaxinaError) as error:
        row.failures.append(str(error))
    left = _segments() - before
    row.left += len(left)
    if left:
        row.failures.append(f"left in /dev/shm: {sorted(left)}")
