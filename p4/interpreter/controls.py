"""P4 controls and their declarations. Every instance of a control is compiled separately, with the caller's variables
in place of its parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from lark import Tree

from interpreter.actions import Action
from interpreter.errors import ProgramError
from interpreter.expressions import EXTERNS, Code, Expressions, Place, listed
from interpreter.externs import Checksum, Counter, DigestChannel, Hash, PacketIn, PacketOut
from interpreter.matching import ValueSet
from interpreter.p4_types import NOTHING, Bits, Extern, Record, Type
from interpreter.registers import Register, RegisterAction
from interpreter.statements import compile_block
from interpreter.tables import Table


@dataclasses.dataclass
class Inventory:
    """All that the controller can write and read, by BfRt's names without the pipe."""

    tables: dict[str, Table] = dataclasses.field(default_factory=dict)
    registers: dict[str, Register] = dataclasses.field(default_factory=dict)
    counters: dict[str, Counter] = dataclasses.field(default_factory=dict)
    value_sets: dict[str, ValueSet] = dataclasses.field(default_factory=dict)


class Control:
    """An instance of a control within another control, which applies it."""

    def __init__(self, tree: Tree, name: str, outside: Expressions, inventory: Inventory):
        self._tree = tree
        self._name = name
        self._outside = outside
        self._inventory = inventory
        self._applied = False

    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        if method != "apply" or self._applied:
            raise ProgramError(f"{self._name}: a control is applied, at one place")
        self._applied = True
        parameters = listed(self._tree.children[1])
        places: dict[str, object] = {}
        for parameter, argument in zip(parameters, arguments, strict=True):
            direction, type, name = parameter.children
            place = caller.place(argument) if direction == "in" else caller.written(argument)
            if place is None or place.type != self._outside.type(type):
                raise caller.error(argument, f"is no {parameter.children[1]}")
            places[str(name)] = dataclasses.replace(place, writable=direction != "in")
        inside = self._outside.inside(self._name, **places)
        lines = compile_control(self._tree, inside, self._outside, self._inventory)
        return Code(NOTHING, "None", caller.python, lines=lines)


def compile_control(tree: Tree, expressions: Expressions, outside: Expressions, inventory: Inventory) -> list[str]:
    """Compiles a control. `expressions` has the names of its parameters; `outside` has the program's global names."""
    _, _, locals, block = tree.children
    for local in locals.children:
        declare(local, expressions, outside, inventory)
    return compile_block(block, expressions)


def declare(tree: Tree, expressions: Expressions, outside: Expressions, inventory: Inventory) -> None:
    """Adds an action, a table or an instance to the names that a control or a parser knows."""
    if tree.data == "instantiation":
        name = str(tree.children[2])
        path = f"{expressions.path}.{name}"
        expressions.scope[name] = _instance(tree, path, expressions, outside, inventory)
        return
    name = str(tree.children[0])
    path = f"{expressions.path}.{name}"
    if tree.data == "action":
        expressions.scope[name] = Action(path, tree, expressions)
    else:
        expressions.scope[name] = inventory.tables[path] = Table(path, tree, expressions)


def _instance(tree: Tree, path: str, expressions: Expressions, outside: Expressions, inventory: Inventory) -> object:
    type_tree, arguments, _, method = tree.children
    kind, given = str(type_tree.children[0]), listed(arguments)
    if kind not in EXTERNS:
        declaration = outside.scope.get(kind)
        if not isinstance(declaration, Tree) or declaration.data != "control":
            raise expressions.error(tree, "no such control")
        return Control(declaration, path, outside, inventory)
    if kind == "RegisterAction":
        assert given[0].data == "name" and method is not None
        register = expressions.scope.get(str(given[0].children[0]))
        assert isinstance(register, Register)
        return RegisterAction(register, method, expressions, path)
    if kind == "Checksum":
        return Checksum()
    if kind == "Hash":
        return Hash(given[0], expressions.type(type_tree.children[1].children[0]))
    first = _first_argument(type_tree, expressions)
    if kind == "Digest":
        assert isinstance(first, Record)
        return DigestChannel(path.rpartition(".")[2], first)
    size = expressions.constant(given[0])
    if kind == "Register":
        assert isinstance(first, Bits | Record)
        made = inventory.registers[path] = Register.declared(path, first, size, _numbers(given[1:], expressions))
        return made
    if kind == "value_set":
        assert isinstance(first, Bits)
        value_set = inventory.value_sets[path] = ValueSet(first.width, size)
        return value_set
    if kind == "Counter":
        counter = inventory.counters[path] = Counter(path, size)
        return counter
    raise expressions.error(tree, "cannot be here")


def _numbers(trees: list[Tree], expressions: Expressions) -> list[int]:
    """Returns the numbers of `0` or of `{0, 0}`; none of nothing."""
    numbers = [part for tree in trees for part in (listed(tree.children[0]) if tree.data == "list" else [tree])]
    return [expressions.constant(number) for number in numbers]


def _first_argument(type_tree: Tree, expressions: Expressions) -> Type:
    return expressions.type(type_tree.children[1].children[0])


def parameter_places(tree: Tree, paths: Sequence[str], outside: Expressions) -> dict[str, object]:
    """Binds the parameters of a parser or control that the chip calls: to the paths of the chip's own variables."""
    places: dict[str, object] = {}
    for parameter, path in zip(listed(tree.children[1]), paths, strict=True):
        direction, type_tree, name = parameter.children
        type = outside.type(type_tree)
        if isinstance(type, Extern):
            places[str(name)] = {"packet_in": PacketIn, "packet_out": PacketOut}[type.name]()
        else:
            places[str(name)] = Place(path, type, writable=direction != "in")
    return places
