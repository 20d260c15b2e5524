"""Devices: there is the CPU."""
# SPDX-License-Identifier: Apache-2.0
from typing import NamedTuple

from .base import MXNetError


class Context(NamedTuple):
    """A device."""

    device_type: str = "cpu"
    device_id: int = 0

    def __str__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    __repr__ = __str__


def cpu(device_id: int = 0) -> Context:
    """The CPU."""
    return Context("cpu", device_id)


def gpu(device_id: int = 0) -> Context:
    """Refused: custom operators run on the CPU here."""
    raise MXNetError(f"gpu({device_id}): operators of this style run on the CPU; use mx.cpu()")


def current_context() -> Context:
    """The CPU."""
    return cpu()
