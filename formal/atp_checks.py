"""The configurations and mutants of ATP's model, atp.pml, and the faults of the published algorithm."""

from spin_check import Check

CHECKS = [
    Check("atp.pml", "ATP: 2 workers, 4 passes", "FOREVER N=2 C=4"),
    Check("atp.pml", "ATP: 3 workers, 3 passes", "FOREVER N=3 C=3"),
    Check("atp.pml", "ATP: 2 switches, 1 pass", "FOREVER N=3 C=1 RACKS=1"),
    Check("atp.pml", "ATP: 2 switches, 2 passes", "FOREVER N=3 C=2 RACKS=1"),
    Check("atp.pml", "ATP: epoch modulo 4, window 2", "FOREVER N=2 C=5 M=4 W=2"),
    Check("atp.pml", "ATP: 2 workers, passes sent on", "FOREVER N=2 C=4 SENT_ON"),
    Check("atp.pml", "ATP: 2 switches, passes sent on", "FOREVER N=3 C=1 RACKS=1 SENT_ON"),
    Check("atp.pml", "ATP: sent on, progress", "N=2 C=2 LOSSES=1 DUPLICATES=1 SENT_ON", progress=True),
    Check("atp.pml", "ATP: 2 workers, marks", "FOREVER N=2 C=3 MARKS"),
    Check("atp.pml", "ATP: 2 switches, marks", "FOREVER N=3 C=1 RACKS=1 MARKS"),
    Check("atp.pml", "ATP: 2 workers, no deadlock", "N=2 C=2 LOSSES=2 DUPLICATES=1"),
    Check("atp.pml", "ATP: 2 switches, no deadlock", "N=3 C=1 RACKS=1 LOSSES=2 DUPLICATES=1"),
    Check("atp.pml", "ATP: 2 workers, progress", "N=2 C=2 LOSSES=2 DUPLICATES=1", progress=True),
    Check("atp.pml", "ATP: 2 switches, progress", "N=3 C=1 RACKS=1 LOSSES=2 DUPLICATES=1", progress=True),
    # This one shows that the checks above are not vacuous: with NO_END the model claims that the end is never reached.
    Check("atp.pml", "ATP: the end is reached", "FOREVER N=3 C=1 RACKS=1 NO_END", holds=False),
    Check("atp.pml", "ATP mutant: no epoch", "FOREVER N=2 C=2 NO_EPOCH", holds=False),
    Check("atp.pml", "ATP mutant: no expiry", "N=2 C=1 LOSSES=0 EVICTIONS=0 NO_EXPIRY", holds=False),
    Check("atp.pml", "ATP mutant: reused numbers", "N=2 C=2 LOSSES=1 DUPLICATES=0 EVICTIONS=0 REUSED", holds=False),
    Check("atp.pml", "ATP mutant: overlap added", "FOREVER N=3 C=1 RACKS=1 ADD_OVERLAP", holds=False),
    Check("atp.pml", "ATP mutant: a resend evicts", "FOREVER N=3 C=1 EVICT", holds=False),
    Check("atp.pml", "ATP mutant: a collided packet evicts", "FOREVER N=3 C=1 RACKS=1 COLLIDED_EVICTS", holds=False),
    Check("atp.pml", "ATP mutant: no direct path", "N=3 C=1 RACKS=1 NO_DIRECT", holds=False, progress=True),
    Check("atp.pml", "ATP mutant: release without comparison", "FOREVER N=2 C=2 RELEASE_ANY", holds=False),
    Check("atp.pml", "ATP mutant: an old entry is joined", "FOREVER N=2 C=5 M=4 W=2 JOIN_OLD", holds=False),
    Check("atp.pml", "ATP mutant: a mark is inherited", "FOREVER N=2 C=2 MARKS INHERITED", holds=False),
    Check(
        "atp.pml", "ATP: a pass splits without loss", "N=2 C=1 LOSSES=0 DUPLICATES=0 EVICTIONS=0 NO_SPLIT", holds=False
    ),
]
