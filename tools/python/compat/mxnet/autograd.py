"""Recording, and going back: mx.autograd."""
# SPDX-License-Identifier: Apache-2.0
import threading
from typing import Any, List, Optional, Sequence, Union

import numpy as np

from opc_styles import eager

from .base import MXNetError

_state = threading.local()


class _Scope:
    def __init__(self, recording: Optional[bool], training: Optional[bool]) -> None:
        self._wanted = {"recording": recording, "training": training}

    def __enter__(self) -> None:
        self._before = {n: getattr(_state, n, False) for n in self._wanted}
        _state.__dict__.update({n: v for n, v in self._wanted.items() if v is not None})

    def __exit__(self, *unused: object) -> None:
        _state.__dict__.update(self._before)


def record(train_mode: bool = True) -> _Scope:
    """What is computed within can be gone through backwards."""
    return _Scope(True, train_mode)


def pause(train_mode: bool = False) -> _Scope:
    """Nothing is recorded within."""
    return _Scope(False, train_mode)


def train_mode() -> _Scope:
    """Operators are told `is_train=True`."""
    return _Scope(None, True)


def predict_mode() -> _Scope:
    """Operators are told `is_train=False`."""
    return _Scope(None, False)


def is_recording() -> bool:
    return getattr(_state, "recording", False)


def is_training() -> bool:
    return getattr(_state, "training", False)


def backward(heads: Union[Any, Sequence[Any]], head_grads: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """Gives every array with `attach_grad()` its gradient. Without head_grads these are ones."""
    eager.refuse_inside_kernel()
    listed: List[Any] = list(heads) if isinstance(heads, (list, tuple)) else [heads]
    given = list(head_grads) if isinstance(head_grads, (list, tuple)) else [head_grads] * len(listed)
    if len(given) != len(listed):
        raise MXNetError(f"backward: {len(listed)} heads and {len(given)} gradients")
    for head in listed:
        if head._node is None:
            raise MXNetError("Cannot differentiate node because it is not in a computational graph. Compute it within autograd.record()")
    with _Scope(False, train_mode):
        eager.backward(listed, [np.ones_like(h._value) if g is None else np.asarray(g._value, h._value.dtype) for h, g in zip(listed, given)])
