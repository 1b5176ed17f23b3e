"""What the links have: told by a testbed, or measured by the transfers themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from jaxina.errors import InvalidArgumentError

LAG = 0.2
"""Seconds until the paper's monitor knows of a change (section 7)."""

_SLOWER = 0.8  # of what was planned: below it the path has less than it was thought to have
_GROWTH = 1.1  # otherwise it may have more, which only sending faster can tell

Rates = Mapping[str, tuple[int, int]]
"""What hosts send and receive, in bytes per second, by name."""


def written(at: float, rates: Rates) -> str:
    """A line of a file of rates.

    Args:
      at: when they hold from, in seconds of `time.time`.
      rates: of some hosts or all.
    """
    return json.dumps({"at": at, "rates": rates}) + "\n"


class RatesFile:
    """Reads what a testbed writes about its links while it changes them, and knows it a little later, as monitors do.

    Args:
      file: lines of `written`. It may not be there yet.
      lag: seconds from a change until it is known.
    """

    def __init__(self, file: Path, lag: float = LAG) -> None:
        self._file = file
        self._lag = lag
        self._read = 0  # bytes
        self._waiting: list[tuple[float, dict[str, tuple[int, int]]]] = []

    def changes(self, now: float) -> dict[str, tuple[int, int]]:
        """What has become known since the last call.

        Args:
          now: seconds of `time.time`.

        Raises:
          InvalidArgumentError: the file has something else than rates.
        """
        self._waiting += self._new_lines()
        known: dict[str, tuple[int, int]] = {}
        while self._waiting and self._waiting[0][0] + self._lag <= now:
            known |= self._waiting.pop(0)[1]
        return known

    def _new_lines(self) -> list[tuple[float, dict[str, tuple[int, int]]]]:
        try:
            with self._file.open("rb") as file:
                file.seek(self._read)
                text = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InvalidArgumentError(f"cannot read the rates in {self._file}: {error}") from error
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return [self._line(line) for line in whole.splitlines()]

    def _line(self, line: bytes) -> tuple[float, dict[str, tuple[int, int]]]:
        try:
            record = json.loads(line)
            rates = {str(name): (int(out), int(into)) for name, (out, into) in record["rates"].items()}
            return float(record["at"]), rates
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidArgumentError(f"{self._file} has a line that is no rates: {line[:80]!r}") from error


def estimate(known: int, most: int, planned: float, measured: float) -> int:
    """What a link has, after a transfer over it.

    Transfers are paced to what is planned, so they can show that a link has less, and never that it has more. So after
    each that was as fast as planned, a little more is tried.

    Args:
      known: what it was thought to have, in bytes per second.
      most: what it has at most.
      planned: the transfer's rate.
      measured: what the transfer had: TCP_INFO's acknowledged bytes in its busy time.
    """
    if measured < _SLOWER * planned:
        return max(1, min(known, int(measured)))
    return min(most, int(known * _GROWTH) + 1)
