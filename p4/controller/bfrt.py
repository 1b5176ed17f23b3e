"""Writes and reads the tables of a chip, or of its model, through its BfRt gRPC server.

It needs the Python client of the chip's SDE (`bfrt_grpc`), which is not part of jaxina. It is written against the
public client and the bfruntime.proto of p4lang/open-p4studio, and has never run on a chip.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxina.controller.tables import Digest, Entry, Range, Ternary, Value
from jaxina.errors import InvalidArgumentError, SwitchUnreachableError, SystemCallError

_log = logging.getLogger("jaxina.switch")

_CLIENT_ID = 0
_DEVICE_ID = 0
_CONNECT_TIMEOUT = 5  # seconds
DIGESTS = ("heard", "contradiction")  # the names of the digests in p4/tofino/jaxina.p4
_NOT_FOUND = 5  # gRPC's code
_BATCH = 1024  # entries in one request


def client_library() -> Any:
    """Imports the SDE's module bfrt_grpc.client.

    Raises:
      InvalidArgumentError: if it is not installed.
    """
    try:
        import bfrt_grpc.client as client
    except ImportError as error:
        raise InvalidArgumentError(
            "--backend tofino speaks to the chip through the Python client of its SDE, and there is no module "
            f"bfrt_grpc ({error}): put the SDE's site-packages/tofino into PYTHONPATH, or use --dry-run"
        ) from None
    return client


class BfRtTables:
    """The tables of a chip.

    Args:
      address: HOST:PORT of the chip's BfRt server.
      program: name of the loaded P4 program.
      pipe: the pipe whose registers are read.
      digests: the names of the program's digests.

    Raises:
      InvalidArgumentError: if the client library is not installed.
      SwitchUnreachableError: if no server answers, or it runs another program.
    """

    def __init__(self, address: str, program: str, pipe: int, digests: Sequence[str] = DIGESTS):
        self._client = client_library()
        self._digests = digests
        self._pipe = pipe
        try:
            self._interface = self._client.ClientInterface(address, _CLIENT_ID, _DEVICE_ID, timeout=_CONNECT_TIMEOUT)
            self._interface.bind_pipeline_config(program)
            self._info = self._interface.bfrt_info_get(program)
        except Exception as error:  # the client raises several kinds, some of them plain RuntimeError
            raise SwitchUnreachableError(f"no BfRt server with the program {program} at {address}: {error}") from error
        self._target = self._client.Target(device_id=_DEVICE_ID, pipe_id=0xFFFF)
        self._pending: list[Digest] = []

    def insert(self, entries: Sequence[Entry]) -> None:
        self._write(entries, lambda table, keys, data: table.entry_add(self._target, keys, data))

    def modify(self, entries: Sequence[Entry]) -> None:
        self._write(entries, lambda table, keys, data: table.entry_mod(self._target, keys, data))

    def delete(self, entries: Sequence[Entry]) -> None:
        self._write(entries, lambda table, keys, _: self._delete_keys(table, keys))

    def clear(self, table: str) -> None:
        try:
            self._info.table_get(table).entry_del(self._target)
        except Exception as error:
            raise SystemCallError(f"emptying {table}: {error}") from error

    def entries(self, table: str, fields: Sequence[str]) -> list[Entry]:
        try:
            found = list(self._info.table_get(table).entry_get(self._target, None, {"from_hw": False}))
        except Exception as error:
            raise SystemCallError(f"reading {table}: {error}") from error
        return [
            Entry(table, {name: one["value"] for name, one in key.to_dict().items()}, _chosen(data.to_dict(), fields))
            for data, key in found
        ]

    def read(self, entries: Sequence[Entry]) -> list[dict[str, int]]:
        if not entries:
            return []
        try:
            table = self._info.table_get(entries[0].table)
            keys = [self._key(table, entry) for entry in entries]
            found = list(table.entry_get(self._target, keys, {"from_hw": True}))
        except Exception as error:
            raise SystemCallError(f"reading {entries[0].table}: {error}") from error
        return [
            {name: self._of_pool(values[name]) for name in entry.data}
            for entry, values in zip(entries, (data.to_dict() for data, _ in found), strict=True)
        ]

    def next_digest(self, timeout: float) -> Digest | None:
        if not self._pending:
            try:
                message = self._interface.digest_get(timeout)
            except RuntimeError:  # no digest came within the timeout
                return None
            for name in self._digests:
                learn = self._info.learn_get(name)
                if learn.info.id == message.digest_id:
                    fields = (data.to_dict() for data in learn.make_data_list(message))
                    self._pending += [Digest(name, values) for values in fields]
        return self._pending.pop(0) if self._pending else None

    def close(self) -> None:
        self._interface.tear_down_stream()

    def _write(self, entries: Sequence[Entry], request: Callable[[Any, Any, Any], Any]) -> None:
        for start in range(0, len(entries), _BATCH):
            batch = entries[start : start + _BATCH]
            try:
                table = self._info.table_get(batch[0].table)
                keys = [self._key(table, entry) for entry in batch]
                request(table, keys, [self._data(table, entry) for entry in batch])
            except Exception as error:
                raise SystemCallError(f"writing {batch[0].table}: {error}") from error

    def _delete_keys(self, table: Any, keys: Sequence[Any]) -> None:
        """The driver goes on behind a key that it does not find, and then tells of all of them."""
        try:
            table.entry_del(self._target, keys)
        except self._client.BfruntimeReadWriteRpcException as error:
            found = error.sub_errors_get()  # pairs of a key's number and what was wrong with it
            if not found or any(wrong.canonical_code != _NOT_FOUND for _, wrong in found):
                raise

    def _key(self, table: Any, entry: Entry) -> Any:
        fields = []
        for name, match in entry.key.items():
            if isinstance(match, Ternary):
                fields.append(self._client.KeyTuple(name, match.value, match.mask))
            elif isinstance(match, Range):
                fields.append(self._client.KeyTuple(name, low=match.low, high=match.high))
            else:
                fields.append(self._client.KeyTuple(name, match))
        return table.make_key(fields)

    def _data(self, table: Any, entry: Entry) -> Any:
        fields = [self._field(name, value) for name, value in entry.data.items()]
        return table.make_data(fields, entry.action or None)

    def _field(self, name: str, value: Value) -> Any:
        if isinstance(value, bool):
            return self._client.DataTuple(name, bool_val=value)
        if isinstance(value, str):
            return self._client.DataTuple(name, str_val=value)
        if isinstance(value, tuple):
            if value and isinstance(value[0], bool):
                return self._client.DataTuple(name, bool_arr_val=list(value))
            return self._client.DataTuple(name, int_arr_val=list(value))
        return self._client.DataTuple(name, value)

    def _of_pool(self, value: Any) -> int:
        """Returns the value in the pool's pipe. A register has one value per pipe; a counter is summed over them
        already."""
        if not isinstance(value, list):
            return int(value)
        return int(value[self._pipe] if len(value) > self._pipe else value[0])


def _chosen(data: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    return {name: data[name] for name in fields if name in data}
