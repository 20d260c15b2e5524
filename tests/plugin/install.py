# The installed package: a CMake project of its own finds opc, builds a plugin, and the installed command loads it.
# SPDX-License-Identifier: Apache-2.0
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]


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
print("install: the installed package builds and loads a plugin")
