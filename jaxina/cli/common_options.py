"""What commands have in common, above all those that serve until Ctrl-C."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.logging import RichHandler

from jaxina import config
from jaxina.errors import InvalidArgumentError

if TYPE_CHECKING:
    from jaxina.control.tls import Tls


def announce(fd: int | None, address: str) -> None:
    """Tells the process that started this one where it listens."""
    if fd is not None:
        os.write(fd, f"{address}\n".encode())
        os.close(fd)


def host_in(option: str, address: str) -> str:
    """The host of an option's HOST:PORT.

    Raises:
      InvalidArgumentError: it is no such address.
    """
    try:
        return config.split_address(address)[0]
    except ValueError as error:
        raise InvalidArgumentError(f"{option}: {error}") from None


def read_token(file: Path | None) -> str | None:
    """The token in a file, or None if there is no file.

    Raises:
      InvalidArgumentError: the file cannot be read, or has no token in it.
    """
    if file is None:
        return None
    try:
        return config.resolve({}, token=file.read_text(encoding="utf-8")).token
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"--token-file {file}: {error.message}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"--token-file {file}: {error}") from None


def credentials(token_file: Path | None) -> tuple[str | None, Tls | None]:
    """The token, from the file of --token-file or JAXINA_TOKEN, and the certificate of this process."""
    from jaxina.control.tls import tls_of

    settings = config.resolve(token=read_token(token_file))
    return settings.token, tls_of(settings)


def log_to_terminal(quiet: bool) -> None:
    """Shows what jaxina logs."""
    console = Console(stderr=True)
    handler: logging.Handler
    if console.is_terminal:
        handler = RichHandler(console=console, show_path=False)
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("jaxina")
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
