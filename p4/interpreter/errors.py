class ProgramError(Exception):
    """The program's text is not understood, or contradicts itself."""


class UndefinedError(Exception):
    """What a packet does depends on something that the chip does not define."""


class RejectedError(Exception):
    """A parser wants more bytes than there are, or no case of a select holds; the chip drops the
    packet."""
