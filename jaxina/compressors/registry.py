"""Spec strings for compressors: ``topk:0.01``, ``qsgd:64:bucket=1024``, ``int8:stochastic``, ``bf16+ef``,
``topk:0.1-ef``.

A spec string is a name, then arguments, then optionally ``+ef`` or ``-ef``:

* The name is one of `names`.
* Each argument follows a colon. It is a bare value for the class's next parameter, or ``name=value``, or the bare name
  of a boolean parameter, which switches it on.
* ``+ef`` and ``-ef`` switch error feedback on and off, where the algorithm leaves the choice.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from typing import Any

from jaxina.compressors.base import Compressor
from jaxina.compressors.block_fixed_point import BlockFixedPoint
from jaxina.compressors.dgc import DGC
from jaxina.compressors.half_precision import HalfPrecision
from jaxina.compressors.narrow_words import NarrowWords
from jaxina.compressors.natural import Natural
from jaxina.compressors.ok_topk import OkTopK
from jaxina.compressors.parameters import types as types_of
from jaxina.compressors.powersgd import PowerSGD
from jaxina.compressors.qsgd import QSGD
from jaxina.compressors.random_k import RandomK
from jaxina.compressors.ring import HalfPrecisionRing
from jaxina.compressors.signs import EFSignSGD, OneBitSGD, SignSGD
from jaxina.compressors.sparse import Threshold, TopK
from jaxina.compressors.terngrad import TernGrad
from jaxina.compressors.thc import THC
from jaxina.compressors.two_phase import TwoPhase
from jaxina.compressors.uncompressed import Uncompressed
from jaxina.errors import InvalidArgumentError

_NAMES: dict[str, tuple[type[Compressor], dict[str, Any]]] = {
    "none": (Uncompressed, {}),
    "int32": (BlockFixedPoint, {"bits": 32}),
    "int16": (NarrowWords, {"bits": 16}),
    "int8": (NarrowWords, {"bits": 8}),
    "blockfp": (BlockFixedPoint, {}),
    "fp16": (HalfPrecision, {"format": "fp16"}),
    "bf16": (HalfPrecision, {"format": "bf16"}),
    "fp16ring": (HalfPrecisionRing, {"format": "fp16"}),
    "bf16ring": (HalfPrecisionRing, {"format": "bf16"}),
    "qsgd": (QSGD, {}),
    "qgz": (TwoPhase, {}),
    "terngrad": (TernGrad, {}),
    "natural": (Natural, {}),
    "signsgd": (SignSGD, {}),
    "efsignsgd": (EFSignSGD, {}),
    "onebit": (OneBitSGD, {}),
    "topk": (TopK, {}),
    "oktopk": (OkTopK, {}),
    "threshold": (Threshold, {}),
    "randomk": (RandomK, {}),
    "dgc": (DGC, {}),
    "powersgd": (PowerSGD, {}),
    "thc": (THC, {}),
}
OWN = tuple(_NAMES)
"""The names that jaxina itself registers."""


def names() -> list[str]:
    """Lists all names that a spec string may start with."""
    return list(_NAMES)


def register(name: str, kind: type[Compressor], **preset: Any) -> None:
    """Gives a compressor class a name for spec strings.

    A class of the same module and qualified name takes the place of the one before, so that a notebook's cell, or a
    module that is loaded again, may register it again. Compressors that `get` has made stay what they are.

    Args:
      name: the name.
      kind: the class.
      **preset: values for parameters of the class. Specs with this name cannot set these parameters.

    Raises:
      InvalidArgumentError: the name is jaxina's own, or another class has it, or no spec can have it; `kind` is no
        class of compressors, or has no such parameter.

    Example:
      >>> from jaxina import compressors
      >>> from jaxina.compressors.sparse import TopK
      >>> compressors.register("sparsest", TopK, ratio=0.001)
      >>> compressors.get("sparsest-ef")
      TopK(ef=False, ratio=0.001)
    """
    if not name or ":" in name or _split_feedback(name.strip()) != (name, None):
        raise InvalidArgumentError(
            f"{name!r} cannot be a compressor's name: a spec cannot begin with it. A name has no spaces around it, no "
            "colon, and no +ef or -ef at its end"
        )
    if not (isinstance(kind, type) and issubclass(kind, Compressor)):
        raise InvalidArgumentError(f"{kind!r} is not a subclass of Compressor")
    if unknown := preset.keys() - types_of(kind):
        raise InvalidArgumentError(f"{_origin(kind)} has no parameter {', '.join(sorted(unknown))} to preset")
    if name in OWN:
        raise InvalidArgumentError(f"{name!r} is the name of one of jaxina's own compressors: choose another one")
    before = _origin(_NAMES[name][0]) if name in _NAMES else _origin(kind)
    if before != _origin(kind):
        raise InvalidArgumentError(
            f"there is already a compressor with the name {name!r}, {before}: choose another name for {_origin(kind)}"
        )
    _NAMES[name] = (kind, preset)


def _origin(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def get(spec: str) -> Compressor:
    """Makes the compressor that a spec string describes.

    Args:
      spec: the spec string; `jaxina.compressors.registry` has the grammar.

    Raises:
      InvalidArgumentError: the name, a parameter or a value is unknown or not allowed. The message says which.

    Example:
      >>> from jaxina import compressors
      >>> compressors.get("qsgd:64:bucket=1024+ef")
      QSGD(ef=True, levels=64, bucket=1024)
    """
    if not isinstance(spec, str):
        raise InvalidArgumentError(
            f"a compressor's spec is a string such as 'topk:0.01', not {spec!r}; 'none' compresses nothing"
        )
    body, ef = _split_feedback(spec.strip())
    name, *arguments = body.split(":")
    if name not in _NAMES:
        raise InvalidArgumentError(
            f"no compressor {name!r} in {spec!r}{_meant(name, _NAMES)}; there are {', '.join(_NAMES)}"
        )
    kind, preset = _NAMES[name]
    values: dict[str, Any] = {}
    types = _settable(name)
    order = iter([key for key in types if types[key] is not bool])
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals and types.get(argument) is bool:
            values[argument] = True
            continue
        if not equals:
            key, text = next(order, ""), argument
        if key not in types or types[key] is bool or key in values:
            raise InvalidArgumentError(
                f"{argument!r} in {spec!r} is not a parameter of {name}, or one too many{_meant(argument, types)}; "
                f"{_allowed(name)}"
            )
        try:
            values[key] = types[key](text)
        except ValueError:
            raise InvalidArgumentError(
                f"{text!r} in {spec!r} is not of type {types[key].__name__}, as {key} is{_meant(text, types)}; "
                f"{_allowed(name)}"
            ) from None
    return kind(**preset, **values, ef=ef)


def chosen(compressor: Compressor | str) -> Compressor:
    """Returns the compressor itself, or the one that a spec string describes.

    Raises:
      InvalidArgumentError: as `get`.
    """
    return compressor if isinstance(compressor, Compressor) else get(compressor)


def parameters(name: str) -> list[str]:
    """Describes the parameters of a name in the order in which bare values set them: ``ratio=0.01``.

    A boolean parameter, which its bare name switches on, is the name alone.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(_NAMES[name][0])}
    return [key if kind is bool else f"{key}={defaults[key]}" for key, kind in _settable(name).items()]


def _settable(name: str) -> dict[str, type]:
    """Returns the types of the parameters that specs with this name may set."""
    kind, preset = _NAMES[name]
    return {key: value for key, value in types_of(kind).items() if key not in preset}


def _allowed(name: str) -> str:
    return f"{name} takes {', '.join(parameters(name)) or 'no parameters'}"


def _meant(word: str, known: Iterable[str]) -> str:
    """Asks whether similar words were meant."""
    similar = difflib.get_close_matches(word.lower(), list(known))
    return f", did you mean {' or '.join(similar)}?" if similar else ""


def spec_of(compressor: Compressor) -> str:
    """Finds the shortest spec string that `get` turns into this compressor.

    Raises:
      InvalidArgumentError: no spec stands for this compressor: its class is not registered, or only with other presets;
        or a spec cannot say a value, such as a string with a colon.
    """
    candidates = [_spelled(compressor, *entry) for entry in _NAMES.items() if entry[1][0] is type(compressor)]
    fitting = [spec for spec in candidates if spec is not None and _makes(spec, compressor)]
    if not fitting:
        raise InvalidArgumentError(f"no spec string makes this {type(compressor).__name__}: register() a name for it")
    return min(fitting, key=len)


def _spelled(compressor: Compressor, name: str, entry: tuple[type[Compressor], dict[str, Any]]) -> str | None:
    kind, preset = entry
    if any(getattr(compressor, key) != value for key, value in preset.items()):
        return None
    parts = [name]
    for field in dataclasses.fields(kind):
        value = getattr(compressor, field.name)
        if field.name == "ef" or field.name in preset or value == field.default:
            continue
        parts.append(field.name if value is True else f"{field.name}={value}")
    return ":".join(parts) + {None: "", True: "+ef", False: "-ef"}[compressor.ef]


def _makes(spec: str, compressor: Compressor) -> bool:
    try:
        return get(spec) == compressor
    except InvalidArgumentError:
        return False


def _split_feedback(spec: str) -> tuple[str, bool | None]:
    for ending, ef in (("+ef", True), ("-ef", False)):
        if spec.endswith(ending):
            return spec[: -len(ending)], ef
    return spec, None
