"""The start and the end of aggregation in a process: `jaxina.init`, `jaxina.shutdown`, and the `Job` between them."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from jaxina import (
    _assembly,
    _gpu,
    _log_output,
    _override,
    _report,
    _route,
    _tracing_settings,
    _watching,
    config,
    joining,
    last_words,
    records,
)
from jaxina.control import last_run
from jaxina.control.connector import Connector
from jaxina.control.topology import JaxTopology
from jaxina.errors import InvalidArgumentError, NotCarriedError, NotInitializedError

if TYPE_CHECKING:
    from jaxina.metrics.endpoint import Endpoint

_log = logging.getLogger(__name__)

_lock = threading.Lock()
_current: Job | None = None
# In a forked child: the parent's job. The reference keeps it alive, since only the parent may leave it.
_of_parent: list[Job | None] = []
_incarnation = 0  # how often init() succeeded in this process; part of every published key


class Job:
    """This process's part in aggregation, from `jaxina.init` to `jaxina.shutdown`.

    `jaxina.init` makes it. As a context manager it shuts down at the end of the block; if the block ends with an
    exception, the other processes are told why.

    Attributes:
      process: this process's number, from 0.
      processes: how many processes take part.
      aggregator: "embedded", "direct", "atp", "udp", "roce", "verbs" or "netreduce".
      configuration: all settings, and where each came from.
    """

    def __init__(
        self, configuration: config.Configuration, topology: JaxTopology, connector: Connector, metrics: Endpoint | None
    ):
        self.process = topology.process
        self.processes = topology.processes
        self.aggregator = configuration.aggregator
        self.configuration = configuration
        self._connector = connector
        self._rounded_before = _report.rounded_to_zero()
        self._metrics = metrics

    def statistics(self) -> dict[str, int]:
        """Reads the counters of this process's engine since `init`.

        Returns:
          The value of each counter, by name. Among them: ``collectives``, ``elements``, ``packets_sent``,
          ``packets_received``, ``bytes_sent``, ``bytes_received``, ``bytes_of_32_bits``, ``bytes_of_16_bits`` and
          ``bytes_of_8_bits`` (of words sent in that width, without headers), ``retransmissions``, ``packets_dropped``,
          ``packets_rejected``, ``marked`` (results that said that a link's queue was long), ``window_decreases``,
          ``staged_words`` (words of GPU arrays that the CPU copied or added) and
          ``rounded_to_zero`` (numbers on CPU that became zero, see `jaxina.Program`).
        """
        from jaxina import _native

        lost = _report.rounded_to_zero() - self._rounded_before
        return {**_native.statistics(), "rounded_to_zero": lost}

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _shut_down(self, _described(error))

    def __repr__(self) -> str:
        return f"<jaxina.Job {self.aggregator}, process {self.process} of {self.processes}>"


def init(
    aggregator: str | None = None,
    *,
    switch: str | None = None,
    servers: str | None = None,
    slots: int | None = None,
    block_size: int | None = None,
    blocks_per_chunk: int | None = None,
    bits: int | None = None,
    rounding: str | None = None,
    join_timeout: float | None = None,
    timeout: float | None = None,
    late_after: float | None = None,
    heartbeat_timeout: float | None = None,
    loss: float | None = None,
    loss_seed: int | None = None,
    trace: str | os.PathLike[str] | None = None,
    strict: bool | None = None,
    catch_all: bool | None = None,
) -> Job:
    """Starts aggregation in this process.

    Every process of the job calls it, with the same arguments. From then on jaxina carries the sums of all programs
    that the process compiles. `jaxina.collectives` leaves some of them to XLA.

    Under ``jaxina run`` it also initialises `jax.distributed`, unless that is done already. It must then come before
    anything that starts JAX's backend (that asks for devices or computes).

    An argument that is None comes from its ``JAXINA_*`` variable, or from the default if the variable is not set.
    ``jaxina info`` lists all of them.

    Args:
      aggregator: "embedded" (shared memory of this host), "direct" (the workers themselves, over a network), "atp" (the
        same, with switches that combine updates on the way), a switch reached by "udp" (datagrams), "roce" (RDMA from
        user space) or "verbs" (RDMA by a NIC), or "netreduce" (a ring of reliable RDMA connections between the
        workers, from user space, or by the NIC that JAXINA_RDMA_DEVICE names).
      switch: HOST:PORT of the switch's control service. Not for "embedded" and "direct". With "atp", several with
        commas between, and processes of several racks each name the switch of their own rack. With "netreduce", a
        switch on the way adds what passes if it is named; otherwise the workers add.
      servers: HOST:PORT of hosts that sum instead of the workers, with commas between. Only for "direct" and "atp".
      slots: pool size s, in slots.
      block_size: block size k, in elements.
      blocks_per_chunk: how many blocks one slot pass carries.
      bits: bits that a float of at most 32 bits takes on the wire, see `jaxina.collectives`.
      rounding: how 8 and 16 bits are rounded, see `jaxina.collectives`.
      join_timeout: how long to wait for the other workers and for the switch when joining, in seconds.
      timeout: how long one collective may take, in seconds.
      late_after: after how many seconds a collective is late. The watchdog then says which process has not come, and
        what it is doing. A fifth of `timeout` unless set; `math.inf`: never.
      heartbeat_timeout: after how many seconds of silence a worker is taken for dead.
      loss: share of arriving packets to drop, from 0 to below 1, for experiments ("direct", "udp", "roce" and
        "netreduce" without an RDMA device).
      loss_seed: seed that chooses the dropped packets.
      trace: file for a timeline of this process's slots, packets and waits. It is written at shutdown, in Chrome's
        trace event format, for ui.perfetto.dev. With several processes, process r writes NAME.r.json instead of
        NAME.json.
      strict: whether to refuse a program if one of its sums stays with XLA without being in
        ``jaxina.collectives(False)``. Compiling it then raises `jaxina.errors.NotCarriedError`.
      catch_all: whether jaxina also takes XLA's own collectives, for example those that the partitioner inserts for
        `jit` with shardings. This needs arrays on CPU, one device per process, and a JAX backend that has not started
        yet.

    Returns:
      The job. It ends with `jaxina.shutdown`, with the end of a ``with`` block, or with the process.

    Raises:
      InvalidArgumentError: a value is not allowed; or `init` ran already; or JAX's backend was started before the
        launched processes knew each other; or this host does not have the RDMA device, or its port is down.
      NeverJoinedError: a launched process did not start or did not call `init` within `join_timeout`.
      RankTakenError: two launched processes have the same rank.
      MismatchError: the launched processes have different settings.
      WorkerLostError: a launched process has ended.
      SwitchUnreachableError: no switch answers at `switch`.
      JobRejectedError: the switch refuses the call, for example because its token is missing.
      SystemCallError: a call to the operating system failed.
      NotCarriedError: `strict` is on, and jaxina cannot take part in this version of JAX.

    Example:
      See `jaxina` for a whole program. The job knows its settings:

      >>> import jaxina
      >>> with jaxina.init("embedded", slots=16, timeout=30) as job:
      ...     print(job, job.configuration.slots, job.configuration.origins["slots"])
      <jaxina.Job embedded, process 0 of 1> 16 argument
    """
    global _current, _incarnation
    configuration = config.resolve(
        on_gpu=_gpu.is_used(),
        aggregator=aggregator,
        switch=switch,
        servers=servers,
        slots=slots,
        block_size=block_size,
        blocks_per_chunk=blocks_per_chunk,
        bits=bits,
        rounding=rounding,
        join_timeout=join_timeout,
        timeout=timeout,
        late_after=late_after,
        heartbeat_timeout=heartbeat_timeout,
        loss=loss,
        loss_seed=loss_seed,
        trace=trace,
        strict=_yes_or_no("strict", strict),
        catch_all=_yes_or_no("catch_all", catch_all),
    )
    config.check_used(configuration)
    if configuration.strict == "yes" and _override.unavailable:
        raise NotCarriedError(f"no psum can be carried: {_override.unavailable}")
    with _lock:
        if _current is not None:
            raise InvalidArgumentError("jaxina.init() ran already: call jaxina.shutdown() before another init()")
        _log_output.set_up(configuration)
        if configuration.encryption == "yes" and not configuration.encrypts:
            _log.info("JAXINA_ENCRYPTION=yes does nothing with embedded: no packet of a sum leaves this host")
        if configuration.error_file is not None:
            last_words.install(configuration.error_file)
        if configuration.device is not None:
            from jaxina import _native

            _native.check_rdma_device(configuration.device)  # else the first psum would say what is wrong with it
        topology = joining.join_processes(configuration)
        exchange = functools.partial(joining.exchange_obstacles, topology, configuration.join_timeout)
        obstacle = _route.agree(configuration, topology.processes, joining.backend_started, exchange)
        job = _start(configuration, topology, _incarnation + 1)
        try:
            _route.open_route(obstacle, configuration.timeout)
            _report.be_strict(configuration.strict == "yes")
            _tracing_settings.precision.set_global(
                _tracing_settings.Precision(bits=configuration.bits, rounding=configuration.rounding)
            )
            _tracing_settings.block_size.set_global(configuration.block_size)
            _tracing_settings.carrying.set_global(True)
            _watching.start(configuration, topology, _incarnation + 1)
            if _incarnation == 0:
                atexit.register(_at_exit)
        except BaseException as error:
            _stop(job, _described(error))
            raise
        _current = job
        _incarnation += 1
        _log.info("%r", job)
        return job


def _yes_or_no(name: str, given: bool | None) -> str | None:
    if not isinstance(given, bool | None):
        raise InvalidArgumentError(f"{name} must be True, False or None, not {given!r}")
    return None if given is None else ("yes" if given else "no")


def shutdown() -> None:
    """Ends aggregation in this process.

    It waits for computations that JAX has dispatched, leaves all jobs at the aggregator, stops the engine, and writes
    the statistics and the timeline if they were asked for. `jaxina.init` may be called again afterwards.

    Raises:
      NotInitializedError: `init` did not run, or `shutdown` ran already.
      SystemCallError: the statistics or the timeline cannot be written.

    Example:
      >>> import jaxina
      >>> job = jaxina.init()
      >>> jaxina.shutdown()
      >>> jaxina.shutdown()
      Traceback (most recent call last):
      jaxina.errors.NotInitializedError: jaxina[NOT_INITIALIZED]: jaxina.shutdown() without jaxina.init()
    """
    job = _current
    if job is None:
        raise NotInitializedError("jaxina.shutdown() without jaxina.init()")
    _shut_down(job, failure=None)


def current() -> Job | None:
    """The job of this process; None before `init` and after `shutdown`."""
    return _current


def _start(configuration: config.Configuration, topology: JaxTopology, incarnation: int) -> Job:
    connector, metrics = _assembly.start(configuration, topology, incarnation, _statistics)
    return Job(configuration, topology, connector, metrics)


def _statistics() -> dict[str, int]:
    job = _current
    return {} if job is None else job.statistics()


def _shut_down(job: Job, failure: str | None) -> None:
    global _current
    with _lock:
        if _current is not job:
            return
        _current = None
        statistics = _stop(job, failure)
        configuration = job.configuration
        if configuration.stats_file is not None:
            record = {"process": job.process, "aggregator": job.aggregator, **statistics}
            records.write_statistics(configuration.stats_file, record)
        if configuration.trace is not None:
            records.write_trace(configuration.trace, job.process, job.processes, job.aggregator)
        if job.process == 0:
            if failure is None:  # else the sum that failed would seem not to have run
                records.sum_up(job.processes, statistics)
            last_run.write(job.aggregator, job.processes, statistics, _report.report())


def _stop(job: Job, failure: str | None) -> dict[str, int]:
    """Stops all parts of the job. If an exception, such as Ctrl-C, interrupts that, it still stops the rest.

    Returns:
      The job's statistics.
    """
    from jaxina import _native

    _tracing_settings.carrying.set_global(False)
    _tracing_settings.block_size.set_global(0)
    _tracing_settings.precision.set_global(_tracing_settings.Precision())
    statistics: dict[str, int] = {}
    with contextlib.ExitStack() as parts:  # stopped in reverse order
        parts.push(lambda kind, error, trace: job._connector.close(failure or _described(error)))
        parts.callback(_native.shutdown)
        parts.callback(job._connector.interrupt)
        if job._metrics is not None:
            parts.callback(job._metrics.stop)
        parts.callback(_watching.stop)
        if failure is None:
            _finish_computations()
        statistics.update(job.statistics())
    return statistics


def _finish_computations() -> None:
    """Waits for the computations that JAX has dispatched, also for those whose results nobody holds any more.

    They would fail if the engine stopped under them, and so would the other processes' parts of them. The wait is
    bounded: each collective ends within `timeout`.
    """
    import jax

    # Without a backend nothing was dispatched. To start one here would wait for all processes.
    if not joining.backend_started():
        return
    arrays = (array.block_until_ready for array in jax.live_arrays() if not array.is_deleted())
    for wait in (jax.effects_barrier, *arrays, _finish_programs):
        try:
            wait()
        except Exception as error:  # all the same, the others are waited for
            _log.warning("a dispatched computation failed before shutdown: %s", error)


def _finish_programs() -> None:
    """Runs an empty program on all devices. Programs for several devices run in the order of their dispatch."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    if jax.device_count() > 1:
        everywhere = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
        spread = jax.sharding.NamedSharding(everywhere, jax.sharding.PartitionSpec("devices"))
        jax.block_until_ready(jax.jit(lambda: jnp.zeros(jax.device_count()), out_shardings=spread)())


def _at_exit() -> None:
    # XLA must still be there. Exit handlers run in reverse order, and JAX registered its own earlier, so this runs
    # first.
    job = _current
    if job is not None:
        _shut_down(job, _described(getattr(sys, "last_value", None)))


def _forget_in_child() -> None:
    global _lock, _current
    _of_parent.append(_current)
    _lock, _current = threading.Lock(), None
    _watching.forget_in_child()
    joining.forget_in_child()


os.register_at_fork(after_in_child=_forget_in_child)


def _described(error: BaseException | None) -> str | None:
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return None
    return f"{type(error).__name__}: {error}".splitlines()[0][:500]
