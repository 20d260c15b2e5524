# Makes tests/conformance/vectors: inputs and expected outputs of every op, case and element type of the registry.
# SPDX-License-Identifier: Apache-2.0
"""usage: make_vectors.py [OP...]        needs numpy, PyTorch and a built opc (OPC_BINARY or OPC_BUILD_DIR)

Without names, vectors of all ops are made anew and those of ops that are gone are removed. Inputs come from a seeded
generator and are rounded to their element type; expected outputs are computed from the rounded values in f64.
"""
import glob
import json
import os
import sys
import traceback
import zlib

import numpy as np

from references import NOT_COMPARED, REFERENCES, Instance, Typed
from registry_cases import DTYPES, FLOATING, from_dtype, instances, load_registry, to_dtype, vector_path


def draw(rng, dtype, shape, lo, hi):
    if dtype in FLOATING:
        return rng.uniform(lo, hi, shape)
    if dtype == "bool":
        return rng.integers(0, 2, shape)
    if (lo, hi) == (-1, 1):  # the range of a case that does not care
        lo, hi = -5, 6
    lo, hi = int(np.ceil(lo)), int(np.ceil(hi))
    if dtype.startswith("u"):
        lo = max(lo, 0)
    return rng.integers(lo, max(hi, lo + 1), shape)


def expected(instance, drawn):
    """[(argument, index, dtype, values)] by the reference."""
    inputs, types = {}, {}
    for (arg, index, dtype, stored) in drawn:
        inputs.setdefault(arg, []).append(from_dtype(stored, dtype))
        types[arg] = dtype
    view = Instance(instance.op["name"], inputs, instance.all_attrs(), instance.dtype, instance.outputs(), types)
    with np.errstate(all="ignore"):
        result = REFERENCES[instance.op["name"]](view)
    outputs = instance.outputs()
    if not isinstance(result, dict):
        result = {next(iter(outputs)): result}
    for arg, count in outputs.items():
        if arg not in result:
            raise KeyError(f"the reference gives no output '{arg}'")
        values = result[arg]
        for i, value in enumerate(values if isinstance(values, list) else [values]):
            if isinstance(value, Typed):
                yield arg, i, value.dtype, value.array
            else:
                value = np.asarray(value)
                own = instance.dtype
                if own == "fixed":
                    own = next(iter(types.values()), "f32")
                yield arg, i, own, value


def store(values, dtype):
    """Expected floating values keep more digits than the element type has, but for f64 itself."""
    if dtype in FLOATING:
        return np.asarray(values, np.float64 if dtype == "f64" else np.float32)
    return np.asarray(values).astype(DTYPES[dtype][1])


def vectors(op):
    data, meta, failures = {}, {}, []
    for instance in instances(op):
        rng = np.random.default_rng(zlib.crc32(f"{op['name']}|{instance.name}".encode()))
        drawn = [(arg, index, dtype, to_dtype(draw(rng, dtype, shape, lo, hi), dtype)) for arg, index, dtype, shape, lo, hi in instance.inputs()]
        try:
            outputs = list(expected(instance, drawn))
        except Exception as e:  # a reference that does not know this case: say which, go on
            failures.append(f"{op['name']} {instance.name}: {type(e).__name__}: {e}")
            if os.environ.get("OPC_TRACE"):
                traceback.print_exc()
            continue
        meta[instance.name] = instance.fingerprint()
        for arg, index, dtype, stored in drawn:
            data[f"{instance.name}|in|{arg}|{index}|{dtype}"] = stored
        for arg, index, dtype, values in outputs:
            data[f"{instance.name}|out|{arg}|{index}|{dtype}"] = store(values, dtype)
    return data, meta, failures


def main(names):
    ops = [o for o in load_registry() if not names or o["name"] in names]
    failures, written, missing = [], 0, []
    for op in ops:
        if op["name"] in NOT_COMPARED or not op["cases"]:
            continue
        if op["name"] not in REFERENCES:
            missing.append(op["name"])
            continue
        data, meta, failed = vectors(op)
        failures += failed
        if meta:
            data["meta"] = np.frombuffer(json.dumps(meta, sort_keys=True).encode(), np.uint8)
            path = vector_path(op["name"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            np.savez_compressed(path, **data)
            written += 1
    if not names:
        for path in glob.glob(os.path.join(os.path.dirname(vector_path("x")), "*.npz")):
            if os.path.basename(path)[:-4] not in {o["name"] for o in ops}:
                os.remove(path)
    for f in failures[:20]:
        print("failed:", f)
    if missing:
        print("no reference:", " ".join(missing))
    size = sum(os.path.getsize(p) for p in glob.glob(os.path.join(os.path.dirname(vector_path("x")), "*.npz")))
    print(f"{written} files written, {size / 1e6:.2f} MB in all, {len(failures)} instances failed, {len(missing)} ops without a reference")
    return 1 if failures or missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
