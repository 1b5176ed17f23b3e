"""The configuration. ``jaxina.config.settings`` declares every ``JAXINA_*`` variable, once.

A value comes from an argument of `jaxina.init` or an option of the command line. If there is none, it comes from the
environment, and else from the default. ``jaxina info`` prints all settings, and where each value came from.
"""

from jaxina._native import MAX_WORKERS
from jaxina.config.addresses import RdmaDevice, split_address
from jaxina.config.checks import check_used
from jaxina.config.resolution import not_a_setting, resolve, unknown_variables
from jaxina.config.settings import (
    AGGREGATORS,
    BITS,
    DEFAULT_BLOCK_SIZE,
    ROUNDINGS,
    Configuration,
    default_text,
    fields,
    shown,
    variable,
)

__all__ = [
    "AGGREGATORS",
    "BITS",
    "DEFAULT_BLOCK_SIZE",
    "MAX_WORKERS",
    "ROUNDINGS",
    "Configuration",
    "RdmaDevice",
    "check_used",
    "default_text",
    "fields",
    "not_a_setting",
    "resolve",
    "shown",
    "split_address",
    "unknown_variables",
    "variable",
]
