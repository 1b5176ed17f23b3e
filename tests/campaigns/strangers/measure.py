"""Measures one attack on a switch with one job of each transport, and gives a verdict for each job.

The measurement has these phases:

    quiet ... quiet  (attack, pause, control, quiet) ...  pause  quiet ... quiet

The control is an attacker that burns as much processor time as the attack, but leaves the switch alone. The pause lets
the switch finish what the attack has left it to do. The machine has other work, too. So an attack is compared with the
quiet phase just before it, and a control with the one just after it. All figures are medians.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from real_processes.trial import fork

from strangers import stranger
from strangers.bystanders import (
    RDMA_PORT,
    Job,
    Switch,
    Usage,
    machine_processor,
    overhear,
    try_to_come_in,
)
from strangers.network import Network
from strangers.stranger import Attack, Target

KEPT = 0.8  # the share of its rate that a job must keep
MOST_GROWN = 256  # MiB by which the switch may grow because of strangers
MOST_THREADS = 64  # threads that the switch may start because of strangers
_GUARD = 8 * MOST_GROWN  # MiB of growth at which an attack is broken off, before the machine suffers
_LOOK_EVERY = 0.05  # seconds
_PAUSE, _SETTLE = 0.6, 1.0  # seconds: the shortest pause after an attack, and the pause after the last round
_STOPS_WITHIN = 8.0  # seconds, after which the attacker is killed
_UNDECIDED = (0.5, KEPT)  # a ratio between these gets more rounds
_MORE = 3  # at most this many times the planned rounds


@dataclasses.dataclass(frozen=True)
class Plan:
    """How long phases are: `rounds` attacks of `attack` seconds, with quiet and control phases of `other` seconds."""

    rounds: int
    attack: float
    other: float

    @staticmethod
    def of(seconds: float) -> Plan:
        rounds = max(3, round(seconds / 10))
        return Plan(rounds, seconds / rounds, min(max(0.4, seconds / rounds / 3), 2.0))


@dataclasses.dataclass
class Outcome:
    """One line of the table. Rates are sums per second."""

    attack: str
    kind: str
    transport: str
    before: float = 0.0
    attacked: float = 0.0
    control: float = 0.0
    after: float = 0.0
    to_undisturbed: float = 0.0
    to_control: float = 0.0  # the ratio that decides
    fresh: float = 0.0  # the rate of a new job at a new switch, measured if the old job seems not to recover
    sums: int = 0
    wrong: int = 0
    recovered: bool = False
    sent: float = 0.0  # packets or calls per second
    share: float = 0.0  # the share of a core that the attacker took
    mib_before: int = 0
    mib_peak: int = 0
    threads_before: int = 0
    threads_peak: int = 0
    others: float = 0.0  # cores that other work took in quiet phases; if they are many, the rates mean little
    switch_quiet: float = 0.0  # the switch's processor time in quiet phases, in cores
    switch_attacked: float = 0.0  # and during the attack
    newcomer: str = ""  # why an honest newcomer got no job during the attack
    failures: list[str] = dataclasses.field(default_factory=list)

    @property
    def slower_only(self) -> bool:
        """Whether only rates are wrong, which other work on the machine can lower, too."""
        return len(self.failures) == (self.to_control < KEPT) + (not self.recovered) > 0

    def judge(self) -> None:
        if self.wrong:
            self.failures.append(f"{self.wrong} of {self.sums} sums are wrong")
        if self.to_control < KEPT:
            self.failures.append(f"the rate falls to {self.to_control:.0%}")
        if not self.recovered:
            self.failures.append(f"{self.after:.0f} sums/s afterwards, {self.before:.0f} before, {self.fresh:.0f} anew")
        if self.mib_peak - self.mib_before > MOST_GROWN:
            self.failures.append(f"the switch grew by {self.mib_peak - self.mib_before} MiB")
        if self.threads_peak - self.threads_before > MOST_THREADS:
            self.failures.append(f"the switch started {self.threads_peak - self.threads_before} threads")
        if self.newcomer:
            self.failures.append(f"a newcomer gets no job: {self.newcomer}")


class Broken(Exception):
    """A job or the switch has ended, or the attack was broken off."""


class Measurement:
    """Runs the phases. The keys of `jobs` and `outcomes` are transports."""

    def __init__(
        self,
        network: Network,
        switch: Switch,
        jobs: dict[str, Job],
        attack: Attack,
        outcomes: dict[str, Outcome],
        plan: Plan,
    ):
        self._network, self._switch, self._jobs = network, switch, jobs
        self._attack, self._outcomes, self._plan = attack, outcomes, plan
        # For each transport: (phase, sums per second), in the order of the phases.
        self._rates: dict[str, list[tuple[str, float]]] = {transport: [] for transport in jobs}
        self._processor: dict[str, list[float]] = {"before": [], "attack": []}
        self._others: list[float] = []
        self._sent: list[float] = []  # per second
        self._share = 0.0
        self._target = Target(switch.address, switch.data_ports, RDMA_PORT)
        first = switch.usage()
        for outcome in outcomes.values():
            outcome.mib_before, outcome.threads_before = first.mib, first.threads

    def run(self) -> None:
        plan = self._plan
        overheard = self._ask(functools.partial(overhear, self._network, (*self._switch.data_ports, RDMA_PORT)), 10.0)
        self._target = dataclasses.replace(self._target, overheard=overheard or ())
        try:
            self._repeat("before")
            rounds = 0
            while rounds < plan.rounds or (rounds < _MORE * plan.rounds and self._undecided()):
                rounds += 1
                self._one_round(rounds)
                if rounds == plan.rounds:
                    newcomer = self._newcomer_during_attack()
                    for outcome in self._outcomes.values():
                        outcome.newcomer = newcomer
            self._watch(_SETTLE)
            for _ in range(_MORE):
                self._repeat("after")
                if all(self._median(job, "after") >= KEPT * self._median(job, "before") for job in self._jobs):
                    break
        except (Broken, ProcessLookupError) as error:
            for outcome in self._outcomes.values():
                outcome.failures.append(str(error))
        finally:
            for transport, outcome in self._outcomes.items():
                self._conclude(transport, outcome)

    def _repeat(self, phase: str) -> None:
        for _ in range(self._plan.rounds):
            self._slice(phase, self._plan.other)

    def _one_round(self, number: int) -> None:
        act = functools.partial(stranger.attack_for, self._plan.attack, self._attack, self._target, number)
        with self._attacker(act) as result:
            self._slice("attack", self._plan.attack)
            sent, processor = result()
        self._sent.append(sent / self._plan.attack)
        self._share = processor / self._plan.attack
        self._watch(max(_PAUSE, self._plan.other / 2))
        with self._attacker(functools.partial(stranger.burn_for, self._plan.other, self._share)):
            self._slice("control", self._plan.other)
        self._slice("between", self._plan.other)

    def _newcomer_during_attack(self) -> str:
        act = functools.partial(stranger.attack_for, min(2.0, self._plan.attack), self._attack, self._target, 0)
        with self._attacker(act):
            self._watch(min(1.0, self._plan.attack / 2))
            answer = self._ask(functools.partial(try_to_come_in, self._network, self._switch.address), 20.0)
        return "no answer" if answer is None else str(answer)

    # ---- processes

    @contextlib.contextmanager
    def _attacker(self, act: Callable[[], int]) -> Iterator[Callable[[], tuple[int, float]]]:
        """A context with an attacking process. Yields a function that waits for the process's result.

        The result is how much it sent, and its processor time.
        """
        hear, tell = fork.Pipe(duplex=False)
        process = fork.Process(
            target=stranger.run, args=(act, functools.partial(self._network.enter, "stranger"), tell), daemon=True
        )
        process.start()
        tell.close()

        def result() -> tuple[int, float]:
            with contextlib.suppress(EOFError):
                if hear.poll(_STOPS_WITHIN):
                    return hear.recv()
            raise Broken("the attacker did not stop by itself, or failed")

        try:
            yield result
            process.join(_STOPS_WITHIN)
            if process.exitcode:
                raise Broken(f"the attacker failed, exit code {process.exitcode}")
        finally:
            process.kill()
            process.join()

    def _ask(self, act: Callable[[Any], None], within: float) -> Any:
        """Runs `act` in a process of its own. Returns what it sends, or None if nothing comes in time."""
        hear, tell = fork.Pipe(duplex=False)
        process = fork.Process(target=act, args=(tell,), daemon=True)
        process.start()
        tell.close()
        try:
            return hear.recv() if hear.poll(within) else None
        except EOFError:
            return None
        finally:
            process.kill()
            process.join()

    # ---- observing

    def _slice(self, phase: str, seconds: float) -> None:
        started, sums, switch, job, machine = self._now()
        self._watch(seconds)
        ended, more_sums, more_switch, more_job, more_machine = self._now()
        took = ended - started
        for transport, rates in self._rates.items():
            rates.append((phase, (more_sums[transport] - sums[transport]) / took))
        if phase in self._processor:
            self._processor[phase].append((more_switch - switch) / took)
        if phase in ("before", "between", "after"):
            self._others.append((more_machine - machine - (more_switch - switch) - (more_job - job)) / took)

    def _now(self) -> tuple[float, dict[str, int], float, float, float]:
        """Returns the time, each job's sums, and the processor time of the switch, the jobs and the machine."""
        sums = {transport: job.sums for transport, job in self._jobs.items()}
        jobs = sum(job.processor for job in self._jobs.values())
        return time.monotonic(), sums, self._switch.usage().processor, jobs, machine_processor()

    def _watch(self, seconds: float) -> None:
        """Lets time pass. Raises Broken if a job ends or the switch grows too much."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(_LOOK_EVERY, left))
            self._note(self._switch.usage())
            for transport, job in self._jobs.items():
                if error := job.error():
                    raise Broken(f"the {transport} job ended: {error}")

    def _note(self, usage: Usage) -> None:
        for outcome in self._outcomes.values():
            outcome.mib_peak = max(outcome.mib_peak, usage.mib)
            outcome.threads_peak = max(outcome.threads_peak, usage.threads)
            if outcome.mib_peak - outcome.mib_before > _GUARD:
                raise Broken(f"broken off: the switch grew by more than {_GUARD} MiB")

    # ---- the verdict

    def _median(self, transport: str, phase: str) -> float:
        return statistics.median([rate for name, rate in self._rates[transport] if name == phase] or [0.0])

    def _share_of_quiet(self, transport: str, phase: str) -> float:
        """Returns the median of the phase's rates, each as a share of the rate in the quiet phase next to it."""
        shares = []
        for first, second in itertools.pairwise(self._rates[transport]):
            (name, rate), (_, quiet) = (first, second) if phase == "control" else (second, first)
            if name == phase and quiet > 0:
                shares.append(rate / quiet)
        return statistics.median(shares or [0.0])

    def _ratios(self, transport: str) -> tuple[float, float]:
        """Returns the rate during the attack, as a share of the undisturbed rate and of the rate in the control."""
        before, between = self._median(transport, "before"), self._median(transport, "between")
        attacked = self._share_of_quiet(transport, "attack")
        if before > 0 and between < KEPT * before:  # the harm lasts beyond the attack
            attacked = self._median(transport, "attack") / before
        cost = min(1.0, self._share_of_quiet(transport, "control"))
        return attacked, attacked / cost if cost else attacked

    def _undecided(self) -> bool:
        low, high = _UNDECIDED
        return any(low <= self._ratios(transport)[1] < high for transport in self._jobs)

    def _conclude(self, transport: str, outcome: Outcome) -> None:
        outcome.before, outcome.attacked = self._median(transport, "before"), self._median(transport, "attack")
        outcome.control, outcome.after = self._median(transport, "control"), self._median(transport, "after")
        outcome.recovered = outcome.after >= KEPT * outcome.before > 0
        outcome.to_undisturbed, outcome.to_control = self._ratios(transport)
        outcome.sent, outcome.share = statistics.median(self._sent or [0.0]), self._share
        outcome.sums, outcome.wrong = self._jobs[transport].sums, self._jobs[transport].wrong
        outcome.others = max(0.0, statistics.median(self._others or [0.0]))
        outcome.switch_quiet = statistics.median(self._processor["before"] or [0.0])
        outcome.switch_attacked = statistics.median(self._processor["attack"] or [0.0])


@dataclasses.dataclass(frozen=True)
class Bystanders:
    """The attacked jobs, one of each transport."""

    network: Network
    transports: tuple[str, ...]
    workers: int  # of each job
    elements: int  # of a float32 tensor
    threads: int  # of the switch's data path


def measure(bystanders: Bystanders, attack: Attack, plan: Plan) -> list[Outcome]:
    """Measures the attack on new jobs at a new switch, so that no attack suffers from what another one broke.

    If nothing is wrong but rates, it measures a second time, and the second outcome counts.
    """
    outcomes = _measure_once(bystanders, attack, plan)
    return _measure_once(bystanders, attack, plan) if any(one.slower_only for one in outcomes) else outcomes


def _measure_once(bystanders: Bystanders, attack: Attack, plan: Plan) -> list[Outcome]:
    outcomes = {transport: Outcome(attack.name, attack.kind, transport) for transport in bystanders.transports}
    try:
        with _running(bystanders) as (switch, jobs):
            Measurement(bystanders.network, switch, jobs, attack, outcomes, plan).run()
        # A job that has not recovered may only show that the machine has become slower. New jobs tell which it is.
        if any(one.after > 0 and not one.recovered for one in outcomes.values()):
            fresh = _fresh_rates(bystanders, plan)
            for transport, outcome in outcomes.items():
                outcome.fresh = fresh[transport]
                outcome.recovered = outcome.recovered or outcome.after >= KEPT * outcome.fresh
    except (RuntimeError, OSError) as error:
        for outcome in outcomes.values():
            outcome.failures.append(str(error))
    for outcome in outcomes.values():
        outcome.judge()
    return list(outcomes.values())


@contextlib.contextmanager
def _running(bystanders: Bystanders) -> Iterator[tuple[Switch, dict[str, Job]]]:
    network = bystanders.network
    with contextlib.ExitStack() as stack:
        switch = stack.enter_context(Switch(network, bystanders.threads))
        jobs = {}
        for transport in bystanders.transports:
            job = Job(network, switch, transport, bystanders.workers, bystanders.elements)
            jobs[transport] = stack.enter_context(job)
        yield switch, jobs


def _fresh_rates(bystanders: Bystanders, plan: Plan) -> dict[str, float]:
    rates: dict[str, list[float]] = {transport: [] for transport in bystanders.transports}
    with _running(bystanders) as (_, jobs):
        for _ in range(plan.rounds):
            sums, started = {transport: job.sums for transport, job in jobs.items()}, time.monotonic()
            time.sleep(plan.other)
            took = time.monotonic() - started
            for transport, job in jobs.items():
                rates[transport].append((job.sums - sums[transport]) / took)
    return {transport: statistics.median(of) for transport, of in rates.items()}
