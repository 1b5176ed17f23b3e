"""Small versions of the models that the SwitchML paper trains (its table 3), each on real data.

A workload is a file with a subclass of `base.Workload`. `names` lists the workloads, `get` makes one by its name.
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
    """Returns the class of a workload.

    Raises:
      ValueError: there is no workload of that name.
    """
    if name not in _CLASSES:
        raise ValueError(f"no workload {name!r}; there are {', '.join(_CLASSES)}")
    return getattr(importlib.import_module(f"experiments.workloads.{name}"), _CLASSES[name])


def get(name: str, size: str = "small") -> Workload:
    """Makes the workload of that name. `size` is "small" (about a minute on two cores) or "large".

    Raises:
      ValueError: there is no such workload or size.
    """
    return kind(name)(size)


__all__ = ["Workload", "get", "kind", "names"]
