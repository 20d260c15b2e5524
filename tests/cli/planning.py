# The planner on networks whose best plans are published: Megatron's block, data parallelism, split vocabularies.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import weight_files

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
GRAPHS = os.path.join(os.environ["OPC_SOURCE_DIR"], "docs", "examples", "distributed", "make_graphs.py")
failures = []


def check(what, holds, detail=""):
    print(("ok   " if holds else "FAIL ") + what + (f": {detail}" if not holds else ""))
    if not holds:
        failures.append(what)


def training_graph(folder, *args):
    """A training graph of make_graphs.py, as a file."""
    forward = subprocess.run([sys.executable, GRAPHS, *args], check=True, capture_output=True).stdout
    path = os.path.join(folder, "_".join(args).replace("--", "") + ".pbtxt")
    subprocess.run([BIN, "grad", "-", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", path], input=forward,
                   check=True, capture_output=True)
    return path


def plan(graph, mesh, *flags):
    out = subprocess.run([BIN, "show", graph, "--what", "sbp", "--mesh", mesh, "--json", *flags], check=True,
                         capture_output=True).stdout
    sbp = json.loads(out)["sbp"]
    sbp["signature"] = {o["name"]: o["signature"] for o in sbp["ops"]}
    return sbp


def moved(sbp, at_least=0):
    return sum(t["bytes"] for t in sbp["transitions"] if t["bytes"] >= at_least)


# A device on which adding partial sums is cheap against sending them: what Megatron's authors had.
CLUSTER = {"schema": 1, "name": "test",
           "device": {"flops": {"f32": 2e13}, "memory_bandwidth": 1e12, "memory_bytes": 8e10, "task_overhead": 0},
           "levels": [{"name": "link", "devices": 64, "latency": 1e-6, "bandwidth": 1e10}]}


def megatron(folder, cluster):
    batch, sequence, hidden = 1, 64, 1024
    graph = training_graph(folder, "block", "--batch", str(batch), "--sequence", str(sequence), "--hidden", str(hidden),
                           "--heads", "16", "--layers", "2")
    tensor = batch * sequence * hidden * 4
    for n in (2, 4, 8):
        sbp = plan(graph, str(n), "--no-overlap", "--cluster", cluster)
        name = f"block on {n}"
        check(f"{name}: proven optimal", sbp["gap"] == 0, sbp["gap"])
        wrong = [f"layer{layer}_{w}: {sbp['signature'][f'layer{layer}_{w}']}" for layer in (0, 1)
                 for w, state in (("attn_q_w", "(S(1))"), ("attn_k_w", "(S(1))"), ("attn_v_w", "(S(1))"), ("fc1_w", "(S(1))"),
                                  ("attn_proj_w", "(S(0))"), ("fc2_w", "(S(0))"))
                 if sbp["signature"][f"layer{layer}_{w}"] != state]
        check(f"{name}: columns, then rows", not wrong, wrong)
        for layer in (0, 1):
            for product in ("attn_proj_matmul", "fc2_matmul"):
                check(f"{name}: {product} of layer {layer} gives partial sums",
                      sbp["signature"][f"layer{layer}_{product}"].endswith("-> (P)"), sbp["signature"][f"layer{layer}_{product}"])
        # Megatron: an all-reduce after attention and after the MLP, forward and backward: 2 (n - 1) / n bytes each. A
        # reduce-scatter and an all-gather in its place send as much. The graph's output is whole on every rank already.
        bytes_ = moved(sbp, at_least=tensor // (2 * n))
        published = 2 * 4 * 2 * (n - 1) * tensor // n
        check(f"{name}: sends no more than Megatron", bytes_ <= published, f"{bytes_} > {published}")
        check(f"{name}: sends what the block needs", bytes_ >= published // 2, f"{bytes_} against {published}")


def data_parallel(folder, cluster):
    graph = training_graph(folder, "block", "--batch", "64", "--sequence", "64", "--hidden", "64", "--heads", "4")
    sbp = plan(graph, "4")
    check("large batch: proven optimal", sbp["gap"] == 0)
    for product in ("attn_q_matmul", "attn_proj_matmul", "fc1_matmul", "fc2_matmul"):
        got = sbp["signature"][f"layer0_{product}"]
        check(f"large batch: {product} splits the batch", got == "(S(0), B) -> (S(0))", got)
    weights = 4 * (4 * 64 * 64 + 8 * 64 * 64 + 4 * 64 + 64 * 4 + 64 + 4 * 64)
    check("large batch: only gradients travel", moved(sbp) <= 2 * 3 / 4 * weights * 1.05 + 4 * 64 * 64 * 64 * 3 / 4 * 4 + 64,
          f"{moved(sbp)} bytes, gradients are {weights}")


def vocabulary(folder, cluster):
    graph = training_graph(folder, "gpt", "--batch", "2", "--sequence", "32", "--hidden", "256", "--heads", "8", "--vocabulary",
                           "50000")
    for mesh, split in (("4", "(S(0))"), ("8", "(S(0))")):
        sbp = plan(graph, mesh, "--cluster", cluster)
        name = f"vocabulary of 50,000 on {mesh}"
        check(f"{name}: proven optimal", sbp["gap"] == 0)
        check(f"{name}: the table is split by entries", sbp["signature"]["embedding"] == split, sbp["signature"]["embedding"])
        check(f"{name}: the look-up gives partial sums", sbp["signature"]["embed"] == "(S(0), B) -> (P)", sbp["signature"]["embed"])
        maxima = [t for t in sbp["transitions"] if t["tensors"][0].startswith("cross_entropy/")]
        check(f"{name}: three reductions of a number for each row", len(maxima) == 3 and
              all(t["bytes"] < 64 * 4 * 2 for t in maxima), maxima)
        check(f"{name}: no logits travel", all(t["bytes"] < 64 * 50000 for t in sbp["transitions"]))


def tensor(name, dims, dtype="kFloat"):
    return (f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {" ".join(f"dim: {d}" for d in dims)} }} '
            f'data_type: {dtype} }} }} }}\n')


def user(name, op, inputs, attrs=""):
    given = " ".join(f'input {{ key: "{arg}" value {{ s: "{t if "/" in t else t + "/out"}" }} }}' for arg, t in inputs.items())
    return f'op {{ name: "{name}" user_conf {{ op_type_name: "{op}" {given} {attrs} }} }}\n'


def ints(key, values, kind="int64"):
    return f'attr {{ key: "{key}" value {{ at_list_{kind} {{ {" ".join(f"val: {v}" for v in values)} }} }} }}'


def shaped(key, values):
    return f'attr {{ key: "{key}" value {{ at_shape {{ {" ".join(f"dim: {v}" for v in values)} }} }} }}'


DTYPE = 'attr { key: "dtype" value { at_data_type: kFloat } }'
ROWS, WIDTH = 4096, 64
X, FEW = tensor("x", (ROWS, WIDTH)), tensor("few", (8, WIDTH))
INDEX = tensor("index", (8, 1), "kInt64")
BOX = " ".join(ints(key, values) for key, values in (("start", (100, 0)), ("stop", (108, WIDTH)), ("step", (1, 1))))
# A graph whose op is "y", what is fixed, the signature that is then best, and the bytes that may travel.
ON_PIECES = {
    "reduce_mean": (X + user("y", "reduce_mean", {"input_tensor": "x"}, ints("axis", [0], "int32")), ["x=S(0)"], "(S(0)) -> (P)", 2 * WIDTH * 4),
    "tensor_scatter_nd_add": (X + FEW + INDEX + user("y", "tensor_scatter_nd_add", {"params": "x", "updates": "few", "indices": "index"}),
                              ["x=S(0)", "y=S(0)"], "(S(0), B, B) -> (S(0))", 0),
    "gather_nd": (X + INDEX + user("y", "gather_nd", {"params": "x", "indices": "index"}), ["x=S(0)"], "(S(0), B) -> (P)", 2 * 8 * WIDTH * 4),
    "slice_update": (X + FEW + user("y", "slice_update", {"ref": "x", "value": "few"}, BOX), ["x=S(0)", "y=S(0)"], "(S(0), B) -> (S(0))", 0),
    "slice": (X + user("y", "slice", {"x": "x"}, BOX), ["x=S(0)"], "(S(0)) -> (P)", 2 * 8 * WIDTH * 4),
    "uniform": (user("y", "uniform", {}, DTYPE + shaped("shape", (ROWS, WIDTH))), ["y=S(0)"], "(S(0))", 0),
    "eye": (user("y", "eye", {}, DTYPE + ' attr { key: "rows" value { at_int64: 2048 } } attr { key: "cols" value { at_int64: 2048 } }'),
            ["y=S(1)"], "(S(1))", 0),
}


def on_pieces(folder, cluster):
    """Nothing of the size of a whole tensor travels, or is anywhere."""
    for op, (text, pins, signature, most) in ON_PIECES.items():
        path = os.path.join(folder, f"{op}.pbtxt")
        with open(path, "w") as f:
            f.write(text + 'op { name: "z" output_conf { in: "y/out_0" out: "out" } }\n'.replace("out_0", OUTPUTS.get(op, "out") + "_0"))
        flags = [flag for pin in pins + [p.replace("y=", "z=") for p in pins if p.startswith("y=")] for flag in ("--sbp", pin)]
        sbp = plan(path, "4", "--cluster", cluster, *flags)
        check(f"{op} on pieces: {signature}", sbp["signature"]["y"] == signature, sbp["signature"]["y"])
        check(f"{op} on pieces: at most {most} bytes travel", moved(sbp) <= most, sbp["transitions"])
        given = ["--input", "index=i64[8,1]:4095,0,7,1024,7,2048,3,1023"] if INDEX in text else []
        ran = subprocess.run([BIN, "run", path, "--mesh", "4", "--in-process", "--fill", "rand", *given, "--reference", "cpu", "--print", "none",
                              *flags], capture_output=True, text=True)
        check(f"{op} on pieces: the result is that of one rank", ran.returncode == 0, ran.stderr)


def infinite_addends(folder):
    """docs/sbp.md: addends in a product with an infinity may be NaN, and a pin keeps them away."""
    path = os.path.join(folder, "infinite.pbtxt")
    with open(path, "w") as f:
        f.write(tensor("x", [4]) + tensor("w", [4]) + user("m", "broadcast_mul", {"x": "x/out", "y": "w/out"}) + 'op { name: "y" output_conf { in: "m/z_0" out: "out" } }\n')
    found = {}
    for pins in ((), ("--sbp", "m*=S(0)")):
        for seed in range(1, 9):
            ran = subprocess.run([BIN, "run", path, "--input", "x=1,inf,-inf,3", "--input", "w=2,2,2,2", "--print", "all", "--mesh", "2", "--in-process", "--sbp-random", str(seed),
                                  *pins], capture_output=True, text=True)
            check(f"infinite addends, seed {seed}, {pins}", ran.returncode == 0, ran.stderr)
            found.setdefault(pins, set()).add(ran.stdout.strip().split("\n")[-1])
    product = "[2, inf, -inf, 6]"
    check("infinite addends: an infinity or NaN", found[()] == {product, "[2, nan, nan, 6]"}, found)
    check("infinite addends: none with a pin", found[("--sbp", "m*=S(0)")] == {product}, found)


STAGES = ("--mesh", "3", "--stage", "fc1*=0", "--stage", "fc2*=1", "--stage", "fc3*=2", "--micro-batches", "2")


def recomputed_stages(folder):
    """docs/gradients.md: a stage computes its own ops again, another one keeps what it was sent; the numbers are those of one device that keeps all."""
    text, last = tensor("x", [4, 3]), "x/out"
    for k, (rows, columns) in enumerate(((3, 5), (5, 5), (5, 2)), 1):
        text += f'op {{ name: "fc{k}_w" variable_conf {{ out: "out" shape {{ dim: {rows} dim: {columns} }} data_type: kFloat initializer {{ random_normal_conf {{ mean: 0 std: 0.4 }} }} }} }}\n'
        text += user(f"fc{k}", "matmul", {"a": last, "b": f"fc{k}_w/out"}) + user(f"fc{k}_exp", "exp", {"x": f"fc{k}/out_0"}) + user(f"fc{k}_act", "tanh", {"x": f"fc{k}_exp/y_0"})
        last = f"fc{k}_act/y_0"
    text += user("fc3_loss", "reduce_sum", {"input_tensor": last}, ints("axis", [0, 1], "int32")) + 'op { name: "loss" output_conf { in: "fc3_loss/output_tensor_0" out: "out" } }\n'
    path, step = os.path.join(folder, "stages.pbtxt"), os.path.join(folder, "step.pbtxt")
    with open(path, "w") as f:
        f.write(text)
    weights, x = {}, os.path.join(folder, "x.npy")
    np.save(x, np.arange(64 * 3, dtype=np.float32).reshape(64, 3) / 96 - 1)
    for name, again, run in (("one device", (), ()), ("stages", (), STAGES), ("fc1*", ("fc1*",), STAGES), ("all", ("*",), STAGES), ("but one", ("*", "!fc1_act"), STAGES),
                             ("sqrt", ("sqrt",), STAGES)):
        flags = [flag for glob in again for flag in ("--recompute", glob)]
        made = subprocess.run([BIN, "grad", path, "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", *flags, "--accumulate", "2", "-o", step], capture_output=True, text=True)
        check(f"recomputed stages, {name}: a step", made.returncode == 0, made.stderr)
        saved = os.path.join(folder, "saved.safetensors")
        steps = ("--steps", "4") if not run else ("--steps", "2", "--in-process", *run)
        ran = subprocess.run([BIN, "run", step, "--seed", "5", "--feed-dataset", f"x=@{x}", "--print", "none", "--save", saved, *steps], capture_output=True, text=True)
        check(f"recomputed stages, {name}: it runs", ran.returncode == 0, ran.stderr)
        weights[name] = weight_files.read(saved) if ran.returncode == 0 else {}
        check(f"recomputed stages, {name}: the weights of one device",
              all(k in weights[name] and np.array_equal(weights[name][k], w) for k, w in weights["one device"].items() if k.endswith("_w")), sorted(weights[name]))


def stage_links(folder):
    """docs/simulation.md: each stage, and each pair of them, uses the level that joins its ranks, or that `axes` names; the planner's seconds are those of the formulas in docs/sbp.md."""
    path = os.path.join(folder, "links.pbtxt")
    rows, width = 4096, 256
    with open(path, "w") as f:
        f.write(tensor("x", [rows, width]) + user("a1", "relu", {"x": "x"}) + user("a2", "softmax", {"in": "a1/y_0"}) + user("b1", "relu", {"x": "a2/out_0"}) +
                'op { name: "y" output_conf { in: "b1/y_0" out: "out" } }\n')
    levels = {"memory": (2, 1e-6, 1e10), "host": (4, 1e-5, 1e9), "wire": (8, 1e-4, 1e8)}
    text = {"schema": 1, "name": "levels", "device": CLUSTER["device"],
            "levels": [{"name": n, "devices": d, "latency": l, "bandwidth": b} for n, (d, l, b) in levels.items()]}
    size = rows * width * 4
    # Mesh, ranks of the stages, axes; the level inside the first stage, and the one between them.
    for mesh, a, b, axes, inside, between in (("2x4", "0-1", "2-3", None, "memory", "host"), ("2x4", "0,2", "1,3", None, "host", "host"),
                                              ("2x4", "0,4", "1,5", None, "wire", "wire"), ("8", "0-1", "6-7", None, "memory", "wire"),
                                              ("2x4", "0-1", "2-3", ["memory", "wire"], "wire", "wire"), ("2x4", "0,4", "1,5", ["memory", "wire"], "memory", "wire"),
                                              ("1x8", "0-1", "2-3", ["wire", "host"], "host", "host"), ("8x1x1", "0-1", "2-3", ["host", "wire", "wire"], "host", "host")):
        cluster = os.path.join(folder, "levels.json")
        with open(cluster, "w") as f:
            json.dump({**text, **({"axes": axes} if axes else {})}, f)
        flags = ["--cluster", cluster, "--stage", f"a*={a}", "--stage", f"b*={b}", "--sbp", "x=S(1)", "--sbp", "a1=S(1)", "--sbp", "a2=S(0)", "--sbp", "b1=S(0)"]
        name = f"stages {a} and {b} of {mesh}, axes {axes}"
        sbp = plan(path, mesh, *flags)
        for t in sbp["transitions"]:
            if t["kind"] == "all_to_all":  # one message, a half of the half stays
                latency, bandwidth = levels[inside][1:]
                check(f"{name}: inside", abs(t["seconds"] / (latency + size / 4 / bandwidth) - 1) < 1e-6, t)
            elif t["source"] != t["target"] and t["target"]:  # each receives its half as it is
                latency, bandwidth = levels[between][1:]
                check(f"{name}: between", abs(t["seconds"] / (latency + size / 2 / bandwidth) - 1) < 1e-6, t)
        kinds = [t["kind"] for t in sbp["transitions"]]
        check(f"{name}: both are there", kinds.count("all_to_all") == 1 and kinds.count("exchange") >= 1, kinds)
        made = subprocess.run([BIN, "compile", path, "--mesh", mesh, "--simulate", cluster, "--json", *flags, "-o", os.path.join(folder, "links.plan")], capture_output=True, text=True)
        check(f"{name}: simulated", made.returncode == 0, made.stderr)
        if made.returncode == 0:
            used = {link["level"] for link in json.loads(made.stdout)["simulation"]["links"]}
            check(f"{name}: the simulation uses the same", {inside, between} <= used, used)
    with open(cluster, "w") as f:
        json.dump({**text, "axes": ["memory", "wire"]}, f)
    done = subprocess.run([BIN, "show", path, "--what", "sbp", "--mesh", "8", "--cluster", cluster], capture_output=True, text=True)
    check("axes for another mesh", done.returncode == 2 and "OPC0744" in done.stderr and "the plan's mesh is 8" in done.stderr, done.stderr)
    page = subprocess.run([BIN, "report", path, "--mesh", "1x8", "--cluster", cluster, "-o", os.path.join(folder, "page.html")], capture_output=True, text=True)
    check("axes of a mesh of 1x8 in a page", page.returncode == 0 and "no planned timeline" not in page.stderr, page.stderr)


def speeds(folder):
    """docs/simulation.md: the planner's seconds of ops are the simulation's, where devices share cores, for what is no product, in other types, of ops that were measured, and of views."""
    path, cluster = os.path.join(folder, "speeds.pbtxt"), os.path.join(folder, "shared.json")
    pins = [flag for pin in ("x=S(0)", "y=S(0)") for flag in ("--sbp", pin)]
    rates, seconds = {"f32": 1e9, "f16": 1.6e10, "bf16": 4e9}, {}
    for dtype, rate, ops, mesh in (("kFloat", 1e9, {}, "2"), ("kFloat", 1e9, {}, "4"), ("kFloat16", 1.6e10, {}, "2"), ("kBFloat16", 4e9, {}, "2"), ("kDouble", 1e9, {}, "2"),
                                   ("kFloat", 1e9, {"tanh": {"overhead": 0.5, "factor": 3}, "matmul": {"overhead": 0.25, "factor": 2}}, "4")):
        with open(path, "w") as f:
            f.write(tensor("x", [1024, 64], dtype) + tensor("w", [64, 64], dtype) + user("m", "matmul", {"a": "x", "b": "w"}) + user("t", "tanh", {"x": "m/out_0"}) +
                    user("v", "expand_dims", {"in": "t/y_0"}, 'attr { key: "axis" value { at_int32: 2 } }') + 'op { name: "y" output_conf { in: "v/out_0" out: "out" } }\n')
        with open(cluster, "w") as f:
            json.dump({"schema": 1, "name": "shared",
                       "device": {"flops": rates, "efficiency": {"peak": 0.5, "half_width": 100}, "memory_bandwidth": 1e13, "memory_bytes": 1e11, "task_overhead": 1e-4},
                       "host": {"devices": 1, "cores": 2}, "levels": [{"name": "host", "devices": 8, "latency": 1e-6, "bandwidth": 1e10}], **({"ops": ops} if ops else {})}, f)
        name = f"seconds of ops of {dtype} on {mesh} devices that share two cores{', measured' if ops else ''}"
        planned = plan(path, mesh, "--cluster", cluster, *pins)["compute_seconds"]
        made = subprocess.run([BIN, "compile", path, "--mesh", mesh, "--simulate", cluster, "--no-fuse", "--json", *pins, "-o", os.path.join(folder, "speeds.plan")],
                              check=True, capture_output=True).stdout
        simulated = json.loads(made)["simulation"]["compute_seconds"]
        check(name, abs(planned / simulated - 1) < 1e-6, f"{planned} planned, {simulated} simulated")
        # By hand: 2 m k n operations at peak * w / (w + half_width), w operations for each element moved; tanh at f32's rate; two cores for all.
        share = 2 / int(mesh)
        rows = 1024 // int(mesh)
        operations, elements = 2 * rows * 64 * 64, rows * 64 * 2 + 64 * 64
        width = operations / elements
        product = operations / (rate * 0.5 * width / (width + 100))
        rest = seconds.setdefault((mesh, bool(ops)), planned * share - product * ops.get("matmul", {"factor": 1})["factor"])  # tanh and overheads: of all types the same
        check(f"{name}: the product's share", abs(planned * share / (product * ops.get("matmul", {"factor": 1})["factor"] + rest) - 1) < 1e-6, (planned, product, rest))
        check(f"{name}: what is no product", rest > 0, rest)


OUTPUTS = {"reduce_mean": "output_tensor", "slice": "y", "slice_update": "y"}


def main():
    with tempfile.TemporaryDirectory() as folder:
        cluster = os.path.join(folder, "cluster.json")
        with open(cluster, "w") as f:
            json.dump(CLUSTER, f)
        megatron(folder, cluster)
        data_parallel(folder, cluster)
        vocabulary(folder, cluster)
        on_pieces(folder, cluster)
        infinite_addends(folder)
        recomputed_stages(folder)
        speeds(folder)
        stage_links(folder)
    sys.exit(1 if failures else 0)


main()
