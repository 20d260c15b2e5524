#!/usr/bin/env python3
# Which functions of opc starting, importing and running execute: the order in which the linker lays the program's code.
# SPDX-License-Identifier: Apache-2.0
"""usage: function_order.py [--build DIR] [--output FILE]        writes tools/cmake/function_order.txt

What is executed lies together, so that a process brings a few megabytes of its code into memory, not half of the program. First comes
what runs before main, then what some commands execute: models of tests/onnx/zoo, an example that trains, regions as machine code. Needs
valgrind, objcopy, Debian's python3-torch (/usr/bin/python3) and a build. Names that the list misses or that are no more cost some pages:
write it anew when the test `function_order` says so.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FAMILIES = os.path.join(ROOT, "tools", "cmake", "function_families.ld")
MODELS = ("mlp", "cnn", "encoder", "lstm_tagger", "mobilenet_v3")
LONGEST = 400  # longer names are types within types; the few functions cost less than their names


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def executed(program, arguments, folder, environment):
    """The functions of the program itself that a command executes."""
    profile = os.path.join(folder, "profile")
    run(["valgrind", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={profile}", program, "--config", "none", *arguments],
        cwd=folder, env={**os.environ, "GOMP_SPINCOUNT": "0", "XDG_CACHE_HOME": os.path.join(folder, "cache"), **environment})  # fmt: skip
    names, here, found = {}, False, set()
    objects = {}
    with open(profile, encoding="utf-8", errors="replace") as f:
        for line in f:
            entry = re.match(r"(c?)(ob|fn)=(\(\d+\))(?: (.*))?$", line.rstrip("\n"))
            if not entry:
                continue
            called, kind, number, name = entry.groups()
            table = objects if kind == "ob" else names
            if name:
                table[number] = name
            if kind == "ob" and not called:
                here = table[number] == program
            elif kind == "fn" and not called and here and re.fullmatch(r"[A-Za-z_][\w.$]*('\d+)?", table[number]):
                found.add(re.sub(r"'\d+$", "", table[number]))
    return found


def families():
    """What the linker script has gathered already, by the names of its sections."""
    with open(FAMILIES, encoding="utf-8") as f:
        globs = re.findall(r"\.text\.([\w*]+)", f.read())
    return re.compile("|".join(glob.replace("*", ".*") for glob in globs))


def main():
    parser = argparse.ArgumentParser(description=re.sub(r"\n\n.*", "", __doc__ or "", flags=re.S))
    parser.add_argument("--build", default=os.environ.get("OPC_BUILD_DIR", os.path.join(ROOT, "build")))
    parser.add_argument("--output", default=os.path.join(ROOT, "tools", "cmake", "function_order.txt"))
    options = parser.parse_args()
    digits = os.path.join(ROOT, "docs", "examples", "digits")
    gathered = families()
    with tempfile.TemporaryDirectory(prefix="function_order") as folder:
        program = os.path.join(folder, "opc")
        run(["objcopy", "--strip-debug", os.path.join(options.build, "bin", "opc"), program])  # valgrind does not read all of DWARF 5
        start = executed(program, ["--version"], folder, {})
        later = set()
        for name in MODELS:
            at = os.path.join(folder, name)
            os.mkdir(at)
            run(["/usr/bin/python3", os.path.join(ROOT, "tests", "onnx", "zoo", "export.py"), at, name, "1"])
            model = ["run", os.path.join(at, "model.onnx"), "--inputs", os.path.join(at, "inputs"), "--outputs", os.path.join(folder, "made"),
                     "-j", "1", "--print", "none", "--quiet"]  # fmt: skip
            later |= executed(program, model, folder, {"OPC_CODE_LEVEL": "v3"} if name == "encoder" else {})
        later |= executed(program, ["show", os.path.join(folder, "mlp", "model.onnx")], folder, {})
        with open(os.path.join(folder, "loss.pbtxt"), "w", encoding="utf-8") as whole:
            for part in ("cnn.pbtxt", "cnn_loss.pbtxt"):
                with open(os.path.join(digits, part), encoding="utf-8") as f:
                    whole.write(f.read())
        later |= executed(program, ["grad", "loss.pbtxt", "--shape", "image=64,64", "--shape", "label=64", "--loss", "loss", "--optimizer", "adam",
                                    "--lr", "0.002", "-o", "train.pbtxt"], folder, {})  # fmt: skip
        later |= executed(program, ["run", "train.pbtxt", "--fill", "rand", "--print", "none", "--quiet"], folder, {})
    lines = []
    for names in (start, later - start):
        lines += sorted(n for n in names if len(n) <= LONGEST and not gathered.search(n))
    with open(options.output, "w", encoding="utf-8") as f:
        f.write("".join(f"{n}\n" for n in lines))
    print(f"{options.output}: {len(lines)} functions")


if __name__ == "__main__":
    main()
