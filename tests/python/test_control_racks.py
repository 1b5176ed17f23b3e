"""The plan of which switch combines what, and its errors."""

import dataclasses
import json

import pytest

from jaxina.control import racks
from jaxina.control.roles import Child, Combine
from jaxina.control.servers import Switch
from jaxina.errors import InvalidArgumentError

CORE = Switch("core:1", "10.0.0.1", (100, 101), "")
OTHER_CORE = Switch("core2:1", "10.0.0.2", (200,), "")
LEFT = Switch("left:1", "10.0.1.1", (110,), "core:1")
RIGHT = Switch("right:1", "10.0.2.1", (120, 121, 122), "core:1")
FOUND = {"core:1": CORE, "core2:1": OTHER_CORE}


def each(*workers):
    return tuple(Child((worker,)) for worker in workers)


def addresses(host, *ports):
    return [(host, port) for port in ports]


def planned(*named):
    """The plan for workers that each name some switches. What the others get of it is JSON in between."""
    layout, roles = racks.plan(named, FOUND)
    restored = racks.Layout.restored(json.loads(json.dumps(dataclasses.asdict(layout))))
    assert restored == layout
    return restored, roles


def test_without_switches_there_is_nothing_to_do():
    layout, roles = planned((), ())
    assert not roles and (layout.groups, layout.tops, layout.senders_per_link) == ([], [], 1)
    assert layout.way(0) == layout.way(1) == []


def test_one_switch_combines_all_workers_whatever_is_above_it():
    layout, roles = planned((LEFT,), (LEFT,), (LEFT,))
    assert roles == {"left:1": Combine(0, each(0, 1, 2), ())}
    assert layout.groups == [[0, 1, 2]]
    assert layout.tops == layout.way(2) == addresses("10.0.1.1", 110)
    assert layout.senders_per_link == 3


def test_racks_send_their_sums_to_the_core():
    layout, roles = planned((LEFT,), (RIGHT,), (LEFT,), (RIGHT,), (RIGHT,))
    # Three turns, since the right switch has three threads. In each, both racks send to the same thread of the core.
    upstream = tuple(addresses("10.0.0.1", 100, 101, 100))
    assert roles == {
        "left:1": Combine(0, each(0, 2), upstream),
        "right:1": Combine(1, each(1, 3, 4), upstream),
        "core:1": Combine(2, (Child((0, 2), 0), Child((1, 3, 4), 1)), (), ways=3),
    }
    assert layout.groups == [[0, 2], [1, 3, 4], [0, 1, 2, 3, 4]]
    assert layout.tops == addresses("10.0.0.1", 100, 101, 100)
    assert layout.way(2) == addresses("10.0.1.1", 110, 110, 110)
    assert layout.way(3) == addresses("10.0.2.1", 120, 121, 122)
    assert layout.senders_per_link == 3, "those of the largest rack"


def test_a_rack_with_one_worker_is_that_worker():
    _, roles = planned((LEFT,), (LEFT,), (RIGHT,))
    assert roles["core:1"].children == (Child((0, 1), 0), Child((2,)))


def test_each_path_has_its_racks_and_its_core():
    left, right = (dataclasses.replace(one, upstream="core2:1", ports=(one.ports[0] + 30,)) for one in (LEFT, RIGHT))
    left, right = dataclasses.replace(left, control="left2:1"), dataclasses.replace(right, control="right2:1")
    layout, roles = planned((LEFT, left), (LEFT, left), (RIGHT, left), (RIGHT, right))
    assert roles["core:1"].children == (Child((0, 1), 0), Child((2, 3), 1))
    assert roles["core2:1"] == Combine(2, (Child((0, 1, 2), 3), Child((3,))), (), ways=6)
    assert [roles[name].group for name in ("left:1", "right:1", "left2:1", "right2:1")] == [0, 1, 3, 4]
    assert layout.way(2) == [(h, p) for r in (120, 121, 122) for h, p in (("10.0.2.1", r), ("10.0.1.1", 140))]
    assert roles["left2:1"].upstream == tuple(addresses("10.0.0.2", *[200] * 6))
    assert layout.tops == [(h, p) for c in (100, 101, 100) for h, p in (("10.0.0.1", c), ("10.0.0.2", 200))]
    assert layout.senders_per_link == 2


def test_paths_may_share_a_core_and_its_groups():
    second = [dataclasses.replace(one, control=one.control + "2", ports=(9,)) for one in (LEFT, RIGHT)]
    layout, roles = planned((LEFT, second[0]), (LEFT, second[0]), (RIGHT, second[1]))
    assert roles["core:1"].children == (Child((0, 1), 0), Child((2,)))
    assert roles["left:1"].group == roles["left:12"].group == 0
    assert layout.groups == [[0, 1], [2], [0, 1, 2]]


def test_a_switch_with_two_names_or_seen_from_two_hosts_is_one_switch():
    alias = dataclasses.replace(LEFT, control="10.0.1.1:1")
    elsewhere = dataclasses.replace(LEFT, host="192.168.1.1")
    named = racks.one_view([(LEFT,), (alias,), (elsewhere,)])
    layout, roles = racks.plan(named, {})
    assert roles == {"left:1": Combine(0, each(0, 1, 2), ())}
    assert layout.way(2) == addresses("10.0.1.1", 110)


@pytest.mark.parametrize(
    "upstream, told",
    [
        ("", "right:1 (of worker 1, 2) has none"),
        ("core2:1", "right:1 (of worker 1, 2) has core2:1"),
    ],
)
def test_switches_of_racks_need_the_same_upstream(upstream, told):
    right = dataclasses.replace(RIGHT, upstream=upstream)
    with pytest.raises(InvalidArgumentError) as caught:
        racks.cores([(CORE, LEFT), (CORE, right), (CORE, right)])
    assert "2 switches as number 2 of JAXINA_SWITCH" in caught.value.message
    assert "left:1 (of worker 0) has core:1" in caught.value.message and told in caught.value.message
    assert "--upstream HOST:PORT" in caught.value.message


def test_a_long_list_of_switches_is_cut():
    many = [(Switch(f"s{i}:1", f"10.0.3.{i}", (1,), ""),) for i in range(20)]
    with pytest.raises(InvalidArgumentError, match=r"s7:1.*; and 12 more") as caught:
        racks.cores(many)
    assert "s8:1" not in caught.value.message


@pytest.mark.parametrize(
    "named",
    [
        [(LEFT, RIGHT), (LEFT, RIGHT), (RIGHT, LEFT)],
        [(LEFT, LEFT), (RIGHT, LEFT), (RIGHT, LEFT)],
    ],
)
def test_a_switch_has_one_part_in_a_job(named):
    with pytest.raises(InvalidArgumentError, match=r"would have two parts in one job: for worker \d") as caught:
        racks.plan(named, FOUND)
    assert "same place of JAXINA_SWITCH" in caught.value.message


def test_the_core_cannot_be_a_racks_switch():
    itself = dataclasses.replace(LEFT, upstream="left:1")
    with pytest.raises(InvalidArgumentError, match="do not name the core switch"):
        racks.plan([(itself,), (dataclasses.replace(RIGHT, upstream="left:1"),)], {"left:1": itself})


def test_a_job_has_so_many_racks():
    many = [(Switch(f"s{i}:1", "10.0.3.1", (i,), "core:1"),) for i in range(254)]
    assert len(racks.plan(many, FOUND)[0].groups) == 255
    more = [*many, (Switch("s254:1", "10.0.3.1", (254,), "core:1"),)]
    with pytest.raises(InvalidArgumentError, match="256 groups of workers, but a job has at most 255"):
        racks.plan(more, FOUND)
