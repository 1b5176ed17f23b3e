"""Selecting the elements of largest magnitude: the native code chooses as XLA does, under every transformation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import get
from eight_devices import P
from jax.sharding import Mesh

from jaxina.compressors.sparse import largest
from jaxina.compressors.top_k import largest_places

N = 5000


def by_xla(flat: np.ndarray, k: int) -> np.ndarray:
    return np.asarray(jax.lax.top_k(jnp.abs(flat), k)[1])


def arrays() -> dict[str, np.ndarray]:
    normal = np.random.default_rng(5).normal(size=N).astype(np.float32)
    sparse = np.where(np.arange(N) % 300 == 7, normal, 0)
    return {"normal": normal, "sparse": sparse, "zeros": np.zeros_like(normal), "rounded": np.rint(normal)}


@pytest.mark.parametrize("name", arrays())
@pytest.mark.parametrize("k", [1, 50, 500, N])
def test_the_places_are_those_of_xla(name, k):
    flat = arrays()[name]
    places = largest_places(flat, k)
    assert places.dtype == jnp.int32
    np.testing.assert_array_equal(places, by_xla(flat, k))


@pytest.mark.parametrize("check_vma", [True, False])
def test_in_jit_shard_map_and_two_vmaps(check_vma):
    rows = np.random.default_rng(6).normal(size=(4, 2, 3, 100)).astype(np.float32)
    mesh = Mesh(np.array(jax.devices()[:4]), ("workers",))
    select = jax.vmap(jax.vmap(lambda flat: largest_places(flat, 7)))

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=P("workers"), out_specs=P("workers"), check_vma=check_vma)
    def of_all(own):
        return select(own[0])[None]

    expected = [[[by_xla(flat, 7) for flat in two] for two in own] for own in rows]
    np.testing.assert_array_equal(of_all(rows), expected)


def test_on_cpus_a_program_calls_the_native_code():
    text = jax.jit(lambda flat: largest_places(flat, 9)).lower(jnp.zeros(100)).as_text()
    assert "jaxina_top_k" in text and "top_k" not in text.replace("jaxina_top_k", "")
    for_gpus = jax.jit(lambda flat: largest_places(flat, 9)).trace(jnp.zeros(100)).lower(lowering_platforms=("cuda",))
    assert "jaxina_top_k" not in for_gpus.as_text()


def test_values_are_differentiated_and_places_are_not():
    slope = jax.grad(lambda x: (largest(x, 2)["values"] ** 2).sum())(jnp.float32([3, -1, 2, 0.5]))
    assert slope.tolist() == [6, 0, 4, 0]


def test_a_program_is_exported_where_the_custom_call_is_allowed_by_name():
    """docs/compressors.md says so."""
    compressor = get("topk:0.5")
    program = jax.jit(lambda x: compressor.update(x, compressor.init(x, jax.random.key(0)))[0])
    with pytest.raises(ValueError, match="jaxina_top_k"):
        jax.export.export(program)(jnp.ones(8))
    allowed = [jax.export.DisabledSafetyCheck.custom_call("jaxina_top_k")]
    exported = jax.export.export(program, disabled_checks=allowed)(jnp.ones(8))
    np.testing.assert_array_equal(exported.call(jnp.arange(8.0)), [0, 0, 0, 0, 4, 5, 6, 7])
