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


def test_an_assembly_without_a_parser():
    assert check_parser.faults("deparser ingress:\n") == ["there is no parser in the assembly"]
