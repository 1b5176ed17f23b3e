"""The functions of the MPI library that XLA calls, called here directly, in a world of one process."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import byref

import pytest

from jaxina import _native
from jaxina._tracing_settings import Precision

ROOM = 1024  # MPI_MAX_ERROR_STRING


class Library:
    """The library, with a communicator of this process alone."""

    def __init__(self) -> None:
        self._functions = ctypes.CDLL(_native.__file__)
        self.byte, self.total = (ctypes.c_size_t.in_dll(self._functions, f"MPIABI_{name}") for name in ("BYTE", "SUM"))
        self.communicator = ctypes.c_size_t()
        assert self("Comm_split", ctypes.c_size_t(1), 0, 0, byref(self.communicator)) is None

    def __call__(self, name: str, *arguments: object) -> str | None:
        """Calls a function. Returns the text of its error; None if it succeeds."""
        code = getattr(self._functions, f"MPIABI_{name}")(*arguments)
        if code == 0:
            return None
        text, length = ctypes.create_string_buffer(ROOM), ctypes.c_int()
        self._functions.MPIABI_Error_string(code, text, byref(length))
        return text.value.decode()


@pytest.fixture
def mpi() -> Iterator[Library]:
    _native.set_mpi_world(
        *(0, 1, "127.0.0.1", [], 1.0, lambda: [0]),
        *(lambda port, secret: [("127.0.0.1", port, secret)], lambda rank: False),
    )
    _native.begin_mpi_program(1, [0], False, [], Precision().numbers)
    yield Library()
    _native.end_mpi_program(False, True)


def test_more_than_mpi_can_count_is_an_error(mpi):
    """XLA narrows 2^31 to MPI's int, which is negative."""
    many, place, request = -(2**31), ctypes.create_string_buffer(8), ctypes.c_size_t()
    to_sum = (place, place, many, mpi.byte, mpi.total, mpi.communicator)
    part = (place, many, mpi.byte)
    counts = (ctypes.c_int * 1)(many)
    for error in (
        mpi("Allreduce", *to_sum),
        mpi("Allgather", *part, *part, mpi.communicator),
        mpi("Reduce_scatter", place, place, counts, *to_sum[3:]),
        mpi("Isend", *part, 0, 0, mpi.communicator, byref(request)),
        mpi("Irecv", *part, 0, 0, mpi.communicator, byref(request)),
        mpi("Sendrecv", *part, 0, 0, *part, 0, 0, mpi.communicator, None),
    ):
        assert error is not None and error.startswith("jaxina[INVALID_ARGUMENT]"), error


def test_a_receive_that_cannot_be_posted_ends_those_before_it(mpi):
    """XLA frees the memory of all receives of an operation when one fails."""
    memory, request = ctypes.create_string_buffer(8), ctypes.c_size_t()
    tag, strange = 5, 7
    assert mpi("Irecv", memory, 8, mpi.byte, 0, tag, mpi.communicator, byref(request)) is None
    assert "has no process 7" in mpi("Irecv", memory, 8, mpi.byte, strange, tag, mpi.communicator, byref(request))
    assert mpi("Isend", b"message.", 8, mpi.byte, 0, tag, mpi.communicator, byref(request)) is None
    assert memory.raw == bytes(8)
