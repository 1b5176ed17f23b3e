"""Checks a cluster's hosts, each with each other, before a job runs there: `jaxina doctor`.

The command runs once on each host. The hosts meet at the first one (`meeting`), tell what they are (`facts`), and probe
each other (`probes`). The first one says what is wrong, and what mends it (`findings`).
"""
