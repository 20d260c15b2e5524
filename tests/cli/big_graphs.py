# Graphs as text: random ones of a size, and the same graph with other names in another order.
# SPDX-License-Identifier: Apache-2.0
import random

PORTS = '''op {{ name: "{p}x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 8 dim: 8 }} data_type: kFloat }} }} }}
op {{ name: "{p}w" variable_conf {{ out: "out" shape {{ dim: 8 dim: 8 }} data_type: kFloat initializer {{ constant_conf {{ value: 1 }} }} }} }}
'''
UNARY, BINARY = ("relu", "tanh", "exp", "gelu"), ("broadcast_add", "broadcast_mul", "broadcast_sub")
SLOTS = {"relu": ("x", "y"), "tanh": ("x", "y"), "exp": ("x", "y"), "gelu": ("in", "out")}


def graph(ops, seed=1, prefix="", shuffle=0, change=None):
    """A graph of so many ops. `prefix` goes before every name, `shuffle` seeds another order of the file, `change` is an op that
    becomes another one of the same kind."""
    choose = random.Random(seed)
    lines = PORTS.format(p=prefix).splitlines()
    tensors = ["x/out", "w/out"]
    for i in range(ops):
        kind = choose.choice(UNARY + BINARY)
        first = choose.choice(tensors[-30:])
        second = choose.choice(tensors)
        if i == change:
            kind = {"relu": "tanh"}.get(kind, "relu") if kind in UNARY else {"broadcast_add": "broadcast_sub"}.get(kind, "broadcast_add")
        if kind in UNARY:
            slot, out = SLOTS[kind]
            inputs = f'input {{ key: "{slot}" value {{ s: "{prefix}{first}" }} }}'
        else:
            out = "z"
            inputs = "".join(f'input {{ key: "{k}" value {{ s: "{prefix}{t}" }} }} ' for k, t in (("x", first), ("y", second)))
        lines.append(f'op {{ name: "{prefix}n{i}" user_conf {{ op_type_name: "{kind}" {inputs} }} }}')
        tensors.append(f"n{i}/{out}_0")
    lines.append(f'op {{ name: "{prefix}end" output_conf {{ in: "{prefix}{tensors[-1]}" }} }}')
    if shuffle:
        random.Random(shuffle).shuffle(lines)
    return "\n".join(lines) + "\n"


def chain(layers):
    """A network of so many products with a variable, each followed by a function, and a mean as its loss."""
    lines = PORTS.format(p="").splitlines()[:1]
    tensor = "x/out"
    for i in range(layers):
        lines.append(f'op {{ name: "w{i}" variable_conf {{ out: "out" shape {{ dim: 8 dim: 8 }} data_type: kFloat initializer {{ constant_conf {{ value: 0.1 }} }} }} }}')
        lines.append(f'op {{ name: "fc{i}" user_conf {{ op_type_name: "matmul" input {{ key: "a" value {{ s: "{tensor}" }} }} input {{ key: "b" value {{ s: "w{i}/out" }} }} }} }}')
        lines.append(f'op {{ name: "act{i}" user_conf {{ op_type_name: "tanh" input {{ key: "x" value {{ s: "fc{i}/out_0" }} }} }} }}')
        tensor = f"act{i}/y_0"
    lines.append(f'op {{ name: "mean" user_conf {{ op_type_name: "reduce_mean" input {{ key: "input_tensor" value {{ s: "{tensor}" }} }} attr {{ key: "axis" value {{ at_list_int32 {{ val: 0 val: 1 }} }} }} }} }}')
    lines.append('op { name: "loss" output_conf { in: "mean/output_tensor_0" } }')
    return "\n".join(lines) + "\n"
