# Writes seed corpora of the fuzz targets. The small one is committed; `--full` adds a graph and a plan of every op's case.
# SPDX-License-Identifier: Apache-2.0
"""usage: make_corpus.py [--full] FOLDER      needs python3 with numpy; the command comes from OPC_BUILD_DIR or OPC_BINARY

FOLDER/TARGET/NAME for each target of tests/fuzz. The same registry gives the same bytes.
"""
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "conformance"))
from registry_cases import DTYPES, instances, load_registry, opc_binary  # noqa: E402

# One op of each family for the small corpus.
FEW = ["matmul", "conv2d", "deconv2d", "max_pool_2d", "layer_norm", "normalization", "softmax", "reduce_sum", "concat",
       "slice", "transpose", "gather", "scatter_nd", "pad", "arange", "one_hot", "top_k", "expand", "upsample_bilinear_2d",
       "broadcast_add", "cast", "dropout", "sgd_update", "sparse_softmax_cross_entropy", "unfold", "cumsum", "split_like"]
PLAN_HEADER = 32
GRAPHS = ["docs/examples/digits/mlp.pbtxt", "docs/examples/digits/cnn.pbtxt"] + [
    f"tests/cli/Inputs/{n}.pbtxt" for n in ("accumulate", "moves", "names", "shapes", "swap", "updates", "waves")]
NATIVE = """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 8 } data_type: kFloat } } }
op { name: "a" user_conf { op_type_name: "square" input { key: "x" value { s: "x/out" } } } }
op { name: "b" user_conf { op_type_name: "negative" input { key: "x" value { s: "a/y_0" } } } }
op { name: "y" output_conf { in: "b/y_0" out: "out" } }
"""
# Regions by rows and by columns: a softmax between elementwise ops, and the gradient of a bias beside what makes its rows.
ROWS = """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 6 dim: 5 } data_type: kFloat } } }
op { name: "a" user_conf { op_type_name: "square" input { key: "x" value { s: "x/out" } } } }
op { name: "b" user_conf { op_type_name: "softmax" input { key: "in" value { s: "a/y_0" } } } }
op { name: "c" user_conf { op_type_name: "negative" input { key: "x" value { s: "b/out_0" } } } }
op { name: "y" output_conf { in: "c/y_0" out: "out" } }
"""
COLUMNS = """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 6 dim: 5 } data_type: kFloat } } }
op { name: "a" user_conf { op_type_name: "square" input { key: "x" value { s: "x/out" } } } }
op { name: "b" user_conf { op_type_name: "dropout" input { key: "in" value { s: "a/y_0" } } attr { key: "rate" value { at_float: 0.5 } } } }
op { name: "c" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "b/out_0" } }
  attr { key: "axis" value { at_list_int32 { val: 0 } } } attr { key: "keepdims" value { at_bool: false } } } }
op { name: "y" output_conf { in: "b/out_0" out: "out" } }
op { name: "z" output_conf { in: "c/output_tensor_0" out: "out" } }
"""


def graph_text(instance):
    """The graph of one op: an input op for each input (a variable for one that is written), and its outputs."""
    ops, bound, mutable = [], {}, instance.mutable()
    for arg, index, dtype, shape, _, _ in instance.inputs():
        dims = " ".join(f"dim: {d}" for d in shape)
        described = f"shape {{ {dims} }} data_type: {DTYPES[dtype][0]}"
        name = f"{arg}{index}"
        if arg in mutable:
            ops.append(f'op {{ name: "{name}" variable_conf {{ out: "out" {described} initializer {{ constant_conf {{ value: 1 }} }} }} }}')
        else:
            ops.append(f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ {described} }} }} }}')
        bound.setdefault(arg, []).append(f"{name}/out")
    conf = [f'op_type_name: "{instance.op["name"]}"']
    conf += [f'input {{ key: "{a}" value {{ ' + " ".join(f's: "{x}"' for x in t) + " } }" for a, t in bound.items()]
    ends = []
    for arg, count in instance.outputs().items():
        if arg in mutable:
            ends.append(f'op {{ name: "o_{arg}" output_conf {{ in: "{arg}0/out" out: "out" }} }}')
            continue
        conf.append(f'output {{ key: "{arg}" value {{ ' + " ".join(f's: "f/{arg}_{i}"' for i in range(count)) + " } }")
        ends += [f'op {{ name: "o_{arg}{i}" output_conf {{ in: "f/{arg}_{i}" out: "out" }} }}' for i in range(count)]
    conf += [f'attr {{ key: "{k}" value {{ {a.text()} }} }}' for k, a in instance.attrs().items()]
    return "\n".join(ops + [f'op {{ name: "f" user_conf {{ {" ".join(conf)} }} }}'] + ends) + "\n"


def compiled(path, *arguments):
    done = subprocess.run([opc_binary(), "compile", path, "-q", "-o", "-", *arguments], capture_output=True)
    return done.stdout if done.returncode == 0 else None


def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), version=version, allow_pickle=False)
    return out.getvalue()


def npys():
    base = np.arange(6)
    for name in ("bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ">i2", ">f4", ">f8"):
        yield name.replace(">", "big_"), npy(base.astype(name).reshape(2, 3))
    yield "scalar", npy(np.float32(1.5))
    yield "empty", npy(np.zeros((0, 3), np.float32))
    yield "fortran", npy(np.asfortranarray(base.astype("f4").reshape(2, 3)))
    yield "version2", npy(base.astype("f4"), (2, 0))
    yield "version3", npy(base.astype("f4"), (3, 0))
    yield "void2", npy(base.astype("u2").view("V2"))
    yield "rank8", npy(np.ones((1, 2, 1, 1, 2, 1, 1, 1), "u1"))


def zipped(members, method, stream=False, forced64=False):
    out = io.BytesIO()
    with zipfile.ZipFile(Unseekable(out) if stream else out, "w") as z:
        for name, content in members:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            with z.open(info, "w", force_zip64=forced64) as f:
                f.write(content)
    return out.getvalue()


class Unseekable(io.RawIOBase):
    """zipfile writes data descriptors to what it cannot seek."""

    def __init__(self, out):
        self.out = out

    def write(self, data):
        return self.out.write(data)

    def flush(self):
        pass


def npzs():
    two = [("a.npy", npy(np.arange(4, dtype="f4"))), ("b.npy", npy(np.ones((2, 2), "i8")))]
    yield "stored", zipped(two, zipfile.ZIP_STORED)
    yield "deflated", zipped(two, zipfile.ZIP_DEFLATED)
    yield "zip64", zipped(two, zipfile.ZIP_STORED, forced64=True)
    yield "descriptors", zipped(two, zipfile.ZIP_DEFLATED, stream=True)
    yield "none", zipped([], zipfile.ZIP_STORED)
    yield "folder", zipped([("d/a.npy", two[0][1]), ("note.txt", b"no tensor")], zipfile.ZIP_STORED)
    yield "bomb", zipped([("z.npy", npy(np.zeros(1 << 18, "u1")))], zipfile.ZIP_DEFLATED)


def safetensors(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors_files():
    kinds = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1, "U16": 2}
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for kind, size in kinds.items():
        header[f"t.{kind}"] = {"dtype": kind, "shape": [2, 1], "data_offsets": [at, at + 2 * size]}
        at += 2 * size
    yield "every_type", safetensors(header, bytes(at))
    yield "scalar", safetensors({"x": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}, bytes(4))
    yield "empty", safetensors({"x": {"dtype": "F32", "shape": [0, 4], "data_offsets": [0, 0]}}, b"")
    yield "nothing", safetensors({}, b"")
    yield "overlap", safetensors({k: {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]} for k in "ab"}, bytes(4))
    yield "huge_shape", safetensors({"x": {"dtype": "F32", "shape": [1 << 62, 8], "data_offsets": [0, 4]}}, bytes(4))
    yield "deep", safetensors(b"[" * 5000, b"")


def specs():
    texts = ["1", "1,2,3", "zeros", "ones", "iota", "rand", "rand(-2,2)", "randn(0,1)", "f32[2,3]:1", "i8[6]:1,2,3,4,5,6", "bool[2]:true,false",
             "bf16[2]:0.1,-1e30", "u64[1]:18446744073709551615", "@w.npz:a", "f32[2]:@raw.bin", "f16[2,3]:randn", "f32[]:1", "i64[0]:zeros",
             "f32[4294967296,4294967296]:0", "f32[-1]:0", "nan,inf,-inf", "x=f32[2]:1,2"]
    for i, text in enumerate(texts):
        yield f"{i:02}", text.encode()


def indexes():
    shard = {"metadata": {"total_size": 8}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    yield "two", json.dumps(shard).encode()
    yield "outside", json.dumps({"weight_map": {"a": "../x.safetensors", "b": "/etc/hostname"}}).encode()
    yield "wrong", json.dumps({"weight_map": {"a": 1}}).encode()
    yield "list", b"[]"


def field(number, wire, payload):
    """A protobuf field: a varint (wire 0), or length-delimited bytes (wire 2)."""
    def varint(n):
        n, out = n & (1 << 64) - 1, b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])
    return varint(number << 3 | wire) + (varint(payload) if wire == 0 else varint(len(payload)) + payload)


def onnx_tensors():
    """TensorProto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto): dims 1, data_type 2, float_data 4,
    int32_data 5, int64_data 7, name 8, raw_data 9, double_data 10, external_data 13."""
    dims = field(1, 0, 2) + field(1, 0, 3)
    for kind, width in ((1, 4), (2, 1), (3, 1), (5, 2), (6, 4), (7, 8), (9, 1), (10, 2), (11, 8), (12, 4), (13, 8), (16, 2)):
        yield f"raw{kind}", dims + field(2, 0, kind) + field(8, 2, b"x") + field(9, 2, bytes(6 * width))
    yield "floats", dims + field(2, 0, 1) + field(4, 2, struct.pack("<6f", *range(6)))
    yield "int32s", field(1, 2, bytes([2, 3])) + field(2, 0, 6) + field(5, 2, bytes(range(6)))
    yield "int64s", dims + field(2, 0, 7) + b"".join(field(7, 0, n) for n in range(6))
    yield "doubles", dims + field(2, 0, 11) + field(10, 2, struct.pack("<6d", *range(6)))
    yield "negative", field(1, 0, -1) + field(2, 0, 1) + field(9, 2, b"")
    yield "huge", field(1, 0, 1 << 62) + field(1, 0, 8) + field(2, 0, 1) + field(9, 2, bytes(4))
    yield "external", dims + field(2, 0, 1) + field(13, 2, field(1, 2, b"location") + field(2, 2, b"/etc/hostname")) + field(14, 0, 1)


def settings():
    """Files of settings: everything that docs/cli.md says, and what TOML allows beside it."""
    yield "all", b"""# opc.toml
[target]
devices = "cpu"
threads = 8
plugins = ["build/libmyops.so", 'b.so']
[run]
seed = 0x7
fill = "rand"
print = "all"
max_memory = "16G"
[output]
color = "never"
progress = "plain"
[tolerance]
f16 = { rtol = 2e-3, atol = 1e-3 }
"loss*" = { rtol = 1 }
logits = { metric = "cos>=0.9999" }
"""
    yield "dotted", b"run.seed = 1\nrun.print = 2\ntolerance.f32.rtol = 0.5\n"
    yield "types", b"[run]\nseed = 1979-05-27T07:32:00Z\n[target]\nthreads = [1, 'x', {a = true}]\n"
    yield "tables", b"[tolerance.a]\nrtol = inf\n[tolerance.b]\natol = -1\n[[tolerance.c]]\n"
    yield "strings", b'[run]\nfill = """\n\\u0041\\\n  b"""\nprint = \'\'\'\nx\'\'\'\n'
    yield "deep", b"a = " + b"[" * 200 + b"]" * 200
    yield "names", '[tolerance]\n"\\u001b[31m" = {}\n"\u202e" = {}\n'.encode()


def clusters():
    """Cluster files (docs/simulation.md)."""
    for name in ("two_hosts", "a100_superpod"):
        with open(os.path.join(ROOT, "docs", "examples", "clusters", name + ".json"), "rb") as f:
            yield name, f.read()
    whole = {"schema": 1, "name": "c", "device": {"flops": {"f32": 1e12, "bf16": 2e12}, "efficiency": {"peak": 1, "half_width": 0},
             "memory_bandwidth": 1e11, "memory_bytes": 1e9, "task_overhead": 0}, "host": {"devices": 2, "cores": 0.5},
             "levels": [{"name": "a", "devices": 2, "latency": 0, "bandwidth": 1e9, "shared_by": 2, "collectives": {"all_reduce": {"latency": 1e-6, "bandwidth": 1e9}}},
                        {"name": "b", "devices": 4, "latency": 1e-6, "bandwidth": 1e8}],
             "axes": ["b", "a"], "ops": {"matmul": {"overhead": 1e-6, "factor": 1.5}, "\x1b[31m": {"overhead": 0, "factor": 0}}}
    yield "whole", json.dumps(whole).encode()
    yield "numbers", json.dumps(dict(whole, device={"flops": {"f32": 1e308}, "memory_bandwidth": -0.0})).encode()
    yield "twice", b'{"schema": 1, "schema": 1, "device": {}, "device": []}'
    yield "deep", b"[" * 100
    yield "names", json.dumps(dict(whole, name="\x1b]0;x\x07\n")).encode()


def graphs(full):
    for path in GRAPHS:
        with open(os.path.join(ROOT, path)) as f:
            yield os.path.basename(path).split(".")[0], f.read()
    for op in load_registry():
        if not full and op["name"] not in FEW:
            continue
        seen = set()
        for instance in instances(op):
            if instance.case["name"] in seen:
                continue
            seen.add(instance.case["name"])
            if instance.dtype in ("fixed",) or instance.dtype in DTYPES:
                yield f"{op['name']}-{instance.case['name']}", graph_text(instance)
            if not full:
                break


def main(argv):
    full = "--full" in argv
    folders = [a for a in argv if a != "--full"]
    if len(folders) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    counts = {}

    def write(target, name, content):
        folder = os.path.join(folders[0], target)
        os.makedirs(folder, exist_ok=True)
        name = "".join(c if c.isalnum() or c in "_-" else "_" for c in name)
        with open(os.path.join(folder, "seed-" + name), "wb") as f:
            f.write(content)
        counts[target] = counts.get(target, 0) + 1

    for target, files in (("npy", npys), ("npz", npzs), ("safetensors", safetensors_files),
                          ("safetensors_index", indexes), ("onnx_tensor", onnx_tensors),
                          ("tensor_spec", specs), ("settings", settings), ("cluster", clusters)):
        for name, content in files():
            write(target, name, content)
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in graphs(full):
            path = os.path.join(scratch, "g.pbtxt")
            with open(path, "w") as f:
                f.write(text)
            write("graph_text", name, text.encode())
            binary = compiled(path, "--to", "import", "--emit", "pb")
            if binary is None:
                print(f"{name}: the graph is refused", file=sys.stderr)
                continue
            write("graph_binary", name, binary)
            plan = compiled(path)
            if plan is not None:
                write("plan", name, plan[PLAN_HEADER:])
        for name, shape in (("cnn", "image=1..8,64"), ("mlp", "image=n:2..8,64")):  # sizes in a range
            plan = compiled(os.path.join(ROOT, next(g for g in GRAPHS if name + "." in g)), "--shape", shape)
            if plan is not None:
                write("plan", name + "-sizes", plan[PLAN_HEADER:])
        # The machine code is run by no target.
        for name, text, arguments in (("native", NATIVE, ["--native=v3"]), ("rows", ROWS, []), ("columns", COLUMNS, [])):
            with open(os.path.join(scratch, name + ".pbtxt"), "w", encoding="utf-8") as f:
                f.write(text)
            plan = compiled(f.name, *arguments)
            if plan is None:
                sys.exit(f"{name}: no plan")
            write("plan", name, plan[PLAN_HEADER:])
    for target, count in sorted(counts.items()):
        print(f"{target}: {count} seeds")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
