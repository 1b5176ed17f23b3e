"""Compiles statements of P4 to Python functions of a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lark import Tree

from interpreter.errors import UndefinedError
from interpreter.expressions import Expressions, Place, listed
from interpreter.p4_types import BOOLEAN, Bits
from interpreter.passing import Pass
from interpreter.values import Unknown

Step = Callable[[Pass], object]


def sequence(steps: Iterable[Step]) -> Step:
    steps = tuple(steps)
    if len(steps) == 1:
        return steps[0]

    def run(p: Pass) -> None:
        for step in steps:
            step(p)

    return run


def compile_block(block: Tree, expressions: Expressions) -> Step:
    """Compiles a block in `{ }`, or a list of statements."""
    statements = block.children[0] if block.data == "block" else block
    inner = expressions.inside(expressions.path)
    return sequence([_STATEMENTS[tree.data](tree, inner) for tree in listed(statements)])


def _variable(tree: Tree, expressions: Expressions) -> Step:
    type_tree, name, initial = tree.children
    place = Place(f"{expressions.path}#{name}", expressions.type(type_tree))
    path = place.path
    value = (lambda p: None) if initial is None else expressions.fitted(initial, place.type).run
    expressions.scope[str(name)] = place

    def begin(p: Pass) -> None:
        p.values.pop(path, None)
        if initial is not None:
            p.values[path] = value(p)

    return begin


def _assignment(tree: Tree, expressions: Expressions) -> Step:
    target, source = tree.children
    if target.data == "slice":
        return _slice_assignment(target, source, expressions)
    place = expressions.written(target)
    path, run = place.path, expressions.fitted(source, place.type).run

    def assign(p: Pass) -> None:
        p.values[path] = run(p)

    def assign_once(p: Pass) -> None:
        if p.values.get(path, 0) != 0:
            raise UndefinedError(f"sets {path} a second time")
        p.values[path] = run(p)

    return assign_once if expressions.in_parser else assign


def _slice_assignment(target: Tree, source: Tree, expressions: Expressions) -> Step:
    whole, _, low = target.children
    place, type = expressions.written(whole), expressions.compile(target).type
    assert isinstance(type, Bits) and isinstance(place.type, Bits)
    shift, path = expressions.constant(low), place.path
    kept = place.type.mask & ~(type.mask << shift)
    unset, run = Unknown(0, place.type.mask, path), expressions.fitted(source, type).run

    def assign(p: Pass) -> None:
        p.values[path] = p.values.get(path, unset) & kept | run(p) << shift

    return assign


def _call_statement(tree: Tree, expressions: Expressions) -> Step:
    return expressions.compile(tree.children[0]).run


def _nothing(p: Pass) -> None:
    pass


def _conditional(tree: Tree, expressions: Expressions) -> Step:
    condition, then, otherwise = tree.children
    holds, text = expressions.fitted(condition, BOOLEAN).run, expressions.text_of(condition)
    first = compile_block(then, expressions)
    second: Step = _nothing
    if otherwise is not None:
        compile_ = compile_block if otherwise.data == "block" else _conditional
        second = compile_(otherwise, expressions)

    def branch(p: Pass) -> None:
        try:
            taken = bool(holds(p))
        except UndefinedError as error:
            raise UndefinedError(f"if ({text}) {error}") from None
        (first if taken else second)(p)

    return branch


_STATEMENTS: dict[str, Callable[[Tree, Expressions], Step]] = {
    "variable": _variable,
    "assignment": _assignment,
    "call_statement": _call_statement,
    "conditional": _conditional,
}
