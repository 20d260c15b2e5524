"""`flow.config`: libraries of operators, and numbers of devices."""
# SPDX-License-Identifier: Apache-2.0
import os

import opc


def load_library(path: str) -> None:
    """Adds the operators of a shared library for jobs that are traced from now on."""
    opc.load_plugin(os.path.abspath(path))


load_library_now = load_library


def gpu_device_num(count: int) -> None:
    """Taken, and without effect: jobs run on the CPU."""
    _check(count, "gpu_device_num")


def cpu_device_num(count: int) -> None:
    """Taken, and without effect: one process is one device."""
    _check(count, "cpu_device_num")


def _check(count: int, name: str) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ValueError(f"flow.config.{name} takes a number of devices, not {count!r}")
