"""A worker of `jaxina certify` that plants a difference: in process 1, one bit of its fourth sum is not the sum's.

test_certify.py has the command call it instead of `jaxina.certificate.worker`.
"""

from __future__ import annotations

import os
import sys

import numpy as np

from jaxina.certificate import worker

WRONG = 4  # counted from 1


class Flipping(worker.Work):
    """Forms all sums as usual, and then alters one."""

    count = 0

    def sums(self, order):
        made = super().sums(order)
        self.count += 1
        if self.count == WRONG and os.environ["JAXINA_RANK"] == "1":
            first = made[-1][0].copy()  # of this process's last device
            first.view(np.uint32)[1234] ^= 1
            made[-1][0] = first
        return made


if __name__ == "__main__":
    if sys.argv[1] == "describe":
        worker.main()
    else:
        Flipping(worker.Options.from_text(sys.argv[1])).run()
