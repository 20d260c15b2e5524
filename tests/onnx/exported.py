# The conformance cases of every op as ONNX models that opc writes, for whoever runs them.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "conformance"))
from driver import Graph  # noqa: E402
from registry_cases import DTYPES, instances, load_registry, opc_binary, vector_path  # noqa: E402
from statistics_checks import STATISTICS  # noqa: E402

from messages import field, fields  # noqa: E402

PEERS = os.environ.get("OPC_PEERS", os.path.join(HERE, "..", "..", "build", "peers"))
EXCEPTIONS = os.path.join(HERE, "export_exceptions.txt")
ELEMENTS = {"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11, "u32": 12, "u64": 13,
            "bf16": 16}
NAMES = {number: name for name, number in ELEMENTS.items()}


def exceptions():
    """op -> reason, for ops; (op, name of a case and type) -> reason, for cases. Lines: OP: REASON or OP CASE|TYPE: REASON."""
    found = {}
    with open(EXCEPTIONS, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                what, reason = line.rstrip("\n").split(": ", 1)
                found[tuple(what.split(" ", 1)) if " " in what else what] = reason
    return found


class Cases:
    """All cases of all ops but the exceptions, as one graph."""

    def __init__(self, left_out, only=()):
        self.graph, self.of = Graph(), []  # per instance: op, instance, its vectors
        self.written = {}  # the variables that an instance writes, by the output that has what they hold
        for op in load_registry():
            if op["name"] in left_out or op["name"] in STATISTICS or (only and op["name"] not in only):
                continue
            vectors = dict(np.load(vector_path(op["name"])))
            known = json.loads(bytes(vectors["meta"]).decode())
            for instance in instances(op):
                if (op["name"], instance.name) in left_out or known.get(instance.name) != instance.fingerprint():
                    continue
                number = len(self.of)
                for arg in instance.mutable():
                    self.written[f"i{number}_out_{arg}_0"] = f"i{number}_{arg}_0.next"
                self.graph.add(number, instance, vectors)
                self.of.append((op, instance, vectors))

    def write(self, folder):
        """graph.pbtxt and the values; the options that give them, to the graph, and to the model, whose variables are inputs."""
        with open(os.path.join(folder, "graph.pbtxt"), "w") as f:
            f.write("\n".join(self.graph.ops) + "\n")
        np.savez(os.path.join(folder, "in.npz"), **self.graph.inputs)
        np.savez(os.path.join(folder, "variables.npz"), **self.graph.variables)
        np.savez(os.path.join(folder, "all.npz"), **self.graph.inputs, **self.graph.variables)

    def wanted(self, model):
        """Number of the instance, output in the graph, output in the model, argument, index."""
        for _, arg, index, end in self.graph.wanted:
            after = self.written.get(end) # an op may leave what it could write
            yield int(end[1:].split("_")[0]), end, after if after in model.ports else end, arg, index

    def expected(self, number, arg, index):
        """The values and their type."""
        _, instance, vectors = self.of[number]
        key = next(k for k in vectors if k.startswith(f"{instance.name}|out|{arg}|{index}|"))
        return vectors[key], key.rsplit("|", 1)[1]


def export(folder, *options):
    done = subprocess.run([opc_binary(), "compile", "graph.pbtxt", "--emit", "onnx", "-o", "all.onnx", "--quiet", *options], cwd=folder,
                          capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"opc compile --emit onnx: exit code {done.returncode}\n{done.stderr}")
    return os.path.join(folder, "all.onnx")


class Model:
    """A model whose parts can be taken out: what some outputs need."""

    def __init__(self, path):
        with open(path, "rb") as f:
            parts = list(fields(f.read()))
        self.head = b"".join(field(n, b) for n, b in parts if n != 7)
        self.nodes, self.maker, self.ports, self.initializers = [], {}, {}, {}
        for number, body in fields(next(b for n, b in parts if n == 7)):
            if number == 1:
                got = list(fields(body))
                for name in (b.decode() for n, b in got if n == 2):
                    self.maker[name] = len(self.nodes)
                self.nodes.append((body, [b.decode() for n, b in got if n == 1]))
            elif number in (11, 12):
                self.ports[dict(fields(body))[1].decode()] = body
            elif number == 5:
                self.initializers[dict(fields(body))[8].decode()] = body

    def element(self, name):
        type_ = dict(fields(dict(fields(self.ports[name]))[2]))[1]
        return NAMES[dict(fields(type_))[1]]

    def dims(self, name):
        type_ = dict(fields(dict(fields(self.ports[name]))[2]))[1]
        return [dict(fields(b)).get(1, 0) for n, b in fields(dict(fields(type_)).get(2, b"")) if n == 1]

    def part(self, outputs):
        """The bytes of a model for these outputs, and its inputs. Halves go in and out as f32, which others can hold."""
        needed, inputs, initializers, open_ = set(), [], [], list(outputs)
        seen = set()
        while open_:
            name = open_.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self.maker:
                if self.maker[name] not in needed:
                    needed.add(self.maker[name])
                    open_ += [i for i in self.nodes[self.maker[name]][1] if i]
            elif name in self.initializers:
                initializers.append(self.initializers[name])
            else:
                inputs.append(name)
        inputs.sort()
        before, after, bodies = [], [], []
        for role, names, number in (("in", inputs, 11), ("out", outputs, 12)):
            for name in names:
                if self.element(name) not in ("f16", "bf16"):
                    bodies.append(field(number, self.ports[name]))
                    continue
                dims = b"".join(field(1, field(1, d)) for d in self.dims(name))
                bodies.append(field(number, field(1, name + "#f32") + field(2, field(1, field(1, 1) + field(2, dims)))))
                to = ELEMENTS[self.element(name)] if role == "in" else 1
                ends = (name + "#f32", name) if role == "in" else (name, name + "#f32")
                cast = field(1, ends[0]) + field(2, ends[1]) + field(4, "Cast") + field(5, field(1, "to") + field(3, to) + field(20, 2))
                (before if role == "in" else after).append(field(1, cast))
        nodes = [field(1, self.nodes[n][0]) for n in sorted(needed)]
        body = b"".join(before + nodes + after) + field(2, "part") + b"".join(field(5, t) for t in initializers) + b"".join(bodies)
        return self.head + field(7, body), inputs


def ops_of(model, outputs):
    """The names of the ONNX ops that these outputs need."""
    data, _ = model.part(outputs)
    graph = next(b for n, b in fields(data) if n == 7)
    return {dict(fields(b)).get(4, b"").decode() for n, b in fields(graph) if n == 1}


def stored(values, dtype):
    """What a vector's input is in the model's type, halves as f32."""
    if dtype == "bf16":
        bits = np.asarray(values).reshape(-1).view(np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).reshape(np.shape(values))
    return np.asarray(values, np.float32 if dtype == "f16" else DTYPES[dtype][1], order="C")
