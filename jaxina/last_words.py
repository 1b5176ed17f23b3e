"""What a launched process prints when an error of jaxina's ends it: one line, and the error's code for the launcher.

When one worker fails, all others fail because of it. Their tracebacks would bury the one that matters.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import traceback
from pathlib import Path
from types import TracebackType

import jax

from jaxina.errors import JaxinaError, from_exception

_log = logging.getLogger("jaxina")
_LIBRARIES = tuple(str(Path(module).resolve().parent) + os.sep for module in (jax.__file__, __file__))

_installed = False


def install(file: str) -> None:
    """From now on, an uncaught jaxina error is printed as one line, and its code is written to `file`."""
    global _installed
    if _installed:
        return
    _installed = True
    usual = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        cause = from_exception(error)
        if cause is not None:
            with contextlib.suppress(OSError):
                Path(file).write_text(json.dumps({"code": cause.code, "message": cause.message}))
        if cause is None or _log.isEnabledFor(logging.DEBUG):
            usual(kind, error, trace)
        else:
            print(_line(cause, trace), file=sys.stderr, flush=True)

    sys.excepthook = hook


def _line(cause: JaxinaError, trace: TracebackType | None) -> str:
    frames = [frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith(_LIBRARIES)]
    where = f", at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"jaxina: {cause.code}: {cause.message}{where} (JAXINA_LOG=debug shows the traceback)"
