# The bits of elements as those of another type.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from registry_cases import from_dtype, to_dtype

from .table import Typed, reference

STORED = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i32": np.int32, "i64": np.int64, "u32": np.uint32, "u16": np.uint16,
          "u8": np.uint8}


@reference("bit_cast")
def bit_cast(c):
    stored, to = np.asarray(to_dtype(c.get("in"), c.types["in"])), c.attr("dtype")
    return Typed(from_dtype(np.frombuffer(stored.tobytes(), STORED[to]).reshape(stored.shape), to), to)
