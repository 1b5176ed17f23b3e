"""The parameters of compressors are plain Python values, whatever kind of number was given."""

from __future__ import annotations

import numpy as np
import pytest

from jaxina import config
from jaxina.compressors.block_fixed_point import BlockFixedPoint
from jaxina.compressors.narrow_words import NarrowWords
from jaxina.compressors.qsgd import QSGD
from jaxina.compressors.sparse import TopK
from jaxina.errors import InvalidArgumentError


@pytest.mark.parametrize(
    "kind, parameters, why",
    [
        (TopK, {"ratio": True}, "ratio must be a number, not True"),
        (TopK, {"ratio": "0.1"}, "ratio must be a number, not '0.1'"),
        (TopK, {"ratio": np.nan}, "ratio must be a number, not nan"),
        (TopK, {"ef": "no"}, "ef must be True or False, not 'no'"),
        (TopK, {"ef": 1}, "ef must be True or False, not 1"),
        (QSGD, {"levels": 64.5}, "levels must be an integer, not 64.5"),
        (QSGD, {"levels": True}, "levels must be an integer, not True"),
        (QSGD, {"levels": "64"}, "levels must be an integer, not '64'"),
        (NarrowWords, {"stochastic": "no"}, "stochastic must be True or False, not 'no'"),
    ],
)
def test_parameters_of_other_types_are_refused(kind, parameters, why):
    with pytest.raises(InvalidArgumentError, match=why):
        kind(**parameters)


def test_numpy_s_numbers_become_python_s():
    """64 squared wraps in int8, and a compressor is a key of JAX's caches."""
    made, same = QSGD(levels=np.int8(64), bucket=np.int64(512), ef=np.True_), QSGD(levels=64, ef=True)
    assert (made, hash(made)) == (same, hash(same))
    assert [type(value) for value in (made.levels, made.bucket, made.ef)] == [int, int, bool]
    assert type(TopK(ratio=np.float32(0.5)).ratio) is type(TopK(ratio=1).ratio) is float


def test_blocks_are_those_of_a_job_unless_one_sets_them():
    assert NarrowWords().block == BlockFixedPoint().block == config.resolve({}).block_size
