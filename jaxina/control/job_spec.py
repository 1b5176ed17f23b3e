"""What a caller asks for when it has a switch make a job."""

from __future__ import annotations

import dataclasses
import math

from jaxina._native import JobShape
from jaxina.control import limits
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class JobSpec:
    """The specification of a job.

    Attributes:
      shape: the job's shape. Its workers are the processes of a group of devices.
      join_timeout: after how many seconds a job that nobody has joined is dropped, at the latest.
      heartbeat_timeout: after how many seconds of silence a session counts as dead.
      encrypt: whether the job's packets are to be encrypted.
    """

    shape: JobShape
    join_timeout: float
    heartbeat_timeout: float
    encrypt: bool = False

    def __post_init__(self) -> None:
        """Raises InvalidArgumentError if a time is not allowed."""
        times = (self.join_timeout, self.heartbeat_timeout)
        most = limits.MAX_TIMEOUT
        if not all(math.isfinite(t) and 0 < t <= most for t in times):
            raise InvalidArgumentError(f"the timeouts of a job must be above 0 and at most {most:g} s, not {times}")
