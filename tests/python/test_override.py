"""In a JAX without a private name, jaxina can be used, psums stay with XLA, and a warning says what is missing."""

from __future__ import annotations

import json
import subprocess
import sys

import private_names
from patience import PATIENCE

# Forks a child for each name. The child removes the name, begins to use jaxina and prints the warnings.
CHILDREN = """
import json, os, sys, types, warnings
import jax

def without(path, name):
    module = sys.modules[path]
    copy = types.ModuleType(path)
    copy.__dict__.update({key: value for key, value in vars(module).items() if key != name})
    if not hasattr(module, "__path__"):  # a name that is a module itself is found in its folder
        copy.__dict__.pop("__spec__")
    sys.modules.pop(f"{path}.{name}", None)
    if name in vars(module) and isinstance(vars(module)[name], types.ModuleType):
        sys.modules[f"{path}.{name}"] = None
    sys.modules[path] = copy

def child(path, name, uses):
    __import__(path, fromlist=[name])
    without(path, name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import jaxina
        jaxina.init  # the first use of JAX's part
    found = [f"{one.filename}: {one.message}" for one in caught if "jaxina" in str(one.message)]
    if uses:
        jax.config.update("jax_num_cpu_devices", 2)
        with jaxina.init():
            total = jax.pmap(lambda x: jax.lax.psum(x, "w"), "w")(jax.numpy.arange(2.0))
            found.append([float(total[0]), jaxina.job.current().statistics()["collectives"]])
        try:
            jaxina.init(strict=True)
        except jaxina.errors.NotCarriedError as error:
            found.append(error.message)
    print(json.dumps([path, name, found]), flush=True)

for number, (path, name) in enumerate(json.loads(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        child(path, name, uses=number == 0)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        print(json.dumps([path, name, ["the child failed"]]), flush=True)
"""


def test_whatever_is_missing_is_named_and_psums_run_natively():
    import jax

    # Only jobs of several processes need the names in these two files. JAX itself needs mlir, ir and func.
    needed = sorted(private_names.imported(without=("distributed.py", "processes.py")))
    names = [one for one in needed if one[1] not in ("mlir", "ir", "func")]
    assert len(names) > 20
    # `_replica_groups` comes first, because only the first child runs a psum and asks for strict.
    names.sort(key=lambda one: one[1] != "_replica_groups")
    done = subprocess.run(
        [sys.executable, "-c", CHILDREN, json.dumps(names)], capture_output=True, text=True, timeout=PATIENCE
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(path, name) for path, name, _ in told] == names, done.stderr
    for path, name, (warning, *_) in told:
        assert warning.startswith("<string>: ")  # the line that uses jaxina, and no line of jaxina's
        assert name in warning and f"JAX {jax.__version__}" in warning, (path, name, warning)
        assert "All psums stay with XLA's own collectives" in warning
    first = told[0][2]
    assert len(first) == 3, first
    assert first[1] == [1.0, 0] and "_replica_groups" in first[2]
    assert all(len(found) == 1 for _, _, found in told[1:])


def test_a_tested_jax_causes_no_warning():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import jaxina; jaxina.init"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
