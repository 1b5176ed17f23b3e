"""What a process writes when its job ends: a summary to the log, its statistics and its timeline to files."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from jaxina import _override, _report, trace_file
from jaxina.errors import SystemCallError

_log = logging.getLogger("jaxina")


def sum_up(processes: int, statistics: dict[str, int]) -> None:
    """Logs what was carried, or warns that nothing was.

    Args:
      processes: how many processes the job has.
      statistics: the counters of this process's engine since `jaxina.init`.
    """
    found = _report.report()
    stays = "; ".join(
        f"{number} collective{'s' * (number > 1)} with XLA ({why})" for why, number in found.stays.items()
    )
    if statistics["collectives"]:
        sums, elements = statistics["collectives"], statistics["elements"]
        what = f"carried {sums} sum{'s' * (sums > 1)}, of {elements} element{'s' * (elements > 1)} in all"
        if lost := statistics["rounded_to_zero"]:
            what += f"; {lost} numbers of process 0 were rounded to zero, beside much larger ones in their block"
        _log.info("%s%s", what, f"; {stays}" if stays else "")
    elif any(program.carried for program in found.programs):
        _log.info("no sum was carried: the collectives that jaxina carries are not sums, or were not run")
    elif found.programs or processes > 1:
        why = _override.unavailable or stays or "no program with a collective was compiled after jaxina.init()"
        _log.warning("no sum was carried: %s", why)


def write_statistics(path: str, record: Mapping[str, object]) -> None:
    """Writes the record to the file, as JSON.

    Raises:
      SystemCallError: the file cannot be written.
    """
    partial = Path(f"{path}.{os.getpid()}")
    try:
        partial.write_text(json.dumps(record), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise SystemCallError(f"cannot write {path} (JAXINA_STATS_FILE): {error.strerror}") from error


def write_trace(path: str, process: int, processes: int, aggregator: str) -> None:
    """Writes this process's timeline. With several processes the file's name gets the process's number.

    Raises:
      SystemCallError: the file cannot be written.
    """
    from jaxina import _native

    events, passes, overwritten = _native.take_trace(process, f"worker {process} of {processes}, {aggregator}")
    own = trace_file.of_process(path, process, processes)
    try:
        trace_file.write(own, events)
    except OSError as error:
        raise SystemCallError(f"cannot write {own} (JAXINA_TRACE): {error.strerror}") from error
    _log.info("%d passes in %s", passes, own)
    if overwritten:
        _log.warning(
            "the timeline of process %d lacks its first %d events, for which there was no room", process, overwritten
        )
