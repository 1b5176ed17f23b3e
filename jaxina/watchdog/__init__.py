"""The watchdog: when a collective is late, it names the process that has not come, and shows what that process does.

Each process knows which collectives it has entered and which it waits for (`progress`). When one has waited longer than
``JAXINA_LATE_AFTER``, it asks all processes through the job's key-value store (`inquiry`). Each answers with what it
has entered, what it waits for, and its Python stacks (`stacks`). From the answers follows who waits for whom
(`findings`). `watch` is the thread that does all this.
"""
