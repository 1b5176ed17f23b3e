"""Studies of gradient aggregation and compression; `python -m experiments.convergence --help` to begin with.

Not part of the installed package: run from the repository's root, with the extra `experiments` installed.
"""
