"""The paper's tables 1 and 2, emulated: batch times of ring all-reduce, in-network aggregation and compression.

    python -m experiments.emulator            # prints the tables and writes experiments/results/table2.md

The paper replays traces that it did not publish. What it published of each model is, at 10 and at 100 Gbit/s, the time
of a batch, the share of it in communication and the share of that which overlaps with computation (table 1). From
those we take, for each speed,

    batch = fixed + exposed,  exposed = communication - hidden,  hidden = communication x overlap

and say what another way to exchange gradients makes of it: communication is multiplied, and computation hides as many
milliseconds of it as before, or all where there are fewer. Where 99 % overlap there was computation to spare, and more is
taken to be hidden as well.

Table 1's communication is in-network aggregation's: S bytes each way (DeepLight: 2319 MB at 10 Gbit/s are 1.86 s, its
communication 2.04 s, a tenth more, as for the other models). A ring of n receives 2 (n - 1) / n S, 1.75 S for the
paper's eight workers; an all-gather n - 1 compressed gradients.

Compression: 6 and 8 bits for the 64 and 256 levels of QSGD, value and index of 4 bytes each for Top-k, as in the paper
and the survey it follows. The time to compress and decompress is the survey's and not in the paper. One number for each
compressor, milliseconds per MB of gradient, is fitted to the paper's own DeepLight row at 100 Gbit/s, where it weighs
most, and then used for all other rows; so DeepLight at 100 Gbit/s is no test of those, the others are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from experiments.paper import COMPRESSED, PROFILES, SPEEDS, SPEEDUPS, Profile
from experiments.records import RESULTS

WORKERS = 8
RING = 2 * (WORKERS - 1) / WORKERS
_FITTED_TO = ("DeepLight", 100)
_TO_SPARE = 0.99

# Why our INA column differs by over 5 %; `document` raises if a row has no explanation, or one it does not need.
EXPLANATIONS = {
    ("ResNet-50", 10): "the profile does not say how much computation was left to hide more. Were the hidden share of "
    "the ring's communication the same 67 %, instead of the hidden time, it would be 1.07. The published batch time has "
    "a deviation of 10.9 ms, a third of the 29 ms that are exposed",
    ("LSTM", 100): "as for ResNet-50: with the hidden time fixed 1.34, with the hidden share of 56 % fixed 1.15; the "
    "paper's trace is in between",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One number of table 2 beside ours."""

    model: str
    gbps: int
    method: str
    paper: float
    ours: float

    @property
    def difference(self) -> float:
        return self.ours / self.paper - 1


def batch_ms(profile: Profile, gbps: int, volume: float, overhead_ms: float = 0.0) -> float:
    """Time of a batch.

    Args:
      profile: the model's row of table 1.
      gbps: 10 or 100.
      volume: bytes received by each worker, in units of the model's size.
      overhead_ms: time that nothing hides, for compression.
    """
    measured = profile.at[gbps]
    fixed = measured.batch_ms - measured.communication_ms + measured.hidden_ms
    communication = measured.communication_ms * volume
    hidden = communication if measured.overlap >= _TO_SPARE else measured.hidden_ms
    return fixed + max(0.0, communication - hidden) + overhead_ms


def speedup(profile: Profile, gbps: int, volume: float, overhead_ms: float = 0.0) -> float:
    """Over the ring."""
    return batch_ms(profile, gbps, RING) / batch_ms(profile, gbps, volume, overhead_ms)


def gathered(spec: str) -> float:
    """What a worker receives by all-gather, in units of the model's size."""
    return (WORKERS - 1) * COMPRESSED[spec]


def fitted_ms_per_mb(spec: str) -> float:
    """The cost of compression that gives the paper's number for `_FITTED_TO`."""
    model, gbps = _FITTED_TO
    profile = PROFILES[model]
    wanted = batch_ms(profile, gbps, RING) / SPEEDUPS[gbps][model][spec]
    return max(0.0, wanted - batch_ms(profile, gbps, gathered(spec))) / profile.size_mb


def rows() -> Iterator[Row]:
    cost = {spec: fitted_ms_per_mb(spec) for spec in COMPRESSED}
    for gbps in SPEEDS:
        for model, published in SPEEDUPS[gbps].items():
            profile = PROFILES[model]
            yield Row(model, gbps, "INA", published["INA"], speedup(profile, gbps, 1.0))
            for spec in COMPRESSED:
                ours = speedup(profile, gbps, gathered(spec), cost[spec] * profile.size_mb)
                yield Row(model, gbps, spec, published[spec], ours)


def document() -> str:
    table = list(rows())
    lines = [
        "# Table 2, the paper's and ours",
        "",
        (
            "Written by `python -m experiments.emulator`; its text says how. Speed-up of a batch over ring all-reduce: "
            "paper / ours (difference). The ring is what the others are compared with: 1 on both sides."
        ),
        "",
        "| Gbit/s | model | " + " | ".join(["INA", *COMPRESSED]) + " |",
        "|---|---|" + "---|" * (1 + len(COMPRESSED)),
    ]
    for gbps in SPEEDS:
        for model in SPEEDUPS[gbps]:
            cells = [
                f"{r.paper:.2f} / {r.ours:.2f} ({r.difference:+.0%})"
                for r in table
                if (r.model, r.gbps) == (model, gbps)
            ]
            lines.append(f"| {gbps} | {model} | " + " | ".join(cells) + " |")
    costs = ", ".join(f"{spec} {fitted_ms_per_mb(spec):.3f}" for spec in COMPRESSED)
    lines += ["", f"Cost of compression, ms per MB, fitted to {_FITTED_TO[0]} at {_FITTED_TO[1]} Gbit/s: {costs}.", ""]
    different = [r for r in table if r.method == "INA" and abs(r.difference) > 0.05]
    if {(r.model, r.gbps) for r in different} != EXPLANATIONS.keys():
        raise AssertionError(f"to be explained: {different}")
    lines += ["INA differs by over 5 % for:", ""]
    lines += [
        f"* {r.model} at {r.gbps} Gbit/s ({r.difference:+.0%}): {EXPLANATIONS[r.model, r.gbps]}." for r in different
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = document()
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "table2.md").write_text(text)
    print(text)
