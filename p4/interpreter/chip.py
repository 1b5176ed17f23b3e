"""A chip that runs a program. It has four pipes, the traffic manager between them, and ports."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable

from interpreter.errors import RejectedError, UndefinedError
from interpreter.packet import Layout, Packet
from interpreter.passing import Digest, Memory, Pass
from interpreter.program import Gress, Program
from interpreter.traffic_manager import Copy, TrafficManager

_PIPES = 4
_TIMES = 1 << 48  # after so many nanoseconds the chip's clock begins again
_MOST_PASSES = 64  # that one frame and its copies may make, alone in the chip


@dataclasses.dataclass
class PortCounters:
    """The frames of a port, and the copies for it that the traffic manager has dropped."""

    received: int = 0
    bytes_received: int = 0
    sent: int = 0
    bytes_sent: int = 0
    dropped: int = 0


class Chip:
    """A chip.

    Args:
      program: the program that runs in all pipes.
      on_digest: called with each digest.

    Attributes:
      loopback: front-panel ports whose frames come back in. Those of recirculation ports always do.
      loses: asked about each copy that ingress sends to the traffic manager. If it returns true, the traffic manager
        drops the copy, as it does when its buffer is full.
      ports: the counters of each port.
      now: returns the time in nanoseconds. It stands still if nobody sets it.
    """

    def __init__(self, program: Program, on_digest: Callable[[Digest], None]):
        self.program = program
        self.pipes = [Memory() for _ in range(_PIPES)]
        self.traffic_manager = TrafficManager()
        self.loopback: set[int] = set()
        self.loses: Callable[[Copy], bool] = lambda copy: False
        self.ports: dict[int, PortCounters] = collections.defaultdict(PortCounters)
        self.now: Callable[[], int] = lambda: 0
        self._waiting: dict[int, collections.deque[Packet]] = {}
        self._on_digest = on_digest
        self._ports = program.number("PORTS_OF_A_PIPE")
        self._recirculation_port = program.number("RECIRCULATION_PORT")
        self._intrinsic = {id(gress): Layout(gress.intrinsic, "") for gress in (program.ingress, program.egress)}
        self._metadata = Packet.known(bytes(program.number("PORT_METADATA_BITS") // 8))

    def send(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Lets a frame come in on a port, into an empty chip, and returns what leaves it: (port, frame).

        Raises:
          UndefinedError: if the outcome depends on something that the chip does not define.
        """
        self.enter(port, frame)
        left: list[tuple[int, bytes]] = []
        for _ in range(_MOST_PASSES):
            if not self.waiting:
                return left
            left += self.step(next(iter(self.waiting)))
        self._waiting.clear()
        raise UndefinedError(f"makes more than {_MOST_PASSES} passes")

    def enter(self, port: int, frame: bytes) -> None:
        """Lets a frame come in on a port. It waits for its first pass."""
        self.ports[port].received += 1
        self.ports[port].bytes_received += len(frame)
        self._waiting.setdefault(port, collections.deque()).append(Packet.known(frame))

    @property
    def waiting(self) -> dict[int, int]:
        """How many packets wait for a pass, by port. Packets of one port keep their order; those of different ports may
        pass in any order."""
        return {port: len(packets) for port, packets in self._waiting.items()}

    def step(self, port: int) -> list[tuple[int, bytes]]:
        """Makes the next pass of the first packet that waits at this port. Returns what leaves the chip: (port,
        frame)."""
        packet = self._waiting[port].popleft()
        if not self._waiting[port]:
            del self._waiting[port]
        left = []
        for to, sent in self._pass(port, packet):
            if to in self.loopback or to % self._ports == self._recirculation_port:
                self._waiting.setdefault(to, collections.deque()).append(sent)
            else:
                left.append((to, sent.leaves()))
                self.ports[to].sent += 1
                self.ports[to].bytes_sent += len(left[-1][1])
        return left

    def _pass(self, port: int, packet: Packet) -> list[tuple[int, Packet]]:
        """Takes a packet through ingress, traffic manager and egress. Returns its copies, by port."""
        gress = self.program.ingress
        about = {"ingress_port": port, "ingress_mac_tstamp": self.now() % _TIMES}
        p = self._begin(gress, port, packet, about)
        rest = self._run(gress, p)
        for digest in p.digests:
            self._on_digest(digest)
        if rest is None:
            return []
        out = []
        for copy in self.traffic_manager.copies(p.values):
            if self.loses(copy):
                self.ports[copy.port].dropped += 1
                continue
            sent = rest if copy.bypass else self._leave(copy, rest)
            if sent is not None:
                out.append((copy.port, sent))
        return out

    def _leave(self, copy: Copy, packet: Packet) -> Packet | None:
        gress = self.program.egress
        about = {"egress_port": copy.port, "egress_rid": copy.rid}
        return self._run(gress, self._begin(gress, copy.port, packet, about))

    def _begin(self, gress: Gress, port: int, packet: Packet, about: dict[str, int]) -> Pass:
        front = [self._intrinsic[id(gress)].pack({f".{name}": value for name, value in about.items()})]
        if gress is self.program.ingress:
            front.append(self._metadata)
        p = Pass(self.pipes[port // self._ports], Packet.joined([*front, packet]))
        p.length = len(packet.data)
        return p

    @staticmethod
    def _run(gress: Gress, p: Pass) -> Packet | None:
        """Runs parser, control and deparser. Returns the packet that comes out, or None if it is dropped."""
        try:
            gress.parser(p)
        except RejectedError:
            return None
        gress.control(p)
        p.values.setdefault("for_deparser.digest_type", 0)
        gress.deparser(p)
        if p.values.get("for_deparser.drop_ctl", 0) != 0:
            return None
        return Packet.joined([*p.emitted, p.cursor.rest()])
