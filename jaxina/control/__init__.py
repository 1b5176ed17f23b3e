"""Control plane: who takes part, how they find their aggregator, and who has died. No tensor
passes through here.
"""
