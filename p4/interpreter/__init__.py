"""Runs a P4_16 program for Tofino 1 packet by packet, from its text: a tool for tests.

It knows what p4/tofino uses of the language and of the chip (`grammar.lark`, `architecture/`), and
refuses the rest with a ProgramError. Where the chip defines nothing, it guesses nothing: a bit that
nothing has set may be moved and calculated with, but if it decides what becomes of a packet, or
leaves a port, that is an UndefinedError. So is a register or a table that a packet meets twice in
one pass.

    source, grammar.lark        text -> tree
    program, controls           what is declared -> instances, each compiled for itself
    expressions, statements     trees -> Python functions of a `Pass`
    parser_states, tables, actions, registers, externs
    packet, values              bytes and numbers with bits that are not set
    chip, traffic_manager       pipes, copies, recirculation
    controller_tables           the chip as p4/controller sees it

Fields that are written while their header is not there keep their value when it becomes valid, as
they do in the chip: the program reads sums into headers that it adds afterwards.
"""
