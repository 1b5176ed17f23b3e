"""How the paper's links change: each gets a rate drawn anew, every few seconds (MLfabric, section 7)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from jaxina.errors import InvalidArgumentError

SHARES = (0.1, 0.25, 0.33, 0.5, 1.0)
"""Of a link's full rate: 1, 2.5, 3.3, 5 and 10 Gbit/s of 10."""
SCHEDULES = {"N1": (0, 0, 0, 0.1, 0.9), "N2": (0, 0.1, 0.1, 0.1, 0.7), "N3": (0.5, 0, 0, 0, 0.5)}
"""How likely each of `SHARES` is."""
EVERY = 5.0
"""Seconds from one draw to the next."""


def draws(schedule: str, seed: int, hosts: Sequence[str], rate: int) -> Iterator[dict[str, tuple[int, int]]]:
    """Yields what each host sends and receives, again and again. Ways out and in are independent.

    Args:
      schedule: a name in `SCHEDULES`.
      seed: the same one gives the same rates.
      hosts: the hosts whose links change.
      rate: of a full link, in any unit.

    Raises:
      InvalidArgumentError: there is no such schedule.
    """
    if schedule not in SCHEDULES:
        raise InvalidArgumentError(f"there is no schedule {schedule!r}: choose one of {', '.join(SCHEDULES)}")
    draw = random.Random(seed)

    def one() -> int:
        return max(1, round(draw.choices(SHARES, SCHEDULES[schedule])[0] * rate))

    while True:
        yield {host: (one(), one()) for host in hosts}
