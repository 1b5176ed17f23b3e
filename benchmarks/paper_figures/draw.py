#!/usr/bin/env python3
"""Measures and draws a figure of the SwitchML paper, on the links of `jaxina testbed` on this host. It needs root.

    sudo .venv/bin/python benchmarks/paper_figures/draw.py 3 --json out/figure-3.json --plot out/figure-3.png

 3  aggregated elements per second for several numbers of workers
 4  time of a training step by jaxina and by gloo, for a model that mostly communicates and for one that mostly computes
 6  how much longer a sum takes when links lose packets
 7  packets sent in every 10 ms, under loss
 9  time of a sum and of a pass for several pool sizes
12  what the conversion of types costs

Every sum is compared with the exact one. In figure 4, the parameters are compared with gloo's. Times are medians of the
slowest worker's times.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from jaxina.bench.report import environment
from jaxina.bench.sizes import parse_size
from jaxina.bench.stolen_time import StolenTime, warning

FIGURES = (3, 4, 6, 7, 9, 12)


def show(rows: list[list[str]], title: str) -> None:
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for heading in rows[0]:
        table.add_column(heading, justify="right")
    for row in rows[1:]:
        table.add_row(*row)
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", type=int, choices=FIGURES)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements to this file")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the figure to this file")
    parser.add_argument("--from-json", type=Path, metavar="FILE", help="read these measurements instead of measuring")
    parser.add_argument("--size", type=parse_size, help="bytes to sum, for example 4M")
    parser.add_argument("-i", "--calls", type=int, help="timed calls")
    options = parser.parse_args()

    figure = importlib.import_module(f"figure_{options.figure}")
    if options.from_json:
        found = json.loads(options.from_json.read_text())
    else:
        found, stolen = environment(), StolenTime()
        found["rows"] = figure.measure(options.size or figure.SIZE, options.calls or figure.CALLS)
        found["stolen"] = stolen.share()
    show(figure.table(found["rows"]), f"Figure {options.figure}: {figure.__doc__.strip()}")
    if told := warning(found["stolen"]):
        print(told)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.plot:
        figure.draw(found["rows"], options.plot)


if __name__ == "__main__":
    main()
