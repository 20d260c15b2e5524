# ONNX Runtime on a few models, in one process.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.environ.get("OPC_PEERS", os.path.join(HERE, "..", "..", "build", "peers"))
TYPES = {"float32": np.float32, "float64": np.float64, "int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16,
         "int32": np.int32, "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64, "bool": np.bool_}


def is_there():
    return os.path.isdir(os.path.join(PEERS, "node_modules", "onnxruntime-node"))


def saturates():
    """Whether its products of 8-bit integers do: on x86-64 without VNNI it adds pairs of them in 16 bits, as its page on quantization says."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            flags = next((line.split(":", 1)[1].split() for line in f if line.startswith("flags")), [])
    except OSError:
        return False
    return "avx2" in flags and not {"avx_vnni", "avx512_vnni"} & set(flags)


def judges(test):
    """Whether it is there to judge; else the test is skipped when it has ended well, and not passed by its other judges alone."""
    if not is_there() and not getattr(test, "unjudged", False):
        test.unjudged = True
        test.addCleanup(test.skipTest, "ONNX Runtime is not here (tools/dev/setup.sh --tests): compared with the other judges alone")
    return is_there()


def run(folder, cases):
    """cases: the name of a model in the folder, and its inputs by name. The outputs of each by name."""
    described, values = [], bytearray()
    for model, inputs in cases:
        feeds = {}
        for name, array in inputs.items():
            array = np.asarray(array, order="C")
            feeds[name] = {"type": array.dtype.name, "dims": list(array.shape), "at": len(values), "bytes": array.nbytes}
            values += array.tobytes()
        described.append({"model": model, "feeds": feeds})
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as f:
        json.dump(described, f)
    with open(os.path.join(folder, "values.bin"), "wb") as f:
        f.write(values)
    done = subprocess.run(["node", os.path.join(HERE, "ort_cases.js"), folder], capture_output=True, text=True,
                          env={**os.environ, "NODE_PATH": os.path.join(PEERS, "node_modules")})
    if done.returncode:
        raise AssertionError(f"ONNX Runtime ended with {done.returncode}: {done.stderr[-2000:]}")
    with open(os.path.join(folder, "results.json"), encoding="utf-8") as f:
        results = json.load(f)
    with open(os.path.join(folder, "results.bin"), "rb") as f:
        made = f.read()
    all_ = []
    for (model, _), result in zip(cases, results):
        if "error" in result:
            raise AssertionError(f"ONNX Runtime on {model}: {result['error']}")
        all_.append({name: np.frombuffer(made, TYPES[o["type"]], count=o["bytes"] // np.dtype(TYPES[o["type"]]).itemsize,
                                         offset=o["at"]).reshape(o["dims"]) for name, o in result["outputs"].items()})
    return all_
