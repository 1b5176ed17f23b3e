"""802.1Q tags in the Tofino programs, interpreted. All vectors run with tagged workers besides; here is the rest."""

from __future__ import annotations

import random

import busy_chip
import pytest
from conformance.devices import frames
from conformance.devices.interpreter import ADDRESS, HOSTS, PORTS, InterpretedDevice, description, text_of
from conformance.mutants import Mutant, finders
from interpreter.controller_tables import ChipTables
from interpreter.program import Program

from jaxina.controller import chip
from jaxina.controller.atp_plane import AtpPlane
from jaxina.controller.data_plane import TofinoPlane
from jaxina.controller.dry_run import DryRun
from jaxina.controller.vlan_tag import VlanTag
from jaxina.errors import InvalidArgumentError

TAG = 6 << 13 | 7
UNTAGGED, TAGGED = 0, 5  # ports


@pytest.fixture(scope="module", params=["one-pipe", "atp"])
def tables(request):
    made = ChipTables(Program(text_of(request.param)), 0)
    plane = (AtpPlane if request.param == "atp" else TofinoPlane)(made, description(request.param))
    yield made
    plane.stop()


def host(port):
    return next(host for host in HOSTS if host.port == port)


def frame(destination, kind=0x0800, payload=bytes(60), source=HOSTS[0].mac):
    return destination.to_bytes(6) + source.to_bytes(6) + kind.to_bytes(2) + payload


@pytest.mark.parametrize("kind", [0x0800, 0x0806, 0x86DD])
@pytest.mark.parametrize("tags", [[TAG], [TAG, TAG + 1]])
def test_other_traffic_keeps_its_tags(tables, kind, tags):
    for to in (UNTAGGED, TAGGED):
        sent = frame(host(to).mac, kind)
        for tag in tags:
            sent = frames.with_tag(sent, tag)
        assert tables.send(128, sent) == [(to, sent)]
    broadcast = frames.with_tag(frame(2**48 - 1, 0x0806), TAG)
    assert tables.send(0, broadcast) == [(port, broadcast) for port in PORTS if port != 0]


class TaggedLink(busy_chip.BusyLink):
    """A link whose workers send with tags that the test chooses."""

    def __init__(self, tables):
        super().__init__(tables)
        self.tags = {}  # by endpoint

    def frame(self, endpoint, to, payload):
        port, data = super().frame(endpoint, to, payload)
        tag, data = self.tags.get(endpoint), frames.without_tag(data)[1]
        return port, data if tag is None else frames.with_tag(data, tag)


@pytest.mark.parametrize("size", ["one-pipe", "four-pipes"])
@pytest.mark.parametrize("mtu", [0, busy_chip.RDMA_MTU])
def test_an_answer_has_the_tag_of_its_port_whatever_the_updates_was(size, mtu):
    """BusyLink refuses an answer without the tag of its port. The workers are at ports without and with a tag, in two
    pipes."""
    link = TaggedLink(ChipTables(Program(text_of(size)), 0))
    switch = busy_chip.Switch(size, mtu, link=link)
    try:
        for seed, tags in enumerate(([None] * 3, [TAG] * 3, [TAG, None, 0])):
            link.tags = {f"A{worker}": tag for worker, tag in enumerate(tags)}
            switch.next_job()
            busy_chip.traffic(switch, random.Random(seed), 0.05)
    finally:
        switch.plane.stop()


def test_an_update_with_two_tags_is_other_traffic(tables):
    before = dict(tables.chip.pipes[0].counters)
    update = frames.Frame(bytes(6), (HOSTS[0].ip, 40000), host(TAGGED).mac.to_bytes(6), (ADDRESS, 51001), bytes(100))
    sent = frames.with_tag(frames.with_tag(frames.to_bytes(update), TAG), TAG)
    assert tables.send(UNTAGGED, sent) == [(TAGGED, sent)]
    assert tables.chip.pipes[0].counters == before


CHIP = """
size = "one-pipe"
address = "198.18.0.1"
[[port]]
number = 4
{tag}
{more}
"""


@pytest.mark.parametrize(
    "lines, tag",
    [("", None), ("vlan = 100", 100), ("vlan = 100\npriority = 3", 3 << 13 | 100), ("vlan = 0\npriority = 7", 7 << 13)],
)
def test_the_switchs_file_names_tags(tmp_path, lines, tag):
    file = tmp_path / "chip.toml"
    file.write_text(CHIP.format(tag=lines, more=""))
    described = chip.read(file)
    assert [port.tag for port in described.ports] == [tag]
    written = DryRun()
    VlanTag(written).fill(described)
    entry = f"insert pipe.Egress.vlan_tag.ports egress_port=4 -> Egress.vlan_tag.tag(tci={tag})"
    assert [str(write) for write in written.writes] == ([] if tag is None else [entry])


@pytest.mark.parametrize("lines", ["vlan = 4095", "vlan = -1", "vlan = true", "priority = 3", "vlan = 1\npriority = 8"])
def test_a_tag_that_there_is_not_is_refused(tmp_path, lines):
    file = tmp_path / "chip.toml"
    file.write_text(CHIP.format(tag=lines, more=""))
    with pytest.raises(InvalidArgumentError, match="port 4 has vlan"):
        chip.read(file)


def test_a_loopback_port_has_no_tag(tmp_path):
    file = tmp_path / "chip.toml"
    file.write_text(CHIP.format(tag="", more="[[loopback]]\nnumber = 20\nvlan = 1"))
    with pytest.raises(InvalidArgumentError, match="loopback port 20 has a vlan"):
        chip.read(file)


@pytest.mark.parametrize(
    "file, old, new",
    [
        ("vlan_removal.p4", "hdr.vlan.setInvalid();", ""),
        ("vlan_removal.p4", "hdr.ethernet.ether_type = IPV4;", ""),
        ("vlan_removal.p4", " && md.kind != PLAIN", ""),
        ("vlan_tag.p4", "hdr.vlan.setValid();", ""),
        ("vlan_tag.p4", "hdr.ethernet.ether_type = VLAN;", ""),
        ("vlan_tag.p4", "if (hdr.ipv4.isValid())", "if (hdr.bth.isValid())"),
        ("fresh_packets.p4", "VLAN: parse_vlan;", ""),
    ],
)
def test_a_changed_line_is_found(tmp_path, file, old, new):
    program = Mutant("one-pipe", file, old, new).write(tmp_path / "p4")
    device = InterpretedDevice("one-pipe", text_of("one-pipe", program=program))
    try:
        sent = frames.with_tag(frame(host(TAGGED).mac), TAG)
        assert device._link.tables.send(UNTAGGED, sent) != [(TAGGED, sent)] or next(finders("one-pipe", device), None)
    finally:
        device.close()
