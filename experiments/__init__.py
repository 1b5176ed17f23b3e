"""Studies of gradient aggregation and compression. Start with `python -m experiments.convergence --help`.

The studies are not part of the installed package. Run them from the repository's root, with the extra `experiments`
installed.
"""
