"""Gradient compression: workers average gradients but send fewer bits than float32.

* ``get("topk:0.01")`` makes a compressor from its spec string. `jaxina.compressors.registry` has the grammar.
* `Compressor.init` and `Compressor.update` average a pytree over the workers, compressed, with explicit state.
* `Compressor.encode`, `decode`, `to_bytes` and `from_bytes` handle one array and its bytes on the wire.
* `all_reduce_mean` makes an optax transformation of a compressor.
* `per_worker` and `Partitioned` are for programs of `jax.jit` with `NamedSharding`, without `jax.shard_map`.
* `Meter` and `measure` count the bytes of an update.

docs/compressors.md lists what each compressor promises. To add one, see `jaxina.compressors.base`.
"""

from jaxina.compressors.base import ALL_TO_ALL, GATHER, MAX, REDUCE_SCATTER, SUM, Compressor, Context, Promise
from jaxina.compressors.optax_chain import all_reduce_mean
from jaxina.compressors.partitioned import Partitioned, per_worker
from jaxina.compressors.registry import get, names, register, spec_of
from jaxina.compressors.traffic import Meter, Traffic, measure

__all__ = [
    "ALL_TO_ALL",
    "GATHER",
    "MAX",
    "REDUCE_SCATTER",
    "SUM",
    "Compressor",
    "Context",
    "Meter",
    "Partitioned",
    "Promise",
    "Traffic",
    "all_reduce_mean",
    "get",
    "measure",
    "names",
    "per_worker",
    "register",
    "spec_of",
]
