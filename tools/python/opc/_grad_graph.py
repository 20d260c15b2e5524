"""Symbolic gradient rules: run once on names instead of tensors, kept as the list of ops that they build."""
# SPDX-License-Identifier: Apache-2.0
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional

from . import _manifest as text

if TYPE_CHECKING:
    from ._op import Operator


class Reference:
    """A tensor of a rule: "x:ARG" and "y:ARG" of the forward op, "dy:ARG" a gradient, "NODE:ARG" of an op of the rule."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<tensor {self.name} of a gradient rule>"

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has no values: a rule is run once, for every use of the op")


class SameAttr:
    """An attribute of the forward op, whatever its value is."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __bool__(self) -> bool:
        raise TypeError(f"the attribute '{self.name}' differs from use to use: a rule cannot decide by it, an op can")


class Forward:
    """The forward op of a rule."""

    def __init__(self, operator: "Operator") -> None:
        self._operator = operator

    def _known(self, name: str, names: List[str], what: str) -> str:
        if name not in names:
            raise ValueError(f"{self._operator.name} has no {what} '{name}'; it has {', '.join(names) or 'none'}")
        return name

    def input(self, name: str, index: int = 0) -> Reference:
        """An input tensor."""
        return Reference(f"x:{self._known(name, [a.name for a in self._operator.signature.inputs], 'input')}:{index}")

    def output(self, name: str, index: int = 0) -> Reference:
        """An output tensor."""
        return Reference(f"y:{self._known(name, [a.name for a in self._operator.signature.outputs], 'output')}:{index}")

    def attr(self, name: str) -> SameAttr:
        """An attribute, for an attribute of an op that the rule builds."""
        return SameAttr(self._known(name, [a.name for a in self._operator.signature.attrs], "attribute"))


class Builder:
    """What a rule builds with."""

    def __init__(self) -> None:
        self.nodes: List[str] = []

    def op(self, type_name: str, *, output: Optional[str] = None, **arguments: Any) -> Reference:
        """Adds an op; inputs are tensors, or lists of them, and what is no tensor is an attribute.

        Gives the first output, or the one called `output`.
        """
        kinds, outputs = _definition(type_name)
        name = f"n{len(self.nodes)}"
        lines = [f"name: {text.quoted(name)}", f"op: {text.quoted(_name_in_graphs(type_name))}"]
        for key, value in arguments.items():
            tensors = value if isinstance(value, (list, tuple)) else [value]
            if tensors and all(isinstance(t, Reference) for t in tensors):
                said = " ".join(f"tensor: {text.quoted(t.name)}" for t in tensors)
                lines.append(f"input {{ arg: {text.quoted(key)} {said} }}")
            elif isinstance(value, SameAttr):
                lines.append(f"attr {{ name: {text.quoted(key)} same_as: {text.quoted(value.name)} }}")
            elif key in kinds:
                lines.append(f"attr {{ name: {text.quoted(key)} value {{ {text.attr_value(kinds[key], value)} }} }}")
            else:
                raise TypeError(f"op '{type_name}' has no attribute '{key}'; it has {', '.join(kinds) or 'none'}")
        self.nodes.append(text.block("node", lines))
        if output is not None and output not in outputs:
            raise ValueError(f"op '{type_name}' has no output '{output}'; it has {', '.join(outputs)}")
        return Reference(f"{name}:{output or outputs[0]}")


def _definition(type_name: str) -> "tuple[Dict[str, str], List[str]]":
    """The types of its attributes and the names of its outputs."""
    from . import _op

    operator = _op.operators.get(type_name)
    if operator:
        s = operator.signature
        return {a.name: a.type for a in s.attrs
}, [y.name for y in s.outputs]
    from . import _core

    definition = _core.describe_op(type_name)
    if definition is None:
        raise ValueError(f"there is no op '{type_name}' for a gradient rule; define it before the rule")
    return {
name: _snake(kind) for name, kind, *_ in definition["attrs"]
}, [name for name, *_ in definition["outputs"]]


def _name_in_graphs(type_name: str) -> str:
    """A definition that replaces one that graphs have may have another name there."""
    from . import _op

    operator = _op.operators.get(type_name)
    return operator.name if operator else type_name


def _snake(kind: str) -> str:
    """"list_int64" for "kAtListInt64"."""
    kind = kind[3:] if kind.startswith("kAt") else kind
    return "".join(("_" if i and c.isupper() else "") + c.lower() for i, c in enumerate(kind))


def record(operator: "Operator", rule: Callable[..., Mapping[str, Reference]]) -> List[str]:
    """The lines of the message Gradient that say what the rule builds."""
    builder = Builder()
    gradients = [Reference(f"dy:{y.name}:0") for y in operator._outputs_with_gradient()]
    answer = rule(builder, Forward(operator), gradients[0] if len(gradients) == 1 else tuple(gradients))
    if not isinstance(answer, Mapping):
        raise TypeError(f"{operator.name}: a gradient rule answers a dict, input -> tensor, not a {type(answer).__name__}")
    lines = list(builder.nodes)
    for name, tensor in answer.items():
        if operator.signature.input(name) is None:
            raise ValueError(f"{operator.name}: the gradient rule answers for '{name}', which is no input")
        for i, t in enumerate(tensor if isinstance(tensor, (list, tuple)) else [tensor]):
            if t is None:
                continue
            if not isinstance(t, Reference):
                raise TypeError(f"{operator.name}: the gradient of '{name}' is a {type(t).__name__}, expected a tensor of the rule")
            lines.append(f"result {{ arg: {text.quoted(f'{name}:{i}')} tensor: {text.quoted(t.name)} }}")
    return lines
