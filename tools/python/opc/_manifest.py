"""Manifests: the text that describes Python operators to programs that have no Python."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence, Tuple

from . import _core
from ._dtypes import dtype
from ._schema import MISSING, Argument

VERSION = 1
_TYPES = {name: graph for name, graph, *_ in _core.dtypes()}  #: the names in graph files by opc's


def type_name(kind: Any) -> str:
    """The element type as graph files write it; a UsageError for what is none."""
    return _TYPES[dtype(kind)]


def quoted(text: str) -> str:
    """A string of the text format."""
    return '"' + "".join(
        "\\" + c if c in '"\\' else c if " " <= c <= "~" else "".join(f"\\{b:03o}" for b in c.encode()) for c in text
    ) + '"'


def unquoted(inner: str) -> str:
    """What `quoted` has made a string of, without its quotes."""
    said = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m.group(1), 8)]), re.sub(r"\\([\"\\])", lambda m: f"\\{ord(m.group(1)):03o}", inner).encode())
    return said.decode("utf-8", "replace")


def _number(value: float) -> str:
    if value != value:
        return "nan"
    return repr(float(value)) if abs(value) != float("inf") else ("inf" if value > 0 else "-inf")


def attr_value(kind: str, value: Any) -> str:
    """The field of AttrValue: `at_float: 0.5`."""
    if kind.startswith("list_"):
        item: Dict[str, Callable[[Any], str]] = {"int32": str, "int64": str, "float": _number, "string": quoted, "data_type": type_name}
        values = " ".join(f"val: {item[kind[5:]](v)}" for v in value)
        return f"at_{kind} {{ {values} }}"
    if kind == "shape":
        return "at_shape { " + " ".join(f"dim: {int(d)}" for d in value) + " }"
    if kind == "bool":
        return "at_bool: " + ("true" if value else "false")
    texts: Dict[str, Callable[[Any], str]] = {"string": quoted, "data_type": type_name, "float": _number, "double": _number}
    return f"at_{kind}: {texts[kind](value) if kind in texts else int(value)}"


def argument(field: str, a: Argument) -> str:
    """An input or output of a definition."""
    extra = (" optional: true" if a.optional else "") + (f" minimum: {a.minimum}" if a.minimum is not None else "")
    return f"{field} {{ name: {quoted(a.name)}{extra} }}"


def spec(field: str, shape: Sequence[int], kind: Any) -> str:
    """A tensor's shape and element type."""
    return f"{field} {{ " + "".join(f"dim: {int(d)} " for d in shape) + f"data_type: {type_name(kind)} }}"


def block(field: str, lines: Iterable[str]) -> str:
    """A message with a line for each field."""
    return field + " {\n" + "".join("  " + line.replace("\n", "\n  ") + "\n" for line in lines) + "}"


def attribute(name: str, kind: str, default: Any) -> str:
    """An attribute of a definition."""
    value = "" if default is MISSING else f" default_value {{ {attr_value(kind, default)} }}"
    return f"attr {{ name: {quoted(name)} type: {quoted(kind)}{value} }}"


def text_of(ops: Iterable[str]) -> str:
    """A manifest of operators, each a block `op { ... }`."""
    head = "# Operators of this graph that are written in Python (docs/python-ops.md). Nothing in this file runs.\n"
    return head + f"version: {VERSION}\n" + "".join(op + "\n" for op in ops)


def ops_of(content: str) -> Iterator[Tuple[str, str]]:
    """The operators of a manifest as this module writes it: name and block of each. Another layout is one block."""
    starts = [m.start() for m in re.finditer(r"^op \{", content, re.MULTILINE)]
    for start, end in zip(starts, starts[1:] + [len(content)]):
        block = content[start:end].rstrip()
        name = re.search(r'^  name: "([^"\\]+)"$', block, re.MULTILINE)
        yield name.group(1) if name else "", block


def path_beside(graph_path: "os.PathLike[str] | str") -> str:
    """Where the manifest of a graph is: "nets/g.ops.pbtxt" for "nets/g.pbtxt"."""
    return os.path.splitext(os.fspath(graph_path))[0] + ".ops.pbtxt"


def write(graph: Any, path: "os.PathLike[str] | str") -> None:
    """Writes the manifest of the Python operators of a graph beside the graph's file.

    A graph that has none has no manifest: one that an earlier graph of that name has left is removed.
    """
    from . import _op

    where = path_beside(path)
    names: List[str] = _op.used_in(graph)
    if not names:
        if os.path.exists(where):
            os.remove(where)
        return
    text = text_of(_op.describe(names))
    temporary = where + ".part"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, where)
