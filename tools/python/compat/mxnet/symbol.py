"""Expressions that are bound to shapes later: mx.sym. A bound expression is an opc.Graph."""
# SPDX-License-Identifier: Apache-2.0
import itertools
import os
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

import opc

from . import operator
from .base import MXNetError
from .ndarray import NDArray

_counts: Dict[str, Iterator[int]] = {}
Shapes = Mapping[str, Sequence[int]]


def _free_name(kind: str) -> str:
    return f"{kind}{next(_counts.setdefault(kind, itertools.count()))}"


class Symbol:
    """One output of an expression. `place` adds it to a graph."""

    def __init__(self, name: str, inputs: Sequence["Symbol"], place: Callable[["Binding"], opc.Tensor], kind: str = "op") -> None:
        self.name, self.kind = name, kind  # kind: "argument", "aux" or "op"
        self._inputs, self._place = list(inputs), place

    def _all(self) -> List["Symbol"]:
        found: Dict[int, Symbol] = {}

        def visit(s: Symbol) -> None:
            for i in s._inputs:
                visit(i)
            found.setdefault(id(s), s)

        visit(self)
        return list(found.values())

    def _named(self, kind: str) -> List[str]:
        return list(dict.fromkeys(s.name for s in self._all() if s.kind == kind))

    def list_arguments(self) -> List[str]:
        return self._named("argument")

    def list_auxiliary_states(self) -> List[str]:
        return self._named("aux")

    def list_outputs(self) -> List[str]:
        return [self.name + "_output"]

    def graph(self, name: str = "symbol", is_train: bool = False, **shapes: Sequence[int]) -> opc.Graph:
        """The opc.Graph for these shapes of variables: arguments are inputs of it, auxiliary states variables, and this its output "output"."""
        graph = opc.Graph(name)
        with graph:
            graph.output("output", Binding(graph, shapes, is_train).tensor(self))
        missing = [n for n in self.list_arguments() if n not in graph.inputs]
        if missing:
            raise MXNetError(f"the shape of {', '.join(missing)} is not known: give it, {missing[0]}=(2, 3)")
        return graph

    def infer_shape(self, **shapes: Sequence[int]) -> Tuple[List[Tuple[int, ...]], List[Tuple[int, ...]], List[Tuple[int, ...]]]:
        """Of the arguments, outputs and auxiliary states."""
        graph = self.graph(**shapes)
        arguments = [graph.inputs[n].shape for n in self.list_arguments()]
        states = [graph.variables[n].shape for n in self.list_auxiliary_states()]
        return arguments, [graph.outputs["output"].shape], states

    def simple_bind(self, ctx: Any = None, grad_req: Union[str, Mapping[str, str]] = "write", **shapes: Sequence[int]) -> "Executor":
        """With arrays of zeros for every argument."""
        return Executor(self, None, grad_req, shapes)

    def bind(self, ctx: Any, args: Union[Mapping[str, NDArray], Sequence[NDArray]], args_grad: Any = None, grad_req: Any = "write", aux_states: Any = None) -> "Executor":
        """With these arrays."""
        given = dict(args) if isinstance(args, Mapping) else dict(zip(self.list_arguments(), args))
        made = Executor(self, given, grad_req if args_grad is not None or grad_req == "null" else "write", {n: a.shape for n, a in given.items()})
        states = aux_states if isinstance(aux_states, Mapping) else dict(zip(self.list_auxiliary_states(), aux_states or ()))
        made.aux_dict.update(states)
        if args_grad is not None:
            made.grad_dict = dict(args_grad) if isinstance(args_grad, Mapping) else dict(zip(self.list_arguments(), args_grad))
        return made

    def _binary(rule: Callable[[Any, Any], Any]) -> Callable[["Symbol", Any], "Symbol"]:  # type: ignore[misc] # noqa: N805
        def made(self: "Symbol", other: Any) -> "Symbol":
            if isinstance(other, Symbol):
                return Symbol(_free_name("broadcast"), [self, other], lambda b: rule(b.tensor(self), b.tensor(other)))
            return Symbol(_free_name("scalar"), [self], lambda b: rule(b.tensor(self), other))

        return made

    __add__ = __radd__ = _binary(lambda x, y: x + y)
    __sub__ = _binary(lambda x, y: x - y)
    __mul__ = __rmul__ = _binary(lambda x, y: x * y)
    __truediv__ = _binary(lambda x, y: x / y)

    def __repr__(self) -> str:
        return f"<Symbol {self.name}>"


class Binding:
    """An expression on its way into a graph."""

    def __init__(self, graph: opc.Graph, shapes: Shapes, is_train: bool) -> None:
        self.graph, self.shapes, self.is_train = graph, dict(shapes), is_train
        self._made: Dict[Any, Any] = {}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def tensor(self, symbol: Symbol) -> opc.Tensor:
        key = symbol.name if symbol.kind != "op" else id(symbol)
        return self.once(key, lambda: symbol._place(self))


def Variable(name: str, shape: Optional[Sequence[int]] = None, dtype: Any = "float32", **kwargs: Any) -> Symbol:  # noqa: N802
    """An argument."""

    def place(b: Binding) -> opc.Tensor:
        chosen = b.shapes.get(name, shape)
        if chosen is None:
            raise MXNetError(f"the shape of {name} is not known: give it, {name}=(2, 3)")
        return b.graph.input(name, tuple(chosen), dtype)

    made = Symbol(name, [], place, "argument")
    made.shape = shape  # type: ignore[attr-defined]
    return made


var = Variable


def _state(name: str) -> Symbol:
    return Symbol(name, [], lambda b: b.graph.variable(name, tuple(b.shapes[name]), init=0, trainable=False), "aux")


def Custom(*args: Any, op_type: str, name: Optional[str] = None, **kwargs: Any) -> Any:  # noqa: N802
    """The registered operator in an expression; on tensors of an opc.Graph, a node of it. Inputs that are not given become
    variables, "NAME_ARGUMENT"."""
    if any(isinstance(a, opc.Tensor) for a in [*args, *kwargs.values()]):
        return operator.in_graph(op_type, args, dict(kwargs, name=name))
    use, settings, given = operator.parse(op_type, args, kwargs, lambda v: isinstance(v, Symbol))
    name = name or _free_name(op_type)
    data = [given.get(n) or Variable(f"{name}_{n}") for n in use.arguments]
    aux = [_state(given[n].name if n in given else f"{name}_{n}") for n in use.aux]
    key = object()

    def node(b: Binding) -> Tuple[opc.Tensor, ...]:
        _know_shapes(b, use, data, aux)
        tensors = [[b.tensor(s) for s in list_] for list_ in (data, aux)]
        return operator.add_node(use, settings, *tensors, b.is_train, name)

    def output(i: int) -> Symbol:
        label = name if len(use.outputs) == 1 else f"{name}_{use.outputs[i]}"
        return Symbol(label, data + aux, lambda b: b.once(key, lambda: node(b))[i])

    made = [output(i) for i in range(len(use.outputs))]
    return made[0] if len(made) == 1 else made


def _know_shapes(b: Binding, use: operator.Use, data: List[Symbol], aux: List[Symbol]) -> None:
    """`infer_shape` of the Prop also says the shapes of arguments that nobody gave, and of the auxiliary states."""
    known = []
    for s in data:
        shape = b.shapes.get(s.name, getattr(s, "shape", None)) if s.kind == "argument" else b.tensor(s).shape
        known.append(list(shape or ()))
    answer = use._lists(use.prop.infer_shape(known), "infer_shape")
    for symbols, shapes in ((data, answer[0]), (aux, answer[2] if len(answer) == 3 else ())):
        for s, shape in zip(symbols, shapes):
            if s.kind != "op" and len(shape):
                b.shapes.setdefault(s.name, tuple(shape))


class Executor:
    """A bound expression: forward, backward, and the arrays by name."""

    def __init__(self, symbol: Symbol, arrays: Optional[Mapping[str, NDArray]], grad_req: Union[str, Mapping[str, str]], shapes: Shapes) -> None:
        self._symbol, self._shapes = symbol, dict(shapes)
        graph = self._graphs(False)
        self.arg_dict = {n: (arrays or {}).get(n) or NDArray(np.zeros(t.shape, t.dtype.numpy)) for n, t in graph.inputs.items()}
        self.aux_dict = {n: NDArray(np.zeros(t.shape, t.dtype.numpy)) for n, t in graph.variables.items()}
        req = {n: grad_req if isinstance(grad_req, str) else grad_req.get(n, "null") for n in self.arg_dict}
        self._req = {n: r for n, r in req.items() if r != "null"}
        self.grad_dict = {n: NDArray(np.zeros_like(self.arg_dict[n]._value)) for n in self._req}
        self._sessions: Dict[Any, opc.Session] = {}
        self.outputs: List[NDArray] = []

    def _graphs(self, is_train: bool) -> opc.Graph:
        return self._symbol.graph("bound", is_train, **self._shapes)

    def _run(self, what: str, make: Callable[[], opc.Graph], extra: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
        key = (what, os.getpid())  # a session's threads do not come through fork()
        if key not in self._sessions:
            self._sessions[key] = make().compile().session()
        session = self._sessions[key]
        for name, state in self.aux_dict.items():
            session.variables[name] = state._value
        feeds = {**{n: a._value for n, a in self.arg_dict.items()}, **extra}
        got = session.run(**{n: v for n, v in feeds.items() if n in session.inputs})
        for name, state in self.aux_dict.items():
            state._value = session.variables[name]
        return got

    def forward(self, is_train: bool = False, **kwargs: Any) -> List[NDArray]:
        """With these values of arguments; the others keep theirs. Training computes when `backward` says from where."""
        for name, value in kwargs.items():
            self.arg_dict[name]._value = np.asarray(getattr(value, "_value", value), self.arg_dict[name].dtype)
        got = self._run(f"forward {is_train}", lambda: self._graphs(is_train), {})
        self.outputs = [NDArray(got["output"])]
        return self.outputs

    def backward(self, out_grads: Any = None) -> None:
        """Fills `grad_dict`; one step of a graph with the forward ops and their gradients."""
        head = out_grads[0] if isinstance(out_grads, (list, tuple)) else out_grads
        dy = np.ones_like(self.outputs[0]._value) if head is None else head._value
        states = {n: NDArray(a._value) for n, a in self.aux_dict.items()}
        got = self._run("backward", lambda: self._graphs(True).grad("output", list(self._req), dy_inputs=True), {"output.dy": dy})
        self.aux_dict.update(states)  # the step of `forward` has counted
        for name, req in self._req.items():
            value = got[f"{name}.grad"]
            self.grad_dict[name]._value = self.grad_dict[name]._value + value if req == "add" else value
