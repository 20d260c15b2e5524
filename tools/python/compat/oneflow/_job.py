"""Jobs: functions that are traced once, compiled, and run with arrays."""
# SPDX-License-Identifier: Apache-2.0
import functools
import inspect
import io
import os
import threading
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np
import opc
from opc import _core
from opc.optim import Optimizer

from ._python_op import gradient_error_of
from .typing import Callback, Numpy, _Placeholder

_tracing = threading.local()
Handler = Callable[[Any], None]


class FunctionConfig:
    """Settings of a job. The element type is what variables have that say none."""

    def __init__(self) -> None:
        self.dtype = "f32"

    def default_data_type(self, dtype: Any) -> None:
        self.dtype = opc.dtype(dtype)

    def default_logical_view(self, view: Any) -> None:
        """Taken: one device has one view."""

    def default_placement_scope(self, scope: Any) -> None:
        """Taken: jobs run on the CPU."""


function_config = FunctionConfig


class LocalBlob:
    """What a job has computed."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    @property
    def shape(self) -> Tuple[int, ...]:
        return self._array.shape

    def numpy(self) -> np.ndarray:
        return self._array

    ndarray = property(numpy)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        return self._array.__array__(*args, **kwargs)


class Future:
    """The answer of a job without an annotation of what it gives."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def get(self) -> Any:
        return self._result

    def async_get(self, callback: Handler) -> None:
        callback(self._result)


def _job(what: str) -> "Job":
    job = getattr(_tracing, "job", None)
    if job is None:
        raise RuntimeError(f"{what} belongs into a function with @flow.global_function()")
    return job


def get_variable(name: str, shape: Optional[Sequence[int]] = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
                 trainable: bool = True, model_name: Any = None, random_seed: Any = None, reuse: bool = True) -> opc.Tensor:
    """The variable of that name, which all jobs share; made with the first use."""
    job = _job("flow.get_variable")
    if regularizer is not None:
        raise NotImplementedError("flow.get_variable(regularizer=...): give the optimizer weight decay instead")
    known = job.graph.variables.get(name)
    if known is not None:
        for what, wanted, is_ in (("shape", shape and tuple(shape), known.shape), ("dtype", dtype and opc.dtype(dtype), known.dtype)):
            if wanted is not None and wanted != is_:
                raise ValueError(f"variable '{name}' of job '{job.name}' has {what} {is_}, and flow.get_variable asks for {wanted}")
        if not reuse:
            raise ValueError(f"job '{job.name}' has a variable '{name}', and flow.get_variable(reuse=False) wants a new one: give it another name")
        return known
    if shape is None:
        raise ValueError(f"variable '{name}' is new in this job: flow.get_variable needs its shape")
    return job.graph.variable(name, tuple(shape), dtype or job.config.dtype, init=initializer, trainable=trainable)


def watch(blob: opc.Tensor, handler: Handler) -> None:
    """Calls the handler with the values in each run."""
    _job("flow.watch").watched.append((blob, handler))


def watch_diff(blob: opc.Tensor, handler: Handler) -> None:
    """Calls the handler with the loss's gradient by the blob in each run of a job that trains."""
    _job("flow.watch_diff").watched_gradients.append((blob, handler))


def add_loss(optimizer: Optimizer, losses: List[opc.Tensor]) -> None:
    """What `minimize` does."""
    job = _job("minimize()")
    if job.kind != "train":
        raise RuntimeError(f"job '{job.name}' minimizes a loss: it needs @flow.global_function(type=\"train\")")
    if job.optimizer is not None:
        raise NotImplementedError(f"job '{job.name}' has two optimizers: one, with a list of losses, is what there is")
    job.optimizer, job.losses = optimizer, losses


class _Variables:
    """Which session has the newest values of each variable. What optimizers keep is a job's own."""

    def __init__(self) -> None:
        self._newest: Dict[str, opc.Session] = {}
        self._loaded: Dict[str, np.ndarray] = {}

    def before(self, session: opc.Session, names: Iterable[str]) -> None:
        for name in set(session.variables).intersection(names):
            newest = self._newest.get(name)
            if name in self._loaded:
                session.variables[name] = self._loaded[name]
                del self._loaded[name]  # now that it was taken
            elif newest is not None and newest is not session:
                session.variables[name] = newest.variables[name]
            self._newest[name] = session

    def save(self, path: str) -> None:
        """Under this very name, which numpy would lengthen: `load` reads what it is given."""
        values = {**{name: session.variables[name] for name, session in self._newest.items()}, **self._loaded}
        made = io.BytesIO()
        np.savez(made, **values)
        _core.write_file(os.fspath(path), made.getvalue())

    def load(self, path: str) -> None:
        with np.load(path) as values:
            self._loaded.update(values)


_variables = _Variables()


class checkpoint:
    """The variables of all jobs in a file of numpy's (.npz)."""

    save = staticmethod(_variables.save)
    load = staticmethod(_variables.load)


class Job:
    """A function, its graph, and the session that runs it."""

    def __init__(self, function: Callable[..., Any], kind: str, config: FunctionConfig) -> None:
        self.name, self.kind, self.config = function.__name__, kind, config
        self._function = function
        self._program: Optional[opc.Program] = None
        self.graph = opc.Graph(self.name)
        self._result: Any = None
        self.watched: List[Tuple[opc.Tensor, Handler]] = []
        self.watched_gradients: List[Tuple[opc.Tensor, Handler]] = []
        self.optimizer: Optional[Optimizer] = None
        self.losses: List[opc.Tensor] = []
        self._readers: List[Tuple[str, Handler]] = []  # output -> who is told
        self._inputs: List[str] = []
        self._lock = threading.Lock()
        self.__doc__ = function.__doc__

    # Tracing.

    def _placeholders(self) -> List[opc.Tensor]:
        made = []
        for p in inspect.signature(self._function).parameters.values():
            kind = p.annotation
            if isinstance(kind, str):
                kind = eval(kind, self._function.__globals__)
            if not isinstance(kind, _Placeholder):
                raise TypeError(f"job '{self.name}': the parameter '{p.name}' needs an annotation, oneflow.typing.Numpy.Placeholder(shape)")
            made.append(self.graph.input(p.name, kind.shape, kind.dtype))
        return made

    def _output(self, tensor: Any) -> str:
        if not isinstance(tensor, opc.Tensor):
            raise TypeError(f"job '{self.name}' gives {tensor!r}, which is no tensor")
        name = self.graph._message.free_name(f"{self.name}.{len(self.graph.outputs)}")
        self.graph.output(name, tensor)
        return name

    def trace(self) -> opc.Graph:
        """Runs the function on tensors without values: the graph, with the training step of a job that trains."""
        outer = getattr(_tracing, "job", None)
        _tracing.job = self
        try:
            with self.graph:
                inputs = self._placeholders()
                self._inputs = [t.op_name for t in inputs]
                result = self._function(*inputs)
        finally:
            _tracing.job = outer
        several = isinstance(result, (list, tuple))
        names = [self._output(t) for t in (result if several else [] if result is None else [result])]
        self._result = tuple(names) if several else names[0] if names else None
        self._readers = [(self._output(t), handler) for t, handler in self.watched]
        return self._with_gradients()

    def _with_gradients(self) -> opc.Graph:
        if self.optimizer is None:
            if self.kind == "train":
                raise RuntimeError(f"job '{self.name}' trains, and says no loss: call flow.optimizer.SGD(...).minimize(loss) in it")
            if self.watched_gradients:
                raise RuntimeError(f"job '{self.name}' watches a gradient, and does not train")
            return self.graph
        try:
            return self._training_step([t.name for t in self.losses])
        except opc.Error as error:
            cause = gradient_error_of(self.graph)  # says more than that there is no gradient
            if cause is None:
                raise
            raise cause from error

    def _training_step(self, losses: List[str]) -> opc.Graph:
        graph = self.graph
        if self.watched_gradients:
            targets = [t for t, _ in self.watched_gradients]
            graph = graph.grad(losses, wrt=list(dict.fromkeys(targets)))
            for (blob, handler), name in zip(self.watched_gradients, map(_gradient_name, targets)):
                self._readers.append((name, handler))
        assert self.optimizer is not None
        return graph.training_step(losses, self.optimizer)

    # Running.

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        bound = inspect.signature(self._function).bind(*arrays, **named).arguments
        with self._lock:
            if self._program is None:
                try:
                    self._program = self.trace().compile()
                except BaseException:
                    self.__init__(self._function, self.kind, self.config)  # type: ignore[misc]  # the next call traces anew
                    raise
            session = self._program.default_session
            _variables.before(session, self.graph.variables)
            outputs = session.run(**{op: bound[p] for op, p in zip(self._inputs, bound)})
        for name, handler in self._readers:
            handler(_as_wanted(handler, outputs[name]))
        return self._answer(outputs)

    def _answer(self, outputs: Dict[str, np.ndarray]) -> Any:
        wanted = inspect.signature(self._function).return_annotation
        if isinstance(wanted, str):
            wanted = eval(wanted, self._function.__globals__)
        is_array = wanted is not inspect.Signature.empty
        pick = (lambda name: outputs[name]) if is_array else (lambda name: LocalBlob(outputs[name]))
        found = self._result
        result = tuple(pick(n) for n in found) if isinstance(found, tuple) else pick(found) if found is not None else None
        if isinstance(wanted, Callback):
            return lambda callback: callback(result)
        return result if is_array else Future(result)


def _gradient_name(tensor: opc.Tensor) -> str:
    """What `Graph.grad` calls the gradient: by the op of inputs and variables, else by the tensor."""
    is_port = tensor.op_name in tensor.graph.variables or tensor.op_name in tensor.graph.inputs
    return (tensor.op_name if is_port else tensor.name) + ".grad"


def _as_wanted(handler: Handler, array: np.ndarray) -> Any:
    """An array for a handler whose parameter says so, else a blob."""
    try:
        parameter = next(iter(inspect.signature(handler).parameters.values()))
    except (TypeError, ValueError, StopIteration):
        return LocalBlob(array)
    return array if parameter.annotation is Numpy or parameter.annotation in ("tp.Numpy", "Numpy", "oft.Numpy") else LocalBlob(array)


def global_function(type: Any = "predict", function_config: Optional[FunctionConfig] = None) -> Callable[[Callable[..., Any]], Any]:
    """Decorates a job: `@flow.global_function()`, or `@flow.global_function(type="train")`."""
    if callable(type):
        raise TypeError("write @flow.global_function() with parentheses")
    if isinstance(type, FunctionConfig):
        type, function_config = "predict", type
    if type not in ("predict", "train"):
        raise ValueError(f"a job is of type 'predict' or 'train', not {type!r}")

    def decorate(function: Callable[..., Any]) -> Any:
        job = Job(function, type, function_config or FunctionConfig())

        @functools.wraps(function)
        def call(*arrays: Any, **named: Any) -> Any:
            return job(*arrays, **named)

        call.job = job  # type: ignore[attr-defined]
        return call

    return decorate
