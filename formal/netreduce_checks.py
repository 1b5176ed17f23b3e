"""The configurations and mutants of NetReduce's model, netreduce.pml."""

from spin_check import Check

_RACKS_IN_ALL_ORDERS = "RACKS N=3 S=2 C=2 C1=1 ORDERED LOSSES=0 DUPLICATES=0"

CHECKS = [
    Check("netreduce.pml", "NetReduce: 2 workers, 3 passes", "FOREVER N=2 C=3"),
    Check("netreduce.pml", "NetReduce: 3 workers, 2 passes", "FOREVER N=3 C=2"),
    Check("netreduce.pml", "NetReduce: 2 workers, 2 slots", "FOREVER N=2 S=2 C=2"),
    Check("netreduce.pml", "NetReduce: a switch that reboots", "FOREVER N=2 C=2 REBOOTS=1"),
    Check("netreduce.pml", "NetReduce: a reboot, unchecked data", "FOREVER N=2 C=3 REBOOTS=1 UNCHECKED"),
    Check("netreduce.pml", "NetReduce: 2 workers, no deadlock", "N=2 C=3"),
    # Workers post in all orders here. Who waits forever sends again forever, so a deadlock is a cycle.
    Check(
        "netreduce.pml", "NetReduce: 2 slots, no deadlock", "N=2 S=2 C=2 ORDERED LOSSES=0 DUPLICATES=0", progress=True
    ),
    Check("netreduce.pml", "NetReduce: 2 slots, 1 loss", "N=2 S=2 C=1 ORDERED LOSSES=1 DUPLICATES=0"),
    Check("netreduce.pml", "NetReduce: 2 workers, progress", "N=2 C=2", progress=True),
    Check("netreduce.pml", "NetReduce racks: 3 workers, 2 passes", "RACKS FOREVER N=3 C=2"),
    Check("netreduce.pml", "NetReduce racks: 1 pass, a switch reboots", "RACKS FOREVER N=3 C=1 REBOOTS=1"),
    Check("netreduce.pml", "NetReduce racks: 2 passes, a switch reboots", "RACKS FOREVER N=2 C=2 REBOOTS=1"),
    Check("netreduce.pml", "NetReduce racks: no dead end, 1 loss", "RACKS N=3 C=2 LOSSES=1 DUPLICATES=0"),
    Check("netreduce.pml", "NetReduce racks: progress", "RACKS N=2 C=2 LOSSES=1 DUPLICATES=0", progress=True),
    Check("netreduce.pml", "NetReduce racks: 2 slots, no deadlock", _RACKS_IN_ALL_ORDERS, progress=True),
    # This one shows that the checks above are not vacuous: with NO_END the model claims that the end is never reached.
    Check("netreduce.pml", "NetReduce: the end is reached", "FOREVER N=2 C=3 NO_END", holds=False),
    Check("netreduce.pml", "NetReduce mutant: raw forwarding", "FOREVER N=2 S=2 C=1 RAW", holds=False),
    Check("netreduce.pml", "NetReduce mutant: forged NAK", "FOREVER N=2 S=2 C=2 FORGED_NAK", holds=False),
    Check("netreduce.pml", "NetReduce mutant: one version", "FOREVER N=2 C=3 ONE_VERSION", holds=False),
    Check("netreduce.pml", "NetReduce mutant: no count", "FOREVER N=2 C=2 REBOOTS=1 NO_COUNT", holds=False),
    Check(
        *("netreduce.pml", "NetReduce mutant: sums again", "FOREVER N=2 C=3 REBOOTS=1 UNCHECKED RECALLS"), holds=False
    ),
    Check("netreduce.pml", "NetReduce mutant: too few messages", "FOREVER N=2 C=3 R=1", holds=False),
    Check("netreduce.pml", "NetReduce mutant: no repeated result", "N=2 C=2 NO_REPEAT", holds=False, progress=True),
    Check("netreduce.pml", "NetReduce mutant: part of a rack", "RACKS FOREVER N=3 C=2 EARLY", holds=False),
    Check(
        *("netreduce.pml", "NetReduce mutant: no count in racks", "RACKS FOREVER N=3 C=1 REBOOTS=1 NO_COUNT"),
        holds=False,
    ),
    Check(
        *("netreduce.pml", "NetReduce mutant: order on the way up", _RACKS_IN_ALL_ORDERS + " UP_IN_ORDER"),
        holds=False,
        progress=True,
    ),
    Check(
        *("netreduce.pml", "NetReduce mutant: order on the way down", _RACKS_IN_ALL_ORDERS + " DOWN_IN_ORDER"),
        holds=False,
        progress=True,
    ),
    Check(
        *("netreduce.pml", "NetReduce mutant: a spine repeats nothing"),
        "RACKS N=2 C=2 LOSSES=1 DUPLICATES=0 NO_REPEAT",
        holds=False,
        progress=True,
    ),
]
