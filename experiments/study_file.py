"""Checks the entries of a study's file, so that a mistake is named before anything trains.

`experiments.grid` has an example of such a file.
"""

from __future__ import annotations

import contextlib
import difflib
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments import workloads
from experiments.workloads.base import SIZES
from jaxina import compressors
from jaxina.compressors.uncompressed import Uncompressed
from jaxina.errors import InvalidArgumentError

DEPLOYED = "deployed"
COLLECTIVES = ("xla", "jaxina", DEPLOYED)
NEEDED = ("results", "workloads", "compressors", "margins")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)  # a bool is no number here


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _list_of(is_one: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) > 0 and all(map(is_one, value))


def _one_of(allowed: Iterable[str]) -> tuple[str, Callable[[Any], bool]]:
    return f"one of {', '.join(allowed)}", lambda value: value in allowed


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


# What each entry is, in words, and whether a value is that.
Entries = Mapping[str, tuple[str, Callable[[Any], bool]]]

ENTRIES: Entries = {
    "results": ("the name of the file of results, a string", _is_text),
    "workloads": ('a list of workloads, such as ["ncf"]', _list_of(_is_text)),
    "compressors": ('a list of specs, such as ["none", "topk:0.1"]', _list_of(_is_text)),
    "workers": ("a list of numbers of at least 1, such as [4, 16]", _list_of(_is_count)),
    "seeds": ("a number of at least 1", _is_count),
    "steps": ("a number of at least 1", _is_count),
    "size": _one_of(SIZES),
    "collective": _one_of(COLLECTIVES),
    "margins": (
        "a table with a number for each workload",
        lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
    ),
    "pairs": (
        'a list of pairs of specs, such as [["int8", "int32"]]',
        _list_of(lambda pair: _list_of(_is_text)(pair) and len(pair) == 2),
    ),
    "rates": ("a table", lambda value: isinstance(value, dict)),
}
RATES: Entries = {
    "scales": ("a list of numbers, such as [0.5, 1.0, 2.0]", _list_of(_is_number)),
    "seeds": ("a number of at least 1", _is_count),
    "smallest": ("a number", _is_number),
    "largest": ("a number", _is_number),
}


@contextlib.contextmanager
def naming(file: Path) -> Iterator[None]:
    """Puts the file's name before the message of an InvalidArgumentError inside."""
    try:
        yield
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{file}: {error.message}") from None


@contextlib.contextmanager
def one_line() -> Iterator[None]:
    """Ends the process with one line and the status 2 if an InvalidArgumentError comes out of it."""
    try:
        yield
    except InvalidArgumentError as error:
        print(f"error: {error.message}", file=sys.stderr)
        raise SystemExit(2) from None


def entries(file: Path) -> dict[str, Any]:
    """Reads a study's file, and checks each entry by itself.

    Raises:
      InvalidArgumentError: it cannot be read, or is not TOML; an entry is missing, unknown or of another type; there is
        no such workload or compressor; no compressor is the baseline; or a pair has another compressor than the study.
    """
    try:
        values = tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidArgumentError(f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidArgumentError(f"not TOML: {error}") from None
    _check(values, ENTRIES, "")
    _check(values.get("rates", {}), RATES, "rates.")
    missing = [name for name in NEEDED if name not in values]
    if missing:
        raise InvalidArgumentError(f"a study needs {', '.join(NEEDED)}; there is no {', '.join(missing)}")
    for name in values["workloads"]:
        if name not in workloads.names():
            raise InvalidArgumentError(f"no workload {name!r}; there are {', '.join(workloads.names())}")
    made = [compressors.get(spec) for spec in values["compressors"]]
    if not any(isinstance(compressor, Uncompressed) for compressor in made):
        raise InvalidArgumentError(
            "compressors lack none, which is float32: without it there is nothing to compare with"
        )
    for spec in (spec for pair in values.get("pairs", []) for spec in pair):
        if compressors.get(spec) not in made:
            raise InvalidArgumentError(f"pairs have {spec}, which is none of the compressors")
    return values


def _check(values: Mapping[str, Any], known: Entries, before: str) -> None:
    for name, value in values.items():
        if name not in known:
            meant = difflib.get_close_matches(name, known, n=1)
            guess = f", did you mean {before}{meant[0]}?" if meant else ""
            allowed = ", ".join(before + one for one in known)
            raise InvalidArgumentError(f"unknown entry {before}{name}{guess}; allowed are {allowed}")
        words, is_allowed = known[name]
        if not is_allowed(value):
            raise InvalidArgumentError(f"{before}{name} = {value!r} is not {words}")
