"""What Prometheus is told: the metrics of workers and switches, the endpoint, and the board that shows them."""

import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.request

import pytest
from certificates import Authority
from control_fakes import FakeDataPlane
from prometheus_client.parser import text_string_to_metric_families

import jaxina
from jaxina import config
from jaxina.control.client import SwitchClient
from jaxina.control.server import ControlServer
from jaxina.control.tls import tls_of
from jaxina.errors import InvalidArgumentError, ShutDownError
from jaxina.metrics.endpoint import Endpoint
from jaxina.metrics.families import SwitchCollector, WorkerCollector

BOARD = pathlib.Path(__file__).parents[2] / "deploy/grafana/jaxina.json"
GRAFANAS_INTERVAL = "$__rate_interval"


def scraped(address, tls=None):
    with urllib.request.urlopen(f"http{'s' if tls else ''}://{address}/metrics", timeout=60, context=tls) as reply:
        return reply.read().decode()


def values(text):
    """The value of each sample, by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def worker():
    collector = WorkerCollector(
        3, 4, "udp", lambda: {"bytes_sent": 12, "retransmissions": 1, "unheard_of": 2}, lambda: 1.5
    )
    endpoint = Endpoint("127.0.0.1:0", 3, lambda: collector, None)
    yield scraped(endpoint.address)
    endpoint.stop()


@pytest.fixture
def switch():
    with ControlServer(FakeDataPlane(), "127.0.0.1:0") as server, SwitchClient(server.address, 60) as client:
        client.create_job(
            devices=2, workers=2, slots=4, block_size=256, blocks_per_chunk=1, join_timeout=60, heartbeat_timeout=60
        )
        endpoint = Endpoint("127.0.0.1:0", 0, lambda: SwitchCollector(server.status), None)
        yield scraped(endpoint.address)
        endpoint.stop()


def test_a_worker_tells_its_counters(worker):
    told = values(worker)
    assert told["jaxina_worker_bytes_sent_total", ("rank", "3")] == 12
    assert told["jaxina_worker_waiting_seconds", ("rank", "3")] == 1.5
    assert told["jaxina_worker_info", ("aggregator", "udp"), ("processes", "4"), ("rank", "3")] == 1
    assert "engine's counter unheard_of" in worker


def test_with_tls_only_callers_with_a_certificate_are_served(tmp_path):
    authority = Authority(tmp_path, "authority")
    own = tls_of(config.resolve(authority.issue()))
    caller = ssl.create_default_context(cafile=authority.file)
    caller.check_hostname = False  # certificates say who belongs to the cluster, not which host it is
    endpoint = Endpoint("127.0.0.1:0", 0, lambda: WorkerCollector(3, 4, "udp", dict, float), own)
    try:
        with socket.create_connection(config.split_address(endpoint.address)):  # says nothing, and stops nobody
            # The alert, or the end of the connection: what comes first.
            with pytest.raises(OSError, match=r"(?i)certificate.required|reset|EOF|broken pipe"):
                scraped(endpoint.address, caller)
            with pytest.raises(OSError, match=r"(?i)closed connection|reset|broken pipe"):
                scraped(endpoint.address)
            caller.load_cert_chain(own.certificate, own.key)
            assert values(scraped(endpoint.address, caller))
    finally:
        endpoint.stop()


def test_a_switch_tells_its_jobs(switch):
    told = values(switch)
    assert told["jaxina_switch_jobs",] == 1
    (job,) = {dict(labels)["job"] for name, *labels in told if name == "jaxina_switch_job_workers"}
    assert told["jaxina_switch_job_workers", ("job", job), ("state", "absent")] == 2
    assert told["jaxina_switch_job_awaited", ("job", job), ("rank", "1")] == 1


def test_a_switch_that_stops_says_so():
    server = ControlServer(FakeDataPlane(), "127.0.0.1:0")
    server.stop()
    with pytest.raises(ShutDownError):
        server.status()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Debian's package prometheus")
def test_promtool_accepts_the_metrics(worker, switch):
    for text in (worker, switch):
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_boards_queries_ask_for_metrics_that_there_are(switch):
    # A job's own counters, so that all names of a worker are there.
    with jaxina.init() as job:
        collector = WorkerCollector(0, 1, "embedded", job.statistics, lambda: 0.0)
        families = {sample.name for family in collector.collect() for sample in family.samples}
    families |= {name for name, *_ in values(switch)}
    # The counters that a real switch has besides those of the fake one.
    families |= {"jaxina_switch_socket_overflows_total", "jaxina_switch_job_updates_total"}
    families |= {"jaxina_switch_packets_refused_total", "jaxina_switch_job_packets_refused_total"}
    board = json.loads(BOARD.read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked = {name for query in queries for name in re.findall(r"\bjaxina_\w+", query)}
    assert len(queries) >= 14 and asked <= families, asked - families


def test_the_board_is_laid_out_without_overlaps():
    board = json.loads(BOARD.read_text())
    assert (
        board["uid"]
        and board["schemaVersion"]
        and len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    )
    taken = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells


def test_a_port_that_is_taken_is_an_error_that_names_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidArgumentError, match=rf"cannot be served at 127\.0\.0\.1:{port} of lo"):
            Endpoint(f"127.0.0.1:{port - 1}", 1, lambda: WorkerCollector(1, 2, "udp", dict, float), None)


def test_a_port_beyond_the_last_is_an_error_that_names_the_setting():
    with pytest.raises(InvalidArgumentError, match=r"JAXINA_METRICS=127\.0\.0\.1:65535: worker 1 would use port 65536"):
        Endpoint("127.0.0.1:65535", 1, lambda: WorkerCollector(1, 2, "udp", dict, float), None)


def test_without_the_package_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(InvalidArgumentError, match=r"pip install 'jaxina\[metrics\]'"):
        Endpoint("127.0.0.1:0", 0, lambda: None, None)


def test_a_job_serves_its_counters_until_it_ends():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXINA_METRICS", f"127.0.0.1:{port}")
        with jaxina.init():
            assert values(scraped(f"127.0.0.1:{port}"))["jaxina_worker_collectives_total", ("rank", "0")] == 0
    with pytest.raises(OSError, match="refused"):
        scraped(f"127.0.0.1:{port}")


def test_the_setting_is_an_address():
    with pytest.raises(InvalidArgumentError, match="HOST:PORT"):
        config.resolve({"JAXINA_METRICS": "9400"})
