"""The MPI library from which XLA:CPU takes its collectives. `jaxina._native` is such a library (xla_ffi/mpi)."""

from __future__ import annotations

from jaxina import _native

# The variable that names the library. It is read when jaxlib is loaded, so it must be set before Python starts.
VARIABLE = "MPITRAMPOLINE_LIB"
OWN = _native.__file__
