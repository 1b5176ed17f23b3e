"""atp.p4 in the interpreter: it passes the vectors of switches that combine updates, and changed programs fail."""

from __future__ import annotations

import random
import shutil

import pytest
from busy_combiner import JOBS, PASSES, SLOTS, Traffic
from conformance import random_combiner, vector
from conformance.atp_mutants import ATP_MUTANTS
from conformance.combiner_script import CombinerScript
from conformance.devices.atp import InterpretedAtp
from conformance.devices.frames import Frame, to_bytes
from conformance.devices.interpreter import HOSTS, MAC, PORTS, PROGRAM, text_of
from conformance.generate import ATP, FOLDER
from conformance.mutants import finders
from conformance.runner import run
from conformance.vector import Count, Vector

FILES = sorted((FOLDER / ATP).glob("*/*.txt"))
CASES = {  # of docs/atp.md
    *("claim", "join", "collide", "absorb", "repeat", "release", "late_release", "expiry", "late_original"),
    *("direct", "group", "split_pass", "overlap", "superset", "foreign_result", "mark_not_inherited"),
}


@pytest.fixture(scope="module")
def device():
    return InterpretedAtp(text_of(ATP))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_program_passes_each_vector(device, file):
    outcome = run(vector.read(file), device)
    assert outcome.failures == []
    assert bool(outcome.lacking) == (file.stem == "sizes")


@pytest.mark.parametrize("seed", [1, 2])
def test_the_program_does_with_random_packets_what_the_specification_does(device, seed):
    wanted = random_combiner.vector(64, seed, None, chip=True)
    done = {count.job: count.fields for count in wanted.steps if isinstance(count, Count)}
    assert min(counts["combined"] for job, counts in done.items() if job != "-") >= 3
    outcome = run(wanted, device)
    assert not outcome.lacking and outcome.failures == []


def test_there_is_a_vector_for_each_case_of_the_rule():
    assert {file.stem for file in FILES} >= CASES


@pytest.mark.parametrize("mutant", ATP_MUTANTS)
def test_a_changed_line_is_found(mutant, tmp_path):
    program = ATP_MUTANTS[mutant].write(tmp_path / "tofino")
    assert next(finders(ATP, InterpretedAtp(text_of(ATP, program=program))), None)


def run_traffics(device, number, losses):
    """Runs traffics, and returns them."""
    done = []
    for seed in range(number):
        done.append(Traffic(device, random.Random(seed), losses))
        try:
            done[-1].run()
        finally:
            device.end()
    return done


@pytest.mark.parametrize("losses", [0, 0.05])
def test_every_sum_is_right_while_entries_are_taken_and_packets_are_lost_in_the_chip(device, losses):
    done = run_traffics(device, 6, losses)
    assert sum(traffic.sums for traffic in done) > len(JOBS) * SLOTS * PASSES
    assert bool(sum(traffic.lost for traffic in done)) == bool(losses)
    assert {traffic.most for traffic in done} == {8}


# Name -> file, the original text, the text that replaces it.
UNSAFE = {
    "a sum is read from whoever has the entry": (
        "atp_verdict.p4",
        "(READING_LOW, _, _, _, _, _, SAME_PASS, _, 0) :",
        "(READING_LOW, _, _, _, _, _, _, _, _) :",
    ),
    "a sum is read from a pass that has begun anew": (
        "atp_verdict.p4",
        "(READING_LOW, _, _, _, _, _, SAME_PASS, _, 0) :",
        "(READING_LOW, _, _, _, _, _, SAME_PASS, _, _) :",
    ),
    "stamps expire before entries": (
        "child_stamp.p4",
        "md.now - stamp.added <= LIFETIME",
        "md.now - stamp.added <= 400",
    ),
}


@pytest.mark.parametrize("change", UNSAFE)
def test_an_unsafe_program_gives_wrong_sums(change, tmp_path):
    name, old, new = UNSAFE[change]
    folder = tmp_path / "tofino"
    shutil.copytree(PROGRAM.parent, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))
    device = InterpretedAtp(text_of(ATP, program=folder / "atp.p4"))
    with pytest.raises(AssertionError, match="combined"):
        run_traffics(device, 60, losses=0.02)


def job_of_two(device, entries=8):
    script = CombinerScript("two", 64, "")
    script.table(entries)
    script.combined_job("A", workers=2)
    device.begin(Vector("two", {"combine"}, script.vector.steps))
    return script


def kinds(device, endpoint, packet):
    device.send(endpoint, packet)
    return [(received.endpoint, received.packet.kind) for received in device.replies(0)]


def test_a_job_that_is_registered_again_does_not_meet_its_old_entries(device):
    script = job_of_two(device, entries=1)
    (job,) = script.combiner.jobs.values()
    assert kinds(device, "A0", script.of(0, 0)) == []
    device.plane.remove_job(device.names.jobs["A"])
    device.register(job)
    assert kinds(device, "A1", script.of(1, 0)) == [("As0", "update")]  # another registration still has the entry
    device.tables.wait(250)
    assert kinds(device, "A1", script.of(1, 1)) == []
    assert kinds(device, "A0", script.of(0, 1)) == [("As0", "combined")]
    device.end()


def test_a_job_that_has_gone_is_refused(device):
    script = job_of_two(device)
    assert kinds(device, "A0", script.of(0, 0)) == []
    device.plane.remove_job(device.names.jobs["A"])
    assert kinds(device, "A1", script.of(1, 0)) == [("A1", "refused")]
    assert kinds(device, "As0", script.of(1, 0)) == [("As0", "refused")]
    device.end()


def test_an_update_from_elsewhere_neither_claims_nor_diverts_results(device):
    script = job_of_two(device)
    device.link.open("X")
    assert kinds(device, "X", script.of(0, 0)) == []
    assert device.counts("A")["unheard"] == 1
    assert kinds(device, "A1", script.of(1, 0)) == []
    assert kinds(device, "A0", script.of(0, 0)) == [("As0", "combined")]
    device.end()


def test_what_is_no_whole_chunk_is_sent_on(device):
    script = job_of_two(device)
    for worker, how in ((0, "first"), (1, "first"), (1, "again")):
        short = script.of(worker, 0, how, words=(1, 2, 3))
        assert kinds(device, f"A{worker}", short) == [("As0", "update")]
    assert device.counts("A")["passed_on"] == 3
    assert kinds(device, "A0", script.of(0, 0)) == []  # nobody has claimed the entry
    assert kinds(device, "A1", script.of(1, 0)) == [("As0", "combined")]
    device.end()


def test_other_traffic_is_forwarded(device):
    job_of_two(device)
    for payload in (b"not jaxina's", b"JX\x02\x01" + bytes(60)):
        host = HOSTS[3]
        frame = to_bytes(Frame(host.mac.to_bytes(6), ("198.18.99.1", 7), MAC, ("198.18.99.2", 7), payload))
        frame = host.mac.to_bytes(6) + frame[6:]
        assert device.tables.chip.send(PORTS[0], frame) == [(host.port, frame)]
    device.end()
