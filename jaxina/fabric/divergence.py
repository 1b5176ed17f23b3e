"""How far a replica's model can be from the server's, by the lengths of the updates alone.

Server and replica apply w <- w + h with h <- momentum h + u, in the same order. The replica has not got the last m
updates. Then the models differ by (equation 7, for any m)

    sum_{k=1..m} momentum^k h + sum_{j=1..m} (sum_{k=0..m-j} momentum^k) u_j,

where h is the replica's. By the triangle inequality the norms give a bound, `Lead.divergence`. The paper bounds the
square by Cauchy-Schwarz (equation 11), which is the same number.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable


class Lead:
    """The updates that the server has and the replica has not.

    Args:
      momentum: of the optimizer. At least 0, below 1.
      history: the length of h at the replica, or a bound on it.
      norms: the lengths of the updates, in order.
    """

    def __init__(self, momentum: float, history: float = 0.0, norms: Iterable[float] = ()) -> None:
        self._momentum = momentum
        self.history = history
        self._norms: collections.deque[float] = collections.deque()
        self._last = history  # a bound on the length of h at the server
        self.divergence = 0.0
        for norm in norms:
            self.commit(norm)

    def __len__(self) -> int:
        return len(self._norms)

    def commit(self, norm: float) -> None:
        """The server gets one more update."""
        self._norms.append(norm)
        self._last = self._momentum * self._last + norm
        self.divergence += self._last

    def replicate(self) -> None:
        """The replica gets the first of the updates."""
        self.history = self._momentum * self.history + self._norms.popleft()
        self._last, self.divergence = self.history, 0.0
        for norm in self._norms:
            self._last = self._momentum * self._last + norm
            self.divergence += self._last
