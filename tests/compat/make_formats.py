#!/usr/bin/env python3
# Writes the folders of single formats: a plan of each plan format's version, a plugin of the SDK's, a lock. README.md
# says which of them are what an older build would have written, and how that was found out.
#
#   tests/compat/make_formats.py BUILD FOLDER...      e.g. plan-6 plugin-3 lock-1
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import sys

import numpy as np

import make_version
from make_version import HERE, run

TESTS = HERE.parent
for folder in ("cli", "onnx"):
    sys.path.insert(0, str(TESTS / folder))
import messages as onnx  # noqa: E402
import plan_bytes as pb  # noqa: E402

SHAPE = (4, 6)
W = np.arange(30, dtype=np.float32).reshape(6, 5) / 16 - 1  # exact in f32
PLAN_TASK, TASK_TYPE, TASK_ATTR, ATTR_NAME = 6, 2, 5, 1  # numbers of plan.proto
YOUNGER_LOOP_ATTRS = (b"partial", b"reverse", b"most")  # version 5 is older than they are


def port(name, dims=SHAPE, dtype="kFloat"):
    shape = " ".join(f"dim: {d}" for d in dims)
    return f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {shape} }} data_type: {dtype} }} }} }}\n'


def output(name, tensor):
    return f'op {{ name: "{name}" output_conf {{ in: "{tensor}" out: "out" }} }}\n'


def op(name, kind, inputs, out, **attrs):
    """attrs: KEY="at_FIELD: VALUE"."""
    tensors = {k: " ".join(f's: "{t}"' for t in v.split()) for k, v in inputs.items()}
    parts = [f'input {{ key: "{k}" value {{ {v} }} }}' for k, v in tensors.items()]
    parts += [f'output {{ key: "{out}" value {{ s: "{name}/{out}_0" }} }}']
    parts += [f'attr {{ key: "{k}" value {{ {v} }} }}' for k, v in attrs.items()]
    return f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}"\n  ' + "\n  ".join(parts) + " } }\n"


def text(graph):
    return "at_string: " + json.dumps(graph)


TYPES = {"dtypes": "at_list_data_type { val: kFloat }", "shapes": "at_list_shape { val { dim: 4 dim: 6 } }"}
LOOP = port("x") + op("e", "exp", {"x": "x/out"}, "y") + op("a", "broadcast_add", {"x": "e/y_0", "y": "x/out"}, "z")
LOOP += op("r", "relu", {"x": "a/z_0"}, "y") + output("y", "r/y_0")


def model():
    """relu(x W), whose weights come with the model."""
    nodes = [onnx.node("MatMul", ["x", "w"], ["h"]), onnx.node("Relu", ["h"], ["y"])]
    return onnx.model(onnx.graph(nodes, [onnx.value("x", SHAPE)], [onnx.value("y", (4, 5))], [onnx.tensor("w", W)]))


def branches():
    """The exponential or the opposite of x, by its sum, and x added to it for four turns."""
    then = port("t") + op("e", "exp", {"x": "t/out"}, "y") + output("r", "e/y_0")
    other = port("t") + op("n", "negative", {"x": "t/out"}, "y") + output("r", "n/y_0")
    turn = port("k", (), "kInt64") + port("s") + port("a")
    turn += op("go", "scalar_logical_less", {"in": "k/out"}, "out", int_operand="at_int64: 3", has_int_operand="at_bool: true")
    turn += op("n", "broadcast_add", {"x": "s/out", "y": "a/out"}, "z") + output("c", "go/out_0") + output("next", "n/z_0")
    graph = port("x") + op("sum", "reduce_sum", {"input_tensor": "x/out"}, "output_tensor",
                           axis="at_list_int32 { val: 0 val: 1 }", keepdims="at_bool: false")
    graph += op("c", "scalar_logical_greater", {"in": "sum/output_tensor_0"}, "out", float_operand="at_double: 0",
                has_float_operand="at_bool: true")
    graph += op("b", "if", {"cond": "c/out_0", "in": "x/out"}, "out", then_graph=text(then), else_graph=text(other), **TYPES)
    graph += op("turns", "constant", {}, "out", shape="at_shape { }", integer_value="at_int64: 9",
                is_floating_value="at_bool: false", dtype="at_data_type: kInt64")
    graph += op("l", "loop", {"turns": "turns/out_0", "cond": "c/out_0", "in": "b/out_0 x/out"}, "out", graph=text(turn),
                states="at_int64: 1")
    return graph + output("y", "l/out_0")


def parts():
    part = port("t", (2, 6)) + op("e", "exp", {"x": "t/out"}, "y") + output("r", "e/y_0")
    return port("x") + op("p", "batch_parts", {"in": "x/out"}, "out", graph=text(part), parts="at_int64: 2",
                          cut="at_int64: 1", **TYPES) + output("y", "p/out_0")


def prepared():
    """x and the exponential of a weight of 0.5, which is the same in every run."""
    weight = 'op { name: "w" variable_conf { out: "out" shape { dim: 4 dim: 6 } data_type: kFloat initializer { constant_conf { value: 0.5 } } } }\n'
    return port("x") + weight + op("e", "exp", {"x": "w/out"}, "y") + op("a", "broadcast_add", {"x": "x/out", "y": "e/y_0"}, "z") + output("y", "a/z_0")


# What the version of the format came with, as a graph; options of `opc compile`; and its numbers, from numpy.
PLANS = {
    2: ("graph.pbtxt", LOOP, [], lambda x: np.maximum(np.exp(x) + x, 0)),
    3: ("graph.onnx", model(), [], lambda x: np.maximum(x @ W.astype(np.float64), 0)),
    4: ("graph.pbtxt", LOOP, ["--native=v3"], lambda x: np.maximum(np.exp(x) + x, 0)),
    5: ("graph.pbtxt", branches(), [], lambda x: np.exp(x) + 4 * x),
    6: ("graph.pbtxt", parts(), [], np.exp),
    7: ("graph.pbtxt", prepared(), [], lambda x: x + np.exp(0.5)),
}


def without_younger_attributes(plan):
    """The plan as the first writer of `loop` has written it: the op had none of YOUNGER_LOOP_ATTRS."""
    plan = pb.Plan(plan)
    for field in plan.message.all(PLAN_TASK):
        task = pb.Message(field[2])
        if task.get(TASK_TYPE) == b"loop":
            task.fields = [f for f in task.fields
                           if f[0] != TASK_ATTR or pb.Message(f[2]).get(ATTR_NAME) not in YOUNGER_LOOP_ATTRS]
            field[2] = task.encode()
    return plan.bytes()


def make_plan(opc, folder, version):
    name, graph, options, numbers = PLANS[version]
    (folder / name).write_bytes(graph if isinstance(graph, bytes) else graph.encode())
    x = np.abs(np.random.default_rng(version).normal(size=SHAPE)).astype(np.float32)
    x[0] *= -0.25  # of either sign, with a sum above 0
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", numbers(x.astype(np.float64)).astype(np.float32))
    run(opc, "compile", name, "-o", "graph.plan", *options, "--config", "none", "-q", cwd=folder)
    plan = without_younger_attributes((folder / "graph.plan").read_bytes())
    (folder / "graph.plan").write_bytes(plan)
    if int.from_bytes(plan[8:12], "little") != version:
        sys.exit(f"make_formats: {folder.name}: this build writes another version")


def make_plugin(opc, folder, version):
    (folder / "plugin.pbtxt").write_text(make_version.PLUGIN_GRAPH)
    make_version.make_plugin(opc, folder)
    if f"libopc_sdk.so.{version}\0".encode() not in (folder / "twice.so").read_bytes():
        sys.exit(f"make_formats: {folder.name}: this build's SDK has another version")


def make_lock(opc, folder, version):
    (folder / "graph.pbtxt").write_text(make_version.GRAPH)
    run(opc, "check", "graph.pbtxt", "--update", "--update-in-ci", "--config", "none", "-q", cwd=folder)
    if not (folder / "graph.opc.lock").read_text().startswith(f'{{"opc_lock":{version},'):
        sys.exit(f"make_formats: {folder.name}: this build writes another version")


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: make_formats.py BUILD FOLDER...")
    opc = pathlib.Path(sys.argv[1]).resolve() / "bin/opc"
    for name in sys.argv[2:]:
        kind, version = name.rsplit("-", 1)
        folder = HERE / name
        folder.mkdir()  # one that is there stays as it is
        {"plan": make_plan, "plugin": make_plugin, "lock": make_lock}[kind](opc, folder, int(version))


if __name__ == "__main__":
    main()
