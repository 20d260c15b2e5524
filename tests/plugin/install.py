# The installed package: projects of their own find opc, build a plugin that the installed command loads, and embed opc.
# SPDX-License-Identifier: Apache-2.0
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

import numpy as np

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]


# A sanitizer's runtime comes with the program that is linked.
SANITIZE = os.environ.get("OPC_SANITIZE", "")
LINK = [f"-fsanitize={SANITIZE}"] if SANITIZE else []
CC, CXX = (os.environ["OPC_CXX"].replace("clang++", "clang"), os.environ["OPC_CXX"]) if SANITIZE else ("cc", "c++")


def run(*command, **kw):
    done = subprocess.run(command, capture_output=True, text=True, **kw)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


with tempfile.TemporaryDirectory() as scratch:
    prefix = os.path.join(scratch, "prefix")
    run("cmake", "--install", BUILD, "--prefix", prefix)
    opc = os.path.join(prefix, "bin", "opc")
    assert os.path.exists(opc), "no bin/opc in the prefix"

    # The prefix may be moved: nothing in it remembers where it was made.
    moved = os.path.join(scratch, "moved")
    shutil.move(prefix, moved)
    opc = os.path.join(moved, "bin", "opc")
    said = run(opc, "sdk", "--prefix").strip()
    assert os.path.realpath(said) == os.path.realpath(moved), f"opc sdk --prefix says {said}"

    # The Python package, where it was built.
    if os.path.exists(os.path.join(BUILD, "python", "opc")):
        package = run(opc, "python", "--path").strip()
        assert os.path.realpath(package).startswith(os.path.realpath(moved)), f"opc python --path says {package}"
        program = "import opc; g = opc.Graph(); g.output('y', g.input('x', (2,)) + 1); print(opc.__file__, *g.compile().run(x=[1.0, 2.0])['y'])"
        found = run("env", f"PYTHONPATH={package}", sys.executable, "-c", program).split()
        assert found == [os.path.join(package, "opc", "__init__.py"), "2.0", "3.0"], found

    project = os.path.join(scratch, "project")
    shutil.copytree(os.path.join(SOURCE, "docs", "examples", "myrelu_plugin"), project)
    build = os.path.join(scratch, "plugin-build")
    # CUDA is compiled in tests/plugin/build_and_load.py; here it would only slow the test.
    run("cmake", "-S", project, "-B", build, f"-DCMAKE_PREFIX_PATH={moved}", "-DCMAKE_CUDA_COMPILER=", f"-DCMAKE_CXX_COMPILER={os.environ.get('OPC_PLUGIN_CXX', 'g++')}")
    run("cmake", "--build", build)
    library = next(os.path.join(build, f) for f in os.listdir(build) if f.endswith("myrelu.so"))
    out = run(opc, "run", os.path.join(project, "myrelu.pbtxt"), "--plugin", library, "--input", "x=f32[5]:-2,-1,0,1,2", "--print", "all")
    run(opc, "plugin", "check", library)

    # The same with the flags that the installed command gives.
    library = os.path.join(scratch, "libflags.so")
    sources = [os.path.join(project, f) for f in ("myrelu_op.cpp", "myrelu_cpu_kernel.cpp")]
    run("g++", "-fPIC", "-shared", *shlex.split(run(opc, "sdk", "--cflags")), *sources, "-o", library, *shlex.split(run(opc, "sdk", "--ldflags")))
    run(opc, "plugin", "check", library)

    # Programs: the runtime, the compiler, C.
    digits = os.path.join(SOURCE, "docs", "examples", "digits")
    weights, images = os.path.join(digits, "mlp_weights.npz"), os.path.join(digits, "test_images.npy")
    plan = os.path.join(scratch, "mlp.plan")
    run(opc, "compile", os.path.join(digits, "mlp.pbtxt"), "-q", "-o", plan)
    expected = [int(d) for d in np.load(os.path.join(digits, "mlp_test_logits.npy")).argmax(1)]

    def example(name, program):
        """Built out of tree, as its README says."""
        build = os.path.join(scratch, name)
        run("cmake", "-S", os.path.join(SOURCE, "docs", "examples", name), "-B", build, f"-DCMAKE_PREFIX_PATH={moved}", "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_C_COMPILER={CC}",
            f"-DCMAKE_CXX_COMPILER={CXX}", f"-DCMAKE_EXE_LINKER_FLAGS={' '.join(LINK)}")
        run("cmake", "--build", build)
        return os.path.join(build, program)

    program = example("embed_cpp", "read_digits")
    read = [int(d) for d in run(program, plan, weights, images).split()]
    assert read == expected, f"embed_cpp reads {read[:10]}..., PyTorch {expected[:10]}..."
    failed = subprocess.run([program, os.path.join(digits, "mlp.pbtxt"), weights, images], capture_output=True, text=True)
    assert failed.returncode == 5 and "OPC0801" in failed.stderr, failed.stderr

    said = run(example("train_cpp", "train_digits"), digits, os.path.join(scratch, "checkpoint.safetensors"), "3")
    accuracy = float(said.splitlines()[-1].split(":")[1].split("%")[0])
    assert accuracy > 80, said

    include, lib = os.path.join(moved, "include"), os.path.join(moved, "lib")
    np.load(images).tofile(os.path.join(scratch, "images.bin"))
    source = os.path.join(SOURCE, "docs", "examples", "embed_c", "read_digits.c")
    for library, graph in (("opc", plan), ("opc_compiler", os.path.join(digits, "mlp.pbtxt"))):
        program = os.path.join(scratch, f"with_{library}")
        run(CC, *LINK, "-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", source, "-I", include, "-L", lib, f"-l{library}",
            f"-Wl,-rpath,{lib}", "-o", program)
        read = [int(d) for d in run(program, graph, weights, os.path.join(scratch, "images.bin")).split()]
        assert read == expected, f"embed_c with {library} reads {read[:10]}..., PyTorch {expected[:10]}..."

    # Every public header by the name that it is installed under, with nothing but the package's folders.
    for folders in (("runtime",), ("runtime", "compiler")):
        headers = [f"opc/{f}/{h}" for f in folders for h in sorted(os.listdir(os.path.join(include, "opc", f)))]
        text = "".join(f'#include "{h}"\n' for h in headers)
        flags = [x for f in folders for x in ("-I", os.path.join(include, "opc", f))]
        run("g++", "-std=c++20", "-fsyntax-only", "-x", "c++", "-", "-I", include, *flags, input=text)
    # Two libraries that hold the same would be two registries: CMake refuses.
    clash = os.path.join(scratch, "clash")
    os.mkdir(clash)
    with open(os.path.join(clash, "CMakeLists.txt"), "w") as f:
        f.write("cmake_minimum_required(VERSION 3.18)\nproject(clash LANGUAGES CXX)\nfind_package(opc REQUIRED)\n"
                f'add_executable(clash "{SOURCE}/docs/examples/embed_cpp/read_digits.cpp")\n'
                "target_link_libraries(clash PRIVATE opc::runtime opc::compiler)\n")
    done = subprocess.run(["cmake", "-S", clash, "-B", os.path.join(clash, "build"), f"-DCMAKE_PREFIX_PATH={moved}"], capture_output=True, text=True)
    assert done.returncode != 0 and "OPC_LIBRARY" in done.stderr, done.stderr
print("install: the installed package builds and loads a plugin, and is inside of four programs")
