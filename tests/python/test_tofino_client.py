"""The calls that reach a Tofino's client library, and the writes that a dry run refuses as the chip would."""

from __future__ import annotations

import contextlib
import sys
import types

import pytest

from jaxina.controller import bfrt
from jaxina.controller.dry_run import DryRun
from jaxina.controller.tables import Entry, Range, Ternary
from jaxina.errors import SystemCallError


def test_a_dry_run_refuses_what_a_chip_would():
    tables = DryRun()
    entry = Entry("t", {"k": 1}, {"d": 2}, "a")
    with pytest.raises(SystemCallError, match="no such entry"):
        tables.modify([entry])
    tables.insert([entry])
    with pytest.raises(SystemCallError, match="already"):
        tables.insert([entry])
    tables.modify([entry])
    tables.delete([entry])
    tables.delete([entry])  # a chip finds none, which is no error
    assert [str(write) for write in tables.writes] == [
        "insert t k=1 -> a(d=2)",
        "modify t k=1 -> a(d=2)",
        "delete t k=1",
    ]


class BfruntimeReadWriteRpcException(Exception):
    def __init__(self, *codes):
        super().__init__(f"gRPC codes {codes}")
        self._codes = codes

    def sub_errors_get(self):
        return [(number, types.SimpleNamespace(canonical_code=code)) for number, code in enumerate(self._codes)]


class FakeClient(types.ModuleType):
    """A fake of bfrt_grpc.client with what BfRtTables uses of it. It records the calls."""

    def __init__(self):
        super().__init__("bfrt_grpc.client")
        self.calls = []
        self.fail = False
        self.wrong_with_keys = ()  # gRPC's codes, which a deletion ends with
        self.BfruntimeReadWriteRpcException = BfruntimeReadWriteRpcException

    def ClientInterface(self, address, client_id, device_id, timeout):
        if self.fail:
            raise RuntimeError("Failed to subscribe")
        self.calls.append(("connect", address))
        return self

    def bind_pipeline_config(self, program):
        self.calls.append(("bind", program))

    def bfrt_info_get(self, program):
        return self

    def Target(self, device_id, pipe_id):
        return (device_id, pipe_id)

    def KeyTuple(self, name, value=None, mask=None, low=None, high=None):
        return (name, value, mask, low, high)

    def DataTuple(self, name, value=None, **typed):
        return (name, value, typed)

    def table_get(self, name):
        class Table:
            def make_key(table, fields):
                return fields

            def make_data(table, fields, action):
                return (action, fields)

            def entry_add(table, target, keys, data):
                self.calls.append(("add", name, target, keys, data))

            def entry_del(table, target, keys=None):
                if keys:
                    raise BfruntimeReadWriteRpcException(*self.wrong_with_keys)
                self.calls.append(("empty", name, target))

            def entry_get(table, target, keys, flags):
                if keys is None:
                    key = types.SimpleNamespace(to_dict=lambda: {"$DEV_PORT": {"value": 4}})
                    return [(types.SimpleNamespace(to_dict=lambda: {"$SPEED": "BF_SPEED_10G", "$PORT_UP": True}), key)]
                return [(types.SimpleNamespace(to_dict=lambda: {"f": [7, 8, 9, 6]}), keys[0])]

        return Table()


@pytest.fixture
def client_library(monkeypatch):
    module = FakeClient()
    package = types.ModuleType("bfrt_grpc")
    package.client = module
    monkeypatch.setitem(sys.modules, "bfrt_grpc", package)
    monkeypatch.setitem(sys.modules, "bfrt_grpc.client", module)
    return module


def test_writes_reach_the_chips_client(client_library):
    tables = bfrt.BfRtTables("10.0.0.1:50052", "jaxina", 2)
    data = {"n": 5, "s": "x", "b": True, "l": (1, 2), "t": (False,)}
    tables.insert([Entry("pipe.T", {"e": 1, "m": Ternary(2, 3), "r": Range(4, 9)}, data, "T.act")])
    key = [("e", 1, None, None, None), ("m", 2, 3, None, None), ("r", None, None, 4, 9)]
    fields = [
        ("n", 5, {}),
        ("s", None, {"str_val": "x"}),
        ("b", None, {"bool_val": True}),
        ("l", None, {"int_arr_val": [1, 2]}),
        ("t", None, {"bool_arr_val": [False]}),
    ]
    assert client_library.calls == [
        ("connect", "10.0.0.1:50052"),
        ("bind", "jaxina"),
        ("add", "pipe.T", (0, 0xFFFF), [key], [("T.act", fields)]),
    ]
    assert tables.read([Entry("pipe.R", {"$REGISTER_INDEX": 0}, {"f": 0})]) == [{"f": 9}]
    for wrong, refused in (((), True), ((5, 13), True), ((5, 5), False)):  # 5: it does not exist
        client_library.wrong_with_keys = wrong
        with pytest.raises(SystemCallError, match="gRPC codes") if refused else contextlib.nullcontext():
            tables.delete([Entry("pipe.T", {"e": 1}), Entry("pipe.T", {"e": 2})])
    tables.clear("pipe.T")
    assert client_library.calls[-1] == ("empty", "pipe.T", (0, 0xFFFF))
    assert tables.entries("$PORT", ("$SPEED", "$FEC")) == [Entry("$PORT", {"$DEV_PORT": 4}, {"$SPEED": "BF_SPEED_10G"})]
