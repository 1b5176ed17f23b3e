"""Scripts that send RDMA messages."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from conformance.rdma_specification import BEGINS, PSNS, RdmaAggregator, cut, opcodes, padded
from conformance.script import Script, numbers
from conformance.vector import Packet, Receive, Value


class RdmaScript(Script):
    def __init__(self, name: str, size: int, about: str, needs: Sequence[str] = ()):
        super().__init__(name, size, about, ["rdma", *needs], RdmaAggregator)
        self._psn: dict[tuple[str, int], int] = {}

    def one_packet_job(self, name: str, workers: int, slots: int = 2) -> None:
        """Adds a job with chunks of one block, whose messages are one packet."""
        self.job(name, workers, slots, mtu=8 * self.size)

    def many_packet_job(self, name: str, workers: int, slots: int = 1, blocks: int = 4) -> None:
        """Adds a job whose messages have a packet for each block, and one for the exponents."""
        self.job(name, workers, slots, blocks, mtu=4 * self.size)

    def packets(
        self,
        worker: int,
        epoch: int = 0,
        *,
        job: str = "A",
        slot: int = 0,
        words: Sequence[int] | None = None,
        exponents: Sequence[int] | None = None,
        psn: int | None = None,
    ) -> list[Packet]:
        """Returns the packets of one message, cut as the worker's NIC does it. Unless `psn` is given, the sequence
        numbers continue those of the last message."""
        blocks = self.aggregator.jobs[job].blocks
        if words is None:
            words = numbers(worker, epoch, slot, blocks * self.size)
        if exponents is None:
            exponents = [100 + worker + block for block in range(blocks)]
        tail = padded(exponents)
        pieces = cut(self.aggregator.jobs[job], words, tail)
        endpoint = f"{job}{worker}"
        if psn is None:
            psn = self._psn.get((endpoint, slot), 0)
        self._psn[endpoint, slot] = (psn + len(pieces)) % PSNS
        packets = []
        for index, (kind, payload) in enumerate(zip(opcodes(len(pieces)), pieces, strict=True)):
            number = (psn + index) % PSNS
            fields: dict[str, Value] = {
                "job": job, "worker": worker, "queue": slot, "psn": number,
            }  # fmt: skip
            if kind in BEGINS:
                fields |= {
                    "key": job,
                    "slot": slot,
                    "epoch": epoch,
                    "count": len(exponents),
                    "length": 4 * len(words) + len(tail),
                }
            if kind.endswith("imm"):
                fields["immediate"] = 0x1000 + epoch % 2**16
            packets.append(Packet(kind, {**fields, "words": payload[0], "exponents": payload[1]}))
        return packets

    def message(self, worker: int, epoch: int, verdict: str, lost: Collection[int] = (), **how: Value) -> list[Receive]:
        """Sends a message of which the packets with the numbers `lost` do not arrive. `verdict` is that of the last
        packet. A packet after a lost one is out of sequence."""
        packets = self.packets(worker, epoch, **how)  # type: ignore[arg-type]
        endpoint = f"{packets[0]['job']}{worker}"
        replies: list[Receive] = []
        for index, packet in enumerate(packets):
            if index in lost:
                continue
            broken = any(number < index for number in lost)
            last = index == len(packets) - 1
            expected = "rdma_out_of_sequence" if broken else verdict if last else "placed"
            replies += self.send(endpoint, packet, expected)
        return replies
