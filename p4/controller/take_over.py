"""Empties the chip of what an earlier controller has left there: the program's tables, and digests on their way."""

from __future__ import annotations

import time
from collections.abc import Sequence

from jaxina.controller.tables import Tables

_QUIET = 0.05  # seconds without a digest after which no more are on their way
PACKET_LIFETIME = 0.001  # seconds that a packet is in the switch at most; queues and eleven passes take microseconds

ADMITTING = (
    "pipe.Ingress.job_admission.udp_updates",
    "pipe.Ingress.job_admission.roce_writes",
    "pipe.Ingress.source_check.sources",
)
OF_ALL_PROGRAMS = (
    "$pre.mgid",
    "$pre.node",  # after the groups that have them
    "pipe.Ingress.l2_forwarding.stations",
    "pipe.Ingress.l2_forwarding.ports",
    "pipe.Egress.vlan_tag.ports",
    "pipe.IngressParser.switch_addresses",
    "pipe.IngressParser.loopback_ports",
)
OTHERS = (
    *OF_ALL_PROGRAMS,
    "pipe.Egress.replies.workers",
    "pipe.Egress.replies.queues",
    "pipe.Ingress.recirculation.next_pass",
)


def empty(
    tables: Tables,
    admitting: Sequence[str] = ADMITTING,
    others: Sequence[str] = OTHERS,
    lifetime: float = PACKET_LIFETIME,
) -> None:
    """Empties the program's tables, and drops the digests that have come.

    Args:
      tables: the chip's.
      admitting: those that let packets in, which are emptied first.
      others: the rest.
      lifetime: how many seconds the chip may remember a packet that was let in.

    The earlier controller's jobs are over, because their workers have lost their sessions with it. Their packets may
    still be in the chip. So first no more are admitted, and the rest follows when the last one has left. A digest about
    them would be taken for one about a new job with the same index.
    """
    for table in admitting:
        tables.clear(table)
    time.sleep(lifetime)
    for table in others:
        tables.clear(table)
    while tables.next_digest(_QUIET) is not None:
        pass
