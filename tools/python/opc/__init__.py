"""opc: static operator graphs, built, compiled and run from Python (docs/python.md)."""
# SPDX-License-Identifier: Apache-2.0
import os
from typing import Any, Mapping, Optional, Union

from . import _interpreter  # before the core, which would wait for ever
from . import _core, _op, _options, init, optim
from ._dtypes import DType, dtype
from ._errors import Error, ExecutionError, GraphError, InternalError, OpcWarning, UnsupportedError, UsageError, usage as _usage
from ._graph import Graph, Spec, Tensor, current_graph, name_scope
from ._op import Operator, elementwise, op
from ._program import Program, Session
from . import _operators, ops
from ._training import Training, train

__version__: str = _core.version
_operators.install()


def load_plugin(path: Union[str, "os.PathLike[str]"]) -> None:
    """Adds the operators of a shared library, for graphs made from now on. "overrides=LIB": its ops win over built-in ones."""
    _core.load_plugin(os.fspath(path))


def load(
    path: Union[str, "os.PathLike[str]"],
    dims: Optional[Mapping[str, int]] = None,
    consts: Optional[Mapping[str, Any]] = None,
    **options: Any,
) -> Union[Graph, Program]:
    """A graph, or a program from a plan, told apart by content.

    dims: sizes that an ONNX model gives names, {"batch": 4}. consts: inputs of an ONNX model that decide shapes or branches and become
    constants, {"sr": 16000}, and initializers with other values. options: shapes={"x": (32, 784)} for graphs that leave some open. The weights of a model come with it:
    they are read from its files when the graph is compiled, and the files must not change until then.
    """
    path = os.fspath(path)
    content = _core.read_file(path)
    is_model = isinstance(content, _core.ModelFile)
    if not is_model and _core.looks_like_plan(content):
        if dims or consts or options:
            raise _usage(f"{path} is a plan, which has its sizes", "load the graph or the model to choose others")
        return Program.from_plan(content, os.path.splitext(os.path.basename(path))[0])
    content = _op.know(path, content)
    request = _options.request(_options.bound(Graph.compile, options, "load", ("dims", "consts")), {})
    if dims or consts:
        if not is_model:
            raise _usage(f"dims and consts are for ONNX models, and {path} is none", "shapes={NAME: DIMS} gives an input its shape")
        request.set_model(_options.sizes(dims), _options.constants(consts))
    graph, _ = Graph._read(path, content, request)
    graph.name = os.path.splitext(os.path.basename(path))[0]
    graph._of_model = os.path.abspath(path) if is_model else ""
    return graph


def grad(loss: Tensor, wrt: Any = None, **options: Any) -> Graph:
    """`loss.graph.grad(loss, wrt, ...)`."""
    return loss.graph.grad(loss, wrt, **options)


__all__ = [
    "DType", "Error", "ExecutionError", "Graph", "GraphError", "InternalError", "OpcWarning", "Operator", "Program", "Session", "Spec",
    "Tensor", "Training", "UnsupportedError", "UsageError", "current_graph", "dtype", "elementwise", "grad", "init", "load", "load_plugin",
    "name_scope", "op", "ops", "optim", "train",
]
