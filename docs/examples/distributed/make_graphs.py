#!/usr/bin/env python3
# Writes graphs to plan for many devices: a transformer block, GPT with a tied head and a loss. No weights; the standard library only.
#
#   python3 make_graphs.py block --batch 4 --sequence 128 --hidden 1024 --heads 16 > block.pbtxt
#   python3 make_graphs.py gpt --layers 12 --hidden 1024 --heads 16 --vocabulary 51200 > gpt.pbtxt
#   opc grad gpt.pbtxt --loss loss --optimizer sgd --lr 0.1 -o gpt_train.pbtxt
#   opc show gpt_train.pbtxt --what sbp --mesh 8

import argparse
import sys


class Graph:
    def __init__(self):
        self.lines = []

    def input(self, name, shape, dtype="kFloat"):
        dims = " ".join(f"dim: {d}" for d in shape)
        self.lines.append(f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {dtype} }} }} }}')
        return f"{name}/out"

    def variable(self, name, shape, std=0.02):
        dims = " ".join(f"dim: {d}" for d in shape)
        initializer = f"random_normal_conf {{ std: {std} }}" if std else "constant_conf { value: 0 }"
        if std == 1:
            initializer = "constant_conf { value: 1 }"
        self.lines.append(
            f'op {{ name: "{name}" variable_conf {{ out: "out" shape {{ {dims} }} data_type: kFloat initializer {{ {initializer} }} }} }}')
        return f"{name}/out"

    def op(self, name, kind, inputs, output="out", **attrs):
        text = f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}"'
        grouped = {}
        for key, tensor in inputs:
            grouped.setdefault(key, []).append(tensor)
        for key, tensors in grouped.items():
            text += f' input {{ key: "{key}" value {{ ' + " ".join(f's: "{t}"' for t in tensors) + " } }"
        outputs = output if isinstance(output, list) else [output]
        for key in outputs:
            text += f' output {{ key: "{key}" value {{ s: "{name}/{key}_0" }} }}'
        for key, value in attrs.items():
            text += f' attr {{ key: "{key}" value {{ {value} }} }}'
        self.lines.append(text + " } }")
        return f"{name}/{outputs[0]}_0" if len(outputs) == 1 else [f"{name}/{k}_0" for k in outputs]

    def output(self, name, tensor):
        self.lines.append(f'op {{ name: "{name}" output_conf {{ in: "{tensor}" out: "out" }} }}')

    # --- parts of networks
    def linear(self, name, x, inputs, outputs):
        w = self.variable(f"{name}_w", [inputs, outputs])
        b = self.variable(f"{name}_b", [outputs], 0)
        y = self.op(f"{name}_matmul", "matmul", [("a", x), ("b", w)])
        return self.op(f"{name}_bias", "bias_add", [("a", y), ("b", b)], axis="at_int32: 1")

    def layer_norm(self, name, x, width):
        gamma = self.variable(f"{name}_gamma", [width], 1)
        beta = self.variable(f"{name}_beta", [width], 0)
        return self.op(name, "layer_norm", [("x", x), ("gamma", gamma), ("beta", beta)], ["y", "mean", "inv_variance"],
                       center="at_bool: true", scale="at_bool: true", begin_norm_axis="at_int64: 1",
                       begin_params_axis="at_int64: 1", epsilon="at_double: 1e-5")[0]

    def heads(self, name, x, batch, sequence, heads, width):
        shape = " ".join(f"dim: {d}" for d in (batch, sequence, heads, width))
        x = self.op(f"{name}_split", "reshape", [("in", x)], shape=f"at_shape {{ {shape} }}")
        return self.op(f"{name}_turn", "transpose", [("input", x)], "output", perm="at_list_int32 { val: 0 val: 2 val: 1 val: 3 }")

    def attention(self, name, x, batch, sequence, hidden, heads):
        width = hidden // heads
        q, k, v = (self.heads(f"{name}_{p}", self.linear(f"{name}_{p}", x, hidden, hidden), batch, sequence, heads, width)
                   for p in "qkv")
        scores = self.op(f"{name}_scores", "batch_matmul", [("a", q), ("b", k)], transpose_b="at_bool: true",
                         alpha=f"at_double: {width ** -0.5}")
        weights = self.op(f"{name}_softmax", "softmax", [("in", scores)])
        mixed = self.op(f"{name}_mixed", "batch_matmul", [("a", weights), ("b", v)])
        back = self.op(f"{name}_back", "transpose", [("input", mixed)], "output",
                       perm="at_list_int32 { val: 0 val: 2 val: 1 val: 3 }")
        flat = self.op(f"{name}_join", "reshape", [("in", back)],
                       shape=f"at_shape {{ dim: {batch * sequence} dim: {hidden} }}")
        return self.linear(f"{name}_proj", flat, hidden, hidden)

    def block(self, name, x, batch, sequence, hidden, heads):
        a = self.attention(f"{name}_attn", self.layer_norm(f"{name}_ln1", x, hidden), batch, sequence, hidden, heads)
        x = self.op(f"{name}_add1", "add_n", [("in", x), ("in", a)])
        m = self.linear(f"{name}_fc1", self.layer_norm(f"{name}_ln2", x, hidden), hidden, 4 * hidden)
        m = self.op(f"{name}_gelu", "gelu", [("in", m)])
        m = self.linear(f"{name}_fc2", m, 4 * hidden, hidden)
        return self.op(f"{name}_add2", "add_n", [("in", x), ("in", m)])



def block(a):
    g = Graph()
    x = g.input("x", [a.batch * a.sequence, a.hidden])
    for layer in range(a.layers):
        x = g.block(f"layer{layer}", x, a.batch, a.sequence, a.hidden, a.heads)
    g.output("y", x)
    g.output("loss", g.op("mean", "reduce_mean", [("input_tensor", x)], "output_tensor", axis="at_list_int32 { val: 0 val: 1 }",
                          keepdims="at_bool: false"))
    return g


def gpt(a):
    g = Graph()
    tokens = g.input("tokens", [a.batch, a.sequence], "kInt64")
    labels = g.input("labels", [a.batch * a.sequence], "kInt64")
    table = g.variable("embedding", [a.vocabulary, a.hidden])
    x = g.op("embed", "gather", [("in", table), ("indices", tokens)], axis="at_int64: 0")
    x = g.op("embed_flat", "reshape", [("in", x)], shape=f"at_shape {{ dim: {a.batch * a.sequence} dim: {a.hidden} }}")
    for layer in range(a.layers):
        x = g.block(f"layer{layer}", x, a.batch, a.sequence, a.hidden, a.heads)
    x = g.layer_norm("final_ln", x, a.hidden)
    logits = g.op("head", "matmul", [("a", x), ("b", table)], transpose_b="at_bool: true")
    losses = g.op("cross_entropy", "sparse_softmax_cross_entropy", [("prediction", logits), ("label", labels)], ["prob", "out"],
                  depth=f"at_int64: {a.vocabulary}")[1]
    g.output("loss", g.op("mean_loss", "reduce_mean", [("input_tensor", losses)], "output_tensor",
                          axis="at_list_int32 { val: 0 }", keepdims="at_bool: false"))
    return g


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", choices=["block", "gpt"])
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--sequence", type=int, default=128)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--layers", type=int, default=1)
    p.add_argument("--vocabulary", type=int, default=51200)
    a = p.parse_args()
    sys.stdout.write("\n".join({"block": block, "gpt": gpt}[a.model](a).lines) + "\n")


main()
