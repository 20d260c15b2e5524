"""opc: static operator graphs, built, compiled and run from Python (docs/python.md)."""
# SPDX-License-Identifier: Apache-2.0
from . import _core, init
from ._dtypes import DType, dtype
from ._errors import Error, ExecutionError, GraphError, InternalError, OpcWarning, UnsupportedError, UsageError
from ._graph import Graph, Spec, Tensor, current_graph, name_scope
from ._program import Program, Session
from . import ops

__version__: str = _core.version


def load_plugin(path: str) -> None:
    """Adds the operators of a shared library, for graphs made from now on."""
    _core.load_plugin(path)


__all__ = [
    "DType", "Error", "ExecutionError", "Graph", "GraphError", "InternalError", "OpcWarning", "Program", "Session", "Spec", "Tensor",
    "UnsupportedError", "UsageError", "current_graph", "dtype", "init", "load_plugin", "name_scope", "ops",
]
