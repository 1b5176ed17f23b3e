"""What the data planes of both programs share: ports, other traffic, and a thread that listens to the digests."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from jaxina.control.data_plane import Terms
from jaxina.controller.chip import Chip
from jaxina.controller.ingress_parser import IngressParser
from jaxina.controller.l2_forwarding import L2Forwarding
from jaxina.controller.multicast import Multicast
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

    Attributes:
      ended: `ended(job, code, message)` is called, on the plane's own thread, when the program has seen that a job
        cannot go on.
    """

    terms = Terms(whole_chunks=True, checksums=False)

    def __init__(self, tables: Tables, chip: Chip):
        self.ended: Callable[[int, str, str], Any] = lambda job, code, message: None
        self._tables = tables
        self._chip = chip
        self._lock = threading.RLock()  # the control service's threads and the digests' thread share all this
        self._multicast = Multicast(tables)
        self._port_statistics = PortStatistics(tables, chip)
        self._take_over()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="jaxina-digests", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops listening. The tables stay as they are."""
        self._stopping.set()
        self._thread.join()
        self._tables.close()

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

    def _listen(self) -> None:
        while not self._stopping.is_set():
            digest = self._tables.next_digest(_DIGEST_POLL)
            if digest is None:
                continue
            try:
                self._on_digest(digest)
            except JaxinaError as error:
                _log.error("digest %s: %s", digest, error)
