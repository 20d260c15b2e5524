# The lit configuration of the suites tests/ir (opc-opt) and tests/cli (opc); loaded by the generated lit.site.cfg.py.
# SPDX-License-Identifier: Apache-2.0
import os

import lit.formats

config.name = f"opc-{config.opc_suite}"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = {"ir": [".mlir"], "cli": [".test"]}[config.opc_suite]
config.excludes = ["Inputs"]
config.test_source_root = os.path.join(config.opc_source_dir, "tests", config.opc_suite)
config.test_exec_root = os.path.join(config.opc_build_dir, "tests", config.opc_suite)

# REQUIRES: nvcc is for tests that need kernels for GPUs.
if config.opc_nvcc not in ("", "OFF") and not config.opc_nvcc.endswith("NOTFOUND"):
    config.available_features.add("nvcc")

# REQUIRES: python is for tests that need the Python package, which sanitized builds do without.
if os.path.exists(os.path.join(config.opc_build_dir, "python", "opc", "__init__.py")):
    config.available_features.add("python")

# FileCheck, not and split-file sit in one folder.
llvm_bin = os.path.dirname(config.opc_filecheck)
config.environment["PATH"] = os.pathsep.join([config.opc_bin_dir, llvm_bin, os.environ.get("PATH", "")])
for name in [n for n in config.environment if n.startswith("OPC_")] + ["FORCE_COLOR"]:
    config.environment.pop(name, None)
config.environment["NO_COLOR"] = "1"
config.environment["OPC_VERIFY_EACH"] = "1"
config.environment["OPC_CACHE_SIZE"] = "0"
for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "OMP_TOOL_LIBRARIES", "OMP_NUM_THREADS", "CI"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

digits = os.path.join(config.opc_source_dir, "docs", "examples", "digits")
config.substitutions += [
    ("%digits", digits),
    ("%inputs", os.path.join(config.test_source_root, "Inputs")),
    ("%python", config.opc_python),
    # %exits CODE COMMAND...: runs the command and demands this very exit code.
    ("%exits", f'"{config.opc_python}" "{os.path.join(config.opc_source_dir, "tests", "cli", "exits.py")}"'),
]
