"""Match-action tables, with the entries of the program's text and those of the controller."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping, Sequence

from lark import Tree

from interpreter.actions import Action
from interpreter.errors import ProgramError, UndefinedError
from interpreter.expressions import Code, Expressions
from interpreter.matching import Masked, Match, all_match, keyset
from interpreter.p4_types import NOTHING, Bits, Boolean
from interpreter.python_code import explained
from interpreter.statements import Step
from interpreter.values import Unknown


@dataclasses.dataclass
class Key:
    name: str
    kind: str  # exact, ternary or range
    code: Code


@dataclasses.dataclass
class Entry:
    priority: int  # the smallest wins
    matches: tuple[Match, ...]
    action: Step


class Table:
    """A table. `name` is BfRt's, without the pipe. For entries in the text, the first that matches wins."""

    def __init__(self, name: str, tree: Tree, expressions: Expressions):
        properties = {str(part.data): part.children for part in tree.children[1].children}
        self.name = name
        self.keys = [_key(key, expressions) for key in properties["keys"]]
        self.size = expressions.constant(properties["size"][0])
        self.constant = "entries" in properties
        self._actions: dict[str, Action] = {}
        self._only_default: set[str] = set()
        for notes, action in (part.children for part in properties["action_names"]):
            found = expressions.callee(_named(action, tree))
            assert isinstance(found, Action)
            self._actions[str(action)] = found
            if any(note.children[0] == "defaultonly" for note in notes.children):
                self._only_default.add(str(action))
        self._default = self._action_call(properties["default_action"][-1], expressions)
        self._entries: list[Entry] = []
        self._exact: dict[tuple[int, ...], Step] = {}
        self._found: dict[tuple[object, ...], Step] = {}  # lookups since the entries were last changed
        self._all_exact = all(key.kind == "exact" for key in self.keys)
        for number, entry in enumerate(properties.get("entries", ["const"])[1:]):
            matches = keyset(entry.children[0], [key.code.type for key in self.keys], expressions)
            action = self._entry_action(entry.children[1], expressions)
            self.insert(tuple(matches), number, action)

    def action(self, name: str, arguments: Mapping[str, int]) -> Step:
        """Returns an entry's action. Raises ProgramError if the table has no such action for entries."""
        if name not in self._actions or name in self._only_default:
            raise ProgramError(f"{self.name} has no action {name} for entries")
        return self._actions[name].bound(arguments)

    def insert(self, matches: tuple[Match, ...], priority: int, action: Step) -> None:
        """Adds an entry. Raises ProgramError if the table is full."""
        if len(self._entries) + len(self._exact) >= self.size:
            raise ProgramError(f"{self.name} is full: it holds {self.size} entries")
        self._found.clear()
        if self._all_exact:
            self._exact[_values(matches)] = action
        else:
            entry = Entry(priority, matches, action)
            bisect.insort(self._entries, entry, key=lambda entry: entry.priority)

    def delete(self, matches: tuple[Match, ...], priority: int) -> bool:
        """Deletes an entry. Returns whether there was one."""
        self._found.clear()
        if self._all_exact:
            return self._exact.pop(_values(matches), None) is not None
        held = [e for e in self._entries if (e.matches, e.priority) != (matches, priority)]
        deleted = len(held) < len(self._entries)
        self._entries[:] = held
        return deleted

    def clear(self) -> None:
        """Deletes all entries."""
        self._found.clear()
        self._entries.clear()
        self._exact.clear()

    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        if method != "apply" or arguments:
            raise ProgramError(f"{self.name}: a table can only be applied")
        # The lines begin with a look at what was found before. They are what a pass does most.
        name, python = self.name, caller.python
        keys = "".join(f"{key.code.text}, " for key in self.keys)
        lines = [
            f"if {name!r} in used:",
            f"    p.use({name!r})",
            f"used.add({name!r})",
            *explained([f"key = ({keys})"], f"table {name} "),
            "try:",
            f"    action = {python.name(self._exact if self._all_exact else self._found)}[key]",
            "except (KeyError, TypeError):",
            f"    action = {python.name(self._find)}(key)",
            "action(p)",
        ]
        return Code(NOTHING, "None", python, lines=lines)

    def _find(self, values: tuple[object, ...]) -> Step:
        """Returns the action for keys that exact entries do not have and that have not been looked up before, or that
        have bits that are not set."""
        known = not any(isinstance(value, Unknown) for value in values)
        if known and self._all_exact:
            return self._default
        try:
            found = self._search(values)
        except UndefinedError as error:
            raise UndefinedError(f"table {self.name} {error}") from None
        if known:
            self._found[values] = found
        return found

    def _search(self, values: tuple[object, ...]) -> Step:
        for wanted, action in self._exact.items():
            if all_match([Masked(value, -1) for value in wanted], values):  # type: ignore[arg-type]
                return action
        for entry in self._entries:
            if all_match(entry.matches, values):  # type: ignore[arg-type]
                return entry.action
        return self._default

    def _action_call(self, tree: Tree, expressions: Expressions) -> Step:
        name, arguments = tree.children
        if str(name) not in self._actions:
            raise expressions.error(tree, f"is no action of {self.name}")
        return expressions.python.function(self._actions[str(name)].called(arguments, expressions).lines)

    def _entry_action(self, tree: Tree, expressions: Expressions) -> Step:
        if str(tree.children[0]) in self._only_default:
            raise expressions.error(tree, "is for the default only")
        return self._action_call(tree, expressions)


def _key(tree: Tree, expressions: Expressions) -> Key:
    expression, kind, annotations = tree.children
    name = expressions.text_of(expression)
    for annotation in annotations.children:
        if annotation.children[0] == "name":
            name = annotation.children[1].children[0].children[0].strip('"')
    code = expressions.compile(expression)
    if not isinstance(code.type, Bits | Boolean) or kind not in ("exact", "ternary", "range"):
        raise expressions.error(tree, "cannot be a key")
    return Key(name, str(kind), code)


def _named(name: object, tree: Tree) -> Tree:
    return Tree("name", [name], tree.meta)


def _values(matches: Sequence[Match]) -> tuple[int, ...]:
    values = []
    for match in matches:
        assert isinstance(match, Masked)
        values.append(match.value)
    return tuple(values)
