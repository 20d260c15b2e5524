"""`flow.scope`: where ops run."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
from typing import Any, ContextManager


def placement(device_tag: str, machine_device_ids: Any = "0:0", hierarchy: Any = None) -> ContextManager[None]:
    """The CPU of this machine; Python kernels run there as all others."""
    if device_tag not in ("cpu", "gpu"):
        raise ValueError(f"placement is on 'cpu' or 'gpu', not on '{device_tag}'")
    if device_tag == "gpu":
        raise NotImplementedError("placement('gpu'): this package runs graphs on the CPU; say flow.scope.placement('cpu', '0:0')")
    return contextlib.nullcontext()


def consistent_view() -> ContextManager[None]:
    """How programs of one device see tensors anyway."""
    return contextlib.nullcontext()
