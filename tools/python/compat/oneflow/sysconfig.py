"""`flow.sysconfig`: how sources are compiled, as `opc sdk` says it."""
# SPDX-License-Identifier: Apache-2.0
import functools
import os
import shlex
import shutil
import subprocess
from typing import List, Optional, Tuple

import opc


@functools.lru_cache(maxsize=None)
def _command() -> str:
    """The `opc` that this package belongs to, else that on PATH."""
    folder = os.path.dirname(os.path.abspath(opc.__file__))
    for _ in range(6):
        folder = os.path.dirname(folder)
        found = os.path.join(folder, "bin", "opc")
        if os.access(found, os.X_OK):
            return found
    on_path = shutil.which("opc")
    if on_path is None:
        raise RuntimeError("the command `opc`, which knows how operators are compiled, is neither beside this package nor on PATH")
    return on_path


@functools.lru_cache(maxsize=None)
def _flags(option: str) -> Tuple[str, ...]:
    done = subprocess.run([_command(), "sdk", option], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return tuple(shlex.split(done.stdout))


def get_compile_flags() -> List[str]:
    """-I, -D and -std=c++17: what g++, clang++ and nvcc all take."""
    return [flag for flag in _flags("--cflags") if flag.startswith(("-I", "-D", "-std="))]


def get_include() -> str:
    """The folder of the headers at OneFlow's paths."""
    return next(f[2:] for f in get_compile_flags() if os.path.isdir(os.path.join(f[2:], "oneflow")))


def get_lib() -> str:
    """The folder of the library to link."""
    return next(flag[2:] for flag in _flags("--ldflags") if flag.startswith("-L"))


def get_link_flags() -> List[str]:
    """The SDK's library, and the folder of the CUDA runtime where nvcc is."""
    flags = list(_flags("--ldflags"))
    cuda = _cuda_runtime()
    return flags + (["-L" + cuda, "-Wl,-rpath," + cuda] if cuda else [])


@functools.lru_cache(maxsize=None)
def _cuda_runtime() -> Optional[str]:
    """The folder of libcudart.so. nvcc itself says where it links from: what PATH has may be a link or a script elsewhere."""
    if shutil.which("nvcc") is None:
        return None
    said = subprocess.run(["nvcc", "--dryrun", "-x", "cu", os.devnull], capture_output=True, text=True).stderr
    line = next((text for text in said.splitlines() if text.startswith("#$ LIBRARIES=")), "#$ LIBRARIES=")
    folders = [os.path.realpath(flag[2:]) for flag in shlex.split(line.partition("=")[2]) if flag.startswith("-L")]
    return next((f for f in folders if os.path.exists(os.path.join(f, "libcudart.so"))), None)
