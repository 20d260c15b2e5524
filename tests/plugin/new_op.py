# tools/dev/new_op: what it writes builds into opc and as a plugin, and passes as written what the tests demand of every op.
# SPDX-License-Identifier: Apache-2.0
import glob
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

SOURCE = os.environ["OPC_SOURCE_DIR"]
BUILD = os.environ["OPC_BUILD_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")
CLI = os.path.join(SOURCE, "tests", "cli")
ELEMENTWISE = "soft_plus_like"
OPS = {ELEMENTWISE: "elementwise", "root_mean": "reduction", "scaled_product": "product"}

scratch = tempfile.TemporaryDirectory()
CONFORMANCE = os.path.join(scratch.name, "tests", "conformance")


def new_op(*args, root=scratch.name):
    command = [sys.executable, os.path.join(SOURCE, "tools", "dev", "new_op"), *args, "--root", root]
    return subprocess.run(command, capture_output=True, text=True)


def sources():
    return sorted(glob.glob(os.path.join(scratch.name, "kernels", "ops", "*", "*.cpp")))


def run(command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, **kwargs)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(command)}\n{done.stdout[-3000:]}{done.stderr[-6000:]}")
    return done.stdout


def compile_like_a_builtin(source):
    """The object of a source, by the command that compiles its neighbours."""
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as f:
        neighbour = next(e for e in json.load(f) if e["file"].endswith("kernels/ops/reduce/SumMean.cpp"))
    command = shlex.split(neighbour["command"])
    target = os.path.join(scratch.name, os.path.basename(source) + ".o")
    command[command.index("-o") + 1] = target
    command[command.index("-c") + 1] = source
    run(command, cwd=neighbour["directory"])
    return target


def link_with_opc(objects):
    """An opc that has the new operators: its link command with more objects."""
    commands = run(["ninja", "-C", BUILD, "-t", "commands", "opc"]).strip().split("\n")
    command = next(c for c in reversed(commands) if " -o bin/opc " in c)
    target = os.path.join(scratch.name, "bin", "opc")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    command = command.replace(" -o bin/opc ", f" {shlex.join(objects)} -o {target} ").split(" && ")
    run(next(shlex.split(c) for c in command if target in c), cwd=BUILD)
    return target


def build_plugin():
    """With nothing but what `opc sdk` says, and a command that always loads it."""
    library, wrapper = os.path.join(scratch.name, "libnewops.so"), os.path.join(scratch.name, "opc-with-plugin")
    flags = [shlex.split(run([OPC, "sdk", f])) for f in ("--cflags", "--ldflags")]
    run([os.environ.get("OPC_PLUGIN_CXX", "g++"), "-O1", "-shared", "-fPIC", *flags[0], *sources(), "-o", library, *flags[1]])
    with open(wrapper, "w", encoding="utf-8") as f:
        f.write(f'#!/bin/sh\nexec "{OPC}" "$@" --plugin "{library}"\n')
    os.chmod(wrapper, 0o755)
    return wrapper


@unittest.skipUnless(os.path.exists(os.path.join(BUILD, "build.ninja")), "reads the commands of a ninja build")
class NewOp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name, kind in OPS.items():
            done = new_op("--kind", kind, name)
            assert done.returncode == 0, done.stderr
        # The drivers find references and vectors beside themselves: only the written ones are here.
        for f in glob.glob(os.path.join(SOURCE, "tests", "conformance", "*.py")):
            shutil.copy(f, CONFORMANCE)
        for f in ("__init__.py", "table.py"):
            shutil.copy(os.path.join(SOURCE, "tests", "conformance", "references", f), os.path.join(CONFORMANCE, "references"))
        with ThreadPoolExecutor(2) as pool:
            plugin = pool.submit(build_plugin)
            cls.builtin = link_with_opc([o for o in pool.map(compile_like_a_builtin, sources())])
            cls.plugin = plugin.result()

    def check(self, opc):
        environment = dict(os.environ, OPC_BINARY=opc)
        for script, args in (("make_vectors.py", []), ("driver.py", []), ("gradients.py", []), ("gradients.py", ["--order", "2"])):
            with self.subTest(script=script, args=args):
                run([sys.executable, os.path.join(CONFORMANCE, script), *args, *OPS], env=environment)
        with self.subTest("verify"):
            proven = json.loads(run([opc, "verify", *OPS, "--json"]))
            self.assertEqual({s["op"] for s in proven["signatures"]}, set(OPS))
        listed = {o["name"]: o for o in json.loads(run([opc, "ops", "--json"]))["ops"]}
        for name in OPS:
            self.assertEqual(sorted({k["dtype"] for k in listed[name]["kernels"]}), ["bf16", "f16", "f32", "f64"], name)
            self.assertTrue(listed[name]["gradient"], name)

    def test_built_in(self):
        self.check(self.builtin)

    @unittest.skipUnless(importlib.util.find_spec("mpmath"), "needs mpmath; tools/dev/setup.sh --tests installs it")
    def test_elementwise(self):
        """Against the exact function that is written beside the reference, in every type, and its derivatives."""
        environment = dict(os.environ, OPC_BINARY=self.builtin)
        for script, args in (("elementwise_sweep.py", ["--values", "500"]), ("elementwise_gradients.py", [])):
            with self.subTest(script=script):
                run([sys.executable, os.path.join(CONFORMANCE, script), *args, ELEMENTWISE], env=environment)

    @unittest.skipUnless(importlib.util.find_spec("mpmath"), "needs mpmath; tools/dev/setup.sh --tests installs it")
    def test_a_wrong_function_is_found(self):
        """The written exact function decides, whatever the operator's code says."""
        wrong = os.path.join(scratch.name, "wrong_function")
        shutil.copytree(CONFORMANCE, wrong, dirs_exist_ok=True)
        for text, said in (("mp.log1p(mp.exp(beta * x)) / beta * (1 + mpf(2) ** -8)", "ulp, the bound is 4"), (None, f"none with @exact in references/{ELEMENTWISE}.py")):
            reference = os.path.join(wrong, "references", f"{ELEMENTWISE}.py")
            with open(os.path.join(CONFORMANCE, "references", f"{ELEMENTWISE}.py"), encoding="utf-8") as f:
                source = f.read()
            if text:
                changed = source.replace("import mp\n", "import mp, mpf\n").replace("mp.log1p(mp.exp(beta * x)) / beta", text)
            else:
                changed = source.replace(f'@exact("{ELEMENTWISE}")\n', "")
            self.assertNotEqual(changed, source)
            with open(reference, "w", encoding="utf-8") as f:
                f.write(changed)
            for script in ("elementwise_sweep.py", "elementwise_gradients.py"):
                with self.subTest(script=script, changed=text):
                    done = subprocess.run([sys.executable, os.path.join(wrong, script), ELEMENTWISE], capture_output=True, text=True,
                                          env=dict(os.environ, OPC_BINARY=self.builtin))
                    self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                    expected = said if "sweep" in script else "wrong derivatives" if text else "no exact function"
                    self.assertIn(expected, done.stdout + done.stderr)

    def test_missing_parts(self):
        """As written they lack nothing without a reason. A build writes the elementwise one's kernel for GPUs from its expression; here it
        is linked only."""
        program = f"import missing_parts, unittest; missing_parts.REASONS['gpu']['{ELEMENTWISE}'] = 'only linked'; unittest.main(missing_parts)"
        run([sys.executable, "-c", program], env=dict(os.environ, OPC_BUILD_DIR=scratch.name, PYTHONPATH=CLI))
        listed = {o["name"]: o["no_gpu"] for o in json.loads(run([self.builtin, "ops", "--json"]))["ops"]}
        self.assertEqual({listed[name] for name in OPS if name != ELEMENTWISE}, {"its library says that it is for the CPU alone"})

    def test_form(self):
        """The lint of operators, on what was written."""
        run([sys.executable, os.path.join(SOURCE, "tests", "lint", "operators.py")], env=dict(os.environ, OPC_SOURCE_DIR=scratch.name))

    def test_plugin(self):
        self.check(self.plugin)

    def test_plugin_check(self):
        """An elementwise operator's gradient follows from its function: it is there, and not missing."""
        text = run([OPC, "plugin", "check", os.path.join(scratch.name, "libnewops.so")])
        found = dict(re.findall(r"  op (\w+)\n(?:    .*\n)*?    gradient    (.*)\n", text))
        self.assertEqual(found[ELEMENTWISE], "derived from the scalar function")
        self.assertEqual({found[name] for name in OPS if name != ELEMENTWISE}, {"yes"})
        self.assertNotIn("missing     gradient", text)

    def test_a_wrong_value_is_found(self):
        """The reference of the written op decides: another one fails the conformance."""
        wrong = os.path.join(scratch.name, "wrong")
        shutil.copytree(CONFORMANCE, wrong, dirs_exist_ok=True)
        reference = os.path.join(wrong, "references", "root_mean.py")
        with open(reference, encoding="utf-8") as f:
            text = f.read()
        with open(reference, "w", encoding="utf-8") as f:
            f.write(text.replace("** 2", "** 4"))
        environment = dict(os.environ, OPC_BINARY=self.builtin)
        run([sys.executable, os.path.join(wrong, "make_vectors.py"), "root_mean"], env=environment)
        done = subprocess.run([sys.executable, os.path.join(wrong, "driver.py"), "root_mean"], capture_output=True, text=True, env=environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("values differ", done.stdout + done.stderr)


class Written(unittest.TestCase):
    def test_formatted(self):
        formatter = shutil.which("clang-format-22")
        if not formatter:
            self.skipTest("clang-format-22 is not installed")
        with tempfile.TemporaryDirectory() as root:
            for name, kind in OPS.items():
                self.assertEqual(new_op("--kind", kind, name, root=root).returncode, 0)
            style = "--style=file:" + os.path.join(SOURCE, ".clang-format")
            run([formatter, style, "--dry-run", "-Werror", *glob.glob(os.path.join(root, "kernels", "ops", "*", "*.cpp"))])


class Refusals(unittest.TestCase):
    def refused(self, said, *args, root=SOURCE):
        done = new_op(*args, root=root)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(said, done.stderr)

    def test_names(self):
        self.refused("is no op name", "Soft_Cap")
        self.refused("is no op name", "../soft")
        self.refused("is no family", "--family", "a/b", "soft_cap")

    def test_an_op_that_exists(self):
        self.refused("the op 'reduce_sum' exists: kernels/ops/reduce/SumMean.cpp", "--kind", "reduction", "reduce_sum")
        self.refused("the op 'tanh' exists", "tanh")


if __name__ == "__main__":
    unittest.main()
