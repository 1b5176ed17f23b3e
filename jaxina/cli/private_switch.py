"""Starts a software switch for one run. It is a child process, which ends with the run."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterator

from jaxina import config, testbed
from jaxina.cli import placement
from jaxina.cli.children import die_with
from jaxina.errors import SwitchUnreachableError

_START_TIMEOUT = 30.0  # seconds; on a busy machine, a Python program takes long to start
_STOP_TIMEOUT = 5.0


@contextlib.contextmanager
def private_switch(
    loss: float, loss_seed: int, threads: int, rdma: bool, upstream: str | None = None, rack: int | None = None
) -> Iterator[str]:
    """Runs a software switch while the context lasts, where the placement of the run has it.

    Args:
      loss: share of arriving packets to drop.
      loss_seed: seed of the dropped packets.
      threads: threads of the data path.
      rdma: whether it answers RDMA too.
      upstream: the control address of the switch above it; None if there is none.
      rack: the rack that it is in; None if it is in no rack.

    Yields:
      The switch's control address, HOST:PORT.

    Raises:
      SwitchUnreachableError: it did not start.
    """
    where = placement.current.get()
    host = where.switch_host(rack)
    options = ["--bind", f"{host}:0", "--threads", str(threads), "--loss", str(loss), "--loss-seed", str(loss_seed)]
    options += ["--rdma", f"{host}:0"] if rdma else []
    options += ["--upstream", upstream] if upstream is not None else []
    with _running(lambda command: where.on_switch(command, rack), options) as address:
        yield address


@contextlib.contextmanager
def transparent_switch(made: testbed.Testbed) -> Iterator[str]:
    """Runs a transparent switch in the place of a testbed's bridge, while the context lasts.

    Args:
      made: a testbed without racks, which is up.

    Yields:
      The switch's control address, HOST:PORT.

    Raises:
      SwitchUnreachableError: it did not start.
    """
    options = ["--transparent", ",".join(testbed.without_bridge(made)), "--bind", f"{made.transparent_host}:0"]
    with _running(lambda command: [*made.inside(testbed.BRIDGE), *command], options) as address:
        yield address


@contextlib.contextmanager
def _running(placed: Callable[[list[str]], list[str]], options: list[str]) -> Iterator[str]:
    """Runs `jaxina switch` with these options, and yields its control address."""
    parent = os.getpid()
    read_end, write_end = os.pipe()
    command = [sys.executable, "-m", "jaxina.cli", "switch", *options, "--announce-fd", str(write_end), "--quiet"]
    process = subprocess.Popen(
        placed(command),
        stdin=subprocess.DEVNULL,
        # The workers serve their counters there.
        env={name: value for name, value in os.environ.items() if name != config.variable("metrics")},
        start_new_session=True,
        pass_fds=[write_end],
        preexec_fn=lambda: die_with(parent),
    )
    os.close(write_end)
    try:
        yield _announced(read_end)
    finally:
        os.close(read_end)
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _announced(read_end: int) -> str:
    with selectors.DefaultSelector() as selector:
        selector.register(read_end, selectors.EVENT_READ)
        ready = selector.select(_START_TIMEOUT)
    text = os.read(read_end, 1000).decode() if ready else ""
    if not text.endswith("\n"):
        raise SwitchUnreachableError(
            "the private switch of this run did not start; see its message above, or start one "
            "with `jaxina switch` "
            "and name it by --switch HOST:PORT"
        )
    return text.strip()
