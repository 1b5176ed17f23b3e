"""Compiles statements of P4 to lines of Python (`python_code`)."""

from __future__ import annotations

from collections.abc import Callable

from lark import Tree

from interpreter.expressions import Expressions, Place, listed
from interpreter.p4_types import BOOLEAN, Bits
from interpreter.passing import Pass
from interpreter.python_code import explained, indented

Step = Callable[[Pass], object]


def compile_block(block: Tree, expressions: Expressions) -> list[str]:
    """Compiles a block in `{ }`, or a list of statements."""
    statements = block.children[0] if block.data == "block" else block
    inner = expressions.inside(expressions.path)
    return [line for tree in listed(statements) for line in _STATEMENTS[tree.data](tree, inner)]


def _variable(tree: Tree, expressions: Expressions) -> list[str]:
    type_tree, name, initial = tree.children
    place = Place(f"{expressions.path}#{name}", expressions.type(type_tree))
    value = None if initial is None else expressions.fitted(initial, place.type).text
    expressions.scope[str(name)] = place
    return [f"values.pop({place.path!r}, None)" if value is None else f"{place.held} = {value}"]


def _assignment(tree: Tree, expressions: Expressions) -> list[str]:
    target, source = tree.children
    if target.data == "slice":
        return _slice_assignment(target, source, expressions)
    place = expressions.written(target)
    line = f"{place.held} = {expressions.fitted(source, place.type).text}"
    if not expressions.in_parser:
        return [line]
    message = f"sets {place.path} a second time"
    return [f"if get({place.path!r}, 0) != 0:", f"    raise UndefinedError({message!r})", line]


def _slice_assignment(target: Tree, source: Tree, expressions: Expressions) -> list[str]:
    whole, _, low = target.children
    place, type = expressions.written(whole), expressions.compile(target).type
    assert isinstance(type, Bits) and isinstance(place.type, Bits)
    shift = expressions.constant(low)
    kept = place.type.mask & ~(type.mask << shift)
    before = expressions.read(Place(place.path, place.type, local=place.local), place.type)
    return [f"{place.held} = {before} & {kept} | {expressions.fitted(source, type).text} << {shift}"]


def _call_statement(tree: Tree, expressions: Expressions) -> list[str]:
    return expressions.compile(tree.children[0]).lines


def _conditional(tree: Tree, expressions: Expressions) -> list[str]:
    condition, then, otherwise = tree.children
    holds, text = expressions.fitted(condition, BOOLEAN).text, expressions.text_of(condition)
    lines = explained([f"taken = not not {holds}"], f"if ({text}) ")
    lines += ["if taken:", *indented(compile_block(then, expressions))]
    if otherwise is not None:
        compile_ = compile_block if otherwise.data == "block" else _conditional
        lines += ["else:", *indented(compile_(otherwise, expressions))]
    return lines


_STATEMENTS: dict[str, Callable[[Tree, Expressions], list[str]]] = {
    "variable": _variable,
    "assignment": _assignment,
    "call_statement": _call_statement,
    "conditional": _conditional,
}
