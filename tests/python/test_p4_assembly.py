"""The check of a compiled parser, on assembly as a sound compiler and as a faulty one write it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "p4" / "tofino" / "check_parser.py"
SPEC = importlib.util.spec_from_file_location("check_parser", FILE)
check_parser = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_parser)

SOUND = """\
version:
  target: Tofino
parser ingress:
  start: $entry_point
  hdr_len_adj: 16
  states:
    $entry_point:
      *:
        load: { half : 0..1 }
        next: start
    start:
      match: [ half ]
      # - bit[0..15] -> match reg
      0b*******001000100:
        0..1: H4
        next: passage
      value_set IngressParser.loopback_ports 64:
        handle: -1
        field_mapping:
          f1(0..8) : half(0..8)
        next: passage
      *:
        next: fresh
    fresh:
      match: [ half, byte0 ]
      0x0800**:
        12..13: H0
        next: end
      0x******:
        next: end
parser egress:
  start: $entry_point
  states:
    $entry_point:
      match: [ byte0 ]
      0x00:
        next: end
      *:
        next: end
deparser ingress:
  dictionary:
    hdr.ethernet: 0
"""


def test_a_sound_parser():
    assert check_parser.faults(SOUND) == []
    ((_, ingress), (gress, egress)) = check_parser.parsers(SOUND)
    assert ingress["start"] == ["0b*******001000100", "IngressParser.loopback_ports", "*"]
    assert ingress["fresh"] == ["0x0800**", "0x******"] and gress == "egress" and list(egress) == ["$entry_point"]


@pytest.mark.parametrize(
    "value,wrong",
    [("0x0800**", ["the ingress parser's state fresh"]), ("0x00", ["egress parser's state", "egress parser compares"])],
)
def test_a_select_whose_value_is_lost(value, wrong):
    found = check_parser.faults(SOUND.replace(f"{value}:", "*:"))
    assert len(found) == len(wrong) and all(text in fault for text, fault in zip(wrong, found, strict=True))


# A field of a byte in a container of two, and beside it what the chip is told.
BESIDE = """\
parser ingress:
  states:
    start:
      match: [ half ]
      0x0800:
        0..1: H0  # bit[7..15] -> H0 bit[8..0]: ingress::ig_intr_md.ingress_port
        4..5: H8  # bit[32..39] -> H8 bit[15..8]: ingress::md.now[15:8].8-15
        6: B10  # ingress::md.now[7:0].0-7
        7..10: W2
            # - bit[56..63] -> W2 bit[31..24]: ingress::hdr.passage.step
            # - bit[64..87] -> W2 bit[23..0]: ingress::hdr.passage.others
        next: end
      0x****:
        next: end
deparser ingress:
  dictionary:
    W2: B9(0)
  egress_unicast_port: H0(0..8)  # bit[8..0]: ingress::ig_intr_md_for_tm.ucast_egress_port
  bypss_egr: H8(7..7)  # bit[7]: ingress::ig_intr_md_for_tm.bypass_egress
  drop_ctl: B10(0..2)  # bit[2..0]: ingress::ig_intr_md_for_dprsr.drop_ctl
  egress_multicast_group_0:
    - W2  # ingress::ig_intr_md_for_tm.mcast_grp_a
"""


def test_a_part_of_a_packet_over_what_the_chip_is_told():
    assert check_parser.faults(BESIDE) == [
        "the ingress parser overwrites ig_intr_md_for_tm.bypass_egress in H8 with bytes of the packet"
    ]
    assert check_parser.faults(BESIDE.replace("bypss_egr: H8(7..7)", "bypss_egr: H8(8..8)")) == []
    assert check_parser.faults(BESIDE.replace("- W2  #", "- H8(0..3)  #"))[-1].startswith(
        "the ingress parser overwrites ig_intr_md_for_tm.mcast_grp_a in H8"
    )


def test_an_assembly_without_a_parser():
    assert check_parser.faults("deparser ingress:\n") == ["there is no parser in the assembly"]
