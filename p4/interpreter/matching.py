"""Matches: what table entries and the cases of a select compare a number with."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from lark import Tree

from interpreter.expressions import Expressions
from interpreter.p4_types import Bits, Boolean, Type
from interpreter.values import Unknown, Value


class Match(Protocol):
    def matches(self, value: Value) -> Value | bool:
        """Whether the value matches. Unknown if that depends on bits that nothing has set."""
        ...


@dataclasses.dataclass(frozen=True)
class Masked:
    value: int
    mask: int

    def matches(self, value: Value) -> Value | bool:
        return value & self.mask == self.value


@dataclasses.dataclass(frozen=True)
class Between:
    low: int
    high: int

    def matches(self, value: Value) -> Value | bool:
        if isinstance(value, Unknown):
            least, most = value.value, value.value | value.mask
            return (self.low <= least and most <= self.high) or Unknown(0, 1, value.origin)
        return self.low <= value <= self.high


@dataclasses.dataclass
class ValueSet:
    """A value set of a parser, whose members the controller enters."""

    width: int
    size: int
    members: list[Masked] = dataclasses.field(default_factory=list)

    def matches(self, value: Value) -> Value | bool:
        return any(member.matches(value) for member in self.members)


ANYTHING = Masked(0, 0)


def exactly(value: int, type: Bits | Boolean) -> Masked:
    return Masked(value, type.mask)


def all_match(matches: Sequence[Match], values: Sequence[Value]) -> bool:
    """Whether all values match. Raises UndefinedError if that depends on bits that nothing has set."""
    undecided = []
    for match, value in zip(matches, values, strict=True):
        answer = match.matches(value)
        if answer is False:
            return False
        if answer is not True:
            undecided.append(answer)
    return all(undecided)  # asking an Unknown for its truth raises UndefinedError


def keyset(tree: Tree, types: Sequence[Type], expressions: Expressions) -> list[Match]:
    """Compiles `(a, b &&& c, _)` to one match for each of the `types`. A lone `_` or `default` stands for all."""
    if len(tree.children) == 1 and tree.children[0].data == "anything":
        return [ANYTHING for _ in types]
    if len(tree.children) != len(types):
        raise expressions.error(tree, f"{len(types)} values are due")
    return [_match(part, type, expressions) for part, type in zip(tree.children, types, strict=True)]


def _match(tree: Tree, type: Type, expressions: Expressions) -> Match:
    if tree.data == "anything":
        return ANYTHING
    assert isinstance(type, Bits | Boolean)
    if tree.data == "masked":
        value, mask = (expressions.fitted(part, type).constant for part in tree.children)
        assert value is not None and mask is not None
        return Masked(value & mask, mask)
    if tree.data == "name":
        named = expressions.scope.get(str(tree.children[0]))
        if isinstance(named, ValueSet):
            return named
    value = expressions.fitted(tree, type).constant
    if value is None:
        raise expressions.error(tree, "not constant")
    return exactly(value, type)
