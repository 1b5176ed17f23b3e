"""The public names that need JAX. Importing this module overrides JAX's psums; `jaxina` imports it when it must."""

from jaxina import _override
from jaxina._collectives import collectives
from jaxina._report import Program, Report, Stays, report
from jaxina.job import Job, init, shutdown

_override.install()

__all__ = ["Job", "Program", "Report", "Stays", "collectives", "init", "report", "shutdown"]
