"""`flow.experimental`: operators whose kernels are Python, from a directory."""
# SPDX-License-Identifier: Apache-2.0
import os
import types
from typing import Any, Dict, Optional

import opc

from . import _build, _python_op


def custom_op_module(op_type_name: str, module_path: str) -> "CustomOpModule":
    """The directory `op_type_name` in `module_path`, with NAME_cpp_def.cpp, NAME_py_api.py and NAME_py_kernel.py."""
    return CustomOpModule(op_type_name, module_path)


class CustomOpModule:
    """py_api(), cpp_def() and py_kernel() say which of the files count, build_load() brings them in."""

    def __init__(self, name: str, folder: str) -> None:
        self.name = name
        self.folder = os.path.join(os.path.abspath(folder), name)
        self.api: Any = None
        self._files: Dict[str, str] = {}
        if not os.path.isdir(self.folder):
            raise FileNotFoundError(f"operator '{name}': there is no directory {self.folder}")

    def _take(self, part: str, ending: str) -> "CustomOpModule":
        path = os.path.join(self.folder, f"{self.name}_{part}.{ending}")
        if not os.path.isfile(path):
            raise FileNotFoundError(f"operator '{self.name}': {path} is missing")
        self._files[part] = path
        return self

    def py_api(self) -> "CustomOpModule":
        return self._take("py_api", "py")

    def cpp_def(self) -> "CustomOpModule":
        return self._take("cpp_def", "cpp")

    def py_kernel(self) -> "CustomOpModule":
        return self._take("py_kernel", "py")

    def build_load(self) -> "CustomOpModule":
        """Compiles the definition, unless a library of it is in the cache, and loads all."""
        library: Optional[str] = None
        if "cpp_def" in self._files:
            library = _build.library_of(self._files["cpp_def"])
            opc.load_plugin(library)
        if "py_kernel" in self._files:
            if library is None:
                raise RuntimeError(f"operator '{self.name}' has a Python kernel and no definition: call .cpp_def() too")
            kernels = _run(self._files["py_kernel"])
            if not _python_op.define(library, vars(kernels)):
                raise ValueError(f"{self._files['cpp_def']} defines no operator with .Attr<std::string>(\"device_sub_tag\", \"py\")")
        if "py_api" in self._files:
            self.api = _run(self._files["py_api"])
        return self


def _run(path: str) -> types.ModuleType:
    """The source as a module; nothing is written beside it."""
    module = types.ModuleType(os.path.splitext(os.path.basename(path))[0])
    module.__file__ = path
    with open(path, "rb") as file:
        exec(compile(file.read(), path, "exec"), module.__dict__)
    return module
