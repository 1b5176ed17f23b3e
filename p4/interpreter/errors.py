"""The interpreter's errors."""


class ProgramError(Exception):
    """The interpreter does not understand the program's text, or the text contradicts itself."""


class UndefinedError(Exception):
    """What becomes of a packet depends on something that the chip does not define."""


class RejectedError(Exception):
    """A parser wants more bytes than the packet has, or no case of a select holds. The chip drops the packet."""
