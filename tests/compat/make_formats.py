#!/usr/bin/env python3
# Writes the folders of single formats: plans of each plan format's version, a plugin of the SDK's, locks, a checkpoint,
# a manifest. README.md says which of them are what an older build would have written, and how that was found out.
#
#   tests/compat/make_formats.py BUILD FOLDER...      e.g. plan-6 plan-2-sizes plugin-3 lock-1-details manifest-1
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import shutil
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


def bounded():
    """x between two numbers of the model, which are part of the op."""
    bounds = [onnx.tensor("low", np.float32(-0.25)), onnx.tensor("high", np.float32(1))]
    return onnx.model(onnx.graph([onnx.node("Clip", ["x", "low", "high"], ["y"])], [onnx.value("x", SHAPE)], [onnx.value("y", SHAPE)], bounds))


# What the version of the format came with, as a graph; options of `opc compile`; and its numbers, from numpy.
PLANS = {
    "2": ("graph.pbtxt", LOOP, [], lambda x: np.maximum(np.exp(x) + x, 0)),
    "2-sizes": ("graph.pbtxt", LOOP, ["--shape", "x=n:1..8,6"], lambda x: np.maximum(np.exp(x) + x, 0)),
    "3": ("graph.onnx", model(), [], lambda x: np.maximum(x @ W.astype(np.float64), 0)),
    "4": ("graph.pbtxt", LOOP, ["--native=v3"], lambda x: np.maximum(np.exp(x) + x, 0)),
    "5": ("graph.pbtxt", branches(), [], lambda x: np.exp(x) + 4 * x),
    "6": ("graph.pbtxt", parts(), [], np.exp),
    "6-numbers": ("graph.onnx", bounded(), [], lambda x: np.clip(x, -0.25, 1)),
    "7": ("graph.pbtxt", prepared(), [], lambda x: x + np.exp(0.5)),
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


def make_plan(opc, folder, kind, version):
    name, graph, options, numbers = PLANS[kind]
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


def make_plugin(opc, folder, kind, version):
    (folder / "plugin.pbtxt").write_text(make_version.PLUGIN_GRAPH)
    make_version.make_plugin(opc, folder)
    if f"libopc_sdk.so.{version}\0".encode() not in (folder / "twice.so").read_bytes():
        sys.exit(f"make_formats: {folder.name}: this build's SDK has another version")


def ordered():
    """Graphs in ops, a variable that is written, which an op must read after that, and initializers with and without defaults."""
    initializers = {"v": "constant_conf { value: 0.5 }", "w": "random_normal_conf { mean: 0 std: 0.5 }"}
    graph = branches()
    for name, conf in initializers.items():
        graph += f'op {{ name: "{name}" variable_conf {{ out: "out" shape {{ dim: 4 dim: 6 }} data_type: kFloat initializer {{ {conf} }} random_seed: 3 }} }}\n'
    graph += 'op { name: "as" user_conf { op_type_name: "assign" input { key: "ref" value { s: "v/out" } } input { key: "value" value { s: "x/out" } } } }\n'
    graph += op("after", "broadcast_mul", {"x": "v/out", "y": "w/out"}, "z").replace('name: "after"', 'name: "after" ctrl_in_op_name: "as"')
    return graph + output("z", "after/z_0")


def shifted():
    """relu(x W + c), whose c is a node of the model."""
    c = np.arange(5, dtype=np.float32) / 4
    nodes = [onnx.node("Constant", [], ["c"], value=c), onnx.node("MatMul", ["x", "w"], ["h"]), onnx.node("Add", ["h", "c"], ["s"]), onnx.node("Relu", ["s"], ["y"])]
    return onnx.model(onnx.graph(nodes, [onnx.value("x", SHAPE)], [onnx.value("y", (4, 5))], [onnx.tensor("w", W)]))


# The first was written before locks told ops in full and had constants.
LOCKS = {"1": ("graph.pbtxt", make_version.GRAPH), "1-details": ("graph.pbtxt", ordered()), "1-constants": ("graph.onnx", shifted())}


def make_lock(opc, folder, kind, version):
    name, graph = LOCKS[kind]
    (folder / name).write_bytes(graph if isinstance(graph, bytes) else graph.encode())
    run(opc, "check", name, "--update", "--update-in-ci", "--config", "none", "-q", cwd=folder)
    if not (folder / "graph.opc.lock").read_text().startswith(f'{{"opc_lock":{version},'):
        sys.exit(f"make_formats: {folder.name}: this build writes another version")


def make_checkpoint(opc, folder, kind, version):
    """The training of 0.1.0: the same graphs and numbers, and what a checkpoint says of its data since."""
    for name in ("graph.pbtxt", "train.pbtxt", "data.npy", "x.npy"):
        shutil.copy(HERE / "0.1.0" / name, folder)
    feed = ["--feed-dataset", "x=@data.npy", "--batch", "4", "--shuffle", "--seed", "5", "--config", "none", "-q"]
    for epochs, name in (("2", "half.safetensors"), ("4", "whole.safetensors")):
        run(opc, "run", "train.pbtxt", *feed, "--epochs", epochs, "--save", name, cwd=folder)
        if f'"opc-checkpoint-{version}"'.encode() not in (folder / name).read_bytes():
            sys.exit(f"make_formats: {folder.name}: this build writes another version")


OPERATORS = '''# Operators of graph.pbtxt.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

import opc


@opc.op("compat::leaky", sbp=opc.elementwise, like="x")
def leaky(x: opc.Tensor, *, alpha: float = 0.01) -> opc.Tensor:
    """x where it is positive, alpha x elsewhere."""
    return np.where(x > 0, x, x * np.float32(alpha))


@leaky.grad(needs=["x"])
def _(dy, *, x, alpha):
    return np.where(x > 0, dy, dy * np.float32(alpha))


@opc.op("compat::product", shape={"y": ("a[0]", "b[1]")}, sbp="m k, k n -> m n", cases=[{"a": (4, 6), "b": (6, 2)}])
def product(a, b):
    return a @ b
'''
PYTHON_GRAPH = (port("x") + port("w", (6, 5)) + op("l", "compat::leaky", {"x": "x/out"}, "y", alpha="at_float: 0.25")
                + op("p", "compat::product", {"a": "l/y_0", "b": "w/out"}, "y") + output("y", "p/y_0"))
DESCRIBE = "import operators; from opc import _manifest, _op; print(_manifest.text_of(_op.describe(sorted(_op.operators))), end='')"


def make_manifest(opc, folder, kind, version):
    (folder / "operators.py").write_text(OPERATORS)
    (folder / "graph.pbtxt").write_text(PYTHON_GRAPH)
    environment = {**os.environ, "PYTHONPATH": f"{opc.parent.parent}/python", "PYTHONDONTWRITEBYTECODE": "1"}
    (folder / "graph.ops.pbtxt").write_text(run(sys.executable, "-c", DESCRIBE, cwd=folder, env=environment))
    if f"\nversion: {version}\n" not in (folder / "graph.ops.pbtxt").read_text():
        sys.exit(f"make_formats: {folder.name}: this build writes another version")


MAKERS = {"plan": make_plan, "plugin": make_plugin, "lock": make_lock, "checkpoint": make_checkpoint, "manifest": make_manifest}


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: make_formats.py BUILD FOLDER...")
    opc = pathlib.Path(sys.argv[1]).resolve() / "bin/opc"
    for name in sys.argv[2:]:
        format, kind = name.split("-", 1)
        folder = HERE / name
        folder.mkdir()  # one that is there stays as it is
        MAKERS[format](opc, folder, kind, int(kind.split("-")[0]))


if __name__ == "__main__":
    main()
