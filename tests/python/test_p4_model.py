"""What drives the chip's model, without a model: a small program answers in its harness's place."""

from __future__ import annotations

import itertools
import json
import sys

import pytest
from conformance.devices.compiled import Compiled
from conformance.devices.harness import Harness, HarnessError
from conformance.devices.model_tables import ModelTables
from conformance.devices.patterns import prefixes

from jaxina.controller.chip import SIZES
from jaxina.controller.tables import Entry, Range, Ternary

# It understands what the tests below say, and refuses the rest as the harness does.
FAKE = """\
import sys
losing = False
for number, line in enumerate(sys.stdin, 1):
    command, _, rest = line.strip().partition(" ")
    if command == "echo":
        print("echo", rest)
    elif command == "packet":
        print("unexpected packet output on port 5:")
        print("0000  02 4a 58 00 00 00 00 00  00 01 02 4a 58 ff ff ff  .JX........JX...")
        print("5 0AFF")
        if rest.endswith(" d1"):
            print("digest 2 00ff")
        if losing:
            print("lost 68")
    elif command == "check_register":
        print("register tags(physical 3): lo=7 hi=8")
    elif command == "lose":
        losing = True
    elif command == "die":
        print("assertion failed", file=sys.stderr)
        sys.exit(1)
    elif command not in ("load", "learn", "reg", "zero", "parser_row", "add", "tick", "idle", "sleep"):
        print(f"<stdin>:{number}: Unknown command {command}", file=sys.stderr)
    open("commands", "a").write(line)
    sys.stdout.flush()
"""


@pytest.fixture
def binary(tmp_path):
    path = tmp_path / "harness"
    path.write_text(f"#!{sys.executable}\n{FAKE}")
    path.chmod(0o755)
    return path


@pytest.fixture
def harness(binary, tmp_path):
    started = Harness(binary, tmp_path)
    yield started
    started.close()


def test_the_answers_are_those_of_the_commands_before(harness):
    answer = harness.ask("packet 4 d1", "check_register tags(3)")
    assert answer.frames == [(5, b"\x0a\xff")]
    assert answer.digests == [(2, b"\x00\xff")]
    assert answer.values == [{"lo": 7, "hi": 8}]
    assert harness.ask("check_register tags(3)").frames == []


def test_a_command_that_the_harness_refuses_is_an_error(harness):
    with pytest.raises(HarnessError, match="Unknown command ad "):
        harness.ask("packet 4 00", "ad tags")
    assert harness.ask("packet 4 00").frames, "the harness goes on"


def test_a_harness_that_ends_is_an_error_that_says_what_it_said_last(harness):
    with pytest.raises(HarnessError, match="assertion failed"):
        harness.ask("die")


@pytest.mark.parametrize("low, high", [*itertools.combinations_with_replacement(range(16), 2)])
def test_the_blocks_of_a_range_are_the_range_and_do_not_overlap(low, high):
    blocks = prefixes(Range(low, high), 4)
    covered = [value for value in range(16) for block in blocks if value & block.mask == block.value]
    assert covered == list(range(low, high + 1))


CONTEXT = {
    "tables": [
        {
            "name": "Ingress.job_admission.udp_updates",
            "match_key_fields": [{"name": "job", "bit_width": 4}, {"name": "slot", "bit_width": 4}],
            "table_type": "match",
            "size": 512,
        },
        {"name": "Ingress.pass_tag.tags", "table_type": "stateful"},
    ],
    "learn_quanta": [
        {
            "name": "IngressDeparser.heard",
            "lq_cfg_type": 1,
            "fields": [
                {"field_name": "hdr.rid", "start_byte": 1, "field_width": 13, "start_bit": 4, "phv_offset": 0},
                {"field_name": "hdr.mac", "start_byte": 3, "field_width": 16, "start_bit": 7, "phv_offset": 32},
                {"field_name": "hdr.mac", "start_byte": 5, "field_width": 32, "start_bit": 7, "phv_offset": 0},
                {"field_name": "hdr.port", "start_byte": 9, "field_width": 9, "start_bit": 0, "phv_offset": 0},
            ],
        }
    ],
    "parser": {
        "ingress": [
            {"uses_pvs": False, "tcam_rows": [200]},
            {"uses_pvs": True, "pvs_name": "IngressParser.addresses", "tcam_rows": [90, 89, 88]},
        ]
    },
}
# The compiler has put the upper half of a 32-bit field into the two registers of 8 bits. The last row is that of the
# transition that is taken if none of the set's members matches.
SCHEMA = {
    "learn_filters": [{"name": "pipe.IngressDeparser.heard", "fields": [{"name": n} for n in ("rid", "mac", "port")]}]
}
ASSEMBLY = """\
    start:
      match: [ half, byte0, byte1 ]
      value_set IngressParser.addresses 2:
        handle: 3
        field_mapping:
          hdr.ipv4.destination(0..15) : half(0..15)
          hdr.ipv4.destination(16..23) : byte1(0..7)
          hdr.ipv4.destination(24..31) : byte0(0..7)
        next: update
      0x********:
        next: plain
"""


@pytest.fixture
def compiled(tmp_path):
    (tmp_path / "pipe").mkdir()
    (tmp_path / "pipe" / "context.json").write_text(json.dumps(CONTEXT))
    (tmp_path / "pipe" / "jaxina.bfa").write_text(ASSEMBLY)
    (tmp_path / "bfrt.json").write_text(json.dumps(SCHEMA))
    return Compiled(tmp_path)


def test_a_member_of_a_value_set_lies_in_the_registers_that_the_compiler_chose(compiled):
    addresses = compiled.value_sets["IngressParser.addresses"]
    assert addresses.rows == (90, 89)
    row, value, mask = addresses.row(1, Ternary(0xC6120001, 0xFFFF00FF))
    assert (row, value, mask) == (89, 0x12C60001, 0xFFFF00FF)


def test_a_full_value_set_takes_no_more(compiled):
    with pytest.raises(ValueError, match="2 members already"):
        compiled.value_sets["IngressParser.addresses"].row(2, Ternary(0, 0))


@pytest.fixture
def tables(binary, compiled):
    started = ModelTables(binary, compiled, SIZES["one-pipe"])
    yield started
    started.close()


def admission(job, slots, priority):
    key = {"job": job, "slot": slots, "$MATCH_PRIORITY": priority}
    control = "Ingress.job_admission"
    return Entry(f"pipe.{control}.udp_updates", key, {"worker": 2}, f"{control}.admit")


def test_an_entry_becomes_a_row_for_each_block_of_its_range(tables, compiled):
    tables.insert([admission(Ternary(5, 7), Range(0, 2), 1), admission(Ternary(5, 7), Range(0, 15), 0)])
    rows = [line for line in (compiled.folder / "commands").read_text().splitlines() if line.startswith("add")]
    start = "add Ingress.job_admission.udp_updates"
    end = "Ingress.job_admission.admit(worker:2)"
    assert rows == [
        f"{start} 306 job:0b*101 slot:0b000* {end}",
        f"{start} 307 job:0b*101 slot:0b0010 {end}",
        f"{start} 408 job:0b*101 slot:0b**** {end}",  # more important, so at a higher address
    ]


def test_a_model_that_could_not_do_something_takes_no_more_packets(tables):
    entry = admission(Ternary(5, 7), Range(0, 2), 1)
    tables.insert([entry])
    assert tables.send(4, b"\0") == [(5, b"\x0a\xff")]
    tables.delete([entry])
    with pytest.raises(HarnessError, match="delete"):
        tables.send(4, b"\0")


def test_what_the_chip_loses_is_counted(tables, compiled):
    tables.send(4, b"\0")
    tables.lose(0.05, 7)
    tables.send(4, b"\0")
    assert tables.lost == 1
    assert "lose 0.05 7" in (compiled.folder / "commands").read_text().splitlines()


def test_a_digest_is_read_from_where_the_compiler_packs_its_fields(compiled):
    data = bytes.fromhex("010040024a580000010105") + bytes(37)
    assert compiled.digest(data[::-1]) == ("heard", {"rid": 0x40, "mac": 0x024A58000001, "port": 0x105})
