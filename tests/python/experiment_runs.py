"""Runs of studies made by hand, for the tests of what is read out of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from experiments.records import Setting

SETTING = Setting("ncf", "small", "topk", 8, 0, 100, 1.0, "xla", "test")
MARGINS = {"ncf": 0.01, "vgg": 1.0, "lstm": 0.3}


def run_with(scores, diverged=False):
    return {
        "outcome": {
            "scores": scores,
            "diverged": diverged,
            "losses": [2.0, 1.0],
            "higher_is_better": True,
            "sent": 1e6,
            "received": 3e6,
            "parameters": 250_000,
        },
        "setting": {"seed": 0, "workers": 4, "workload": "ncf"},
    }


def run_of(seed: int, score: float | None, compressor: str = "topk", losses: Sequence[float] = (4.0, 2.0)):
    return {
        "setting": dataclasses.asdict(
            dataclasses.replace(SETTING, seed=seed, workers=4, steps=2, compressor=compressor)
        ),
        "outcome": {
            "diverged": score is None,
            "scores": [[1, 0.5], [2, score]],
            "losses": list(losses),
            "window": 1,
            "metric": "hit rate",
            "higher_is_better": True,
            "sent": 1.0,
            "received": 1.0,
            "parameters": 1,
        },
    }


def recorded_group(runs):
    from experiments import recorded

    return recorded.grouped(runs)[recorded.Case("ncf", 4)]
