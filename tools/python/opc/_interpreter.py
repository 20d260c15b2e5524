"""Subinterpreters are refused: the core is one for the process, and its kernels take the main interpreter's lock."""
# SPDX-License-Identifier: Apache-2.0
import sys
from typing import Any


def _is_main() -> bool:
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    try:
        interpreters: Any = __import__(name)
    except ImportError:
        return True
    return bool(interpreters.get_current() == interpreters.get_main())


if not _is_main():
    raise ImportError("opc is for the main interpreter of a process, and this is a subinterpreter: use threads or processes")
