# Safetensors by their specification: eight bytes with the size of a JSON header, the header, the tensors.
# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np

TYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32}


def read(path):
    """{name: array}."""
    return read_with_metadata(path)[1]


def read_with_metadata(path):
    """(metadata, {name: array}), of a file that ends with its last tensor."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        body = f.read()
    metadata = header.pop("__metadata__", {})
    assert max((t["data_offsets"][1] for t in header.values()), default=0) == len(body), path
    return metadata, {name: np.frombuffer(body[slice(*t["data_offsets"])], TYPES[t["dtype"]]).reshape(t["shape"]) for name, t in header.items()}
