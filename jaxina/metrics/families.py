"""Turns the counters of workers and switches into Prometheus' metric families."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

# What the engine's counters mean. A counter that is not here is explained by its name.
_MEANING = {
    "collectives": "Collectives of all local devices.",
    "elements": "Elements of all local devices' collectives.",
    "packets_sent": "Packets sent. In shared memory: passes.",
    "packets_received": "Packets received. In shared memory: passes.",
    "bytes_sent": "Bytes sent: IP packets at a worker, UDP payloads at a switch.",
    "bytes_received": "Bytes received: IP packets at a worker, UDP payloads at a switch.",
    "bytes_of_32_bits": "Bytes of words of 32 bits, without headers.",
    "bytes_of_16_bits": "Bytes of words of 16 bits, without headers.",
    "bytes_of_8_bits": "Bytes of words of 8 bits, without headers.",
    "retransmissions": "Passes sent again.",
    "window_decreases": "How often the window was decreased.",
    "packets_dropped": "Packets dropped on purpose, by JAXINA_LOSS.",
    "packets_unsent": "Packets that the network did not accept.",
    "packets_rejected": "Packets rejected because they were malformed, stale or foreign.",
    "socket_overflows": "Packets that came while the socket's receive buffer was full.",
    "marked": "Packets with a mark, because a link had a queue.",
    "staged_words": "Words of GPU arrays that the CPU copied or added.",
    "rounded_to_zero": "Numbers that became zero beside larger ones.",
    "updates": "Contributions that the aggregator accepted.",
    "results": "Completed passes.",
    "duplicates": "Updates that had been counted already.",
}


def _counter(prefix: str, name: str, labels: Iterable[str]) -> CounterMetricFamily:
    meaning = _MEANING.get(name, f"The engine's counter {name}.")
    return CounterMetricFamily(f"{prefix}_{name}", meaning, labels=list(labels))


class WorkerCollector(Collector):
    """The metrics of a worker.

    Args:
      rank: the worker's number.
      processes: how many workers the job has.
      aggregator: where the job is summed.
      statistics: returns the counters, by name.
      waiting: returns for how many seconds the oldest collective has been under way; 0 if there is none.
    """

    def __init__(
        self,
        rank: int,
        processes: int,
        aggregator: str,
        statistics: Callable[[], Mapping[str, int]],
        waiting: Callable[[], float],
    ):
        self._rank = str(rank)
        self._about = {"rank": self._rank, "processes": str(processes), "aggregator": aggregator}
        self._statistics = statistics
        self._waiting = waiting

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics as they are now."""
        yield InfoMetricFamily("jaxina_worker", "The worker, its job's size and its aggregator.", value=self._about)
        waiting = GaugeMetricFamily(
            "jaxina_worker_waiting_seconds", "How long the oldest collective has been under way.", labels=["rank"]
        )
        waiting.add_metric([self._rank], self._waiting())
        yield waiting
        for name, value in self._statistics().items():
            family = _counter("jaxina_worker", name, ["rank"])
            family.add_metric([self._rank], value)
            yield family


class SwitchCollector(Collector):
    """The metrics of a switch.

    Args:
      status: returns the switch's StatusReply (control.proto).
    """

    def __init__(self, status: Callable[[], Any]):
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics as they are now."""
        reply = self._status()
        yield _gauge("jaxina_switch_uptime_seconds", "How long the switch has been running.", reply.uptime_s)
        yield _gauge("jaxina_switch_jobs", "Jobs that are summed here.", len(reply.jobs))
        yield _gauge(
            "jaxina_switch_assisted_jobs",
            "Jobs that are summed elsewhere with this switch's help.",
            len(reply.assisted),
        )
        yield _gauge("jaxina_switch_draining", "1 if the switch takes no new jobs.", int(reply.draining))
        for name, value in sorted(reply.counters.items()):
            family = _counter("jaxina_switch", name, [])
            family.add_metric([], value)
            yield family
        yield _rejected("jaxina_switch", "Packets that belong to no job", [], [((), reply.rejected)])
        yield from _jobs(reply.jobs)


def _jobs(jobs: Any) -> Iterator[Metric]:
    workers = GaugeMetricFamily(
        "jaxina_switch_job_workers", "Workers of a job, by their state.", labels=["job", "state"]
    )
    awaited = GaugeMetricFamily(
        "jaxina_switch_job_awaited",
        "1 for each worker that has not joined, or that a slot waits for.",
        labels=["job", "rank"],
    )
    ended = GaugeMetricFamily("jaxina_switch_job_aborted", "1 if the job has ended with an error.", labels=["job"])
    counters: dict[str, CounterMetricFamily] = {}
    for job in jobs:
        name = str(job.job)
        workers.add_metric([name, "present"], job.present)
        workers.add_metric([name, "absent"], job.absent)
        ended.add_metric([name], int(bool(job.aborted)))
        for rank in job.missing:
            awaited.add_metric([name, str(rank)], 1)
        for counter, value in sorted(job.counters.items()):
            if counter not in counters:
                counters[counter] = _counter("jaxina_switch_job", counter, ["job"])
            counters[counter].add_metric([name], value)
    yield from (workers, awaited, ended, *counters.values())
    yield _rejected("jaxina_switch_job", "Packets of a job", ["job"], [((str(job.job),), job.rejected) for job in jobs])


def _gauge(name: str, meaning: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, meaning)
    family.add_metric([], value)
    return family


def _rejected(prefix: str, what: str, labels: list[str], counts: Iterable[tuple[tuple[str, ...], Any]]) -> Metric:
    family = CounterMetricFamily(
        f"{prefix}_packets_refused", f"{what} that changed nothing, by the reason.", labels=[*labels, "reason"]
    )
    for values, reasons in counts:
        for reason, value in sorted(reasons.items()):
            family.add_metric([*values, reason], value)
    return family
