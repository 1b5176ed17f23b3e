"""A server's log: the model that it began with, and each commit as it came. A replay gives the same bits."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

from jaxina.errors import InvalidArgumentError, SystemCallError
from jaxina.fabric.codec import Codec
from jaxina.fabric.model import Model, Optimizer, model_of, vector_of
from jaxina.fabric.transfer.frame import START_BYTES, Header, Kind, header_bytes, header_of, names_in, unpack
from jaxina.fabric.turns import Arrived

_NO_SECRET = 0  # a log holds none


class CommitLog:
    """Writes a log.

    Frames follow a line of JSON, each with the model's version after it. What a server killed in the middle of a frame
    has left of it, a replay leaves out.

    Args:
      file: where. It must not exist.
      model: as it is before the first commit.
      compressor: the spec of the updates' compressor.

    Raises:
      InvalidArgumentError: the file exists, or cannot be made.
      SystemCallError: nothing can be written to it. All methods raise that but `close`.
    """

    def __init__(self, file: Path, model: Model, compressor: str) -> None:
        try:
            self._file = file.open("xb")
        except OSError as error:
            raise InvalidArgumentError(f"cannot begin the log {file}: {error}") from error
        first = {"optimizer": dataclasses.asdict(model.optimizer), "compressor": compressor}
        self._write(json.dumps(first).encode() + b"\n")
        self._frame(Kind.STATE, (0,), model.version, model.state())

    def committed(self, arrived: Arrived, version: int) -> None:
        """The model has this version after the commit."""
        kind = Kind.SUM if arrived.is_sum else Kind.UPDATE
        self._frame(kind, arrived.names, version, arrived.payload)

    def lost(self, name: int, version: int) -> None:
        """The model has this version after the turn of an update that is lost."""
        self._frame(Kind.LOST, (name,), version, b"")

    def close(self) -> None:
        with contextlib.suppress(OSError):  # of what could not be written before
            self._file.close()

    def _frame(self, kind: Kind, names: tuple[int, ...], version: int, payload: bytes) -> None:
        self._write(header_of(kind, _NO_SECRET, names, version, payload).pack() + payload)

    def _write(self, data: bytes) -> None:
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise SystemCallError(f"cannot write the log {self._file.name}: {error.strerror}") from error


def replay(file: Path) -> Model:
    """Commits all that a log has, in its order.

    Raises:
      InvalidArgumentError: the file cannot be read, is no log, or was changed.
    """
    try:
        with file.open("rb") as log:
            first = _first(log.readline())
            frames = _frames(log)
            header, state = next(frames, (None, b""))
            if header is None or header.kind is not Kind.STATE:
                raise InvalidArgumentError(f"the log {file} does not begin with a model")
            optimizer = Optimizer(**first["optimizer"])
            model = model_of(state, optimizer, header.version)
            codec = Codec(first["compressor"], len(model.weights))
            for header, payload in frames:
                turns = header.version - model.version
                if turns < 1:
                    raise InvalidArgumentError(f"the log {file} has version {header.version} after {model.version}")
                if header.kind is Kind.LOST:
                    model.skip()
                elif header.kind is Kind.UPDATE:
                    total = optimizer.sum([codec.decode(payload, header.names[0])])
                    model.commit(total, 1, turns)
                else:
                    model.commit(vector_of(payload), len(header.names), turns)
            return model
    except OSError as error:
        raise InvalidArgumentError(f"cannot read the log {file}: {error}") from error


def _first(line: bytes) -> Any:
    try:
        first = json.loads(line)
        return {"optimizer": first["optimizer"], "compressor": first["compressor"]}
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgumentError("this is no log of a server of jaxina.fabric") from error


def _frames(log: Any) -> Any:
    """Reads the frames up to the end, or to a last one that is not whole."""
    while len(start := log.read(START_BYTES)) == START_BYTES:
        rest = header_bytes(names_in(start)) - START_BYTES
        text = start + log.read(rest)
        if len(text) < START_BYTES + rest:
            return
        header: Header = unpack(text, _NO_SECRET)
        payload = log.read(header.size)
        if len(payload) < header.size:
            return
        header.check(payload)
        yield header, payload
