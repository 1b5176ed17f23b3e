#!/usr/bin/env python3
"""Attacks a switch as a stranger without a secret, and measures what that does to the jobs of others.

    tests/campaigns/hostile_strangers.py              # every attack, 60 s each: an hour and a half
    tests/campaigns/hostile_strangers.py --seconds 2  # quick
    tests/campaigns/hostile_strangers.py --attacks 'absent*' --transports udp

Each attack has a `jaxina switch` of its own and two running jobs of real workers, one over udp and one over roce. They
run in network namespaces that the campaign makes and removes, so it needs root. The attacker has a budget of packets,
calls and processor time, and a low priority. The exit code is 1 if

* a job's rate falls by more than 20 %, compared with an attacker that only burns the same processor time;
* the rate does not recover after the attack;
* a bit of any sum is wrong, or something hangs;
* the switch's memory or its number of threads grows beyond its bound;
* an honest newcomer gets no job during the attack.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import pathlib
import signal
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))  # the folder of real_processes

from rich.console import Console
from rich.table import Table
from strangers import control_attacks, data_attacks, rdma_attacks  # noqa: F401 (they register themselves)
from strangers.measure import MOST_GROWN, Bystanders, Outcome, Plan, measure
from strangers.network import Network
from strangers.stranger import ATTACKS, Attack

_RATES = ("before", "attack", "control", "after", "of undisturbed", "of control")
_COLUMNS = (*_RATES, "sent/s", "core", "wrong", "MiB", "threads", "switch", "others")
_ORDER = ("data", "rdma", "control")


def _cells(outcome: Outcome) -> list[str]:
    return [
        f"{outcome.before:.0f}",
        f"{outcome.attacked:.0f}",
        f"{outcome.control:.0f}",
        f"{outcome.after:.0f}",
        f"{outcome.to_undisturbed:.2f}",
        f"{outcome.to_control:.2f}",
        f"{outcome.sent:.0f}",
        f"{outcome.share:.2f}",
        str(outcome.wrong),
        f"{outcome.mib_before}+{outcome.mib_peak - outcome.mib_before}",
        f"{outcome.threads_before}+{outcome.threads_peak - outcome.threads_before}",
        f"{outcome.switch_quiet:.2f} > {outcome.switch_attacked:.2f}",
        f"{outcome.others:.2f}",
    ]


def _table(outcomes: list[Outcome]) -> Table:
    table = Table(title="Sums per second beside strangers", title_justify="left")
    table.add_column("attack")
    table.add_column("job")
    for column in _COLUMNS:
        table.add_column(column, justify="right")
    table.add_column("verdict", max_width=48)
    for outcome in outcomes:
        verdict = "; ".join(outcome.failures)
        style = "red" if verdict else ""
        table.add_row(outcome.attack, outcome.transport, *_cells(outcome), verdict or "holds", style=style)
    return table


def _chosen(patterns: list[str]) -> list[Attack]:
    chosen = [one for one in ATTACKS.values() if any(fnmatch.fnmatch(one.name, p) or one.kind == p for p in patterns)]
    if not chosen:
        sys.exit(f"no attack is called {' or '.join(patterns)}; --list names all")
    return sorted(chosen, key=lambda one: _ORDER.index(one.kind))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of each attack, in all rounds together")
    parser.add_argument("--transports", nargs="+", default=["udp", "roce"], choices=("udp", "roce"))
    parser.add_argument("--attacks", nargs="+", default=["*"], help="names with wildcards, or data, rdma, control")
    parser.add_argument("--workers", type=int, default=2, help="workers of each job")
    parser.add_argument("--elements", type=int, default=250_000, help="elements of each float32 tensor")
    parser.add_argument("--threads", type=int, default=1, help="threads of the switch's data path")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--list", action="store_true", help="list the attacks and do nothing else")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 200)
    attacks = _chosen(arguments.attacks)
    if arguments.list:
        for one in attacks:
            console.print(f"[bold]{one.name}[/bold] ({one.kind}, {one.per_second:g}/s): {one.doc}")
        return
    if why := Network.unavailable():
        sys.exit(f"there can be no strangers here: {why}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that SIGTERM, too, removes the namespaces
    plan = Plan.of(arguments.seconds)
    started = time.monotonic()
    outcomes = []
    with Network() as network:
        transports = tuple(dict.fromkeys(arguments.transports))
        bystanders = Bystanders(network, transports, arguments.workers, arguments.elements, arguments.threads)
        for number, one in enumerate(attacks, start=1):
            for outcome in measure(bystanders, one, plan):
                outcomes.append(outcome)
                what = "; ".join(outcome.failures) or f"holds, {outcome.to_control:.2f} of control"
                seconds = time.monotonic() - started
                console.print(
                    f"{seconds:6.0f} s  {number} of {len(attacks)}: {one.name}, {outcome.transport}: {what}",
                    highlight=False,
                )
            if arguments.json:
                arguments.json.write_text(json.dumps([dataclasses.asdict(one) for one in outcomes], indent=1))
    console.print(_table(outcomes))
    failed = sum(bool(outcome.failures) for outcome in outcomes)
    console.print(
        f"{len(attacks)} attacks of {arguments.seconds:g} s in {time.monotonic() - started:.0f} s, {failed} hurt.\n"
        f"core: what the attacker took. MiB and threads of the switch: before, and the growth (at most {MOST_GROWN} "
        "MiB). switch: its cores, quiet and attacked. others: cores that other work took; above 0.3 rates say little.",
        highlight=False,
    )
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
