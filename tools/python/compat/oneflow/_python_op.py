"""Operators whose definition is C++ and whose kernel is Python: `oneflow::NAME` in graphs, an operator of opc's in Python.

The library of the definition answers shapes, element types and the gradient rule, each time on a graph of this one op; what it
answers goes into the manifest, so that a saved graph runs with the Python file alone.
"""
# SPDX-License-Identifier: Apache-2.0
import functools
import re
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import opc
from opc import _core, _manifest, _op
from opc._errors import HostError
from opc._grad_graph import _snake
from opc._graph import add_op
from opc._schema import MISSING, Argument, Attribute, Signature
from opc_styles import classes

from ._recorded_rule import recorded_rule

PREFIX = "oneflow::"
_python_ops: Dict[str, "PythonOp"] = {}


class PythonOp:
    """One operator of a library, with a function `kernel(args)` that computes it."""

    def __init__(self, name: str, kernel: Callable[[Any], Any]) -> None:
        definition = _core.describe_op(name)
        self.name = name
        self._argument_names = [a[0] for a in definition["inputs"]]

        @functools.wraps(kernel)
        def call(*inputs: Any) -> Any:
            with classes.kernel_of(PREFIX + name):
                return kernel(inputs)

        self.operator = _op.Operator(PREFIX + name, call, _signature(definition), _op.Options())
        self.operator.infer(self._infer)
        self.gradient_error: Optional[opc.Error] = None
        _op.define(self.operator)

    def _alone(self, inputs: Mapping[str, Sequence[Any]], attrs: Mapping[str, Any]) -> "tuple[opc.Graph, tuple]":
        """A graph of this op, as the library defines it."""
        graph = opc.Graph("alone")
        with graph:
            bound = {a: [graph.input(f"{a}.{i}", s.shape, s.dtype) for i, s in enumerate(specs)] for a, specs in inputs.items() if specs}
            return graph, add_op(self.name, bound, attrs, "fw")

    def _infer(self, *specs: Any, **attrs: Any) -> List[opc.Spec]:
        listed = (s if isinstance(s, (list, tuple)) and not hasattr(s, "dtype") else [s] if s is not None else [] for s in specs)
        try:
            _, outputs = self._alone(dict(zip(self._argument_names, listed)), attrs)
        except opc.Error as error:
            raise self._as_said(error) from None
        return [_numpy_spec(t) for t in outputs]

    def _as_said(self, error: opc.Error) -> Exception:
        """What the library's rule says of this op, with its code: the graph that asks has its own lines to show."""
        if not error.diagnostics:
            return error
        first = error.diagnostics[0]
        return HostError(error.code, str(first["message"]).removeprefix(f"{self.name}: "), first.get("help") or "")

    def prepare(self, inputs: Mapping[str, Sequence[opc.Tensor]], attrs: Mapping[str, Any]) -> None:
        """Before a use with these tensors: asks the library for the gradient, and makes the operator known."""
        specs = {a: [t.spec for t in tensors] for a, tensors in inputs.items()}
        doubles = {a: [s._replace(dtype="f64") if s.dtype == "f32" else s for s in listed] for a, listed in specs.items()}
        try:
            self._ask_gradient(specs, attrs)
            if doubles != specs:  # `opc grad --check` computes in f64
                self.record(doubles, attrs)
                self._ask_gradient(doubles, attrs)
        except opc.Error as error:
            self.gradient_error = error
        self.operator.register()

    def _ask_gradient(self, inputs: Mapping[str, Sequence[opc.Spec]], attrs: Mapping[str, Any]) -> None:
        graph, outputs = self._alone(inputs, attrs)
        floats, losses = ([t for t in tensors if t.dtype.startswith(("f", "bf"))] for tensors in (graph.inputs.values(), outputs))
        if not floats or not losses:
            return
        for i, tensor in enumerate(losses):
            graph.output(f"y.{i}", tensor)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            nodes, results = recorded_rule(graph.grad(losses, wrt=floats, dy_inputs=True), list(graph.inputs))
        self._refuse_unbound([str(w.message) for w in said])
        for node in nodes:
            if node.type_name in _python_ops:
                _python_ops[node.type_name].record({a: [t.spec for t in ts] for a, ts in node.inputs.items()}, {})
        lines = [_manifest.block("node", node.lines(graph_name(node.type_name))) for node in nodes]
        lines += [f'result {{ arg: "{arg}" tensor: "{tensor}" }}' for arg, tensor in results]
        known = self.operator._recorded_gradient
        if known is not None and known != lines:
            raise opc.UnsupportedError(
                f"the gradient rule of {self.name} builds other ops for other shapes or attributes; in a Python kernel's directory "
                "it must be the same for all uses", "", "{}", 4)  # fmt: skip
        if known is None:
            self.operator._recorded_gradient = lines
            self.operator._changed()

    def _refuse_unbound(self, said: List[str]) -> None:
        """A rule that leaves an input out gives zeros elsewhere, with a warning; here it has mostly spelt a name wrong."""
        found = (re.search(r"(the gradient rule[^\n]* binds no gradient [^\n;]*)", w) for w in said if "OPC0510" in w)
        unbound = next((m for m in found if m), None)
        if unbound:
            s = self.operator.signature
            names = [", ".join(a.name for a in arguments) for arguments in (s.inputs, s.outputs)]
            text = f"{unbound.group(1)}. The names of {self.name} are: inputs {names[0]}; outputs {names[1]}"
            raise opc.GraphError(text, "OPC0510", "{}", 3)

    def record(self, inputs: Mapping[str, Sequence[opc.Spec]], attrs: Mapping[str, Any]) -> None:
        """What the library answers for these inputs: for the manifest, and for the graphs to come."""
        outputs = self._alone(inputs, attrs)[1]
        values = {a.name: a.default for a in self.operator.signature.attrs if a.default is not MISSING}
        numpy_specs = {a: [opc.Spec(s.shape, opc.dtype(s.dtype).numpy or s.dtype) for s in inputs.get(a, [])] for a in self._argument_names}
        self.operator._record(numpy_specs, {**values, **attrs}, [_numpy_spec(t) for t in outputs])
        self.operator.register()


def _numpy_spec(tensor: opc.Tensor) -> opc.Spec:
    return opc.Spec(tensor.shape, tensor.dtype.numpy or tensor.dtype)


def _signature(definition: Mapping[str, Any]) -> Signature:
    def argument(name: str, optional: bool, count: int, more: bool) -> Argument:
        return Argument(name, optional, count if more or count != 1 else None)

    attrs = [Attribute(n, _snake(kind), default if given else MISSING) for n, kind, default, given in definition["attrs"]]
    return Signature([argument(*a) for a in definition["inputs"]], [argument(*a) for a in definition["outputs"]], attrs)


def define(library: str, kernels: Mapping[str, Any]) -> List[str]:
    """Makes operators of those of a library that say device_sub_tag "py": NAME_forward and NAME_backward run the functions
    `forward` and `backward`."""
    made = []
    for name in _core.op_names():
        definition = _core.describe_op(name)
        tags = {n: default for n, _, default, _ in definition["attrs"]}
        if definition["library"] != library or tags.get("device_sub_tag") != "py":
            continue
        what = next((w for w in ("forward", "backward") if name.endswith("_" + w)), None)
        if what is None:
            raise ValueError(f"the operator '{name}' has a Python kernel: its name must end in _forward or _backward")
        if not callable(kernels.get(what)):
            raise ValueError(f"the operator '{name}' needs a function {what}(args) in {kernels.get('__file__')}")
        _python_ops[name] = PythonOp(name, kernels[what])
        made.append(name)
    return made


def graph_name(type_name: str) -> str:
    """What graphs call an operator."""
    return _python_ops[type_name].operator.name if type_name in _python_ops else type_name


def prepare(type_name: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any]) -> None:
    """Before a use: an operator of another kind needs nothing."""
    if type_name in _python_ops:
        _python_ops[type_name].prepare(inputs, attrs)


def gradient_error_of(graph: opc.Graph) -> Optional[opc.Error]:
    """What a gradient rule of an operator of the graph has said, if one has failed."""
    names = {name[len(PREFIX):] for name in _op._types_in(graph.text()) if name.startswith(PREFIX)}
    return next((p.gradient_error for n, p in sorted(_python_ops.items()) if n in names and p.gradient_error), None)
