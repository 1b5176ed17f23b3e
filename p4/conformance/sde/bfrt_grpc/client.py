"""What the controller uses of the Python client of a chip's SDE, for a chip that is no hardware.

With this folder's parent in PYTHONPATH, `jaxina switch --backend tofino --bfrt PATH` drives the chip whose tables
`conformance.chip_process` serves at this socket.
"""

from __future__ import annotations

import dataclasses
import threading
import time
import types
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Client
from typing import Any

from jaxina.controller.bfrt import DIGESTS
from jaxina.controller.tables import Entry, Match, Range, Ternary


@dataclasses.dataclass
class Target:
    device_id: int
    pipe_id: int


@dataclasses.dataclass
class KeyTuple:
    name: str
    value: int | None = None
    mask: int | None = None
    low: int | None = None
    high: int | None = None

    @property
    def match(self) -> Match:
        if self.low is not None and self.high is not None:
            return Range(self.low, self.high)
        assert self.value is not None
        return self.value if self.mask is None else Ternary(self.value, self.mask)


class BfruntimeReadWriteRpcException(Exception):
    """The chip has refused a call."""

    def sub_errors_get(self) -> list[tuple[int, Any]]:
        """Returns the single errors, none of which is known here."""
        return []


class DataTuple:
    def __init__(self, name: str, val: int | None = None, **typed: Any):
        (value,) = typed.values() or (val,)
        self.name, self.value = name, tuple(value) if isinstance(value, list) else value


class _Calls:
    """A connection to the chip's process, for one call at a time."""

    def __init__(self, address: str):
        self._connection = Client(address, "AF_UNIX")
        self._lock = threading.Lock()

    def __call__(self, *call: Any) -> Any:
        with self._lock:
            try:
                self._connection.send(call)
                answer, error = self._connection.recv()
            except (EOFError, OSError) as lost:
                raise RuntimeError("the chip's process has ended") from lost
        if error is not None:
            raise BfruntimeReadWriteRpcException(error)
        return answer

    def close(self) -> None:
        self._connection.close()


class _Fields:
    """A key, data, or a digest."""

    def __init__(self, fields: dict[str, Any]):
        self._fields = fields

    def to_dict(self) -> dict[str, Any]:
        return self._fields


class _Table:
    def __init__(self, name: str, calls: _Calls):
        self._name, self._calls = name, calls

    def make_key(self, fields: Sequence[KeyTuple]) -> dict[str, Match]:
        return {field.name: field.match for field in fields}

    def make_data(self, fields: Sequence[DataTuple], action: str | None = None) -> tuple[dict[str, Any], str]:
        return {field.name: field.value for field in fields}, action or ""

    def entry_add(self, target: Target, keys: Sequence[Any], data: Sequence[Any]) -> None:
        self._calls("insert", self._entries(keys, data))

    def entry_mod(self, target: Target, keys: Sequence[Any], data: Sequence[Any]) -> None:
        self._calls("modify", self._entries(keys, data))

    def entry_del(self, target: Target, keys: Sequence[Any] | None = None) -> None:
        if keys is None:
            self._calls("clear", self._name)
        else:
            self._calls("delete", self._entries(keys, [({}, "")] * len(keys)))

    def entry_get(
        self, target: Target, keys: Sequence[Any] | None, flags: dict[str, bool]
    ) -> Iterator[tuple[_Fields, _Fields]]:
        if keys is None:
            for entry in self._calls("entries", self._name, None):
                key = {name: {"value": match} for name, match in entry.key.items()}
                yield _Fields(dict(entry.data)), _Fields(key)
            return
        entries = self._entries(keys, [({}, "")] * len(keys))
        for key, values in zip(keys, self._calls("read", entries), strict=True):
            yield _Fields(values), _Fields(key)

    def _entries(self, keys: Sequence[Any], data: Sequence[Any]) -> list[Entry]:
        return [Entry(self._name, key, *one) for key, one in zip(keys, data, strict=True)]


class ClientInterface:
    """A controller's way to the chip."""

    def __init__(self, grpc_addr: str, client_id: int, device_id: int, timeout: int):
        self._calls, self._digests = _Calls(grpc_addr), _Calls(grpc_addr)

    def bind_pipeline_config(self, p4_name: str) -> None:
        """Does nothing: the chip has one program."""

    def bfrt_info_get(self, p4_name: str) -> ClientInterface:
        return self

    def table_get(self, name: str) -> _Table:
        return _Table(name, self._calls)

    def learn_get(self, name: str) -> Any:
        return types.SimpleNamespace(
            info=types.SimpleNamespace(id=DIGESTS.index(name)),
            make_data_list=lambda message: [_Fields(message.fields)],
        )

    def digest_get(self, timeout: float) -> Any:
        began = time.monotonic()
        try:
            digest = self._digests("next_digest", timeout)
        except RuntimeError:  # as with a chip, nothing comes any more
            time.sleep(max(0.0, timeout - (time.monotonic() - began)))
            raise
        if digest is None:
            raise RuntimeError("no digest within the timeout")
        return types.SimpleNamespace(digest_id=DIGESTS.index(digest.name), fields=dict(digest.fields))

    def tear_down_stream(self) -> None:
        self._calls.close()
        self._digests.close()
