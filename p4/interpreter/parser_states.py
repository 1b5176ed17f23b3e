"""Compiles a parser. Each of its states takes something off the packet and chooses the next state."""

from __future__ import annotations

from lark import Tree

from interpreter.errors import RejectedError, UndefinedError
from interpreter.expressions import Expressions, listed
from interpreter.matching import all_match, keyset
from interpreter.passing import Pass
from interpreter.statements import Step, compile_block
from interpreter.values import Value

_END = "accept"
_MOST_STATES = 256  # that one packet may go through


def compile_parser(tree: Tree, expressions: Expressions) -> Step:
    states = {}
    for state in tree.children[3].children:
        name, statements, transition = state.children
        lines = [*compile_block(statements, expressions), f"return {_transition(transition, expressions)}"]
        states[str(name)] = expressions.python.function(lines)

    def parse(p: Pass) -> None:
        name = "start"
        for _ in range(_MOST_STATES):
            try:
                name = states[name](p)
            except UndefinedError as error:
                raise UndefinedError(f"parser state {name} {error}") from None
            if name == _END:
                return
        raise UndefinedError(f"does not leave the parser, whose last state was {name}")

    return parse


def _transition(tree: Tree, expressions: Expressions) -> str:
    """Returns the text of the next state's name."""
    if tree.data == "goto":
        return repr(str(tree.children[0]))
    arguments, cases_tree = tree.children
    codes = [expressions.compile(argument) for argument in listed(arguments)]
    types = [code.type for code in codes]
    cases = [(keyset(case.children[0], types, expressions), str(case.children[1])) for case in cases_tree.children]

    def select(*values: Value) -> str:
        for matches, target in cases:
            if all_match(matches, values):
                return target
        raise RejectedError("no case of a select holds")

    return f"{expressions.python.name(select)}({', '.join(code.text for code in codes)})"
