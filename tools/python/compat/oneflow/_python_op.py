"""Operators whose definition is C++ and whose kernel is Python: as `oneflow::NAME` they are opc's operators in Python."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Mapping


def graph_name(type_name: str) -> str:
    """What graphs call an operator."""
    return type_name


def prepare(type_name: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any]) -> None:
    """Before a use."""


def gradient_errors(graph: Any) -> None:
    """Raises what a gradient rule has said."""
