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
