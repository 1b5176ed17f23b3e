"""Converts payload arrays to the bytes that a worker would put on the wire, and back, in NumPy.

Integers of a known range are written as digits. Each 64-bit word holds as many digits as fit, as ``sum of v_i base^i``,
little endian. So a sign takes 1 bit, a ternary value 1.6 bits, a number from 0 to 128 takes 7.1 bits. The last word is
cut to the bytes that its digits can fill. The only lengths in the bytes are the counts that `Field.counted` asks for;
both sides know the shapes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxina.errors import InvalidArgumentError

COUNT = "count"
"""Name of the payload array, int32[], that says how many leading entries of each counted array are sent."""


@dataclasses.dataclass(frozen=True)
class Field:
    """How one payload array is written: `integers`, `lookup` or `floats` makes one.

    Attributes:
      low: the smallest integer that may occur. None for floating point, which is written as it is.
      high: the largest integer that may occur.
      table: instead of a range, the integers that may occur, in ascending order. An integer's index in the table is
        written.
      counted: whether only the first `COUNT` entries are sent. The others are padding.
    """

    low: int | None = None
    high: int | None = None
    table: tuple[int, ...] | None = None
    counted: bool = False

    @property
    def is_float(self) -> bool:
        """Whether the array is floating point."""
        return self.low is None and self.table is None

    @property
    def base(self) -> int:
        """How many different digits there are."""
        if self.table:
            return len(self.table)
        low, high = self._integers
        return high - low + 1

    @property
    def range(self) -> tuple[int, int] | None:
        """The smallest and the largest integer that may occur. None for floating point."""
        if self.is_float:
            return None
        return (self.table[0], self.table[-1]) if self.table else self._integers

    @property
    def _integers(self) -> tuple[int, int]:
        assert self.low is not None and self.high is not None, "a field of floating point has no digits"
        return self.low, self.high

    def digits(self, name: str, values: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Converts integers to digits in [0, base).

        Raises:
          InvalidArgumentError: an integer is outside the range or the table. The message starts with `name`.
        """
        values = values.astype(np.int64)
        if self.table:
            digits = np.minimum(np.searchsorted(self.table, values), len(self.table) - 1)
            wrong = np.asarray(self.table)[digits] != values
        else:
            digits = values - self._integers[0]
            wrong = (digits < 0) | (digits >= self.base)
        if wrong.any():
            raise InvalidArgumentError(f"{name}: {values[wrong][0]} is outside the field's range")
        return digits

    def values(self, digits: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Converts digits back to integers."""
        if self.table:
            return np.asarray(self.table, np.int64)[digits.astype(np.int64)]
        return digits.astype(np.int64) + self._integers[0]


def integers(low: int, high: int, counted: bool = False) -> Field:
    """A field of integers from `low` to `high`, both included."""
    return Field(low, high, counted=counted)


def lookup(table: tuple[int, ...]) -> Field:
    """A field of integers that are all in the table, which must be ascending."""
    return Field(table=table)


def floats(counted: bool = False) -> Field:
    """A field of floating-point numbers, written as they are, little endian."""
    return Field(counted=counted)


def to_bytes(arrays: Mapping[str, npt.ArrayLike], fields: Mapping[str, Field]) -> bytes:
    """Writes the arrays, in the order of `fields`.

    Raises:
      InvalidArgumentError: an integer is outside its field's range.
    """
    parts = []
    for name, field in fields.items():
        flat = np.asarray(arrays[name]).reshape(-1)
        if field.counted:
            flat = flat[: int(np.asarray(arrays[COUNT]))]
        parts.append(_float_bytes(flat) if field.is_float else pack_digits(field.digits(name, flat), field.base))
    return b"".join(parts)


def from_bytes(data: bytes, fields: Mapping[str, Field], like: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Reads back what `to_bytes` wrote.

    Args:
      data: the bytes.
      fields: the fields that the bytes were written with.
      like: for each name, something with the array's `shape` and `dtype`.

    Returns:
      The arrays, by name. Counted arrays are filled up with zeros.

    Raises:
      InvalidArgumentError: there are too few or too many bytes.
    """
    arrays: dict[str, np.ndarray] = {}
    position = 0
    for name, field in fields.items():
        shape, dtype = like[name].shape, np.dtype(like[name].dtype)
        size = int(np.prod(shape, dtype=np.int64))
        sent = int(arrays[COUNT]) if field.counted else size
        if sent > size:
            raise InvalidArgumentError(f"{name}: the count is {sent}, but the array has {size} elements")
        length = sent * dtype.itemsize if field.is_float else packed_length(sent, field.base)
        part = data[position : position + length]
        if len(part) != length:
            raise InvalidArgumentError(f"{name} needs {length} bytes, but {len(part)} are left")
        position += length
        flat = np.zeros(size, dtype)
        if field.is_float:
            flat[:sent] = np.frombuffer(part, np.uint8).view(dtype)
        else:
            flat[:sent] = field.values(unpack_digits(part, sent, field.base)).astype(dtype)
        arrays[name] = flat.reshape(shape)
    if position != len(data):
        raise InvalidArgumentError(f"there are {len(data) - position} bytes too many")
    return arrays


def digits_per_word(base: int) -> int:
    """Computes how many digits fit into a 64-bit word: the largest r with base^r <= 2^64.

    Raises:
      InvalidArgumentError: `base` is not in [2, 2^32].
    """
    if not 2 <= base <= 2**32:
        raise InvalidArgumentError(f"a digit's base must be in [2, 2^32], not {base}")
    digits, power = 0, base
    while power <= 2**64:
        digits, power = digits + 1, power * base
    return digits


def packed_length(count: int, base: int) -> int:
    """Computes how many bytes `count` digits take. Digits of base 1 hold no information and take none."""
    if base == 1:
        return 0
    whole, rest = divmod(count, digits_per_word(base))
    return 8 * whole + -(-(base**rest - 1).bit_length() // 8)


def pack_digits(digits: npt.NDArray[np.integer], base: int) -> bytes:
    """Packs one-dimensional digits in [0, base) into `packed_length` bytes."""
    if base == 1:
        return b""
    per_word = digits_per_word(base)
    padded = np.zeros(-(-digits.size // per_word) * per_word, np.uint64)
    padded[: digits.size] = digits
    words = np.zeros(padded.size // per_word, np.uint64)
    for column in padded.reshape(-1, per_word).T[::-1]:  # Horner's rule; words stay below base^per_word <= 2^64
        words = words * np.uint64(base % 2**64) + column
    return words.astype("<u8").tobytes()[: packed_length(digits.size, base)]


def unpack_digits(data: bytes, count: int, base: int) -> npt.NDArray[np.uint64]:
    """Unpacks the first `count` digits of what `pack_digits` wrote."""
    if base == 1:
        return np.zeros(count, np.uint64)
    per_word = digits_per_word(base)
    words = np.frombuffer(data + bytes(-len(data) % 8), "<u8").astype(np.uint64)
    columns = []
    for _ in range(per_word):
        words, digit = np.divmod(words, np.uint64(base))
        columns.append(digit)
    return np.stack(columns, axis=1).reshape(-1)[:count]


def _float_bytes(flat: np.ndarray) -> bytes:
    return flat.astype(flat.dtype.newbyteorder("<")).tobytes()
