"""The controller of the Tofino program, without a chip.

The tests check what it writes when workers join, connect, leave and die, and which jobs it refuses.
"""

from __future__ import annotations

from pathlib import Path

import p4_names
import pytest
from tofino_fakes import BUSY, Switch, join, soon

from jaxina.control.data_plane import QueuePairs
from jaxina.controller import bfrt, chip, take_over
from jaxina.controller.pool import Pool
from jaxina.controller.tables import Digest, Entry
from jaxina.errors import InvalidArgumentError, JobRejectedError, SystemCallError, TooManyWorkersError


@pytest.fixture
def switch(tmp_path):
    made = Switch(tmp_path)
    yield made
    made.close()


START = """
{cleared}
insert $PORT $DEV_PORT=132 -> ($SPEED=BF_SPEED_100G, $FEC=BF_FEC_TYP_RS, $PORT_ENABLE=True)
insert $PORT $DEV_PORT=4 -> ($SPEED=BF_SPEED_25G, $FEC=BF_FEC_TYP_NONE, $PORT_ENABLE=True)
insert pipe.IngressParser.switch_addresses f1=0xc6120001&0xffffffff
insert $pre.node $MULTICAST_NODE_ID=8324 -> ($MULTICAST_RID=0, $MULTICAST_LAG_ID=(), $DEV_PORT=(132,))
insert $pre.node $MULTICAST_NODE_ID=8196 -> ($MULTICAST_RID=0, $MULTICAST_LAG_ID=(), $DEV_PORT=(4,))
insert $pre.mgid $MGID=256 -> ($MULTICAST_NODE_ID=(8324, 8196), $MULTICAST_NODE_L1_XID_VALID=(False, False), $MULTICAST_NODE_L1_XID=(0, 0))
modify $pre.prune $MULTICAST_L2_XID=1 -> ($DEV_PORT=(132,))
modify $pre.prune $MULTICAST_L2_XID=2 -> ($DEV_PORT=(4,))
insert pipe.Ingress.l2_forwarding.ports ingress_port=132 -> Ingress.l2_forwarding.came_in(exclusion_id=1)
insert pipe.Ingress.l2_forwarding.ports ingress_port=4 -> Ingress.l2_forwarding.came_in(exclusion_id=2)
insert pipe.Ingress.l2_forwarding.stations destination=2199023255809 -> Ingress.l2_forwarding.forward(port=132)
insert pipe.Ingress.l2_forwarding.stations destination=2199023255810 -> Ingress.l2_forwarding.forward(port=4)
insert pipe.Ingress.l2_forwarding.stations destination=281474976710655 -> Ingress.l2_forwarding.flood(group=256)
insert pipe.Egress.vlan_tag.ports egress_port=4 -> Egress.vlan_tag.tag(tci=24676)
{passes}
"""

# Port 132 is in pipe 1, but the pool is in pipe 0. So packets from that port are handed over to pipe 0.
JOIN = """
modify pipe.Ingress.slot_turn.turns $REGISTER_INDEX=0 -> (Ingress.slot_turn.turns.turn=0, Ingress.slot_turn.turns.distance=0)
modify pipe.Ingress.slot_turn.turns $REGISTER_INDEX=1 -> (Ingress.slot_turn.turns.turn=0, Ingress.slot_turn.turns.distance=0)
modify pipe.Ingress.pass_tag.tags $REGISTER_INDEX=0 -> (Ingress.pass_tag.tags.epoch=4294967295, Ingress.pass_tag.tags.fingerprint=0)
modify pipe.Ingress.pass_tag.tags $REGISTER_INDEX=1 -> (Ingress.pass_tag.tags.epoch=0, Ingress.pass_tag.tags.fingerprint=0)
modify pipe.Ingress.pass_tag.tags $REGISTER_INDEX=2 -> (Ingress.pass_tag.tags.epoch=4294967295, Ingress.pass_tag.tags.fingerprint=0)
modify pipe.Ingress.pass_tag.tags $REGISTER_INDEX=3 -> (Ingress.pass_tag.tags.epoch=0, Ingress.pass_tag.tags.fingerprint=0)
modify pipe.Ingress.worker_stamp.stamps $REGISTER_INDEX=0 -> (Ingress.worker_stamp.stamps.even=4294967295, Ingress.worker_stamp.stamps.odd=0)
modify pipe.Ingress.worker_stamp.stamps $REGISTER_INDEX=1 -> (Ingress.worker_stamp.stamps.even=4294967295, Ingress.worker_stamp.stamps.odd=0)
modify pipe.Ingress.worker_stamp.stamps $REGISTER_INDEX=32 -> (Ingress.worker_stamp.stamps.even=4294967295, Ingress.worker_stamp.stamps.odd=0)
modify pipe.Ingress.worker_stamp.stamps $REGISTER_INDEX=33 -> (Ingress.worker_stamp.stamps.even=4294967295, Ingress.worker_stamp.stamps.odd=0)
{counters}
insert pipe.Ingress.job_admission.udp_updates {J} {S} worker=0x0&0xffff slot=0..1 ingress_port=0x80&0x180 $MATCH_PRIORITY=0 -> Ingress.job_admission.hand_over(port=68)
insert pipe.Ingress.job_admission.udp_updates {J} {S} worker=0x0&0xffff slot=0..1 ingress_port=* $MATCH_PRIORITY=1 -> Ingress.job_admission.admit(job_index=1, slot_base=0, worker=0, others=1, bit_of_worker=16777216, group=1)
insert pipe.Ingress.job_admission.udp_updates {J} {S} worker=0x0&0xffff slot=0..65535 ingress_port=* $MATCH_PRIORITY=2 -> Ingress.job_admission.refuse(job_index=1, reason=8)
insert pipe.Ingress.job_admission.udp_updates {J} {S} worker=0x1&0xffff slot=0..1 ingress_port=0x80&0x180 $MATCH_PRIORITY=0 -> Ingress.job_admission.hand_over(port=68)
insert pipe.Ingress.job_admission.udp_updates {J} {S} worker=0x1&0xffff slot=0..1 ingress_port=* $MATCH_PRIORITY=1 -> Ingress.job_admission.admit(job_index=1, slot_base=0, worker=1, others=1, bit_of_worker=33554432, group=1)
insert pipe.Ingress.job_admission.udp_updates {J} {S} worker=0x1&0xffff slot=0..65535 ingress_port=* $MATCH_PRIORITY=2 -> Ingress.job_admission.refuse(job_index=1, reason=8)
insert pipe.Ingress.job_admission.udp_updates {J} {S} worker=* slot=0..65535 ingress_port=* $MATCH_PRIORITY=3 -> Ingress.job_admission.refuse(job_index=1, reason=7)
insert pipe.Ingress.job_admission.udp_updates {J} secret=* worker=* slot=0..65535 ingress_port=* $MATCH_PRIORITY=4 -> Ingress.job_admission.refuse(job_index=1, reason=6)
"""

FIRST_HEARD = """
insert pipe.Egress.replies.workers rid=33 -> Egress.replies.to_udp(mac=2199023255810, ip=3323068674, port=40001)
insert $pre.node $MULTICAST_NODE_ID=33 -> ($MULTICAST_RID=33, $MULTICAST_LAG_ID=(), $DEV_PORT=(4,))
insert pipe.Ingress.source_check.sources rid=33 address=3323068674 port=40001 -> Ingress.source_check.heard()
"""

LAST_HEARD = """
insert pipe.Egress.replies.workers rid=32 -> Egress.replies.to_udp(mac=2199023255809, ip=3323068673, port=40000)
insert $pre.node $MULTICAST_NODE_ID=32 -> ($MULTICAST_RID=32, $MULTICAST_LAG_ID=(), $DEV_PORT=(132,))
insert $pre.mgid $MGID=1 -> ($MULTICAST_NODE_ID=(32, 33), $MULTICAST_NODE_L1_XID_VALID=(False, False), $MULTICAST_NODE_L1_XID=(0, 0))
insert pipe.Ingress.source_check.sources rid=32 address=3323068673 port=40000 -> Ingress.source_check.heard()
"""

# What admits packets is deleted first. What replies need is deleted when no packet is on its way any more.
LEAVE = """
delete pipe.Ingress.source_check.sources rid=32 address=3323068673 port=40000
delete pipe.Ingress.source_check.sources rid=33 address=3323068674 port=40001
delete pipe.Ingress.job_admission.udp_updates {J} secret=* worker=* slot=0..65535 ingress_port=* $MATCH_PRIORITY=4
delete pipe.Ingress.job_admission.udp_updates {J} {S} worker=* slot=0..65535 ingress_port=* $MATCH_PRIORITY=3
delete pipe.Ingress.job_admission.udp_updates {J} {S} worker=0x1&0xffff slot=0..65535 ingress_port=* $MATCH_PRIORITY=2
delete pipe.Ingress.job_admission.udp_updates {J} {S} worker=0x1&0xffff slot=0..1 ingress_port=* $MATCH_PRIORITY=1
delete pipe.Ingress.job_admission.udp_updates {J} {S} worker=0x1&0xffff slot=0..1 ingress_port=0x80&0x180 $MATCH_PRIORITY=0
delete pipe.Ingress.job_admission.udp_updates {J} {S} worker=0x0&0xffff slot=0..65535 ingress_port=* $MATCH_PRIORITY=2
delete pipe.Ingress.job_admission.udp_updates {J} {S} worker=0x0&0xffff slot=0..1 ingress_port=* $MATCH_PRIORITY=1
delete pipe.Ingress.job_admission.udp_updates {J} {S} worker=0x0&0xffff slot=0..1 ingress_port=0x80&0x180 $MATCH_PRIORITY=0
delete $pre.mgid $MGID=1
delete $pre.node $MULTICAST_NODE_ID=32
delete pipe.Egress.replies.workers rid=32
delete $pre.node $MULTICAST_NODE_ID=33
delete pipe.Egress.replies.workers rid=33
"""

COUNTERS = "\n".join(
    f"modify pipe.Ingress.statistics.{name} $COUNTER_INDEX={index} -> ($COUNTER_SPEC_PKTS=0, $COUNTER_SPEC_BYTES=0)"
    for name, index in [("received", 1), *(("packets", 16 + reason) for reason in range(16))]
)


PASSES = "\n".join(
    f"insert pipe.Ingress.recirculation.next_pass step=1 lane={lane} -> Ingress.recirculation.to_port(port=68)"
    for lane in range(16)
)


CLEARED = "\n".join(f"clear {table}" for table in (*take_over.ADMITTING, *take_over.OTHERS))


def lines(text, part=None):
    text = text.replace("{passes}", PASSES).replace("{cleared}", CLEARED)
    if part is not None:
        names = {
            "J": f"job={part.job:#x}&0xffffffff",
            "S": f"secret={part.secret:#x}&0x{'f' * 16}",
        }
        text = text.format(counters=COUNTERS, **names)
    return text.strip().splitlines()


def test_the_writes_of_workers_that_join_and_leave_are_exactly_these(switch):
    assert switch.new_writes() == lines(START)
    before = switch.matches()
    processes, parts = join(switch)
    for worker, part in enumerate(parts):
        assert (part.worker, part.shape.workers) == (worker, 2)
        assert [port for _, port in part.transport["addresses"]] == [51001]
        assert (part.shape.whole_chunks, part.transport["checksums"]) == (True, False)
    assert switch.new_writes() == lines(JOIN, parts[0])
    switch.hears(1, 1)
    assert soon(lambda: len(switch.tables.writes) == 3)
    assert switch.new_writes() == lines(FIRST_HEARD)
    switch.hears(1, 1)  # a worker may send several packets before the chip knows it
    switch.hears(1, 0)
    assert soon(lambda: len(switch.tables.writes) == 4)
    assert switch.new_writes() == lines(LAST_HEARD)
    for process in processes:
        process.connector.close(None)
    assert soon(lambda: switch.matches() == before)
    assert switch.new_writes() == lines(LEAVE, parts[0])


def test_a_death_stops_the_counting_and_tells_the_others(switch):
    before = switch.matches()
    processes, parts = join(switch)
    switch.new_writes()
    processes[1].connector.close("ValueError: bad data")
    assert processes[0].engine.aborted.wait(BUSY)
    assert processes[0].engine.aborts[0][1] == "WORKER_LOST"
    *deletions, refusal = switch.new_writes()
    assert deletions == lines(LEAVE, parts[0])[4:10]  # the entries that admit workers
    rest = lines(JOIN, parts[0])[-2]
    assert refusal == rest.replace("insert", "modify").replace("reason=7", "reason=15")
    processes[0].connector.close(None)
    assert soon(lambda: switch.matches() == before)


def test_a_contradiction_that_the_chip_sees_ends_the_job(switch):
    processes, _ = join(switch)
    switch.tables.digests.put(Digest("contradiction", {"rid": 1 << 5 | 1, "slot_index": 0}))
    for process in processes:
        assert process.engine.aborted.wait(BUSY)
        ((group, code, message),) = process.engine.aborts
        assert (group, code) == ([0, 1], "MISMATCH") and "worker 1" in message
    switch.hears(1, 0)  # too late: nobody is admitted any more
    for process in processes:
        process.connector.close(None)
    assert soon(lambda: not switch.client.status().jobs)


def test_digests_of_nobody_change_nothing(switch):
    grant = switch.create()
    switch.new_writes()
    for index, worker in ((2, 0), (1, 2), (0, 0)):
        fields = {"rid": index << 5 | worker, "mac": 1, "ip": 2, "port": 3, "ingress_port": 4}
        switch.tables.digests.put(Digest("heard", fields))
    switch.hears(1, 0)
    assert soon(lambda: len(switch.tables.writes) == 3)
    other = Digest("heard", {"rid": 1 << 5, "mac": 9, "ip": 9, "port": 9, "ingress_port": 4})
    switch.tables.digests.put(other)  # a replay from elsewhere
    switch.hears(1, 1)
    assert soon(lambda: len(switch.tables.writes) == 7)
    assert "rid=33" in switch.new_writes()[3] and grant.terms.whole_chunks


def end_of(worker, slots=2, **changes):
    fields = {
        "address": f"198.18.1.{worker + 1}",
        "udp_port": 4791,
        "mtu": 1024,
        "qpns": tuple(range(0x100 * worker + 7, 0x100 * worker + 8 + slots)),
        "psn": 5,
        "rkey": 0xABC0 + worker,
        "memory": 0x7F0000000000 + worker * 0x10000,
    }
    return QueuePairs(**{**fields, **changes})


CONNECT = """
modify pipe.Egress.replies.sequence_number.numbers $REGISTER_INDEX=0 -> (Egress.replies.sequence_number.numbers.f1=4097)
modify pipe.Egress.replies.sequence_number.numbers $REGISTER_INDEX=32 -> (Egress.replies.sequence_number.numbers.f1=4097)
insert pipe.Egress.replies.queues slot_index=0 worker=0 -> Egress.replies.to_place(qpn=7, address_high=32512, address_low=0)
insert pipe.Egress.replies.queues slot_index=1 worker=0 -> Egress.replies.to_place(qpn=8, address_high=32512, address_low=2048)
insert pipe.Egress.replies.workers rid=32 -> Egress.replies.to_roce(mac=2199023255809, ip=3323068673, port=4791, rkey=43968)
insert $pre.node $MULTICAST_NODE_ID=32 -> ($MULTICAST_RID=32, $MULTICAST_LAG_ID=(), $DEV_PORT=(132,))
insert pipe.Ingress.job_admission.roce_writes qpn=0x808000&0xfffc00 source=0xc6120101&0xffffffff rkey=0x1000&0xffffffff slot=0..1 ingress_port=0x80&0x180 $MATCH_PRIORITY=0 -> Ingress.job_admission.hand_over(port=68)
insert pipe.Ingress.job_admission.roce_writes qpn=0x808000&0xfffc00 source=0xc6120101&0xffffffff rkey=0x1000&0xffffffff slot=0..1 ingress_port=* $MATCH_PRIORITY=1 -> Ingress.job_admission.admit(job_index=1, slot_base=0, worker=0, others=1, bit_of_worker=16777216, group=1)
insert pipe.Ingress.job_admission.roce_writes qpn=0x808000&0xfffc00 source=0xc6120101&0xffffffff rkey=* slot=0..65535 ingress_port=* $MATCH_PRIORITY=2 -> Ingress.job_admission.refuse(job_index=1, reason=12)
"""


def test_the_writes_of_an_rdma_worker_are_exactly_these(switch):
    before = switch.matches()
    grant = switch.create()
    session = switch.client.join(grant.job, grant.secret, [0, 1], heartbeat_timeout=30, statistics=dict, aborted=print)
    switch.new_writes()
    reply = switch.client.connect_queue_pairs(grant.job, grant.secret, 0, end_of(0))
    assert switch.new_writes() == lines(CONNECT)
    assert reply == QueuePairs("198.18.0.1", 4791, 1024, (0x808000, 0x808001, 0x808002), 0x1001, 0x1000, 0)
    switch.client.connect_queue_pairs(grant.job, grant.secret, 1, end_of(1))
    assert any("$pre.mgid $MGID=1 -> ($MULTICAST_NODE_ID=(32, 33)" in w for w in switch.new_writes())
    held = switch.matches()
    # The worker connects new queue pairs. Their numbers differ, but the tables have the same entries.
    again = switch.client.connect_queue_pairs(grant.job, grant.secret, 0, end_of(0, psn=77))
    assert again.psn != reply.psn and switch.matches() == held
    session.leave()
    assert soon(lambda: switch.matches() == before)


def test_an_rdma_worker_that_the_chip_cannot_serve_is_told_why(switch):
    grant = switch.create_joined()
    switch.new_writes()

    def connect(**changes):
        switch.client.connect_queue_pairs(grant.job, grant.secret, 0, end_of(0, **changes))

    for changes, why in (
        ({"address": "198.18.1.9"}, "198.18.1.9"),
        ({"mtu": 256}, "260 bytes"),
        ({"memory": 512}, "aligned to 2048"),
        ({"qpns": (1, 2)}, "3 queue pairs"),
    ):
        with pytest.raises(InvalidArgumentError, match=why):
            connect(**changes)
    assert switch.new_writes() == []
    connect()


@pytest.mark.parametrize(
    "sizes,error,why",
    [
        ({"workers": 33}, TooManyWorkersError, "this switch serves 32"),
        ({"block_size": 256}, JobRejectedError, "JAXINA_BLOCK_SIZE=64"),
        ({"blocks_per_chunk": 2}, JobRejectedError, "JAXINA_BLOCKS_PER_CHUNK=1"),
        ({"slots": 1025}, JobRejectedError, "1024 are free"),
        ({"slots": 1024}, JobRejectedError, "lower JAXINA_SLOTS"),
    ],
)
def test_a_job_that_the_chip_cannot_carry_is_refused(switch, sizes, error, why):
    switch.new_writes()
    with pytest.raises(error, match=why):
        switch.create(**sizes)
    assert switch.new_writes() == [] and not switch.client.status().jobs
    switch.create()


def test_workers_whose_chunks_do_not_fit_learn_it_when_they_join(switch):
    _, errors = join(switch, block_size=256)
    for error in errors:
        assert isinstance(error, JobRejectedError) and "JAXINA_BLOCK_SIZE=64" in error.message


def test_slots_and_admissions_run_out_and_come_back(switch):
    first = switch.create(slots=1000)
    with pytest.raises(JobRejectedError, match="24 are free"):
        switch.create(slots=25)
    second = switch.create(slots=24)
    assert [job.slot_base for job in switch.plane._pool.jobs.values()] == [0, 1000]
    switch.end(first)
    switch.end(second)
    # A job needs 98 entries: 3 for each of 32 workers, because a port is in another pipe, and 2 more.
    for _ in range(5):
        switch.create(workers=32, slots=1)
    with pytest.raises(JobRejectedError, match="no room for another job of 32"):
        switch.create(workers=32, slots=1)
    assert switch.create(workers=6, slots=1)


def test_a_digest_of_a_job_that_has_gone_is_not_taken_for_the_next_jobs(switch):
    first = switch.create()
    index = switch.plane.part_of(first.job).index
    switch.end(first)
    second = switch.create_joined()
    switch.tables.digests.put(Digest("contradiction", {"rid": index << 5, "slot_index": 0}))
    switch.hears(index, 0)
    part = switch.plane.part_of(second.job)
    switch.hears(part.index, 1)  # digests are taken in their order
    assert soon(lambda: 1 in part.stations)
    assert 0 not in part.stations
    assert [job.aborted for job in switch.client.status().jobs if job.job == second.job] == [""]


def test_indices_are_given_in_a_circle():
    size = chip.SIZES["one-pipe"]
    pool = Pool(size, entries_per_worker=2)

    def add(job):
        return pool.add(job, 0, 1, 1, size.words, 1, 0).index

    stays = add(0)
    assert stays == 1
    given = []
    for job in range(1, 600):
        given.append(add(job))
        del pool.jobs[job]
    circle = list(range(2, size.jobs + 1))
    assert given == (3 * circle)[: len(given)]


def test_a_gap_between_jobs_is_used_again(switch):
    jobs = [switch.create(slots=s) for s in (100, 200, 300)]
    switch.end(jobs[1])
    for slots, base in ((150, 100), (60, 600), (50, 250)):
        grant = switch.create(slots=slots)
        assert switch.plane._pool.jobs[grant.job].slot_base == base


@pytest.mark.parametrize(
    "size,words,ways,message,place",
    [
        ("two-pipes", 128, [196, 196, 68, 68], 516, 4096),
        ("four-pipes", 256, [196, 324, 452, 452, 324, 324, 196, 196, 68, 68], 1028, 8192),
    ],
)
def test_larger_sizes(tmp_path, size, words, ways, message, place):
    switch = Switch(tmp_path, size)
    try:
        steps = [w for w in switch.new_writes() if "next_pass" in w and "lane=0" in w]
        assert [int(w.rpartition("=")[2].rstrip(")")) for w in steps] == ways
        with pytest.raises(JobRejectedError, match=f"JAXINA_BLOCK_SIZE={words}"):
            switch.create()
        grant = switch.create_joined(block_size=words)
        with pytest.raises(InvalidArgumentError, match=f"{message} bytes"):
            switch.client.connect_queue_pairs(grant.job, grant.secret, 0, end_of(0, mtu=message - 4))
        switch.client.connect_queue_pairs(grant.job, grant.secret, 0, end_of(0, mtu=4096))
        assert any(f"address_low={place}" in w for w in switch.new_writes())
    finally:
        switch.close()


def register(name, index, **fields):
    data = {f"{name}.{field}": value for field, value in fields.items()}
    return Entry(f"pipe.{name}", {"$REGISTER_INDEX": index}, data)


def test_who_is_missing_is_read_from_the_registers(switch):
    grant = switch.create(workers=3)
    assert switch.client.who_is_missing(grant.job, grant.secret).awaited == []
    turns, stamps = "Ingress.slot_turn.turns", "Ingress.worker_stamp.stamps"
    # Slot 0 sums pass 4, for which worker 1 is still missing. Slot 1 waits for pass 3, which nobody has begun.
    switch.tables.modify([register(turns, 0, turn=4, distance=0), register(turns, 1, turn=3, distance=0)])
    switch.tables.modify(
        [
            register(stamps, 0, even=4, odd=3),
            register(stamps, 1, even=2, odd=3),
            register(stamps, 2, even=4, odd=3),
            *(register(stamps, 32 + worker, even=2, odd=1) for worker in range(3)),
        ]
    )
    assert switch.client.who_is_missing(grant.job, grant.secret).awaited == [1]


def counter(name, index, packets):
    data = {"$COUNTER_SPEC_PKTS": packets, "$COUNTER_SPEC_BYTES": 300 * packets}
    return Entry(f"pipe.Ingress.statistics.{name}", {"$COUNTER_INDEX": index}, data)


@pytest.mark.parametrize("in_chip,lost", [(0, 0), (4, 0), (50, 50)])  # a job of 2 workers and 2 slots
def test_status_shows_the_chips_counters(switch, in_chip, lost):
    grant = switch.create()
    packets = {0: 50, 1: 40, 2: 3, 3: 4, 9: 5, 13: 2}
    switch.tables.modify([counter("packets", 16 + reason, count) for reason, count in packets.items()])
    switch.tables.modify([counter("received", 1, 104 + in_chip), counter("packets", 5, 7)])
    status = switch.client.status()
    assert dict(status.rejected) == {"unknown_job": 7}
    (job,) = status.jobs
    assert dict(job.rejected) == {"stale": 5, "unheard": 2}
    assert dict(job.counters) == {
        "updates": 90,
        "results": 40,
        "duplicates": 7,
        "packets_sent": 83,
        "bytes_received": 300 * (104 + in_chip),
        "lost_inside": lost,
    }
    assert job.job == grant.job


def test_status_shows_the_chips_ports(switch):
    mac = {"$FramesReceivedOK": 10, "$FramesTransmittedOK": 20, "$FrameswithanyError": 3}
    mac |= {"$OctetsReceivedinGoodFrames": 1000, "$OctetsTransmittedwithouterror": 2000}
    mac |= {"$FramesReceivedoftypePAUSE": 4, "$FramesTransmittedPause": 5}
    mac |= {"$PriorityPauseFrames": 6, "$FramesTransmittedPriPause": 7}
    switch.tables.modify([Entry("$PORT", {"$DEV_PORT": 132}, {"$PORT_UP": True})])
    queue = {"drop_count_packets": 8, "usage_cells": 2, "watermark_cells": 9}
    switch.tables.insert(
        [
            Entry("$PORT_STAT", {"$DEV_PORT": 132}, mac),
            Entry("tf1.tm.counter.ig_port", {"dev_port": 4}, {"drop_count_packets": 11}),
            Entry("tf1.tm.counter.eg_port", {"dev_port": 68}, queue),
        ]
    )
    ports = {port.port: port for port in switch.client.status().ports}
    assert {number: port.up for number, port in ports.items()} == {132: True, 4: False, 68: True}
    names = ("packets_received", "bytes_received", "packets_sent", "bytes_sent", "errors")
    names += ("pauses_received", "pauses_sent", "priority_pauses_received", "priority_pauses_sent")
    none = {"dropped_at_ingress": 0, "dropped_at_egress": 0, "queue_bytes": 0, "longest_queue_bytes": 0}
    assert dict(ports[132].counters) == {
        **none,
        **dict(zip(names, (10, 1000, 20, 2000, 3, 4, 5, 6, 7), strict=True)),
    }
    assert ports[4].counters["dropped_at_ingress"] == 11
    dropped = {"dropped_at_egress": 8, "queue_bytes": 160, "longest_queue_bytes": 720}
    assert dict(ports[68].counters) == {**none, **dropped}


def test_a_driver_without_counters_of_ports_leaves_them_out(switch, monkeypatch, caplog):
    def refuse(entries):
        raise SystemCallError("no table $PORT_STAT")

    counters = Entry("pipe.Ingress.statistics.packets", {"$COUNTER_INDEX": 0}, {"$COUNTER_SPEC_PKTS": 0})
    read = switch.tables.read
    monkeypatch.setattr(
        switch.tables, "read", lambda entries: (read if entries[0].table == counters.table else refuse)(entries)
    )
    assert not switch.client.status().ports and not switch.client.status().ports
    assert caplog.text.count("no table $PORT_STAT") == 1


def test_the_names_are_those_of_the_program(switch):
    """p4/tofino has every table, key, action, parameter and register that is written, and every digest."""
    names = p4_names.read(Path(__file__).parents[2] / "p4" / "tofino" / "jaxina.p4")
    grant = switch.create_joined()
    switch.hears(1, 1)
    assert soon(lambda: "Ingress.source_check" in str(switch.tables.writes[-1]))
    switch.client.connect_queue_pairs(grant.job, grant.secret, 0, end_of(0))
    switch.plane.abort_job(grant.job, "MISMATCH", "")
    names.check(switch.tables.writes)
    assert set(names.digests) == set(chip.SIZES["one-pipe"].digests) == set(bfrt.DIGESTS)
    assert names.digests["heard"] == {"rid", "mac", "ip", "port", "ingress_port"}
    assert "rid" in names.digests["contradiction"]
