"""Programs, their variables, and what runs them."""
# SPDX-License-Identifier: Apache-2.0
import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

import opc
from opc._arrays import as_array
from opc_styles import eager
from ..dtypes import numpy_type
from ..mode import in_dynamic_mode
from ..tensor import Variable

Build = Callable[[List[opc.Tensor]], Sequence[opc.Tensor]]


ON_GRAPHS = "program.graph(fetch_list) is an opc.Graph, whose grad() can be called again where all its ops are built-in ones"


class Op(NamedTuple):
    """An op of a program: how it is put into a graph."""

    inputs: List[Variable]
    outputs: List[Variable]
    build: Build


class Block:
    """The block of a program."""

    def __init__(self, program: "Program") -> None:
        self._program = program

    def create_var(self, name: Optional[str] = None, dtype: Any = None, shape: Optional[Sequence[int]] = None, **kwargs: Any) -> Variable:
        """A variable that an op will write, py_func say. -1 is a size that the first input of the op has there."""
        if dtype is None or shape is None:
            absent = " and ".join(n for n, v in (("dtype", dtype), ("shape", shape)) if v is None)
            raise ValueError(f"create_var of {name!r}: give {absent}: nothing else says it, create_var(name='out', dtype='float32', shape=[2, 3])")
        return self._program.variable(name or self._program.free_name("var"), shape, dtype)

    def var(self, name: str) -> Variable:
        return self._program.variables[name]


class Program:
    """Ops in the order in which they were made."""

    def __init__(self) -> None:
        self.variables: Dict[str, Variable] = {}
        self.ops: List[Op] = []
        self.values: Dict[str, np.ndarray] = {}  # of parameters
        self._compiled: Dict[Any, opc.Session] = {}
        self._count = 0

    def current_block(self) -> Block:
        return Block(self)

    global_block = current_block

    def free_name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count}"

    def variable(self, name: str, shape: Sequence[int], dtype: Any, kind: str = "op") -> Variable:
        if name in self.variables and kind != "op":
            raise ValueError(f"the program has a variable '{name}' already")
        made = self.variables[name] = Variable(self, name, shape, dtype, kind)
        return made

    def add(self, kind: str, inputs: List[Variable], build: Build) -> List[Variable]:
        """An op whose outputs a graph of it alone tells; open sizes stay open where the graph shows them."""
        for x in inputs:
            if not isinstance(x, Variable) or x.program is not self:
                raise TypeError(f"{x!r} is no variable of this program")
            if hasattr(x, "_gradient_of"):
                raise NotImplementedError(f"{kind}: {x.name} is a gradient, which runs fetch and no op of a program reads; {ON_GRAPHS}")
        shapes = []
        for size in (2, 3):  # an open size is where two graphs differ
            graph = opc.Graph("shapes")
            made = build([graph.input(f"x{i}", [size if d < 0 else d for d in x.shape], numpy_type(x.dtype)) for i, x in enumerate(inputs)])
            shapes.append([t.shape for t in made])
        outputs = []
        for tensor, first, second in zip(made, *shapes):
            shape = [a if a == b else -1 for a, b in zip(first, second)]
            outputs.append(self.variable(self.free_name("tmp"), shape, tensor.dtype.numpy))
        self.ops.append(Op(inputs, outputs, build))
        return outputs

    def graph(self, fetch_list: Sequence[Any] = (), name: str = "program", **shapes: Sequence[int]) -> opc.Graph:
        """The opc.Graph: `static.data` are inputs, parameters variables, what is fetched outputs, under their names; data and
        parameters that an op writes, which are inputs and variables of their names already, under those of `output_name`.

        shapes: of data whose declaration leaves sizes open.
        """
        fetched = self._fetched(fetch_list)
        written = {id(v): v for op in self.ops for v in op.outputs}
        fetched += [v for v in written.values() if v.kind == "parameter"]
        graph = opc.Graph(name)
        made: Dict[int, opc.Tensor] = {}
        with graph:
            for variable in self.variables.values():
                if variable.kind == "data" and (variable.name in shapes or -1 not in variable.shape):
                    shape = _fitting(variable, shapes.get(variable.name, variable.shape))
                    made[id(variable)] = graph.input(variable.name, shape, numpy_type(variable.dtype))
                elif variable.kind == "parameter":
                    made[id(variable)] = graph.variable(variable.name, variable.shape, numpy_type(variable.dtype), init=0)
            for op in self.ops:
                if all(id(x) in made for x in op.inputs):
                    made.update(zip(map(id, op.outputs), op.build([made[id(x)] for x in op.inputs])))
            for variable in fetched:
                source = getattr(variable, "_gradient_of", None)
                for v in source[0] if source else [variable]:
                    if id(v) not in made:
                        raise ValueError(f"{v.name} cannot be computed: an input is not fed, or its shape is not known")
                    output = output_name(v)
                    if output not in graph.outputs and (v.kind == "op" or id(v) in written):
                        graph.output(output, made[id(v)])
        return graph

    def _fetched(self, fetch_list: Any) -> List[Variable]:
        """Variables, or names of them; one alone stands for a list of it."""
        alone = isinstance(fetch_list, (str, Variable))
        return [self._find(f) for f in ([fetch_list] if alone else fetch_list or ())]

    def _find(self, fetch: Union[str, Variable]) -> Variable:
        name = fetch if isinstance(fetch, str) else fetch.name
        if name not in self.variables:
            raise ValueError(f"the program has no variable '{name}'; it has {', '.join(self.variables) or 'none'}")
        return self.variables[name]

    def session(self, fetched: Sequence[Variable], shapes: Mapping[str, Sequence[int]]) -> opc.Session:
        key = (tuple(v.name for v in fetched), eager_key(shapes), len(self.ops), os.getpid())
        if key not in self._compiled:
            graph = self.graph(fetched, **shapes)
            for targets, wrt in _gradient_groups(fetched):
                graph = graph.grad([output_name(t) for t in targets], [x.name for x in wrt])
            if not graph.outputs:  # it runs for what its functions do
                if not graph._tensors:
                    open_ = [v.name for v in self.variables.values() if v.kind == "data"]
                    raise ValueError(f"no op of the program can run: what is fed says the sizes of {', '.join(open_) or 'its data'}")
                graph.output("ran", next(iter(graph._tensors.values())))
            self._compiled[key] = graph.compile().session()
        return self._compiled[key]


def output_name(variable: Variable) -> str:
    """What the graph of a program calls the output with its values."""
    return variable.name if variable.kind == "op" else variable.name + "@OUT"


def eager_key(shapes: Mapping[str, Sequence[int]]) -> Tuple[Any, ...]:
    return tuple(sorted((n, tuple(s)) for n, s in shapes.items()))


def _fitting(variable: Variable, shape: Sequence[int]) -> Tuple[int, ...]:
    if len(shape) != len(variable.shape) or any(want not in (-1, is_) for want, is_ in zip(variable.shape, shape)):
        raise ValueError(f"{variable.name} has shape {list(variable.shape)}, fed is {list(shape)}")
    return tuple(shape)


def _fed(variable: Variable, value: Any) -> np.ndarray:
    """What a run is given for a variable: arrays of its type, as in Paddle; numbers and lists of them where they are numbers of it."""
    kind = numpy_type(variable.dtype)
    made = as_array(value, f"what is fed for {variable.name}", opc.dtype(kind))
    if made.dtype != kind:
        raise ValueError(f"{variable.name} is {kind.name}, and fed is {made.dtype.name}: nothing is converted silently; value.astype('{kind.name}') does it")
    return np.asarray(made, order="C")


def _gradient_groups(fetched: Sequence[Variable]) -> List[Tuple[List[Variable], List[Variable]]]:
    groups: Dict[Any, Tuple[List[Variable], List[Variable]]] = {}
    for variable in fetched:
        source = getattr(variable, "_gradient_of", None)
        if source:
            groups.setdefault(tuple(t.name for t in source[0]), (source[0], []))[1].append(source[1])
    if len(groups) > 1:
        raise ValueError("gradients of different targets are fetched by runs of their own")
    return list(groups.values())


_main, _startup = [Program()], [Program()]


def default_main_program() -> Program:
    return _main[-1]


def default_startup_program() -> Program:
    return _startup[-1]


class program_guard:
    """Within, `static.data` and ops go into this program."""

    def __init__(self, main_program: Program, startup_program: Optional[Program] = None) -> None:
        self._programs = main_program, startup_program or _startup[-1]

    def __enter__(self) -> None:
        _main.append(self._programs[0])
        _startup.append(self._programs[1])

    def __exit__(self, *unused: object) -> None:
        _main.pop()
        _startup.pop()


def data(name: str, shape: Sequence[int], dtype: Any = "float32", lod_level: int = 0) -> Variable:
    """A variable that each run feeds; -1 or None is a size that the run says."""
    if in_dynamic_mode():
        raise RuntimeError("paddle.static.data is for programs: call paddle.enable_static() first")
    return _main[-1].variable(name, [-1 if d is None else d for d in shape], dtype, "data")


def create_parameter(shape: Sequence[int], dtype: Any = "float32", name: Optional[str] = None, default_initializer: Any = None, **kwargs: Any) -> Variable:
    """A variable that stays; without an initializer (a number, an array, or a function of the shape) evenly from [-0.07, 0.07)."""
    from .. import functions

    program = _main[-1]
    made = program.variable(name or program.free_name("param"), shape, dtype, "parameter")
    given = default_initializer(made.shape) if callable(default_initializer) else default_initializer
    value = functions.uniform(shape, dtype, -0.07, 0.07)._value if given is None else np.broadcast_to(given, made.shape)
    program.values[made.name] = np.array(value, numpy_type(dtype))
    return made


class InputSpec(NamedTuple):
    """A shape and an element type: what py_func's `out` is on tensors of an opc.Graph."""

    shape: Sequence[int]
    dtype: Any = "float32"
    name: Optional[str] = None


class CPUPlace:
    """The device."""

    def __repr__(self) -> str:
        return "Place(cpu)"


def cpu_places(device_count: int = 1) -> List[CPUPlace]:
    return [CPUPlace()] * device_count


class Executor:
    """Runs programs. The startup program has nothing to do: parameters have their values."""

    def __init__(self, place: Any = None) -> None:
        self.place = place

    def run(self, program: Optional[Program] = None, feed: Optional[Mapping[str, Any]] = None, fetch_list: Sequence[Any] = (), return_numpy: bool = True) -> List[Any]:
        program = program or default_main_program()
        fetched = program._fetched(fetch_list)
        if not program.ops and not fetched:
            return []
        feeds = {}
        for name, value in (feed or {}).items():
            feeds[name] = _fed(program._find(name), getattr(value, "_value", value))
        with eager.lock:  # programs and their values may be several threads'
            session = program.session(fetched, {n: a.shape for n, a in feeds.items()})
            for name in session.variables:
                session.variables[name] = program.values[name]
            got = session.run(**{n: a for n, a in feeds.items() if n in session.inputs})
            for name in session.variables:
                program.values[name] = got.get(name + "@OUT", session.variables[name])
        return [self._value(program, v, feeds, got) for v in fetched]

    def _value(self, program: Program, variable: Variable, feeds: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> np.ndarray:
        source = getattr(variable, "_gradient_of", None)
        if source:
            return got[source[1].name + ".grad"]
        output = output_name(variable)
        return got[output] if output in got else {"data": feeds, "parameter": program.values}[variable.kind][variable.name]


def gradients(targets: Any, inputs: Any, target_gradients: Any = None, no_grad_set: Any = None) -> List[Variable]:
    """Of the targets' sum for each input: variables that a run fetches."""
    if target_gradients is not None:
        raise NotImplementedError("gradients: target_gradients; multiply the targets by them instead")
    listed = list(targets) if isinstance(targets, (list, tuple)) else [targets]
    for target in listed:
        if hasattr(target, "_gradient_of"):
            raise NotImplementedError(f"gradients of {target.name}: there are no second derivatives in a program; {ON_GRAPHS}")
    made = []
    for x in list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]:
        if x.kind == "op":
            raise NotImplementedError(f"gradients for {x.name}: they are of data and parameters here")
        name = x.name + "@GRAD"  # as Paddle names the first one
        while name in x.program.variables:
            name = x.program.free_name(x.name + "@GRAD")
        gradient = x.program.variable(name, x.shape, x.dtype)
        gradient._gradient_of = (listed, x)
        made.append(gradient)
    return made


def append_backward(loss: Variable, parameter_list: Optional[Sequence[Any]] = None) -> List[Tuple[Variable, Variable]]:
    """The gradient of each parameter: pairs whose second a run fetches."""
    program = loss.program
    chosen = parameter_list or [v for v in program.variables.values() if v.kind == "parameter"]
    found = [program._find(p) for p in chosen]
    return list(zip(found, gradients(loss, found)))
