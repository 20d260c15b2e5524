# The least time that a model or a training step can take on this machine, from the library's own speed in the same run: products by
# themselves, and memory. Used by bench_models.py and bench_training.py.
# SPDX-License-Identifier: Apache-2.0

import json
import math
import subprocess

import bench_models as bench
from bench_models import np

PRODUCTS = ("matmul", "batch_matmul", "broadcast_matmul")
GRADIENTS = ("broadcast_matmul_grad_b", "conv_data_grad", "conv_filter_grad")
CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "deconv1d", "deconv2d", "deconv3d")


def show(args, path, what):
    done = subprocess.run([str(args.build / "bin/opc"), "show", str(path), "--what", what, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def input_text(name, shape):
    dims = " ".join(f"dim: {d}" for d in shape)
    return f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: kFloat }} }} }}\n'


def seconds_of(args, threads, shapes, op):
    """The least time of an op by itself on inputs a and b of these shapes."""
    path, given = args.folder / "floor.pbtxt", []
    path.write_text("".join(input_text(name, shape) for name, shape in shapes.items()) + op)
    for name, shape in shapes.items():
        np.save(args.folder / f"floor_{name}.npy", np.random.default_rng(0).standard_normal(shape, "f4"))
        given += ["--input", f"{name}={args.folder}/floor_{name}.npy"]
    worker = bench.Worker("floor", [str(args.build / "bin/opc-bench"), "model", "--graph", str(path), "--threads", str(threads), *given], {})
    try:
        once = worker.ask("run 2")["times"][1]
        return min(worker.ask(f"run {max(3, min(200, int(0.3 / max(once, 1e-6))))}")["times"])
    finally:
        worker.close()


def product_text(kind, flags):
    attrs = "".join(f' attr {{ key: "{k}" value {{ at_bool: {str(v).lower()} }} }}' for k, v in flags.items())
    return (f'op {{ name: "mm" user_conf {{ op_type_name: "{kind}" input {{ key: "a" value {{ s: "a/out" }} }} '
            f'input {{ key: "b" value {{ s: "b/out" }} }}{attrs} }} }}\nop {{ name: "y" output_conf {{ in: "mm/out_0" out: "out" }} }}\n')


def products(args, step):
    """[(operations, shapes of the operands, the op as text)] of the step's products, each shape once, and the operations of all."""
    graph = show(args, step, "ops")
    shapes = {t["name"]: t["shape"] for t in show(args, step, "tensors")["tensors"]}
    flops = {op["name"]: op["flops"] for op in show(args, step, "cost")["ops"]}
    found, total = {}, 0
    for op in graph["ops"]:
        total += flops[op["name"]] if op["type"] in GRADIENTS else 0
        if op["type"] not in PRODUCTS:
            continue
        operands = [i["tensor"] for i in op["inputs"] if i["arg"] in ("a_0", "b_0")]
        flags = {k: v["value"] for k, v in op["attrs"].items() if k in ("transpose_a", "transpose_b")}
        key = (op["type"], *(tuple(shapes[t]) for t in operands), *sorted(flags.items()))
        total += flops[op["name"]]
        if key not in found:
            found[key] = (flops[op["name"]], {n: shapes[t] for n, t in zip("ab", operands)}, product_text(op["type"], flags))
    return list(found.values()), total


def of_step(args, step, threads):
    """Of a training step: all operations at the speed of the step's fastest product, and SGD's traffic at that of a sum of two tensors."""
    of_ops, total = products(args, step)
    best = max(count / seconds_of(args, threads, operands, text) for count, operands, text in of_ops)
    count = 1 << 24
    triad = \
        'op { name: "s" user_conf { op_type_name: "broadcast_add" input { key: "x" value { s: "a/out" } } input { key: "y" value { s: "b/out" } } } }\n' \
        'op { name: "y" output_conf { in: "s/z_0" out: "out" } }\n'
    speed = 12 * count / seconds_of(args, threads, {"a": [count], "b": [count]}, triad)
    weights = sum(4 * math.prod(v["shape"]) for v in show(args, step, "summary")["variables"] if v["trainable"])
    return {"floor_ms": (total / best + 3 * weights / speed) * 1e3, "flops": total, "best_gflops": best / 1e9, "optimizer_bytes": 3 * weights}


def of_model(args, model, threads):
    """Of a run: each product and convolution at the speed of the fastest of three large products, or the reading of its weights at that of
    as many bytes as all of them are, where that takes longer; all other ops for nothing."""
    sizes = {t["name"]: 4 * math.prod(t["shape"]) for t in show(args, model, "tensors")["tensors"]}
    variables = {v["name"] for v in show(args, model, "summary")["variables"]}
    flops = {op["name"]: op["flops"] for op in show(args, model, "cost")["ops"]}
    heavy = []
    for op in show(args, model, "ops")["ops"]:
        if op["type"] in PRODUCTS + CONVOLUTIONS:
            weights = sum(sizes[i["tensor"]] for i in op["inputs"] if i["tensor"].split("/")[0] in variables)
            heavy.append((flops[op["name"]], weights))
    best = max(2 * m * k * n / seconds_of(args, threads, {"a": [m, k], "b": [k, n]}, product_text("matmul", {}))
               for m, k, n in ((512, 512, 512), (1024, 1024, 1024), (2048, 1024, 512)))
    count = max(1024, sum(w for _, w in heavy) // 4)
    read = 'op { name: "s" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "a/out" } } attr { key: "axis" value { at_list_int32 { val: 0 } } } ' \
           'attr { key: "keepdims" value { at_bool: false } } } }\nop { name: "y" output_conf { in: "s/output_tensor_0" out: "out" } }\n'
    speed = 4 * count / seconds_of(args, threads, {"a": [count]}, read)
    return {"floor_ms": sum(max(f / best, w / speed) for f, w in heavy) * 1e3, "flops": sum(f for f, _ in heavy), "best_gflops": best / 1e9,
            "weight_bytes": 4 * count}
