"""Reads from the text of the P4 program the names that a control plane uses.

They are tables with their keys, actions with their parameters, registers, counters and digests. A compiler would write
the same names to bfrt.json, but few people have the compiler.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path


@dataclasses.dataclass
class Names:
    tables: dict[str, set[str]]  # key fields, by table
    actions: dict[str, list[str]]  # parameters, by action
    memories: dict[str, set[str]]  # fields of a register's or counter's values
    digests: dict[str, set[str]]  # fields, by digest
    value_sets: set[str]  # of the parser; their values are plain numbers, so BfRt calls the key f1

    def check(self, writes) -> None:
        """The program has every table, key, action, parameter and register that is written, and all are filled."""
        written = set()
        for write in writes:
            entry = write.entry
            if not entry.table.startswith("pipe."):
                continue
            if write.operation == "clear":
                assert entry.table in self.tables or entry.table in self.value_sets, entry
                continue
            written.add(entry.table)
            if entry.table in self.memories:
                assert set(entry.data) <= self.memories[entry.table], entry
            elif entry.table in self.value_sets:
                assert set(entry.key) == {"f1"}, entry
            else:
                assert set(entry.key) - {"$MATCH_PRIORITY"} == self.tables[entry.table], entry
                if entry.action:
                    assert list(entry.data) == self.actions[entry.action], entry
        assert {name for name, keys in self.tables.items() if keys} <= written  # the others have constant entries


def read(program: Path) -> Names:
    """Reads the names of the program with this main file, built for one pipe."""
    text = "\n".join(_without_comments(file.read_text()) for file in _files(program, []))
    structs = {name: _fields(body) for name, body in re.findall(r"struct (\w+) \{(.*?)\}", text, re.DOTALL)}
    controls = {}
    for match in re.finditer(r"^control (\w+)\(", text, re.MULTILINE):
        end = text.index("\n}\n", match.end())
        controls[match[1]] = text[match.start() : end]
    value_sets = re.findall(r"\bvalue_set<[\w<>]+>\(\w+\) (\w+);", text)
    names = Names({}, {}, {}, {}, {f"pipe.IngressParser.{name}" for name in value_sets})
    for gress in ("Ingress", "Egress"):
        _read_control(controls, gress, gress, structs, names)
    _read_digests(controls["IngressDeparser"], structs, names)
    return names


def _files(file: Path, known: list[Path]) -> list[Path]:
    """Returns a file and all those that it includes, each once."""
    if file not in known:
        known.append(file)
        for name in re.findall(r'^#include "(.+)"', file.read_text(), re.MULTILINE):
            _files(file.with_name(name), known)
    return known


def _read_control(controls: dict[str, str], kind: str, path: str, structs: dict[str, list[str]], names: Names) -> None:
    body = controls[kind]
    for name, parameters in re.findall(r"\baction (\w+)\(([^)]*)\)", body):
        names.actions[f"{path}.{name}"] = [p.split()[-1] for p in parameters.split(",") if p.strip()]
    for name, table in re.findall(r"\btable (\w+) \{(.*?)\n    \}", body, re.DOTALL):
        names.tables[f"pipe.{path}.{name}"] = set(re.findall(r'@name\("(\w+)"\)', table))
    for value, name in re.findall(r"\bRegister<(.+), bit<\d+>>\(\w+(?:, [^)]*)?\) (\w+);", body):
        fields = structs.get(value, ["f1"])
        names.memories[f"pipe.{path}.{name}"] = {f"{path}.{name}.{field}" for field in fields}
    for name in re.findall(r"\bCounter<[^;]*\) (\w+);", body):
        names.memories[f"pipe.{path}.{name}"] = {"$COUNTER_SPEC_PKTS", "$COUNTER_SPEC_BYTES"}
    for inner, name in re.findall(r"^    (\w+)\(\) (\w+);", body, re.MULTILINE):
        _read_control(controls, inner, f"{path}.{name}", structs, names)


def _read_digests(body: str, structs: dict[str, list[str]], names: Names) -> None:
    for struct, name in re.findall(r"\bDigest<(\w+)>\([^)]*\) (\w+);", body):
        names.digests[name] = set(structs[struct])


def _fields(body: str) -> list[str]:
    return [declaration.split()[-1] for declaration in body.split(";") if declaration.strip()]


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text)
