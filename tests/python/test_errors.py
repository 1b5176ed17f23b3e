"""Each native error code has one exception class. The class is found from the text of XLA's exception."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from jaxina import errors

HEADER = Path(__file__).parents[2] / "rdma_engine" / "errors.cc"


def native_codes() -> set[str]:
    return set(re.findall(r'return "([A-Z_]+)";', HEADER.read_text())) - {"OK", "UNKNOWN"}


def test_every_native_code_has_exactly_one_class():
    of_python = {errors.NotCarriedError.code, errors.AuthenticationError.code}
    assert set(errors.BY_CODE) - of_python == native_codes()


@pytest.mark.parametrize("code", sorted(errors.BY_CODE))
def test_text_round_trip(code: str):
    error = errors.from_code(code, "cause; remedy")
    assert str(error) == f"jaxina[{code}]: cause; remedy"
    assert error.message == "cause; remedy"
    assert type(errors.from_exception(RuntimeError(f"INTERNAL: {error} [more of XLA's]"))) is type(error)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and copy.message == error.message


def test_messages_of_several_lines_are_kept_whole():
    found = errors.from_exception(RuntimeError("UNAVAILABLE: jaxina[WORKER_LOST]: worker 1\nworker 2"))
    assert found.message == "worker 1\nworker 2"


def test_exceptions_of_others_have_no_cause_here():
    assert errors.from_exception(RuntimeError("INTERNAL: something else")) is None
    assert errors.from_exception(KeyError("jaxina")) is None


def test_typed_errors_are_their_own_cause():
    error = errors.MismatchError("shapes differ")
    assert errors.from_exception(error) is error


def test_unknown_codes_become_the_base_class():
    assert type(errors.from_code("FROM_THE_FUTURE", "m")) is errors.JaxinaError


def test_errors_are_also_what_python_calls_them():
    assert issubclass(errors.CollectiveTimeoutError, TimeoutError)
    assert issubclass(errors.InvalidArgumentError, ValueError)
    assert issubclass(errors.SwitchUnreachableError, ConnectionError)
    assert issubclass(errors.SystemCallError, OSError)
