"""opc: static operator graphs, built, compiled and run from Python (docs/python.md)."""
# SPDX-License-Identifier: Apache-2.0
import os
from typing import Any, Union

from . import _core, _op, init, optim
from ._dtypes import DType, dtype
from ._errors import Error, ExecutionError, GraphError, InternalError, OpcWarning, UnsupportedError, UsageError
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


def load(path: Union[str, "os.PathLike[str]"], **options: Any) -> Union[Graph, Program]:
    """A graph, or a program from a plan, told apart by content. options: shapes={"x": (32, 784)} for graphs that leave some open."""
    path = os.fspath(path)
    content = _core.read_file(path)
    if _core.looks_like_plan(content):
        return Program.from_plan(content, os.path.splitext(os.path.basename(path))[0])
    _op.know(path)
    empty = Graph()
    graph, _ = Graph._read(path, content, empty._options(**options))
    graph.name = os.path.splitext(os.path.basename(path))[0]
    return graph


def grad(loss: Tensor, wrt: Any = None, **options: Any) -> Graph:
    """`loss.graph.grad(loss, wrt, ...)`."""
    return loss.graph.grad(loss, wrt, **options)


__all__ = [
    "DType", "Error", "ExecutionError", "Graph", "GraphError", "InternalError", "OpcWarning", "Operator", "Program", "Session", "Spec",
    "Tensor", "Training", "UnsupportedError", "UsageError", "current_graph", "dtype", "elementwise", "grad", "init", "load", "load_plugin",
    "name_scope", "op", "ops", "optim", "train",
]
