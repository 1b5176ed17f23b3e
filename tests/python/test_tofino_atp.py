"""The controller of the Tofino program that combines, without a chip: what it writes, and which jobs it refuses."""

from __future__ import annotations

from pathlib import Path

import p4_names
import pytest
from tofino_fakes import CHIP, IPS, MACS, soon

from jaxina._native import JobShape
from jaxina.control.roles import Child, Combine
from jaxina.controller import chip
from jaxina.controller.atp_plane import AtpPlane
from jaxina.controller.atp_pool import ENTRIES
from jaxina.controller.dry_run import DryRun
from jaxina.controller.tables import Digest
from jaxina.errors import InvalidArgumentError, JobRejectedError, TooManyWorkersError

PROGRAM = Path(__file__).parents[2] / "p4" / "tofino" / "atp.p4"
SERVERS = (("198.18.1.1", 40000), ("198.18.1.2", 40001))


def shape(workers=2, slots=4, block=64, blocks=1):
    return JobShape(devices=workers, workers=workers, slots=slots, block_size=block, blocks_per_chunk=blocks)


def workers(count):
    return tuple(Child((worker,)) for worker in range(count))


@pytest.fixture
def plane(tmp_path):
    file = tmp_path / "chip.toml"
    file.write_text(CHIP.format(size="atp"))
    made = AtpPlane(DryRun(), chip.read(file), random_bits=lambda bits: 0)
    yield made
    made.stop()


def hear(plane, job, member, host, port=50000):
    rid = plane.part_of(job).rid(member)
    fields = {"rid": rid, "mac": MACS[host], "ip": IPS[host], "port": port + member, "ingress_port": (132, 4)[host]}
    plane._tables.digests.put(Digest("heard", fields))
    assert soon(lambda: member in plane.part_of(job).stations)


def matches(plane):
    return {key for key in plane._tables.held if "statistics" not in str(key)}


def held(plane, table):
    return [entry for entry in plane._tables.held.values() if entry.table == f"pipe.{table}"]


def test_a_job_is_admitted_child_by_child_and_leaves_nothing_behind(plane):
    before = matches(plane)
    plane.combine_job(7, 8, shape(3), Combine(0, (Child((0, 2), 1), Child((1,))), SERVERS))
    unheard = held(plane, "Ingress.atp_admission.updates")
    assert {e.action.rpartition(".")[2] for e in unheard} == {"ask", "hand_over", "refuse"}
    assert len(unheard) + 4 == plane._admission.entries_of(plane.part_of(7).children)  # four senders
    hear(plane, 7, 0, 0)
    assert not held(plane, "Ingress.atp_admission.replies")  # child 1 would get no results
    hear(plane, 7, 1, 1)
    assert soon(lambda: len(held(plane, "Ingress.atp_admission.replies")) == 4)
    admitted = [e for e in held(plane, "Ingress.atp_admission.updates") if e.action.endswith(".admit")]
    senders = {(e.key["kind"].value, e.key["worker"].value): e.data["passes"] for e in admitted}
    assert senders == {(6, 0xFF01): 0, (1, 0): 1, (1, 2): 1, (1, 1): 0}
    up = held(plane, "Ingress.atp_ways.upstream")
    assert [e.data["rid"] & 31 for e in sorted(up, key=lambda e: e.key["slot"])] == [0, 1, 0, 1]
    plane.remove_job(7)
    assert matches(plane) == before


def test_the_names_are_those_of_the_program(plane):
    names = p4_names.read(PROGRAM)
    plane.combine_job(7, 8, shape(), Combine(0, workers(2), SERVERS))
    hear(plane, 7, 0, 0)
    hear(plane, 7, 1, 1)
    assert soon(lambda: held(plane, "Ingress.atp_admission.replies"))
    names.check(plane._tables.writes)
    assert set(names.digests) == set(chip.ATP.digests)
    assert names.digests["heard"] == {"rid", "mac", "ip", "port", "ingress_port"}


@pytest.mark.parametrize(
    "job, combine, error, why",
    [
        (shape(block=128), Combine(0, workers(2), SERVERS), JobRejectedError, "JAXINA_BLOCK_SIZE=64"),
        (shape(blocks=2), Combine(0, workers(2), SERVERS), JobRejectedError, "JAXINA_BLOCKS_PER_CHUNK=1"),
        (shape(33), Combine(0, workers(33), SERVERS), TooManyWorkersError, "tells 32 apart"),
        (shape(), Combine(0, workers(2), SERVERS, ways=2), JobRejectedError, "--threads 1"),
        (shape(), Combine(0, workers(2), (("198.18.1.9", 1),)), JobRejectedError, "add it to its file as a "),
        (shape(), Combine(0, workers(2), SERVERS[:1] * 33), JobRejectedError, "33 servers"),
        (shape(slots=ENTRIES + 1), Combine(0, workers(2), SERVERS), JobRejectedError, "2049 slots"),
    ],
)  # fmt: skip
def test_what_the_chip_cannot_combine_is_refused(plane, job, combine, error, why):
    with pytest.raises(error, match=why):
        plane.combine_job(7, 8, job, combine)
    plane.combine_job(7, 8, shape(), Combine(0, workers(2), SERVERS))  # nothing of it has stayed


def test_jobs_are_refused_when_the_entries_that_admit_packets_are_all_taken(plane):
    one = Combine(0, workers(8), SERVERS)
    fit = 512 // plane._admission.entries_of(one.children)
    for job in range(fit):
        plane.combine_job(job, 8, shape(8), one)
    with pytest.raises(JobRejectedError, match="free entries"):
        plane.combine_job(fit, 8, shape(8), one)
    assert fit == 14


def test_registrations_have_salts_and_indices_of_their_own(plane):
    salts, indices = set(), []
    for _ in range(300):
        plane.combine_job(7, 8, shape(), Combine(0, workers(2), SERVERS))
        salts.add(plane.part_of(7).salt)
        indices.append(plane.part_of(7).index)
        plane.remove_job(7)
    assert len(salts) == 300 and 0 not in salts
    assert indices == [1 + number % 255 for number in range(300)]


def test_it_does_nothing_but_combine(plane):
    with pytest.raises(InvalidArgumentError, match="does not sum jobs of 'udp'"):
        plane.add_job(7, 8, shape())
    with pytest.raises(InvalidArgumentError, match="servers"):
        plane.serve_part(7, 8, shape(), None)
