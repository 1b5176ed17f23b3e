"""Runs a P4_16 program for Tofino 1 packet by packet, from its text. A tool for tests.

It implements the parts of the language and of the chip that p4/tofino uses (`grammar.lark`, `architecture/`), and
refuses everything else with a ProgramError. Where the chip defines nothing, the interpreter guesses nothing. A bit that
nothing has set may be moved and calculated with. But if such a bit decides what becomes of a packet, or leaves through
a port, that is an UndefinedError. It is one, too, if a packet meets a register or a table twice in one pass.

    source, grammar.lark        text -> tree
    program, controls           declarations -> instances, each compiled separately
    expressions, statements     trees -> Python functions of a `Pass`
    parser_states, tables, actions, registers, externs
    packet, values              bytes and numbers with bits that are not set
    chip, traffic_manager       pipes, copies, recirculation
    controller_tables           the chip as p4/controller sees it

A field that is written while its header is invalid keeps its value when the header becomes valid, as in the chip. The
program relies on that: it reads sums into headers that it adds afterwards.
"""
