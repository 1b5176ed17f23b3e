"""Small versions of the models that the SwitchML paper trains (its table 3), and two of newer ones, on real data.

A workload is a file with a subclass of `base.Workload`. `names` lists the workloads, `get` makes one by its name.
"""

from __future__ import annotations

import importlib

from experiments.workloads.base import TEST, VALIDATION, Workload

# Where each workload is. Its file is only imported when it is used.
_CLASSES = {
    "clickthrough": "clickthrough.ClickThrough",
    "lstm": "lstm.WordLSTM",
    "ncf": "ncf.NCF",
    "masked_lm": "masked_lm.MaskedLM",
    "resnet": "resnet.ResNet",
    "vgg": "vgg.VGG",
    "detector": "detector.Detector",
    "gan": "gan.GAN",
    "decoder": "decoder.Shakespeare",
    "lora": "decoder.LoRA",
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
    module, name_of_class = _CLASSES[name].split(".")
    return getattr(importlib.import_module(f"experiments.workloads.{module}"), name_of_class)


def steps(name: str, size: str) -> int:
    """Returns the number of steps of a workload's runs, without loading its data."""
    return getattr(kind(name).lengths, size)


def get(name: str, size: str = "small") -> Workload:
    """Makes the workload of that name. `size` is "small" (for processors) or "large".

    Raises:
      ValueError: there is no such workload or size.
    """
    return kind(name)(size)


__all__ = ["TEST", "VALIDATION", "Workload", "get", "kind", "names", "steps"]
