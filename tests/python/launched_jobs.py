"""Programs that sum in processes of their own, under `jaxina run`, and a switch for them."""

import contextlib
import os
import signal
import subprocess
import sys

from control_fakes import eventually

TRANSPORTS = ["embedded", "direct", "udp"]

PROGRAM = """
import os, signal, sys, time
import jax, jax.numpy as jnp, numpy as np
import jaxina
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
rank = int(os.environ["JAXINA_RANK"])

def leave(code, *ranks):
    # Ends this process only when all `ranks` are here, because the end of one process may end the others.
    open(f"{__file__}.told{rank}", "w").close()
    deadline = time.monotonic() + 20
    while not all(os.path.exists(f"{__file__}.told{r}") for r in ranks):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os._exit(code)

def summer():
    mesh = Mesh(np.array(jax.devices()), ("w",))
    n, local = mesh.size, jax.local_device_count()
    first = jax.process_index() * local
    psum = lambda x: jax.lax.psum(x, "w")
    f = jax.jit(jax.shard_map(psum, mesh=mesh, in_specs=P("w"), out_specs=P()))
    def add(elements=1000):
        row = np.arange(elements, dtype=np.float32)
        mine = np.stack([row + first + d for d in range(local)])
        x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("w")), mine, (n, elements))
        with jaxina.errors.typed():
            y = f(x)
            y.block_until_ready()
        expected = n * row + n * (n - 1) / 2
        np.testing.assert_array_equal(np.asarray(y.addressable_data(0))[0], expected)
    return add
"""


def launch(folder, text, *options, timeout=90, **environment):
    """Runs PROGRAM and more under `jaxina run`. Returns the exit code, stdout's lines and stderr."""
    path = folder / "program.py"
    path.write_text(PROGRAM + text)
    command = [sys.executable, "-m", "jaxina.cli", "run", *map(str, options), str(path)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
    return process.returncode, out.splitlines(), err


@contextlib.contextmanager
def loopback_switch(folder):
    """Starts a switch on loopback. Yields its process, its address and its log."""
    log = folder / "switch.log"
    with log.open("w") as file:
        process = subprocess.Popen([sys.executable, "-m", "jaxina.cli", "switch", "--bind", "127.0.0.1:0"], stderr=file)
    try:
        assert eventually(lambda: "control at" in log.read_text(), timeout=30)
        yield process, log.read_text().partition("control at ")[2].partition(",")[0], log
    finally:
        process.kill()
        process.wait()
