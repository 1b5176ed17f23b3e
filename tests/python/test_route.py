"""XLA's own collectives, which XLA hands to jaxina as if jaxina were an MPI library.

They give errors if processes run different programs. They still work where jaxina is switched off or has ended.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import types

import pytest
from patience import PATIENCE

from jaxina import _route, config
from jaxina._tracing_settings import Precision
from jaxina.errors import CollectiveTimeoutError, InvalidArgumentError

PRELUDE = """
import jax, jax.numpy as jnp, numpy as np, sys
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
import jaxina
from jaxina.errors import JaxinaError, typed

jaxina.init({init})
rank, n = jax.process_index(), jax.process_count()
devices = jax.device_count()
mesh = jax.make_mesh((devices,), ("w",), axis_types=(AxisType.Auto,))

def laid_out(values, spec=P("w")):
    values = np.asarray(values)
    return jax.make_array_from_callback(values.shape, NamedSharding(mesh, spec), lambda index: values[index])

def whole(array):
    return np.asarray(array.addressable_data(0))

def carried():
    return jaxina.job.current().statistics()["collectives"]

rows = np.linspace(0, 1, 4 * devices, dtype=np.float32)
x = laid_out(rows)

def attempt(*programs):
    try:
        with typed():
            for program in programs:
                print("result", whole(program(x)))
    except JaxinaError as error:
        print(error.code, error.message)
"""


def outputs(folder, program: str, processes: int = 2, init: str = "timeout=8", before: str = "") -> list[list[str]]:
    """Runs a program. Returns the lines that each process printed."""
    file = folder / "program.py"
    file.write_text(before + PRELUDE.replace("{init}", init) + textwrap.dedent(program))
    command = [sys.executable, "-m", "jaxina.cli", "run", "-n", str(processes), str(file)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    lines = [line.partition("] ") for line in finished.stdout.splitlines()]
    told = [[text for head, _, text in lines if head == f"[{rank}"] for rank in range(processes)]
    assert all(told), finished.stdout + finished.stderr
    return told


UNLIKE = {
    "another operation": "attempt(jax.jit(lambda x: jnp.sum(x * (1 if rank else 100))))",
    "another order": """
        one, two = jax.jit(lambda x: jnp.sum(x)), jax.jit(lambda x: jnp.sum(2 * x))
        attempt(*((one, two) if rank else (two, one)))""",
    "once more": """
        one = jax.jit(lambda x: jnp.sum(x))
        attempt(*([one] * (1 + rank)), jax.jit(lambda x: jnp.sum(2 * x)))""",
    "another permute": "attempt(jax.jit(lambda x: jnp.roll(x, 1 + rank)))",
    "a branch that one process takes": """
        def body(x):
            return lax.cond(lax.axis_index("w") == 0, lambda x: lax.pmax(x, "w"), lambda x: x, x)
        attempt(jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("w"), out_specs=P("w"), check_vma=False)))""",
    "a loop that one process leaves early": """
        def body(x):
            last = lax.axis_index("w") + 2
            return lax.while_loop(lambda s: s[0] < last, lambda s: (s[0] + 1, lax.pmax(s[1], "w") + 1), (0, x))[1]
        attempt(jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("w"), out_specs=P("w"), check_vma=False)))""",
}


@pytest.mark.parametrize("name", UNLIKE)
def test_processes_that_do_unlike_things_get_an_error(tmp_path, name: str):
    for lines in outputs(tmp_path, UNLIKE[name]):
        assert lines[-1].split()[0] == "MISMATCH", lines


def test_a_branch_that_one_of_three_takes(tmp_path):
    for lines in outputs(tmp_path, UNLIKE["a branch that one process takes"], processes=3):
        assert lines[-1].split()[0] == "MISMATCH", lines


# The second run of each program fails in process 1, because its argument has been deleted.
FAILS = """
for other in (jax.jit(lambda x: jnp.sum(x)), jax.jit(lambda x: jnp.roll(x, 1))):
    jax.block_until_ready(other(x))
    gone = x + 0
    if rank == 1:
        gone.delete()
    try:
        with typed():
            jax.block_until_ready(other(gone))
    except (JaxinaError, RuntimeError) as error:
        print(getattr(error, "code", "deleted"))
"""


def test_a_failure_of_one_process_ends_the_waiting_of_the_other(tmp_path):
    one, other = outputs(tmp_path, FAILS)
    assert one == ["MISMATCH", "WORKER_LOST"] and other == ["deleted", "deleted"]


# Process 0 is interrupted while it waits for process 1, which comes to that run only then. XLA runs programs of little
# work within the call, where Python takes no interrupt.
INTERRUPTED = """
import os, pathlib, signal, threading, time
given_up = pathlib.Path(__file__).with_name("given_up")
many = np.arange(8000, dtype=np.float32)
x, turned = laid_out(many), jax.jit(lambda x: jnp.roll(x * x + x, 1))
total = jax.jit(lambda x: jnp.sum(x * x + x))
jax.block_until_ready((turned(x), total(x)))
try:
    if rank == 0:
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        while not given_up.exists():
            time.sleep(0.01)
    with typed():
        jax.block_until_ready({awaited}(x))
except JaxinaError as error:
    print(error.code)
except KeyboardInterrupt:
    given_up.touch()
    print("interrupted")
got = whole(turned(x))
np.testing.assert_allclose(got, np.roll(many * many + many, 1)[len(got) * rank :][: len(got)], rtol=1e-6)
print("turned")
"""


@pytest.mark.parametrize("awaited", ["turned", "total"])
def test_an_interrupt_ends_the_waiting_for_others_and_theirs(tmp_path, awaited: str):
    program = INTERRUPTED.replace("{awaited}", awaited)
    one, other = outputs(tmp_path, program, init="timeout=300")
    assert one == ["interrupted", "turned"] and other == ["WORKER_LOST", "turned"]


def test_a_run_that_was_interrupted_keeps_the_next_one_waiting_until_it_has_ended(monkeypatch):
    """XLA may still be at work, and its calls must not count as those of the next run."""
    ended = threading.Event()
    token = types.SimpleNamespace(block_until_ready=ended.wait)

    def run(take_token):
        return _route._run(take_token, 1, [0], False, [], Precision().numbers, False, "a program")

    with pytest.raises(KeyboardInterrupt), run(lambda: token):
        raise KeyboardInterrupt
    monkeypatch.setattr(_route, "_patience", 0)
    with pytest.raises(CollectiveTimeoutError), run(lambda: None):
        pass
    ended.set()
    monkeypatch.setattr(_route, "_patience", PATIENCE)
    with run(lambda: None):
        pass


# The partitioner sums over half of the processes. The second run fails in process 1, for which only process 0 waits. It
# does not end meanwhile, which would tell process 0.
FAILS_IN_A_PART = """
import pathlib, time
told = pathlib.Path(__file__).with_name("told")
halves = jax.make_mesh((2, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
square = rows[:4].reshape(2, 2)
of_all = jax.make_array_from_callback((2, 2), NamedSharding(halves, P("a", "b")), lambda index: square[index])
total = jax.jit(lambda x: x.sum(1), out_shardings=NamedSharding(halves, P("a")))
jax.block_until_ready(total(of_all))
gone = of_all + 0
if rank == 1:
    gone.delete()
try:
    with typed():
        print("result", jax.block_until_ready(total(gone)).shape)
except (JaxinaError, RuntimeError) as error:
    print(getattr(error, "code", "deleted"))
if rank == 0:
    told.touch()
while not told.exists():
    time.sleep(0.01)
"""


def test_a_failure_reaches_a_sum_of_a_part_of_the_processes(tmp_path):
    first, second, *others = outputs(tmp_path, FAILS_IN_A_PART, processes=4, init="timeout=20")
    assert first == ["MISMATCH"] and second == ["deleted"]
    assert others == [["result (2,)"]] * 2


LIKE = """
def same(name, got, want):
    np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)
    print(name)

tiny = laid_out(np.where(np.arange(4 * n) == 0, 1, 1e-12).astype(np.float32), P("w"))
before = carried()
with jaxina.collectives(False):
    f = jax.jit(jax.shard_map(lambda x: lax.psum(x, "w"), mesh=mesh, in_specs=P("w"), out_specs=P()))
    same("exact floats", whole(f(tiny))[3], np.float32(n * 1e-12))
    assert jaxina.report().programs[-1].carried == 0, jaxina.report()
    columns = laid_out(np.where(np.arange(4 * n) == 0, 1, 1e-12).reshape(n, 4).astype(np.float32))
    f = jax.jit(lambda x: x.sum(0), out_shardings=NamedSharding(mesh, P()))
    same("exact floats of the partitioner", whole(f(columns))[1], np.float32(n * 1e-12))
    assert jaxina.report().programs[-1].stays[0].why == "jaxina.collectives(False)", jaxina.report()
assert carried() == before

# jaxina carries at the same time the psum that the program asks for and the sums that the partitioner inserts.
def both(x):
    asked = jax.shard_map(lambda x: lax.psum(x, "w"), mesh=mesh, in_specs=P("w"), out_specs=P())(x)
    return asked.sum() + jnp.sum(x * x)
f = jax.jit(both)
for _ in range(20):
    got = f(x)
same("two streams", got.addressable_data(0), rows.sum() + (rows * rows).sum())
assert carried() >= before + 40, carried()

def steps(x):
    return lax.while_loop(lambda s: jnp.sum(s) < 100, lambda s: s * 2, x)
same("a loop with a sum", whole(jax.jit(steps)(x)), rows[4 * rank : 4 * rank + 4] * 2**5)

if n > 2:  # all processes run the program, also one that has no device in it
    few = jax.make_mesh((2,), ("w",), devices=jax.devices()[:2], axis_types=(AxisType.Auto,))
    here = NamedSharding(few, P("w"))
    part = jax.make_array_from_callback((4,), here, lambda index: rows[:4][index], dtype=np.float32)
    got = jax.jit(jnp.sum, out_shardings=NamedSharding(few, P()))(part)
    same("a program of some", got.addressable_data(0) if rank < 2 else rows[:4].sum(), rows[:4].sum())

half = jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, P()))
same("in a job", half(x).addressable_data(0), rows.sum())
jaxina.shutdown()
same("after it", half(x).addressable_data(0), rows.sum())
jaxina.init()
before = carried()
same("in the next", half(x).addressable_data(0), rows.sum())
assert carried() > before
"""


@pytest.mark.parametrize("processes", [2, 3])
def test_every_program_goes_on_wherever_jaxina_is_switched_off_or_has_ended(tmp_path, processes: int):
    want = [
        "exact floats",
        "exact floats of the partitioner",
        "two streams",
        "a loop with a sum",
        "a program of some",
        "in a job",
        "after it",
        "in the next",
    ]
    for lines in outputs(tmp_path, LIKE, processes):
        assert lines == [name for name in want if processes > 2 or name != "a program of some"]


MOVES = """
from jax.experimental import multihost_utils

sizes = np.float32([6000, 6e-4, 0.6, 6e-8, 1e-12, 1])  # in one block, and far apart
table = np.random.default_rng(1).standard_normal((4 * n, 6)).astype(np.float32) * sizes
t, ids, everywhere = laid_out(table), np.array([0, 5, 2, 5]), NamedSharding(mesh, P())
before = carried()
print(np.array_equal(whole(t[5]), table[5]))
print(np.array_equal(whole(jax.jit(lambda t: t[ids], out_shardings=everywhere)(t)), table[ids]))
row, total = jax.jit(lambda t: (t[5], t[:, 0].sum()), out_shardings=everywhere)(t)  # XLA merges these two
print(np.array_equal(whole(row), table[5]), abs(whole(total) - table[:, 0].sum()) < 1)
print(np.array_equal(multihost_utils.broadcast_one_to_all(table.ravel() * (1 + rank)), table.ravel()))
assert carried() == before
jax.block_until_ready(jax.jit(lambda t: t.sum(0), out_shardings=everywhere)(t))
assert carried() == before + 1
"""


@pytest.mark.parametrize("init", ["timeout=8", "bits=8, timeout=8"])
def test_data_that_moves_by_sums_stays_as_it_is(tmp_path, init: str):
    """The partitioner makes a row of a divided table by summing it and zeros. No sum may round it."""
    for lines in outputs(tmp_path, MOVES, init=init):
        assert lines == ["True", "True", "True True", "True"]


def test_a_program_compiled_ahead_keeps_the_bits_it_was_lowered_with(tmp_path):
    program = """
    rows = np.where(np.arange(4 * n) == 0, 1, 1e-12).reshape(n, 4).astype(np.float32)
    f = jax.jit(lambda x: x.sum(0), out_shardings=NamedSharding(mesh, P()))
    with jaxina.collectives(bits=64):
        wide = f.lower(laid_out(rows))
    few = f.lower(laid_out(rows))
    with jaxina.collectives(bits=64):
        few = few.compile()
    print(whole(wide.compile()(laid_out(rows)))[1] > 0, whole(few(laid_out(rows)))[1] > 0)
    """
    for lines in outputs(tmp_path, program):
        assert lines == ["True False"]


def test_a_program_of_one_process_in_a_job_of_two(tmp_path):
    program = """
    def alone(x):
        total, shares = lax.psum(x, "i"), lax.psum_scatter(jnp.stack([x]), "i", tiled=False)
        turned = lax.ppermute(x, "i", [(0, 0)])
        return jnp.stack([total, lax.all_gather(x, "i")[0], shares, turned, lax.pmax(x, "i")])

    own = jax.sharding.Mesh(np.array(jax.local_devices()), ("i",))
    collectives = jax.shard_map(alone, mesh=own, in_specs=P(), out_specs=P(), check_vma=False)
    operand = jnp.arange(3, dtype=jnp.float32) + rank
    # Run it as it is written, and through its jaxpr with jax.core.eval_jaxpr.
    written = jax.jit(collectives)(operand)
    traced = jax.make_jaxpr(collectives)(operand)
    (evaluated,) = jax.core.eval_jaxpr(traced.jaxpr, traced.consts, operand)
    print(np.array_equal(written, [operand] * 5) and np.array_equal(evaluated, [operand] * 5))
    attempt(jax.jit(lambda x: jnp.roll(x, 1)))
    """
    for lines in outputs(tmp_path, program):
        assert lines[0] == "True" and lines[1].startswith("result"), lines


CLOSED = {
    "catch_all=False": "JAXINA_CATCH_ALL=no",
    "": "a process has several devices",
}


@pytest.mark.parametrize("init", CLOSED)
def test_the_report_says_why_they_stay(tmp_path, init: str):
    devices = "import jax; jax.config.update('jax_num_cpu_devices', 2)\n" if not init else ""
    program = """
    total = jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, P()))(x)
    print(whole(total) > 0, jaxina.report())
    """
    for lines in outputs(tmp_path, program, init=init, before=devices):
        assert f"inserted by XLA's partitioner; {CLOSED[init]}" in lines[-1]


def test_float16_is_refused_when_it_is_compiled_and_named(tmp_path):
    program = """
    def total(x, dtype):  # jnp.sum would sum in float32
        return lax.reduce(x.astype(dtype), jnp.zeros((), dtype), lax.add, (0,))
    attempt(jax.jit(lambda x: total(x, jnp.float16)))
    with jaxina.collectives(False):
        attempt(jax.jit(lambda x: total(x, jnp.float16) + 1))
    for dtype in (jnp.float16, jnp.float8_e4m3fn):
        attempt(jax.jit(lambda x: x.astype(dtype), out_shardings=NamedSharding(mesh, P())))
    names = mesh.axis_names
    psum = jax.shard_map(lambda x: lax.psum(x.astype(jnp.float8_e4m3fn), names), mesh=mesh, in_specs=P(), out_specs=P())
    attempt(jax.jit(psum))
    attempt(jax.jit(lambda x: total(x, jnp.bfloat16)), jax.jit(lambda x: jnp.roll(x.astype(jnp.float16), 1)))
    """
    for lines in outputs(tmp_path, program):
        assert [line.split()[0] for line in lines] == ["UNSUPPORTED_TYPE"] * 5 + ["result"] * 2, lines
        assert "--no-catch-all" in lines[4] and "not in float8" in lines[4]


def test_what_mpi_cannot_count_is_refused_when_it_is_compiled(tmp_path):
    """XLA cuts its numbers off to 32 bits. Each row is with one process. Nothing runs, so nothing needs the memory."""
    program = """
    everywhere, one_each = NamedSharding(mesh, P()), NamedSharding(mesh, P("w"))

    def compiles(program, elements, out):
        try:
            jax.jit(program, out_shardings=out).lower(
                jax.ShapeDtypeStruct((n, elements), jnp.int16, sharding=one_each)
            ).compile()
        except JaxinaError as error:
            return error.code, "too large" in error.message
        return "compiled"

    def total(x):  # jnp.sum would sum in int32
        return lax.reduce(x, jnp.int16(0), lax.add, (0,))

    for program, out, most in (
        (lambda x: jnp.roll(x, 1, 0), one_each, 2**30 - 1),  # a permute counts bytes
        (total, everywhere, 2**31 - 1),
        (lambda x: x, everywhere, 2**31 - 1),
        (lambda x: x, NamedSharding(mesh, P(None, "w")), 2**31 - 2),  # an all-to-all of half a row
    ):
        print(compiles(program, most, out), compiles(program, most + 2, out))
    """
    for lines in outputs(tmp_path, program):
        assert lines == ["compiled ('INVALID_ARGUMENT', True)"] * 4, lines


def test_what_keeps_one_process_from_the_route_keeps_all(tmp_path):
    early = """
import os
if os.environ["JAXINA_RANK"] == "1":
    del os.environ["MPITRAMPOLINE_LIB"]
"""
    program = (
        "print(jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, P()))(x).addressable_data(0) > 0, jaxina.report())"
    )
    one, other = outputs(tmp_path, program, before=early)
    assert one[-1].startswith("True") and "process 1: MPITRAMPOLINE_LIB is not" in one[-1]
    assert other[-1].startswith("True") and "partitioner; MPITRAMPOLINE_LIB is not" in other[-1]


def test_a_process_that_never_calls_init_is_named(tmp_path):
    before = """
import os, jax, jaxina
rank = int(os.environ["JAXINA_RANK"])
jax.distributed.initialize(num_processes=2, process_id=rank)
if rank == 1:
    print("has none")
    raise SystemExit
try:
    jaxina.init(join_timeout=2)
except jaxina.errors.NeverJoinedError as error:
    print(error)
raise SystemExit
"""
    one, _ = outputs(tmp_path, "", before=before)
    assert one[-1].startswith("jaxina[NEVER_JOINED]: process 1 did not call jaxina.init()")


def test_strangers_that_say_nothing_keep_no_process_out(tmp_path):
    """Process 1 takes 64 connections of strangers. Process 0 comes last."""
    besieged = """
import socket
from jaxina import joining

exchange, strangers = joining.exchange_endpoints, []

def besiege(topology, incarnation, own, timeout):
    if topology.process == 1:
        strangers.extend(socket.create_connection(own[:2]) for _ in range(100))
    return exchange(topology, incarnation, own, timeout)

joining.exchange_endpoints = besiege
"""
    for lines in outputs(tmp_path, besieged + "attempt(jax.jit(lambda x: jnp.roll(x, 1)))"):
        assert lines[-1].startswith("result"), lines


def test_the_processes_agree_once_whatever_becomes_of_init(monkeypatch):
    monkeypatch.setattr(_route, "_agreed", None)
    exchanges = []

    def exchange(own):
        exchanges.append(own)
        return [None, None]

    monkeypatch.setattr(_route, "_obstacle", lambda *_: None)
    for _ in range(2):
        assert _route.agree(config.resolve(), 2, lambda: False, exchange) is None
    assert exchanges == [None]
    with pytest.raises(InvalidArgumentError, match="after an init"):
        _route.agree(config.resolve(), 2, lambda: True, exchange)
