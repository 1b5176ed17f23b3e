"""The Python stacks of this process, without what would bury the program's own lines."""

from __future__ import annotations

import linecache
import sys
import threading
from types import FrameType

from jaxina.watchdog.state import Stack

_MOST = 16  # frames of a stack that are shown


def stacks(libraries: tuple[str, ...]) -> tuple[Stack, ...]:
    """The stack of the main thread, and of threads that are not Python's own and run code outside the libraries.

    Such a thread is XLA's, and runs a callback of the program.

    Args:
      libraries: folders of code whose frames are left out. The innermost frame always stays.
    """
    frames = sys._current_frames()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    found = []
    for ident, frame in sorted(frames.items(), key=lambda item: item[0] != main):
        known = names.get(ident)
        # A thread that another language started has a name of this form as soon as it asks for one.
        foreign = known is None or known.startswith("Dummy-")
        if ident == main or (foreign and _has_own_code(frame, libraries)):
            found.append(Stack("main thread" if ident == main else "callback", _lines(frame, libraries)))
    return tuple(found)


def _has_own_code(frame: FrameType | None, libraries: tuple[str, ...]) -> bool:
    while frame is not None:
        if not _is_library(frame, libraries):
            return True
        frame = frame.f_back
    return False


def _is_library(frame: FrameType, libraries: tuple[str, ...]) -> bool:
    name = frame.f_code.co_filename
    return name.startswith((*libraries, "<frozen"))


def _lines(innermost: FrameType, libraries: tuple[str, ...]) -> tuple[str, ...]:
    shown: list[str] = []
    frame: FrameType | None = innermost
    while frame is not None and len(shown) < _MOST:
        if frame is innermost or not _is_library(frame, libraries):
            code = frame.f_code
            source = linecache.getline(code.co_filename, frame.f_lineno).strip()
            shown.append(f"{code.co_filename}:{frame.f_lineno} in {code.co_name}" + (f": {source}" if source else ""))
        frame = frame.f_back
    return tuple(reversed(shown))
