"""Training that goes on in the same process when workers die, leave and come.

A team's members are processes that have joined its keeper (``jaxina keeper``). They need neither `jaxina.init` nor
`jax.distributed`. Each iterates over `steps`, whose function sums over the members by `all_reduce`::

    import jaxina.elastic


    @jax.jit
    def update(state, images, labels):
        loss, gradients = jax.value_and_grad(loss_of)(state["params"], images, labels)
        loss, gradients, rows = jaxina.elastic.all_reduce((loss, gradients, len(images)))
        ...
        return state, loss / rows


    def step(state, turn):
        return update(state, *share_of(batch(turn.step), turn.rank, turn.size))


    for done in jaxina.elastic.steps(step, first_state(), until=1000):
        print(done.step, done.result, done.size)

docs/elastic.md says what is promised, and why.
"""

from jaxina import _public  # noqa: F401  overrides what JAX lowers, which the sums need
from jaxina.elastic.member import Turn
from jaxina.elastic.sums import all_reduce
from jaxina.elastic.training import Done, steps

__all__ = ["Done", "Turn", "all_reduce", "steps"]
