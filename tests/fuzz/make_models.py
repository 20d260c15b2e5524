# Writes the seed corpus of the fuzz target onnx_model: small models of each kind of thing that an import meets.
# SPDX-License-Identifier: Apache-2.0
"""usage: make_models.py FOLDER      writes FOLDER/seed-NAME; the same bytes each time"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "onnx"))
import messages as m  # noqa: E402

F32, I64 = np.float32, np.int64
X, Y = m.value("x", (2, 3)), m.value("y")


def plain(nodes, tensors=(), inputs=(X,), outputs=(Y,), **model):
    return m.model(m.graph(nodes, list(inputs), list(outputs), list(tensors)), **model)


def weights(shape, name="w"):
    return m.tensor(name, np.arange(int(np.prod(shape)), dtype=F32).reshape(shape) / 8)


def models():
    node = m.node
    yield "gemm", plain([node("Gemm", ["x", "w"], ["h"], alpha=0.5), node("Relu", ["h"], ["y"])], [weights((3, 4))])
    image = m.value("x", (1, 2, 5, 5))
    yield "conv", plain([node("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1]), node("MaxPool", ["h"], ["y"], kernel_shape=[2, 2])],
                        [weights((3, 2, 3, 3))], [image])
    yield "shapes", plain([node("Shape", ["x"], ["s"]), node("Gather", ["s", "i"], ["d"]), node("Concat", ["d", "minus"], ["t"], axis=0),
                           node("Reshape", ["x", "t"], ["y"])],
                          [m.tensor("i", np.array([1], I64)), m.tensor("minus", np.array([-1], I64))], [m.value("x", ("n", 3))])
    branch = m.graph([node("Neg", ["x"], ["t"])], [], [m.value("t")])
    yield "if", plain([node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)], [m.tensor("c", np.array(True))])
    body = m.graph([node("Add", ["a", "a"], ["b"]), node("Identity", ["go"], ["on"])], [m.value("k"), m.value("go"), m.value("a")],
                   [m.value("on"), m.value("b")])
    yield "loop", plain([node("Loop", ["n", "", "x"], ["y"], body=body)], [m.tensor("n", np.array(3, I64))])
    scan = m.graph([node("Add", ["s", "e"], ["t"]), node("Identity", ["t"], ["o"])], [m.value("s"), m.value("e")], [m.value("t"), m.value("o")])
    yield "scan", plain([node("Scan", ["z", "x"], ["f", "y"], body=scan, num_scan_inputs=1)], [m.tensor("z", np.zeros(3, F32))])
    yield "sequence", plain([node("SplitToSequence", ["x"], ["q"], axis=1), node("ConcatFromSequence", ["q"], ["y"], axis=0)])
    yield "quantise", plain([node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])],
                            [m.tensor("s", np.array(0.1, F32)), m.tensor("z", np.array(3, np.uint8))])
    yield "lstm", plain([node("LSTM", ["x", "w", "r"], ["", "y"], hidden_size=2)], [weights((1, 8, 3)), weights((1, 8, 2), "r")],
                        [m.value("x", (2, 1, 3))])
    yield "resize", plain([node("Resize", ["x", "", "s"], ["y"], mode="linear")], [m.tensor("s", np.array([1, 1, 2, 1.5], F32))], [image])
    yield "einsum", plain([node("Einsum", ["x", "w"], ["y"], equation="ij,kj->ik")], [weights((4, 3))])
    yield "suppression", plain([node("NonMaxSuppression", ["b", "s", "n"], ["y"])],
                               [weights((1, 4, 4), "b"), weights((1, 1, 4), "s"), m.tensor("n", np.array(2, I64))])
    function = m.field(1, "F") + m.field(4, "a") + m.field(5, "b") + m.field(7, node("Add", ["a", "a"], ["b"])) + m.field(10, "l")
    yield "function", plain([node("F", ["x"], ["y"], domain="l")], functions=[function], domains=["l"])
    yield "external", plain([node("Add", ["x", "w"], ["y"])], [m.external("w", (2, 3), location="w.bin", offset=8)])
    yield "contributed", plain([node("FusedMatMul", ["x", "w"], ["h"], domain="com.microsoft", transB=1),
                                node("QuickGelu", ["h"], ["y"], domain="com.microsoft")], [weights((4, 3))], domains=["com.microsoft"])
    sparse = m.field(1, m.tensor("w", np.array([1, 2], F32))) + m.field(2, m.tensor("", np.array([1, 4], I64))) + m.field(3, 2) + m.field(3, 3)
    yield "sparse", m.model(m.graph([node("Add", ["x", "w"], ["y"])], [X], [Y]) + m.field(15, sparse))
    heads = [m.value(name, (1, 2, 3, 4)) for name in "qkv"]
    yield "attention", plain([node("Attention", ["q", "k", "v", "", "", "", "n"], ["y"], is_causal=1, left_window_size=1, softcap=0.5)],
                             inputs=[*heads, m.value("n", (1,), 7)], opset=25)
    rois = m.tensor("r", np.array([[0, 0, 3, 3], [1, 1, 4, 2]], F32))
    yield "regions", plain([node("RoiAlign", ["x", "r", "i"], ["h"], mode="max", output_height=2, output_width=2),
                            node("AveragePool", ["h"], ["y"], kernel_shape=[1, 1], dilations=[2, 1])], [rois, m.tensor("i", np.array([0, 0], I64))], [image])
    yield "random", plain([node("RandomNormalLike", ["x"], ["h"], seed=1.0), node("Multinomial", ["h"], ["y"], sample_size=3)])
    yield "scatter", plain([node("TensorScatter", ["x", "w", "i"], ["y"], mode="circular", axis=1)],
                           [weights((2, 2)), m.tensor("i", np.array([2, 0], I64))], opset=24)


os.makedirs(sys.argv[1], exist_ok=True)
for name, data in models():
    with open(os.path.join(sys.argv[1], "seed-" + name), "wb") as f:
        f.write(data)
