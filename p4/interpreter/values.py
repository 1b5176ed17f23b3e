"""Numbers of a fixed width that may have bits that nothing has set.

A number is an int if all its bits are known. Otherwise it is an `Unknown`. An `Unknown` may be moved, cut and
calculated with. It raises UndefinedError only if a decision depends on it.
"""

from __future__ import annotations

from interpreter.errors import UndefinedError


class Unknown:
    """A number with unset bits.

    Attributes:
      value: the number, with 0 for the unset bits.
      mask: the unset bits.
      origin: where the unset bits come from, for messages.
    """

    __slots__ = ("mask", "origin", "value")

    def __init__(self, value: int, mask: int, origin: str):
        self.value = value & ~mask
        self.mask = mask
        self.origin = origin

    def __and__(self, other: Value) -> Value:
        value, mask = parts(other)
        may_be_one = (self.value | self.mask) & (value | mask)
        return make(self.value & value, (self.mask | mask) & may_be_one, self.origin)

    def __or__(self, other: Value) -> Value:
        value, mask = parts(other)
        return make(self.value | value, (self.mask | mask) & ~(self.value | value), self.origin)

    def __xor__(self, other: Value) -> Value:
        value, mask = parts(other)
        return make(self.value ^ value, self.mask | mask, self.origin)

    def __lshift__(self, bits: int) -> Value:
        return make(self.value << bits, self.mask << bits, self.origin)

    def __rshift__(self, bits: int) -> Value:
        return make(self.value >> bits, self.mask >> bits, self.origin)

    def __add__(self, other: Value) -> Value:
        return Unknown(0, -1, self.origin)  # the caller cuts it to its width

    def __eq__(self, other: object) -> Unknown | bool:  # type: ignore[override]
        value, mask = parts(other)  # type: ignore[arg-type]
        if (self.value ^ value) & ~(self.mask | mask):
            return False
        return Unknown(0, 1, self.origin)

    def __ne__(self, other: object) -> Unknown | bool:  # type: ignore[override]
        equal = self == other
        return True if equal is False else equal

    def __lt__(self, other: Value) -> Unknown:
        return Unknown(0, 1, self.origin)

    def __bool__(self) -> bool:
        raise UndefinedError(f"depends on {self.origin}, which nothing has set")

    def __index__(self) -> int:
        raise UndefinedError(f"uses {self.origin}, which nothing has set")

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__
    __gt__ = __le__ = __ge__ = __lt__
    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __add__
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Unknown({self.value:#x}, {self.mask:#x}, {self.origin!r})"


Value = int | Unknown


def make(value: int, mask: int, origin: str) -> Value:
    return Unknown(value, mask, origin) if mask else value


def parts(value: Value) -> tuple[int, int]:
    """Returns (value, mask of the unset bits)."""
    return (value.value, value.mask) if isinstance(value, Unknown) else (value, 0)


def largest(a: Value, b: Value) -> Value:
    if isinstance(a, Unknown):
        return a + b
    return b + a if isinstance(b, Unknown) else max(a, b)
