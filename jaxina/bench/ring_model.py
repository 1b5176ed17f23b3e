"""How long an all-reduce takes in a ring, and through a switch that adds: the model of docs/netreduce.md.

It counts links and latencies, and nothing that a host does. So it is a bound where hosts are the limit.
"""

from __future__ import annotations

import dataclasses

_ETHERNET, _IP_UDP, _BTH_ICRC, _RETH_IMM = 14, 28, 16, 20
_WORD_BYTES = 4


@dataclasses.dataclass(frozen=True)
class Machines:
    """What sums.

    Attributes:
      count: H, how many machines there are.
      devices: g, how many devices each has.
      rate: B_x, of a machine's link, each way, in bytes per second.
      inside: B_i, of a device's link to the others of its machine, each way, in bytes per second. Not used for g = 1.
      latency: a, of one step, in seconds.
    """

    count: int
    devices: int
    rate: float
    inside: float
    latency: float

    def ring_s(self, size: float) -> float:
        """Seconds that a ring of all devices takes for `size` bytes: 2 (P - 1) a + 2 (P - 1) / P M / B_x."""
        steps = 2 * (self.count * self.devices - 1)
        return steps * self.latency + steps / (self.count * self.devices) * size / self.rate

    def switch_s(self, size: float) -> float:
        """Seconds that it takes through a switch: scattered and gathered inside machines, summed between them.

        (2 g - 1) a + 2 (g - 1) / g M / B_i + M / B_x.
        """
        g = self.devices
        inside = 2 * (g - 1) / g * size / self.inside if g > 1 else 0.0
        return (2 * g - 1) * self.latency + inside + size / self.rate


def bytes_on_link(size: float, mtu: int, block: int = 256, blocks: int = 16) -> float:
    """Bytes that a link carries for `size` bytes of float32, with all headers of netreduce's packets.

    Args:
      size: of the tensor, in bytes.
      mtu: payload bytes of a packet.
      block: elements that share an exponent.
      blocks: of a message.
    """
    words = block * blocks * _WORD_BYTES
    message = words + 2 * _WORD_BYTES + blocks  # the check, and the exponents
    packets = -(-message // mtu)
    return size / words * (message + _RETH_IMM + packets * (_ETHERNET + _IP_UDP + _BTH_ICRC))
