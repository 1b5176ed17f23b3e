"""What the data planes of both programs share: ports, other traffic, how jobs and their members go, and a thread that
listens to the digests."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

from jaxina.control.data_plane import Terms
from jaxina.controller.chip import Chip
from jaxina.controller.ingress_parser import IngressParser
from jaxina.controller.journal import OF_GROUP, Journal
from jaxina.controller.l2_forwarding import L2Forwarding
from jaxina.controller.multicast import Multicast, Receivers
from jaxina.controller.parts import Parts
from jaxina.controller.pool import Station
from jaxina.controller.port_statistics import PortStatistics
from jaxina.controller.ports import Ports
from jaxina.controller.tables import Digest, Tables
from jaxina.controller.vlan_tag import VlanTag
from jaxina.errors import JaxinaError

_log = logging.getLogger("jaxina.switch")

UDP_PORT = 51001  # any number would do: the programs recognize a job's packets by their header
_DIGEST_POLL = 0.2  # seconds


class ChipPlane:
    """Fills the chip's tables and listens to its digests, from construction to `stop`.

    What an earlier controller has left in the chip is removed first.

    Args:
      tables: the chip's tables.
      chip: the switch's description.
      journal: writes the jobs' entries.
      pool: the jobs' parts of the chip.

    Attributes:
      ended: `ended(job, code, message)` is called, on the plane's own thread, when the program has seen that a job
        cannot go on.
    """

    terms = Terms(whole_chunks=True, checksums=False)

    def __init__(self, tables: Tables, chip: Chip, journal: Journal, pool: Parts[Any]):
        self.ended: Callable[[int, str, str], Any] = lambda job, code, message: None
        self._tables = tables
        self._chip = chip
        self._journal = journal
        self._pool = pool
        self._lock = threading.RLock()  # the control service's threads and the digests' thread share all this
        self._multicast = Multicast(tables, journal)
        self._port_statistics = PortStatistics(tables, chip)
        self._take_over()
        self._stopping = threading.Event()
        self._told = ""  # the last error of waiting for digests; the same one is not logged again and again
        self._thread = threading.Thread(target=self._listen, name="jaxina-digests", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops listening. The tables stay as they are."""
        self._stopping.set()
        self._thread.join()
        self._tables.close()

    def remove_job(self, job: int) -> None:
        """Deletes the job's entries. If the driver refuses, nobody else gets the job's part until they are deleted."""
        with self._lock:
            self._pool.remove(job)
            self._clean_up()

    @property
    def ports(self) -> list[int]:
        return [UDP_PORT]

    def _take_over(self) -> None:
        """Empties the tables of an earlier controller, and fills those that do not depend on jobs."""
        raise NotImplementedError

    def _on_digest(self, digest: Digest) -> None:
        raise NotImplementedError

    def _fill(self) -> None:
        """Fills the tables that both programs have."""
        Ports(self._tables).fill(self._chip)
        IngressParser(self._tables).fill(self._chip)
        self._multicast.fill(self._chip)
        L2Forwarding(self._tables).fill(self._chip)
        VlanTag(self._tables).fill(self._chip)

    def _clean_up(self) -> None:
        """Deletes what the chip still has of jobs that were removed. It is tried again when a job comes or goes."""
        for job in list(self._pool.leaving.values()):
            try:
                self._journal.take_back(job)
            except Exception as error:
                _log.error(
                    "job %d has ended, but the chip may still have %d entries of it, so its part stays reserved until "
                    "they are deleted: %s",
                    *(job.id, len(job.written), error),
                    exc_info=_unexpected(error),
                )
            else:
                del self._pool.leaving[job.id]

    @contextlib.contextmanager
    def _entering(self, job: Receivers, member: int, station: Station) -> Iterator[None]:
        """The entries of a member are written in this context. If one is refused, none stays, and the member can come
        again. What the chip has of an earlier time is deleted first.
        """
        self._forget(job, member)
        job.stations[member] = station
        try:
            yield
        except BaseException:
            try:
                self._forget(job, member)
            except Exception as error:  # what stays is deleted when the member comes again, or the job goes
                _log.error("taking back the entries of %d: %s", member, error, exc_info=_unexpected(error))
            raise

    def _forget(self, job: Receivers, member: int) -> None:
        job.stations.pop(member, None)
        self._journal.take_back(job, lambda written: written.owner in (member, OF_GROUP))

    def _listen(self) -> None:
        """Nothing that goes wrong with one digest keeps the next ones from being heard."""
        while not self._stopping.is_set():
            digest = self._next_digest()
            if digest is None:
                continue
            try:
                self._on_digest(digest)
            except Exception as error:
                _log.error("digest %s: %s", digest, error, exc_info=_unexpected(error))

    def _next_digest(self) -> Digest | None:
        try:
            digest = self._tables.next_digest(_DIGEST_POLL)
        except Exception as error:
            if str(error) != self._told:
                _log.error("waiting for digests: %s", error, exc_info=_unexpected(error))
            self._told = str(error)
            self._stopping.wait(_DIGEST_POLL)
            return None
        self._told = ""
        return digest


def _unexpected(error: Exception) -> bool:
    """Whether the log must have an error's traceback, because its text alone does not name the cause."""
    return not isinstance(error, JaxinaError)
