"""Gradient compression: what workers send instead of float32, and what becomes of it.

* `get("topk:0.01")`: a compressor from its spec string (`registry` has the grammar and the names).
* `Compressor.init` and `Compressor.update`: averages a pytree over the workers, compressed, with explicit state.
* `Compressor.encode`, `decode`, `to_bytes`, `from_bytes`: one array, and the bytes it takes on the wire.
* `all_reduce_mean`: the same as an optax transformation.
* `traffic.Meter`: counts the bytes of an update.

`docs/compressors.md` lists what each promises. To add one, see `base`.
"""

from jaxina.compressors.base import GATHER, MAX, SUM, Compressor, Context, Promise
from jaxina.compressors.optax_chain import all_reduce_mean
from jaxina.compressors.registry import get, names, register, spec_of
from jaxina.compressors.traffic import Meter, Traffic, measure

__all__ = [
    "GATHER",
    "MAX",
    "SUM",
    "Compressor",
    "Context",
    "Meter",
    "Promise",
    "Traffic",
    "all_reduce_mean",
    "get",
    "measure",
    "names",
    "register",
    "spec_of",
]
