#!/usr/bin/env python3
"""Makes a wheel of the package as it was built: make_wheel.py PACKAGE_FOLDER VERSION OUTPUT_FOLDER. Needs no network and nothing installed."""
# SPDX-License-Identifier: Apache-2.0
import base64
import hashlib
import os
import sys
import sysconfig
import zipfile

METADATA = """Metadata-Version: 2.1
Name: opc
Version: {version}
Summary: Compiler and executor of static operator graphs
License: Apache-2.0
Classifier: Programming Language :: Python :: 3
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
Requires-Python: >={python}
Requires-Dist: numpy
Description-Content-Type: text/markdown

{description}"""


def contents(folder):
    """(name in the wheel, bytes), sorted: sources, stubs and the module."""
    for name in sorted(os.listdir(os.path.join(folder, "opc"))):
        if name.endswith((".py", ".pyi", ".so")) or name == "py.typed":
            with open(os.path.join(folder, "opc", name), "rb") as f:
                yield "opc/" + name, f.read()


def make(folder, version, out):
    """Writes the wheel; gives its path. Equal contents give equal bytes."""
    tag = "cp%d%d" % sys.version_info[:2]
    tag = f"{tag}-{tag}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    info = f"opc-{version}.dist-info"
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "python.md"), encoding="utf-8") as f:
        description = f.read()
    files = list(contents(folder))
    if not any(name.endswith(".so") for name, _ in files):
        raise SystemExit(f"{folder}/opc has no module: build the target opc_python first")
    files.append((f"{info}/METADATA", METADATA.format(version=version, python="%d.%d" % sys.version_info[:2], description=description).encode()))
    files.append((f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: opc {version}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()))
    record = ""
    for name, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files.append((f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode()))
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, f"opc-{version}-{tag}.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    print(make(*sys.argv[1:]))
