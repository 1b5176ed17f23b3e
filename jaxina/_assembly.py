"""Starts what a process needs for its part in a job: the aggregator's side, the engine, and the page of metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from jaxina import _watching, config, joining
from jaxina.control.connector import Aggregators, Connector, EmbeddedAggregators
from jaxina.control.topology import JaxTopology

if TYPE_CHECKING:
    from jaxina.metrics.endpoint import Endpoint


def start(
    configuration: config.Configuration,
    topology: JaxTopology,
    incarnation: int,
    statistics: Callable[[], dict[str, int]],
) -> tuple[Connector, Endpoint | None]:
    """Starts the engine, and what joins it to the job's aggregator. If a part cannot start, none is left running.

    Args:
      configuration: this process's settings.
      topology: this process's number, and how many there are.
      incarnation: how often `jaxina.init` has begun in this process; part of every published key.
      statistics: reads the job's counters for the page of metrics; empty before the job stands and after its end.

    Returns:
      The connector, and the page of metrics if the settings ask for one.
    """
    from jaxina import _native

    host = joining.own_host(topology.processes, configuration.interface)
    if topology.processes > 1:
        joining.gloo_at(host)
    with contextlib.ExitStack() as undo:
        metrics = _serve_metrics(configuration, topology, statistics)
        if metrics is not None:
            undo.callback(metrics.stop)
        aggregators = _aggregators(configuration, topology.process, host)
        undo.callback(aggregators.leave, None)
        connector = Connector(
            configuration, topology, aggregators, joining.jax_store, joining.ended_processes, incarnation, host
        )
        _native.set_mpi_world(
            topology.process,
            topology.processes,
            host,
            list(configuration.ports or ()),
            configuration.timeout,
            topology.only_devices,
            lambda port, secret: joining.exchange_endpoints(
                topology, incarnation, (host, port, secret), configuration.timeout
            ),
            lambda process: process in joining.ended_processes(),
        )
        _native.start(connector, connector.ended, trace=configuration.trace is not None)
        undo.pop_all()
    return connector, metrics


def _serve_metrics(
    configuration: config.Configuration, topology: JaxTopology, statistics: Callable[[], dict[str, int]]
) -> Endpoint | None:
    if configuration.metrics is None:
        return None
    from jaxina.control.tls import tls_of
    from jaxina.metrics.endpoint import Endpoint

    def collector() -> object:
        from jaxina.metrics.families import WorkerCollector

        return WorkerCollector(
            *(topology.process, topology.processes, configuration.aggregator, statistics, _watching.longest_wait)
        )

    return Endpoint(configuration.metrics, topology.process, collector, tls_of(configuration))


def _aggregators(configuration: config.Configuration, process: int, host: str) -> Aggregators:
    if configuration.aggregator == "embedded":
        return EmbeddedAggregators()
    from jaxina import _native

    # These need gRPC, which embedded does not.
    if configuration.aggregator in ("direct", "atp"):
        from jaxina.control.direct_jobs import DirectAggregators

        ended = joining.ended_processes
        return DirectAggregators(configuration, process, host, ended, _native.abort, _native.statistics)
    if configuration.aggregator == "netreduce":
        from jaxina.control.ring_jobs import RingAggregators

        return RingAggregators(configuration, host, joining.ended_processes, _native.abort, _native.statistics)
    from jaxina.control.switch_jobs import SwitchAggregators

    return SwitchAggregators(configuration, _native.abort, _native.statistics)
