// The interpreter's own core.p4. All its other declarations are built into the interpreter.
action NoAction() {}
