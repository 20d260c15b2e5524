"""Graphs: tensors that are only described, and the one function that adds an op."""
# SPDX-License-Identifier: Apache-2.0
import threading
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _core, _places
from ._dtypes import DType, DTypeLike, dtype as _dtype
from ._errors import UsageError
from ._program import Program
from .init import Initializer, as_initializer

Shape = Tuple[int, ...]


class Spec(NamedTuple):
    """The shape and element type of a tensor."""

    shape: Shape
    dtype: Any


class Tensor:
    """A tensor of a graph: what it will be, not its values."""

    __slots__ = ("graph", "name", "shape", "dtype", "__weakref__")
    __array_priority__ = 1000  # numpy leaves `array * tensor` to us

    def __init__(self, graph: "Graph", name: str, shape: Shape, dtype: DType) -> None:
        self.graph = graph
        self.name = name
        self.shape = shape
        self.dtype = dtype

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
        self.name = name

    def __enter__(self) -> "name_scope":
        _current.__dict__.setdefault("scopes", []).append(self.name + ".")
        return self

    def __exit__(self, *unused: object) -> None:
        _current.scopes.pop()


def scoped(name: str) -> str:
    """The name within the present scopes."""
    return "".join(getattr(_current, "scopes", ())) + name


class Graph:
    """A graph that is being built. As a context manager it is where ops without tensors go, and sources."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self._message = _core.GraphMessage(name)
        self._tensors: Dict[str, Tensor] = {}
        self.inputs: Dict[str, Tensor] = {}
        self.outputs: Dict[str, Tensor] = {}
        self.variables: Dict[str, Tensor] = {}

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
        text = as_initializer(init).text if init is not None else ""
        made = self._know(self._message.add_variable(scoped(name), shape, _dtype(dtype), text, trainable, _places.caller()))
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
            raise UsageError(f"{tensor!r} belongs to graph '{tensor.graph.name}', not to '{self.name}'", "OPC0107", "{}", 2)

    def tensor(self, name: str) -> Tensor:
        """A tensor by its name, "fc1/out_0", or by that of an input, variable or output."""
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

    def compile(self, shapes: Optional[Mapping[str, Sequence[int]]] = None, simplify: bool = True, fuse: bool = True, train: bool = True) -> Program:
        """The plan of the graph, ready to run.

        shapes: other shapes of inputs. simplify, fuse: whether equal, dead and no-op ops go, and whether ops are joined.
        train: whether the training step that a loaded OneFlow job asks for is made.
        """
        options = _core.CompileOptions()
        options.shapes = {name: list(shape) for name, shape in (shapes or {}).items()}
        options.simplify, options.fuse, options.train = simplify, fuse, train
        return Program(_core.compile(self.name, self.text(), options))


def _names(tensors: Union[Tensor, Sequence[Tensor]], graph: Graph) -> List[str]:
    if isinstance(tensors, Tensor):
        tensors = (tensors,)
    for tensor in tensors:
        graph._own(tensor)
    return [t.name for t in tensors]


def _graph_of(inputs: Mapping[str, Any]) -> Graph:
    for value in inputs.values():
        for tensor in (value,) if isinstance(value, Tensor) else value:
            if isinstance(tensor, Tensor):
                return tensor.graph
            raise TypeError(f"{tensor!r} is no tensor of a graph")
    graph = current_graph()
    if graph is None:
        raise UsageError("an op without inputs needs a graph: build it within `with graph:`", "OPC0107", "{}", 2)
    return graph


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
    graph = _graph_of(inputs)
    bound = {argument: _names(tensors, graph) for argument, tensors in inputs.items()}
    name = scoped(name) if name else graph._message.free_name(scoped(type_name.rsplit(":", 1)[-1]))
    _, facts = graph._message.add_op(
        type_name, bound, dict(attrs or {}), name, dict(outputs or {}), _places.caller(), list(after)
    )
    return tuple([graph._know(fact[1:]) for fact in facts])

