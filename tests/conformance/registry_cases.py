# The registry as `opc ops --json` tells it, cut into instances: one op, one sample case, one element type.
# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import os
import re
import subprocess

import numpy as np

try:
    import numpy_headers  # noqa: F401  tests/support, which a copy of this folder has not
except ImportError:
    pass

# name: (name in graph files, numpy's type); what numpy has no type for travels as its bits.
DTYPES = {
    "f32": ("kFloat", np.float32), "f64": ("kDouble", np.float64), "f16": ("kFloat16", np.float16),
    "bf16": ("kBFloat16", np.uint16), "i8": ("kInt8", np.int8), "i16": ("kInt16", np.int16), "i32": ("kInt32", np.int32),
    "i64": ("kInt64", np.int64), "u8": ("kUInt8", np.uint8), "u16": ("kUInt16", np.uint16),
    "u32": ("kUInt32", np.uint32), "u64": ("kUInt64", np.uint64), "bool": ("kBool", np.bool_),
}
GRAPH_NAMES = {graph: name for name, (graph, _) in DTYPES.items()}
FLOATING = ("f16", "bf16", "f32", "f64")


def opc_binary():
    build = os.environ.get("OPC_BUILD_DIR") or os.path.join(os.path.dirname(__file__), "..", "..", "build")
    return os.environ.get("OPC_BINARY") or os.path.join(build, "bin", "opc")


# rtol, atol by element type of the output: opc's own table, which load_registry fills in.
TOLERANCE = {}


def load_registry(plugins=()):
    command = [opc_binary(), "ops", "--json"] + [x for p in plugins for x in ("--plugin", p)]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    TOLERANCE.update({t["name"]: (t["rtol"], t["atol"]) for t in said["types"]})
    return said["ops"]


def bf16_bits(values):
    """f64 -> bf16 by way of f32, to nearest, ties to even, as bits."""
    values = np.asarray(values, np.float32)
    x = values.reshape(-1).view(np.uint32).astype(np.uint64)
    return ((x + 0x7FFF + ((x >> 16) & 1)) >> 16).astype(np.uint16).reshape(values.shape)


def bf16_values(bits):
    bits = np.asarray(bits)
    return (bits.reshape(-1).astype(np.uint32) << 16).view(np.float32).astype(np.float64).reshape(bits.shape)


def to_dtype(values, dtype):
    """What a file stores for these values."""
    return bf16_bits(values) if dtype == "bf16" else np.asarray(values).astype(DTYPES[dtype][1])


def from_dtype(stored, dtype):
    """f64, or int64 for integers and bool."""
    if dtype == "bf16":
        return bf16_values(stored)
    return stored.astype(np.float64 if dtype in FLOATING else np.int64)


def file_array(stored, dtype):
    """For an npy file: numpy has no bf16; opc takes the two-byte void type for it."""
    return np.array(stored, order="C").reshape(-1).view("V2").reshape(np.shape(stored)) if dtype == "bf16" else stored


class Attr:
    """An attribute of a case: `kind` as in AttrValue's field names without "at_", and a Python value."""

    def __init__(self, entry):
        kind = entry["type"].removeprefix("at_")
        if kind.startswith("kAt"):  # kAtListInt32 -> list_int32
            kind = re.sub(r"(?<!^)(?=[A-Z])", "_", kind[3:]).lower()
        self.kind = kind
        v = entry["value"]
        if self.kind == "data_type":
            v = GRAPH_NAMES.get(v, v)
        elif self.kind == "list_data_type":
            v = [GRAPH_NAMES.get(x, x) for x in v]
        self.value = v

    def text(self):
        """The oneof of AttrValue in protobuf's text format."""
        v, k = self.value, self.kind
        number = lambda x: {float("inf"): "inf", float("-inf"): "-inf"}.get(x, repr(x))  # noqa: E731
        if k == "shape":
            return "at_shape { " + " ".join(f"dim: {d}" for d in v) + " }"
        if k == "data_type":
            return f"at_data_type: {DTYPES[v][0]}"
        if k == "string":
            return f"at_string: {json.dumps(v)}"
        if k == "bool":
            return f"at_bool: {'true' if v else 'false'}"
        if k.startswith("list_"):
            one = {"list_data_type": lambda x: DTYPES[x][0], "list_string": json.dumps,
                   "list_shape": lambda s: "{ " + " ".join(f"dim: {d}" for d in s) + " }"}.get(k, number)
            sep = " " if k == "list_shape" else ": "
            return f"at_{k} {{ " + " ".join(f"val{sep}{one(x)}" for x in v) + " }"
        return f"at_{k}: {number(v)}"


class CaseInstance:
    """An op with one of its cases in one element type."""

    def __init__(self, op, case, dtype):
        self.op, self.case, self.dtype = op, case, dtype

    @property
    def name(self):
        return f"{self.case['name']}|{self.dtype}"

    def inputs(self):
        """(argument, index, dtype, shape, lo, hi) in the case's order."""
        for i in self.case["inputs"]:
            yield i["arg"], i.get("index", 0), i.get("dtype") or self.dtype, tuple(i["shape"]), i["lo"], i["hi"]

    def attrs(self):
        return {k: Attr(v) for k, v in self.case.get("attrs", {}).items()}

    def all_attrs(self):
        """Values with the definition's defaults filled in; f32 attributes as the op gets them."""
        values = {}
        for a in self.op["attrs"]:
            if a.get("default") is not None:
                values[a["name"]] = Attr({"type": a["type"], "value": a["default"]})
        values.update(self.attrs())
        return {k: float(np.float32(a.value)) if a.kind == "float" else a.value for k, a in values.items()}

    def outputs(self):
        """argument -> how many tensors this instance asks for."""
        asked = dict(self.case.get("outputs", {}))
        for o in self.op["outputs"]:
            if not o.get("optional") and o["name"] not in asked:
                asked[o["name"]] = o.get("count", 1)
        outputs = {o["name"]: asked[o["name"]] for o in self.op["outputs"] if o["name"] in asked}
        # Inputs that the op writes: what they hold afterwards is an output, too.
        outputs.update({arg: 1 for arg in self.mutable()})
        return outputs

    def mutable(self):
        """The arguments of this instance that the op writes: they are bound to variables."""
        given = {i["arg"] for i in self.case["inputs"]}
        return [i["name"] for i in self.op["inputs"] if i.get("mutable") and i["name"] in given]

    def fingerprint(self):
        """Changes when the case changes, so that old vectors are noticed."""
        described = [[list(x) for x in self.inputs()], {k: a.text() for k, a in sorted(self.attrs().items())}, self.outputs()]
        return hashlib.sha256(json.dumps(described, sort_keys=True, default=list).encode()).hexdigest()[:16]


def instances(op, device="cpu"):
    """Every case in every element type for which the op has a kernel of the device."""
    kernels = [k["dtype"] for k in op["kernels"] if k["device"] in (device, "", None)]
    if device != "cpu" and not kernels:
        return
    typed = sorted({k for k in kernels if k in DTYPES})
    any_type = op.get("view") or any(k in ("", None, "any") for k in kernels)
    for case in op["cases"]:
        varying = any(not i.get("dtype") for i in case["inputs"])
        types = case.get("types") or []
        if not varying:
            yield CaseInstance(op, case, "fixed")
            continue
        for dtype in typed or (sorted(types or FLOATING + ("i8", "i32", "i64", "u8", "bool")) if any_type else []):
            if not types or dtype in types:
                yield CaseInstance(op, case, dtype)


def vector_path(op_name):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "vectors", f"{op_name}.npz")
