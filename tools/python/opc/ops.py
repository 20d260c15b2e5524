"""Every operator as a function, made from its definition when it is first asked for."""
# SPDX-License-Identifier: Apache-2.0
import inspect
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from . import _core
from ._graph import Tensor, add_op

_made: Dict[str, Callable[..., Any]] = {}


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)
    return function(name)


def __dir__() -> List[str]:
    return sorted(n for n in _core.op_names() if n.isidentifier())


def function(type_name: str) -> Callable[..., Any]:
    """The function that adds an op of this type, also of one whose name is no identifier ("demo::leaky_relu")."""
    made = _made.get(type_name)
    if made is not None:
        return made
    definition = _core.describe_op(type_name)
    if definition is None:
        raise AttributeError(f"opc has no operator '{type_name}'")
    made = _made[type_name] = _make(type_name, definition)
    return made


def _make(type_name: str, definition: Dict[str, Any]) -> Callable[..., Any]:
    arguments = [name for name, *_ in definition["inputs"]]
    signature = signature_of(definition)

    def op(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs).arguments
        name = bound.pop("name", None)
        inputs = {a: bound.pop(a) for a in arguments if bound.get(a) is not None}
        for argument in arguments:
            bound.pop(argument, None)
        made = add_op(type_name, inputs, {k: v for k, v in bound.items() if v is not None}, name)
        return made[0] if len(made) == 1 else made

    op.__name__ = op.__qualname__ = type_name.rsplit(":", 1)[-1]
    op.__module__ = __name__
    op.__doc__ = definition["doc"]
    op.__signature__ = signature  # type: ignore[attr-defined]
    return op


def signature_of(definition: Dict[str, Any]) -> inspect.Signature:
    """Inputs by position or name, then attributes by name."""
    parameters = []
    for name, optional, _, _ in sorted(definition["inputs"], key=lambda a: a[1]):
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None if optional else inspect.Parameter.empty))
    for name, _, default, has_default in definition["attrs"]:
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default if has_default else inspect.Parameter.empty))
    parameters.append(inspect.Parameter("name", inspect.Parameter.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)
