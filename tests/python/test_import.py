"""What `import jaxina` brings: not JAX, except in a launched process; and JAX is overridden in time all the same."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from patience import PATIENCE

import jaxina


def run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=os.environ | variables)


@pytest.mark.parametrize("module", ["jaxina", "jaxina.cli", "jaxina.control.server", "jaxina.testbed"])
def test_the_command_line_needs_neither_jax_nor_numpy(module: str):
    done = run(f"import sys, {module}\nprint([name for name in ('jax', 'jaxlib', 'numpy') if name in sys.modules])")
    assert done.stdout == "[]\n", done.stderr


def test_every_public_name_is_there_and_no_other():
    names = {}
    exec("from jaxina import *", names)
    assert set(jaxina.__all__) <= set(names) and set(jaxina.__all__) <= set(dir(jaxina))
    assert isinstance(jaxina.collectives, type)  # and not a module
    with pytest.raises(AttributeError, match=r"module 'jaxina' has no attribute 'psum'"):
        jaxina.psum  # noqa: B018


def test_a_launched_process_that_computes_without_init_is_told():
    program = "import jax, jaxina\njax.jit(lambda x: x + 1)(1.0)"
    done = run(program, JAXINA_RANK="0", JAXINA_PROCESSES="2")
    assert done.returncode != 0
    assert "JAXINA_PROCESSES=2: `jaxina run` started 2 processes, but this one computes alone" in done.stderr


def test_a_program_that_ran_before_the_first_use_of_jaxina_is_carried_after_init():
    program = """
import jax
import jaxina
from jax.sharding import Mesh, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 2)
mesh = Mesh(jax.devices(), ("w",))
total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "w"), mesh=mesh, in_specs=P("w"), out_specs=P()))
x = jax.numpy.arange(2.0)
assert total(x)[0] == 1
for _ in range(2):
    with jaxina.init() as job:
        assert total(x)[0] == 1
        print(job.statistics()["collectives"], jaxina.report().carried)
    assert total(x)[0] == 1
"""
    assert run(program).stdout.splitlines()[-2:] == ["2 1", "2 1"]  # a collective for each device
