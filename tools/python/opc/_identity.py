"""Objects that are what they are: a copy would share, or lose, what they stand for."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any


class OneOfAKind:
    """Refuses to be copied or pickled, and says what does it."""

    __slots__ = ()
    _way_out = ""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"an opc.{type(self).__name__} cannot be copied or pickled: {self._way_out}")
