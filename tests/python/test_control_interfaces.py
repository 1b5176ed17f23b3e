"""Which of a host's addresses a process uses, and what is said if there is none."""

import socket

import pytest

from jaxina import config
from jaxina.control import interfaces
from jaxina.control.interfaces import InterfaceAddress, listening_address, named, own_host_towards, resolve_bind
from jaxina.errors import InvalidArgumentError, SystemCallError

HERE = [
    InterfaceAddress("lo", "127.0.0.1", 8, 65536, True, True),
    InterfaceAddress("docker0", "172.17.0.1", 16, 1500, False, False),
    InterfaceAddress("eth1", "10.1.0.7", 24, 9000, True, False),
    InterfaceAddress("eth1", "fd00:1::7", 64, 9000, True, False),
    InterfaceAddress("eth2", "10.2.0.7", 24, 1500, True, False),
]


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setattr(interfaces, "addresses", lambda: HERE)


@pytest.mark.parametrize(
    "wanted, family, found",
    [
        ("eth1", None, "10.1.0.7"),
        ("eth1", socket.AF_INET6, "fd00:1::7"),
        ("10.2.0.0/24", None, "10.2.0.7"),
        ("10.2.0.9/24", None, "10.2.0.7"),
        ("fd00:1::/32", None, "fd00:1::7"),
        ("eth9,eth2,eth1", None, "10.2.0.7"),
    ],
)
def test_an_interface_is_found_by_name_or_subnet(wanted, family, found):
    assert named(wanted, family) == found


@pytest.mark.parametrize(
    "wanted, family, said",
    [
        ("eth9", None, "JAXINA_INTERFACE=eth9: this host has no interface of that name or subnet that is up."),
        ("192.168.0.0/16", None, "eth2 (10.2.0.7/24)"),
        ("docker0", None, "docker0 (172.17.0.1/16, down)"),
        ("eth2", socket.AF_INET6, "that is up and an IPv6 address"),
    ],
)
def test_who_asks_for_what_is_not_there_is_told_what_there_is(wanted, family, said):
    with pytest.raises(InvalidArgumentError) as caught:
        named(wanted, family)
    assert said in caught.value.message


@pytest.mark.parametrize(
    "bind, resolved",
    [
        ("eth1:51000", "10.1.0.7:51000"),
        ("10.2.0.0/24:0", "10.2.0.7:0"),
        ("[fd00:1::/64]:7", "[fd00:1::7]:7"),
        ("host:51000", "host:51000"),
        ("[::1]:51000", "[::1]:51000"),
    ],
)
def test_an_address_to_listen_at_may_name_an_interface(bind, resolved):
    assert resolve_bind(bind) == resolved


@pytest.mark.parametrize("bind", ["10.9.0.0/24:51000", "10.2.0.0/99:51000", "eth1"])
def test_an_address_to_listen_at_must_be_one(bind):
    with pytest.raises(InvalidArgumentError, match=f"--bind {bind}"):
        resolve_bind(bind)


def test_a_name_that_is_loopback_is_refused_where_others_must_reach_it(monkeypatch):
    def lookup(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.1.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with pytest.raises(InvalidArgumentError) as caught:
        listening_address("node0:50000", None)
    assert "node0 is 127.0.1.1" in caught.value.message and "JAXINA_INTERFACE" in caught.value.message
    assert listening_address("node0:50000", "eth2") == "10.2.0.7:50000"
    assert listening_address("127.0.0.1:50000", None) == "127.0.0.1:50000"  # nodes that are on one host


def test_towards_the_coordinator_the_setting_goes_before_the_route():
    assert own_host_towards("10.2.0.1:50000", "eth1") == "10.1.0.7"
    assert own_host_towards("127.0.0.1:50000", None) == "127.0.0.1"
    assert own_host_towards(None, "eth1") == "127.0.0.1"
    with pytest.raises(SystemCallError, match="no route"):
        own_host_towards("no-such-host.invalid:50000", None)


def test_messages_name_the_interface():
    assert interfaces.described("10.2.0.7:51000") == "10.2.0.7:51000 of eth2"
    assert interfaces.described("10.3.0.7:51000") == "10.3.0.7:51000"


def test_the_first_free_port_of_a_range_is_taken():
    def make(port):
        if port < 50102:
            raise InvalidArgumentError(f"port {port} is taken")
        return port

    ports = config.resolve({"JAXINA_PORTS": "50100-50103"}).ports
    assert interfaces.at_free_port(ports, "10.2.0.7", make) == 50102
    with pytest.raises(InvalidArgumentError, match=r"JAXINA_PORTS=50100-50101: no port of 10\.2\.0\.7"):
        interfaces.at_free_port(ports[:2], "10.2.0.7", make)


@pytest.mark.parametrize("text", ["0-5", "7-5", "a", "1-70000"])
def test_a_range_of_ports_is_checked(text):
    with pytest.raises(InvalidArgumentError, match="FIRST-LAST"):
        config.resolve({"JAXINA_PORTS": text})


@pytest.mark.parametrize("text", [",", "eth 1", "10.0.0.0/33", "a-name-that-is-too-long"])
def test_an_interface_is_checked(text):
    with pytest.raises(InvalidArgumentError, match="network interface or a subnet"):
        config.resolve({"JAXINA_INTERFACE": text})


def test_this_hosts_own_interfaces_are_told():
    from jaxina import _native

    (loopback,) = (one for one in _native.interface_addresses() if one[1] == "127.0.0.1")
    assert loopback[2:] == (8, loopback[3], True, True)
    assert loopback[3] >= 1500
