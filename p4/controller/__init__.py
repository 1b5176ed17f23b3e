"""The controller of the Tofino program: the data plane of `jaxina switch --backend tofino`.

It stands behind the same control service as the software switch (`jaxina.control`), so a worker
cannot tell which one
it joined. p4/README.md is the contract with the program; each control of p4/tofino that has a
table or a register to
fill has a module of its name here. Below them is `tables`: a chip's BfRt (`bfrt`), or a record of
every write
(`dry_run`). Installed as `jaxina.controller`.
"""
