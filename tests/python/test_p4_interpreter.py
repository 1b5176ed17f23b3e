"""The P4 interpreter does what the language and the chip define, and refuses what they do not define."""

from __future__ import annotations

import pytest
from interpreter import source
from interpreter.chip import Chip
from interpreter.errors import ProgramError, UndefinedError
from interpreter.program import Program
from interpreter.values import Unknown, largest

PROGRAM = """
#include <core.p4>
#include <tna.p4>
header byte_h {{ bit<8> value; }}
header pair_h {{ bit<4> first; bit<4> second; }}
struct headers_t {{ byte_h byte; pair_h pair; byte_h other; }}
struct metadata_t {{ bit<8> a; bit<16> b; bit<1> flag; }}
struct cell_t {{ bit<32> low; bit<32> high; }}
parser P(packet_in packet, out headers_t hdr, out metadata_t md,
         out ingress_intrinsic_metadata_t i) {{
    value_set<bit<8>>(2) known;
    state start {{
        packet.extract(i);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(hdr.byte);
        {parser}
    }}
    state pair {{ packet.extract(hdr.pair); transition accept; }}
}}
control C(inout headers_t hdr, inout metadata_t md, in ingress_intrinsic_metadata_t i,
          in ingress_intrinsic_metadata_from_parser_t p,
          inout ingress_intrinsic_metadata_for_deparser_t d,
          inout ingress_intrinsic_metadata_for_tm_t tm) {{
    {locals}
    apply {{ tm.ucast_egress_port = 7; tm.bypass_egress = 1; {apply} }}
}}
control D(packet_out packet, inout headers_t hdr, in metadata_t md,
          in ingress_intrinsic_metadata_for_deparser_t d) {{
    apply {{ packet.emit(hdr); }}
}}
parser EP(packet_in packet, out headers_t hdr, out metadata_t md,
          out egress_intrinsic_metadata_t i) {{
    state start {{ packet.extract(i); transition accept; }}
}}
control EC(inout headers_t hdr, inout metadata_t md, in egress_intrinsic_metadata_t i,
           in egress_intrinsic_metadata_from_parser_t p,
           inout egress_intrinsic_metadata_for_deparser_t d,
           inout egress_intrinsic_metadata_for_output_port_t o) {{ apply {{}} }}
control ED(packet_out packet, inout headers_t hdr, in metadata_t md,
           in egress_intrinsic_metadata_for_deparser_t d) {{
    apply {{ packet.emit(hdr); }}
}}
Pipeline(P(), C(), D(), EP(), EC(), ED()) pipe;
Switch(pipe) main;
"""  # fmt: skip


@pytest.fixture
def chip(tmp_path):
    def made(apply="", locals="", parser="transition accept;"):
        file = tmp_path / "program.p4"
        file.write_text(PROGRAM.format(apply=apply, locals=locals, parser=parser))
        return Chip(Program(source.preprocess(file)), lambda digest: None)

    return made


def sent(chip, data=b"\x05abc"):
    return chip.send(1, data)


def test_a_packet_goes_where_it_is_sent(chip):
    assert sent(chip()) == [(7, b"\x05abc")]


@pytest.mark.parametrize(
    "statements, byte",
    [
        ("hdr.byte.value = hdr.byte.value + 252;", 1),
        ("hdr.byte.value = 4 - hdr.byte.value;", 255),
        ("hdr.byte.value = hdr.byte.value * 100;", 244),
        ("hdr.byte.value = max(hdr.byte.value, 9) | 0x30;", 0x39),
        ("hdr.byte.value[7:4] = hdr.byte.value[3:0];", 0x55),
        ("md.b = 0x1234; hdr.byte.value = md.b[11:4];", 0x23),
        ("if (hdr.byte.value != 5 || i.ingress_port == 1) { hdr.byte.value = 1; }", 1),
        ("if (!hdr.pair.isValid() && true) { hdr.byte.value = 2; } else { }", 2),
        ("bit<8> kept = hdr.byte.value; hdr.byte.value = 0; hdr.byte.value = kept ^ 1;", 4),
        ("if (hdr.byte.value - 6 > 254) { hdr.byte.value = 1; }", 1),
        ("if (hdr.byte.value <= 5 && !(hdr.byte.value < 5)) { hdr.byte.value = 3; }", 3),
    ],
)  # fmt: skip
def test_expressions(chip, statements, byte):
    assert sent(chip(statements)) == [(7, bytes([byte]) + b"abc")]


def test_headers_come_and_go(chip):
    added = "hdr.pair.setValid(); hdr.pair.first = 0xa; hdr.pair.second = 0xb;"
    assert sent(chip(f"{added} hdr.byte.setInvalid();")) == [(7, b"\xababc")]


def test_a_parser_looks_ahead_and_chooses(chip):
    chooses = """transition select(hdr.byte.value, packet.lookahead<bit<16>>()[7:0]) {
        (0x04 &&& 0xfc, 0x62): pair; (_, 0): pair; default: accept; }"""
    swap = "if (hdr.pair.isValid()) { hdr.pair.first = 0; }"
    assert sent(chip(swap, parser=chooses)) == [(7, b"\x05\x01bc")]
    assert sent(chip(swap, parser=chooses), b"\x05aac") == [(7, b"\x05aac")]
    assert sent(chip(swap, parser=chooses), b"\x05a") == []  # too short: dropped


TABLE = """
action put(bit<8> value) {{ hdr.byte.value = value; }}
action drop() {{ d.drop_ctl = 1; }}
table t {{
    key = {{ hdr.byte.value : ternary; md.a : ternary; }}
    actions = {{ put; drop; NoAction; }}
    const default_action = drop;
    const entries = {{ {entries} }}
    size = 4;
}}
"""


def test_entries_go_by_their_order(chip):
    entries = "(5, 2) : put(1); (0x04 &&& 0x0c, _) : put(2); (_, 2) : put(3);"
    made = chip("md.a = 2; t.apply();", TABLE.format(entries=entries))
    assert sent(made) == [(7, b"\x01abc")]
    assert sent(made, b"\x06abc") == [(7, b"\x02abc")]
    assert sent(made, b"\x00abc") == [(7, b"\x03abc")]
    assert sent(chip("md.a = 1; t.apply();", TABLE.format(entries=entries)), b"\0abc") == []


def test_what_nothing_has_set_may_stand_in_a_key_that_does_not_matter(chip):
    entries = "(5, _) : put(1); (_, 2) : put(3);"
    made = chip("t.apply();", TABLE.format(entries=entries))
    assert sent(made) == [(7, b"\x01abc")]
    with pytest.raises(UndefinedError, match=r"table C\.t depends on md\.a"):
        sent(made, b"\x06abc")


REGISTER = """
Register<cell_t, bit<8>>(4) cells;
RegisterAction<cell_t, bit<8>, bit<32>>(cells) count = {
    void apply(inout cell_t cell, out bit<32> result) {
        cell.low = cell.low + 0x80000000;
        if (cell.high == 0xffffffff) { cell.high = 0; } else { cell.high = cell.high + 1; }
        result = cell.high;
    }
};
RegisterAction<cell_t, bit<8>, bit<4>>(cells) compare = {
    void apply(inout cell_t cell, out bit<4> result) {
        result = this.predicate(cell.low != 0x80000000, cell.high != 8);
    }
};
RegisterAction<cell_t, bit<8>, bit<32>>(cells) store = {
    void apply(inout cell_t cell) { cell.low = 1; cell.high = 2; }
};
action take() { bit<32> number = count.execute(2); hdr.byte.value = number[7:0]; }
"""

IN_REGISTER = {"locals": REGISTER}


def test_registers_keep_what_their_actions_leave(chip):
    made = chip("take();", REGISTER)
    made.pipes[0].registers["C.cells"][2] = {"low": 0, "high": 6}
    assert [sent(made)[0][1][0] for _ in range(2)] == [7, 8]
    assert made.pipes[0].registers["C.cells"] == {2: {"low": 0, "high": 8}}
    compares = "hdr.pair.setValid(); hdr.pair.first = 0; hdr.pair.second = compare.execute(2);"
    made = chip(compares, REGISTER)
    for cell, outcome in [((2**31, 8), 1), ((0, 8), 2), ((2**31, 0), 4), ((0, 0), 8)]:
        made.pipes[0].registers["C.cells"][2] = dict(zip(("low", "high"), cell, strict=True))
        assert sent(made) == [(7, bytes([5, outcome]) + b"abc")]


def test_a_stateful_alu_compares_differences_that_are_not_cut(chip):
    """The public compiler and the chip's model have both words extended before they are subtracted."""
    older = """
    RegisterAction<cell_t, bit<8>, bit<1>>(cells) older = {
        void apply(inout cell_t cell, out bit<1> result) {
            result = 0;
            if (5 - cell.low > 3) { result = 1; }
        }
    };
    """
    made = chip("hdr.byte.value = 0; hdr.byte.value[0:0] = older.execute(2);", REGISTER + older)
    for low, outcome in [(0, 1), (1, 1), (2, 0), (5, 0), (7, 0), (2**32 - 1, 0)]:
        made.pipes[0].registers["C.cells"][2] = {"low": low, "high": 0}
        assert sent(made) == [(7, bytes([outcome]) + b"abc")]


def test_a_register_begins_with_its_initial_values(chip):
    made = chip("take();", REGISTER.replace("(4) cells", "(4, {0, 6}) cells"))
    assert [sent(made)[0][1][0] for _ in range(2)] == [7, 8]
    with pytest.raises(ProgramError, match="begins with 1 numbers, and has 2 fields"):
        chip("take();", REGISTER.replace("(4) cells", "(4, 0) cells"))


def test_a_hash_is_a_crc_of_the_fields(chip):
    """0xbb3d is the check value of this CRC (CRC-16/ARC): that of the digits 1 to 9."""
    digits = "bit<32> a = 0x31323334; bit<32> b = 0x35363738; bit<8> c = 0x39; md.b = place.get({a, b, c});"
    place = "Hash<bit<16>>(HashAlgorithm_t.CRC16) place;"
    assert sent(chip(f"{digits} hdr.byte.value = md.b[15:8];", place)) == [(7, b"\xbbabc")]
    assert sent(chip(f"{digits} hdr.byte.value = md.b[7:0];", place)) == [(7, b"\x3dabc")]
    with pytest.raises(ProgramError, match="no such hash"):
        chip(digits, place.replace("CRC16", "CRC32"))


def test_the_clock_stands_in_front_of_a_packet(chip):
    made = chip("md.b = i.ingress_mac_tstamp[31:16]; hdr.byte.value = md.b[7:0];")
    made.now = lambda: 0x2A0000
    assert sent(made) == [(7, b"\x2aabc")]
    made.now = lambda: (1 << 48) + 0x2A0000
    assert sent(made) == [(7, b"\x2aabc")]


@pytest.mark.parametrize(
    "rid, ports",
    [
        (0, [7, 2]),  # the global replication id: pruning applies to all nodes, as the chip's model does it
        (5, [7, 1, 2]),  # only to nodes with the packet's own id
        (6, [7, 1, 2, 1]),
    ],
)
def test_copies_go_to_the_nodes_of_a_group_but_not_to_pruned_ports(chip, rid, ports):
    made = chip(f"tm.mcast_grp_a = 3; tm.level2_exclusion_id = i.ingress_port; tm.rid = {rid}; d.drop_ctl = 0;")
    made.traffic_manager.nodes = {10: (0, (1, 2)), 11: (5, (1,))}
    made.traffic_manager.groups = {3: (10, 11)}
    made.traffic_manager.prunes = {1: (1,)}
    assert [port for port, _ in sent(made)] == ports


def test_a_recirculated_packet_makes_passes_until_it_leaves(chip):
    counts = """hdr.byte.value = hdr.byte.value - 1;
        if (hdr.byte.value != 0) { tm.ucast_egress_port = 196; }"""
    assert sent(chip(counts)) == [(7, b"\x00abc")]
    with pytest.raises(UndefinedError, match="more than 64 passes"):
        sent(chip("tm.ucast_egress_port = 68;"))


@pytest.mark.parametrize(
    "parts, why",
    [
        ({"apply": "if (md.flag == 1) { }"}, r"if \(md.flag == 1\) depends on md.flag"),
        ({"apply": "hdr.byte.value = md.a;"}, "sends byte 0"),
        ({"apply": "hdr.byte.value = hdr.pair.first ++ hdr.pair.second;"}, None),
        ({"apply": "if (hdr.pair.first == 0) { }"}, "a header that is not there"),
        ({"apply": "hdr.other.setValid();"}, "sends byte 1"),
        ({"apply": "store.execute(1); store.execute(2);"} | IN_REGISTER, "cells for a second time"),
        ({"apply": "store.execute(hdr.byte.value);"} | IN_REGISTER, "cells at 5"),
        ({"apply": "take();"} | IN_REGISTER, r"depends on C\.cells\[2\]"),
        ({"apply": "tm.mcast_grp_a = 3;"}, "multicast group 3"),
        ({"apply": "tm.mcast_grp_a = 3; tm.level2_exclusion_id = 288;"}, "exclusion id 288"),
        ({"parser": "md.a = 1; md.a = 2; transition accept;"}, "sets md.a a second time"),
        ({"parser": "packet.extract(hdr.byte); transition accept;"}, "extracts hdr.byte twice"),
        ({"apply": "md.b = hdr.byte.value;"}, None),
        ({"apply": "hdr.byte.value = 256;"}, None),
        ({"apply": "hdr.byte.value = hdr.byte.value[8:1];"}, None),
        ({"apply": "i.ingress_port = 1;"}, None),
        ({"apply": "hdr.byte.other = 1;"}, None),
        ({"apply": "t.apply();", "locals": TABLE.format(entries="(1) : put(1);")}, None),
        ({"apply": "t.apply();", "locals": TABLE.format(entries="(1, 1) : put();")}, None),
        ({"apply": "while (true) { }"}, None),
    ],
)  # fmt: skip
def test_what_is_not_defined_is_an_error(chip, parts, why):
    """Without `why`, the program's text is refused. With it, the packet that meets the undefined thing raises it."""
    if why is None:
        with pytest.raises(ProgramError):
            chip(**parts)
        return
    made = chip(**parts)
    with pytest.raises(UndefinedError, match=why):
        sent(made)


def test_bits_that_are_not_set_stay_apart_from_those_that_are():
    half = Unknown(0x30, 0x0F, "x")
    assert half & 0xF0 == 0x30 and half >> 4 == 3
    assert (half | 0x0F) == 0x3F and isinstance(half ^ 1, Unknown)
    assert (half == 0x43) is False and (half != 0x43) is True
    for decided in (lambda: bool(half == 0x31), lambda: bool(half != 0x31), lambda: range(half)):
        with pytest.raises(UndefinedError, match="x, which nothing has set"):
            decided()
    assert isinstance(largest(half, 1) & 0xFF, Unknown) and largest(1, 2) == 2
