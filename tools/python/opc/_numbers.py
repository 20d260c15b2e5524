"""Numbers that parameters take: the ranges are those of the command's options (tools/opc/cli/OptionRanges.h)."""
# SPDX-License-Identifier: Apache-2.0
import math
import numbers
import operator
from typing import Any, Dict, NamedTuple, Sequence, Tuple

import numpy as np

from . import _core
from ._errors import usage


class Range(NamedTuple):
    """`takes` says it in words: "a number from 1 to 4096"; above: `least` itself is not allowed."""

    takes: str
    least: float
    most: float
    whole: bool
    above: bool


_RANGES: Dict[str, Range] = {name: Range(*rest) for name, *rest in _core.number_ranges()}
_MOST_SEED = 2**64 - 1


def _takes(text: str, also: str) -> str:
    return text + (f", or {also}" if also else "")


def _index(value: Any, name: str, takes: str) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name} takes {takes}, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} takes {takes}, not {_shown(value)}") from None


def _shown(value: Any) -> str:
    """A value in a message: short, and never a whole array."""
    text = repr(value) if isinstance(value, (str, bytes, numbers.Number, type(None), tuple)) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def whole(value: Any, name: str, kind: str = "", also: str = "", allowed: Sequence[int] = ()) -> int:
    """An int of the range `kind` (of that of the parameter's name), or one of those `allowed` besides, which `also` explains."""
    r = _RANGES[kind or name]
    takes = _takes(r.takes.replace("a number from", "a whole number from"), also)
    number = _index(value, name, takes)
    if number not in allowed and not r.least <= number <= r.most:
        raise usage(f"{name} takes {takes}, not {number}")
    return number


def count(value: Any, name: str, also: str = "") -> int:
    """A number of steps, epochs and the like; 0 where `also` explains it."""
    return whole(value, name, "count", also, (0,) if also else ())


def real(value: Any, name: str, kind: str = "", also: str = "", allowed: Sequence[float] = ()) -> float:
    """A float of the range."""
    r = _RANGES[kind or name]
    takes = _takes(r.takes, also)
    if isinstance(value, (bool, str, bytes)):
        raise TypeError(f"{name} takes {takes}, not {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} takes {takes}, not {_shown(value)}") from None
    if number in allowed:
        return number
    if not (r.least < number if r.above else r.least <= number) or not number <= r.most or not math.isfinite(number):
        raise usage(f"{name} takes {takes}, not {number}")
    return number


def size(value: Any, name: str) -> int:
    """A number of bytes; 0: none is given."""
    takes = "a number of bytes from 1, or 0 for no limit of its own"
    number = _index(value, name, takes)
    if not 0 <= number <= _MOST_SEED:
        raise usage(f"{name} takes {takes}, not {number}")
    return number


def seed(value: Any) -> int:
    """A seed of random numbers."""
    takes = f"a whole number from 0 to {_MOST_SEED}"
    number = _index(value, "seed", takes)
    if not 0 <= number <= _MOST_SEED:
        raise usage(f"seed takes {takes}, not {number}")
    return number


def truth(value: Any, name: str) -> bool:
    """Nothing but a bool: a text that means no must not count as yes."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is True or False, not {_shown(value)}")
    return bool(value)


def steps(value: Any) -> int:
    """What `run` takes by position."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or bool(getattr(value, "shape", None)):
        raise TypeError(f"run takes a number of steps by position, and inputs by name, run(x=array); not {_shown(value)}")
    return count(value, "run")


def dimension(value: Any, what: str) -> int:
    """The size of one dimension."""
    takes = f"{what} is a whole number from 0"
    try:
        size = operator.index(value)
    except TypeError:
        raise TypeError(f"{takes}, not {_shown(value)}") from None
    if isinstance(value, bool):
        raise TypeError(f"{takes}, not {value!r}")
    if size < 0:
        raise usage(f"{takes}, not {size}")
    if size >= 2**63:
        raise usage(f"{what} is {size}, more than any tensor has")
    return size


def dims(value: Any, what: str, least: int = 0, example: str = "(32, 784)") -> Tuple[int, ...]:
    """The sizes of dimensions."""
    takes = f"{what} is a sequence of whole numbers from {least}, such as {example}"
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{takes}, not {value!r}")
    try:
        sizes = tuple(operator.index(d) for d in value)
    except TypeError:
        raise TypeError(f"{takes}, not {_shown(value)}") from None
    if any(isinstance(d, bool) for d in value):
        raise TypeError(f"{takes}, not {_shown(value)}")
    if any(d < least for d in sizes):
        raise usage(f"{takes}, not {sizes}")
    return sizes
