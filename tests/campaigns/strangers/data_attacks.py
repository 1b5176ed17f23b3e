"""Attacks on the data ports: any datagram, from any source."""

from __future__ import annotations

import contextlib
import socket

from strangers import packets
from strangers.burst import Burst
from strangers.network import ABSENT, BROADCAST, HUB
from strangers.stranger import Stranger, attack

_BURST = 64  # what one call of the switch can answer at once


@attack("data")
def garbage(stranger: Stranger) -> None:
    """Random bytes of all sizes, now and then with a sound beginning."""
    noise = stranger.random.randbytes(1 << 17)
    while stranger.budget.take():
        size = stranger.random.choice((0, 1, 35, 36, 100, 1060, 1472, stranger.random.randint(0, 65_000)))
        begin = stranger.random.randrange(len(noise) - size)
        start = stranger.random.choice((b"", b"\x4a\x58\x01\x01"))
        stranger.send((start + noise[begin : begin + size])[:size])


@attack("data")
def sound_headers(stranger: Stranger) -> None:
    """Right checksums, but an unknown job, a wrong secret, a bad worker, a bad slot, too many words, no update."""
    jobs = stranger.jobs_of_others(stranger.stub())
    spoilt = [
        packets.update(job, stranger.random.getrandbits(64), **change)
        for job in (*jobs[:4], 0, 0xFFFF_FFFF)
        for change in (
            {"words": 256, "exponents": 1},
            {"worker": 0xFFFF, "words": 256},
            {"slot": 0xFFFF, "words": 256},
            {"words": 16_000, "exponents": 255},
            {"kind": packets.RESULT},
            {"kind": packets.ABORT},
        )
    ]
    while stranger.budget.take():
        stranger.send(stranger.random.choice(spoilt), source_port=stranger.random.randint(1024, 65_535))


@attack("data")
def source_port_zero(stranger: Stranger) -> None:
    """An unknown job, from port 0, in bursts: the kernel takes no answer to port 0, nor a merged one."""
    packet = packets.update(0xFFFF_FFFF, 0)
    while stranger.budget.take(_BURST):
        for _ in range(_BURST):
            stranger.send(packet, source_port=0)


@attack("data")
def absent_sources(stranger: Stranger) -> None:
    """An unknown job, from addresses where nobody is: answers wait for ARP in the send buffer."""
    packet = packets.update(0xFFFF_FFFF, 0)
    while stranger.budget.take():
        stranger.send(packet, source=stranger.random.choice(ABSENT))


@attack("data", per_second=2_000)
def absent_sources_large_results(stranger: Stranger) -> None:
    """Updates of a job of one's own, from absent addresses: each is complete at once, and its result, as large as a
    datagram can be, waits for ARP in the send buffer."""
    grant = stranger.own_job(stranger.stub(), slots=64, block_size=16_000)
    epoch = 0
    while grant is not None and stranger.budget.take(64):
        for slot in range(64):
            packet = packets.update(grant.job, grant.secret, slot=slot, epoch=epoch, words=16_000, exponents=1)
            stranger.send(packet, source=stranger.random.choice(ABSENT))
        epoch += 1


@attack("data")
def broadcast_sources(stranger: Stranger) -> None:
    """An unknown job, from broadcast, multicast, zero and loopback addresses."""
    packet = packets.update(0xFFFF_FFFF, 0)
    sources = (BROADCAST, "255.255.255.255", "224.0.0.1", "0.0.0.0", "127.0.0.1", "10.214.1.0")
    while stranger.budget.take():
        stranger.send(packet, source=stranger.random.choice(sources))


@attack("data")
def reply_loops(stranger: Stranger) -> None:
    """An unknown job, from the switch's own address and ports: it answers itself."""
    packet = packets.update(0xFFFF_FFFF, 0)
    ports = (*stranger.target.data_ports, stranger.target.rdma_port)
    while stranger.budget.take():
        stranger.send(packet, source=HUB, source_port=stranger.random.choice(ports))


@attack("data")
def full_receive_buffer(stranger: Stranger) -> None:
    """A thousand tiny packets at once: each takes almost as much of the receive buffer as one of the job's."""
    burst = Burst(stranger.target.host, stranger.target.data_ports, b"JX\x01\x01" * 9, 1000)
    while stranger.budget.take(1000):
        burst.send()


@attack("data")
def one_byte(stranger: Stranger) -> None:
    """Datagrams of one byte and of none."""
    while stranger.budget.take(2):
        stranger.send(b"J")
        stranger.send(b"")


@attack("data", per_second=2_000)
def largest_datagrams(stranger: Stranger) -> None:
    """65,507 bytes each: garbage, and sound updates of an unknown job, whose checksum has to be computed."""
    sound = packets.update(0xFFFF_FFFF, 0, words=16_367)
    noise = stranger.random.randbytes(packets.LARGEST_PAYLOAD)
    while stranger.budget.take(2):
        stranger.send(noise)
        stranger.send(sound)


@attack("data")
def replays(stranger: Stranger) -> None:
    """Packets of the job beside, as overheard, again and again from another address."""
    overheard = stranger.target.overheard
    while stranger.budget.take():
        port, payload = stranger.random.choice(overheard)
        stranger.send(payload, port=port, source_port=stranger.random.randint(1024, 65_535))


@attack("data")
def unruly_job(stranger: Stranger) -> None:
    """A legal job of one's own, with updates of any slot, epoch, fingerprint, worker and length."""
    grant = stranger.own_job(stranger.stub(), workers=4, slots=64, blocks_per_chunk=16)
    draw = stranger.random
    while grant is not None and stranger.budget.take():
        packet = packets.update(
            grant.job,
            grant.secret,
            worker=draw.choice((0, 1, 2, 3, 4, 1023)),
            slot=draw.randrange(80),
            epoch=draw.choice((0, 0, 1, 2, 0xFFFF_FFFF, draw.getrandbits(32))),
            fingerprint=draw.choice((0, 1)),
            words=draw.choice((0, 1, 256, 4096, 5000)),
            exponents=draw.choice((0, 1, 16, 255)),
        )
        stranger.send(packet, source_port=draw.randint(1024, 65_535))


@attack("data")
def greedy_job(stranger: Stranger) -> None:
    """A legal job of one's own that sums as fast as it may, on an own socket, in small passes of many slots."""
    grant = stranger.own_job(stranger.stub(), slots=4096, block_size=8)
    if grant is None:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        epoch = 0
        while True:
            for slot in range(4096):
                if slot % _BURST == 0 and not stranger.budget.take(_BURST):
                    return
                packet = packets.update(grant.job, grant.secret, slot=slot, epoch=epoch, words=8, exponents=1)
                with contextlib.suppress(OSError):  # our own queue is full
                    own.sendto(packet, (stranger.target.host, grant.data_ports[slot % len(grant.data_ports)]))
            epoch += 1
