"""Where jaxina's log goes, and from which level on."""

from __future__ import annotations

import logging
import os

from jaxina import config

_log = logging.getLogger("jaxina")


def set_up(configuration: config.Configuration) -> None:
    """Sets the level, and writes to standard error if the program has set up no handler of its own.

    It warns of each variable of the environment that starts with ``JAXINA_`` and is not a setting.
    """
    _log.setLevel(configuration.log.upper())
    if not _log.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("jaxina: %(levelname)s: %(message)s"))
        _log.addHandler(handler)
        _log.propagate = False  # the root logger may get a handler later, from absl for example
    for name in config.unknown_variables(os.environ):
        _log.warning("%s is not a jaxina variable (see `jaxina info`)", name)
