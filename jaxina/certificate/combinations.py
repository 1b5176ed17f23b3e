"""What is combined: interpreters, codecs, layouts, transports with their settings, and how the program is compiled."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from jaxina.config import BITS

DEVICES = 4
LOSS = 0.05  # share of arriving packets
INSIDE = "inside"  # the transport of a group within one process: none
TRANSPARENT = "netreduce, switch"  # needs a testbed, since the switch stands between the hosts
CODECS = ("scalar", "avx2", "avx512")
SWITCHED = ("atp", "udp", "roce")  # need a switch of the run's own
_RINGS = ("netreduce", TRANSPARENT)  # add words of 32 bits only
ORDERS = {"in order": (0, 1, 2, 3), "reversed": (3, 2, 1, 0), "rotated": (1, 2, 3, 0)}
"""Which device has which row of the inputs. Reversed, the two devices of a process have a pair of rows as before."""
_LOSSY = ("direct", *SWITCHED, "netreduce")


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """A Python that has jaxina.

    Attributes:
      path: its executable.
      versions: of Python and of packages, by name.
      codecs: those that this processor can run.
      verbs: which RDMA devices this host has, in words.
    """

    path: str
    versions: dict[str, str]
    codecs: tuple[str, ...]
    verbs: str

    def __str__(self) -> str:
        return f"JAX {self.versions['jax']}"


@dataclasses.dataclass(frozen=True)
class Layout:
    """How the devices lie in processes."""

    processes: int

    @property
    def devices(self) -> int:
        """CPU devices of each process."""
        return DEVICES // self.processes

    def __str__(self) -> str:
        return f"{self.processes}x{self.devices}"


LAYOUTS = (Layout(1), Layout(2), Layout(4))


@dataclasses.dataclass(frozen=True)
class Case:
    """How the program is compiled and its inputs are placed.

    Attributes:
      bits: of a word.
      bucket: bytes up to which psums are merged; None: the default.
      order: how the inputs lie on the devices, one of `ORDERS`.
    """

    bits: int
    bucket: int | None = None
    order: str = "in order"

    def __str__(self) -> str:
        bucket = "default buckets" if self.bucket is None else f"buckets of {self.bucket} bytes"
        return f"{self.bits} bits, {bucket}, inputs {self.order}"


@dataclasses.dataclass(frozen=True)
class Setting:
    """What `jaxina.init` gets.

    Attributes:
      transport: an aggregator, `INSIDE` or `TRANSPARENT`.
      loss: share of arriving packets to drop.
      slots: pool size; None: the default.
      blocks: of a chunk; None: the default.
    """

    transport: str
    loss: float = 0.0
    slots: int | None = None
    blocks: int | None = None

    def __str__(self) -> str:
        loss = f", {self.loss:.0%} loss" if self.loss else ""
        slots = "default slots" if self.slots is None else f"{self.slots} slots"
        blocks = "default chunks" if self.blocks is None else f"chunks of {self.blocks} blocks"
        return f"{self.transport}{loss}, {slots}, {blocks}"

    def carries(self, case: Case) -> bool:
        """Whether the aggregator adds words of that width."""
        return case.bits >= 32 or self.transport not in _RINGS


@dataclasses.dataclass(frozen=True)
class Suite:
    """The combinations that one start of the processes goes through: each case with each setting."""

    interpreter: Interpreter
    codec: str
    layout: Layout
    settings: tuple[Setting, ...]
    cases: tuple[Case, ...]

    def __str__(self) -> str:
        return f"{self.interpreter}, {self.codec}, {self.layout}"

    def __len__(self) -> int:
        return len(self.combinations())

    @property
    def testbed(self) -> bool:
        """Whether the processes are in a testbed, each on a host of its own."""
        return any(setting.transport == TRANSPARENT for setting in self.settings)

    @property
    def key(self) -> str:
        """Names the suite with all that it consists of, so that results of another one are not taken for its own."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return f"{self}, {hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def combinations(self) -> list[Combination]:
        """All of them, in the order in which they run."""
        return [
            Combination(self, (setting, case))
            for setting in range(len(self.settings))
            for case in range(len(self.cases))
            if self.settings[setting].carries(self.cases[case])
        ]


@dataclasses.dataclass(frozen=True)
class Combination:
    """One way to form the sums.

    Attributes:
      suite: what it belongs to.
      place: the number of its setting in the suite, and that of its case.
    """

    suite: Suite
    place: tuple[int, int]

    @property
    def setting(self) -> Setting:
        return self.suite.settings[self.place[0]]

    @property
    def case(self) -> Case:
        return self.suite.cases[self.place[1]]

    def __str__(self) -> str:
        return f"{self.suite}, {self.setting}, {self.case}"

    def record(self) -> dict[str, Any]:
        """What it consists of, for a file."""
        return {
            "jax": self.suite.interpreter.versions["jax"],
            "codec": self.suite.codec,
            "layout": str(self.suite.layout),
            **dataclasses.asdict(self.setting),
            **dataclasses.asdict(self.case),
        }


@dataclasses.dataclass(frozen=True)
class NotRun:
    """What this host cannot run, and why."""

    what: str
    why: str


def plan(interpreters: Sequence[Interpreter], quick: bool, testbed: bool) -> tuple[list[Suite], list[NotRun]]:
    """Chooses what is combined.

    With each interpreter, the widest codec goes through all settings and cases, with each layout. The other codecs go
    through each transport with its default settings. `quick` leaves these out, and most settings and cases.

    Args:
      interpreters: those to run. They have the same codecs, since they are on one processor.
      quick: whether to take few combinations.
      testbed: whether there is a testbed.

    Returns:
      The suites, and what this host cannot run.
    """
    suites = []
    for interpreter in interpreters:
        widest, *others = sorted(interpreter.codecs, key=CODECS.index, reverse=True)
        cases = tuple(_cases(quick))
        for layout in LAYOUTS:
            settings = tuple(_settings(layout, quick))
            suites.append(Suite(interpreter, widest, layout, settings, cases))
            plain = tuple(one for one in settings if one == Setting(one.transport))
            suites += [Suite(interpreter, codec, layout, plain, cases) for codec in others if not quick]
            if testbed and layout.processes > 1:
                suites.append(Suite(interpreter, widest, layout, tuple(_over_links(TRANSPARENT, quick)), cases))
    return suites, _not_run(interpreters[0], testbed)


def _settings(layout: Layout, quick: bool) -> Iterator[Setting]:
    if layout.processes == 1:
        yield from (Setting(INSIDE),) if quick else (Setting(INSIDE), Setting(INSIDE, slots=1, blocks=1))
        return
    yield Setting("embedded", slots=3, blocks=7) if quick else Setting("embedded")
    if not quick:
        yield from (Setting("embedded", slots=1, blocks=1), Setting("embedded", slots=3, blocks=7))
    for transport in _LOSSY:
        yield from _over_links(transport, quick)


def _over_links(transport: str, quick: bool) -> Iterator[Setting]:
    if quick:
        yield Setting(transport, LOSS)
        return
    for loss in (0.0, LOSS):
        yield Setting(transport, loss)
        yield Setting(transport, loss, slots=5, blocks=3)


def _cases(quick: bool) -> Iterator[Case]:
    if quick:
        yield from (Case(32), Case(8))
        return
    for bits in sorted(BITS, reverse=True):
        yield from (Case(bits), Case(bits, bucket=0))
    yield Case(32, bucket=1 << 16)
    yield from (Case(32, order="reversed"), Case(32, order="rotated"), Case(8, order="reversed"))


def _not_run(interpreter: Interpreter, testbed: bool) -> list[NotRun]:
    missing = [codec for codec in CODECS if codec not in interpreter.codecs]
    switch = NotRun(TRANSPARENT, "it needs --testbed, which makes network namespaces (root)")
    return [
        *(NotRun(f"codec {codec}", "this processor lacks its instructions") for codec in missing),
        *(() if testbed else (switch,)),
        NotRun("netreduce with words of 16 and 8 bits", "it adds words of 32 bits only"),
        NotRun(
            "RDMA devices", f"no switch for them is started here ({interpreter.verbs}); `make test-verbs` runs them"
        ),
    ]
