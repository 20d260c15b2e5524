"""Operators of classes: mx.operator. Each registered class is the op `mxnet::NAME` of graphs, with a gradient op."""
# SPDX-License-Identifier: Apache-2.0
import inspect
import numbers
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

import opc
from opc._errors import failure
from opc._graph import add_op
from opc._host import HostError
from opc._op import Code
from opc._schema import Attribute, check_name
from opc_styles import classes, eager

from . import autograd
from .base import MXNetError
from .context import cpu
from .ndarray import NDArray

Shapes = List[List[int]]


class CustomOp:
    """Computes: subclasses write `forward` and `backward`, which fill their outputs by `assign`."""

    def forward(self, is_train: bool, req: List[str], in_data: List[NDArray], out_data: List[NDArray], aux: List[NDArray]) -> None:
        pass

    def backward(self, req: List[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: List[NDArray], aux: List[NDArray]) -> None:
        pass

    def assign(self, dst: NDArray, req: str, src: Any) -> None:
        """Puts `src` into `dst` as `req` says: "null" not at all, "write" and "inplace" over it, "add" onto it. It is
        broadcast, as MXNet's `dst[:] = src` does it."""
        if req not in ("null", "write", "inplace", "add"):
            raise ValueError(f"assign: req is 'null', 'write', 'inplace' or 'add', not {req!r}")
        if req == "null":
            return
        if src is None:
            raise ValueError("assign: there is no value, None: backward gets None for what declare_backward_dependency does not name")
        shape = tuple(np.shape(src._value if isinstance(src, NDArray) else src))
        # numpy would drop leading ones that are too many, which MXNet does not; a number in a list is a number.
        if shape != (1,) and (len(shape) > len(dst.shape) or any(s not in (1, d) for s, d in zip(shape[::-1], dst.shape[::-1]))):
            raise ValueError(f"assign: a value of shape {shape} does not broadcast to the array's shape {dst.shape}")
        if req == "add":
            dst[:] += src
        else:
            dst[:] = src


class CustomOpProp:
    """Describes: names, shapes, types, and which CustomOp computes. need_top_grad: False for losses."""

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def list_arguments(self) -> Sequence[str]:
        return ["data"]

    def list_outputs(self) -> Sequence[str]:
        return ["output"]

    def list_auxiliary_states(self) -> Sequence[str]:
        return []

    def infer_shape(self, in_shape: Shapes) -> Any:
        """All outputs as the first input."""
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type: List[Any]) -> Any:
        """All as the first input."""
        return in_type, [in_type[0]] * len(self.list_outputs()), [in_type[0]] * len(self.list_auxiliary_states())

    def declare_backward_dependency(self, out_grad: List[int], in_data: List[int], out_data: List[int]) -> List[int]:
        """Which of these numbers `backward` reads; the others it gets as None."""
        return (list(out_grad) if self.need_top_grad_ else []) + list(in_data) + list(out_data)

    def create_operator(self, ctx: Any, in_shapes: Shapes, in_dtypes: List[Any]) -> CustomOp:
        return CustomOp()


def numpy_type(op: str, kind: Any) -> np.dtype:
    """As Props and kernels see it: numpy's. What numpy has not (bf16, i4) is refused by name."""
    found = getattr(kind, "numpy", kind)
    if isinstance(kind, str):
        found = opc.dtype(kind).numpy
    if found is None:
        raise MXNetError(f"{op}: an input is {kind!s}, which numpy has not: cast it to float32 or int8 before the operator, and back behind it")
    return np.dtype(found)


class Use:
    """One use of an operator: its Prop with settings, what it inferred, and its CustomOp."""

    def __init__(self, name: str, prop_type: type, settings: Sequence[str]) -> None:
        self.name, self.operator = name, _operators[name]  # what was registered when it was made
        given = dict(s.split("=", 1) for s in settings)
        try:
            self.prop = prop_type(**given)
        except TypeError as e:
            raise MXNetError(f"{name}: {prop_type.__name__}({', '.join(given)}): {e}") from e
        if not hasattr(self.prop, "need_top_grad_"):
            raise MXNetError(f"{name}: {prop_type.__name__}.__init__ does not call super().__init__()")
        self.arguments = list(self.prop.list_arguments())
        self.outputs = list(self.prop.list_outputs())
        self.aux = list(self.prop.list_auxiliary_states())
        self._check_names()
        self.op: Optional[CustomOp] = None
        self.req: Optional[List[str]] = None  # of the inputs' gradients, where the caller says it
        self.is_train: Optional[bool] = None

    def _check_names(self) -> None:
        """An operator gives something, and what it is called with is told apart by names."""
        if not self.outputs:
            raise MXNetError(f"{self.name}: list_outputs returns no name: an operator needs an output, ['output'] say")
        inputs: Dict[str, str] = {}
        outputs: Dict[str, str] = {}
        for rule, names, seen in (("list_arguments", self.arguments, inputs), ("list_auxiliary_states", self.aux, inputs), ("list_outputs", self.outputs, outputs)):
            for n in names:
                if n in seen:
                    again = "twice" if seen[n] == rule else f"which {seen[n]} returns, too"
                    raise MXNetError(f"{self.name}: {rule} returns the name '{n}' {again}: each needs a name of its own")
                seen[n] = rule

    def infer(self, shapes: Shapes, types: List[Any], states: Shapes) -> List[opc.Spec]:
        """The outputs. Lists of a wrong length are errors here, not later."""
        inferred = self.inferred_shapes(shapes)
        wanted = [*inferred[0], *(inferred[2] if len(inferred) == 3 else states)]
        for argument, is_, wants in zip(self.arguments + self.aux, [*shapes, *states], wanted):
            if list(is_) != list(wants):
                raise MXNetError(f"{self.name}: infer_shape wants {argument} of shape {tuple(wants)}, found {tuple(is_)}")
        types = [numpy_type(self.name, t) for t in types]
        answer = self._lists(self.prop.infer_type([t.type for t in types]), "infer_type")
        for argument, kind, wanted in zip(self.arguments, types, answer[0]):
            if kind != np.dtype(wanted):
                raise MXNetError(f"{self.name}: infer_type wants {argument} of type {np.dtype(wanted).name}, found {kind.name}")
        kinds = answer[1]
        return [opc.Spec(tuple(s), np.dtype(t)) for s, t in zip(inferred[1], kinds)]

    def inferred_shapes(self, shapes: Shapes) -> Tuple[List[List[int]], ...]:
        """What infer_shape answers: of the inputs, the outputs and, where it says them, the auxiliary states."""
        lists = self._lists(self.prop.infer_shape([list(s) for s in shapes]), "infer_shape")
        kinds = (("input", self.arguments), ("output", self.outputs), ("auxiliary state", self.aux))
        return tuple([self._sizes(s, f"{kind} '{n}'") for n, s in zip(names, found)] for (kind, names), found in zip(kinds, lists))

    def _sizes(self, shape: Any, what: str) -> List[int]:
        if not isinstance(shape, (list, tuple, np.ndarray)):
            raise MXNetError(f"{self.name}: infer_shape answers {shape!r} for its {what}, which is no shape: a list of sizes such as [2, 3]")
        for d in shape:
            if not isinstance(d, numbers.Real) or not float(d).is_integer():
                raise MXNetError(f"{self.name}: infer_shape answers {list(shape)} for its {what}, and {d!r} is no whole number: // divides sizes")
        return [int(d) for d in shape]

    def _lists(self, answer: Any, rule: str) -> Tuple[Any, ...]:
        if not isinstance(answer, (list, tuple)) or len(answer) not in (2, 3):
            raise MXNetError(f"{self.name}: {rule} must return 2 or 3 lists: of inputs, outputs and auxiliary states; found {answer!r}")
        for what, names, found in zip(("inputs", "outputs", "auxiliary states"), (self.arguments, self.outputs, self.aux), answer):
            if len(found) != len(names):
                raise MXNetError(f"{self.name}: {rule} must return {len(names)} entries for its {what} {names}; found {len(found)}")
        return tuple(answer)

    def custom_op(self, data: Sequence[np.ndarray]) -> CustomOp:
        if self.op is None:
            self.op = self.prop.create_operator(cpu(), [list(a.shape) for a in data], [a.dtype.type for a in data])
            if not isinstance(self.op, CustomOp):
                raise MXNetError(f"{self.name}: create_operator must return a CustomOp; found {type(self.op).__name__}")
        return self.op


_prop_types: Dict[str, type] = {}
_operators: Dict[str, classes.ClassOperator] = {}
_uses: Dict[Any, Use] = {}  # of nodes of graphs, by their attribute `instance`, settings and shapes
_now: List[Use] = []  # the use that runs at once


def _use(name: str, prop_type: type, settings: Sequence[str], instance: str, data: Sequence[np.ndarray]) -> Use:
    if instance == classes.EAGER and _now:
        return _now[-1]
    key = (name, prop_type, instance, tuple(settings), eager.key_of(data))
    if key not in _uses:
        _uses[key] = Use(name, prop_type, settings)
    return _uses[key]


def _kernels(name: str, prop_type: type) -> Tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    def forward(data: Any, aux: Any, *, settings: Any, instance: str, is_train: bool) -> List[np.ndarray]:
        with classes.kernel_of(name):
            use = _use(name, prop_type, settings, instance, data)
            op = use.custom_op(data)
            _refuse_without(op, "forward")
            specs = use.infer([list(a.shape) for a in data], [a.dtype for a in data], [list(a.shape) for a in aux or ()])
            outputs = [np.zeros(s.shape, s.dtype) for s in specs]
            train = is_train if use.is_train is None else use.is_train
            states = [np.array(a) for a in aux or ()]
            op.forward(train, ["write"] * len(outputs), _wrap(classes.copies(data)), _wrap(outputs), _wrap(states))
            for state, now in zip(aux or (), states):
                state[...] = now
            return outputs

    def backward(doutput: Any, *, data: Any, output: Any, aux: Any, settings: Any, instance: str, is_train: bool) -> List[np.ndarray]:
        with classes.kernel_of(name + "_grad"):
            use = _use(name, prop_type, settings, instance, data)
            op = use.custom_op(data)
            _refuse_without(op, "backward")
            grads = [np.zeros(a.shape, a.dtype) for a in data]
            tensors = _declared(use, [_wrap(classes.copies(list_ or ())) for list_ in (doutput, data, output)])
            try:
                op.backward(use.req or ["write"] * len(grads), *tensors, _wrap(grads), _wrap(classes.copies(aux)))
            except (AttributeError, TypeError, ValueError) as error:
                left_out = [f"{list_}[{i}]" for list_, arrays in zip(("out_grad", "in_data", "out_data"), tensors) for i, a in enumerate(arrays) if a is None]
                if left_out and "None" in str(error):
                    error.opc_help = f"backward gets None for {', '.join(left_out)}, which declare_backward_dependency leaves out"  # type: ignore[union-attr]
                raise
            return grads

    def infer(data: Any, aux: Any, *, settings: Any) -> List[opc.Spec]:
        shapes, states = ([list(d.shape) for d in list_ or ()] for list_ in (data, aux))
        return Use(name, prop_type, settings).infer(shapes, [d.dtype for d in data or ()], states)

    return forward, backward, infer


def _refuse_without(op: CustomOp, method: str) -> None:
    """A class that leaves a method out would give zeros."""
    kind = type(op)
    if getattr(kind, method) is not getattr(CustomOp, method):
        return
    code = Code(kind)
    where = f" ({code.path}:{code.line})" if code.line and kind is not CustomOp else ""
    if method == "backward":
        help = "write backward, which assigns to in_grad: where the derivative is zero, self.assign(in_grad[0], req[0], 0)"
        raise HostError("OPC0501", f"{kind.__name__} has no method backward, and a gradient is wanted{where}", help)
    raise HostError("OPC0622", f"{kind.__name__} has no method forward{where}", "write forward, which assigns to out_data, and give an object of the class from create_operator")


def _wrap(arrays: Sequence[np.ndarray]) -> List[NDArray]:
    return [NDArray(a) for a in arrays]


def _declared(use: Use, lists: List[List[NDArray]]) -> List[List[Optional[NDArray]]]:
    """Gradients, inputs and outputs, those that the Prop does not declare as None."""
    numbers, at = [], 0
    for arrays in lists:
        numbers.append(list(range(at, at + len(arrays))))
        at += len(arrays)
    wanted = set(use.prop.declare_backward_dependency(*numbers))
    unknown = sorted(n for n in wanted if n not in range(at))
    if unknown:
        raise MXNetError(f"{use.name}: declare_backward_dependency names {unknown}; it is given {numbers[0]}, {numbers[1]} and {numbers[2]}")
    return [[a if n in wanted else None for a, n in zip(arrays, ids)] for arrays, ids in zip(lists, numbers)]


def register(reg_name: str) -> Callable[[type], type]:
    """Decorates a CustomOpProp: the op `mxnet::reg_name`. A name that is registered again is replaced for later uses."""

    def made(prop_type: type) -> type:
        if not (inspect.isclass(prop_type) and issubclass(prop_type, CustomOpProp)):
            raise MXNetError(f"register('{reg_name}') decorates a subclass of CustomOpProp; found {prop_type!r}")
        name = "mxnet::" + reg_name
        try:
            check_name(name)
        except ValueError as e:
            raise MXNetError(f"register: {e}") from None
        forward, backward, infer = _kernels(name, prop_type)
        attrs = [Attribute("settings", "list_string", ()), Attribute("instance", "string"), Attribute("is_train", "bool", False)]
        operator = classes.ClassOperator(name, prop_type, forward, attrs, aux=["aux"])
        operator.infer(infer)
        operator.grad(backward, needs=["data", "output", "aux"])
        _prop_types[name], _operators[name] = prop_type, classes.define(operator)
        return prop_type

    return made


def get_all_registered_operators() -> List[str]:
    """The names that `Custom` knows."""
    return sorted(n[len("mxnet::"):] for n in _operators)


def parse(op_type: str, args: Sequence[Any], kwargs: Dict[str, Any], is_input: Callable[[Any], bool]) -> Tuple[Use, List[str], Dict[str, Any]]:
    """A call of Custom: settings as texts, and inputs by name, auxiliary states among them."""
    name = "mxnet::" + op_type
    if name not in _operators:
        raise MXNetError(f"no operator '{op_type}' is registered; there are {', '.join(get_all_registered_operators()) or 'none'}")
    for key, value in [*enumerate(args), *kwargs.items()]:
        is_array = hasattr(value, "__array__") and not isinstance(value, np.generic)  # numpy's numbers are settings, as others
        if not is_input(value) and (isinstance(key, int) or is_array):
            what = "Symbols", "NDArrays, mx.nd.array(...)", "tensors of one graph"
            raise MXNetError(f"{name}: input {key!r} is a {type(value).__name__}: Custom takes {', or '.join(what)}, and no mixture")
    named = {k: v for k, v in kwargs.items() if is_input(v)}
    settings = [f"{k}={v}" for k, v in kwargs.items() if k not in named and not (k.startswith("__") and k.endswith("__"))]
    use = Use(name, _prop_types[name], settings)
    names = use.arguments + use.aux
    if len(args) > len(names):
        raise MXNetError(f"{name}: {len(args)} inputs, and the operator has {names}")
    given = dict(zip(names, args))
    for key, value in named.items():
        if key not in names or key in given:
            raise MXNetError(f"{name}: input '{key}' is " + ("given twice" if key in given else f"not one of {names}"))
        given[key] = value
    return use, settings, given


def _complete(use: Use, given: Dict[str, Any]) -> Tuple[List[Any], List[Any]]:
    missing = [n for n in use.arguments + use.aux if n not in given]
    if missing:
        raise MXNetError(f"{use.name}: {', '.join(missing)} is missing; the inputs are {use.arguments + use.aux}")
    return [given[n] for n in use.arguments], [given[n] for n in use.aux]


_nodes = 0


def add_node(use: Use, settings: List[str], data: List[opc.Tensor], aux: List[opc.Tensor], is_train: bool, name: Optional[str]) -> Tuple[opc.Tensor, ...]:
    """The op in a graph. Its gradient finds the same CustomOp by `instance`."""
    global _nodes
    _nodes += 1
    return _add(use, settings, data, aux, f"{name or use.name.split('::')[1]}.{_nodes}", is_train, name)


def _add(use: Use, settings: List[str], data: List[Any], aux: List[Any], instance: str, is_train: bool, name: Optional[str]) -> Tuple[opc.Tensor, ...]:
    use.operator.register()
    inputs = {**({"data": data} if data else {}), **({"aux": aux} if aux else {})}
    attrs = {"settings": settings, "instance": instance, "is_train": is_train}
    return add_op(use.operator.name, inputs, attrs, name=name, outputs={"output": len(use.outputs)})


def run(op_type: str, args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
    """mx.nd.Custom."""
    if any(isinstance(a, opc.Tensor) for a in [*args, *kwargs.values()]):
        return in_graph(op_type, args, kwargs)
    if classes.inside_kernel():
        raise MXNetError(f"mxnet::{op_type}: an operator's own code cannot call Custom: make what it needs an op of the graph")
    use, settings, given = parse(op_type, args, kwargs, lambda v: isinstance(v, NDArray))
    data, aux = _complete(use, given)
    use.is_train = autograd.is_training()
    outputs = _forward(use, settings, data, aux)
    if autograd.is_recording() and any(a._on_tape() for a in data):
        _record(use, settings, data, aux, outputs)
    return outputs[0] if len(outputs) == 1 else outputs


def in_graph(op_type: str, args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
    """Custom on tensors of an opc.Graph."""
    name, is_train = kwargs.pop("name", None), bool(kwargs.pop("is_train", False))
    use, settings, given = parse(op_type, args, kwargs, lambda v: isinstance(v, opc.Tensor))
    data, aux = _complete(use, given)
    for state, tensor in zip(use.aux, aux):
        if tensor.op_name not in tensor.graph.variables:
            message = f"{use.name}: it writes its auxiliary state {state}, and {tensor.name} is no variable"
            raise failure(3, "OPC0208", message, "give it graph.variable(..., trainable=False) itself, before any view or cast")
    made = add_node(use, settings, data, aux, is_train, name)
    return made[0] if len(made) == 1 else made


def _program(key: Any, build: Callable[[opc.Graph], Sequence[opc.Tensor]]) -> opc.Program:
    if key not in eager._programs:
        graph = opc.Graph("eager")
        with graph:
            for i, tensor in enumerate(build(graph)):
                graph.output(f"y{i}", tensor)
        eager._programs[key] = graph.compile()
    return eager._programs[key]


def _run(use: Use, program: opc.Program, feeds: Dict[str, np.ndarray], aux: List[NDArray]) -> List[np.ndarray]:
    for i, state in enumerate(aux):
        program.variables[f"aux{i}"] = state._value
    _now.append(use)
    try:
        got = program.run(**feeds)
    finally:
        _now.pop()
    for i, state in enumerate(aux):
        state._value = program.variables[f"aux{i}"]
    return [got[f"y{i}"] for i in range(len(got))]


def _feeds(**lists: Sequence[np.ndarray]) -> Dict[str, np.ndarray]:
    return {f"{name}{i}": a for name, arrays in lists.items() for i, a in enumerate(arrays)}


def _inputs(graph: opc.Graph, name: str, arrays: Sequence[np.ndarray]) -> List[opc.Tensor]:
    return [graph.input(f"{name}{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]


def _states(graph: opc.Graph, aux: List[NDArray]) -> List[opc.Tensor]:
    return [graph.variable(f"aux{i}", a.shape, a.dtype, init=0, trainable=False) for i, a in enumerate(aux)]


def _key(use: Use, settings: List[str], kind: str, *lists: Sequence[np.ndarray]) -> Any:
    return (kind, use.name, id(use.operator), tuple(settings), *[eager.key_of(a) for a in lists])


def _forward(use: Use, settings: List[str], data: List[NDArray], aux: List[NDArray]) -> Tuple[NDArray, ...]:
    values = [a._value for a in data]

    def build(graph: opc.Graph) -> Sequence[opc.Tensor]:
        return _add(use, settings, _inputs(graph, "data", values), _states(graph, aux), classes.EAGER, False, None)

    with eager.lock:
        program = _program(_key(use, settings, "forward", values, [a._value for a in aux]), build)
        return tuple(_wrap(_run(use, program, _feeds(data=values), aux)))


def _record(use: Use, settings: List[str], data: List[NDArray], aux: List[NDArray], outputs: Tuple[NDArray, ...]) -> None:
    values, made = [a._value for a in data], [a._value for a in outputs]

    def back(dys: Sequence[np.ndarray], wanted: Sequence[bool]) -> List[np.ndarray]:
        def build(graph: opc.Graph) -> Sequence[opc.Tensor]:
            inputs = {"doutput": _inputs(graph, "dy", dys), "data": _inputs(graph, "data", values), "output": _inputs(graph, "out", made)}
            states = {"aux": _states(graph, aux)} if aux else {}
            attrs = {"settings": settings, "instance": classes.EAGER, "is_train": True}
            return add_op(use.operator.grad_name(), {**inputs, **states}, attrs, outputs={"ddata": len(values)})

        use.req = [getattr(a, "_grad_req", "write") if a._leaf() else "write" if w else "null" for a, w in zip(data, wanted)]
        with eager.lock:
            program = _program(_key(use, settings, "backward", dys, values, made, [a._value for a in aux]), build)
            return _run(use, program, _feeds(dy=dys, data=values, out=made), aux)

    eager.Node(data, outputs, back)
