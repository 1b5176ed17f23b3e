"""Members of elastic teams in processes of their own, for tests. The forked server has imported everything already."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import queue
import time
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from jaxina.errors import JaxinaError

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["jax", "elastic_members", "jaxina.elastic"])

SIZE = 1000
UNTIL = 60


def share_of(step: int, rank: int, size: int) -> np.ndarray:
    """What a member adds in a step: float32[SIZE]. Of n members, that of rank r has the parts r, r + n, ... of 12."""
    parts = [np.random.default_rng((step, part)).normal(size=SIZE).astype(np.float32) for part in range(12)]
    return np.sum(parts[rank::size], axis=0, dtype=np.float32)


def replay(sizes: list[int]) -> np.ndarray:
    """The state after steps with so many members each, by the readable reference of the sums."""
    from jaxina.numerics import all_reduce_reference

    state = np.zeros(SIZE, np.float32)
    for step, size in enumerate(sizes):
        shares = [share_of(step, rank, size) for rank in range(size)]
        total = all_reduce_reference(shares) if size > 1 else shares[0]
        state = (state * np.float32(0.5) + total).astype(np.float32)
    return state


@dataclasses.dataclass
class Kind:
    """How a member behaves.

    Attributes:
      until: the step before which the work is done.
      pause: seconds that each step takes.
      hangs_at: the step in which it stops computing; -1: none.
      extra: whether it sums one number more than the others, as another program would.
      drifts: whether it adds its process id to its state, which no step may do.
      size: of the state.
      settings: of `jaxina.elastic.steps`.
    """

    until: int = UNTIL
    pause: float = 0.02
    hangs_at: int = -1
    extra: bool = False
    drifts: bool = False
    size: int = SIZE
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)


def _run(keeper: str, kind: Kind, told: Any) -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp

    import jaxina.elastic

    @jax.jit
    def update(state: jax.Array, own: jax.Array) -> jax.Array:
        (total,) = jaxina.elastic.all_reduce((own,))
        changed = jnp.asarray(state * 0.5)
        if kind.extra:
            changed += 0 * jaxina.elastic.all_reduce(jnp.float32(1))
        return changed + total

    def step(state: jax.Array, turn: jaxina.elastic.Turn) -> tuple[jax.Array, None]:
        time.sleep(kind.pause)
        if turn.step == kind.hangs_at:
            time.sleep(3600)
        changed = update(state, share_of(turn.step, turn.rank, turn.size))
        return (changed + os.getpid() if kind.drifts else changed), None

    try:
        state = np.zeros(kind.size, np.float32)
        for done in jaxina.elastic.steps(step, state, until=kind.until, keeper=keeper, **kind.settings):
            told.put((done.step, done.size, time.monotonic()))
            state = done.state
        told.put(np.asarray(state))
    except JaxinaError as error:
        told.put(error)


class Member:
    """A member in a process of its own."""

    def __init__(self, keeper: str, kind: Kind | None = None):
        self.sizes: dict[int, int] = {}  # by step
        self.when: dict[int, float] = {}
        self.end: Any = None  # the state, or the error
        self._told = _context.Queue()
        self.process: BaseProcess = _context.Process(
            target=_run, args=(keeper, kind or Kind(), self._told), daemon=True
        )
        self.process.start()

    def listen(self, seconds: float) -> bool:
        """Takes the next thing that the member tells. Returns whether there was one in time."""
        try:
            told = self._told.get(timeout=seconds)
        except queue.Empty:
            return False
        if isinstance(told, tuple):
            step, size, when = told
            assert step not in self.sizes, "a step was reported twice"
            self.sizes[step], self.when[step] = size, when
        else:
            self.end = told
        return True

    def wait_for(self, step: int) -> None:
        """Waits until the member has reported a step."""
        deadline = time.monotonic() + 60
        while step not in self.sizes and self.end is None and time.monotonic() < deadline:
            self.listen(1)
        assert step in self.sizes, f"step {step} did not come; {self.end!r}"

    def wait(self) -> Any:
        """Waits until the member's end. Returns its state, or its error."""
        deadline = time.monotonic() + 60
        while self.end is None and time.monotonic() < deadline:
            self.listen(1)
        assert self.end is not None, f"the member goes on, last with step {max(self.sizes, default=-1)}"
        return self.end
