"""A child of os.fork() has no engine: its calls fail at once. It may start one. The parent's engine goes on."""

import subprocess
import sys

from patience import PATIENCE

PROGRAM = """
import os, signal, sys, threading
import numpy as np
from jaxina import _native, job
from jaxina.errors import NotInitializedError

signal.alarm(60)

def configuration(group):
    shape = _native.JobShape(devices=2, workers=1, slots=8, block_size=256, blocks_per_chunk=1)
    return _native.GroupConfig(shape=shape, worker=0, local=[0, 1])

def start():
    _native.start(configuration, lambda *_: None)

def sums():
    values, results = np.ones(1000, np.float32), {}
    def device(d):
        results[d] = _native.all_reduce([0, 1], d, values)
    threads = [threading.Thread(target=device, args=(d,)) for d in (0, 1)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return all((results[d] == 2).all() for d in (0, 1))

def in_child(body):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        code = 1
        try:
            body()
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

def fails(call, *arguments):
    try:
        call(*arguments)
    except NotInitializedError as error:
        assert "forked after jaxina.init()" in str(error), error
    else:
        raise AssertionError(call)

def child():
    assert not _native.running() and job.current() is None
    fails(_native.all_reduce, [0, 1], 0, np.ones(10, np.float32))
    for call in (_native.statistics, _native.shutdown):
        fails(call)
    fails(_native.abort, [], "WORKER_LOST", "a test")
    start()
    assert sums()
    _native.shutdown()

start()
assert sums()
job._current = object()  # as init() leaves it
in_child(child)
assert job.current() is not None
job._current = None
assert sums() and _native.statistics()["collectives"] == 4
_native.shutdown()
"""


def test_a_forked_child_fails_at_once_and_may_start_its_own_engine():
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
