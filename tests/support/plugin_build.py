"""Plugins, built with nothing but what `opc sdk` says."""
# SPDX-License-Identifier: Apache-2.0
import os
import shlex
import subprocess

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
CXX = os.environ.get("OPC_PLUGIN_CXX", "g++")


def build_plugin(library, source, *options):
    """The library of a source: of a file, or of a text of several lines, which becomes a file beside it."""
    if "\n" in source:
        path = library.removesuffix("so") + "cpp"
        with open(path, "w", encoding="utf-8") as f:
            f.write(source)
        source = path
    compile, link = (shlex.split(subprocess.run([OPC, "sdk", flags], capture_output=True, text=True, check=True).stdout) for flags in ("--cflags", "--ldflags"))
    subprocess.run([CXX, *options, "-fPIC", "-shared", *compile, source, "-o", library, *link], check=True)
    return library
