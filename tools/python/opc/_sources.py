"""Sources that the user has named: run as modules of names of their own, so that none takes the place of another module."""
# SPDX-License-Identifier: Apache-2.0
import importlib
import importlib.util
import os
import re
import sys
from types import ModuleType
from typing import Dict, List, Optional

from ._op import LOADED

_loaded: Dict[str, ModuleType] = {}
_packages: Dict[str, str] = {}


def load(path: str, module: str, folders: List[str]) -> ModuleType:
    """Runs a source. module: what the manifest calls it, "p.rel" for rel.py of the package p; a source beside an __init__.py
    is one of a package in any case, if the user has named a folder."""
    path = os.path.realpath(path)
    if path in _loaded:
        return _loaded[path]
    _refuse_zeros(path)
    stem = os.path.splitext(os.path.basename(path))[0]
    parts = module.split(".")
    is_package = stem == "__init__" and parts[-1] != "__init__"
    packages = parts if is_package else parts[:-1]
    root = os.path.dirname(path)
    if not packages and folders and os.path.isfile(os.path.join(root, "__init__.py")):
        packages, is_package = [""], stem == "__init__"
    for _ in packages[1:]:
        root = os.path.dirname(root)
    if packages:
        names = [_package(root, packages[0]), *packages[1:], *([] if is_package else [stem])]
        made = importlib.import_module(".".join(names))
    else:
        made = _run(f"{LOADED}{len(_loaded)}_{stem}", path, None)
    _loaded[path] = made
    return made


def _refuse_zeros(path: str) -> None:
    """Python's own error for them names no file."""
    with open(path, "rb") as file:
        before, zero, _ = file.read().partition(b"\0")
    if zero:
        raise SyntaxError("the source has a byte 0: it is no text in UTF-8", (path, before.count(b"\n") + 1, None, None))


def _package(folder: str, label: str) -> str:
    """The name of a folder as a package."""
    if folder not in _packages:
        name, init = f"{LOADED}{len(_loaded) + len(_packages)}_{label}", os.path.join(folder, "__init__.py")
        if os.path.isfile(init):
            _run(name, init, folder)
        else:
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__path__ = [folder]
        _packages[folder] = name
    return _packages[folder]


def _run(name: str, path: str, folder: Optional[str]) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[folder] if folder else None)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def may_define_ops(path: str) -> bool:
    """Whether a source says how opc, or a system whose style is on the path, makes an operator. One that only builds graphs
    of them is none to run."""
    with open(path, "rb") as file:
        source = file.read()
    if b"opc" in source and re.search(rb"(?<![\w-])op(?![\w-])", source):
        return True
    styles = {"mxnet": rb"\bregister\b|\bCustomOp", "paddle": rb"\bPyLayer\b|\bpy_func\b|\bstatic_pylayer\b"}
    return any(style.encode() in source and re.search(words, source) and _is_a_style(style) for style, words in styles.items())


def _is_a_style(name: str) -> bool:
    found = importlib.util.find_spec(name)
    return bool(found and found.origin and os.path.isdir(os.path.join(os.path.dirname(os.path.dirname(found.origin)), "opc_styles")))
