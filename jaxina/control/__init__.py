"""The control plane: which processes take part, how they find their aggregator, and which have died.

No tensor passes through it.
"""
