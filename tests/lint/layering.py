# Forbidden includes must not compile: each is tried with the include roots that the build gives to that folder.
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import glob
import json
import os
import shlex
import subprocess
import sys
import tempfile

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]

# (folder whose sources are the model, header that it may not see)
FORBIDDEN = [
    ("kernels/sdk/src", "Registry.h"),
    ("kernels/sdk/src", "graph.pb.h"),
    ("kernels/registry", "Session.h"),
    ("kernels/registry", "plan.pb.h"),
    ("kernels/registry", "OpInstance.h"),
    ("kernels/registry", "NdSbp.h"),
    ("kernels/gradients", "Registry.h"),
    ("kernels/instance", "NdSbp.h"),
    ("kernels/instance", "OpCost.h"),
    ("kernels/instance", "Session.h"),
    ("kernels/cost", "NdSbp.h"),
    ("kernels/region", "NdSbp.h"),
    ("kernels/region", "llvm/IR/Module.h"),
    ("compiler/codegen", "Pipeline.h"),
    ("kernels/signatures", "OpCost.h"),
    ("kernels/signatures", "plan.pb.h"),
    ("kernels/purity", "NdSbp.h"),
    ("kernels/spelling", "opc/Op.h"),
    ("kernels/python/manifest", "Python.h"),
    ("kernels/python/manifest", "Pipeline.h"),
    ("kernels/python/manifest", "Session.h"),
    ("kernels/python/host", "Registry.h"),
    ("kernels/python/host", "graph.pb.h"),
    ("kernels/python/host", "Pipeline.h"),
    ("kernels/python/host", "Session.h"),
    ("runtime/tensorio", "Registry.h"),
    ("kernels/ops", "Registry.h"),
    ("kernels/ops", "graph.pb.h"),
    ("kernels/ops", "Session.h"),
    ("runtime/taskgraph", "mlir/IR/Operation.h"),
    ("runtime/taskgraph", "llvm/ADT/SmallVector.h"),
    ("runtime/taskgraph", "Pipeline.h"),
    ("runtime/session", "mlir/IR/Operation.h"),
    ("kernels/sharding", "Registry.h"),
    ("compiler/planner", "OpInstance.h"),
    ("compiler/planner", "mlir/IR/Operation.h"),
    ("compiler/simulate", "mlir/IR/Operation.h"),
    ("runtime/comm", "Registry.h"),
    ("runtime/capi", "Pipeline.h"),
    ("runtime/capi", "TaskGraph.h"),
    ("runtime/capi", "mlir/IR/Operation.h"),
    ("compiler/sbp", "Session.h"),
    ("compiler/sbp", "Schedule.h"),
    ("compiler/sbp", "LibraryFusion.h"),
    ("compiler/emitter", "Schedule.h"),
    ("compiler/lock", "mlir/IR/Operation.h"),
    ("compiler/lock", "Registry.h"),
    ("compiler/lock", "Pipeline.h"),
    ("compiler/lock", "Session.h"),
    ("compiler/onnx", "mlir/IR/Operation.h"),
    ("compiler/onnx", "Registry.h"),
    ("compiler/onnx", "Pipeline.h"),
    ("compiler/onnx", "Session.h"),
    ("compiler/onnx/export", "mlir/IR/Operation.h"),
    ("compiler/onnx/export", "Importer.h"),
    ("compiler/onnx/export", "Session.h"),
    ("compiler/onnx/import", "Pipeline.h"),
    ("compiler/onnx/import", "Schedule.h"),
    ("compiler/onnx/import", "Session.h"),
    ("compiler/fusion", "graph.pb.h"),
    ("compiler/fusion", "OpCost.h"),
    ("compiler/fusion", "Pipeline.h"),
    ("compiler/fusion", "Session.h"),
    ("compiler/wire", "Importer.h"),
    ("compiler/wire", "Schedule.h"),
    ("compiler/wire", "Session.h"),
    ("compiler/autodiff", "ShapeInference.h"),
    ("compiler/ir", "Schedule.h"),
    ("compiler/importer", "Session.h"),
    ("compiler/pipeline", "Session.h"),
    ("compiler/simulate", "mlir/IR/Operation.h"),
    ("compiler/simulate", "Pipeline.h"),
    ("compiler/simulate", "Session.h"),
    ("tools/opc/cli", "Pipeline.h"),
    ("tools/opc/text", "mlir/IR/Operation.h"),
    ("tools/opc/values", "Pipeline.h"),
    ("tools/opc/values", "Communicator.h"),
    ("tools/opc/values", "plan.pb.h"),
    ("tools/opc/commands", "mlir/IR/Operation.h"),
    ("tools/opc/commands", "OpcDialect.h"),
    ("tools/opc/run", "TaskGraph.h"),
    ("tools/gpusim/ptx", "Machine.h"),
    ("tools/gpusim/machine", "opc/Op.h"),
    ("tools/gpusim/machine", "StandInDriver.h"),
    ("tools/opc-runtime", "Pipeline.h"),
    ("tools/python/core", "mlir/IR/Operation.h"),
    ("tools/python/core", "TaskGraph.h"),
    ("tools/opc-runtime", "mlir/IR/Operation.h"),
]
# And what must compile, so that the test cannot pass because nothing does.
ALLOWED = [
    ("kernels/ops", "opc/Op.h"),
    ("kernels/registry", "Registry.h"),
    ("kernels/instance", "Registry.h"),
    ("kernels/signatures", "NdSbp.h"),
    ("runtime/taskgraph", "Registry.h"),
    ("runtime/taskgraph", "OpInstance.h"),
    ("runtime/session", "Session.h"),
    ("compiler/lock", "graph.pb.h"),
    ("compiler/onnx", "onnx.pb.h"),
    ("compiler/onnx/export", "Registry.h"),
    ("kernels/python/manifest", "Registry.h"),
    ("kernels/python/host", "Python.h"),
]


def commands():
    """folder -> the compile command of one of its sources, as a list without the source and the output."""
    with open(os.path.join(BUILD, "compile_commands.json")) as f:
        entries = json.load(f)
    found, direct = {}, {}
    for e in entries:
        name = os.path.relpath(os.path.realpath(e["file"]), os.path.realpath(SOURCE))
        words = shlex.split(e["command"])
        keep, skip = [], False
        for w in words:
            if skip:
                skip = False
            elif w in ("-o", "-MF", "-MT", "-Xclang", "-include", "-include-pch"):
                skip = True
            elif w not in ("-c", "-MD", e["file"]) and not w.endswith(("ccache", "cmake_pch.hxx")):
                keep.append(w)
        for folder in {f for f, _ in FORBIDDEN + ALLOWED}:
            if name.startswith(folder + "/"):
                found.setdefault(folder, (keep, e["directory"]))
            if os.path.dirname(name) == folder:  # rather than one of a target inside (compiler/onnx/import)
                direct.setdefault(folder, (keep, e["directory"]))
    return found | direct


def run(model, text, *flags):
    command, directory = model
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as f:
        f.write(text)
        f.flush()
        return subprocess.run([*command, *flags, f.name], cwd=directory, capture_output=True, text=True)


def seen(model, headers):
    """Which of these headers a source of the folder can include, by one run of the preprocessor."""
    done = run(model, "".join(f'#if __has_include("{h}")\nseen {h}\n#endif\n' for h in headers), "-E", "-P")
    if done.returncode:
        sys.exit(f"layering: the preprocessor fails:\n{done.stderr[:500]}")
    return [line.split()[1] for line in done.stdout.split("\n") if line.startswith("seen ")]


def main():
    models, failures = commands(), []
    tries = {folder: [header for f, header in FORBIDDEN if f == folder] for folder, _ in FORBIDDEN if folder in models}
    allowed = [(folder, header) for folder, header in ALLOWED if folder in models]
    for folder in sorted({f for f, _ in FORBIDDEN + ALLOWED} - set(models)):  # one that this build leaves out has sources all the same
        if not glob.glob(os.path.join(SOURCE, folder, "**", "*.cpp"), recursive=True):
            failures.append(f"{folder} has no sources: nothing was tried")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda folder: seen(models[folder], tries[folder]), tries)
        compiled = pool.map(lambda pair: run(models[pair[0]], f'#include "{pair[1]}"\n', "-fsyntax-only"), allowed)
        failures += [f"{folder} can include {header}" for folder, headers in zip(tries, found) for header in headers]
        for (folder, header), done in zip(allowed, compiled):
            if done.returncode:
                failures.append(f"{folder} cannot include {header}:\n{done.stderr[:500]}")
            elif header not in seen(models[folder], [header]):
                failures.append(f"{folder} includes {header}, and is not seen to")
    for f in failures:
        print("FAIL", f)
    count = len(allowed) + sum(map(len, tries.values()))
    print(f"layering: {count} includes tried, {len(failures)} failures")
    return 1 if failures or count < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
