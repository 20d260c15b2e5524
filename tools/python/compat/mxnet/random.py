"""Random arrays: mx.random."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Sequence, Union

import numpy as np

from .ndarray import NDArray

_generator = np.random.default_rng()


def seed(seed_state: int, ctx: Any = "all") -> None:
    """Restarts the generator."""
    global _generator
    _generator = np.random.default_rng(seed_state)


def uniform(low: float = 0.0, high: float = 1.0, shape: Union[int, Sequence[int]] = (1,), dtype: Any = "float32", ctx: Any = None) -> NDArray:
    """Evenly spread in [low, high)."""
    return NDArray(_generator.uniform(low, high, shape).astype(dtype))


def normal(loc: float = 0.0, scale: float = 1.0, shape: Union[int, Sequence[int]] = (1,), dtype: Any = "float32", ctx: Any = None) -> NDArray:
    """Normally spread."""
    return NDArray(_generator.normal(loc, scale, shape).astype(dtype))
