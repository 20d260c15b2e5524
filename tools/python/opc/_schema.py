"""Signatures of Python operators: inputs, outputs and attributes, read from a function's annotations."""
# SPDX-License-Identifier: Apache-2.0
import collections.abc
import dataclasses
import inspect
import re
import types
import typing
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

MISSING: Any = inspect.Parameter.empty
HANDED_OVER = ("out", "position", "rng")  #: parameters of kernels that are no attributes


@dataclasses.dataclass(frozen=True)
class Argument:
    """An input or output; with `minimum` as many tensors as the graph has, at least these."""

    name: str
    optional: bool = False
    minimum: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Attribute:
    """A setting. `type` as AttrValue's fields without at_; `default` MISSING: the graph must give one."""

    name: str
    type: str
    default: Any = MISSING


@dataclasses.dataclass
class Signature:
    """What an operator is called with and gives."""

    inputs: List[Argument]
    outputs: List[Argument]
    attrs: List[Attribute]

    def input(self, name: str) -> Optional[Argument]:
        """The input of that name."""
        return next((a for a in self.inputs if a.name == name), None)


_SCALARS: Dict[Any, str] = {int: "int64", float: "double", bool: "bool", str: "string", np.dtype: "data_type"}
_LISTS = {"int64": "list_int64", "double": "list_float", "string": "list_string", "data_type": "list_data_type"}
_ATTR_TYPES = re.compile(r"(list_)?(int32|int64|float|data_type|shape|string)|bool|double")


def check_name(name: str) -> None:
    """Refuses a name of an operator without a namespace, or one that graphs cannot have."""
    if re.fullmatch(r"([A-Za-z_]\w*::)+[A-Za-z_]\w*", name, re.ASCII):
        return
    if "::" not in name:
        raise ValueError(f"'{name}' cannot name an operator: it needs a namespace, as 'demo::relu' has, which keeps built-in names free")
    raise ValueError(
        f"'{name}' cannot name an operator: between '::' the parts of a name are letters from A to Z, digits and underscores, and begin with no digit"
    )


def check_arguments(name: str, arguments: Sequence[str]) -> None:
    """Refuses names of inputs, outputs and attributes that graphs cannot have, although Python can."""
    for argument in arguments:
        if not re.fullmatch(r"[A-Za-z_]\w*", argument, re.ASCII):
            raise ValueError(f"{name}: '{argument}' cannot name an input, output or attribute: names are letters from A to Z, digits and underscores")


def attr_type(annotation: Any, default: Any, where: str) -> str:
    """The kind of attribute that an annotation, or else a default, means."""
    if isinstance(annotation, str) and _ATTR_TYPES.fullmatch(annotation):
        return annotation
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if getattr(annotation, "__name__", "") == "DType":
        return "data_type"
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (list, tuple, collections.abc.Sequence):
        inner = {a for a in arguments if a is not Ellipsis}
        if len(inner) == 1 and _SCALARS.get(next(iter(inner))) in _LISTS:
            return _LISTS[_SCALARS[next(iter(inner))]]
    if annotation is MISSING and default is not MISSING:
        if type(default) in _SCALARS:
            return _SCALARS[type(default)]
        if isinstance(default, (list, tuple)) and default and type(default[0]) in _SCALARS:
            return _LISTS.get(_SCALARS[type(default[0])], "list_int64")
    raise TypeError(
        f"{where}: attributes are int, float, bool, str, np.dtype, or lists of int, float, str or np.dtype; found "
        + ("no annotation" if annotation is MISSING else repr(annotation))
    )


def _is_optional(annotation: Any) -> bool:
    """Optional[Tensor], or Tensor | None."""
    return typing.get_origin(annotation) in (typing.Union, getattr(types, "UnionType", typing.Union)) and type(None) in typing.get_args(annotation)


def _is_list(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (list, tuple, collections.abc.Sequence)


def _hints(function: Callable[..., Any]) -> Dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:  # names that only a type checker knows
        return dict(getattr(function, "__annotations__", {}))


def signature_of(
    function: Callable[..., Any],
    name: str,
    outputs: Optional[Sequence[str]],
    optional: Sequence[str],
    variadic: Dict[str, int],
) -> Signature:
    """Positional parameters are inputs, those after `*` attributes, the answer the outputs."""
    hints = _hints(function)
    inputs: List[Argument] = []
    attrs: List[Attribute] = []
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of numpy, or a builtin: they have no signature
        raise TypeError(f"{name}: the parameters of {function!r} are not known, and its inputs have no names: wrap it, lambda x: f(x)") from None
    for p in parameters.values():
        annotation = hints.get(p.name, MISSING)
        if p.kind is p.VAR_KEYWORD:
            raise TypeError(f"{name}: **{p.name} says no attributes; name each one after a '*'")
        if p.kind is p.KEYWORD_ONLY:
            if p.name not in HANDED_OVER:
                attrs.append(Attribute(p.name, attr_type(annotation, p.default, f"{name}: attribute '{p.name}'"), p.default))
            continue
        many = p.kind is p.VAR_POSITIONAL or p.name in variadic or _is_list(annotation)
        may_lack = p.name in optional or p.default is None or _is_optional(annotation)
        inputs.append(Argument(p.name, may_lack, variadic.get(p.name, 1) if many else None))
    taken = {a.name for a in inputs} | {a.name for a in attrs}
    names = _output_names(hints.get("return", MISSING), outputs, taken)
    check_arguments(name, [a.name for a in inputs] + [a.name for a in attrs] + list(names))
    return Signature(inputs, [Argument(n) for n in names], attrs)


def _output_names(annotation: Any, given: Optional[Sequence[str]], taken: Set[str]) -> Tuple[str, ...]:
    if given is not None:
        return tuple(given)
    if typing.get_origin(annotation) is tuple:
        return tuple(f"y{i}" for i in range(len(typing.get_args(annotation))))
    if annotation is type(None):
        return ()
    return (next(n for n in ("y", "z", "result") if n not in taken),)
