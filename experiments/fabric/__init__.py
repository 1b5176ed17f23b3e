"""Training over unequal links in virtual time: MLfabric's scheduler beside what one would use without it.

Time is simulated with simpy: computation, transfers that share links, and rates that change. Gradients are real: JAX
computes each from the very version of the model that the worker would have.
"""
