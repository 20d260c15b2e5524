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


def styles(opc, scratch):
    """A program of each style, and one of opc's own ops in the command, with the paths that the installed command prints."""
    paths = {option: run(opc, "python", option).strip() for option in ("--path", "--compat-path")}
    assert all(os.path.realpath(p).startswith(os.path.realpath(os.path.dirname(os.path.dirname(opc)))) for p in paths.values()), paths
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("OPC_", "PYTHON"))}
    env = {**keep, "PYTHONPATH": ":".join(paths.values()), "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": scratch}
    folder = os.path.join(scratch, "styles")
    os.makedirs(os.path.join(folder, "user_relu"))
    sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))
    import mxnet_listings as mx
    import oneflow_listings as flow
    import paddle_listings as paddle
    from python_op_sources import LEAKY

    def write(name, text):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)
        return os.path.join(folder, name)

    for part, text in (("cpp_def.cpp", flow.USER_RELU_CPP_DEF), ("py_api.py", flow.USER_RELU_PY_API), ("py_kernel.py", flow.USER_RELU_PY_KERNEL)):
        write("user_relu/user_relu_" + part, text)
    for name, text in (("mx", mx.IMPORTS + mx.SIGMOID_OP + mx.SIGMOID_PROP + mx.SIGMOID_FORWARD), ("paddle", paddle.CUS_TANH + paddle.CUS_TANH_USE), ("flow", flow.USER_RELU_PROGRAM)):
        said = run(sys.executable, write(f"a_{name}.py", text), cwd=folder, env=env)
        assert {"mx": "<NDArray 4 @cpu(0)>", "paddle": "Tensor(shape=[2, 3]", "flow": "[-2. -1.  0.  1.  2.]"}[name] in said, said
    write("leaky.py", LEAKY)
    write("save.py", "import opc, leaky\ng = opc.Graph()\ng.output('y', leaky.leaky_relu(g.input('x', (3,)), alpha=0.5))\ng.save('g.pbtxt')\n")
    run(sys.executable, "save.py", cwd=folder, env=env)
    run(opc, "compile", "g.pbtxt", "-o", "g.plan", cwd=folder, env=keep)
    for command in ((opc, "run", "g.pbtxt"), (os.path.join(os.path.dirname(opc), "opc-runtime"), "g.plan")):
        said = run(*command, "--input", "x=f32[3]:-2,0,4", "--op-path", ".", cwd=folder, env=keep)
        assert "[-1, 0, 4]" in said, said


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
        styles(opc, scratch)

    project = os.path.join(scratch, "project")
    shutil.copytree(os.path.join(SOURCE, "docs", "examples", "myrelu_plugin"), project)
    build = os.path.join(scratch, "plugin-build")
    # CUDA is compiled in tests/plugin/build_and_load.py; here it would only slow the test.
    run("cmake", "-S", project, "-B", build, f"-DCMAKE_PREFIX_PATH={moved}", "-DCMAKE_CUDA_COMPILER=", f"-DCMAKE_CXX_COMPILER={os.environ.get('OPC_PLUGIN_CXX', 'g++')}")
    run("cmake", "--build", build)
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc: # as it is configured where CUDA's compiler is on the path
        path = os.path.dirname(nvcc) + os.pathsep + os.environ["PATH"]
        said = run("env", f"PATH={path}", "cmake", "-S", project, "-B", build + "-cuda", f"-DCMAKE_PREFIX_PATH={moved}", f"-DCMAKE_CXX_COMPILER={os.environ.get('OPC_PLUGIN_CXX', 'g++')}")
        assert "CUDA compiler identification" in said, said
    library = next(os.path.join(build, f) for f in os.listdir(build) if f.endswith("myrelu.so"))
    out = run(opc, "run", os.path.join(project, "myrelu.pbtxt"), "--plugin", library, "--input", "x=f32[5]:-2,-1,0,1,2", "--print", "all")
    run(opc, "plugin", "check", library)

    # Components are libraries; one that does not exist is not found.
    for component, is_there in (("sdk", True), ("runtime", True), ("nosuch", False)):
        at = os.path.join(scratch, "components-" + component)
        os.makedirs(at)
        with open(os.path.join(at, "CMakeLists.txt"), "w", encoding="utf-8") as f:
            f.write(f"cmake_minimum_required(VERSION 3.22)\nproject(p NONE)\nfind_package(opc REQUIRED COMPONENTS {component})\n")
        done = subprocess.run(["cmake", "-S", at, "-B", os.path.join(at, "build"), f"-DCMAKE_PREFIX_PATH={moved}"], capture_output=True, text=True)
        assert (done.returncode == 0) == is_there, done.stderr
        assert is_there or "opc has no component nosuch" in done.stderr, done.stderr

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
