"""What a worker does with the payloads of all workers: it sums them one after another, in little memory."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxina import compressors
from jaxina.compressors import GATHER, Context

SIZE = 65536
WORKERS = 16
GATHERING = [name for name in compressors.names() if compressors.get(name).kind == GATHER]


def payloads_and_context(compressor):
    """The payloads of all workers, [n, ...] by name."""
    gradients = jax.random.normal(jax.random.key(1), (WORKERS, SIZE))
    context = functools.partial(Context, (SIZE,), WORKERS, jax.random.key(2))

    def encoded(gradient, worker):
        state = compressor.init_leaf(gradient, jax.random.key(3)) | {"memory": jnp.zeros(SIZE)}
        return compressor.encode(gradient, state, context(worker, compressor.propose(gradient)))[0]

    return jax.vmap(encoded)(gradients, jnp.arange(WORKERS)), context(0, compressor.propose(gradients[0]))


@pytest.mark.parametrize("name", GATHERING)
def test_the_payloads_of_all_workers_are_summed(name):
    compressor = compressors.get(name)
    payloads, context = payloads_and_context(compressor)
    expected = np.zeros(SIZE, np.float32)
    for worker in range(WORKERS):
        expected += np.asarray(compressor.decode({key: array[worker] for key, array in payloads.items()}, context))
    np.testing.assert_allclose(compressor.decode_all(payloads, context), expected, rtol=1e-5, atol=1e-5)


# On CPU, XLA makes float32 of all bf16 arrays that a loop reads.
@pytest.mark.parametrize("name", [name for name in GATHERING if name != "bf16"])
def test_decoding_needs_no_array_for_each_worker(name):
    compressor = compressors.get(name)
    payloads, context = payloads_and_context(compressor)
    compiled = jax.jit(lambda given: compressor.decode_all(given, context)).lower(payloads).compile()
    one_array = 4 * SIZE
    assert compiled.memory_analysis().temp_size_in_bytes < 3 * one_array
