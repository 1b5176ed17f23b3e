"""Shows the verdict, as tables and as a record for a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

from jaxina.certificate.combinations import INSIDE, NotRun
from jaxina.certificate.verdict import Verdict

_DIGITS = 12  # of a hash that is shown


def hashes(verdict: Verdict) -> Table:
    """One row for each hash that there must be, and how many combinations had it."""
    made = _table("hashes of the sums", ("word", "layouts"), ("tried", "equal"), ("hash", "as"))
    for one in verdict.classes:
        mine = verdict.of_class(one)
        made.add_row(
            f"{one.bits} bits",
            ", ".join(one.layouts),
            f"{len(mine):,}",
            f"{sum(not outcome.problem for outcome in mine):,}",
            one.hash[:_DIGITS],
            {"specification": "jaxina.numerics", "most": "each other"}[one.by],
        )
    return made


def transports(verdict: Verdict) -> Table:
    """One row for each transport and layout."""
    made = _table(
        "combinations by transport", ("transport", "layout"), ("tried", "equal", "packets dropped", "sent again")
    )
    groups: dict[tuple[str, str], list[bool]] = {}
    for outcome in verdict.outcomes:
        combination = outcome.combination
        key = (combination.setting.transport, str(combination.suite.layout))
        groups.setdefault(key, []).append(not outcome.problem)
    for (transport, layout), good in sorted(groups.items(), key=lambda item: item[0][1]):
        dropped, again = verdict.lost.get((transport, layout), (0, 0))
        counts = ("-", "-") if transport in (INSIDE, "embedded") else (f"{dropped:,}", f"{again:,}")
        shown = "within the process" if transport == INSIDE else transport
        made.add_row(shown, layout, f"{len(good):,}", f"{sum(good):,}", *counts)
    return made


def interpreters(verdict: Verdict) -> Table:
    """One row for each JAX and codec."""
    made = _table("combinations by JAX and codec", ("JAX", "Python", "codec"), ("tried", "equal"))
    groups: dict[tuple[str, str, str], list[bool]] = {}
    for outcome in verdict.outcomes:
        suite = outcome.combination.suite
        versions = suite.interpreter.versions
        groups.setdefault((versions["jax"], versions["python"], suite.codec), []).append(not outcome.problem)
    for names, good in groups.items():
        made.add_row(*names, f"{len(good):,}", f"{sum(good):,}")
    return made


def native(verdict: Verdict) -> Table:
    """What XLA's own collective gave, beside."""
    made = _table("XLA's own collective (gloo between processes), beside", ("layout", "inputs", "hash", "JAX"), ())
    groups: dict[tuple[str, str, str], list[str]] = {}
    for one in verdict.native:
        shown = " and ".join(hash_[:_DIGITS] for hash_ in one.hashes)
        groups.setdefault((one.layout, one.order, shown), []).append(one.jax)
    for names, versions in sorted(groups.items(), key=lambda group: group[0][0]):
        made.add_row(*names, ", ".join(versions))
    return made


def _table(title: str, left: Sequence[str], right: Sequence[str], more: Sequence[str] = ()) -> Table:
    """A table with columns to the left, then some to the right, then more to the left."""
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, min_width=len(title))
    for column in left:
        made.add_column(column, no_wrap=True)
    for column in right:
        made.add_column(column, justify="right", no_wrap=True)
    for column in more:
        made.add_column(column, no_wrap=True)
    return made


def record(verdict: Verdict, not_run: Sequence[NotRun]) -> dict[str, Any]:
    """The verdict for a file."""
    return {
        "combinations": len(verdict.outcomes),
        "problems": [f"{one.combination}: {one.problem}" for one in verdict.problems],
        "hashes": [
            {"bits": one.bits, "layouts": one.layouts, "hash": one.hash, "as": one.by} for one in verdict.classes
        ],
        "native": [
            {"jax": one.jax, "layout": one.layout, "order": one.order, "hashes": one.hashes} for one in verdict.native
        ],
        "lost": [
            {"transport": transport, "layout": layout, "packets_dropped": dropped, "retransmissions": again}
            for (transport, layout), (dropped, again) in verdict.lost.items()
        ],
        "not_run": [{"what": one.what, "why": one.why} for one in not_run],
        "outcomes": [
            {**one.combination.record(), "hashes": sorted(set(one.hashes)), "problem": one.problem}
            for one in verdict.outcomes
        ],
    }
