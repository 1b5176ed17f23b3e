"""The scenarios, by subject. Each is a function of the block size that returns its vector."""

from conformance.scenarios import borders, exponents, jobs, loss, order, rdma

SCENARIOS = (
    *loss.SCENARIOS,
    *order.SCENARIOS,
    *borders.SCENARIOS,
    *exponents.SCENARIOS,
    *jobs.SCENARIOS,
    *rdma.SCENARIOS,
)
