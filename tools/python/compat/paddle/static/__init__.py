"""Programs that are built first and run later: paddle.static. A program becomes an opc.Graph."""
# SPDX-License-Identifier: Apache-2.0
from . import nn
from .nn import py_func, static_pylayer
from .program import (
    CPUPlace, Executor, InputSpec, Program, append_backward, cpu_places, create_parameter, data, default_main_program, default_startup_program,
    gradients, program_guard,
)  # fmt: skip

__all__ = [
    "CPUPlace", "Executor", "InputSpec", "Program", "append_backward", "cpu_places", "create_parameter", "data", "default_main_program",
    "default_startup_program", "gradients", "nn", "program_guard", "py_func", "static_pylayer",
]
