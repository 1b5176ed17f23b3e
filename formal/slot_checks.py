"""The configurations and mutants of the slot protocol's model, slot.pml."""

from spin_check import Check

CHECKS = [
    Check("slot.pml", "2 workers, 8 passes", "FOREVER N=2 C=8"),
    Check("slot.pml", "3 workers, 8 passes", "FOREVER N=3 C=8"),
    Check("slot.pml", "2 workers, 2 slots", "FOREVER N=2 S=2 C=8"),
    Check("slot.pml", "3 workers, 2 slots", "FOREVER N=3 S=2 C=4"),
    Check("slot.pml", "2 workers, restart", "FOREVER N=2 C=8 RESTARTS=1"),
    Check("slot.pml", "3 workers, restart", "FOREVER N=3 C=4 RESTARTS=1"),
    Check("slot.pml", "2 workers, no deadlock", "N=2 C=4 LOSSES=3 DUPLICATES=2"),
    Check("slot.pml", "3 workers, no deadlock", "N=3 C=4 LOSSES=2 DUPLICATES=1"),
    Check("slot.pml", "2 workers, progress", "N=2 C=4 LOSSES=3 DUPLICATES=2", progress=True),
    Check("slot.pml", "3 workers, progress", "N=3 C=4 LOSSES=2 DUPLICATES=1", progress=True),
    Check("slot.pml", "2 slots, progress", "N=2 S=2 C=4 LOSSES=1 DUPLICATES=1", progress=True),
    Check("slot.pml", "restart, progress", "N=2 C=4 LOSSES=1 DUPLICATES=1 RESTARTS=1", progress=True),
    Check("slot.pml", "epoch modulo 4, window 2", "FOREVER N=3 C=8 M=4 W=2"),
    Check("slot.pml", "epoch modulo 6, window 4", "FOREVER N=3 C=8 M=6 W=4"),
    # These two show that the checks above are not vacuous: with NO_END the model claims that the end is never reached.
    Check("slot.pml", "the end is reached", "FOREVER N=3 C=8 NO_END", holds=False),
    Check("slot.pml", "the end is reached after a restart", "FOREVER N=2 C=8 RESTARTS=1 NO_END", holds=False),
    Check("slot.pml", "mutant: the paper's version bit", "FOREVER PAPER", holds=False),
    Check("slot.pml", "mutant: the paper's, 3 workers", "FOREVER PAPER N=3", holds=False),
    Check("slot.pml", "mutant: no bitmap clear", "NO_BITMAP_CLEAR", holds=False, progress=True),
    Check("slot.pml", "mutant: premature slot reuse", "PREMATURE_REUSE", holds=False, progress=True),
    Check("slot.pml", "mutant: no resend", "NO_RESEND", holds=False, progress=True),
    Check("slot.pml", "mutant: no secret", "FOREVER NO_SECRET RESTARTS=1", holds=False),
    Check("slot.pml", "mutant: epoch modulo 4, window 3", "FOREVER N=2 C=8 M=4 W=3", holds=False),
    Check("slot.pml", "mutant: epoch modulo 6, window 5", "FOREVER N=2 C=8 M=6 W=5", holds=False),
]
