"""jaxina.init and jaxina.shutdown in launched processes that sum."""

import json
import re

import pytest
from control_fakes import eventually
from launched_jobs import TRANSPORTS


@pytest.mark.parametrize("aggregator", TRANSPORTS)
def test_processes_sum_and_leave_in_order(run_job, aggregator, tmp_path):
    code, out, err = run_job(
        "jaxina.init()\nadd = summer()\nfor _ in range(3): add()\nprint('done')",
        *("-n", 2, "--devices-per-process", 2, "--aggregator", aggregator),
        *("--stats", "--stats-json", tmp_path / "stats.json"),
    )
    assert code == 0, err
    assert sorted(out) == ["[0] done", "[1] done"]
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert [w["process"] for w in stats["workers"]] == [0, 1]
    assert stats["total"]["collectives"] == 3 * 4, "three sums of four members"
    assert (stats["total"]["bytes_sent"] > 0) == (aggregator != "embedded")
    assert "2 workers, 12 collectives" in err
    assert "WARNING" not in err


def test_a_process_finishes_what_it_has_dropped_before_it_leaves(run_job):
    """Process 1 does not keep the sum. It leaves the job long before process 0 begins that sum."""
    code, out, err = run_job(
        """
jaxina.init(timeout=20)
mesh = Mesh(np.array(jax.devices()), ("w",))
body = lambda x: jax.lax.psum(x @ x.T, "w")  # XLA runs smaller programs within their dispatch
step = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("w"), out_specs=P()))
x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("w")), np.ones((300, 300), np.float32))
step(x).block_until_ready()
if rank == 0:
    while not os.path.exists(f"{__file__}.dropped"):
        time.sleep(0.02)
    time.sleep(0.5)  # process 1 would have left by now
    assert (np.asarray(step(x).addressable_data(0)) == 600).all()
else:
    step(x)
    open(f"{__file__}.dropped", "w").close()
jaxina.shutdown()
print("done")
""",
        *("-n", 2),
    )
    assert (code, sorted(out)) == (0, ["[0] done", "[1] done"]), err


@pytest.mark.parametrize("aggregator", TRANSPORTS)
def test_init_again_after_shutdown_in_all_processes(run_job, aggregator):
    code, out, err = run_job(
        """
for turn in range(3):
    with jaxina.init() as job:
        add = summer()
        add()
        print(turn, job.statistics()["collectives"])
""",
        *("-n", 2, "--aggregator", aggregator),
    )
    assert code == 0, err
    assert sorted(out) == sorted(f"[{r}] {turn} 1" for r in range(2) for turn in range(3))


def test_one_stream_leaves_a_process_however_many_devices_it_has(run_job, tmp_path):
    first = {}
    for devices in (1, 3):
        stats = tmp_path / f"{devices}.json"
        code, _, err = run_job(
            "jaxina.init()\nadd = summer()\nfor _ in range(3): add(5000)",
            *("-n", 2, "--devices-per-process", devices, "--aggregator", "udp"),
            *("--stats-json", stats),
        )
        assert code == 0, err
        total = json.loads(stats.read_text())["total"]
        assert total["collectives"] == 3 * 2 * devices
        first[devices] = total["packets_sent"] - total["retransmissions"]
    assert first[1] == first[3] > 0


def test_init_after_the_first_use_of_devices_says_so(run_job):
    code, _, err = run_job("jax.devices()\njaxina.init(join_timeout=3)", "-n", 2)
    assert code == 1 and "call it before anything that asks for devices" in err
    assert "Aborted" not in err and "Check failure" not in err


def test_a_run_uses_the_switch_it_is_given_and_leaves_it_empty(run_job, job_switch):
    _, address, log = job_switch
    options = ("-n", 2, "--aggregator", "udp", "--switch", address)
    code, _, err = run_job("jaxina.init()\nsummer()()", *options)
    assert code == 0, err
    assert eventually(lambda: re.search(r"job \d+: ended", log.read_text()))
    assert "complete" in log.read_text() and "aborted" not in log.read_text()
