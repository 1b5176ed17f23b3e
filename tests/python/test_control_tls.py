"""Mutual TLS for control calls: who has a certificate of the authority is served, and all others get a typed error."""

import datetime
import os
import pathlib
import subprocess
import sys

import pytest
from certificates import HOUR, NOW, Authority
from control_fakes import FakeDataPlane
from patience import PATIENCE

from jaxina import config
from jaxina.control.client import SwitchClient
from jaxina.control.server import ControlServer
from jaxina.control.tls import Tls, tls_of
from jaxina.errors import AuthenticationError, InvalidArgumentError, JobRejectedError
from jaxina.fabric.service.client import Client
from jaxina.fabric.service.daemon import SchedulerDaemon
from jaxina.fabric.service.session import ask_status
from jaxina.fabric.service.settings import JobSettings

TOKEN = "a token that is right".replace(" ", "-")


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path, "authority")


def tls(settings):
    return tls_of(config.resolve(settings))


def asked(server, settings=None, token=None):
    with SwitchClient(server.address, 3, token, tls=settings and tls(settings)) as client:
        return client.status()


def test_who_has_a_certificate_is_served(authority):
    with ControlServer(FakeDataPlane(), "127.0.0.1:0", tls=tls(authority.issue("switch"))) as server:
        assert asked(server, authority.issue("worker")).uptime_s >= 0


def test_the_token_is_checked_besides(authority):
    with ControlServer(FakeDataPlane(), "127.0.0.1:0", TOKEN, tls=tls(authority.issue("switch"))) as server:
        assert asked(server, authority.issue(), TOKEN).uptime_s >= 0
        with pytest.raises(JobRejectedError, match="needs a token"):
            asked(server, authority.issue(), TOKEN + "x")


def test_a_certificate_of_another_authority_is_refused(authority, tmp_path):
    other = Authority(tmp_path, "other")
    with (
        ControlServer(FakeDataPlane(), "127.0.0.1:0", tls=tls(authority.issue("switch"))) as server,
        pytest.raises(
            AuthenticationError, match=r"certificate .* is not accepted: .*self-signed|unable to get local issuer"
        ),
    ):
        asked(server, other.issue())


def test_a_switch_without_tls_is_refused_by_who_uses_it(authority):
    with (
        ControlServer(FakeDataPlane(), "127.0.0.1:0") as server,
        pytest.raises(AuthenticationError, match="does not use TLS"),
    ):
        asked(server, authority.issue())


def test_who_does_not_use_tls_gets_an_error_that_names_the_switch(authority):
    with (
        ControlServer(FakeDataPlane(), "127.0.0.1:0", tls=tls(authority.issue("switch"))) as server,
        pytest.raises(AuthenticationError, match=f"{server.address} serves only callers that use TLS"),
    ):
        asked(server)


@pytest.mark.parametrize(
    "validity, said",
    [
        ({"ends": NOW - datetime.timedelta(minutes=1)}, "worker.pem has expired at .* issue a new one"),
        # The authority's clock is an hour ahead of this one.
        ({"begins": NOW + HOUR, "ends": NOW + 2 * HOUR}, "is not valid before .* set the clock"),
        ({"dns": "somebody"}, r"does not carry the DNS name jaxina, but \['somebody'\]"),
    ],
)
def test_a_bad_certificate_is_refused_where_it_is(authority, validity, said):
    with pytest.raises(AuthenticationError, match=said):
        tls(authority.issue(**validity))


def test_an_expired_certificate_of_the_switch_is_an_error_at_the_worker(authority):
    expired = authority.issue("switch", ends=NOW - datetime.timedelta(minutes=1))
    files = [pathlib.Path(expired[f"JAXINA_TLS_{name}"]) for name in ("AUTHORITY", "CERTIFICATE", "KEY")]
    with (
        ControlServer(FakeDataPlane(), "127.0.0.1:0", tls=Tls(*files)) as server,
        pytest.raises(AuthenticationError, match="expired"),
    ):
        asked(server, authority.issue())


def test_files_that_do_not_fit_are_refused(authority, tmp_path):
    one, other = authority.issue("one"), authority.issue("other")
    foreign = Authority(tmp_path, "foreign")
    with pytest.raises(AuthenticationError, match="is not the key of"):
        tls({**one, "JAXINA_TLS_KEY": other["JAXINA_TLS_KEY"]})
    with pytest.raises(AuthenticationError, match="was not issued by"):
        tls({**one, "JAXINA_TLS_AUTHORITY": foreign.file})
    with pytest.raises(InvalidArgumentError, match="JAXINA_TLS_KEY must be set too"):
        tls({name: file for name, file in one.items() if name != "JAXINA_TLS_KEY"})
    with pytest.raises(InvalidArgumentError, match="No such file"):
        tls({**one, "JAXINA_TLS_KEY": str(tmp_path / "none")})
    with pytest.raises(InvalidArgumentError, match="not in PEM"):
        tls({**one, "JAXINA_TLS_KEY": one["JAXINA_TLS_CERTIFICATE"]})


def test_without_files_there_is_no_tls():
    assert tls({}) is None


def test_without_the_package_the_message_says_what_to_install(authority, monkeypatch):
    issued = authority.issue()  # with the package
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(InvalidArgumentError, match=r"pip install 'jaxina\[tls\]'"):
        tls(issued)


def test_the_scheduler_of_fabric_serves_hosts_with_a_certificate(authority):
    with SchedulerDaemon(JobSettings(workers=1), "127.0.0.1:0", TOKEN, tls(authority.issue("scheduler"))) as daemon:
        own = tls(authority.issue("worker"))
        Client(daemon.address, 0, token=TOKEN, tls=own).close()
        assert ask_status(daemon.address, 60, TOKEN, own).uptime_s >= 0
        with pytest.raises(AuthenticationError, match=f"{daemon.address} serves only callers that use TLS"):
            Client(daemon.address, 0, token=TOKEN, timeout=2)
        with pytest.raises(AuthenticationError, match=f"{daemon.address} serves only callers that use TLS"):
            ask_status(daemon.address, 2, TOKEN, None)


PROGRAM = """
import jax, jaxina
with jaxina.init(join_timeout=50, timeout=50):
    print(jax.pmap(lambda x: jax.lax.psum(x, "w"), "w")(jax.numpy.ones((1, 4))))
"""


def test_workers_sum_with_a_switch_and_among_themselves(authority, tmp_path):
    script = tmp_path / "sum.py"
    script.write_text(PROGRAM)
    for aggregator in ("udp", "direct"):
        ran = subprocess.run(
            [sys.executable, "-m", "jaxina.cli", "run", "-n", "2", "--aggregator", aggregator, script],
            env={**os.environ, **authority.issue()},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert ran.returncode == 0 and "[[2. 2. 2. 2.]]" in ran.stdout, ran.stderr
