"""The private names of JAX that `jaxina/_jax_compat` uses, read from its source, and what each must be."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "jaxina" / "_jax_compat"

# Takes what stands under a name and says what is wrong with it, or None.
Expectation = Callable[[Any], str | None]


def _is_private(node: ast.ImportFrom) -> bool:
    return (node.module or "").startswith("jax._src") or node.module == "jaxlib"


def imported(*, without: tuple[str, ...] = ()) -> set[tuple[str, str]]:
    """(module, name) of all that the folder imports from private modules of JAX, but for the files `without`."""
    return {
        (node.module, alias.name)
        for path in FOLDER.glob("*.py")
        if path.name not in without
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and _is_private(node)
        for alias in node.names
    }


def used() -> set[str]:
    """Dotted names: all that the folder imports, and the attributes that it takes from that."""
    names = set()
    for path in FOLDER.glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        private = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in nodes
            if isinstance(node, ast.ImportFrom) and _is_private(node)
            for alias in node.names
        }
        names.update(private.values())
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in private:
                names.add(f"{private[node.value.id]}.{node.attr}")
    return names


def find(name: str) -> Any:
    """What stands under a dotted name. Raises ImportError or AttributeError, which name the part that is missing."""
    parts = name.split(".")
    found, length = importlib.import_module(parts[0]), 1
    while length < len(parts):
        try:
            found = getattr(found, parts[length])
        except AttributeError:
            if not inspect.ismodule(found):
                raise
            found = importlib.import_module(".".join(parts[: length + 1]))
        length += 1
    return found


def problem(name: str, expectation: Expectation) -> str | None:
    """What has become of a private name, with the name in it; None if it is as expected."""
    try:
        found = find(name)
    except (ImportError, AttributeError) as error:
        return f"{name} is gone: {error}"
    wrong = expectation(found)
    return None if wrong is None else f"{name} has changed: {wrong}"


def signature(found: Any) -> inspect.Signature:
    """The signature of a function in Python or in a nanobind module."""
    overloads = getattr(found, "__nb_signature__", None)
    if overloads is None:
        return inspect.signature(found)
    text = re.sub(r"\\\d+", "None", overloads[0][0])  # nanobind writes defaults as numbered places
    scope: dict[str, Any] = {}
    exec(f"from __future__ import annotations\n{text}: ...", scope)
    return inspect.signature(scope[text.removeprefix("def ").partition("(")[0]])


def takes(*arguments: Any, **named: Any) -> Expectation:
    """It can be called with so many arguments, and with those named."""

    def check(found: Any) -> str | None:
        try:
            signature(found).bind(*arguments, **named)
        except (TypeError, ValueError) as error:
            return f"a call with {len(arguments)} arguments and {sorted(named)} fails: {error}"
        return None

    return check


def begins_with(*names: str, later: tuple[str, ...] = ()) -> Expectation:
    """Its first parameters have these names, in this order; those in `later` come somewhere."""

    def check(found: Any) -> str | None:
        parameters = list(signature(found).parameters)
        if parameters[: len(names)] == list(names) and set(later) <= set(parameters):
            return None
        return f"its parameters are {', '.join(parameters)}"

    return check


def has(*attributes: str) -> Expectation:
    """It has these attributes; a dataclass, NamedTuple or class with slots has them as fields."""

    def check(found: Any) -> str | None:
        known = {*dir(found), *getattr(found, "__annotations__", ()), *getattr(found, "__dataclass_fields__", ())}
        missing = [attribute for attribute in attributes if attribute not in known]
        return f"it has no {', '.join(missing)}" if missing else None

    return check


def gives(kind: type | types.UnionType, call: Callable[[Any], Any]) -> Expectation:
    """`call` of it gives a value of this type."""

    def check(found: Any) -> str | None:
        try:
            value = call(found)
        except (TypeError, AttributeError, KeyError, IndexError) as error:
            return f"its use fails: {error!r}"
        return None if isinstance(value, kind) else f"its use gives {value!r}"

    return check


def whose(attribute: str, expectation: Expectation) -> Expectation:
    """It has the attribute, and that is as expected."""

    def check(found: Any) -> str | None:
        wrong = has(attribute)(found) or expectation(getattr(found, attribute))
        return wrong and f"{attribute}: {wrong}"

    return check


def is_a(kind: type | types.UnionType) -> Expectation:
    return gives(kind, lambda found: found)
