"""Reads the program's text: runs the C preprocessor, and parses the output by `grammar.lark`."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path

import lark

from interpreter.errors import ProgramError

_FOLDER = Path(__file__).parent
_TIMEOUT = 60  # seconds; the preprocessor takes far less


def preprocess(program: Path, definitions: Sequence[str] = ()) -> str:
    """Runs the C preprocessor. Raises ProgramError with its message if it fails."""
    command = ["cpp", "-P", "-undef", "-nostdinc", f"-I{_FOLDER / 'architecture'}"]
    command += [*(f"-D{definition}" for definition in definitions), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    if done.returncode:
        raise ProgramError(done.stderr)
    return done.stdout


def parse(text: str) -> lark.Tree:
    """Parses the text. Raises ProgramError with the place that it does not understand."""
    try:
        return _grammar().parse(text)
    except lark.exceptions.UnexpectedInput as error:
        raise ProgramError(f"{error}\n{error.get_context(text)}") from None


@functools.cache
def _grammar() -> lark.Lark:
    rules = (_FOLDER / "grammar.lark").read_text()
    return lark.Lark(rules, parser="lalr", propagate_positions=True)
