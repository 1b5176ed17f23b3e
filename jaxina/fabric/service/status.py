"""What a scheduler says of its job."""

from __future__ import annotations

from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service.job import Job


def status_of(job: Job, uptime: float) -> pb.StatusReply:
    """The state of a job.

    Args:
      job: it.
      uptime: seconds that the daemon runs.
    """
    reply = pb.StatusReply(
        planned=job.turns.planned,
        decided=job.turns.decided,
        replicated=job.turns.replicated,
        lost=job.lost,
        waiting=len(job.ready),
        uptime_s=uptime,
        delay_bound=job.settings.delay_bound,
        greatest_delay=job.greatest_delay,
        added=job.added,
        serving="" if job.carrier is None else job.carrier.server,
    )
    for name in job.settings.hosts:
        host, counts = job.hosts.find(name), job.counts[name]
        out, into = job.links.rates(name)
        reply.hosts.add(
            name=name,
            address="" if host is None else host.address,
            out_per_s=out,
            in_per_s=into,
            committed=counts.committed,
            dropped=counts.dropped,
        )
    return reply
