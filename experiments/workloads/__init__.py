"""Small cousins of the models that the SwitchML paper trains (its table 3), each on real data.

A workload is one file with one subclass of `base.Workload`; `names` and `get` know them.
"""

from __future__ import annotations

import importlib

from experiments.workloads.base import Workload

_CLASSES = {
    "clickthrough": "ClickThrough",
    "lstm": "WordLSTM",
    "ncf": "NCF",
    "masked_lm": "MaskedLM",
    "resnet": "ResNet",
    "vgg": "VGG",
    "detector": "Detector",
    "gan": "GAN",
}


def names() -> list[str]:
    return list(_CLASSES)


def kind(name: str) -> type[Workload]:
    """The class of that name; raises ValueError if there is none."""
    if name not in _CLASSES:
        raise ValueError(f"no workload {name!r}; there are {', '.join(_CLASSES)}")
    return getattr(importlib.import_module(f"experiments.workloads.{name}"), _CLASSES[name])


def get(name: str, size: str = "small") -> Workload:
    """The workload of that name; `size` is "small" (about a minute on two cores) or "large".

    Raises:
      ValueError: no such workload or size.
    """
    return kind(name)(size)


__all__ = ["Workload", "get", "kind", "names"]
