"""opc run --op-path: graphs with Python operators in the command, with and without their code."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

import numpy as np

from python_op_sources import LEAKY
from scratch import OPC, ScratchTest

GRAPH = '''\
op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 2 dim: 3 } data_type: kFloat } } }
op { name: "act" user_conf { op_type_name: "demo::%s" input { key: "x" value { s: "x/out" } } output { key: "y" value { s: "act/y_0" } } %s } }
op { name: "y" output_conf { in: "act/y_0" out: "out" } }
'''
ALPHA = 'attr { key: "alpha" value { at_float: 0.25 } }'

ENDS = """import multiprocessing
import time

import opc


@opc.op("demo::interrupted", like="x")
def interrupted(x):
    raise KeyboardInterrupt


@opc.op("demo::interrupted_rule")
def interrupted_rule(x):
    return x


@interrupted_rule.infer
def rule(x):
    raise KeyboardInterrupt


@opc.op("demo::forks", like="x")
def forks(x):
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    begin = time.monotonic()
    child.terminate()
    child.join()
    assert time.monotonic() - begin < 30
    return x * -child.exitcode
"""


class OpPath(ScratchTest):
    def setUp(self):
        super().setUp()
        self.ops = self.path("ops")
        os.mkdir(self.ops)
        self.write("ops/acts.py", LEAKY)
        self.write("g.pbtxt", GRAPH % ("leaky_relu", ALPHA))
        self.write("f.pbtxt", GRAPH % ("fails", ""))

    def manifest(self):
        described = subprocess.run(
            [sys.executable, "-c",
             "import sys; sys.path[:0] = sys.argv[2:]; import acts; from opc import _manifest, _op\n"
             "open(sys.argv[1], 'w').write(_manifest.text_of(_op.describe(sorted(_op.operators))))",
             os.path.join(self.folder, "g.ops.pbtxt"), self.ops, *[p for p in sys.path if p]],
            capture_output=True, text=True)  # fmt: skip
        self.assertEqual(described.returncode, 0, described.stderr)

    def test_runs_from_the_named_folder(self):
        x = np.array([[-4, -2, -1], [0, 1, 2]], "f")
        np.save(os.path.join(self.folder, "x.npy"), x)
        done = self.opc("run", "g.pbtxt", "--op-path", "ops", "--input", "x=@x.npy", "--outputs", "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        y = np.load(os.path.join(self.folder, "out", "y.npy"))
        np.testing.assert_array_equal(y, np.where(x > 0, x, x * np.float32(0.25)))
        self.assertEqual(sorted(os.listdir(self.ops)), ["acts.py"], "the user's folder is as it was")

    def test_with_a_manifest_everything_but_running_needs_no_python(self):
        self.manifest()
        shown = self.opc("show", "g.pbtxt")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("demo::leaky_relu", shown.stdout)
        compiled = self.opc("compile", "g.pbtxt", "-o", "g.plan")
        self.assertEqual(compiled.returncode, 0, compiled.stderr)
        absent = {**os.environ, "OPC_PYTHON_MODULE": "/there/is/no/python.so", "PATH": "/nowhere"}
        for words in (("show", "g.pbtxt"), ("compile", "g.pbtxt", "-o", "h.plan"), ("diff", "g.pbtxt", "g.pbtxt"), ("grad", "g.pbtxt", "--loss", "y", "--wrt", "x"),
                      ("ops", "show", "relu")):  # fmt: skip
            done = self.opc(*words, env=absent)
            self.assertEqual(done.returncode, 0, done.stderr)
        for words, code in ((("--update", "--update-in-ci", "--no-run"), 0), (("--no-run",), 0), ((), 4)):
            done = self.opc("check", "g.pbtxt", *words, env=absent)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn("OPC0921", done.stdout)
        without = self.opc("run", "g.pbtxt", "--fill", "zeros", "--op-path", "ops", env=absent)
        self.assertIn("OPC0922", without.stderr)
        refused = self.opc("run", "g.pbtxt", "--fill", "zeros")
        self.assertEqual(refused.returncode, 4, refused.stderr)
        self.assertIn("OPC0921", refused.stderr)
        self.assertIn("--op-path DIR", refused.stderr)
        done = self.opc("run", "g.pbtxt", "--fill", "zeros", "--op-path", "ops")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in (("--update", "--update-in-ci"), ()):
            done = self.opc("check", "g.pbtxt", "--op-path", "ops", *words)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_locks_do_not_name_the_manifest(self):
        """Another name of the graph, and with it of the manifest, or the folder alone, is no other kernel."""
        self.manifest()
        for name in ("", ".ops"):
            shutil.copy(self.path(f"g{name}.pbtxt"), self.path(f"moved{name}.pbtxt"))
        self.write("alone.pbtxt", GRAPH % ("leaky_relu", ALPHA))
        done = self.opc("check", "g.pbtxt", "--update", "--update-in-ci", "--no-run")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.path("g.opc.lock"), encoding="utf-8") as f:
            lock = f.read()
        (task,) = (t for t in json.loads(lock)["tasks"] if "kernel" in t)
        self.assertEqual((task["op"], task["from"]), ("act", "python"))
        self.assertIn("demo::leaky_relu", task["kernel"])
        self.assertNotIn("ops.pbtxt", lock)
        # What an earlier build wrote.
        self.write("older.opc.lock", lock.replace('"from":"python"', '"from":"g.ops.pbtxt"'))
        for older in ("g.pbtxt", "g.opc.lock", "older.opc.lock"):
            for newer in ("moved.pbtxt", "alone.pbtxt"):
                done = self.opc("diff", older, newer, *(["--op-path", "ops"] if newer == "alone.pbtxt" else []))
                self.assertEqual((done.returncode, done.stdout), (0, "no difference\n"), (older, newer, done.stderr))

    def test_the_case_of_a_trap_runs_alone(self):
        """It has the manifest and the folder of the operators, from anywhere."""
        self.write("g.pbtxt", GRAPH.replace('s: "x/out"', 's: "big/y_0"') % ("leaky_relu", ALPHA.replace("0.25", "4")) +
                   'op { name: "big" user_conf { op_type_name: "negative" input { key: "x" value { s: "x/out" } } output { key: "y" value { s: "big/y_0" } } } }')
        self.manifest()
        done = self.opc("run", "g.pbtxt", "--op-path", "ops", "--input", "x=f32[2,3]:1,2,3,4,5,3e38", "--trap", "inf")
        self.assertEqual(done.returncode, 5, done.stderr)
        (left,) = (f for f in os.listdir(self.folder) if f.startswith("opc-trap"))
        self.assertIn("graph.ops.pbtxt", os.listdir(self.path(left)))
        alone = subprocess.run(["sh", self.path(left + "/run.sh")], cwd="/", capture_output=True, text=True, timeout=60,
                               env={**os.environ, "PATH": os.path.dirname(OPC) + ":" + os.environ["PATH"]})
        self.assertEqual(alone.returncode, 5, alone.stderr)
        self.assertIn("OPC0620", alone.stderr)

    def test_plans_run_without_the_compiler(self):
        """opc-runtime with the manifest beside the plan, with the folder alone, and without either."""
        x = np.array([[-4, -2, -1], [0, 1, 2]], "f")
        np.save(os.path.join(self.folder, "x.npy"), x)
        self.manifest()
        self.assertEqual(self.opc("compile", "g.pbtxt", "-o", "g.plan").returncode, 0)
        runtime = [os.path.join(os.path.dirname(OPC), "opc-runtime"), "g.plan", "--input", "x=@x.npy"]

        def run(*more):
            return subprocess.run([*runtime, *more], cwd=self.folder, capture_output=True, text=True)

        refused = run()
        self.assertIn("OPC0921", refused.stderr)
        self.assertIn("--op-path DIR", refused.stderr)
        for manifest in ("beside the plan", "none"):
            if manifest == "none":
                os.remove(os.path.join(self.folder, "g.ops.pbtxt"))
            done = run("--op-path", "ops", "--outputs", "out")
            self.assertEqual(done.returncode, 0, done.stderr)
            np.testing.assert_array_equal(np.load(os.path.join(self.folder, "out", "y.npy")), np.where(x > 0, x, x * np.float32(0.25)))
        for done in (run(), self.opc("run", "g.pbtxt", "--fill", "zeros")):
            self.assertIn("OPC0201", done.stderr)
            self.assertIn("--op-path DIR", done.stderr)

    def test_what_is_loaded_is_called_what_it_is(self):
        """A manifest and a folder are no plugins."""
        self.write("u.pbtxt", GRAPH % ("leaky_relu_of_others", ALPHA))
        self.manifest()
        os.rename(self.path("g.ops.pbtxt"), self.path("u.ops.pbtxt"))
        for flags, source in ((("--op-path", "ops"), "u.ops.pbtxt"), ((), "u.ops.pbtxt")):
            done = self.opc("show", "u.pbtxt", "-v", *flags)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"loaded plugins: none (--plugin LIB loads one); operators in Python: {source}; if it is", done.stderr)
            self.assertRegex(done.stderr, rf"\] operators in Python of {source}: \d+ ops, \d+ kernels\n")
        os.remove(self.path("u.ops.pbtxt"))
        done = self.opc("show", "u.pbtxt", "-v", "--op-path", "ops")
        self.assertIn("operators in Python: ops", done.stderr)
        self.assertRegex(done.stderr, r"\] operators in Python of ops: ")
        self.assertNotIn("plugin python:", done.stderr)

    def test_a_folder_that_is_not_there(self):
        """With a manifest nothing would look for it, and the run would say that the code is missing."""
        self.manifest()
        self.assertEqual(self.opc("compile", "g.pbtxt", "-o", "g.plan").returncode, 0)
        runtime = os.path.join(os.path.dirname(OPC), "opc-runtime")
        for folder, why in (("opz", "there is no such folder"), ("ops/acts.py", "it is no folder")):
            calls = [self.opc(*words, "--op-path", "ops", "--op-path", folder)
                     for words in (("run", "g.pbtxt", "--fill", "zeros"), ("show", "g.pbtxt"), ("ops", "show", "relu"))]
            calls.append(subprocess.run([runtime, "g.plan", "--input", "x=1", "--op-path", folder], cwd=self.folder, capture_output=True, text=True, timeout=60))
            for done in calls:
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(f"error[OPC0002]: --op-path {folder}: {why}", done.stderr)

    def test_an_exception_names_op_node_and_line(self):
        done = self.opc("run", "f.pbtxt", "--fill", "zeros", "--op-path", "ops")
        self.assertEqual(done.returncode, 5, done.stderr)
        for part in ("OPC0622", "demo::fails", "op act", "ValueError: not today", "acts.py\", line 18", "acts.py:18, in fails"):
            self.assertIn(part, done.stderr)

    def test_an_interrupt_that_is_raised(self):
        """Of a kernel and of a shape rule: an exception as others, and nothing that Python is to take up later."""
        self.write("ops/ends.py", ENDS)
        for op, code in (("interrupted", 5), ("interrupted_rule", 3)):
            self.write("i.pbtxt", GRAPH % (op, ""))
            done = self.opc("run", "i.pbtxt", "--fill", "zeros", "--op-path", "ops")
            self.assertEqual(done.returncode, code, done.stderr)
            for part in ("error[OPC0622]", f"demo::{op}", "KeyboardInterrupt", "ends.py:"):
                self.assertIn(part, done.stderr)

    def test_a_forked_process_ends_when_it_is_told(self):
        """The command's own handlers of signals, which wait for a run's end, are not its."""
        self.write("ops/ends.py", ENDS)
        self.write("i.pbtxt", GRAPH % ("forks", ""))
        done = self.opc("run", "i.pbtxt", "--fill", "ones", "--op-path", "ops", "--repeat", "3", "--print", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"[{signal.SIGTERM.value}", done.stdout.replace("[[", "["))

    def test_a_profile_has_the_operator(self):
        done = self.opc("run", "g.pbtxt", "--fill", "zeros", "--op-path", "ops", "--profile", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("demo::leaky_relu", done.stdout)

    def test_a_manifest_runs_nothing_outside_of_the_named_folders(self):
        self.manifest()
        path = os.path.join(self.folder, "g.ops.pbtxt")
        with open(path) as file:
            text = file.read()
        for module in ("os", "outside", "..outside", "a/b"):
            self.write("outside.py", "import sys; print('ran', file=sys.stderr)\n" + LEAKY)
            self.write("g.ops.pbtxt", text.replace('module: "acts"', f'module: "{module}"'))
            done = self.opc("run", "g.pbtxt", "--fill", "zeros", "--op-path", "ops")
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("OPC0923", done.stderr)
            self.assertNotIn("ran", done.stderr)

    def test_a_damaged_manifest_is_an_error_that_says_where(self):
        self.manifest()
        path = os.path.join(self.folder, "g.ops.pbtxt")
        with open(path) as file:
            text = file.read()
        for wrong, part in (
            ("version: 1\nop {", "line 2"),
            (text.replace("version: 1", "version: 9"), "version 9"),
            (text.replace('"demo::leaky_relu"', '"relu"'), "namespace"),
            (text.replace('like: "x"', 'like: "q"'), "no input 'q'"),
            (text.replace('type: "double"', 'type: "set"'), "'set'"),
            (text.replace("at_double: 0.01", "at_int64: 1"), "default"),
            ("\0\1\2", "line 1"),
        ):
            self.write("g.ops.pbtxt", wrong)
            done = self.opc("show", "g.pbtxt")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("OPC0920", done.stderr)
            self.assertIn(part, done.stderr)

    def test_what_is_made_of_a_graph_has_its_manifest(self):
        self.manifest()
        done = self.opc("grad", "g.pbtxt", "--loss", "y", "--wrt", "x", "-o", "back.pbtxt")
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = self.opc("show", "back.pbtxt")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("demo::leaky_relu_grad", shown.stdout)

    def test_ops_show_and_verify(self):
        shown = self.opc("ops", "show", "demo::leaky_relu", "--op-path", "ops")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("x where it is positive", shown.stdout)
        verified = self.opc("verify", "demo::leaky_relu", "--op-path", "ops")
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_a_sharding_rule_is_proven(self):
        verified = self.opc("verify", "demo::product", "--op-path", "ops", "--json")
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertGreater(json.loads(verified.stdout)["sound"], 0)

    def test_a_changed_source_is_noted_and_prints_do_not_mix(self):
        self.manifest()
        self.write("ops/acts.py", LEAKY + "print('from the source')\n")
        done = self.opc("run", "g.pbtxt", "--fill", "zeros", "--op-path", "ops", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("has changed since the graph with demo::leaky_relu was saved", done.stderr)
        self.assertIn("from the source", done.stderr)
        json.loads(done.stdout)

    def test_gradient_is_an_op_of_its_own(self):
        checked = self.opc("grad", "g.pbtxt", "--op-path", "ops", "--loss", "y", "--wrt", "x", "--check")
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        made = self.opc("grad", "g.pbtxt", "--op-path", "ops", "--loss", "y", "--wrt", "x")
        self.assertIn("demo::leaky_relu_grad", made.stdout)


if __name__ == "__main__":
    unittest.main()
