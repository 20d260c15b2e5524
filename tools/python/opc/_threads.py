"""Threads that an operator's own code starts are inside of it, too: it may wait for them, and they must not wait for it."""
# SPDX-License-Identifier: Apache-2.0
import functools
import threading
from typing import Callable, List, Optional

Enter = Callable[[], object]
_captures: List[Callable[[], Optional[Enter]]] = []
_start = threading.Thread.start


def follow(capture: Callable[[], Optional[Enter]]) -> None:
    """Asked in the thread that starts another: what the new one does first, or None outside of an operator's code."""
    _captures.append(capture)
    threading.Thread.start = start  # type: ignore[method-assign]


@functools.wraps(_start)
def start(self: threading.Thread) -> None:
    found = [capture() for capture in _captures]
    entering = [enter for enter in found if enter]
    if entering:
        run = self.run

        def inside() -> None:
            del self.run  # as it was: no cycle keeps the kernel's arrays
            for enter in entering:
                enter()
            run()

        self.run = inside  # type: ignore[method-assign]
    _start(self)
