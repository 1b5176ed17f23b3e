"""Attacks on the RDMA port: packets of RoCEv2 of all kinds, from any source address."""

from __future__ import annotations

from typing import Any

from jaxina.control import control_pb2 as pb
from strangers import packets
from strangers.network import HUB, STRANGER
from strangers.stranger import Stranger, attack

_MTU = 1024
_SLOTS = 16


def connect_request(grant: pb.CreateJobReply, address: str = STRANGER, rank: int = 0, slots: int = _SLOTS) -> Any:
    ours = pb.QueuePairs(
        address=address, udp_port=40_000, mtu=_MTU, qpns=range(2, slots + 3), psn=0, rkey=1, memory=1 << 20
    )
    return pb.ConnectQueuePairsRequest(job=grant.job, secret=grant.secret, rank=rank, worker=ours)


def _own_queue_pairs(stranger: Stranger) -> pb.QueuePairs | None:
    """Returns queue pairs of a legal job of the stranger's own. Tries again as long as the switch refuses."""
    stub = stranger.stub()
    while (grant := stranger.own_job(stub, slots=_SLOTS, blocks_per_chunk=16)) is not None:
        if (theirs := stranger.call(stub.ConnectQueuePairs, connect_request(grant))) is not None:
            return theirs
    return None


@attack("rdma")
def unknown_queue_pairs(stranger: Stranger) -> None:
    """Sends valid packets to queue pairs that do not exist."""
    draw = stranger.random
    while stranger.budget.take():
        packet = packets.rdma_write(
            packets.WRITE_ONLY_IMMEDIATE, draw.getrandbits(24), draw.getrandbits(24), bytes(_MTU), length=_MTU
        )
        stranger.send_rdma(packet)


@attack("rdma", per_second=2_000)
def wrong_icrc_new_lengths(stranger: Stranger) -> None:
    """Sends packets with a wrong ICRC, each of another length."""
    whole = packets.rdma_write(packets.WRITE_ONLY_IMMEDIATE, 5, 0, bytes(65_400))
    sizes = list(range(32, 65_400))
    stranger.random.shuffle(sizes)
    for size in sizes:
        if not stranger.budget.take():
            return
        stranger.send_rdma(whole[:size], right=False)


@attack("rdma")
def rdma_garbage(stranger: Stranger) -> None:
    """Sends random bytes of ordinary sizes."""
    while stranger.budget.take():
        size = stranger.random.choice((0, 15, 16, 44, 100, 1068))
        stranger.send(stranger.random.randbytes(size), port=stranger.target.rdma_port)


@attack("rdma")
def first_without_end(stranger: Stranger) -> None:
    """Sends FIRST packets to queue pairs of its own, and never a LAST."""
    theirs = _own_queue_pairs(stranger)
    psn = 0
    while theirs is not None and stranger.budget.take():
        slot = psn % _SLOTS
        packet = packets.rdma_write(
            packets.WRITE_FIRST,
            theirs.qpns[slot],
            psn & 0xFFFFFF,
            bytes(_MTU),
            address=packets.pass_address(psn, slot, 16),
            rkey=theirs.rkey,
            length=16 * _MTU + 16,
        )
        stranger.send_rdma(packet)
        psn += 1


@attack("rdma")
def wrong_rkey(stranger: Stranger) -> None:
    """Sends whole messages to queue pairs of its own, with a wrong key."""
    theirs = _own_queue_pairs(stranger)
    while theirs is not None and stranger.budget.take():
        qpn = stranger.random.choice(theirs.qpns)
        packet = packets.rdma_write(
            packets.WRITE_ONLY_IMMEDIATE, qpn, 0, bytes(_MTU), rkey=theirs.rkey ^ 1, length=_MTU
        )
        stranger.send_rdma(packet)


@attack("rdma")
def sequence_gaps(stranger: Stranger) -> None:
    """Sends a FIRST, then packets of the same message with sequence numbers that are not the next."""
    theirs = _own_queue_pairs(stranger)
    psn = 0
    while theirs is not None and stranger.budget.take(4):
        slot = psn % _SLOTS
        place = {"address": packets.pass_address(0, slot, 16), "rkey": theirs.rkey, "length": 16 * _MTU + 16}
        stranger.send_rdma(packets.rdma_write(packets.WRITE_FIRST, theirs.qpns[slot], psn, bytes(_MTU), **place))
        for skip in (2, 9, 1 << 23):
            number = (psn + skip) & 0xFFFFFF
            stranger.send_rdma(packets.rdma_write(packets.WRITE_MIDDLE, theirs.qpns[slot], number, bytes(_MTU)))
        psn = (psn + 1) & 0xFFFFFF


@attack("rdma")
def forged_worker(stranger: Stranger) -> None:
    """Sends from the address of other jobs' workers, with a guessed key, to queue pairs whose numbers are close to
    those that the switch gave the stranger."""
    theirs = _own_queue_pairs(stranger)
    draw = stranger.random
    while theirs is not None and stranger.budget.take():
        qpn = (theirs.qpns[0] - draw.randint(1, 64)) & 0xFFFFFF
        packet = packets.rdma_write(
            packets.WRITE_ONLY_IMMEDIATE, qpn, draw.getrandbits(24), b"", rkey=draw.getrandbits(32)
        )
        stranger.send_rdma(packet, source=HUB)


@attack("rdma")
def rdma_replays(stranger: Stranger) -> None:
    """Sends overheard packets of jobs of others from another address, with a right ICRC for that address. If no job
    uses RDMA, it sends a packet of a message that never began."""
    overheard = [payload for port, payload in stranger.target.overheard if port == stranger.target.rdma_port]
    others = [packets.rdma_write(packets.WRITE_MIDDLE, 77, 0, bytes(_MTU + 4))]
    while stranger.budget.take():
        stranger.send_rdma(stranger.random.choice(overheard or others)[:-4])


@attack("rdma")
def result_to_absent_hosts(stranger: Stranger) -> None:
    """Has a job of its own with queue pairs to a host that does not exist, and passes that are complete at once."""
    stub = stranger.stub()
    grant = stranger.own_job(stub, slots=_SLOTS, blocks_per_chunk=16)
    absent = "10.214.1.250"
    while grant is not None:
        theirs = stranger.call(stub.ConnectQueuePairs, connect_request(grant, absent))
        if theirs is not None:
            break
        if not stranger.budget.take():
            return
    epoch = 0
    while grant is not None and stranger.budget.take(_SLOTS):
        for slot in range(_SLOTS):
            place = {"address": packets.pass_address(epoch, slot, 0), "rkey": theirs.rkey, "length": _MTU}
            message = packets.rdma_write(packets.WRITE_ONLY_IMMEDIATE, theirs.qpns[slot], epoch, bytes(_MTU), **place)
            stranger.send_rdma(message, source=absent)
        epoch += 1
