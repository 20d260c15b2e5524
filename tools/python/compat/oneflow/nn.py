"""`flow.nn`: a few functions of networks."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Optional

import opc

from ._functions import one

relu = one("relu")


def softmax(logits: Any, axis: Optional[int] = None, name: Optional[str] = None) -> Any:
    """Softmax over the last axis."""
    if axis not in (None, -1, logits.ndim - 1):
        raise NotImplementedError(f"softmax over axis {axis} of {logits!r}: transpose it to the end")
    return opc.ops.softmax(logits, name=name)


def sparse_softmax_cross_entropy_with_logits(labels: Any, logits: Any, name: Optional[str] = None) -> Any:
    """The loss of each row."""
    return opc.ops.sparse_softmax_cross_entropy(logits, labels, name=name).out
