"""Graphs: tensors that are only described, and the one function that adds an op."""
# SPDX-License-Identifier: Apache-2.0
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _core, _numbers, _options, _places
from ._dtypes import DType, DTypeLike, dtype as _dtype
from ._errors import usage
from ._identity import OneOfAKind
from ._program import Program
from .init import as_initializer
from .optim import Optimizer

Shape = Tuple[int, ...]


class Spec(NamedTuple):
    """The shape and element type of a tensor."""

    shape: Shape
    dtype: Any


class Tensor(OneOfAKind):
    """A tensor of a graph: what it will be, not its values."""

    _way_out = "it is a place in its graph; graph.tensor(name) finds it"

    __slots__ = ("graph", "name", "shape", "dtype", "_sbp", "__weakref__")
    __array_priority__ = 1000  # numpy leaves `array * tensor` to us

    def __init__(self, graph: "Graph", name: str, shape: Shape, dtype: DType) -> None:
        self.graph = graph
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self._sbp: Optional[str] = None

    @property
    def sbp(self) -> Optional[str]:
        """The state on a mesh that it is fixed to, "S(0)" or "[S(0), B]"; None: the planner decides."""
        return self._sbp

    @sbp.setter
    def sbp(self, states: Optional[str]) -> None:
        if states is not None and not isinstance(states, str):
            raise TypeError(f"a state is a str, 'S(0)' or '[S(0), B]', or None; not {states!r}")
        self._sbp = states
        if states is None:
            self.graph._pins.pop(self.name, None)
        else:
            self.graph._pins[self.name] = states

    @property
    def spec(self) -> Spec:
        return Spec(self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def op_name(self) -> str:
        """The op that makes it."""
        return self.name.rsplit("/", 1)[0]

    if TYPE_CHECKING:  # _operators.py gives them

        def __add__(self, other: "TensorLike") -> "Tensor": ...
        def __radd__(self, other: float) -> "Tensor": ...
        def __sub__(self, other: "TensorLike") -> "Tensor": ...
        def __rsub__(self, other: float) -> "Tensor": ...
        def __mul__(self, other: "TensorLike") -> "Tensor": ...
        def __rmul__(self, other: float) -> "Tensor": ...
        def __truediv__(self, other: "TensorLike") -> "Tensor": ...
        def __rtruediv__(self, other: float) -> "Tensor": ...
        def __pow__(self, other: "TensorLike") -> "Tensor": ...
        def __matmul__(self, other: "Tensor") -> "Tensor": ...
        def __rpow__(self, other: float) -> "Tensor": ...
        def __floordiv__(self, other: "TensorLike") -> "Tensor": ...
        def __rfloordiv__(self, other: float) -> "Tensor": ...
        def __mod__(self, other: "TensorLike") -> "Tensor": ...
        def __rmod__(self, other: float) -> "Tensor": ...
        def __divmod__(self, other: "TensorLike") -> "Tuple[Tensor, Tensor]": ...
        def __and__(self, other: "TensorLike") -> "Tensor": ...
        def __rand__(self, other: int) -> "Tensor": ...
        def __or__(self, other: "TensorLike") -> "Tensor": ...
        def __ror__(self, other: int) -> "Tensor": ...
        def __xor__(self, other: "TensorLike") -> "Tensor": ...
        def __rxor__(self, other: int) -> "Tensor": ...
        def __invert__(self) -> "Tensor": ...
        def __abs__(self) -> "Tensor": ...
        def __pos__(self) -> "Tensor": ...
        def __len__(self) -> int: ...
        def __neg__(self) -> "Tensor": ...
        def __lt__(self, other: "TensorLike") -> "Tensor": ...
        def __le__(self, other: "TensorLike") -> "Tensor": ...
        def __gt__(self, other: "TensorLike") -> "Tensor": ...
        def __ge__(self, other: "TensorLike") -> "Tensor": ...
        def __getitem__(self, index: Any) -> "Tensor": ...
        def sum(self, axis: Union[None, int, Sequence[int]] = None, keepdims: bool = False) -> "Tensor": ...
        def mean(self, axis: Union[None, int, Sequence[int]] = None, keepdims: bool = False) -> "Tensor": ...
        def reshape(self, *shape: Union[int, Sequence[int]]) -> "Tensor": ...
        def transpose(self, *axes: int) -> "Tensor": ...
        @property
        def T(self) -> "Tensor": ...

    def _repr_html_(self) -> str:
        from . import _show

        return _show.tensor_html(self)

    def __repr__(self) -> str:
        return f"<opc.Tensor {self.name} {self.dtype}[{','.join(map(str, self.shape))}]>"

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has no values while the graph is built: nothing can be decided by it")

    def __iter__(self):  # type: ignore[no-untyped-def]
        raise TypeError(f"{self!r} cannot be iterated over: take slices, or opc.ops.split")


TensorLike = Union[Tensor, int, float]
_current = threading.local()


def current_graph() -> Optional["Graph"]:
    """The graph of the innermost `with graph:` of this thread."""
    stack = getattr(_current, "graphs", None)
    return stack[-1] if stack else None


class name_scope:
    """Names of what is made within begin with "NAME."."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a name is a str, not {name!r}")
        self.name = name

    def __enter__(self) -> "name_scope":
        _current.__dict__.setdefault("scopes", []).append(self.name + ".")
        return self

    def __exit__(self, *unused: object) -> None:
        _current.scopes.pop()


def scoped(name: str) -> str:
    """The name within the present scopes."""
    if not isinstance(name, str):
        raise TypeError(f"a name is a str, not {name!r}")
    if any(ord(c) < 32 or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in name):
        raise ValueError(f"the name {name!r} has a control character or half a character: graph files cannot hold it")
    return "".join(getattr(_current, "scopes", ())) + name


class Graph(OneOfAKind):
    """A graph that is being built. As a context manager it is where ops without tensors go, and sources."""

    _way_out = "g.save(path) or g.text() write it, and opc.load(path) reads it"

    def __init__(self, name: str = "graph") -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a graph is a str, not {name!r}")
        self.name = name
        self._message = _core.GraphMessage(name)
        self._tensors: Dict[str, Tensor] = {}
        self.inputs: Dict[str, Tensor] = {}
        self.outputs: Dict[str, Tensor] = {}
        self.variables: Dict[str, Tensor] = {}
        self.gradients: Dict[str, Tensor] = {}
        self._pins: Dict[str, str] = {}
        self._values: Any = None  # of variables, that came with a model
        self._of_model = ""  # the path of the model that it is: sizes of its inputs are in its constants, too

    @classmethod
    def _read(cls, name: str, content: Any, options: Any) -> Tuple["Graph", Dict[str, Tuple[str, str]]]:
        """A graph from the bytes of a file, or a model's file, and its gradients when the options ask for some."""
        graph = cls(name)
        graph._message, inputs, variables, outputs, gradients, graph._values = _core.read_graph(name, content, options)
        for known, facts in ((graph.inputs, inputs), (graph.variables, variables), (graph.outputs, outputs)):
            for op, shape, kind, tensor in facts:
                known[op] = graph._tensors[tensor] if tensor in graph._tensors else graph._know((tensor, shape, kind))
        return graph, gradients

    def __enter__(self) -> "Graph":
        _current.__dict__.setdefault("graphs", []).append(self)
        return self

    def __exit__(self, *unused: object) -> None:
        _current.graphs.pop()

    def __repr__(self) -> str:
        return f"<opc.Graph {self.name}: {len(self.inputs)} inputs, {len(self.variables)} variables, {len(self.outputs)} outputs>"

    def _know(self, fact: Tuple[str, Shape, str]) -> Tensor:
        tensor = self._tensors[fact[0]] = Tensor(self, fact[0], fact[1], _dtype(fact[2]))
        return tensor

    def input(self, name: str, shape: Sequence[int], dtype: DTypeLike = "f32") -> Tensor:
        """A tensor that is fed in each run, under this name."""
        made = self._know(self._message.add_input(scoped(name), shape, _dtype(dtype), _places.caller()))
        self.inputs[made.op_name] = made
        return made

    def variable(self, name: str, shape: Sequence[int], dtype: DTypeLike = "f32", init: Any = None, trainable: bool = True) -> Tensor:
        """A tensor that stays from run to run. `init`: a number, or of `opc.init`; None: it must be loaded or set."""
        text = as_initializer(init, _dtype(dtype)).text if init is not None else ""
        made = self._know(self._message.add_variable(scoped(name), shape, _dtype(dtype), text, _numbers.truth(trainable, "trainable"), _places.caller()))
        self.variables[made.op_name] = made
        return made

    def output(self, name: str, tensor: Tensor) -> Tensor:
        """Gives the tensor out under this name."""
        self._own(tensor)
        self._message.add_output(scoped(name), tensor.name, _places.caller())
        self.outputs[scoped(name)] = tensor
        return tensor

    def _own(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{tensor!r} is no tensor of a graph")
        if tensor.graph is not self:
            raise usage(f"{tensor!r} belongs to graph '{tensor.graph.name}', not to '{self.name}'", code="OPC0107")

    def tensor(self, name: str) -> Tensor:
        """A tensor by its name, "fc1/out_0", or by that of an input, variable or output."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a tensor is a str, not {name!r}")
        for known in (self._tensors, self.inputs, self.variables, self.outputs):
            if name in known:
                return known[name]
        fact = self._message.find(name)
        if fact is None:
            raise KeyError(f"graph '{self.name}' has no tensor '{name}'")
        return self._know(fact)

    def text(self) -> str:
        """The graph as opc's commands read it: the same text for the same program."""
        return self._message.text()

    def compile(
        self,
        shapes: Optional[Mapping[str, Sequence[int]]] = None,
        mesh: Optional[Sequence[int]] = None,
        sbp: Optional[Mapping[str, str]] = None,
        stages: Sequence[str] = (),
        micro_batches: int = 1,
        device_memory: int = 0,
        simplify: bool = True,
        fuse: bool = True,
        train: bool = True,
        winograd: bool = True,
    ) -> Program:
        """The plan of the graph, ready to run.

        shapes: other shapes of inputs. mesh: the dimensions of a mesh of devices, outermost first. sbp: states on it by globs of
        tensors, beside those that tensors say themselves. stages: "GLOBS=RANKS" of a pipeline. simplify, fuse: whether equal,
        dead and no-op ops go, and whether ops are joined. train: whether the step that a loaded OneFlow job asks for is made.
        winograd: whether 3x3 convolutions may be computed by minimal filtering, faster and with larger errors.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        program = Program(_core.compile(self._file, self._content(), self._options(**given), self._values), self.name)
        program._of_model = self._of_model
        return program

    def _options(self, **given: Any) -> Any:
        """What is given of compile's parameters, as the compiler takes it."""
        bound = _options.bound(Graph.compile, given)
        options = _options.request(bound, self._pins)
        if self._of_model:
            _options.refuse_other_sizes(bound.shapes or {}, {name: tensor.shape for name, tensor in self.inputs.items()})
        if self._values is not None:
            options.set_values(self._values)
        return options

    @property
    def _file(self) -> str:
        """What diagnostics call the graph's text."""
        return f"<{self.name}>"

    def _content(self) -> bytes:
        return self.text().encode()

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the graph: binary when the name ends in .pb, else text. The file appears when it is complete.

        A model's own files, which its weights are read from, are refused.
        """
        path = os.fspath(path)
        if self._of_model:
            _core.spare_model(path, self._of_model, "save")
        _core.write_file(path, self._message.binary() if path.endswith(".pb") else self._content())
        for written in _on_save:
            written(self, path)

    def grad(
        self,
        loss: Union[Tensor, str, Sequence[Union[Tensor, str]]],
        wrt: Optional[Sequence[Union[Tensor, str]]] = None,
        order: int = 1,
        dy_inputs: bool = False,
        shapes: Optional[Mapping[str, Sequence[int]]] = None,
    ) -> "Graph":
        """A graph that also computes gradients of the losses' sum, each an output "NAME.grad".

        wrt: tensors, names or globs of variables and inputs; all trainable variables when not given. order: 2 adds
        second derivatives, "NAME.grad.grad". dy_inputs: the losses' own gradients are inputs "LOSS.dy" instead of ones.
        """
        options = self._options(shapes=shapes)
        options.set_gradient(_targets(loss), _targets(wrt) if wrt is not None else [], _numbers.whole(order, "order"), _numbers.truth(dy_inputs, "dy_inputs"), False)
        graph, gradients = Graph._read(self.name, self._content(), options)
        graph.gradients = {name: graph.tensor(tensor) for name, (tensor, _) in gradients.items() if tensor}
        graph._pins, graph._of_model = dict(self._pins), self._of_model
        return graph

    def training_step(
        self,
        loss: Union[Tensor, str, Sequence[Union[Tensor, str]]],
        optimizer: Union[Optimizer, Sequence[Optimizer]],
        accumulate: int = 1,
        loss_scale: Union[float, str] = 1.0,
        recompute: int = 0,
        shapes: Optional[Mapping[str, Sequence[int]]] = None,
    ) -> "Graph":
        """A graph that is one step of training: forward, backward, and an update of every trainable variable.

        optimizer: of opc.optim; several for groups of variables. accumulate: update once in so many steps. loss_scale: a
        factor, or "dynamic". recompute: compute the forward pass again in so many segments (-1: the root of their number).
        """
        groups = list(optimizer) if isinstance(optimizer, Sequence) else [optimizer]
        for group in groups:
            if not isinstance(group, Optimizer):
                raise TypeError(f"{group!r} is no optimizer: opc.optim has SGD, Adam and others")
        if not groups:
            raise usage("a training step has an optimizer, and none is given", 'graph.training_step("loss", opc.optim.Adam())')
        self._check_no_decay(groups)
        dynamic = isinstance(loss_scale, str) and loss_scale == "dynamic"
        scale = 65536.0 if dynamic else _numbers.real(loss_scale, "loss_scale", also='"dynamic"')
        accumulate = _numbers.whole(accumulate, "accumulate")
        recompute = _numbers.whole(recompute, "recompute", also="0 for none, or -1 for the root of the number of ops", allowed=(0, -1))
        options = self._options(shapes=shapes)
        options.set_gradient(_targets(loss), [], 1, False, False)
        options.set_training([g.request for g in groups], accumulate, scale, dynamic, recompute)
        graph, _ = Graph._read(self.name, self._content(), options)
        graph._pins, graph._of_model = dict(self._pins), self._of_model
        return graph

    def _check_no_decay(self, groups: Sequence[Optimizer]) -> None:
        """As `opc grad --no-decay`: a glob that matches nothing is a slip."""
        _core.check_no_decay([glob for group in groups for glob in group.request["no_decay"]], list(self.variables))

    def facts(self, planned: bool = False, **options: Any) -> Dict[str, Any]:
        """What is known of the graph as plain values; with its memory, tasks and states when `planned` (options as compile's)."""
        return _core.graph_facts(self._file, self._content(), self._options(**options), planned or bool(options))

    def show(self, what: str = "summary", **options: Any) -> None:
        """Prints the summary, the ops, the tensors, the memory, or the states on a mesh (sbp). Options as compile's."""
        from . import _show

        print(_show.text(self, what, options))

    def _repr_html_(self) -> str:
        from . import _show

        return _show.graph_html(self)


_on_save: List[Callable[[Graph, str], Any]] = []  # what else is written beside a graph


def _targets(tensors: Union[Tensor, str, Sequence[Union[Tensor, str]]]) -> List[str]:
    """Names as gradients are asked for: an input or variable by its op, others by their tensor."""
    listed = [tensors] if isinstance(tensors, (Tensor, str)) else tensors
    if not isinstance(listed, (list, tuple, set, frozenset)) or not all(isinstance(t, (Tensor, str)) for t in listed):
        raise TypeError(f"{tensors!r} is neither a tensor nor a name, nor a list of them")
    names = []
    for t in listed:
        is_port = isinstance(t, Tensor) and (t.op_name in t.graph.variables or t.op_name in t.graph.inputs)
        names.append(t if isinstance(t, str) else t.op_name if is_port else t.name)
    return names


def _names(tensors: Union[Tensor, Sequence[Tensor]], graph: Graph) -> List[str]:
    if isinstance(tensors, Tensor):
        tensors = (tensors,)
    for tensor in tensors:
        graph._own(tensor)
    return [t.name for t in tensors]


def _shown(value: Any) -> str:
    """Of what stands where a tensor should: a short value, or of which type it is."""
    return f"{type(value).__name__} {value!r}" if isinstance(value, (bool, int, float, complex, str)) else f"of type {type(value).__name__}"


def _way_out(value: Any) -> str:
    """How what is no tensor comes into a graph."""
    if hasattr(value, "__array__"):
        return "; an array is fed to an input (graph.input) or set in a variable (graph.variable)"
    is_number = isinstance(value, (bool, int, float))
    return "; a number is an attribute, an operand of + - * /, or a constant (opc.ops.constant)" if is_number else ""


def _check_tensors(type_name: str, inputs: Mapping[str, Any]) -> None:
    for argument, value in inputs.items():
        if isinstance(value, Tensor):
            continue
        if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)) or hasattr(value, "__array__"):
            raise TypeError(f"{type_name}: input '{argument}' is {_shown(value)}; it takes a tensor of a graph, or a list of them where it takes several{_way_out(value)}")
        for i, tensor in enumerate(value):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{type_name}: input '{argument}'[{i}] is {_shown(tensor)}; it takes tensors of a graph{_way_out(tensor)}")


def _graph_of(inputs: Mapping[str, Any]) -> Graph:
    for value in inputs.values():
        for tensor in (value,) if isinstance(value, Tensor) else value:
            graph: Graph = tensor.graph
            return graph
    current = current_graph()
    if current is None:
        raise usage("an op without inputs needs a graph", "build it within `with graph:`", "OPC0107")
    return current


def add_op(
    type_name: str,
    inputs: Mapping[str, Union[Tensor, Sequence[Tensor]]],
    attrs: Optional[Mapping[str, Any]] = None,
    name: Optional[str] = None,
    outputs: Optional[Mapping[str, int]] = None,
    after: Iterable[str] = (),
) -> Tuple[Tensor, ...]:
    """Adds an op to the graph of its inputs (else the current one) and gives its outputs, in the order of the definition.

    inputs: argument -> tensor, or tensors of a variadic one. attrs: values of the types that the definition says.
    name: made from the type when not given; name scopes apply. outputs: how many of each optional or variadic output.
    after: names of ops that run before this one although no tensor says so. Everything that adds an op goes through here.
    """
    _check_tensors(type_name, inputs)
    graph = _graph_of(inputs)
    bound = {argument: _names(tensors, graph) for argument, tensors in inputs.items()}
    name = scoped(name) if name else graph._message.free_name(scoped(type_name.rsplit(":", 1)[-1]))
    counts = {argument: _numbers.count(n, f"outputs of '{argument}'", also="0 for none") for argument, n in outputs.items()} if outputs else {}
    _, facts = graph._message.add_op(type_name, bound, dict(attrs or {}), name, counts, _places.caller(), list(after))
    return tuple([graph._know(fact[1:]) for fact in facts])

