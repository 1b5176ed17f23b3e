"""The files that commands write: whether they can be is found out before the work, and failures name the option."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from jaxina.errors import InvalidArgumentError, SystemCallError


def check_output(option: str, path: Path | None) -> None:
    """Checks, before the work, that an option's file can be written after it: its folder exists, and it is none itself.

    Raises:
      InvalidArgumentError: it cannot be written.
    """
    if path is None:
        return
    if not path.resolve().parent.is_dir():
        raise InvalidArgumentError(f"{option} {path}: there is no folder {path.resolve().parent}")
    if path.is_dir():
        raise InvalidArgumentError(f"{option} {path}: this is a folder. Give the name of a file")


@contextlib.contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """Turns the failure to write an option's file into a typed error.

    Raises:
      SystemCallError: the file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise SystemCallError(f"{option} {path}: cannot write the file: {error.strerror}") from error
