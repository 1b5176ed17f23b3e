"""Writes the entries of jobs, and knows which of them the chip may have. So none is forgotten after a failed write."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from jaxina.controller.tables import Entry, Tables
from jaxina.controller.take_over import PACKET_LIFETIME

OF_JOB, OF_GROUP = -1, -2  # owners of entries besides a job's members, whose numbers begin at 0


@dataclasses.dataclass(frozen=True, eq=False)
class Written:
    """An entry that the chip may have.

    Attributes:
      entry: the entry.
      owner: the member that it is for. OF_JOB: the job. OF_GROUP: all members together; it goes when one of them goes.
    """

    entry: Entry
    owner: int


class Writing(Protocol):
    """A job, with its entries in the order in which they were written."""

    written: list[Written]


class Journal:
    """The way to a chip's tables for the entries of jobs.

    Args:
      tables: the chip's.
      admitting: those that let packets in.
    """

    def __init__(self, tables: Tables, admitting: Sequence[str]):
        self._tables = tables
        self._admitting = frozenset(admitting)

    def insert(self, job: Writing, entries: Sequence[Entry], owner: int = OF_JOB) -> None:
        """Inserts entries of one table. If the driver refuses, the chip may have some of them."""
        job.written += [Written(entry, owner) for entry in entries]
        self._tables.insert(entries)

    def take_back(self, job: Writing, which: Callable[[Written], bool] = lambda one: True) -> None:
        """Deletes a job's entries, the last one first.

        Those that let packets in go before the others, which the packets inside the chip still need. When this returns,
        no packet that they let in is in the chip. Each entry is tried, whatever happens to the others. What the driver
        does not delete stays in `job.written`, for another call.

        Raises:
          Exception: the first one of those that the driver raised.
        """
        chosen = [one for one in reversed(job.written) if which(one)]
        gates = [one for one in chosen if one.entry.table in self._admitting]
        others = [one for one in chosen if one.entry.table not in self._admitting]
        gone: set[Written] = set()
        failures = self._delete(gates, gone)
        if gates:
            time.sleep(PACKET_LIFETIME)
        failures += self._delete(others, gone)
        job.written[:] = [one for one in job.written if one not in gone]
        if failures:
            raise failures[0]

    def _delete(self, chosen: Sequence[Written], gone: set[Written]) -> list[Exception]:
        """Adds to `gone` what was deleted. Returns what the driver raised."""
        failures = []
        for _, group in itertools.groupby(chosen, lambda one: one.entry.table):
            batch = list(group)
            try:
                self._tables.delete([one.entry for one in batch])
            except Exception as error:  # whatever it is, the other entries are tried, too
                failures.append(error)
            else:
                gone.update(batch)
        return failures
