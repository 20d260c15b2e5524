"""Every operator as a function, made from its definition when it is first asked for: `opc.ops.relu(x)`.

Inputs by position or name, attributes by name. An operator with one output gives a tensor, with several a named tuple, with none
(an update of a variable) an empty tuple. Names that are Python's own have an underscore behind: `in_`.
"""
# SPDX-License-Identifier: Apache-2.0
import collections
import inspect
import keyword
import re
import textwrap
from typing import Any, Callable, Dict, List, Tuple

from . import _core, _op
from ._graph import add_op

_made: Dict[str, Callable[..., Any]] = {}


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)
    return function(name)


def __dir__() -> List[str]:
    return sorted(python_name(n) for n in _core.op_names() if ":" not in n)


def function(type_name: str) -> Callable[..., Any]:
    """The function that adds an op of this type, also of one whose name is no identifier ("demo::leaky_relu")."""
    if not isinstance(type_name, str):
        raise TypeError(f"the name of an operator is a str, not {type_name!r}")
    type_name = _op.name_in_graphs(type_name)
    made = _made.get(type_name)
    if made is not None:
        return made
    definition = _core.describe_op(type_name) or _core.describe_op(type_name.rstrip("_"))
    if definition is None:
        raise AttributeError(f"opc has no operator '{type_name}'{_core.suggest_ops(type_name)}")
    made = _made[type_name] = _make(definition)
    return made


def forget(type_name: str) -> None:
    """The next use looks the definition up again; whoever replaces a definition calls this."""
    _made.pop(type_name, None)


def python_name(name: str) -> str:
    """A parameter's name: with an underscore behind what Python has taken."""
    return name + "_" if keyword.iskeyword(name) or name == "name" else name


def inputs_of(definition: Dict[str, Any]) -> List[Tuple[str, bool, bool]]:
    """(argument, optional, variadic) of those that programs bind: required ones first. An underscore is fusion's mark."""
    visible = [(n, optional, count != 1 or more) for n, optional, count, more in definition["inputs"] if not n.startswith("_")]
    return sorted(visible, key=lambda a: a[1])


def signature_of(definition: Dict[str, Any]) -> inspect.Signature:
    """Inputs by position or name, then attributes by name."""
    kind = inspect.Parameter
    parameters = []
    for name, optional, _ in inputs_of(definition):
        parameters.append(kind(python_name(name), kind.POSITIONAL_OR_KEYWORD, default=None if optional else kind.empty))
    for name, _, default, has_default in definition["attrs"]:
        parameters.append(kind(python_name(name), kind.KEYWORD_ONLY, default=default if has_default else kind.empty))
    parameters.append(kind("name", kind.KEYWORD_ONLY, default=None))
    parameters.append(kind("outputs", kind.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)


_ATTRS = {"kAtInt32": "int", "kAtInt64": "int", "kAtBool": "bool", "kAtFloat": "float", "kAtDouble": "float", "kAtString": "str",
          "kAtShape": "Sequence[int]", "kAtDataType": "DTypeLike", "kAtListInt32": "Sequence[int]", "kAtListInt64": "Sequence[int]",
          "kAtListFloat": "Sequence[float]", "kAtListDataType": "Sequence[DTypeLike]", "kAtListShape": "Sequence[Sequence[int]]",
          "kAtListString": "Sequence[str]"}  # fmt: skip


def documentation(definition: Dict[str, Any]) -> str:
    """The definition's own text, then what goes in and comes out."""
    text = "\n".join(textwrap.wrap(definition["doc"], 100)) or definition["name"]
    text += "\n\ninputs: " + (", ".join(python_name(n) + "..." * v + "?" * o for n, o, v in inputs_of(definition)) or "none")
    text += "\noutputs: " + (", ".join(n + "?" * o for n, o, _, _ in definition["outputs"]) or "none")
    for name, kind, default, has_default in definition["attrs"]:
        text += f"\n{python_name(name)}: {_ATTRS.get(kind, kind)}" + (f" = {default!r}" if has_default else ", required")
    return text + "\nname: of the op, made from its type when not given\noutputs: how many of an optional or variadic output"


def _result_type(definition: Dict[str, Any]) -> Any:
    names = [re.sub(r"\W", "_", python_name(n)).lstrip("_") or "out" for n, *_ in definition["outputs"]]
    return collections.namedtuple(re.sub(r"\W+", "_", definition["name"]) + "_outputs", names)  # type: ignore[misc]


def _make(definition: Dict[str, Any]) -> Callable[..., Any]:
    type_name = definition["name"]
    inputs = [(python_name(n), n) for n, _, _ in inputs_of(definition)]
    attrs = {python_name(n): n for n, *_ in definition["attrs"]}
    declared = definition["outputs"]
    several = [n for n, _, count, more in declared if count != 1 or more]
    result = _result_type(definition) if len(declared) > 1 and not several else None
    required = [python for (python, name), (_, optional, _) in zip(inputs, inputs_of(definition)) if not optional]
    signature = signature_of(definition)

    def check_call(args: Any, given: Dict[str, Any]) -> None:
        try:
            signature.bind(*args, **given)
        except TypeError as e:
            count = f" ({len(args)})" if len(args) > len(inputs) else ""
            raise TypeError(f"{type_name}: {e}{count}; it takes {signature}") from None

    def op(*args: Any, name: Any = None, outputs: Any = None, **kwargs: Any) -> Any:
        if len(args) > len(inputs):
            check_call(args, kwargs)
        bound = {inputs[i][1]: value for i, value in enumerate(args) if value is not None}
        for python, argument in inputs[len(args):]:
            value = kwargs.pop(python, None)
            if value is not None:
                bound[argument] = value
            elif python in required:
                raise TypeError(f"{type_name}() misses its input '{python}': {type_name}{signature}")
        if required and not bound:  # None for each: no tensor says which graph it is
            raise TypeError(f"{type_name}() misses its input '{required[0]}': {type_name}{signature}")
        values = {}
        for key, value in kwargs.items():
            if key not in attrs:
                check_call(args, dict(kwargs, name=name, outputs=outputs))
                raise TypeError(f"{type_name}() got input '{key}' twice")
            if value is not None:
                values[attrs[key]] = value
        made = add_op(type_name, bound, values, name, outputs)
        if result is not None and len(made) == len(declared):
            return result(*made)
        return made[0] if len(made) == 1 and not several else made

    op.__name__ = op.__qualname__ = python_name(re.sub(r"\W+", "_", type_name))
    op.__module__ = __name__
    op.__doc__ = documentation(definition)
    op.__signature__ = signature  # type: ignore[attr-defined]
    return op
