"""Attacks on the data ports: datagrams of all kinds, from any source address."""

from __future__ import annotations

import contextlib
import socket

from strangers import packets
from strangers.burst import Burst
from strangers.network import ABSENT, BROADCAST, HUB
from strangers.stranger import Stranger, attack

_BURST = 64  # the number of packets that the switch can answer by one system call


@attack("data")
def garbage(stranger: Stranger) -> None:
    """Sends random bytes of all sizes, some with a valid beginning."""
    noise = stranger.random.randbytes(1 << 17)
    while stranger.budget.take():
        size = stranger.random.choice((0, 1, 35, 36, 100, 1060, 1472, stranger.random.randint(0, 65_000)))
        begin = stranger.random.randrange(len(noise) - size)
        start = stranger.random.choice((b"", b"\x4a\x58\x01\x01"))
        stranger.send((start + noise[begin : begin + size])[:size])


@attack("data")
def sound_headers(stranger: Stranger) -> None:
    """Sends packets with a right checksum but a wrong job, secret, worker, slot, number of words or kind."""
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
    """Sends updates of an unknown job from port 0, in bursts. The kernel sends no answer to port 0, merged or not."""
    packet = packets.update(0xFFFF_FFFF, 0)
    while stranger.budget.take(_BURST):
        for _ in range(_BURST):
            stranger.send(packet, source_port=0)


@attack("data")
def absent_sources(stranger: Stranger) -> None:
    """Sends updates of an unknown job from addresses without a host. Answers wait for ARP in the send buffer."""
    packet = packets.update(0xFFFF_FFFF, 0)
    while stranger.budget.take():
        stranger.send(packet, source=stranger.random.choice(ABSENT))


@attack("data", per_second=2_000)
def absent_sources_large_results(stranger: Stranger) -> None:
    """Sends updates of a job of its own, from addresses without a host. Each pass is complete at once. Its result, as
    large as a datagram can be, waits for ARP in the send buffer."""
    grant = stranger.own_job(stranger.stub(), slots=64, block_size=16_000)
    epoch = 0
    while grant is not None and stranger.budget.take(64):
        for slot in range(64):
            packet = packets.update(grant.job, grant.secret, slot=slot, epoch=epoch, words=16_000, exponents=1)
            stranger.send(packet, source=stranger.random.choice(ABSENT))
        epoch += 1


@attack("data")
def broadcast_sources(stranger: Stranger) -> None:
    """Sends updates of an unknown job from broadcast, multicast, zero and loopback addresses."""
    packet = packets.update(0xFFFF_FFFF, 0)
    sources = (BROADCAST, "255.255.255.255", "224.0.0.1", "0.0.0.0", "127.0.0.1", "10.214.1.0")
    while stranger.budget.take():
        stranger.send(packet, source=stranger.random.choice(sources))


@attack("data")
def reply_loops(stranger: Stranger) -> None:
    """Sends updates of an unknown job from the switch's own address and ports, so that it answers itself."""
    packet = packets.update(0xFFFF_FFFF, 0)
    ports = (*stranger.target.data_ports, stranger.target.rdma_port)
    while stranger.budget.take():
        stranger.send(packet, source=HUB, source_port=stranger.random.choice(ports))


@attack("data")
def full_receive_buffer(stranger: Stranger) -> None:
    """Sends a thousand tiny packets at once. Each takes almost as much of the receive buffer as a packet of a job."""
    burst = Burst(stranger.target.host, stranger.target.data_ports, b"JX\x01\x01" * 9, 1000)
    while stranger.budget.take(1000):
        burst.send()


@attack("data")
def one_byte(stranger: Stranger) -> None:
    """Sends datagrams of one byte and of none."""
    while stranger.budget.take(2):
        stranger.send(b"J")
        stranger.send(b"")


@attack("data", per_second=2_000)
def largest_datagrams(stranger: Stranger) -> None:
    """Sends datagrams of 65,507 bytes: garbage, and valid updates of an unknown job, whose checksum takes time."""
    sound = packets.update(0xFFFF_FFFF, 0, words=16_367)
    noise = stranger.random.randbytes(packets.LARGEST_PAYLOAD)
    while stranger.budget.take(2):
        stranger.send(noise)
        stranger.send(sound)


@attack("data")
def replays(stranger: Stranger) -> None:
    """Sends overheard packets of jobs of others again and again, from another address."""
    overheard = stranger.target.overheard
    while stranger.budget.take():
        port, payload = stranger.random.choice(overheard)
        stranger.send(payload, port=port, source_port=stranger.random.randint(1024, 65_535))


@attack("data")
def unruly_job(stranger: Stranger) -> None:
    """Sends updates of any slot, epoch, fingerprint, worker and length to a legal job of its own."""
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
    """Runs a legal job of its own that sums as fast as it may, in small passes of many slots."""
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
