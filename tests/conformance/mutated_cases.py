# Every op with spoilt arguments: shapes, element types and attributes that do not fit get an error, and nothing crashes.
# SPDX-License-Identifier: Apache-2.0
"""usage: mutated_cases.py [-n COUNT] [--seed N] [OP...]      COUNT mutations of each op's cases (default 6)

An instance of a case is changed in one or two places: a dimension, a rank, an element type, an attribute, an input that is
left out. opc must run it, or refuse it with a diagnostic: exit codes 3 (invalid graph), 4 (no kernel) or 5 (indices found bad
at run time), never 70 or a signal.
"""
import os
import random
import subprocess
import sys
import tempfile

from registry_cases import DTYPES, Attr, instances, load_registry, opc_binary

ALLOWED = {0, 3, 4, 5}


def spoil(rng, inputs, attrs):
    kind = rng.choice(["dim", "dim", "rank", "type", "attr", "attr", "drop"])
    if kind in ("dim", "rank", "type", "drop") and not inputs or kind == "attr" and not attrs:
        return
    if kind == "attr":
        name = rng.choice(sorted(attrs))
        kind_, value = attrs[name].kind, attrs[name].value
        wild = {"int32": [0, -1, 7, 2**31 - 1, -2**31], "int64": [0, -1, 7, 2**63 - 1, -2**63], "float": [0.0, -1.0, float("inf"), float("nan")],
                "double": [0.0, -1.0, float("inf"), 1e300], "bool": [not value], "string": ["", "nonsense", "channels_last"]}
        if kind_ in wild:
            value = rng.choice(wild[kind_])
        elif isinstance(value, list):
            value = list(value)
            change = rng.choice(["more", "less", "wild"])
            if change == "more" or not value:
                value.append(rng.choice([0, 1, -1, 3]) if not kind_.endswith("string") else "x")
            elif change == "less":
                value.pop()
            elif not kind_.endswith(("string", "data_type")):
                value[rng.randrange(len(value))] = rng.choice([0, -1, 5, 2**31 - 1, -2**31])
        attrs[name] = Attr({"type": attrs[name].kind, "value": value})
        return
    at = rng.randrange(len(inputs))
    arg, index, dtype, shape = inputs[at]
    shape = list(shape)
    if kind == "drop":
        inputs.pop(at)
        return
    if kind == "type":
        dtype = rng.choice(["f32", "f64", "f16", "i32", "i64", "bool", "i8"])
    elif kind == "rank":
        shape = shape[1:] if shape and rng.random() < 0.5 else shape + [rng.choice([1, 2])]
    elif shape:
        shape[rng.randrange(len(shape))] = rng.choice([0, 1, 2, 3, 5])
    inputs[at] = (arg, index, dtype, shape)


def graph(op, instance, inputs, attrs):
    text, bound = [], {}
    for arg, index, dtype, shape in inputs:
        name = f"in_{arg}_{index}"
        described = " ".join(f"dim: {d}" for d in shape)
        if arg in instance.mutable():
            text.append(f'op {{ name: "{name}" variable_conf {{ out: "out" shape {{ {described} }} data_type: {DTYPES[dtype][0]} }} }}')
        else:
            text.append(f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {described} }} data_type: {DTYPES[dtype][0]} }} }} }}')
        bound.setdefault(arg, []).append(f"{name}/out")
    conf = [f'op_type_name: "{op["name"]}"']
    conf += [f'input {{ key: "{a}" value {{ ' + " ".join(f's: "{t}"' for t in ts) + " } }" for a, ts in bound.items()]
    for arg, count in instance.outputs().items():
        if arg in instance.mutable():
            continue
        conf.append(f'output {{ key: "{arg}" value {{ ' + " ".join(f's: "it/{arg}_{i}"' for i in range(count)) + " } }")
        text.append(f'op {{ name: "out_{arg}" output_conf {{ in: "it/{arg}_0" out: "out" }} }}')
    conf += [f'attr {{ key: "{n}" value {{ {a.text()} }} }}' for n, a in attrs.items()]
    return "\n".join(text + [f'op {{ name: "it" user_conf {{ {" ".join(conf)} }} }}']) + "\n"


def main(argv):
    count, seed, names = 6, 1, []
    while argv:
        a = argv.pop(0)
        if a == "-n":
            count = int(argv.pop(0))
        elif a == "--seed":
            seed = int(argv.pop(0))
        else:
            names.append(a)
    rng, runs, failed, codes = random.Random(seed), 0, 0, {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.pbtxt")
        for op in load_registry():
            found = list(instances(op))
            if (names and op["name"] not in names) or not found:
                continue
            for _ in range(count):
                instance = rng.choice(found)
                inputs = [(arg, index, dtype, shape) for arg, index, dtype, shape, _, _ in instance.inputs()]
                attrs = dict(instance.attrs())
                for _ in range(rng.choice([1, 1, 2])):
                    spoil(rng, inputs, attrs)
                text = graph(op, instance, inputs, attrs)
                with open(path, "w") as f:
                    f.write(text)
                done = subprocess.run([opc_binary(), "run", path, "--fill", "rand", "--print", "none", "-q", "-j", "1", "--max-memory", "1G"], capture_output=True, text=True, timeout=120)
                runs += 1
                codes[done.returncode] = codes.get(done.returncode, 0) + 1
                if done.returncode not in ALLOWED or (done.returncode and "error" not in done.stderr):
                    failed += 1
                    print(f"FAIL {op['name']}: exit code {done.returncode}\n{text}\n{done.stderr[:2000]}")
    print(f"mutated cases: {runs} runs, {failed} failures, exit codes {dict(sorted(codes.items()))}")
    return 1 if failed or not runs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
