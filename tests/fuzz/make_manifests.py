# Writes seeds of the fuzz target op_manifest: manifests as g.save() in Python writes them, each with its graph.
# SPDX-License-Identifier: Apache-2.0
"""usage: PYTHONPATH=$(opc python --path) make_manifests.py FOLDER      writes FOLDER/op_manifest/seed-NAME"""
import os
import sys
import tempfile

import opc


@opc.op("t::leaky", sbp=opc.elementwise, like="x")
def leaky(x, *, alpha: float = 0.25):
    raise NotImplementedError("nothing here runs")


@leaky.grad(needs=["x", "y"])
def _(dy, *, x, y, alpha):
    raise NotImplementedError


@opc.op("t::cube", sbp=opc.elementwise, like="x")
def cube(x):
    raise NotImplementedError


@cube.grad_graph
def _(g, fw, dy):
    x = fw.input("x")
    slope = g.op("multiply", x=g.op("multiply", x=x, y=x), y=dy)
    return {"x": g.op("add_n", **{"in": [slope, slope, slope]})}


@opc.op("t::stack", shape={"y": ("(xs[0] + n) // 2", "n * 2 - 1")}, dtype={"y": "float64"}, variadic={"xs": 1}, optional=("bias",))
def stack(xs, bias=None, *, n: int = 3):
    raise NotImplementedError


@opc.op("t::twice")
def twice(x):
    raise NotImplementedError


@twice.infer
def _(x):
    return opc.Spec((2 * x.shape[0], *x.shape[1:]), x.dtype)


@opc.op("t::count", like="x", aux=["seen"], side_effect=True)
def count(x, seen):
    raise NotImplementedError


@opc.op("t::apart", like="x", inplace={"x": "y"}, isolation="process", timeout_s=2)
def apart(x):
    raise NotImplementedError


@opc.op("t::both", outputs=("low", "high"), shape={"low": (), "high": ("x[-1]",)}, non_differentiable=("high",))
def both(x):
    raise NotImplementedError


@both.grad
def _(dlow, dhigh, *, x):
    raise NotImplementedError


SEEDS = {
    "leaky": lambda g, x: leaky(x, alpha=0.5),
    "cube": lambda g, x: cube(cube(x)),
    "stack": lambda g, x: stack([x, x], n=2),
    "twice": lambda g, x: twice(x),
    "count": lambda g, x: count(x, g.variable("s", (1,), init=0, trainable=False)),
    "apart": lambda g, x: apart(opc.ops.relu(x)),
    "both": lambda g, x: both(x)[0],
}


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for name, build in SEEDS.items():
        g = opc.Graph(name)
        g.output("y", build(g, g.input("x", (4, 3))))
        with tempfile.TemporaryDirectory() as scratch, open(os.path.join(folder, "seed-" + name), "w", encoding="utf-8") as seed:
            g.save(os.path.join(scratch, "g.pbtxt"))
            for part, between in (("g.ops.pbtxt", "\n====\n"), ("g.pbtxt", "")):
                with open(os.path.join(scratch, part), encoding="utf-8") as f:
                    seed.write(f.read().rstrip("\n") + between)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(os.path.join(sys.argv[1], "op_manifest"))
