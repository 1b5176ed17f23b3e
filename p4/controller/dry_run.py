"""Tables without a chip. Every write is recorded, and refused if a chip would refuse it."""

from __future__ import annotations

import dataclasses
import logging
import queue
import threading
from collections.abc import Sequence

from jaxina.controller.tables import Digest, Entry
from jaxina.errors import SystemCallError

_log = logging.getLogger("jaxina.switch")


@dataclasses.dataclass(frozen=True)
class Write:
    operation: str  # insert, modify, delete, clear
    entry: Entry

    def __str__(self) -> str:
        return f"{self.operation} {self.entry}".rstrip()


class DryRun:
    """The tables of a switch without a chip.

    Args:
      log: whether each write becomes a line of the switch's log.

    Attributes:
      writes: all writes, in order.
      held: what a chip's match tables would hold now. Registers and counters are 0 until they are written.
      digests: what `next_digest` returns, in order.
    """

    def __init__(self, log: bool = False):
        self.writes: list[Write] = []
        self.held: dict[tuple[object, ...], Entry] = {}
        self.digests: queue.SimpleQueue[Digest] = queue.SimpleQueue()
        self._log = log
        self._lock = threading.Lock()

    def insert(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            with self._lock:
                if _name(entry) in self.held:
                    raise SystemCallError(f"the table has this entry already: {entry}")
                self.held[_name(entry)] = entry
                self._record("insert", entry)

    def modify(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            with self._lock:
                if not _always_exists(entry) and _name(entry) not in self.held:
                    raise SystemCallError(f"the table has no such entry: {entry}")
                self.held[_name(entry)] = entry
                self._record("modify", entry)

    def delete(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            with self._lock:
                if self.held.pop(_name(entry), None) is not None:
                    self._record("delete", Entry(entry.table, entry.key))

    def clear(self, table: str) -> None:
        with self._lock:
            for name in [name for name, entry in self.held.items() if entry.table == table]:
                del self.held[name]
            self._record("clear", Entry(table, {}))

    def entries(self, table: str, fields: Sequence[str]) -> list[Entry]:
        with self._lock:
            held = [entry for entry in self.held.values() if entry.table == table]
        return [Entry(table, entry.key, {f: entry.data[f] for f in fields if f in entry.data}) for entry in held]

    def read(self, entries: Sequence[Entry]) -> list[dict[str, int]]:
        with self._lock:
            found = [self.held.get(_name(entry), entry).data for entry in entries]
        return [{name: int(value) for name, value in data.items()} for data in found]  # type: ignore[arg-type]

    def next_digest(self, timeout: float) -> Digest | None:
        try:
            return self.digests.get(timeout=timeout)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Does nothing, because there is no chip."""

    def _record(self, operation: str, entry: Entry) -> None:
        write = Write(operation, entry)
        self.writes.append(write)
        if self._log:
            _log.info("%s", write)


def _name(entry: Entry) -> tuple[object, ...]:
    return (entry.table, *entry.key.items())


def _always_exists(entry: Entry) -> bool:
    return set(entry.key) <= {"$REGISTER_INDEX", "$COUNTER_INDEX", "$MULTICAST_L2_XID"}
