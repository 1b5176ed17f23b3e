"""Processes and switches for tests of the control plane: real services and data planes in one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from control_fakes import FakeEngine, FakeStore, FakeTopology

from jaxina import _native, config
from jaxina.control.connector import Connector
from jaxina.control.direct_jobs import DirectAggregators
from jaxina.control.server import ControlServer
from jaxina.control.switch_planes import SwitchPlanes


class Process:
    """A process whose jobs are summed by the workers' own servers."""

    def __init__(
        self,
        store: FakeStore,
        number: int,
        processes: int,
        devices: int = 1,
        host: str = "127.0.0.1",
        environ: Mapping[str, str] | None = None,
        **settings: Any,
    ):
        settings = {"aggregator": "direct", "join_timeout": 5, **settings}
        self.configuration = config.resolve(environ or {}, **settings)
        self.engine = FakeEngine()
        self.ended: set[int] = set()
        self.aggregators = DirectAggregators(
            self.configuration, number, host, lambda: self.ended, self.engine.abort, self.engine.statistics
        )
        topology = FakeTopology(number, processes, devices)
        self.connector = Connector(self.configuration, topology, self.aggregators, lambda: store, lambda: self.ended, 1)

    @property
    def server(self) -> _native.SoftwareSwitch:
        assert self.aggregators._server is not None
        return self.aggregators._server

    @property
    def jobs(self) -> set[int]:
        return set(self.server.statistics()["jobs"])


class Switch:
    """A switch that can be started again at its address."""

    def __init__(self, threads: int = 1, bind: str = "127.0.0.1:0", upstream: str = ""):
        self.plane = _native.SoftwareSwitch("127.0.0.1", threads, 0.0, 0, entries=16)
        self.service = ControlServer(SwitchPlanes(self.plane, None), bind, ask_every=0.0, upstream=upstream)
        self.address = self.service.address

    def jobs(self) -> set[int]:
        return set(self.plane.statistics()["jobs"])

    def stop(self) -> None:
        self.service.stop()
        self.plane.stop()
