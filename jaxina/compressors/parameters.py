"""The parameters of compressors: the fields of their classes, but for `Algorithm.ef`.

A compressor is a key of JAX's caches, and a spec string writes its parameters. So they are plain Python values,
whatever kind of number a caller gives: a NumPy integer of few bits would wrap in a formula.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import operator
from typing import Any

import numpy as np

from jaxina.errors import InvalidArgumentError

_PLAIN: dict[Any, type] = {kind: kind for kind in (int, float, bool)} | {
    kind.__name__: kind for kind in (int, float, bool)
}
"""Types by the annotations of fields, which are strings in modules of postponed annotations."""


def types(kind: type) -> dict[str, type]:
    """The types of a class's parameters. What is no number and no switch is a string."""
    return {field.name: _PLAIN.get(field.type, str) for field in dataclasses.fields(kind) if field.name != "ef"}


def make_plain(compressor: Any) -> None:
    """Turns a compressor's numbers and switches, and its `ef`, into plain Python values.

    Raises:
      InvalidArgumentError: one is no number or switch, as its field says, or it is NaN.
    """
    for name, kind in types(type(compressor)).items():
        if kind is not str:
            object.__setattr__(compressor, name, _plain(kind, name, getattr(compressor, name)))
    if compressor.ef is not None:
        object.__setattr__(compressor, "ef", _plain(bool, "ef", compressor.ef))


def _plain(kind: type, name: str, value: Any) -> Any:
    is_switch = isinstance(value, bool | np.bool_)
    if kind is bool:
        if is_switch:
            return bool(value)
        raise InvalidArgumentError(f"{name} must be True or False, not {value!r}")
    if kind is int:
        try:
            if not is_switch:
                return operator.index(value)
        except TypeError:
            pass
        raise InvalidArgumentError(f"{name} must be an integer, not {value!r}")
    if isinstance(value, numbers.Real) and not is_switch and not math.isnan(value):
        return float(value)
    raise InvalidArgumentError(f"{name} must be a number, not {value!r}")
