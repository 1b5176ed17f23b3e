"""Finds out, without waiting for a time, that a device has sent all its replies.

The probe is a job of one worker, so the device answers its updates at once. Devices take packets in order. So when the
answer to the probe comes, the packets before it have been handled.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from conformance.devices.links import Address, Link
from conformance.script import numbers
from conformance.vector import Job, Packet

NAME = "probe"
ENDPOINT = f"{NAME}0"
_ANSWER_TIMEOUT = 20.0
_AGAIN_AFTER = 0.5  # a lost probe is sent again, as a worker would

Take = Callable[[str, Address, bytes], None]


class Probe:
    """The probe of one device.

    Args:
      job: the probe's job.
      link: the link to the device.
      send: sends a packet of the probe.
      read: decodes a datagram that came to the probe's endpoint: (sender, payload) -> packet.
      take: takes what came to other endpoints meanwhile: (endpoint, sender, payload).
    """

    def __init__(
        self,
        job: Job,
        link: Link,
        send: Callable[[Packet], None],
        read: Callable[[Address, bytes], Packet],
        take: Take,
    ):
        self._job = job
        self._link = link
        self._send = send
        self._read = read
        self._take = take
        self._epoch = 0

    def settle(self) -> None:
        """Waits until the device has handled everything that was sent before.

        Raises:
          TimeoutError: if the device does not answer.
        """
        # Twice, because a device takes packets in batches: the first answer may leave before answers to other packets
        # of its batch.
        for _ in range(2):
            for slot in range(self._job.slots):
                self._ask(slot)
            self._epoch += 1

    def _ask(self, slot: int) -> None:
        deadline = time.monotonic() + _ANSWER_TIMEOUT
        while time.monotonic() < deadline:
            self._send(self._packet(slot))
            if self._answered(slot):
                return
        raise TimeoutError(f"the device has not answered a packet for {_ANSWER_TIMEOUT:g} s")

    def _answered(self, slot: int) -> bool:
        answered = False
        while not answered:
            came = self._link.receive(_AGAIN_AFTER)
            for endpoint, sender, payload in came:
                if endpoint == ENDPOINT:
                    answered = answered or self._is_answer(self._read(sender, payload), slot)
                else:
                    self._take(endpoint, sender, payload)
            if not came:
                return False
        return answered

    def _packet(self, slot: int) -> Packet:
        fields = {"job": NAME, "worker": 0, "slot": slot, "epoch": self._epoch}
        words = tuple(numbers(0, self._epoch, slot, self._job.block))
        if not self._job.mtu:
            fields |= {"secret": NAME, "fingerprint": self._epoch}
            return Packet("update", {**fields, "exponents": (), "words": words})
        fields |= {"queue": slot, "psn": 0, "key": NAME, "immediate": self._epoch}
        size = {"count": 0, "length": 4 * len(words)}
        return Packet("write_only_imm", {**fields, **size, "exponents": (), "words": words})

    def _is_answer(self, packet: Packet, slot: int) -> bool:
        fields = packet.fields
        if self._job.mtu:
            return (fields.get("queue"), fields.get("immediate")) == (slot, self._epoch)
        return packet.kind == "result" and (fields["slot"], fields["epoch"]) == (slot, self._epoch)
