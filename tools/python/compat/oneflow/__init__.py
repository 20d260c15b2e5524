"""Programs in OneFlow's style (v0.3) over opc: `import oneflow as flow` (docs/python-styles.md)."""
# SPDX-License-Identifier: Apache-2.0
import os

import opc
from opc import _places

from . import config, experimental, math, nn, optimizer, scope, sysconfig, typing
from ._functions import cast, matmul, reshape, transpose
from ._job import FunctionConfig, checkpoint, function_config, get_variable, global_function, watch, watch_diff
from ._user_op import user_op_builder

_places.skip_folder(os.path.dirname(os.path.abspath(__file__)))

float = float32 = opc.dtype("f32")
double = float64 = opc.dtype("f64")
float16 = opc.dtype("f16")
int8, int32, int64, uint8 = (opc.dtype(name) for name in ("i8", "i32", "i64", "u8"))

zeros_initializer = opc.init.zeros
ones_initializer = opc.init.ones


def constant_initializer(value=0, dtype=None):
    """Every element is `value`."""
    return opc.init.constant(value)


def random_uniform_initializer(minval=0, maxval=1, dtype=None):
    """Uniform in [minval, maxval)."""
    return opc.init.uniform(minval, maxval)


def random_normal_initializer(mean=0.0, stddev=1.0, seed=None, dtype=None):
    """Normal; the numbers follow from the session's seed and the variable's name."""
    return opc.init.normal(mean, stddev)


def truncated_normal_initializer(mean=0.0, stddev=1.0):
    """Normal, drawn again beyond two standard deviations."""
    return opc.init.truncated_normal(mean, stddev)


__all__ = [
    "FunctionConfig", "cast", "checkpoint", "config", "constant_initializer", "double", "experimental", "float", "float16", "float32",
    "float64", "function_config", "get_variable", "global_function", "int32", "int64", "int8", "math", "matmul", "nn",
    "ones_initializer", "optimizer", "random_normal_initializer", "random_uniform_initializer", "reshape", "scope", "sysconfig",
    "transpose", "truncated_normal_initializer", "typing", "uint8", "user_op_builder", "watch", "watch_diff", "zeros_initializer",
]  # fmt: skip
