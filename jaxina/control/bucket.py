"""Token buckets, which limit how much of something may be used in how much time.

They read no clock: `now` is any clock's seconds that never go back.
"""

from __future__ import annotations

from collections.abc import Hashable

_PRUNE_FROM = 1024  # buckets


class Bucket:
    """A token bucket. It starts full, with `most`, and gains `per_second` until it is full again."""

    def __init__(self, most: float, per_second: float):
        self._most = most
        self._per_second = per_second
        self._held = most
        self._at: float | None = None

    def level(self, now: float) -> float:
        """How much the bucket holds. It is below zero after `spend` took more than it held."""
        if self._at is not None:
            self._held = min(self._most, self._held + (now - self._at) * self._per_second)
        self._at = now
        return self._held

    def take(self, amount: float, now: float) -> bool:
        """Takes the amount if the bucket holds it. Returns whether it did.

        An amount above `most` is taken if the bucket is full; the level is below zero afterwards.
        """
        if self.level(now) < min(amount, self._most):
            return False
        self._held -= amount
        return True

    def spend(self, amount: float, now: float) -> None:
        """Takes the amount, even if the bucket does not hold it."""
        self.level(now)
        self._held -= amount

    def wait(self, amount: float, now: float) -> float:
        """How many seconds it takes until `take` would succeed."""
        return max(0.0, (min(amount, self._most) - self.level(now)) / self._per_second)

    def is_full(self, now: float) -> bool:
        """Whether the bucket is full."""
        return self.level(now) >= self._most


class Buckets:
    """One bucket per key. Buckets that are full again are forgotten."""

    def __init__(self, most: float, per_second: float):
        self._most = most
        self._per_second = per_second
        self._buckets: dict[Hashable, Bucket] = {}
        self._prune_at = _PRUNE_FROM

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, key: Hashable, now: float) -> Bucket:
        """The bucket of a key."""
        found = self._buckets.get(key)
        if found is None:
            if len(self._buckets) >= self._prune_at:
                self._prune(now)
            found = self._buckets[key] = Bucket(self._most, self._per_second)
        return found

    def _prune(self, now: float) -> None:
        """Drops the full buckets: a new bucket would be the same."""
        self._buckets = {k: bucket for k, bucket in self._buckets.items() if not bucket.is_full(now)}
        self._prune_at = max(_PRUNE_FROM, 2 * len(self._buckets))
