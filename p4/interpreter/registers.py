"""Registers, and the actions of the stateful ALUs. A pass accesses each register once, in one cell."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from lark import Tree

from interpreter.errors import ProgramError
from interpreter.expressions import Code, Expressions, Place, listed
from interpreter.p4_types import BOOLEAN, NOTHING, Bits, Record
from interpreter.python_code import PythonCode, explained
from interpreter.statements import compile_block
from interpreter.values import Unknown

_LONE_FIELD = "f1"  # BfRt's name of the only field, if a register's cells are plain numbers


@dataclasses.dataclass
class Register:
    name: str
    size: int
    fields: dict[str, int]  # from name to width in bits
    initial: dict[str, int]  # of a cell that nothing has written. Empty: it may hold anything

    @staticmethod
    def declared(name: str, type: Bits | Record, size: int, initial: Sequence[int]) -> Register:
        alone = isinstance(type, Bits)
        fields = {_LONE_FIELD: type.width} if alone else {name: field.width for name, field in type.fields.items()}
        if initial and len(initial) != len(fields):
            raise ProgramError(f"{name} begins with {len(initial)} numbers, and has {len(fields)} fields")
        return Register(name, size, fields, dict(zip(fields, initial, strict=False)))

    def paths(self, place: Place) -> dict[str, str]:
        """Returns where Python has the register's fields, in an action's parameter that stands for a cell."""
        if isinstance(place.type, Bits):
            return {_LONE_FIELD: place.held}
        return {field: dataclasses.replace(place, path=f"{place.path}.{field}").held for field in self.fields}


class Predicate:
    """`this` of a RegisterAction. `this.predicate` returns bit 1 << n, where n is the sum of the numbers of the
    conditions that hold: the first counts 1, the second counts 2."""

    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        if method != "predicate" or not 1 <= len(arguments) <= 2:
            raise caller.error(arguments[0], f"no such method: {method}")
        conditions = [caller.fitted(argument, BOOLEAN).text for argument in arguments]
        outcome = " | ".join(f"({1 << i} if {holds} else 0)" for i, holds in enumerate(conditions))
        return caller.made(Bits(4), f"(1 << ({outcome}))")


class RegisterAction:
    """A RegisterAction. `execute(index)` runs `apply` on a cell and returns the value of its `out` parameter."""

    def __init__(self, register: Register, method: Tree, expressions: Expressions, name: str):
        parameters, block = method.children
        places = []
        inner = expressions.inside(name, in_alu=True, this=Predicate())
        for parameter in listed(parameters):
            _, type, own_name = parameter.children
            places.append(Place(f"{name}#{own_name}", expressions.type(type), local=True))
            inner.scope[str(own_name)] = places[-1]
        self._result = places[1] if len(places) > 1 else None
        lines = _access(register, places, compile_block(block, inner), inner.python)
        self._execute = inner.python.function(lines, "index")

    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        if method != "execute" or len(arguments) != 1:
            raise caller.error(arguments[0], f"no such method: {method}")
        text = f"{caller.python.name(self._execute)}(p, {caller.compile(arguments[0]).text})"
        return caller.made(NOTHING if self._result is None else self._result.type, text)


def _access(register: Register, places: Sequence[Place], body: Sequence[str], python: PythonCode) -> list[str]:
    """Returns the lines of a function that takes a cell's fields into its variables, runs the body, and puts them back.
    It returns what the second of the places then holds, if there are two."""
    name, held = register.name, register.paths(places[0])
    lines = [
        f"if {name!r} in used:",
        f"    p.use({name!r})",
        f"used.add({name!r})",
        f"if index.__class__ is Unknown or index >= {register.size}:",
        f"    raise UndefinedError(f'accesses {name} at {{index!r}}')",
        f"cells = p.memory.registers[{name!r}]",
        f"cell = cells.get(index, {python.name(register.initial)})",
    ]
    for field, variable in held.items():
        unset = f"Unknown(0, {(1 << register.fields[field]) - 1}, f'{name}[{{index}}]')"
        lines.append(f"{variable} = cell[{field!r}] if {field!r} in cell else {unset}")
    for result in places[1:]:
        assert isinstance(result.type, Bits)
        lines.append(f"{result.held} = {python.name(Unknown(0, result.type.mask, result.path))}")
    lines += explained(body, f"{name}: ")
    fields = ", ".join(f"{field!r}: {variable}" for field, variable in held.items())
    lines.append(f"cells[index] = {{{fields}}}")
    return [*lines, *[f"return {result.held}" for result in places[1:]]]
