"""What a service takes as the first message of a stream, and what it refuses."""

from __future__ import annotations

import asyncio

import pytest

from jaxina.control import control_pb2 as pb
from jaxina.control import limits
from jaxina.control.first_message import first_message
from jaxina.errors import InvalidArgumentError

JOIN = pb.WorkerMessage(join=pb.Join(job=1))


async def stream(*messages, silent=0.0):
    await asyncio.sleep(silent)
    for message in messages:
        yield message


def first(requests, **more):
    return asyncio.run(first_message(requests, "kind", {"join"}, "a session begins with a Join", **more))


def test_it_is_the_first_one():
    assert first(stream(JOIN, pb.WorkerMessage()), largest=JOIN.ByteSize()) == JOIN


@pytest.mark.parametrize("messages", [(), (pb.WorkerMessage(), JOIN), (pb.WorkerMessage(leave=pb.Leave()), JOIN)])
def test_a_stream_without_it_is_refused(messages):
    with pytest.raises(InvalidArgumentError, match="a session begins with a Join of at most 16384 bytes, within 10 s"):
        first(stream(*messages))


def test_a_large_one_is_refused():
    with pytest.raises(InvalidArgumentError, match="at most"):
        first(stream(JOIN), largest=JOIN.ByteSize() - 1)


def test_silence_is_refused(monkeypatch):
    monkeypatch.setattr(limits, "JOIN_WITHIN", 0.05)
    with pytest.raises(InvalidArgumentError, match=r"within 0\.05 s"):
        first(stream(JOIN, silent=60))
