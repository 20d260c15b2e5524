# Rules of the house that a script can check: sizes, names, first lines, forbidden words, what the binaries link.
# SPDX-License-Identifier: Apache-2.0
import collections
import glob
import json
import os
import re
import subprocess
import unittest

SOURCE = os.environ["OPC_SOURCE_DIR"]
BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
CODE = (".cpp", ".h", ".cu", ".cuh", ".td", ".py", ".proto", ".cmake", ".sh")
FOLDERS = ("proto", "compiler", "runtime", "kernels", "tools", "tests", "third_party", "docs", ".ci")


def files():
    """Source files, relative to the root: what git tracks, or the folders when there is no git."""
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=SOURCE, capture_output=True, text=True, check=True).stdout.split("\n")
        return [f for f in listed if f and os.path.isfile(os.path.join(SOURCE, f))]
    except (OSError, subprocess.CalledProcessError):
        found = [f for f in os.listdir(SOURCE) if os.path.isfile(os.path.join(SOURCE, f))]
        for folder in FOLDERS:
            for d, _, names in os.walk(os.path.join(SOURCE, folder)):
                found += [os.path.relpath(os.path.join(d, n), SOURCE) for n in names]
        return found


FILES = files()
# Headers at OneFlow's paths, with OneFlow's macros: what they are called is not ours to choose. LOG prints, from plugins.
ONEFLOW = ("kernels/sdk/compat/oneflow/", "tests/plugin/compat/")
TEXT = {}


def text(name):
    if name not in TEXT:
        with open(os.path.join(SOURCE, name), encoding="utf-8") as f:
            TEXT[name] = f.read()
    return TEXT[name]


def code():
    return [f for f in FILES if f.endswith(CODE) or os.path.basename(f) == "CMakeLists.txt"]


class Sources(unittest.TestCase):
    def report(self, found, rule):
        self.assertFalse(found, rule + ":\n  " + "\n  ".join(found))

    def test_size(self):
        long = [f"{f}: {n} lines" for f in code() if (n := text(f).count("\n")) > 800]
        self.report(long, "no file is longer than 800 lines; each of these wants to be two ideas")

    def test_first_line(self):
        """Each file says in its first line (after #! and, in a test, RUN lines) what it is for."""
        wrong = []
        for f in code():
            lines = [x for x in text(f).split("\n")[:12] if x.strip()]
            while lines and (lines[0].startswith("#!") or re.match(r"(//|#) *(RUN|REQUIRES|UNSUPPORTED):", lines[0])):
                lines.pop(0)
            if lines and not re.match(r'(//|#|/\*|;|""")', lines[0]):
                wrong.append(f"{f}: {lines[0][:60]}")
        self.report(wrong, "the first line is a comment that says what the file is for")

    def test_licence(self):
        """One SPDX line within the head of every source; examples are to be copied and have none."""
        wrong = []
        for f in FILES:
            script = "." not in os.path.basename(f) and f.startswith((".ci/", "tools/dev/")) and text(f).startswith("#!")
            if (f in code() or script) and not f.startswith("docs/examples/"):
                if not any(re.fullmatch(r"(//|#|/\*) SPDX-License-Identifier: Apache-2\.0( \*/)?", x) for x in text(f).split("\n")[:25]):
                    wrong.append(f)
        self.report(wrong, "sources without 'SPDX-License-Identifier: Apache-2.0' in a line of its own after their head comment")

    def test_header_names(self):
        """Include roots are flat, so a header's name is unique in the repository."""
        names = collections.defaultdict(list)
        for f in FILES:
            if f.endswith((".h", ".cuh")) and not f.startswith(("kernels/sdk/", "docs/examples/", "tests/plugin/")):
                names[os.path.basename(f)].append(f)
        self.report([f"{n}: {', '.join(v)}" for n, v in names.items() if len(v) > 1], "two headers have one name")

    def test_pragma_once(self):
        self.report([f for f in FILES if f.endswith((".h", ".cuh")) and "#pragma once" not in text(f)], "headers without #pragma once")

    def test_names(self):
        vague = re.compile(r"(^|[_.-])(utils?|helpers?|common|misc)([_.-]|$)", re.I)
        self.report([f for f in FILES if not f.startswith(ONEFLOW) and any(vague.search(p) for p in f.split("/"))], "names that say nothing")

    def test_forbidden_text(self):
        """No path of a developer's machine; no promise in place of work."""
        paths = re.compile("/" + "work/|/" + "home/[a-z]|/" + "root/|/Us" + "ers/")
        promise = re.compile("TO" + "DO|FIX" + "ME|XX" + "X[^X]")
        wrong = []
        for f in code() + [f for f in FILES if f.endswith((".md", ".pbtxt", ".mlir", ".test", ".txt", ".json"))]:
            for n, line in enumerate(text(f).split("\n"), 1):
                if paths.search(line) or (promise.search(line) and not f.endswith(".md") and not f.startswith(ONEFLOW)):
                    wrong.append(f"{f}:{n}: {line.strip()[:80]}")
        self.report(wrong, "forbidden text")

    def test_runtime_and_libraries_do_not_print_or_exit(self):
        bad = re.compile(r"std::(cout|cerr|exit|abort)\b|\bprintf\(|\bllvm::(errs|outs)\(\)")
        wrong = []
        for f in FILES:
            if f.startswith(("runtime/", "compiler/", "kernels/")) and f.endswith((".cpp", ".h")) and not f.startswith(ONEFLOW):
                for n, line in enumerate(text(f).split("\n"), 1):
                    if bad.search(line.split("//")[0]) and "snprintf" not in line:
                        wrong.append(f"{f}:{n}: {line.strip()[:80]}")
        self.report(wrong, "libraries never print and never exit")

    def test_includes_by_folder(self):
        """Who may include whom, by name (tests/lint/layering.py compiles a few to see that the build enforces it)."""
        rules = [
            ("kernels/sdk/", r'#include ["<](mlir|llvm|google|spdlog|cuda|Registry\.h|Session\.h|Pipeline\.h)'),
            (("kernels/registry/", "kernels/gradients/", "kernels/instance/", "kernels/cost/", "kernels/signatures/", "kernels/purity/"),
             r'#include ["<](mlir|llvm|google|Session\.h|Pipeline\.h|AttrWire\.h|graph\.pb|plan\.pb)'),
            ("kernels/ops/", r'#include ["<](mlir|llvm|google|Registry\.h|OpInstance\.h|Session\.h|Pipeline\.h|graph\.pb|plan\.pb)'),
            ("kernels/scalar/", r'#include ["<](mlir|llvm|google|Registry\.h|Session\.h|Pipeline\.h)'),
            ("runtime/", r'#include ["<](mlir|llvm|Pipeline\.h|CLI|spdlog)'),
            ("compiler/", r'#include ["<](Session\.h|TaskGraph|CLI|spdlog)'),
        ]
        wrong = []
        for folder, pattern in rules:
            for f in FILES:
                if f.startswith(folder) and f.endswith((".cpp", ".h", ".cuh")):
                    wrong += [f"{f}: {m.group(0)}" for m in re.finditer(pattern, text(f))]
        self.report(wrong, "forbidden includes")


class Binaries(unittest.TestCase):
    def needed(self, name):
        path = os.path.join(BIN, name)
        if not os.path.exists(path):
            self.skipTest(f"{name} was not built")
        return subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout

    def test_runtime_links_no_llvm(self):
        dynamic = self.needed("opc-runtime")
        self.assertIn("NEEDED", dynamic)
        self.assertNotRegex(dynamic, r"(?i)llvm|mlir")
        symbols = subprocess.run(["nm", "-C", "--defined-only", os.path.join(BIN, "opc-runtime")], capture_output=True, text=True).stdout
        self.assertNotRegex(symbols, r"\bmlir::|\bllvm::", "LLVM is inside opc-runtime")

    def test_code_for_avx512_has_no_other_names(self):
        """An inline function of that file that the linker took for others would end programs on processors without AVX-512."""
        found = sorted(glob.glob(os.path.join(BIN, "..", "kernels", "CMakeFiles", "opc_cpu.dir", "cpu", "*V4.cpp.o")))
        if not found:
            self.skipTest("the object files are not there")
        for path in found:
            symbols = subprocess.run(["nm", "-C", "--defined-only", "--extern-only", path], capture_output=True, text=True, check=True).stdout
            names = [line.split(None, 2)[2] for line in symbols.splitlines()]
            table = "opc::cpu::k" + os.path.basename(path)[:-len(".cpp.o")]
            self.assertEqual([n for n in names if not n.startswith("__")], [table])  # sanitizers add some

    def test_no_path_of_the_build_in_the_binaries(self):
        for name in ("opc", "opc-runtime"):
            self.assertNotRegex(self.needed(name), r"R(UN)?PATH.*\[(?!\$ORIGIN)[^\]]*" + re.escape(SOURCE))

    def test_builtin_ops_are_all_there(self):
        """Registrars in a static library vanish when nobody asks for their object: count them."""
        path = os.path.join(BIN, "opc")
        if not os.path.exists(path):
            self.skipTest("opc was not built")
        have = {o["name"] for o in json.loads(subprocess.run([path, "ops", "--json"], capture_output=True, text=True, check=True).stdout)["ops"]}
        # Every operator has its literal in a registration, its vectors, or both.
        wanted = {os.path.basename(f)[:-4] for f in FILES if re.fullmatch(r"tests/conformance/vectors/.*\.npz", f)}
        for f in FILES:
            if f.startswith("kernels/ops/") and f.endswith(".cpp"):
                wanted |= set(re.findall(r'REGISTER_USER_OP\("(\w+)"\)', text(f)))
        self.assertFalse(sorted(wanted - have), "built-in ops that have sources or vectors and are not in the binary")
        self.assertGreater(len(wanted), 300)


if __name__ == "__main__":
    unittest.main()
