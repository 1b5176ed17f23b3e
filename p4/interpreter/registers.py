"""Registers, and the actions of the stateful ALUs. A pass accesses each register once, in one cell."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from lark import Tree

from interpreter.errors import ProgramError, UndefinedError
from interpreter.expressions import Code, Expressions, Place, listed
from interpreter.p4_types import BOOLEAN, NOTHING, Bits, Record
from interpreter.passing import Pass
from interpreter.statements import compile_block
from interpreter.values import Unknown, Value

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
        """Returns the paths of the register's fields in an action's parameter that stands for a cell."""
        if isinstance(place.type, Bits):
            return {_LONE_FIELD: place.path}
        return {field: f"{place.path}.{field}" for field in self.fields}


class Predicate:
    """`this` of a RegisterAction. `this.predicate` returns bit 1 << n, where n is the sum of the numbers of the
    conditions that hold: the first counts 1, the second counts 2."""

    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        if method != "predicate" or not 1 <= len(arguments) <= 2:
            raise caller.error(arguments[0], f"no such method: {method}")
        conditions = [caller.fitted(argument, BOOLEAN).run for argument in arguments]

        def outcome(p: Pass) -> int:
            return 1 << sum(bool(holds(p)) << i for i, holds in enumerate(conditions))

        return Code(Bits(4), outcome)


class RegisterAction:
    """A RegisterAction. `execute(index)` runs `apply` on a cell and returns the value of its `out` parameter."""

    def __init__(self, register: Register, method: Tree, expressions: Expressions, name: str):
        parameters, block = method.children
        places = []
        inner = expressions.inside(name, in_alu=True, this=Predicate())
        for parameter in listed(parameters):
            _, type, own_name = parameter.children
            places.append(Place(f"{name}#{own_name}", expressions.type(type)))
            inner.scope[str(own_name)] = places[-1]
        self._register = register
        paths = register.paths(places[0]).items()
        self._cell = [(field, path, (1 << register.fields[field]) - 1) for field, path in paths]
        self._result = places[1] if len(places) > 1 else None
        self._run = compile_block(block, inner)

    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        if method != "execute" or len(arguments) != 1:
            raise caller.error(arguments[0], f"no such method: {method}")
        index = caller.compile(arguments[0]).run
        if self._result is None:
            return Code(NOTHING, lambda p: self._access(p, index(p)))
        path, type = self._result.path, self._result.type
        assert isinstance(type, Bits)
        unset = Unknown(0, type.mask, path)

        def execute(p: Pass) -> Value:
            self._access(p, index(p))
            return p.values.pop(path, unset)

        return Code(type, execute)

    def _access(self, p: Pass, index: Value) -> None:
        name = self._register.name
        p.use(name)
        if isinstance(index, Unknown) or index >= self._register.size:
            raise UndefinedError(f"accesses {name} at {index!r}")
        cells = p.memory.registers[name]
        held = cells.get(index, self._register.initial)
        values = p.values
        for field, path, mask in self._cell:
            value = held.get(field)
            values[path] = Unknown(0, mask, f"{name}[{index}]") if value is None else value
        try:
            self._run(p)
        except UndefinedError as error:
            raise UndefinedError(f"{name}: {error}") from None
        cells[index] = {field: values.pop(path) for field, path, _ in self._cell}
