"""Makes Python functions of the text that P4's expressions and statements become.

The text of an expression or statement knows these names:

    p       the pass
    values  p.values, and get, which is values.get
    valid   p.valid
    used    p.used

and those that `PythonCode.name` has given to Python's objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from interpreter.errors import UndefinedError
from interpreter.values import Unknown, largest

_KNOWN = {"values": "p.values", "get": "p.values.get", "valid": "p.valid", "used": "p.used"}


class PythonCode:
    """The functions of one program, and the objects that they use."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {"UndefinedError": UndefinedError, "Unknown": Unknown, "largest": largest}
        self._of_object: dict[int, str] = {}

    def name(self, thing: object) -> str:
        """Returns a name by which text can use an object."""
        name = self._of_object.setdefault(id(thing), f"object_{len(self._of_object)}")
        self._names[name] = thing
        return name

    def function(self, lines: Sequence[str], *parameters: str) -> Callable[..., Any]:
        """Returns a function of a pass and of more parameters."""
        body = "\n".join(indented(lines))
        known = [f"    {name} = {text}" for name, text in _KNOWN.items() if name in body]
        text = "\n".join([f"def made({', '.join(['p', *parameters])}):", *known, body])
        made: dict[str, Any] = {}
        exec(text, self._names, made)
        function: Callable[..., Any] = made["made"]
        return function


def indented(lines: Iterable[str]) -> list[str]:
    """Returns the lines of a block: `pass` if there are none."""
    return [f"    {line}" for line in lines] or ["    pass"]


def explained(lines: Iterable[str], what: str) -> list[str]:
    """Returns lines that do the same, but say in an UndefinedError where it was raised."""
    return [
        "try:",
        *indented(lines),
        "except UndefinedError as error:",
        f"    raise UndefinedError({what!r} + str(error)) from None",
    ]
