"""Compiles a program: parser, control and deparser, for ingress and for egress."""

from __future__ import annotations

import collections
import dataclasses

from lark import Tree

from interpreter import source
from interpreter.actions import Action
from interpreter.controls import Inventory, compile_control, declare, parameter_places
from interpreter.errors import ProgramError
from interpreter.expressions import Expressions, Scope
from interpreter.p4_types import Record
from interpreter.parser_states import compile_parser
from interpreter.python_code import PythonCode
from interpreter.statements import Step

# The paths of the parameters that the chip passes to the parts of a Pipeline, in the order of tna.p4.
_PARSER = ("packet", "hdr", "md", "intrinsic")
_INGRESS = ("hdr", "md", "intrinsic", "from_parser", "for_deparser", "for_tm")
_EGRESS = ("hdr", "md", "intrinsic", "from_parser", "for_deparser", "for_port")
_DEPARSER = ("packet", "hdr", "md", "for_deparser")


@dataclasses.dataclass
class Gress:
    """Ingress or egress. `intrinsic` is the header that the chip puts in front of a packet."""

    intrinsic: Record
    parser: Step
    control: Step
    deparser: Step


class Program:
    """A compiled program. Raises ProgramError if the interpreter does not understand the text."""

    def __init__(self, text: str):
        tree = source.parse(text)
        scope: Scope = collections.ChainMap()
        self._outside = Expressions(text, scope, "", PythonCode())
        self.inventory = Inventory()
        pipeline: Tree | None = None
        for declaration in tree.children:
            if declaration.data == "instantiation":
                if declaration.children[0].children[0] == "Pipeline":
                    pipeline = declaration
            else:
                self._declare(declaration)
        if pipeline is None:
            raise ProgramError("the program has no Pipeline")
        names = [str(part.children[0].children[0]) for part in pipeline.children[1].children]
        self.ingress = self._gress(names[:3], _INGRESS)
        self.egress = self._gress(names[3:], _EGRESS)

    def number(self, name: str) -> int:
        """Returns a constant of the program or the chip."""
        return self._outside.constant(Tree("name", [name]))

    def _declare(self, tree: Tree) -> None:
        outside = self._outside
        if tree.data == "typedef":
            outside.scope[str(tree.children[1])] = outside.type(tree.children[0])
        elif tree.data == "constant":
            type, name, value = tree.children
            outside.scope[str(name)] = outside.fitted(value, outside.type(type))
        elif tree.data in ("header", "struct"):
            _, name, fields = tree.children
            types = {str(f.children[2]): outside.type(f.children[1]) for f in fields.children}
            outside.scope[str(name)] = Record(str(name), types, tree.data == "header")
        elif tree.data == "action":
            outside.scope[str(tree.children[0])] = Action(str(tree.children[0]), tree, outside)
        else:
            outside.scope[str(tree.children[0])] = tree

    def _gress(self, names: list[str], parameters: tuple[str, ...]) -> Gress:
        parser, control, deparser = names
        return Gress(
            self._intrinsic(parser),
            self._parser(parser),
            self._control(control, parameters),
            self._control(deparser, _DEPARSER),
        )

    def _tree(self, name: str, kind: str) -> Tree:
        tree = self._outside.scope.get(name)
        if not isinstance(tree, Tree) or tree.data != kind:
            raise ProgramError(f"the program has no {kind} {name}")
        return tree

    def _inside(self, name: str, tree: Tree, parameters: tuple[str, ...]) -> Expressions:
        return self._outside.inside(name, **parameter_places(tree, parameters, self._outside))

    def _intrinsic(self, name: str) -> Record:
        type = self._outside.type(self._tree(name, "parser").children[1].children[3].children[1])
        assert isinstance(type, Record)
        return type

    def _parser(self, name: str) -> Step:
        tree = self._tree(name, "parser")
        expressions = self._inside(name, tree, _PARSER)
        expressions.in_parser = True
        for local in tree.children[2].children:
            declare(local, expressions, self._outside, self.inventory)
        return compile_parser(tree, expressions)

    def _control(self, name: str, parameters: tuple[str, ...]) -> Step:
        tree = self._tree(name, "control")
        expressions = self._inside(name, tree, parameters)
        return expressions.python.function(compile_control(tree, expressions, self._outside, self.inventory))
