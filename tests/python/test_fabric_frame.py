"""Frames: what is foreign, forged, truncated or changed is refused with a typed error."""

from __future__ import annotations

import pytest

from jaxina.errors import InvalidArgumentError, JobRejectedError
from jaxina.fabric.transfer.frame import MAX_NAMES, START_BYTES, Header, Kind, header_bytes, header_of, names_in, unpack

SECRET = 0x1234567890ABCDEF
PAYLOAD = bytes(range(200))


def header(**changes) -> Header:
    made = header_of(Kind.SUM, SECRET, (1 << 32 | 5, 2 << 32 | 7), 41, PAYLOAD)
    return Header(**({field: getattr(made, field) for field in Header.__dataclass_fields__} | changes))


def test_a_header_comes_back_as_it_was():
    text = header().pack()
    assert len(text) == header().length == header_bytes(2)
    assert names_in(text[:START_BYTES]) == 2
    assert unpack(text, SECRET) == header()
    header().check(PAYLOAD)


def test_every_changed_bit_of_a_header_is_found():
    text = header().pack()
    for bit in range(8 * len(text)):
        changed = bytearray(text)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidArgumentError):
            unpack(bytes(changed), SECRET)


@pytest.mark.parametrize("length", range(START_BYTES, header_bytes(2)))
def test_every_truncated_header_is_refused(length):
    with pytest.raises(InvalidArgumentError):
        unpack(header().pack()[:length], SECRET)


def test_another_jobs_secret_is_refused_and_not_shown():
    with pytest.raises(JobRejectedError, match="secret is not this job's") as refused:
        unpack(header(secret=SECRET + 1).pack(), SECRET)
    assert str(SECRET) not in str(refused.value) and str(SECRET) not in repr(header())


def test_a_name_may_not_come_twice():
    with pytest.raises(InvalidArgumentError, match="names an update twice"):
        unpack(header(names=(5, 6, 5)).pack(), SECRET)


@pytest.mark.parametrize("count", [0, MAX_NAMES + 1])
def test_the_number_of_names_is_bounded(count):
    text = header(names=tuple(range(count))).pack()
    with pytest.raises(InvalidArgumentError, match=f"not {count}"):
        names_in(text[:START_BYTES])


def test_an_unknown_kind_is_refused():
    with pytest.raises(InvalidArgumentError, match="no kind of frame 99"):
        unpack(header(kind=99).pack(), SECRET)


def test_a_changed_or_truncated_payload_is_found():
    with pytest.raises(InvalidArgumentError, match="199 bytes, and its header says 200"):
        header().check(PAYLOAD[:-1])
    changed = bytearray(PAYLOAD)
    changed[17] ^= 4
    with pytest.raises(InvalidArgumentError, match="changed on its way"):
        header().check(changed)
