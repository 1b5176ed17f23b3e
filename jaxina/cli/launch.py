"""One launch of a job's workers: their environment variables, and the coordinator, switch and files they need."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxina import _mpi_library, config, trace_file
from jaxina.cli import placement, worker_memory
from jaxina.cli.coordinator import private_coordinator, wait_for_other_hosts
from jaxina.cli.launcher import Launcher, Outcome
from jaxina.cli.output_files import writing
from jaxina.cli.private_switch import private_switch
from jaxina.cli.run_report import collect, failure_code, say, show
from jaxina.cli.signals import temporary_folder
from jaxina.cli.tagged_output import TaggedOutput
from jaxina.control.coordinator import address_of, listen
from jaxina.control.interfaces import listening_address
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class Nodes:
    """The hosts of a job. ``jaxina run`` is called on each.

    Attributes:
      count: how many hosts there are.
      this: the number of this host, from 0.
      coordinator: HOST:PORT of the coordinator, on node 0. None means any port of the loopback address.
    """

    count: int = 1
    this: int = 0
    coordinator: str | None = None

    def __post_init__(self) -> None:
        if self.this >= self.count:
            raise InvalidArgumentError(f"--node {self.this} is not below --nodes {self.count}: nodes count from 0")
        if self.count > 1 and self.coordinator is None:
            raise InvalidArgumentError(
                "several nodes need --coordinator HOST:PORT: an address of node 0 with a free port, the same on all "
                "nodes"
            )


@dataclasses.dataclass(frozen=True)
class Launch:
    """How to start the workers of a run. It is the same for all attempts.

    Attributes:
      command: the command that each worker runs.
      count: how many workers this host has.
      settings: the settings of all workers.
      own_switch: whether the run starts a switch of its own, if it needs one.
      racks: in how many racks the workers are. With more than one, the run's own switches are one for each rack, and a
        core switch above them. A testbed with racks has its own number.
      nodes: the hosts of the job.
      devices: CPU devices of each worker; None leaves that to the workers.
      trace: file for the timelines of all workers; None for none.
      log_folder: gets a file of output for each worker; None for none.
      grace: seconds that workers have to end by themselves after one has failed.
      log: the log level of worker 0, if the settings do not give one.
    """

    command: Sequence[str]
    count: int
    settings: config.Configuration
    own_switch: bool
    racks: int = 1
    nodes: Nodes = Nodes()
    devices: int | None = None
    trace: Path | None = None
    log_folder: Path | None = None
    grace: float = 2.0
    log: str = "info"

    @property
    def processes(self) -> int:
        """How many workers the job has, on all hosts."""
        return self.count * self.nodes.count

    @property
    def ranks(self) -> range:
        """The ranks of this host's workers."""
        first = self.nodes.this * self.count
        return range(first, first + self.count)

    def run(self, attempt: int = 0) -> tuple[Outcome, dict[str, Any]]:
        """Runs the workers to their end.

        Args:
          attempt: how often the workers were started before.

        Returns:
          How the run ended, and the workers' statistics (`run_report.collect`).
        """
        where = placement.current.get()
        where.check(self.count, self.racks, self.settings.aggregator)
        output = TaggedOutput(folder=self.log_folder)
        with contextlib.ExitStack() as stack:
            stack.callback(output.close)
            coordinator = stack.enter_context(self._coordinator())
            folder = stack.enter_context(temporary_folder("jaxina-run-"))  # the coordinator has no part in its handlers
            switches = stack.enter_context(self._switches())
            trace_part = stack.enter_context(self._traced(folder))
            # An address for programs that call jax.distributed.initialize themselves. On several nodes, the nodes could
            # not agree on it, so such programs must choose one.
            alone = self.nodes.count == 1
            without_us = where.at_first_worker(lambda: _free_beside(coordinator)) if alone else None

            def environment(rank: int) -> Mapping[str, str]:
                variables = self._environment(rank)
                variables["JAXINA_COORDINATOR"] = coordinator
                if without_us is not None:
                    variables["JAX_COORDINATOR_ADDRESS"] = without_us
                variables["JAXINA_RESTARTS"] = str(attempt)
                variables["JAXINA_STATS_FILE"] = str(folder / f"{rank}.json")
                variables["JAXINA_ERROR_FILE"] = str(folder / f"{rank}.error")
                if switches:
                    variables["JAXINA_SWITCH"] = switches[rank * len(switches) // self.processes]
                if trace_part is not None:
                    variables["JAXINA_TRACE"] = str(trace_part)
                return variables

            outcome = Launcher(
                lambda rank: where.on_worker(rank, list(self.command)),
                self.ranks,
                environment,
                output,
                lambda rank: failure_code(folder, rank),
                self.grace,
            ).run()
            if self.nodes.count > 1 and self.nodes.this == 0:
                from jaxina.control.tls import tls_of

                patience = math.inf if outcome.code == 0 else self.grace
                wait_for_other_hosts(coordinator, tls_of(self.settings), patience, say)
            return outcome, collect(folder)

    def _environment(self, rank: int) -> dict[str, str]:
        settings = self.settings
        variables = {
            "JAXINA_RANK": str(rank),
            "JAXINA_PROCESSES": str(self.processes),
            "JAXINA_AGGREGATOR": settings.aggregator,
            "JAXINA_LOSS": str(settings.loss),
            "JAXINA_CATCH_ALL": settings.catch_all,
            "JAXINA_LOG": settings.log if rank or settings.origins["log"] != "default" else self.log,
            "PYTHONUNBUFFERED": "1",
            # JAX's preemption notifier catches SIGTERM, so workers would not end when told to.
            "JAX_ENABLE_PREEMPTION_SERVICE": os.environ.get("JAX_ENABLE_PREEMPTION_SERVICE", "0"),
        }
        if settings.catch_all == "yes":  # an MPI library that the user has set stays
            variables[_mpi_library.VARIABLE] = os.environ.get(_mpi_library.VARIABLE, _mpi_library.OWN)
        if settings.keep_memory == "yes":
            variables.update(worker_memory.keeping(os.environ))
        if self.devices is not None:
            variables["JAX_NUM_CPU_DEVICES"] = str(self.devices)
        return variables

    def _coordinator(self) -> contextlib.AbstractContextManager[str]:
        nodes = self.nodes
        if nodes.this > 0 and nodes.coordinator is not None:
            return contextlib.nullcontext(nodes.coordinator)
        bind = (
            f"{placement.current.get().first_host}:0"
            if nodes.coordinator is None
            else nodes.coordinator
            if nodes.count == 1
            else listening_address(nodes.coordinator, self.settings.interface)
        )
        from jaxina.control.tls import tls_of

        return private_coordinator(bind, self.processes, tls_of(self.settings))

    @contextlib.contextmanager
    def _switches(self) -> Iterator[list[str]]:
        """Yields the switches that the workers name, one for each rack. The workers of a rack follow one another."""
        settings = self.settings
        if not settings.uses_switch:
            yield []
        elif self.own_switch:
            # More threads than this host's workers can keep busy would only compete with them.
            threads = 1 if (os.cpu_count() or 1) < 2 * self.count else 2
            rdma = settings.aggregator in ("roce", "verbs")
            with contextlib.ExitStack() as stack:

                def start(number: int, upstream: str | None = None, rack: int | None = None) -> str:
                    # Each switch drops other packets, so that losses are independent.
                    seed = (settings.loss_seed + (number << 33)) % 2**64
                    return stack.enter_context(private_switch(settings.loss, seed, threads, rdma, upstream, rack))

                top, placed = start(0), placement.current.get().racks
                racks = placed if placed > 1 and settings.aggregator == "atp" else self.racks
                of_rack = [start(1 + rack, top, rack if placed > 1 else None) for rack in range(racks) if racks > 1]
                yield of_rack or [top]
        else:
            yield [settings.switch]

    @contextlib.contextmanager
    def _traced(self, folder: Path) -> Iterator[Path | None]:
        """Yields where in the folder the processes write their timelines, which are merged into `trace` at the end."""
        if self.trace is None:
            yield None
            return
        part = folder / "timelines" / "trace.json"
        part.parent.mkdir()
        yield part
        parts = [trace_file.of_process(part, rank, self.processes) for rank in self.ranks]
        with writing("--trace", self.trace):
            found = trace_file.merge(parts, self.trace)
        show(f"jaxina: {found} of {self.count} workers in {self.trace}; https://ui.perfetto.dev opens it")


def _free_beside(coordinator: str) -> str:
    """Finds an address on the coordinator's host at which nobody listens.

    It is for programs that call `jax.distributed.initialize` themselves. JAX then lets process 0 listen there.
    """
    host, _ = config.split_address(coordinator)
    with listen(f"[{host}]:0" if ":" in host else f"{host}:0") as free:
        return address_of(free)
