"""This process's limit on open files."""

from __future__ import annotations

import math
import os
import resource

from jaxina.errors import SystemCallError


def make_room(what: str, needed: int, wished: int = 0) -> int:
    """Raises the soft limit, as far as that is needed and the hard limit allows. Child processes inherit it.

    Args:
      what: what opens the files, in words.
      needed: how many files it opens, besides those that are open now.
      wished: how many more it would like to open.

    Returns:
      How many of the `wished` files fit.

    Raises:
      SystemCallError: the hard limit is too low for the needed ones.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = len(os.listdir("/proc/self/fd")) + needed
    allowed = _limit(soft)
    if allowed < least + wished:
        allowed = max(allowed, min(least + wished, _limit(hard)))
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(allowed), hard))
    if allowed < least:
        raise SystemCallError(
            f"{what} would have {least} files open at once, but the hard limit on open files is {hard} (`ulimit -Hn`): "
            "raise it, for example by `nofile` in /etc/security/limits.conf, LimitNOFILE of systemd or `docker run "
            f"--ulimit nofile={least}`"
        )
    return int(min(wished, allowed - least))


def _limit(number: int) -> float:
    return math.inf if number == resource.RLIM_INFINITY else number
