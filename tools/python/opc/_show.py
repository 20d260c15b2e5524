"""Graphs for people: text for terminals, tables for notebooks."""
# SPDX-License-Identifier: Apache-2.0
import collections
import html
from typing import Any, Dict, Iterable, List, Sequence

from ._errors import usage
from ._graph import Graph, Tensor

_MOST_ROWS = 200


def _type(shape: Sequence[int], kind: str) -> str:
    return f"{kind}[{','.join(map(str, shape))}]"


def _table(rows: Iterable[Sequence[str]]) -> str:
    rows = [list(map(str, r)) for r in rows]
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))] if rows else []
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in rows)


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"


def _ports(facts: Dict[str, Any]) -> List[Sequence[str]]:
    return [("  " + role, name, _type(shape, kind)) for role, key in (("input", "inputs"), ("output", "outputs"), ("variable", "variables"))
            for name, shape, kind, _ in facts[key]]  # fmt: skip


def _summary(graph: Graph, facts: Dict[str, Any]) -> str:
    types = collections.Counter(op[1] for op in facts["ops"])
    lines = [f"{graph.name}: {len(facts['ops'])} ops", _table(_ports(facts))]
    lines += [f"  {n:>5}  {kind}" for kind, n in sorted(types.items(), key=lambda t: (-t[1], t[0]))]
    return "\n".join(line for line in lines if line)


def _ops(facts: Dict[str, Any]) -> str:
    rows = []
    for name, kind, inputs, outputs, _, loc in facts["ops"]:
        rows.append((name, kind, ", ".join(t for _, t in inputs), ", ".join(_type(o[1], o[2]) for o in outputs), loc))
    return _table(rows)


def _tensors(facts: Dict[str, Any]) -> str:
    rows = [(tensor, _type(shape, kind)) for key in ("inputs", "variables") for _, shape, kind, tensor in facts[key]]
    return _table(rows + [(o[3], _type(o[1], o[2])) for op in facts["ops"] for o in op[3]])


def _memory(facts: Dict[str, Any]) -> str:
    names = (("arena", "arena_bytes"), ("persistent", "persistent_bytes"), ("activations", "activation_bytes"))
    return _table([(label, _bytes(facts["memory"][key])) for label, key in names] + [("tasks", str(facts["tasks"]))])


def _sbp(facts: Dict[str, Any]) -> str:
    lines = [_table(facts["signatures"].items())]
    lines += [f"{kind}  {', '.join(tensors)}  {source} -> {target}  {_bytes(size)}" for tensors, kind, source, target, size in facts["transitions"]]
    return "\n".join(line for line in lines if line) or "one device: no states"


def text(graph: Graph, what: str, options: Dict[str, Any]) -> str:
    planned = what in ("memory", "sbp")
    parts = {"summary": lambda f: _summary(graph, f), "ops": _ops, "tensors": _tensors, "memory": _memory, "sbp": _sbp}
    if what not in parts:
        raise usage(f"show has no '{what}'; there are {', '.join(parts)}")
    return parts[what](graph.facts(planned, **options))


def _cells(tag: str, row: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in row) + "</tr>"


def graph_html(graph: Graph) -> str:
    facts = graph.facts()
    ports = "".join(_cells("td", [c.strip() for c in row]) for row in _ports(facts))
    rows = [(name, kind, ", ".join(t for _, t in inputs), ", ".join(_type(o[1], o[2]) for o in outputs), loc)
            for name, kind, inputs, outputs, _, loc in facts["ops"]]  # fmt: skip
    more = f"<p>and {len(rows) - _MOST_ROWS} more</p>" if len(rows) > _MOST_ROWS else ""
    ops = _cells("th", ("op", "type", "inputs", "outputs", "made at")) + "".join(_cells("td", r) for r in rows[:_MOST_ROWS])
    return (f"<b>opc.Graph {html.escape(graph.name)}</b><table>{ports}</table>"
            f"<details><summary>{len(rows)} ops</summary><table>{ops}</table>{more}</details>")  # fmt: skip


def tensor_html(tensor: Tensor) -> str:
    return f"<code>{html.escape(tensor.name)}</code> {_type(tensor.shape, tensor.dtype)}"
