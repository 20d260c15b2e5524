"""The ops that a gradient rule of C++ has built, read from the graph that it built them in."""
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import re
from typing import Any, Dict, List, Tuple

import opc
from opc import _manifest


@dataclasses.dataclass
class NodeOfRule:
    """An op of the rule. `tensors` as manifests name them: "x:in:0", "y:out:0", "dy:out:0", "n0:dx:0"."""

    name: str
    type_name: str
    inputs: Dict[str, List[opc.Tensor]]
    tensors: Dict[str, List[str]]
    attrs: Dict[str, str]

    def lines(self, type_name: str) -> List[str]:
        """The fields of the manifest's message."""
        made = [f"name: {_manifest.quoted(self.name)}", f"op: {_manifest.quoted(type_name)}"]
        for argument, tensors in self.tensors.items():
            made.append(f'input {{ arg: "{argument}" ' + " ".join(f'tensor: "{t}"' for t in tensors) + " }")
        return made + [f'attr {{ name: "{name}" value {{ {value} }} }}' for name, value in self.attrs.items()]


_NAME = re.compile(r'op \{ name: "([^"]*)"')
_ENTRY = re.compile(r'(input|output|attr) \{ key: "([^"]*)" value \{')


def _value(line: str, start: int) -> str:
    """The text from `start` to the brace that closes what was open there; strings are skipped."""
    depth, at = 1, start
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[{}]', line[start:]):
        depth += {"{": 1, "}": -1}.get(token.group(), 0)
        at = start + token.start()
        if depth == 0:
            break
    return line[start:at].strip()


def _ops_in(text: str) -> List[str]:
    """Each op on a line of its own."""
    return ["op { " + " ".join(line.strip() for line in part.splitlines()).strip() for part in re.split(r"^op \{", text, flags=re.M)[1:]]


def recorded_rule(graph: opc.Graph, inputs: List[str]) -> Tuple[List[NodeOfRule], List[Tuple[str, str]]]:
    """The nodes beside the op "fw", and (input "in:0", its gradient). `inputs` are called "in.0"."""
    names = {f"{name}/out": "x:" + ":".join(name.rsplit(".", 1)) for name in inputs}
    nodes: List[NodeOfRule] = []
    results: List[Tuple[str, str]] = []
    for line in _ops_in(graph.text()):
        found = _NAME.match(line)
        if not found:
            continue
        op = found.group(1)
        if op.endswith(".dy") and " input_conf " in line:
            argument, index = op[len("fw/"):-len(".dy")].rsplit("_", 1)
            names[op + "/out"] = f"dy:{argument}:{index}"
        elif op.endswith(".grad") and " output_conf " in line:
            tensor = re.search(r'output_conf \{ in: "([^"]*)"', line)
            assert tensor
            results.append((":".join(op[: -len(".grad")].rsplit(".", 1)), names[tensor.group(1)]))
        elif " user_conf " in line:
            node = _node(graph, op, line, names, len(nodes))
            if node:
                nodes.append(node)
    return nodes, results


def _node(graph: opc.Graph, op: str, line: str, names: Dict[str, str], number: int) -> Any:
    kind = re.search(r'op_type_name: "([^"]*)"', line)
    assert kind
    node = NodeOfRule(f"n{number}", kind.group(1), {}, {}, {})
    for entry in _ENTRY.finditer(line):
        what, key, value = entry.group(1), entry.group(2), _value(line, entry.end())
        if what == "attr":
            node.attrs[key] = value
            continue
        for i, tensor in enumerate(re.findall(r'"([^"]*)"', value)):
            if what == "output":
                names[tensor] = f"y:{key}:{i}" if op == "fw" else f"{node.name}:{key}:{i}"
            elif op != "fw":
                node.tensors.setdefault(key, []).append(names[tensor])
                node.inputs.setdefault(key, []).append(graph.tensor(tensor))
    return None if op == "fw" else node
