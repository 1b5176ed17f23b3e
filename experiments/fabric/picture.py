"""Draws a plan of MLfabric's scheduler: which link carries which update when.

python -m experiments.fabric.picture docs/figures/fabric-plan.png
"""

from __future__ import annotations

import argparse
import dataclasses

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from experiments.fabric.conditions import GIGABIT
from experiments.style import COLOURS
from jaxina.fabric import Plan, Reservation, Scheduler, Settings, Star, Update
from jaxina.fabric.calendar import NANOSECONDS
from jaxina.fabric.network import Nic


def draw(axes: Axes, star: Star, plan: Plan, hosts: list[str]) -> None:
    """Draws a bar for each piece of each transfer, as high as its share of the link, and a line for each commit.

    Args:
      axes: where.
      star: the network that was planned on.
      plan: what is drawn.
      hosts: their links become rows, first at the top.
    """
    rows = {}
    for host in hosts:
        rows[star.outgoing(host)] = f"{host} sends"
        rows[star.incoming(host)] = f"{host} receives"
    used = {link for link, _ in _bars(plan)}
    shown = [link for link in rows if any(link in r.path for r in used)]
    place = {link: len(shown) - 1 - i for i, link in enumerate(shown)}
    drawn: dict[int, list[tuple[int, int, float]]] = {link: [] for link in shown}
    for reservation, (names, label) in _bars(plan):
        for link in reservation.path:
            _bar(axes, reservation, place[link] - 0.4, star.rates[link], names, label, drawn[link])
    for time in sorted({time for time, _ in plan.commits()}):
        axes.axvline(time / NANOSECONDS, color="#888888", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axes.set_yticks(list(place.values()), [rows[link] for link in place])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds. Dashed: the server commits")


def _bars(plan: Plan) -> list[tuple[Reservation, tuple[list[int], str]]]:
    """Each transfer, the updates in it, and its label."""
    bars = []
    for group in plan.groups:
        bars += [(t.reservation, ([t.update.name], str(t.update.name))) for t in group.transfers]
        if group.last is not None:
            names = [u.name for u in group.updates]
            bars.append((group.last, (names, "+".join(map(str, names)))))
    return bars


def _bar(
    axes: Axes,
    reservation: Reservation,
    bottom: float,
    rate: int,
    names: list[int],
    label: str,
    drawn: list[tuple[int, int, float]],
) -> None:
    """Draws a transfer on one link, above what is `drawn` there at the same time: (from, to, top)."""
    for begin, end, share in reservation.pieces:
        low = max((top for b, e, top in drawn if b < end and begin < e), default=bottom)
        height = 0.8 * share / rate
        drawn.append((begin, end, low + height))
        for k, name in enumerate(names):  # a sum has a stripe for each of its updates
            axes.broken_barh(
                [(begin / NANOSECONDS, (end - begin) / NANOSECONDS)],
                (low + height * k / len(names), height / len(names)),
                facecolors=COLOURS[1 + name % (len(COLOURS) - 1)],
                alpha=0.75,
            )
        if (begin, end, share) == max(reservation.pieces, key=lambda p: (p[1] - p[0]) * p[2]):
            size = 8 if height > 0.25 else 6
            axes.annotate(
                label,
                (begin / NANOSECONDS, low + height / 2),
                (3, 0),
                textcoords="offset points",
                va="center",
                size=size,
            )


@dataclasses.dataclass(frozen=True)
class Example:
    """Five workers with an update each, behind links of 2 to 10 Gbit/s, and a server with 5."""

    star: Star
    plan: Plan
    hosts: list[str]


def example() -> Example:
    """The plan in the docs."""
    rates = {"a": 10.0, "b": 5.0, "c": 10.0, "d": 2.5, "e": 2.0}
    nics = {host: Nic(int(rate * GIGABIT), int(rate * GIGABIT)) for host, rate in rates.items()}
    star = Star(nics | {"server": Nic(5 * GIGABIT, 5 * GIGABIT)})
    scheduler = Scheduler(star, Settings("server", delay_bound=20, aggregators=["c"], groups=1))
    for name, host in enumerate(rates):
        scheduler.add(Update(name, host, 100_000_000, version=0))
    return Example(star, scheduler.plan(0), [*rates, "server"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="where to write the figure, for example plan.png")
    file = parser.parse_args().file
    shown = example()
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    draw(axes, shown.star, shown.plan, shown.hosts)
    figure.savefig(file, dpi=150)
    print(f"wrote {file}")


if __name__ == "__main__":
    main()
