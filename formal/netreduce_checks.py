"""The configurations and mutants of NetReduce's model, netreduce.pml."""

from spin_check import Check

CHECKS = [
    Check("netreduce.pml", "NetReduce: 2 workers, 3 passes", "FOREVER N=2 C=3"),
    Check("netreduce.pml", "NetReduce: 3 workers, 2 passes", "FOREVER N=3 C=2"),
    Check("netreduce.pml", "NetReduce: 2 workers, 2 slots", "FOREVER N=2 S=2 C=2"),
    Check("netreduce.pml", "NetReduce: a switch that reboots", "FOREVER N=2 C=2 REBOOTS=1"),
    Check("netreduce.pml", "NetReduce: a reboot, unchecked data", "FOREVER N=2 C=3 REBOOTS=1 UNCHECKED"),
    Check("netreduce.pml", "NetReduce: 2 workers, no deadlock", "N=2 C=3"),
    # Workers post in all orders here.
    Check("netreduce.pml", "NetReduce: 2 slots, no deadlock", "N=2 S=2 C=2 ORDERED LOSSES=0 DUPLICATES=0"),
    Check("netreduce.pml", "NetReduce: 2 slots, 1 loss", "N=2 S=2 C=1 ORDERED LOSSES=1 DUPLICATES=0"),
    Check("netreduce.pml", "NetReduce: 2 workers, progress", "N=2 C=2", progress=True),
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
]
