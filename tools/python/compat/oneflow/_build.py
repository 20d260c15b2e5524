"""Libraries of C++ sources, in a cache that goes by content: what is there is used, an edit makes another one."""
# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import os
import re
import subprocess
import tempfile
from typing import Dict, List, Optional

import opc

from . import sysconfig


def folder() -> str:
    """~/.cache/opc/oneflow, or in XDG_CACHE_HOME."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "opc", "oneflow")


def _hash(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _cached(record: str) -> Optional[str]:
    """The library, when the source and the headers that it was made from are as they were."""
    try:
        with open(record, encoding="utf-8") as file:
            known = json.load(file)
        if all(_hash(path) == content for path, content in known["sources"].items()) and _hash(known["library"]) == known["content"]:
            return str(known["library"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def library_of(source: str) -> str:
    """A plugin of one source, compiled with the SDK's flags."""
    command = [os.environ.get("CXX") or "g++", *sysconfig.get_compile_flags(), "-O2", "-fPIC", "-shared", source]
    link = [*sysconfig._flags("--ldflags")]
    os.makedirs(folder(), exist_ok=True)
    name = hashlib.sha256("\0".join([opc.__version__, *command, *link]).encode()).hexdigest()[:32]
    record = os.path.join(folder(), name + ".json")
    found = _cached(record)
    if found:
        return found
    with tempfile.TemporaryDirectory(dir=folder()) as scratch:
        made, needs = os.path.join(scratch, "made.so"), os.path.join(scratch, "made.d")
        done = subprocess.run([*command, "-MMD", "-MF", needs, "-o", made, *link], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{source} does not compile:\n{done.stderr.strip()}")
        sources = _sources(needs)
        content = _hash(made)
        library = os.path.join(folder(), content[:32] + ".so")
        os.replace(made, library)
        _write(record, {"sources": {path: _hash(path) for path in sources}, "library": library, "content": content}, scratch)
    return library


def _sources(dependencies: str) -> List[str]:
    """The files of a compiler's list, but for those of the system."""
    with open(dependencies, encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ").split(":", 1)[1]
    return [os.path.abspath(path.replace("\\ ", " ")) for path in re.findall(r"(?:\\ |\S)+", text)]


def _write(path: str, record: Dict[str, object], scratch: str) -> None:
    temporary = os.path.join(scratch, "record.json")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(record, file)
    os.replace(temporary, path)
