"""P4 actions. A statement calls them by name with arguments, or a table calls them by an entry."""

from __future__ import annotations

from collections.abc import Mapping

from lark import Tree

from interpreter.errors import ProgramError
from interpreter.expressions import Code, Expressions, Place, listed
from interpreter.p4_types import NOTHING, Bits
from interpreter.passing import Pass
from interpreter.statements import Step, compile_block


class Action:
    """An action of a control. Its parameters have no direction; others are refused, because the program has none."""

    def __init__(self, name: str, tree: Tree, expressions: Expressions):
        _, parameters, block = tree.children
        inner = expressions.inside(name)
        self.name = name
        self.parameters: dict[str, Place] = {}
        for parameter in listed(parameters):
            direction, type, own_name = parameter.children
            if direction is not None:
                raise expressions.error(parameter, "actions with directions are not understood")
            place = Place(f"{name}#{own_name}", expressions.type(type), writable=False)
            self.parameters[str(own_name)] = inner.scope[str(own_name)] = place
        self._lines = compile_block(block, inner)
        self._run: Step = inner.python.function(self._lines)

    def bound(self, arguments: Mapping[str, int]) -> Step:
        """Returns the action with the arguments of a controller's entry.

        Raises:
          ProgramError: if the arguments are not those that the action takes.
        """
        if arguments.keys() != self.parameters.keys():
            raise ProgramError(f"{self.name} takes {', '.join(self.parameters) or 'nothing'}")
        values = {}
        for name, place in self.parameters.items():
            assert isinstance(place.type, Bits)
            if not 0 <= arguments[name] <= place.type.mask:
                raise ProgramError(f"{self.name}: {name}={arguments[name]} is no {place.type}")
            values[place.path] = arguments[name]
        run = self._run

        def act(p: Pass) -> None:
            p.values.update(values)
            run(p)

        return act

    def called(self, arguments: Tree | None, caller: Expressions) -> Code:
        """Returns the action with arguments of the program's text. Raises ProgramError if their number is wrong."""
        given = [] if arguments is None else listed(arguments)
        if len(given) != len(self.parameters):
            raise ProgramError(f"{self.name} takes {len(self.parameters)} arguments")
        places = self.parameters.values()
        lines = [
            f"{place.held} = {caller.fitted(tree, place.type).text}" for tree, place in zip(given, places, strict=True)
        ]
        return Code(NOTHING, "None", caller.python, lines=lines + self._lines or ["pass"])

    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        if method:
            raise ProgramError(f"{self.name} is an action")
        return self.called(Tree("arguments", arguments), caller)
