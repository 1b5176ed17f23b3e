"""What a job is asked to be."""

from __future__ import annotations

import dataclasses
import math

from jaxina._native import JobShape
from jaxina.control import limits
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class JobSpec:
    shape: JobShape  # of the group's devices in its processes, the job's workers
    join_timeout: float  # seconds until a job that nobody joins is dropped, if not earlier
    heartbeat_timeout: float  # seconds of silence after which a session is dead

    def __post_init__(self) -> None:
        """Raises InvalidArgumentError if these times cannot be."""
        times = (self.join_timeout, self.heartbeat_timeout)
        most = limits.MAX_TIMEOUT
        if not all(math.isfinite(t) and 0 < t <= most for t in times):
            raise InvalidArgumentError(f"the times of a job are above 0 and at most {most:g} s, not {times}")
