"""The tables of `experiments.time_to_accuracy`, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from experiments import sensitivity
from experiments.paper import SPEEDS as PAPERS_SPEEDS
from experiments.recorded import BASELINE, Case
from experiments.ways import OVERLAPS, Costs, Way, fastest

SPEEDS = (1, 10, 100)  # Gbit/s
_SPEEDS = ", ".join(map(str, SPEEDS[:-1])) + f" and {SPEEDS[-1]}"
SMALL, PAPER, FREE = SCALES = ("small", "paper", "paper, free")

NAMED = 0.1
"""A compressor is named as the fastest if it is so in this share of the draws, or more."""

AllWays = Mapping[str, Mapping[Case, list[Way]]]
"""scale -> case -> ways."""

AllChances = Mapping[str, Mapping[Case, sensitivity.Chances]]
"""scale -> case -> how often a compressor is the fastest."""

_TITLES = {
    "small": "The small models, cost of compression measured on one core",
    "paper": "The paper's sizes, our core's cost for an element of a large array",
    "paper, free": "The paper's sizes, compression free of cost",
}

PLAIN = "plain"
"""The column of costs with malloc as it comes."""


def table(all_ways: AllWays, all_chances: AllChances) -> str:
    """Returns all ways as Markdown: steps to the target, speed-ups over float32 in a ring, and who is fastest."""
    by_case = all_ways[SMALL]  # steps are those of our runs on all scales
    reach = [spec for spec in _specs(by_case) if any(w.spec == spec and w.steps for f in by_case.values() for w in f)]
    never = [f"`{spec}`" for spec in _specs(by_case) if spec not in reach]
    lines = [
        "## Steps to the target",
        "",
        "Relative to float32's. A dash: never reached, or not run. "
        + (f"Nowhere reached by {', '.join(never)}." if never else ""),
        "",
        *_compared(by_case, reach, lambda way, ring: f"{way.steps / ring.steps:.2f}"),
    ]

    def speedups(way: Way, ring: Way) -> str:
        return " / ".join(f"{ring.seconds(gbps) / way.seconds(gbps):.2f}" for gbps in SPEEDS)

    for scale, by_case in all_ways.items():
        lines += [
            f"## {_TITLES[scale]}",
            "",
            f"Speed-up over float32 in a ring, in time to the target, at {_SPEEDS} Gbit/s.",
            "",
            *_compared(by_case, reach, speedups),
            (
                f"How often a compressor is the fastest, of {sensitivity.DRAWS} draws of the seeds and of the measured "
                f"costs. Those below {NAMED:.0%} are not named."
            ),
            "",
            "| fastest | " + " | ".join(f"{gbps} Gbit/s" for gbps in SPEEDS) + " |",
            "|---|" + "---|" * len(SPEEDS),
            *(
                f"| {case.workload} | " + " | ".join(_often(chances[gbps]) for gbps in SPEEDS) + " |"
                for case, chances in all_chances[scale].items()
            ),
            "",
        ]
    return "\n".join(lines)


def _often(shares: Mapping[str, float]) -> str:
    return ", ".join(f"`{spec}` {share:.0%}" for spec, share in shares.items() if share >= NAMED)


def _specs(by_case: Mapping[Case, list[Way]]) -> list[str]:
    return list(dict.fromkeys(way.spec for found in by_case.values() for way in found))


def _compared(by_case: Mapping[Case, list[Way]], specs: list[str], cell: Callable[[Way, Way], str]) -> list[str]:
    """Returns a table: a compressor in each row, a workload in each column, and `cell` of a way and float32's."""
    lines = ["| compressor | " + " | ".join(case.workload for case in by_case) + " |", "|---|" + "---:|" * len(by_case)]
    for spec in specs:
        cells = []
        for found in by_case.values():
            by_spec = {way.spec: way for way in found}
            way = by_spec.get(spec)
            cells.append(cell(way, by_spec[BASELINE]) if way is not None and way.steps is not None else "-")
        lines.append(f"| `{spec}` | " + " | ".join(cells) + " |")
    return [*lines, ""]


def overlaps(all_ways: AllWays) -> str:
    """Returns who is fastest in the paper's sizes if nothing overlaps, and by both models of the emulator."""
    lines = [
        "## What computation hides",
        "",
        (
            "The fastest in the paper's sizes, by the means, and its speed-up over float32 in a ring: if nothing "
            "overlaps, and if computation hides the same time or the same share of the communication as in the "
            "paper's table 1."
        ),
        "",
        "| cost | workload | Gbit/s | " + " | ".join(OVERLAPS) + " |",
        "|---|---|---:|" + "---|" * len(OVERLAPS),
    ]
    for scale in (PAPER, FREE):
        for case, found in all_ways[scale].items():
            ring = next(way for way in found if way.spec == BASELINE)
            for gbps in PAPERS_SPEEDS:
                cells = []
                for overlap in OVERLAPS:
                    best = fastest(found, gbps, overlap)
                    cells.append(f"`{best.spec}` {ring.seconds(gbps, overlap) / best.seconds(gbps, overlap):.2f}")
                cost = "free" if scale == FREE else "ours"
                lines.append(f"| {cost} | {case.workload} | {gbps} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", ""])


def if_costs_were_others(all_ways: AllWays) -> str:
    """Returns how far the winners depend on an error that all measured costs share, as Markdown."""
    lines = [
        "## If the costs were others",
        "",
        "The fastest, by the means, if all costs of compression are so many times what was measured.",
        "",
        "| scale | workload | Gbit/s | " + " | ".join(f"x {f:g}" for f in sensitivity.FACTORS) + " |",
        "|---|---|---:|" + "---|" * len(sensitivity.FACTORS),
    ]
    for scale in (SMALL, PAPER):
        for case, found in all_ways[scale].items():
            for gbps in SPEEDS:
                cells = [f"`{spec}`" for spec in sensitivity.by_factor(found, gbps).values()]
                lines.append(f"| {scale} | {case.workload} | {gbps} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def if_one_cost_were_another(all_ways: AllWays) -> str:
    """Returns how far the winners depend on an error of a single cost, as Markdown."""
    lines = [
        "## If one cost were another",
        "",
        (
            "The fastest, by the means. *Own*: if its cost alone is more than so many times what was measured, the one "
            "beside it is the fastest. *Another's*: if that one's cost alone is less than so many times what was "
            "measured, it is."
        ),
        "",
        "| scale | workload | Gbit/s | fastest | own | another's |",
        "|---|---|---:|---|---|---|",
    ]
    for scale in (SMALL, PAPER):
        for case, found in all_ways[scale].items():
            for gbps in SPEEDS:
                of = sensitivity.lead(found, gbps)
                own = "-" if of.then is None else f"x {of.above:.2f}: `{of.then}`"
                others = "-" if of.rival is None else f"x {of.below:.2f}: `{of.rival}`"
                lines.append(f"| {scale} | {case.workload} | {gbps} | `{of.spec}` | {own} | {others} |")
    return "\n".join([*lines, ""])


def if_the_ring_cost_something(all_ways: AllWays) -> str:
    """Returns how far the ring's lead depends on what its own work costs, as Markdown."""
    lines = [
        "## If the ring's own work cost something",
        "",
        (
            "What a ring's additions and copies cost a core is not counted. In the paper's sizes, if they cost more "
            "than so many nanoseconds for an element, the one beside it is faster than the ring, by the means. A dash: "
            "something is faster anyway."
        ),
        "",
        "| workload | " + " | ".join(f"{gbps} Gbit/s" for gbps in SPEEDS) + " |",
        "|---|" + "---|" * len(SPEEDS),
    ]
    for case, found in all_ways[PAPER].items():
        allowed = [sensitivity.rings_allowance(found, gbps) for gbps in SPEEDS]
        cells = [f"{of.ns:.2f}: `{of.spec}`" if of is not None and of.ns > 0 else "-" for of in allowed]
        lines.append(f"| {case.workload} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def costs_table(costs: Costs) -> str:
    """Returns what compression costs and sends, as Markdown."""
    sizes = sorted(next(iter(costs["compression_ns"].values())), key=int)
    lines = [
        "## What compression costs",
        "",
        (
            f"Nanoseconds of one core's processor time for an element of a matrix of so many, with {costs['workers']} "
            "workers: the median, and the tenth and ninetieth percentile. Freed memory is kept, as in the workers of "
            f"`jaxina run`; but in {PLAIN} malloc is as it comes. *jaxina* is its own codec, in a job, with the sum. "
            "Bytes are those of the largest matrix, for an element."
        ),
        "",
        f"| compressor | {' | '.join(f'{int(size):,}' for size in sizes)} | {PLAIN} | sent | received |",
        "|---|" + "---:|" * (len(sizes) + 3),
    ]
    for kind, by in (("compression_ns", ""), ("native_ns", ", jaxina")):
        for spec, measured in costs[kind].items():
            times = [*map(measured.get, sizes), costs["malloc_as_it_comes"][kind][spec][sizes[-1]]]
            cells = [f"{ns['median']:.1f} ({ns['low']:.1f} - {ns['high']:.1f})" for ns in times]
            sent = costs["traffic"][spec]
            cells += [f"{sent[way]:.3g}" for way in ("sent", "received")]
            lines.append(f"| `{spec}`{by} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])
