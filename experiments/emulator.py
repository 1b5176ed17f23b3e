"""Computes the paper's table 2 from its table 1: speed-ups of in-network aggregation and compression over a ring.

    python -m experiments.emulator            # prints the table and writes experiments/results/table2.md

The paper replays traces that it did not publish. It published for each model, at 10 and at 100 Gbit/s, the time of a
batch, the share of communication in that time, and the share of the communication that overlaps with computation (table
1). From these we take for each speed

    batch = fixed + exposed,  exposed = communication - hidden,  hidden = communication x overlap

The model for another way to exchange gradients: the communication time is multiplied by the ratio of the bytes.
Computation hides as many milliseconds of it as before, or all of it if it is shorter than that. If 99 % overlapped,
computation had time to spare, and we assume that it hides all of a longer communication, too.

Table 1's communication is that of in-network aggregation: S bytes each way. (DeepLight's 2319 MB take 1.86 s at 10
Gbit/s. Its communication takes 2.04 s, a tenth more; the other models are alike.) A worker in a ring of n receives
2 (n - 1) / n S, which is 1.75 S for the paper's eight workers. In an all-gather it receives n - 1 compressed gradients.

The compressed sizes are those of the paper and of the survey that it follows: 6 and 8 bits for the 64 and 256 levels of
QSGD, and a value and an index of 4 bytes each for Top-k. The time to compress and decompress comes from the survey and
is not in the paper. So one number for each compressor, in milliseconds per MB of gradient, is fitted to the paper's
DeepLight row at 100 Gbit/s, where it weighs most, and used for all other rows. DeepLight at 100 Gbit/s is therefore no
test of the compressors. The other rows are.
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

# Why our INA column differs from the paper's by over 5 %. `document` raises if such a row has no explanation, or if
# another row has one.
EXPLANATIONS = {
    ("ResNet-50", 10): "the profile does not say how much computation was left to hide more. Were the hidden share of "
    "the ring's communication the same 67 %, instead of the hidden time, it would be 1.07. The published batch time "
    "has a deviation of 10.9 ms, a third of the 29 ms that are exposed",
    ("LSTM", 100): "as for ResNet-50: with the hidden time fixed 1.34, with the hidden share of 56 % fixed 1.15; the "
    "paper's trace is in between",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One number of table 2, the paper's and ours."""

    model: str
    gbps: int
    method: str
    paper: float
    ours: float

    @property
    def difference(self) -> float:
        return self.ours / self.paper - 1


def batch_ms(profile: Profile, gbps: int, volume: float, overhead_ms: float = 0.0) -> float:
    """Returns the time of a batch.

    Args:
      profile: the model's row of table 1.
      gbps: 10 or 100.
      volume: the bytes that each worker receives, in units of the model's size.
      overhead_ms: the time of compression, which nothing hides.
    """
    measured = profile.at[gbps]
    fixed = measured.batch_ms - measured.communication_ms + measured.hidden_ms
    communication = measured.communication_ms * volume
    hidden = communication if measured.overlap >= _TO_SPARE else measured.hidden_ms
    return fixed + max(0.0, communication - hidden) + overhead_ms


def speedup(profile: Profile, gbps: int, volume: float, overhead_ms: float = 0.0) -> float:
    """Returns the speed-up of a batch over ring all-reduce."""
    return batch_ms(profile, gbps, RING) / batch_ms(profile, gbps, volume, overhead_ms)


def gathered(spec: str) -> float:
    """Returns what a worker receives in an all-gather, in units of the model's size."""
    return (WORKERS - 1) * COMPRESSED[spec]


def fitted_ms_per_mb(spec: str) -> float:
    """Returns the cost of compression at which our number for `_FITTED_TO` equals the paper's."""
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
