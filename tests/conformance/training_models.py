# The graphs of the training tests, as text: a perceptron, a transformer encoder, a recurrent net, and one variable for each optimizer.
# SPDX-License-Identifier: Apache-2.0
"""numpy is not needed here: the graphs hold shapes and attributes only. `dtype` is kFloat or kDouble."""

MLP = {"batch": 8, "sizes": (20, 16, 12), "classes": 5}
ENCODER = {"batch": 3, "length": 5, "width": 16, "heads": 2, "hidden": 32, "layers": 2, "classes": 7}
RECURRENT = {"batch": 3, "length": 4, "numbers": 5, "hidden": 6, "classes": 4}


class Graph:
    def __init__(self, dtype):
        self.dtype, self.text, self.variables = dtype, [], []

    def dims(self, shape):
        return "shape { " + " ".join(f"dim: {d}" for d in shape) + " }"

    def input(self, name, shape, dtype=None):
        self.text.append(f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ {self.dims(shape)} data_type: {dtype or self.dtype} }} }} }}')
        return f"{name}/out"

    def variable(self, name, shape, dtype=None, extra=""):
        self.text.append(f'op {{ name: "{name}" variable_conf {{ out: "out" {self.dims(shape)} data_type: {dtype or self.dtype} {extra} }} }}')
        self.variables.append((name, shape))
        return f"{name}/out"

    def output(self, name, tensor):
        self.text.append(f'op {{ name: "{name}" output_conf {{ in: "{tensor}" out: "out" }} }}')

    def op(self, name, kind, inputs, output="out", more=(), **attrs):
        """`attrs`: name -> (kind of AttrValue, text)."""
        line = f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}"'
        for key, tensor in inputs.items():
            line += f' input {{ key: "{key}" value {{ s: "{tensor}" }} }}'
        for key in ([output] if output else []) + list(more):
            line += f' output {{ key: "{key}" value {{ s: "{name}/{key}_0" }} }}'
        for key, (what, value) in attrs.items():
            line += f' attr {{ key: "{key}" value {{ at_{what}{" " if value.startswith("{") else ": "}{value} }} }}'
        self.text.append(line + " } }")
        return f"{name}/{output}_0" if output else None

    def linear(self, name, x, rank, depth, features, bias=True):
        w = self.variable(f"{name}_w", (depth, features))
        y = self.op(f"{name}_product", "matmul" if rank == 2 else "broadcast_matmul", {"a": x, "b": w})
        if not bias:
            return y
        return self.op(name, "bias_add", {"a": y, "b": self.variable(f"{name}_b", (features,))}, axis=("int32", str(rank - 1)))

    def reshape(self, name, x, shape):
        return self.op(name, "reshape", {"in": x}, shape=("shape", "{ " + " ".join(f"dim: {d}" for d in shape) + " }"))

    def cross_entropy(self, logits, shape):
        label = self.input("label", shape, "kInt64")
        each = self.op("cross_entropy", "sparse_softmax_cross_entropy", {"prediction": logits, "label": label}, more=["prob"])
        mean = self.op("mean_loss", "reduce_mean", {"input_tensor": each}, "output_tensor", axis=("list_int32", "{ " + " ".join(f"val: {d}" for d in range(len(shape))) + " }"))
        self.output("loss", mean)


def mlp(dtype):
    g, m = Graph(dtype), MLP
    x = g.input("x", (m["batch"], m["sizes"][0]))
    for i in range(1, len(m["sizes"])):
        x = g.op(f"relu{i}", "relu", {"x": g.linear(f"fc{i}", x, 2, m["sizes"][i - 1], m["sizes"][i])}, "y")
    g.cross_entropy(g.linear("head", x, 2, m["sizes"][-1], m["classes"]), (m["batch"],))
    return g


def encoder(dtype):
    """Pre-norm layers of self-attention and a GELU network. Keys have no bias: its gradient is zero but for rounding, and
    Adam makes steps of full size of any noise."""
    g, m = Graph(dtype), ENCODER
    b, s, d, h = m["batch"], m["length"], m["width"], m["heads"]
    x = g.input("x", (b, s, d))

    def norm(name, x):
        return g.op(name, "layer_norm", {"x": x, "gamma": g.variable(f"{name}_gamma", (d,)), "beta": g.variable(f"{name}_beta", (d,))},
                    "y", more=["mean", "inv_variance"], center=("bool", "true"), scale=("bool", "true"),
                    begin_norm_axis=("int64", "2"), begin_params_axis=("int64", "2"), epsilon=("double", "1e-05"))

    def heads(name, x):
        return g.op(f"{name}_heads", "transpose", {"input": g.reshape(f"{name}_split", x, (b, s, h, d // h))}, "output",
                    perm=("list_int32", "{ val: 0 val: 2 val: 1 val: 3 }"))

    for i in range(m["layers"]):
        p = f"layer{i}_"
        y = norm(p + "norm1", x)
        q, k, v = (heads(p + n, g.linear(p + n, y, 3, d, d, bias=n != "k")) for n in "qkv")
        score = g.op(p + "score", "batch_matmul", {"a": q, "b": k}, transpose_b=("bool", "true"))
        score = g.op(p + "scaled", "scalar_mul", {"in": score}, has_float_operand=("bool", "true"), float_operand=("double", repr((d // h) ** -0.5)))
        mixed = g.op(p + "mix", "batch_matmul", {"a": g.op(p + "attention", "softmax", {"in": score}), "b": v})
        mixed = g.op(p + "unheads", "transpose", {"input": mixed}, "output", perm=("list_int32", "{ val: 0 val: 2 val: 1 val: 3 }"))
        y = g.linear(p + "out", g.reshape(p + "join", mixed, (b, s, d)), 3, d, d)
        x = g.op(p + "add1", "broadcast_add", {"x": x, "y": y}, "z")
        y = g.linear(p + "up", norm(p + "norm2", x), 3, d, m["hidden"])
        y = g.linear(p + "down", g.op(p + "gelu", "gelu", {"in": y}), 3, m["hidden"], d)
        x = g.op(p + "add2", "broadcast_add", {"x": x, "y": y}, "z")
    g.cross_entropy(g.linear("head", norm("norm", x), 3, d, m["classes"]), (b, s))
    return g


def recurrent(dtype):
    """LSTM in both directions, then a label for each step."""
    g, m = Graph(dtype), RECURRENT
    b, s, n, h = m["batch"], m["length"], m["numbers"], m["hidden"]
    y = g.op("lstm", "lstm", {"x": g.input("x", (b, s, n)), "weight": g.variable("lstm_w", (2, 4 * h, n)), "recurrence": g.variable("lstm_r_w", (2, 4 * h, h)),
                              "bias": g.variable("lstm_b", (2, 8 * h))},
             "y", more=["y_h", "y_c"], direction=("string", '"bidirectional"'), batch_first=("bool", "true"))
    g.cross_entropy(g.linear("head", g.reshape("join", y, (b, s, 2 * h)), 3, 2 * h, m["classes"]), (b, s))
    return g


MODELS = {"mlp": mlp, "encoder": encoder, "recurrent": recurrent}

# name -> (update op, state variables, inputs from the step, attributes); five steps of each are compared with torch.optim.
OPTIMIZERS = {
    "sgd": ("sgd_update", {}, (), {"l2": 0.1}),
    "sgd_schedule": ("sgd_update", {}, ("cosine",), {}),
    "momentum": ("momentum_update", {"momentum": 0}, (), {"beta": 0.9, "l2": 0.1}),
    "nesterov": ("momentum_update", {"momentum": 0}, (), {"beta": 0.9, "nesterov": True}),
    "adam": ("adam_update", {"m": 0, "v": 0}, ("corrections",), {"epsilon": 1e-8, "l2": 0.1}),
    "adamw": ("adam_update", {"m": 0, "v": 0}, ("corrections",), {"epsilon": 1e-8, "weight_decay": 0.1}),
    "amsgrad": ("adam_update", {"m": 0, "v": 0, "max_v": 0}, ("corrections",), {"epsilon": 1e-8, "amsgrad": True}),
    "rmsprop": ("rmsprop_update", {"mean_square": 0}, (), {"decay_rate": 0.9, "epsilon": 0.0}),
    "rmsprop_centered": ("rmsprop_update", {"mean_square": 0, "mean_gradient": 0}, (), {"decay_rate": 0.9, "epsilon": 0.0, "centered": True}),
    "adagrad": ("adagrad_update", {"sum": 0.25}, ("train_step",), {"epsilon": 1e-8, "lr_decay": 0.1}),
}
SHAPE, RATE, STEPS = (6, 5), 0.0625, 5


def optimizer(name, dtype):
    """A variable w whose gradients are fed: input g has one of them a step."""
    kind, state, needs, attrs = OPTIMIZERS[name]
    g = Graph(dtype)
    inputs = {"model": g.variable("w", SHAPE), "model_diff": g.reshape("g_flat", g.input("g", (1, *SHAPE)), SHAPE)}
    for arg, value in state.items():
        inputs[arg] = g.variable(arg, SHAPE, extra=f"initializer {{ constant_conf {{ value: {value} }} }}")
    step = g.variable("train_step", (1,), "kInt64", "initializer { constant_int_conf { value: 0 } }")
    after = g.op("next_step", "scalar_add", {"in": step}, has_int_operand=("bool", "true"), int_operand=("int64", "1"))
    g.op("count", "assign", {"ref": step, "value": after}, None)
    kinds = {bool: "bool", float: "float"}
    given = {k: (kinds[type(v)], str(v).lower()) for k, v in attrs.items()}
    type_ = ("data_type", dtype)
    if "cosine" in needs:
        inputs["learning_rate"] = g.op("rate", "learning_rate_schedule", {"train_step": step}, learning_rate=("double", repr(RATE)),
                                       decay_type=("string", '"cosine_annealing"'), t_max=("int64", "4"), dtype=type_)
    else:
        given["learning_rate_val"] = ("float", repr(RATE))
    if "corrections" in needs:
        for i, beta in ((1, "0.9"), (2, "0.999")):
            inputs[f"bias_correction{i}"] = g.op(f"correction{i}", "adam_bias_correction_factor", {"train_step": step}, beta=("float", beta), dtype=type_)
    if "train_step" in needs:
        inputs["train_step"] = step
    g.op("update", kind, inputs, None, **given)
    g.output("new", "w/out")
    return g
