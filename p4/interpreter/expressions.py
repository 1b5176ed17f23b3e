"""Compiles expressions of P4 to the text of Python expressions, and checks their types: P4 never widens a number by
itself."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable
from typing import Protocol

from lark import Tree

from interpreter.errors import ProgramError
from interpreter.p4_types import BOOLEAN, INTEGER, NOTHING, Bits, Boolean, Extern, Record, Type
from interpreter.passing import Pass
from interpreter.python_code import PythonCode
from interpreter.values import Unknown, Value

EXTERNS = (
    *("Register", "RegisterAction", "Counter", "Digest", "Checksum", "Hash"),
    *("value_set", "packet_in", "packet_out"),
)


_RELATIONS = ("==", "!=", "<", ">", "<=", ">=")
_GROWING = ("+", "-", "*")  # whose outcome may be wider than the numbers


@dataclasses.dataclass
class Code:
    """A compiled expression.

    Attributes:
      type: its type.
      text: a Python expression (`python_code`).
      python: makes a function of it.
      constant: its value, if it has the same one in every pass.
      lines: Python statements that do the same. Their value is not needed.
    """

    type: Type
    text: str
    python: PythonCode
    constant: int | None = None
    lines: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.lines = self.lines or [self.text]

    @functools.cached_property
    def run(self) -> Callable[[Pass], Value]:
        return self.python.function([f"return {self.text}"])


@dataclasses.dataclass
class Place:
    """A variable, a header or a field, by its path.

    Attributes:
      header: the path of the header that the field lies in.
      local: whether the Python functions have it in variables of their own, and not among a pass's values.
    """

    path: str
    type: Type
    header: str | None = None
    writable: bool = True
    local: bool = False

    @property
    def held(self) -> str:
        """Where Python has the value."""
        return self.path.translate(_LETTERS) if self.local else f"values[{self.path!r}]"


class Callee(Protocol):
    """Something that a name stands for and that can be called: an action, or an instance."""

    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        """Compiles a call of a method. `method` is empty if the name itself is called."""
        ...


_LETTERS = str.maketrans(".#", "__")
Scope = collections.ChainMap[str, object]  # Code, Place, Type, Callee or the Tree of a declaration


def listed(tree: Tree) -> list[Tree]:
    """Returns the children of a list that may be empty."""
    return [child for child in tree.children if child is not None]


class Expressions:
    """Compiles expressions in one scope.

    Args:
      text: the program's text, for messages.
      scope: the names that are known here.
      path: the path under which variables that are declared here lie.
      python: makes the functions.
      in_parser: whether this is a parser. There a field may be set once only: the chip would combine the bits of two
        values.
      in_alu: whether this is the action of a stateful ALU. It compares sums and differences as they are, while P4 cuts
        them to their width first.
    """

    def __init__(
        self,
        text: str,
        scope: Scope,
        path: str,
        python: PythonCode,
        in_parser: bool = False,
        in_alu: bool = False,
    ):
        self.text = text
        self.python = python
        self.scope = scope
        self.path = path
        self.in_parser = in_parser
        self.in_alu = in_alu

    def inside(self, path: str, in_alu: bool = False, **names: object) -> Expressions:
        scope = self.scope.new_child(dict(names))
        return Expressions(self.text, scope, path, self.python, self.in_parser, in_alu or self.in_alu)

    def made(self, type: Type, text: str) -> Code:
        return Code(type, text, self.python)

    def calling(self, type: Type, function: Callable[[Pass], object]) -> Code:
        """Returns code that calls a function of the pass."""
        return self.made(type, f"{self.python.name(function)}(p)")

    def _constant(self, type: Type, value: int) -> Code:
        return Code(type, repr(value), self.python, value)

    def text_of(self, tree: Tree) -> str:
        return " ".join(self.text[tree.meta.start_pos : tree.meta.end_pos].split())

    def error(self, tree: Tree, why: str) -> ProgramError:
        return ProgramError(f"line {tree.meta.line}: {self.text_of(tree)}: {why}")

    # ---- types

    def type(self, tree: Tree) -> Type:
        name, arguments = tree.children
        given = [] if arguments is None else arguments.children
        if name == "bit":
            return Bits(int(given[0].children[0], 0))
        if name == "bool":
            return BOOLEAN
        if name in EXTERNS:
            return Extern(str(name), tuple(self.type(argument) for argument in given))
        found = self.scope.get(name)
        if not isinstance(found, Bits | Record):
            raise self.error(tree, "no such type")
        return found

    # ---- values

    def compile(self, tree: Tree) -> Code:
        place = self.place(tree)
        if place is not None:
            return self._read(place, tree)
        return getattr(self, f"_{tree.data}")(tree)

    def fitted(self, tree: Tree, type: Type) -> Code:
        """Compiles an expression that must have this type. Raises ProgramError if it has not."""
        code = self.compile(tree)
        if code.type == type:
            return code
        if code.type == INTEGER and isinstance(type, Bits):
            assert code.constant is not None
            if 0 <= code.constant <= type.mask:
                return self._constant(type, code.constant)
        raise self.error(tree, f"a {code.type} where a {type} is due")

    def constant(self, tree: Tree) -> int:
        code = self.compile(tree)
        if code.constant is None:
            raise self.error(tree, "not constant")
        return code.constant

    def place(self, tree: Tree) -> Place | None:
        """Returns the place that an expression names, or None if it does not name one."""
        if tree.data == "name":
            found = self.scope.get(str(tree.children[0]))
            return found if isinstance(found, Place) else None
        if tree.data != "member":
            return None
        owner = self.place(tree.children[0])
        if owner is None or not isinstance(owner.type, Record):
            return None
        name = str(tree.children[1])
        if name not in owner.type.fields:
            return None
        path, type = f"{owner.path}.{name}", owner.type.fields[name]
        header = owner.path if owner.type.is_header else owner.header
        return Place(path, type, header, owner.writable, owner.local)

    def written(self, tree: Tree) -> Place:
        """Returns the place that an expression names, to be assigned to. Raises ProgramError if it cannot be."""
        place = self.place(tree)
        if place is None or not place.writable:
            raise self.error(tree, "cannot be written")
        return place

    def callee(self, tree: Tree) -> Callee:
        found = self.scope.get(str(tree.children[0])) if tree.data == "name" else None
        if found is None or not hasattr(found, "call"):
            raise self.error(tree, "nothing that can be called")
        return found  # type: ignore[return-value]

    def _read(self, place: Place, tree: Tree) -> Code:
        if not isinstance(place.type, Bits | Boolean):
            raise self.error(tree, "not a number")
        return self.made(place.type, self.read(place, place.type))

    def read(self, place: Place, type: Bits | Boolean) -> str:
        """Returns the text that reads a place."""
        if place.local:
            return place.held
        path, header = place.path, place.header
        unset = self.python.name(Unknown(0, type.mask, path))
        text = f"get({path!r}, {unset})"
        if header is None:
            return text
        absent = self.python.name(Unknown(0, type.mask, f"{path} of a header that is not there"))
        return f"({text} if {header!r} in valid else {absent})"

    def _number(self, tree: Tree) -> Code:
        return self._constant(INTEGER, int(tree.children[0], 0))

    def _true(self, tree: Tree) -> Code:
        return self._constant(BOOLEAN, True)

    def _false(self, tree: Tree) -> Code:
        return self._constant(BOOLEAN, False)

    def _name(self, tree: Tree) -> Code:
        found = self.scope.get(str(tree.children[0]))
        if not isinstance(found, Code):
            raise self.error(tree, "no such value")
        return found

    def _slice(self, tree: Tree) -> Code:
        number, high, low = tree.children
        code, first, last = self.compile(number), self.constant(high), self.constant(low)
        if not isinstance(code.type, Bits) or not code.type.width > first >= last >= 0:
            raise self.error(tree, "no such bits")
        type = Bits(first - last + 1)
        return self.made(type, f"({code.text} >> {last} & {type.mask})")

    def _negation(self, tree: Tree) -> Code:
        return self.made(BOOLEAN, f"(not {self.fitted(tree.children[0], BOOLEAN).text})")

    def _binary_or(self, tree: Tree) -> Code:
        a, b = (self.fitted(child, BOOLEAN).text for child in tree.children)
        return self.made(BOOLEAN, f"({a} or {b})")

    def _binary_and(self, tree: Tree) -> Code:
        a, b = (self.fitted(child, BOOLEAN).text for child in tree.children)
        return self.made(BOOLEAN, f"({a} and {b})")

    def _binary(self, tree: Tree) -> Code:
        left, operator, right = tree.children
        a, b = self._alike(left, right)
        operator, one, other = operator.strip(), a.text, b.text
        type = BOOLEAN if operator in _RELATIONS else a.type
        if self.in_alu and type is BOOLEAN:
            one, other = self._uncut(left, one), self._uncut(right, other)
        text = f"({one} {operator} {other})"
        if operator in _GROWING:
            text = f"({text} & {getattr(type, 'mask', -1)})"
        if a.constant is not None and b.constant is not None:
            return self._constant(type, eval(text))
        return self.made(type, text)

    def _uncut(self, tree: Tree, cut: str) -> str:
        """Returns the text that computes a sum or a difference uncut, with its sign. `cut` computes what P4 cuts it
        to."""
        if tree.data != "binary" or (operator := tree.children[1].strip()) not in ("+", "-"):
            return cut
        a, b = self._alike(tree.children[0], tree.children[2])
        return f"({a.text} {operator} {b.text})"

    def _alike(self, left: Tree, right: Tree) -> tuple[Code, Code]:
        a, b = self.compile(left), self.compile(right)
        if a.type == INTEGER:
            return self.fitted(left, b.type), b
        return a, self.fitted(right, a.type)

    def _call(self, tree: Tree) -> Code:
        callee, arguments = tree.children
        given = listed(arguments)
        if callee.data == "name":
            if callee.children[0] == "max":
                return self._max(*given)
            return self.callee(callee).call("", given, self)
        if callee.data != "member":
            raise self.error(tree, "cannot be called")
        owner, method = callee.children
        place = self.place(owner)
        if place is not None and isinstance(place.type, Record) and place.type.is_header:
            return self._validity(place, str(method), tree)
        return self.callee(owner).call(str(method), given, self)

    def _typed_call(self, tree: Tree) -> Code:
        """Compiles packet.lookahead<type>()."""
        owner, method, type, _ = tree.children
        return self.callee(owner).call(str(method), [type], self)

    def _max(self, left: Tree, right: Tree) -> Code:
        a, b = self._alike(left, right)
        if not isinstance(a.type, Bits):
            raise self.error(left, "not a number")
        return self.made(a.type, f"(largest({a.text}, {b.text}) & {a.type.mask})")

    def _validity(self, place: Place, method: str, tree: Tree) -> Code:
        path = place.path
        assert isinstance(place.type, Record)
        if method == "isValid":
            return self.made(BOOLEAN, f"({path!r} in valid)")
        if method not in ("setValid", "setInvalid") or not place.writable:
            raise self.error(tree, "cannot be done with this header")
        if method == "setValid":
            return self.made(NOTHING, f"valid.add({path!r})")
        fields = self.python.name([f"{path}.{name}" for name in place.type.fields])
        removal = [f"valid.discard({path!r})", f"for field in {fields}:", "    values.pop(field, None)"]
        return Code(NOTHING, "None", self.python, lines=removal)
