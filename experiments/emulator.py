"""Computes the paper's table 2 from its table 1: speed-ups of in-network aggregation and compression over a ring.

    python -m experiments.emulator            # prints the table and writes experiments/results/table2.md

The paper replays traces that it did not publish. It published for each model, at 10 and at 100 Gbit/s, the time of a
batch, the share of communication in that time, and the share of the communication that overlaps with computation (table
1). From these we take for each speed

    batch = fixed + exposed,  exposed = communication - hidden,  hidden = communication x overlap

For another way to exchange gradients, the communication time is multiplied by the ratio of the bytes. The paper does
not say how much of that computation hides. There are two models, side by side:

* **Time:** computation hides as many milliseconds as before, or all of it if it is shorter than that. If 99 %
  overlapped, computation had time to spare, and we assume that it hides all of a longer communication, too.
* **Share:** computation hides the same share as before.

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

TIME, SHARE = MODELS = ("time", "share")


@dataclasses.dataclass(frozen=True)
class Row:
    """One number of table 2: the paper's, and ours by each of MODELS."""

    model: str
    gbps: int
    method: str
    paper: float
    ours: dict[str, float]

    def difference(self, overlap: str) -> float:
        return self.ours[overlap] / self.paper - 1


def batch_ms(profile: Profile, gbps: int, volume: float, overhead_ms: float = 0.0, overlap: str = TIME) -> float:
    """Returns the time of a batch.

    Args:
      profile: the model's row of table 1.
      gbps: 10 or 100.
      volume: the bytes that each worker receives, in units of the model's size.
      overhead_ms: the time of compression, which nothing hides.
      overlap: what computation hides, one of MODELS.
    """
    measured = profile.at[gbps]
    fixed = measured.batch_ms - measured.communication_ms + measured.hidden_ms
    communication = measured.communication_ms * volume
    if overlap == SHARE:
        hidden = communication * measured.overlap
    else:
        hidden = communication if measured.overlap >= _TO_SPARE else measured.hidden_ms
    return fixed + max(0.0, communication - hidden) + overhead_ms


def speedup(profile: Profile, gbps: int, volume: float, overhead_ms: float = 0.0, overlap: str = TIME) -> float:
    """Returns the speed-up of a batch over ring all-reduce."""
    ring = batch_ms(profile, gbps, RING, overlap=overlap)
    return ring / batch_ms(profile, gbps, volume, overhead_ms, overlap)


def gathered(spec: str) -> float:
    """Returns what a worker receives in an all-gather, in units of the model's size."""
    return (WORKERS - 1) * COMPRESSED[spec]


def fitted_ms_per_mb(spec: str, overlap: str) -> float:
    """Returns the cost of compression at which our number for `_FITTED_TO` equals the paper's."""
    model, gbps = _FITTED_TO
    profile = PROFILES[model]
    wanted = batch_ms(profile, gbps, RING, overlap=overlap) / SPEEDUPS[gbps][model][spec]
    return max(0.0, wanted - batch_ms(profile, gbps, gathered(spec), overlap=overlap)) / profile.size_mb


def rows() -> Iterator[Row]:
    cost = {(spec, overlap): fitted_ms_per_mb(spec, overlap) for spec in COMPRESSED for overlap in MODELS}
    for gbps in SPEEDS:
        for model, published in SPEEDUPS[gbps].items():
            profile = PROFILES[model]
            ours = {overlap: speedup(profile, gbps, 1.0, overlap=overlap) for overlap in MODELS}
            yield Row(model, gbps, "INA", published["INA"], ours)
            for spec in COMPRESSED:
                ours = {
                    overlap: speedup(profile, gbps, gathered(spec), cost[spec, overlap] * profile.size_mb, overlap)
                    for overlap in MODELS
                }
                yield Row(model, gbps, spec, published[spec], ours)


def document() -> str:
    table = list(rows())
    lines = [
        "# Table 2, the paper's and ours",
        "",
        (
            "Written by `python -m experiments.emulator`; its text says how. Speed-up of a batch over ring all-reduce: "
            "the paper's / ours where computation hides the same time / ours where it hides the same share. The ring "
            "is what the others are compared with: 1 on all sides."
        ),
        "",
        "| Gbit/s | model | " + " | ".join(["INA", *COMPRESSED]) + " |",
        "|---|---|" + "---|" * (1 + len(COMPRESSED)),
    ]
    for gbps in SPEEDS:
        for model in SPEEDUPS[gbps]:
            cells = [
                " / ".join(f"{number:.2f}" for number in (r.paper, *r.ours.values()))
                for r in table
                if (r.model, r.gbps) == (model, gbps)
            ]
            lines.append(f"| {gbps} | {model} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "| model | method | within 5 % | largest difference | cost of compression, ms per MB |",
        "|---|---|---|---|---|",
    ]
    for overlap in MODELS:
        for method in ("INA", *COMPRESSED):
            ours = [r for r in table if r.method == method]
            worst = max(ours, key=lambda r: abs(r.difference(overlap)))
            within = sum(abs(r.difference(overlap)) <= 0.05 for r in ours)
            cost = f"{fitted_ms_per_mb(method, overlap):.3f}" if method in COMPRESSED else "-"
            lines.append(
                f"| {overlap} | {method} | {within} of {len(ours)} | "
                f"{worst.difference(overlap):+.0%} ({worst.model}, {worst.gbps} Gbit/s) | {cost} |"
            )
    between = [r for r in table if min(r.ours.values()) <= r.paper <= max(r.ours.values())]
    model, gbps = _FITTED_TO
    lines += [
        "",
        (
            f"The costs are fitted to {model} at {gbps} Gbit/s. Of {len(table)} numbers of the paper, {len(between)} "
            "lie between the two models or equal one of them."
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = document()
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "table2.md").write_text(text)
    print(text)
