// What else core.p4 declares is built into the interpreter.
action NoAction() {}
