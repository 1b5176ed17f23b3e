"""`jaxina bench`: sizes, inputs whose sum is known, and short runs over embedded and udp."""

import json
import subprocess
import sys

import numpy as np
import pytest
from patience import PATIENCE

from jaxina import numerics
from jaxina.bench import report
from jaxina.bench.dtypes import DTYPES, TURNS, most_ranks
from jaxina.bench.exact_input import INPUT_PERIOD, exact_sum, first_difference, rank_input
from jaxina.bench.sizes import parse_size, size_text, sweep
from jaxina.bench.stolen_time import StolenTime
from jaxina.errors import InvalidArgumentError


@pytest.mark.parametrize(
    "text,size",
    [("4K", 4096), ("100M", 100 << 20), ("1g", 1 << 30), ("12", 12), ("1.5K", 1536), ("4KB", 4096)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "K", "4T", "-4K", "0", "3", "nan", "inf", "0.3K", "four"])
def test_bad_sizes(text):
    with pytest.raises(InvalidArgumentError, match="is not a size"):
        parse_size(text)


def test_a_sweep_ends_at_its_end_with_whole_elements():
    assert sweep(4096, 4096, 2) == [4096]
    assert sweep(4096, 65536, 4) == [4096, 16384, 65536]
    sizes = sweep(parse_size("4K"), parse_size("100M"), 5)
    assert sizes[:2] == [4096, 20480] and sizes[-1] == 100 << 20
    assert all(size % 4 == 0 for size in sizes) and sizes == sorted(set(sizes))
    for begin, end, factor in ((2, 1, 2), (1, 2, 1), (1, 2, 0.5), (1, 2, float("nan"))):
        with pytest.raises(InvalidArgumentError):
            sweep(begin, end, factor)


def test_size_texts():
    assert [size_text(s) for s in (4, 4096, 20480, 100 << 20)] == ["4 B", "4 KB", "20 KB", "100 MB"]


@pytest.mark.parametrize("ranks", [2, 3, 1024])
def test_the_expected_sum_is_the_exact_sum(ranks):
    for turn in range(TURNS):
        inputs = [rank_input(9000, rank, turn) for rank in range(ranks)]
        exact = np.sum(np.stack(inputs).astype(np.int64), axis=0)
        np.testing.assert_array_equal(exact_sum(9000, ranks, turn), exact)
        assert all(np.array_equal(x, np.rint(x)) for x in inputs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_types_values_are_exact_up_to_the_most_ranks(dtype):
    ranks = min(1024, most_ranks(dtype))
    assert ranks >= 2 and np.dtype(dtype) == rank_input(10, 0, 0, dtype).dtype == exact_sum(10, 2, 0, dtype).dtype
    inputs = [rank_input(300, rank, 1, dtype) for rank in range(ranks)]
    exact = np.sum(np.stack(inputs).astype(np.int64), axis=0)
    np.testing.assert_array_equal(exact_sum(300, ranks, 1, dtype).astype(np.int64), exact)
    assert np.array_equal(np.full(1, ranks * (63 + TURNS), dtype).astype(np.int64), [ranks * (63 + TURNS)])


def test_wrong_sums_are_found():
    expected = exact_sum(100_000, 2, 0)
    assert first_difference(expected.copy(), expected) is None
    wrong = expected.copy()
    wrong[77_777] += 1
    assert first_difference(wrong, expected) == 77_777
    assert first_difference(exact_sum(100_000, 2, 1), expected) == 0, "the run before"
    assert first_difference(2 * rank_input(100_000, 0, 0), expected) is not None, "one rank twice"
    for shift in (1, 127, 256, 4096, 65536):
        assert first_difference(np.roll(expected, shift), expected) is not None, "a chunk misplaced"
    wrong[77_777] = np.nan
    assert first_difference(wrong, expected) == 77_777


def test_a_wrong_element_is_named():
    from jaxina.bench.ways import ways_of
    from jaxina.bench.worker import Bench, WrongResultError

    class Result:
        def addressable_data(self, _):
            return np.zeros((1, 50), np.float32)

    bench = Bench.__new__(Bench)
    bench._elements, bench._rank, bench._ranks = 50, 1, 2
    index = int(np.flatnonzero(exact_sum(50, 2, 0))[0])
    gloo, narrow = ways_of("float32", [8], "nearest", True, 256)[1::-1]
    with pytest.raises(WrongResultError, match=f"gloo, 50 x float32, call 2, rank 1: element {index} is"):
        bench._check(gloo, 2, Result())
    with pytest.raises(WrongResultError, match="jaxina, 8 bits, 50 x float32, call 2, rank 1: element"):
        bench._check(narrow, 2, Result())


@pytest.mark.parametrize("block", [64, 48])
def test_narrow_sums_are_those_of_the_job_s_blocks(block):
    """Beyond the inputs' period, too, which is no multiple of each block size."""
    from jaxina.bench.ways import ways_of

    elements = INPUT_PERIOD + 1000
    right = numerics.all_reduce_reference([rank_input(elements, rank, 1) for rank in range(2)], block, bits=8)
    (narrow,) = ways_of("float32", [8], "nearest", False, block)
    (random,) = ways_of("float32", [8], "stochastic", False, block)
    assert narrow.first_wrong(right, 2, 1) is None
    assert random.first_wrong(right, 2, 1) is None
    right[elements - 1] += 8
    assert narrow.first_wrong(right, 2, 1)[0] == random.first_wrong(right, 2, 1)[0] == elements - 1


def test_figures_of_a_size():
    line = {"bytes": 1000, "engine": {}, "stolen": 0.0, "times_ms": {"jaxina": [3.0, 1.0, 2.0], "gloo": [4.0] * 3}}
    record = report.summarize(line)
    jaxina = record["results"]["jaxina"]
    assert (jaxina["median_ms"], jaxina["p10_ms"], jaxina["p90_ms"], jaxina["calls"]) == (
        2,
        1,
        3,
        3,
    )
    assert jaxina["algbw_GBps"] == 1000 / 2e-3 / 1e9
    table = report.table([record], "title")
    assert list(table.columns[-1].cells) == ["2.00"], "jaxina takes half of gloo's time"


def test_time_that_the_host_gave_to_others_is_told(tmp_path):
    stat = tmp_path / "stat"

    def at(user, nice, system, idle, io_wait, interrupts, soft_interrupts, stolen):
        ticks = (user, nice, system, idle, io_wait, interrupts, soft_interrupts, stolen, 0, 0)
        stat.write_text(f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 2 3 4 5 6 7 8 9 10\n")

    at(100, 10, 20, 5000, 7, 1, 2, 50)
    stolen = StolenTime(stat)
    assert stolen.share() == 0
    at(150, 20, 40, 9000, 8, 6, 7, 60)
    assert stolen.share() == 10 / 100, "idle time and waits for disks were not wanted"
    line = {"bytes": 1000, "engine": {}, "times_ms": {"jaxina": [3.0]}}
    records = [report.summarize({**line, "stolen": share}) for share in (0.0, stolen.share())]
    assert "gave 10% of the processor time" in report.table(records, "title").caption
    assert "gave" not in report.table(records[:1], "title").caption


def bench(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "jaxina.cli", "bench", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("aggregator,dtype", [("embedded", "int32"), ("udp", "float32")])
def test_a_short_run(tmp_path, aggregator, dtype):
    path = tmp_path / "out.json"
    code, out, err = bench(
        *("-n", 2, "-b", "4K", "-e", "256K", "-f", 8, "-i", 3, "-w", 1, "--vs", "gloo"),
        *("--aggregator", aggregator, "--dtype", dtype, "--json", path),
    )
    assert code == 0, err
    found = json.loads(path.read_text())
    assert found["workers"] == 2 and found["dtype"] == dtype and found["settings"]["aggregator"] == aggregator
    assert {"jax", "jaxlib", "python"} < set(found["versions"]) and found["machine"]["cores"]
    assert [r["bytes"] for r in found["records"]] == [4096, 32768, 262144]
    for record in found["records"]:
        for result in record["results"].values():
            assert result["calls"] == 3
            assert 0 < result["p10_ms"] <= result["median_ms"] <= result["p90_ms"]
        # The warm-up call and the timed calls went through the engine, and nothing else did.
        assert record["engine"]["collectives"] == 4
        assert (record["engine"]["bytes_sent"] > 0) == (aggregator != "embedded")
    assert "256 KB" in out and "gloo" in out


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["-n", 1], "-n"),
        (["-n", 2, "-b", "4X"], "is not a size"),
        (["-n", 2, "-b", "4K", "-e", "1K"], "above -e"),
        (["-n", 2, "-f", 1], "above 1"),
        (["-n", 2, "--vs", "nccl"], "--vs"),
        (["-n", 32, "--dtype", "float16"], "-n must be at most 31"),
    ],
)
def test_bad_arguments(arguments, message):
    code, _, err = bench(*arguments)
    assert code == 2 and message in err and "Traceback" not in err
