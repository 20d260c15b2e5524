"""Names of Python operators in graphs: a node keeps its definition, whatever is defined under the same name later.

The first definition that graphs have of a name has it there, too; another one that they have has a number behind it.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import re
from typing import TYPE_CHECKING, Container, Dict, List, NamedTuple, Optional

from . import _manifest as text
from ._errors import usage

if TYPE_CHECKING:
    from ._op import Code, Kernel, Operator

#: All definitions, by the name that they were given, without a number; and those that graphs have, by their name there.
defined: Dict[str, List["Operator"]] = {}
in_graphs: Dict[str, "Operator"] = {}
of_files: Dict[str, str] = {}  #: operators that only a manifest has described, and its block


class Place(NamedTuple):
    """Where an operator's code is, as far as another process can tell."""

    file: str
    qualified_name: str
    line: int


def place_of(code: "Code") -> Place:
    """What a manifest says of the code."""
    return Place(os.path.basename(code.path), code.qualified_name, code.line)


def place_in(block: str) -> Place:
    """The place that a block of a manifest has."""
    said = r'"((?:[^"\\]|\\.)*)"'
    found = re.search(rf"^  code \{{.* qualified_name: {said}.* file: {said} line: (\d+) \}}$", block, re.MULTILINE)
    if not found:
        return Place("", "", 0)
    name, file = (text.unquoted(found.group(i)) for i in (1, 2))
    return Place(file, name, int(found.group(3)))


def unnumbered(name: str) -> str:
    """The name without numbers behind it, as those that tell definitions apart."""
    return re.sub(r"(?<=[^:])(_\d+)+$", "", name)


def take_name(operator: "Operator", others: Container[str]) -> None:
    """Gives a definition that graphs have not yet its name there. A loaded graph may have the name for code that is elsewhere."""
    name, number = operator.name, 1
    while not (_may_be(name, place_of(operator.code)) and in_graphs.setdefault(name, operator) is operator):
        number += 1
        name = f"{operator.name}_{number}"
        while name in others:
            number += 1
            name = f"{operator.name}_{number}"
    operator.name = name


def _may_be(name: str, place: Place) -> bool:
    known = place_in(of_files[name]) if name in of_files else place
    return known[:2] == place[:2]


def meant(path: str, op_type: str, qualified_name: str, line: int) -> List["Kernel"]:
    """The kernels of a file that a manifest can mean by an op: by its name, with or without a number, and by where its code is."""
    path, is_gradient = os.path.realpath(path), op_type.endswith("_grad")
    found = [(k, o.code, o) for o in defined.get(unnumbered(op_type), []) for k in o.kernels()[:1]]
    if is_gradient:
        operators = defined.get(unnumbered(op_type[: -len("_grad")]), [])
        found += [(k, o.grad_code(), o) for o in operators for k in o.kernels()[1:]]
    found = [f for f in found if os.path.realpath(f[0].source) == path]
    for right in (
        lambda f: f[1].qualified_name == qualified_name,
        lambda f: f[1].line == line,
        lambda f: f[0].op == op_type,
        lambda f: f[2].module == found[-1][2].module,  # a source that another one imports, too, has run twice
    ):
        if len(found) > 1:
            found = [f for f in found if right(f)] or found
    return [kernel for kernel, _, _ in found]


def defined_as(name: str, block: str) -> Optional["Operator"]:
    """The operator of this process that a block of a manifest means. Numbers behind names are counted in each process anew:
    where a name has several definitions, or a number, the place of the code says which of them it is."""
    known, place = defined.get(unnumbered(name), []), place_in(block)
    exact = [o for o in known if o.given_name == name]
    if len(exact) == 1:
        return exact[0]
    known = exact or [o for o in known if re.fullmatch(re.escape(o.given_name) + r"_\d+", name)]
    same = [o for o in known if place_of(o.code)[:2] == place[:2]]
    right = [o for o in same if o.code.line == place.line] or same
    if len({o.module for o in right}) > 1 or not re.search("<l", place.qualified_name):
        right = right[-1:]  # of lines that have run again, as those of a module that is loaded again, the last
    if len(right) == 1 or not right and not exact:
        return right[0] if right else None
    others = " and ".join(f"{p.file}:{p.line}" for p in (place_of(o.code) for o in known))
    raise unclear(name, place, f"{len(right)} definitions from there" if right else f"others of this name, of {others}")


def unclear(name: str, place: Place, there: str) -> Exception:
    """A graph from a file means a definition that cannot be told."""
    return usage(
        f"the graph's op '{name}' is {place.qualified_name} of {place.file}:{place.line}, and this process has {there}",
        "give each operator a name of its own and save the graph again, or load it in a process without the others",
        "OPC0923",
    )


def renamed(content: bytes, names: Dict[str, str], path: str) -> bytes:
    """The text of a graph file with other names of operators."""
    names = {old: new for old, new in names.items() if old != new}
    if not names:
        return content
    if path.endswith(".pb") or b"op_type_name:" not in content:
        old, new = next(iter(names.items()))
        raise usage(f"{path}: graphs of this process have another '{old}', and its own is '{new}' here", "save the graph as text (.pbtxt)", "OPC0923")
    pattern = rb'(op_type_name: *")(' + b"|".join(re.escape(n.encode()) for n in names) + rb')(")'

    def other(match: "re.Match[bytes]") -> bytes:
        return match.group(1) + names[match.group(2).decode()].encode() + match.group(3)

    return re.sub(pattern, other, content)
