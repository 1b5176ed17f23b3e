"""Finds the value of each setting."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from jaxina._native import MAX_BLOCKS_PER_CHUNK
from jaxina.config.checks import check_together
from jaxina.config.kinds import Kind
from jaxina.config.settings import (
    DEFAULT_BLOCK_SIZE,
    EMBEDDED_ON_GPU,
    PREFIX,
    RING_AND_SWITCH,
    Configuration,
    fields,
    variable,
)
from jaxina.errors import InvalidArgumentError


def resolve(environ: Mapping[str, str] | None = None, *, on_gpu: bool = False, **arguments: Any) -> Configuration:
    """Resolves the configuration.

    Args:
      environ: the environment; None means `os.environ`.
      on_gpu: whether the process has a GPU.
      **arguments: values of settings, by name. One that is None is not given.

    Raises:
      InvalidArgumentError: a value is not allowed, or values do not fit together. The message names the value and says
        what is allowed.

    Example:
      >>> from jaxina import config
      >>> configuration = config.resolve({"JAXINA_SLOTS": "16"}, aggregator="udp")
      >>> configuration.slots, configuration.origins["slots"], configuration.origins["timeout"]
      (16, 'environment', 'default')
    """
    environ = os.environ if environ is None else environ
    for name in arguments:
        if name not in {field.name for field in fields()}:
            raise not_a_setting(name)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for field in fields():
        name, kind, default = field.name, field.metadata["kind"], field.metadata["default"]
        if arguments.get(name) is not None:
            values[name], origins[name] = _read(kind, name, arguments[name]), "argument"
        elif environ.get(variable(name), "") != "":
            values[name], origins[name] = (
                _read(kind, variable(name), environ[variable(name)]),
                "environment",
            )
        else:
            values[name], origins[name] = _default_of(default, values, origins, on_gpu), "default"
            if name == "blocks_per_chunk":  # keep the chunk's size
                blocks = DEFAULT_BLOCK_SIZE * values[name] // values["block_size"]
                values[name] = min(max(blocks, 1), MAX_BLOCKS_PER_CHUNK)
    configuration = Configuration(**values, origins=origins)
    check_together(configuration)
    return configuration


def _default_of(default: Any, values: Mapping[str, Any], origins: Mapping[str, str], on_gpu: bool) -> Any:
    """The default of a setting, given those before it."""
    if not isinstance(default, dict):
        return default
    named = origins["switch"] != "default"
    if values["aggregator"] == "netreduce" and named and RING_AND_SWITCH in default:
        return default[RING_AND_SWITCH]
    if values["aggregator"] == "embedded" and on_gpu and EMBEDDED_ON_GPU in default:
        return default[EMBEDDED_ON_GPU]
    return default[values["aggregator"]]


def _read(kind: Kind, name: str, value: Any) -> Any:
    try:
        return kind.parse(str(value).strip())
    except ValueError:
        given = name if kind.secret else f"{name}={value!r}"
        raise InvalidArgumentError(f"{given} is not allowed: give {kind.allowed}") from None


def not_a_setting(name: str) -> InvalidArgumentError:
    """Makes the error for a name that no setting has."""
    return InvalidArgumentError(f"{name!r} is not a setting; `jaxina info` lists them")


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Lists variables that start with ``JAXINA_`` but are not settings. Most likely they are typing errors."""
    known = {variable(field.name) for field in fields()}
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)
