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
Arrays = Union[Mapping[str, NDArray], Sequence[NDArray]]
Requests = Union[str, Mapping[str, str], Sequence[str]]  # what becomes of gradients, by name or in the arguments' order


def _by_name(what: str, arrays: Any, names: Sequence[str]) -> Dict[str, NDArray]:
    """Those of the names, of a dict or of a list in their order; None stands for no array."""
    if not isinstance(arrays, Mapping):
        if len(arrays) != len(names):
            raise MXNetError(f"bind: {len(arrays)} arrays in {what}, expected {len(names)}: {', '.join(names)}")
        arrays = dict(zip(names, arrays))
    chosen = {n: arrays[n] for n in names if arrays.get(n) is not None}
    for name, array in chosen.items():
        if not isinstance(array, NDArray):
            raise MXNetError(f"bind: {name} in {what} is a {type(array).__name__}: give an NDArray, mx.nd.array(...)")
    return chosen


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
        return self._graph(name, is_train, shapes, {})

    def _graph(self, name: str, is_train: bool, shapes: Shapes, types: Mapping[str, Any]) -> opc.Graph:
        graph = opc.Graph(name)
        with graph:
            graph.output("output", Binding(graph, shapes, is_train, types).tensor(self))
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

    def simple_bind(self, ctx: Any = None, grad_req: Requests = "write", type_dict: Optional[Mapping[str, Any]] = None, **shapes: Sequence[int]) -> "Executor":
        """With arrays of zeros for every argument. type_dict: element types by name; the others are the variable's, or float32."""
        return Executor(self, {}, grad_req, shapes, type_dict or {})

    def bind(self, ctx: Any, args: Arrays, args_grad: Optional[Arrays] = None, grad_req: Requests = "write", aux_states: Optional[Arrays] = None) -> "Executor":
        """With these arrays: every run reads them, and `backward` and states write into them."""
        names = self.list_arguments()
        given = _by_name("args", args, names)
        missing = [n for n in names if n not in given]
        if missing:
            raise MXNetError(f"bind: {', '.join(missing)} is missing in args; the arguments are {names}")
        states = _by_name("aux_states", aux_states or {}, self.list_auxiliary_states())
        known = {**given, **states}
        made = Executor(self, known, grad_req, {n: a.shape for n, a in given.items()}, {n: a.dtype for n, a in known.items()})
        if args_grad is not None:
            made._take_gradients(_by_name("args_grad", args_grad, names))
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

    def __init__(self, graph: opc.Graph, shapes: Shapes, is_train: bool, types: Mapping[str, Any]) -> None:
        self.graph, self.shapes, self.is_train, self.types = graph, dict(shapes), is_train, dict(types)
        self._made: Dict[Any, Any] = {}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def tensor(self, symbol: Symbol) -> opc.Tensor:
        key = symbol.name if symbol.kind != "op" else id(symbol)
        return self.once(key, lambda: symbol._place(self))


def Variable(name: str, shape: Optional[Sequence[int]] = None, dtype: Any = None, **kwargs: Any) -> Symbol:  # noqa: N802
    """An argument; float32 unless its type is given here or where it is bound, or the operator that reads it wants another."""

    def place(b: Binding) -> opc.Tensor:
        chosen = b.shapes.get(name, shape)
        if chosen is None:
            raise MXNetError(f"the shape of {name} is not known: give it, {name}=(2, 3)")
        kind = b.types.get(name, dtype)
        return b.graph.input(name, tuple(chosen), "float32" if kind is None else kind)

    made = Symbol(name, [], place, "argument")
    made.shape, made.dtype = shape, dtype  # type: ignore[attr-defined]
    return made


var = Variable


def _state(name: str) -> Symbol:
    return Symbol(name, [], lambda b: b.graph.variable(name, tuple(b.shapes[name]), b.types.get(name, "float32"), init=0, trainable=False), "aux")


def Custom(*args: Any, op_type: str, name: Optional[str] = None, **kwargs: Any) -> Any:  # noqa: N802
    """The registered operator in an expression; on tensors of an opc.Graph, a node of it. Inputs that are not given become
    variables, "NAME_ARGUMENT"."""
    if any(isinstance(a, opc.Tensor) for a in [*args, *kwargs.values()]):
        return operator.in_graph(op_type, args, dict(kwargs, name=name))
    use, settings, given = operator.parse(op_type, args, kwargs, lambda v: isinstance(v, Symbol))
    name = name or _free_name(op_type)
    for n in use.aux:
        if n in given and given[n].kind == "op":
            raise MXNetError(f"{use.name}: it writes its auxiliary state {n}, and {given[n].name} is computed: give it mx.sym.Variable('{n}')")
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
    """`infer_shape` and `infer_type` of the Prop also say those of arguments that nobody gave, and of the auxiliary states."""
    shapes: List[List[int]] = []
    types: List[Any] = []
    for s in data:
        tensor = None if s.kind == "argument" else b.tensor(s)
        shape = b.shapes.get(s.name, getattr(s, "shape", None)) if tensor is None else tensor.shape
        kind = b.types.get(s.name, getattr(s, "dtype", None)) if tensor is None else operator.numpy_type(use.name, tensor.dtype)
        shapes.append(list(shape or ()))
        types.append(None if kind is None else operator.numpy_type(use.name, kind).type)
    first = next((t for t in types if t is not None), np.float32)  # of those that nobody says
    types = [first if t is None else t for t in types]
    answers: Sequence[Tuple[Tuple[Any, ...], Dict[str, Any]]]
    answers = (use.inferred_shapes(shapes), b.shapes), (use._lists(use.prop.infer_type(types), "infer_type"), b.types)
    for lists, known in answers:
        for symbols, found in ((data, lists[0]), (aux, lists[2] if len(lists) == 3 else ())):
            for s, value in zip(symbols, found):
                own = getattr(s, "shape" if known is b.shapes else "dtype", None)
                if s.kind != "op" and own is None and (known is b.types or len(value)):
                    known.setdefault(s.name, value)


class Executor:
    """A bound expression: forward, backward, and the arrays by name."""

    def __init__(self, symbol: Symbol, arrays: Mapping[str, NDArray], grad_req: Requests, shapes: Shapes, types: Mapping[str, Any]) -> None:
        self._symbol, self._shapes, self._types = symbol, dict(shapes), dict(types)
        graph = self._graphs(False)

        def array(name: str, tensor: Any) -> NDArray:
            found = arrays.get(name)
            if found is None:
                return NDArray(np.zeros(tensor.shape, tensor.dtype.numpy))
            if found.shape != tuple(tensor.shape):
                raise MXNetError(f"bind: {name} has shape {found.shape}, the expression wants {tuple(tensor.shape)}")
            return found

        self.arg_dict = {n: array(n, graph.inputs[n]) for n in symbol.list_arguments()}
        self.aux_dict = {n: array(n, graph.variables[n]) for n in symbol.list_auxiliary_states()}
        self._req = {n: r for n, r in _requests(grad_req, list(self.arg_dict)).items() if r != "null"}
        self.grad_dict = {n: NDArray(np.zeros_like(self.arg_dict[n]._value)) for n in self._req}
        self._sessions: Dict[Any, opc.Session] = {}
        self._states: Dict[str, np.ndarray] = {}  # before the last forward
        self.outputs: List[NDArray] = []

    arg_arrays = property(lambda self: list(self.arg_dict.values()))
    grad_arrays = property(lambda self: [self.grad_dict.get(n) for n in self.arg_dict])
    aux_arrays = property(lambda self: list(self.aux_dict.values()))

    def _take_gradients(self, arrays: Mapping[str, NDArray]) -> None:
        """Gradients go into these; the arguments that have none here want no gradient."""
        for name, array in arrays.items():
            if array.shape != self.arg_dict[name].shape:
                raise MXNetError(f"bind: {name} in args_grad has shape {array.shape}, the argument {self.arg_dict[name].shape}")
        self._req = {n: r for n, r in self._req.items() if n in arrays}
        self.grad_dict = {n: arrays[n] for n in self._req}

    def _graphs(self, is_train: bool) -> opc.Graph:
        return self._symbol._graph("bound", is_train, self._shapes, self._types)

    def _run(self, what: str, make: Callable[[], opc.Graph], states: Mapping[str, np.ndarray], extra: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """A step from these states, which leaves those that follow."""
        key = (what, os.getpid())  # a session's threads do not come through fork()
        if key not in self._sessions:
            self._sessions[key] = make().compile().session()
        session = self._sessions[key]
        for name, before in states.items():
            session.variables[name] = before
        feeds = {**{n: a._value for n, a in self.arg_dict.items()}, **extra}
        got = session.run(**{n: v for n, v in feeds.items() if n in session.inputs})
        for name, state in self.aux_dict.items():
            state._value = session.variables[name]
        return got

    def forward(self, is_train: bool = False, **kwargs: Any) -> List[NDArray]:
        """With these values of arguments; the others keep theirs. Training computes when `backward` says from where."""
        for name, value in kwargs.items():
            self.arg_dict[name]._value = np.array(getattr(value, "_value", value), self.arg_dict[name].dtype)
        self._states = {n: a._value for n, a in self.aux_dict.items()}
        got = self._run(f"forward {is_train}", lambda: self._graphs(is_train), self._states, {})
        self.outputs = [NDArray(got["output"])]
        return self.outputs

    def backward(self, out_grads: Any = None) -> None:
        """Fills `grad_dict`; one step of a graph with the forward ops and their gradients. Where nothing has run yet, `forward` does."""
        if not self.outputs:
            self.forward(is_train=True)
        head = out_grads[0] if isinstance(out_grads, (list, tuple)) else out_grads
        dy = np.ones_like(self.outputs[0]._value) if head is None else head._value
        wanted = [n for n in self._req if self.arg_dict[n]._value.dtype.kind == "f"]
        got: Dict[str, np.ndarray] = {}
        if wanted:
            now = {n: a._value for n, a in self.aux_dict.items()}
            # The forward ops run again as they ran, from the states before, so that what is read behind them is as it was.
            got = self._run("backward", lambda: self._graphs(True).grad("output", wanted, dy_inputs=True), self._states, {"output.dy": dy})
            for name, state in now.items():
                self.aux_dict[name]._value = state
        for name, req in self._req.items():
            array = self.grad_dict[name]
            value = got.get(f"{name}.grad", np.zeros_like(array._value))
            array._value = (array._value + value if req == "add" else value).astype(array.dtype, copy=False)


def _requests(grad_req: Requests, names: Sequence[str]) -> Dict[str, str]:
    """What becomes of each argument's gradient: one word for all, words in their order, or by name."""
    if isinstance(grad_req, str):
        found = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, Mapping):
        found = {n: grad_req.get(n, "null") for n in names}
    elif len(grad_req) == len(names):
        found = dict(zip(names, grad_req))
    else:
        raise MXNetError(f"grad_req: {len(grad_req)} words, expected {len(names)}: {', '.join(names)}")
    for name, req in found.items():
        if req not in ("null", "write", "add"):
            raise MXNetError(f"grad_req of {name} is 'write', 'add' or 'null', not {req!r}")
    return found
