"""What is free on links over time, against a second by second count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxina.errors import InvalidArgumentError
from jaxina.fabric import Calendar, Star
from jaxina.fabric.calendar import NANOSECONDS
from jaxina.fabric.network import Nic

A_SECOND = NANOSECONDS


def used(calendar: Calendar, links: int, until: int) -> list[list[int]]:
    return [[calendar.reserved(link, second * A_SECOND) for second in range(until)] for link in range(links)]


def test_a_transfer_takes_all_of_the_slowest_link_of_its_path():
    calendar = Calendar([10, 4])
    reservation = calendar.reserve((0, 1), 20, 2 * A_SECOND)
    assert reservation.pieces == ((2 * A_SECOND, 7 * A_SECOND, 4),)
    assert used(calendar, 2, 9) == [[0, 0, 4, 4, 4, 4, 4, 0, 0]] * 2


def test_a_transfer_fills_what_others_leave_free():
    """As in figure 4 of the paper: 30 bytes, over what is left of a link, which changes."""
    calendar = Calendar([10])
    for size, start in ((16, 0), (5, 2)):
        calendar.reserve((0,), size, start * A_SECOND)
    reservation = calendar.reserve((0,), 30, 0)
    assert [(b / A_SECOND, e / A_SECOND, r) for b, e, r in reservation.pieces] == [
        (1.6, 2.0, 10),
        (2.5, 5.1, 10),
    ]
    assert calendar.end((0,), 1, 0) == 5_200_000_000


def test_two_links_are_taken_at_the_same_times():
    calendar = Calendar([10, 10])
    calendar.reserve((0,), 20, 1 * A_SECOND)
    calendar.reserve((1,), 10, 4 * A_SECOND)
    reservation = calendar.reserve((0, 1), 30, 0)
    assert [(b // A_SECOND, e // A_SECOND) for b, e, _ in reservation.pieces] == [(0, 1), (3, 4), (5, 6)]


def test_the_end_is_rounded_up_to_a_nanosecond():
    calendar = Calendar([3])
    assert calendar.end((0,), 1, 0) == 333_333_334
    assert calendar.reserve((0,), 1, 0).end == 333_333_334
    assert calendar.first_free(0, 0) == 333_333_334


def test_within_a_host_a_transfer_takes_no_time():
    assert Calendar([]).reserve((), 100, 7).end == 7


def test_without_a_rate_there_is_no_end():
    calendar = Calendar([10, 0])
    assert calendar.end((0, 1), 1, 0) is None
    assert calendar.reserve((0, 1), 1, 0) is None
    assert calendar.first_free(1, 0) is None
    assert used(calendar, 2, 2) == [[0, 0], [0, 0]]


def test_a_later_end_than_wanted_reserves_nothing():
    calendar = Calendar([10])
    assert calendar.reserve((0,), 20, 0, latest=2 * A_SECOND - 1) is None
    assert calendar.end((0,), 20, 0, latest=2 * A_SECOND - 1) is None
    assert calendar.end((0,), 20, 0, latest=2 * A_SECOND) == 2 * A_SECOND
    calendar.reserve((0,), 100, A_SECOND)
    assert calendar.end((0,), 20, 0, latest=10 * A_SECOND) is None, "it waits behind the other"


def test_a_slower_link_keeps_what_is_reserved():
    calendar = Calendar([10])
    calendar.reserve((0,), 20, 0)
    calendar.set_rate(0, 5)
    assert calendar.end((0,), 5, 0) == 3 * A_SECOND
    assert calendar.rate(0) == 5


def test_a_fork_leaves_the_calendar_alone():
    calendar = Calendar([10])
    fork = calendar.fork()
    fork.reserve((0,), 20, 0)
    fork.set_rate(0, 1)
    assert calendar.end((0,), 10, 0) == A_SECOND


transfers = st.lists(
    st.tuples(
        st.sampled_from([(0,), (1,), (0, 1), (1, 2), (0, 2), ()]),
        st.integers(1, 40),
        st.integers(0, 12 * A_SECOND),
    ),
    max_size=12,
)


@given(transfers, st.lists(st.integers(1, 7), min_size=3, max_size=3), st.data())
def test_reservations_fit_the_links_and_can_be_taken_back(wanted, rates, data):
    calendar = Calendar(rates)
    made = []
    for path, size, start in wanted:
        end = calendar.end(path, size, start)
        reservation = calendar.reserve(path, size, start)
        assert reservation.end == end
        moved = sum((e - b) * r for b, e, r in reservation.pieces)
        assert not path or 0 <= moved - size * A_SECOND < max(rates)
        made.append(reservation)
    times = sorted({t for r in made for b, e, _ in r.pieces for t in (b, e)})
    for link, rate in enumerate(rates):
        for time in times:
            share = sum(p[2] for r in made if link in r.path for p in r.pieces if p[0] <= time < p[1])
            assert share == calendar.reserved(link, time) <= rate
    since = data.draw(st.sampled_from([0, *times]))
    calendar.forget_before(since)
    for reservation in data.draw(st.permutations(made)):
        calendar.release(reservation, since)
    assert all(calendar.reserved(link, t) == 0 for link in range(3) for t in times if t >= since)
    assert all(calendar.first_free(link, since) == since for link in range(3))


def test_unknown_hosts_and_negative_rates_are_refused():
    network = Star({"a": Nic(1, 2), "b": Nic(3, 4)})
    assert network.path("a", "b") == (0, 3) and network.rates == [1, 2, 3, 4]
    assert network.path("a", "a") == ()
    for source, destination in (("a", "c"), ("c", "a"), ("c", "c")):
        with pytest.raises(InvalidArgumentError, match="no host 'c': it has a, b"):
            network.path(source, destination)
    with pytest.raises(InvalidArgumentError, match="host b: a rate of -1"):
        Star({"b": Nic(-1, 4)})
    with pytest.raises(InvalidArgumentError, match="rate of -2"):
        Calendar([1]).set_rate(0, -2)
