"""The scenarios, by subject. Each is a function of the block size that returns its vector."""

from conformance.scenarios import (
    atp_entries,
    atp_sets,
    borders,
    exponents,
    jobs,
    loss,
    narrow,
    narrow_borders,
    order,
    rdma,
    rdma_narrow,
)

SCENARIOS = (
    *loss.SCENARIOS,
    *order.SCENARIOS,
    *borders.SCENARIOS,
    *exponents.SCENARIOS,
    *jobs.SCENARIOS,
    *rdma.SCENARIOS,
    *narrow.SCENARIOS,
    *narrow_borders.SCENARIOS,
    *rdma_narrow.SCENARIOS,
)
# Of switches that combine updates.
COMBINING = (*atp_entries.SCENARIOS, *atp_sets.SCENARIOS)
