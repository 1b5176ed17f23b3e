"""The controller of the Tofino program: the data plane of `jaxina switch --backend tofino`.

It stands behind the same control service as the software switch (`jaxina.control`), so a worker cannot tell which of
the two it joined. p4/README.md is the contract with the program. Each control of p4/tofino that has a table or a
register to fill has a module with its name here. These modules write to `tables`: a chip's BfRt server (`bfrt`), or a
record of every write (`dry_run`). The package is installed as `jaxina.controller`.
"""
