"""The tables and pictures of benchmarks/paper_figures, from made-up measurements. Real ones would need a testbed."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

FOLDER = Path(__file__).parents[2] / "benchmarks" / "paper_figures"
pytest.importorskip("matplotlib")


def results(**medians):
    engine = {
        "packets_sent": 110,
        "retransmissions": 10,
        "bytes_sent": 110 * 1086,
        "elements": 25_000,
        "collectives": 1,
    }
    return {"bytes": 100_000, "engine": engine, "results": {name: {"median_ms": ms} for name, ms in medians.items()}}


ROWS = {
    3: [{"workers": n, "jaxina": 29e6, "gloo": 29e6 / n, "limit": 30e6, "ring_limit": 20e6} for n in (2, 4, 8)],
    4: [
        {
            "model": name,
            "parameters": 10**6,
            "alone": 10.0,
            "jaxina": 12.0,
            "gloo": 18.0,
            "difference_after_a_step": 1e-7,
        }
        for name in ("vgg", "resnet")
    ],
    6: [
        {"loss": loss, "ms": {"jaxina": 10.0, "gloo": 20.0}, "inflation": {"jaxina": 1.0, "gloo": 1 + 100 * loss}}
        for loss in (1e-9, 1e-4, 1e-3, 1e-2)
    ],
    7: [
        {"loss": loss, "ms": 21.0, "ideal": 1000, "sent": [900, 800, 5], "sent again": [0, 3, 1]}
        for loss in (1e-9, 1e-4, 1e-2)
    ],
    9: [{"slots": slots, "ms": 100.0 / slots + 5, "rtt_ms": slots / 10, **results()} for slots in (4, 64, 1024)],
    12: [
        {"type": dtype, "place": place, **results(jaxina=ms)}
        for place in ("udp", "embedded")
        for dtype, ms in (("int32", 10.0), ("float32", 12.5), ("float16", 15.0))
    ],
}
CELLS = {3: ["29.00", "96.7 %"], 4: ["1.50", "4.0"], 6: ["0.01 %", "none", "2.00"], 7: ["1709", "803 - 900"],
         9: ["1024", "102.40"], 12: ["1.25", "1.50"]}  # fmt: skip


@pytest.mark.parametrize("number", ROWS)
def test_a_figure_of_what_was_measured_before(tmp_path, number):
    found, picture = tmp_path / "found.json", tmp_path / "folder" / "figure.png"
    found.write_text(json.dumps({"stolen": 0.0, "rows": ROWS[number]}))
    done = subprocess.run(
        [sys.executable, FOLDER / "draw.py", str(number), "--from-json", found, "--plot", picture],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    for cell in CELLS[number]:
        assert cell in done.stdout


def test_bytes_on_the_wire_leave_out_what_was_sent_again(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    runs = importlib.import_module("runs")
    record = results()
    assert runs.wire_bytes_per_packet(record) == 1086 + 14
    assert runs.wire_bytes_per_element(record) == 100 * 1100 / 25_000


def test_events_of_worker_0_and_its_last_sum(monkeypatch, tmp_path):
    from jaxina import trace_file

    monkeypatch.syspath_prepend(str(FOLDER))
    runs = importlib.import_module("runs")
    events = [
        {"ph": phase, "pid": pid, "name": "collective", "ts": 10 * number + 5 * (phase == "e") + pid}
        for number in range(3)
        for phase in "be"
        for pid in (0, 1)
    ]
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    trace_file.write(tmp_path / "t.json", lines.encode())
    mine = runs.events_of_worker_0(tmp_path / "t.json")
    assert mine == [event for event in events if event["pid"] == 0]
    assert runs.last_collective(mine) == (20, 25)
