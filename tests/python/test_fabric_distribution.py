"""How workers get the model."""

from __future__ import annotations

import pytest

from jaxina.errors import InvalidArgumentError
from jaxina.fabric import Calendar, Star
from jaxina.fabric.calendar import NANOSECONDS
from jaxina.fabric.distribution import distribute
from jaxina.fabric.network import Nic


def star(workers: int) -> Star:
    return Star({f"w{i}": Nic(10, 10) for i in range(workers)} | {"server": Nic(10, 10)})


def distributed(network, workers, distributors, calendar=None):
    return distribute(network, calendar or Calendar(network.rates), "server", workers, distributors, 10, 0)


def test_directly_the_server_sends_one_after_the_other():
    given = distributed(star(3), ["w0", "w1", "w2"], [])
    assert sorted(r.end // NANOSECONDS for r in given.values()) == [1, 2, 3]


def test_a_distributor_passes_the_model_on():
    network = star(6)
    given = distributed(network, [f"w{i}" for i in range(5)], ["w5"])
    assert max(r.end for r in given.values()) < 5 * NANOSECONDS
    assert set(given) == {f"w{i}" for i in range(6)}
    passed_on = [w for w, r in given.items() if r.path[0] == network.outgoing("w5")]
    assert passed_on and all(given[w].start >= given["w5"].end for w in passed_on)
    assert all(r.path[0] in (network.outgoing("server"), network.outgoing("w5")) for r in given.values())


def test_a_distributor_that_wants_the_model_itself_gets_it_once():
    network = star(4)
    calendar = Calendar(network.rates)
    given = distributed(network, ["w0", "w1", "w2", "w3"], ["w3"], calendar)
    assert sorted(given) == ["w0", "w1", "w2", "w3"]
    sent = [r for r in given.values() if r.path[0] == network.outgoing("server")]
    assert calendar.first_free(network.outgoing("server"), 0) == len(sent) * NANOSECONDS


def test_nobody_wants_it():
    assert distributed(star(2), [], ["w0"]) == {}


def test_bad_requests_are_refused():
    network = Star({"w0": Nic(10, 0), "w1": Nic(10, 10), "server": Nic(10, 10)})
    with pytest.raises(InvalidArgumentError, match="w0 cannot get the model"):
        distributed(network, ["w0", "w1"], [])
    with pytest.raises(InvalidArgumentError, match="asks twice"):
        distributed(star(2), ["w0", "w0"], [])
