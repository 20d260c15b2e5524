# Makes tests/conformance/cases: small networks as op records, with inputs, and with outputs and gradients by PyTorch, f64.
# SPDX-License-Identifier: Apache-2.0
"""usage: make_cases.py        needs numpy and PyTorch; writes cases/NAME/{case.json,*.npy} (docs/testing.md)"""
import json
import os

import numpy as np
import torch
import torch.nn.functional as F

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")


def attr(kind, value):
    return {"type": f"at_{kind}", "value": value}


def op(kind, inputs, outputs, **attrs):
    many = lambda d: {k: v if isinstance(v, list) else [v] for k, v in d.items()}  # noqa: E731
    return {"op_type_name": kind, "input": many(inputs), "output": many(outputs), "attr": attrs}


def conv(inputs, out, filters, kernel, pad, stride=1, dilation=1, groups=1):
    return op("conv2d", inputs, {"out": out}, filters=attr("int32", filters), padding_before=attr("list_int32", [pad, pad]),
              data_format=attr("string", "channels_first"), kernel_size=attr("list_int32", [kernel, kernel]),
              strides=attr("list_int32", [stride, stride]), dilation_rate=attr("list_int32", [dilation, dilation]), groups=attr("int32", groups))


def matmul(a, b, out, transpose_b=False, kind="matmul"):
    return op(kind, {"a": a, "b": b}, {"out": out}, transpose_b=attr("bool", transpose_b))


def save(name, inputs, records, outputs, tensors, wide_inputs=None, constant=()):
    """inputs: name -> f32 or integer array; outputs: f64 tensors; tensors: their names in the records. Of wide_inputs, which
    the outputs were computed from, all floating ones but the constant get a gradient."""
    folder = os.path.join(FOLDER, name)
    os.makedirs(folder, exist_ok=True)
    case = {"id": name, "inputs": [], "outputs": [], "rtol": 1e-4, "atol_forward": 2e-6, "oneflow": records}
    for key, value in inputs.items():
        np.save(os.path.join(folder, f"in_{key}.npy"), value)
        case["inputs"].append({"name": key, "dtype": str(value.dtype), "shape": list(value.shape), "file": f"in_{key}.npy"})
    backward(folder, case, outputs, wide_inputs or {}, constant)
    for i, (value, tensor) in enumerate(zip(outputs, tensors)):
        value = np.asarray(value.detach() if torch.is_tensor(value) else value)
        if value.dtype == np.float64:
            value = value.astype(np.float32)
        np.save(os.path.join(folder, f"out_{i}.npy"), value)
        case["outputs"].append({"index": i, "tensor": tensor, "dtype": str(value.dtype), "shape": list(value.shape), "file": f"out_{i}.npy"})
    with open(os.path.join(folder, "case.json"), "w") as f:
        json.dump(case, f, indent=1)
        f.write("\n")


def backward(folder, case, outputs, wide_inputs, constant):
    """Random upstream gradients of the floating outputs, and what comes of them."""
    rng, loss = np.random.default_rng(len(case["id"])), 0
    for i, value in enumerate(outputs):
        if torch.is_tensor(value) and value.requires_grad:
            dout = rng.standard_normal(value.shape).astype(np.float32)
            np.save(os.path.join(folder, f"dout_{i}.npy"), dout)
            case.setdefault("grad_outputs", []).append({"index": i, "file": f"dout_{i}.npy"})
            loss = loss + (value * torch.from_numpy(np.asarray(dout)).double()).sum()
    if not torch.is_tensor(loss):
        return
    loss.backward()
    case["atol_grad"] = 1e-5
    for key, t in wide_inputs.items():
        if t.requires_grad and key not in constant:
            np.save(os.path.join(folder, f"din_{key}.npy"), t.grad.numpy().astype(np.float32))
            case.setdefault("grad_inputs", []).append({"name": key, "file": f"din_{key}.npy"})


def draw(rng, **shapes):
    return {k: rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()}


def wide(inputs):
    return {k: torch.from_numpy(v).double().requires_grad_() if v.dtype == np.float32 else torch.from_numpy(v) for k, v in inputs.items()}


def convolution_block(rng):
    i = draw(rng, x=(2, 4, 7, 6), w=(6, 2, 3, 3), b=(6,), gamma=(6,), beta=(6,), mean=(6,))
    i["var"] = rng.uniform(0.5, 2, 6).astype(np.float32)
    t = wide(i)
    y = F.conv2d(t["x"], t["w"], t["b"], stride=2, padding=1, groups=2)
    channel = lambda v: v[:, None, None]  # noqa: E731  (F.batch_norm has no gradient by its statistics)
    y = (y - channel(t["mean"])) / channel(t["var"] + 1e-5).sqrt() * channel(t["gamma"]) + channel(t["beta"])
    y = F.max_pool2d(torch.relu(y), 2, 1)
    records = [
        conv({"in": "x", "weight": "w", "bias": "b"}, "c", 6, 3, 1, stride=2, groups=2),
        op("normalization", {"x": "c", "moving_mean": "mean", "moving_variance": "var", "gamma": "gamma", "beta": "beta"}, {"y": "n"},
           axis=attr("int32", 1), epsilon=attr("float", 1e-5), training=attr("bool", False), momentum=attr("float", 0.9)),
        op("relu", {"x": "n"}, {"y": "r"}),
        op("max_pool_2d", {"x": "r"}, {"y": "y"}, padding=attr("list_int32", [0, 0]), data_format=attr("string", "channels_first"),
           kernel_size=attr("list_int32", [2, 2]), stride=attr("list_int32", [1, 1]), dilation=attr("list_int32", [1, 1])),
    ]
    save("convolution_block", i, records, [y], ["y"], t)


def dilated_convolution(rng):
    i = draw(rng, x=(1, 3, 9, 8), w=(4, 3, 3, 2))
    t = wide(i)
    record = conv({"in": "x", "weight": "w"}, "y", 4, 3, 0)
    record["attr"].update(kernel_size=attr("list_int32", [3, 2]), padding_before=attr("list_int32", [2, 1]), dilation_rate=attr("list_int32", [2, 3]))
    save("dilated_convolution", i, [record], [F.conv2d(t["x"], t["w"], padding=(2, 1), dilation=(2, 3))], ["y"], t)


def attention(rng):
    """One attention layer with 2 heads of size 4 on [2, 5, 8], residual and layer norm: what a transformer layer needs."""
    i = draw(rng, x=(2, 5, 8), wq=(8, 8), wk=(8, 8), wv=(8, 8), wo=(8, 8), gamma=(8,), beta=(8,))
    t = wide(i)
    heads = lambda m: m.reshape(2, 5, 2, 4).permute(0, 2, 1, 3)  # noqa: E731
    q, k, v = (heads(t["x"] @ t[w].T) for w in ("wq", "wk", "wv"))
    p = F.softmax(q @ k.transpose(-1, -2) * 0.5, dim=-1)
    o = (p @ v).permute(0, 2, 1, 3).reshape(2, 5, 8) @ t["wo"].T
    y = F.layer_norm(t["x"] + o, (8,), t["gamma"], t["beta"], 1e-5)
    records = []
    for n in "qkv":
        records += [
            matmul("x", f"w{n}", f"{n}1", True, "broadcast_matmul"),
            op("reshape", {"in": f"{n}1"}, {"out": f"{n}2"}, shape=attr("shape", [2, 5, 2, 4])),
            op("transpose", {"input": f"{n}2"}, {"output": n}, perm=attr("list_int32", [0, 2, 1, 3])),
        ]
    records += [
        matmul("q", "k", "s", True, "batch_matmul"),
        op("scalar_mul", {"in": "s"}, {"out": "s2"}, has_float_operand=attr("bool", True), float_operand=attr("double", 0.5)),
        op("softmax", {"in": "s2"}, {"out": "p"}),
        matmul("p", "v", "o1", False, "batch_matmul"),
        op("transpose", {"input": "o1"}, {"output": "o2"}, perm=attr("list_int32", [0, 2, 1, 3])),
        op("reshape", {"in": "o2"}, {"out": "o3"}, shape=attr("shape", [2, 5, -1])),
        matmul("o3", "wo", "o4", True, "broadcast_matmul"),
        op("add_n", {"in": ["x", "o4"]}, {"out": "r"}),
        op("layer_norm", {"x": "r", "gamma": "gamma", "beta": "beta"}, {"y": "y", "mean": "mu", "inv_variance": "iv"},
           center=attr("bool", True), scale=attr("bool", True), begin_norm_axis=attr("int64", 2), begin_params_axis=attr("int64", 2), epsilon=attr("double", 1e-5)),
    ]
    save("attention", i, records, [y, p], ["y", "p"], t)


def classifier(rng):
    """Two dense layers, GELU, log softmax and argmax, on integer-looking and shared tensors."""
    i = draw(rng, x=(7, 6), w1=(9, 6), b1=(9,), w2=(9, 4))
    t = wide(i)
    h = F.gelu(t["x"] @ t["w1"].T + t["b1"])
    logp = F.log_softmax(h @ t["w2"], dim=-1)
    records = [
        matmul("x", "w1", "h1", True),
        op("bias_add", {"a": "h1", "b": "b1"}, {"out": "h2"}, axis=attr("int32", 1)),
        op("gelu", {"in": "h2"}, {"out": "h"}),
        matmul("h", "w2", "z"),
        op("log_softmax", {"in": "z"}, {"prob": "y"}),
        op("argmax", {"in": "z"}, {"out": "best"}),
    ]
    save("classifier", i, records, [logp, logp.argmax(-1).numpy()], ["y", "best"], t)


def broadcasting_and_masks(rng):
    i = draw(rng, x=(3, 1, 5), y=(4, 1), z=(5,))
    t = wide(i)
    keep = t["x"] + t["y"] > t["z"]
    out = torch.where(keep, t["x"] * t["y"], t["z"].expand(3, 4, 5))
    records = [
        op("broadcast_add", {"x": "x", "y": "y"}, {"z": "s"}),
        op("broadcast_greater", {"x": "s", "y": "z"}, {"z": "keep"}),
        op("broadcast_mul", {"x": "x", "y": "y"}, {"z": "m"}),
        op("where", {"condition": "keep", "x": "m", "y": "z"}, {"out": "w"}),
        op("reduce_mean", {"input_tensor": "w"}, {"output_tensor": "mean"}, axis=attr("list_int32", [0, 2]), keepdims=attr("bool", False)),
    ]
    save("broadcasting_and_masks", i, records, [out, out.mean(dim=(0, 2))], ["w", "mean"], t)


def embedding_and_slices(rng):
    i = draw(rng, table=(10, 6))
    i["ids"] = rng.integers(0, 10, (3, 4)).astype(np.int64)
    t = wide(i)
    e = t["table"][t["ids"]]
    y = torch.cat([e[:, 1:4:2, :], e[:, :1, :]], dim=1).flatten(1)
    step = lambda a, b, s: dict(start=attr("list_int64", a), stop=attr("list_int64", b), step=attr("list_int64", s))  # noqa: E731
    records = [
        op("gather", {"in": "table", "indices": "ids"}, {"out": "e"}, axis=attr("int64", 0)),
        op("slice", {"x": "e"}, {"y": "a"}, **step([0, 1, 0], [3, 4, 6], [1, 2, 1])),
        op("slice", {"x": "e"}, {"y": "b"}, **step([0, 0, 0], [3, 1, 6], [1, 1, 1])),
        op("cat", {"in": ["a", "b"]}, {"out": "c"}, axis=attr("int64", 1), max_dim_size=attr("int64", 3)),
        op("flatten", {"in": "c"}, {"out": "y"}, start_dim=attr("int32", 1), end_dim=attr("int32", -1)),
    ]
    save("embedding_and_slices", i, records, [y], ["y"], t)


def scalars(rng):
    """Rank-0 tensors and a tensor with no elements."""
    i = draw(rng, x=(2, 3), empty=(0, 3))
    t = wide(i)
    s = t["x"].sum()
    records = [
        op("reduce_sum", {"input_tensor": "x"}, {"output_tensor": "s"}, axis=attr("list_int32", [0, 1]), keepdims=attr("bool", False)),
        op("broadcast_div", {"x": "x", "y": "s"}, {"z": "d"}),
        op("cat", {"in": ["empty", "d"]}, {"out": "c"}, axis=attr("int64", 0), max_dim_size=attr("int64", 2)),
        op("reduce_sum", {"input_tensor": "empty"}, {"output_tensor": "nothing"}, axis=attr("list_int32", [0]), keepdims=attr("bool", True)),
        op("relu", {"x": "empty"}, {"y": "still_empty"}),
    ]
    save("scalars", i, records, [s, torch.cat([t["empty"], t["x"] / s]), t["empty"].sum(0, keepdim=True), torch.relu(t["empty"])], ["s", "c", "nothing", "still_empty"], t)


def products_with_zeros(rng):
    """Where the derivative of a product may not divide by the factor."""
    i = draw(rng, x=(4, 6))
    i["x"][0, 2] = i["x"][1, 0] = i["x"][1, 4] = i["x"][3, 5] = 0
    i["z"], i["at"] = rng.standard_normal((4, 3)).astype(np.float32), rng.integers(0, 3, (4, 6)).astype(np.int64)
    t = wide(i)
    hits = t["at"][:, None, :] == torch.arange(3)[:, None]
    scattered = t["z"] * torch.where(hits, t["x"][:, None, :], torch.ones(()).double()).prod(2)
    records = [
        op("cumprod", {"x": "x"}, {"y": "running"}, dim=attr("int64", 1)),
        op("reduce_prod", {"input_tensor": "x"}, {"output_tensor": "rows"}, axis=attr("list_int32", [1]), keepdims=attr("bool", False)),
        op("reduce_prod", {"input_tensor": "x"}, {"output_tensor": "columns"}, axis=attr("list_int32", [0]), keepdims=attr("bool", True)),
        op("dim_scatter_mul", {"input": "z", "index": "at", "src": "x"}, {"output": "scattered"}, dim=attr("int32", 1)),
    ]
    save("products_with_zeros", i, records, [t["x"].cumprod(1), t["x"].prod(1), t["x"].prod(0, keepdim=True), scattered], ["running", "rows", "columns", "scattered"], t)


def trained_convolutions(rng):
    """Statistics of the batch, groups, both kinds of convolution and pooling."""
    i = draw(rng, x=(3, 4, 6, 6), w=(6, 2, 3, 3), b=(6,), gamma=(6,), beta=(6,), mean=(6,), u=(6, 2, 2, 2))
    i["var"] = rng.uniform(0.5, 2, 6).astype(np.float32)
    t = wide(i)
    c = F.conv2d(t["x"], t["w"], t["b"], padding=1, groups=2)
    n = F.silu(F.batch_norm(c, None, None, t["gamma"], t["beta"], True, 0, 1e-5))
    d = F.conv_transpose2d(F.avg_pool2d(n, 2), t["u"], stride=2)
    y = F.adaptive_avg_pool2d(d, (4, 4))
    records = [
        conv({"in": "x", "weight": "w", "bias": "b"}, "c", 6, 3, 1, groups=2),
        op("normalization", {"x": "c", "moving_mean": "mean", "moving_variance": "var", "gamma": "gamma", "beta": "beta"}, {"y": "n"},
           axis=attr("int32", 1), epsilon=attr("float", 1e-5), training=attr("bool", True), momentum=attr("float", 0.9)),
        op("silu", {"in": "n"}, {"out": "s"}),
        op("avg_pool_2d", {"x": "s"}, {"y": "p"}, padding=attr("list_int32", [0, 0]), data_format=attr("string", "channels_first"), kernel_size=attr("list_int32", [2, 2]),
           stride=attr("list_int32", [2, 2])),
        op("deconv2d", {"in": "p", "weight": "u"}, {"out": "d"}, filters=attr("int32", 2), padding_before=attr("list_int32", [0, 0]), data_format=attr("string", "channels_first"),
           kernel_size=attr("list_int32", [2, 2]), output_padding=attr("list_int32", [0, 0]), strides=attr("list_int32", [2, 2]), dilation_rate=attr("list_int32", [1, 1]),
           groups=attr("int32", 1)),
        op("adaptive_avg_pool2d", {"x": "d"}, {"y": "y"}, data_format=attr("string", "channels_first"), output_size=attr("list_int64", [4, 4])),
    ]
    save("trained_convolutions", i, records, [y], ["y"], t, constant=("mean", "var"))


def losses(rng):
    i = draw(rng, z=(5, 4), s=(5, 4))
    i["t"], i["w"], i["p"] = rng.uniform(0, 1, (5, 4)).astype(np.float32), rng.uniform(0.5, 2, (5, 4)).astype(np.float32), rng.uniform(0.5, 2, 4).astype(np.float32)
    i["label"] = rng.integers(0, 4, 5).astype(np.int64)
    t = wide(i)
    ce = F.cross_entropy(t["z"], t["label"], reduction="none")
    # As F.binary_cross_entropy_with_logits, which has no gradient by its weights.
    bce = t["w"] * (t["p"] * t["t"] * F.softplus(-t["s"]) + (1 - t["t"]) * F.softplus(t["s"]))
    kl = F.kl_div(F.log_softmax(t["z"], -1), t["t"], reduction="none")
    l1 = F.smooth_l1_loss(t["s"], t["t"], reduction="none", beta=0.5)
    records = [
        op("sparse_softmax_cross_entropy", {"prediction": "z", "label": "label"}, {"prob": "prob", "out": "ce"}, depth=attr("int64", 4)),
        op("binary_cross_entropy_with_logits", {"input": "s", "target": "t", "weight": "w", "pos_weight": "p"}, {"out": "bce"}, has_pos_weight=attr("bool", True)),
        op("log_softmax", {"in": "z"}, {"prob": "logp"}),
        op("kl_div_loss", {"input": "logp", "target": "t"}, {"out": "kl"}, log_target=attr("bool", False)),
        op("smooth_l1_loss", {"input": "s", "target": "t"}, {"out": "l1"}, beta=attr("float", 0.5)),
    ]
    save("losses", i, records, [ce, bce, kl, l1], ["ce", "bce", "kl", "l1"], t)


def fused_attention(rng):
    """The fused op against PyTorch's composite: causal, and with a mask that is learned."""
    i = draw(rng, q=(2, 3, 7, 4), k=(2, 3, 7, 4), v=(2, 3, 7, 5), bias=(3, 7, 7))
    t = wide(i)
    s = t["q"] @ t["k"].transpose(-1, -2) * 0.5
    causal = torch.softmax(s.masked_fill(torch.ones(7, 7).triu(1) > 0, -torch.inf), -1) @ t["v"]
    biased = torch.softmax(s + t["bias"], -1) @ t["v"]
    records = [
        op("scaled_dot_product_attention", {"query": "q", "key": "k", "value": "v"}, {"out": "causal", "log_sum": "l1"}, causal=attr("bool", True)),
        op("scaled_dot_product_attention", {"query": "q", "key": "k", "value": "v", "mask": "bias"}, {"out": "biased", "log_sum": "l2"}, scale=attr("double", 0.5)),
    ]
    save("fused_attention", i, records, [causal, biased], ["causal", "biased"], t)


def pooled_ties(rng):
    """Windows with several largest elements: the first one has the gradient."""
    i = {"x": rng.integers(0, 3, (2, 2, 6, 26)).astype(np.float32)}
    i["x"][1, 1, 3, 7], i["x"][0, 1, :2, :4] = 1e30, -1e30
    t = wide(i)
    record = op("max_pool_2d", {"x": "x"}, {"y": "y"}, data_format=attr("string", "channels_first"), kernel_size=attr("list_int32", [2, 2]))
    save("pooled_ties", i, [record], [F.max_pool2d(t["x"], 2)], ["y"], t)


def main():
    made = [convolution_block, dilated_convolution, attention, classifier, broadcasting_and_masks, embedding_and_slices, scalars]
    for seed, make in enumerate(made + [products_with_zeros, trained_convolutions, losses, fused_attention, pooled_ties]):
        make(np.random.default_rng(seed))


if __name__ == "__main__":
    main()
