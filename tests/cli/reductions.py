# opc debug reduce: what remains is small, fails alike, and is a graph; what cannot be reduced says so and writes nothing.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
DIGITS = os.path.join(os.environ["OPC_SOURCE_DIR"], "docs", "examples", "digits")


def chain(count, other):
    """x -> count ops, each the negative of the one before, but for those in `other` -> y."""
    ops = ['op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 8 dim: 4 } data_type: kFloat } } }']
    last = "x/out"
    for i in range(1, count + 1):
        ops.append(f'op {{ name: "op{i}" user_conf {{ op_type_name: "{other.get(i, "negative")}" input {{ key: "x" value {{ s: "{last}" }} }} }} }}')
        last = f"op{i}/y_0"
    return "\n".join(ops) + f'\nop {{ name: "y" output_conf {{ in: "{last}" }} }}\n'


class Reductions(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.join(tempfile.mkdtemp(), "it's a folder")
        os.mkdir(self.folder)
        self.addCleanup(shutil.rmtree, os.path.dirname(self.folder))

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(text)

    def opc(self, *args, code=0):
        done = subprocess.run([OPC, *args], capture_output=True, text=True, timeout=120, cwd=self.folder)
        self.assertEqual(done.returncode, code, (args, done.stdout, done.stderr))
        return done

    def reduce(self, graph, command, *args):
        document = json.loads(self.opc("debug", "reduce", graph, "--check", command, "-o", "small.pbtxt", "--json", *args).stdout)
        with open(os.path.join(self.folder, "small.pbtxt"), encoding="utf-8") as f:
            self.text = f.read()
        self.assertFalse([name for name in os.listdir(self.folder) if "trial" in name])
        return document

    def test_a_trap_in_a_long_chain(self):
        """sqrt of negative numbers: what feeds it goes, since --fill gives numbers of both signs."""
        self.write("g.pbtxt", chain(200, {140: "sqrt"}))
        run = f"{OPC} run {{}} --fill rand --seed 1 --trap nan"
        found = self.reduce("g.pbtxt", run, "--timeout", "1e300")
        self.assertEqual(found["ops"], ["op140"])
        self.assertEqual((found["ops_before"], found["failure"]), (200, "exit code 5, OPC0620"))
        self.assertLess(found["trials"], 40)
        self.assertEqual(self.text.count("op_type_name"), 1)
        self.assertIn("OPC0620", self.opc("run", "small.pbtxt", "--fill", "rand", "--seed", "1", "--trap", "nan", code=5).stderr)

    def test_another_failure_is_not_the_same(self):
        """Without the op that fails first, a second one would fail, with another code."""
        self.write("g.pbtxt", chain(20, {5: "sqrt", 15: "abs"}))
        script = f"if grep -q sqrt {{}}; then echo 'error[A1]: x' >&2; exit 3; elif grep -q '\"abs\"' {{}}; then echo 'error[B2]: y'; exit 3; fi"
        found = self.reduce("g.pbtxt", script)
        self.assertEqual((found["ops"], found["failure"]), (["op5"], "exit code 3, A1"))

    def test_two_ops_that_fail_together(self):
        self.write("g.pbtxt", chain(64, {7: "sqrt", 50: "abs"}))
        found = self.reduce("g.pbtxt", "grep -q sqrt {} && grep -q '\"abs\"' {} && kill -SEGV $$")
        self.assertEqual((found["ops"], found["failure"]), (["op7", "op50"], "Segmentation fault"))

    def test_a_command_that_hangs(self):
        self.write("g.pbtxt", chain(8, {3: "sqrt"}))
        found = self.reduce("g.pbtxt", "if grep -q sqrt {}; then sleep 60; fi", "--timeout", "0.5")
        self.assertEqual((found["ops"], found["failure"]), (["op3"], "longer than 0.5 s"))

    def test_weights_and_branches(self):
        found = self.reduce(os.path.join(DIGITS, "cnn.pbtxt"), "! grep -q gelu {}")
        self.assertEqual(len(found["ops"]), 1)
        self.opc("run", "small.pbtxt", "--fill", "rand")

    def test_goes_on_from_what_was_written(self):
        """After Ctrl-C the file has the smallest graph so far, which fails, and is where another reduction begins."""
        self.write("g.pbtxt", chain(60, {40: "sqrt"}))
        process = subprocess.Popen([OPC, "debug", "reduce", "g.pbtxt", "--check", "grep -q sqrt {} && sleep 0.2 && exit 9", "-o", "small.pbtxt"],
                                   cwd=self.folder, stderr=subprocess.PIPE, text=True)
        path = os.path.join(self.folder, "small.pbtxt")
        while not os.path.exists(path) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, said)
        self.assertRegex(said, r"interrupted: \d+ of 60 ops fail alike \(exit code 9\)")
        with open(path, encoding="utf-8") as f:
            self.assertIn("sqrt", f.read())
        self.assertEqual(sorted(os.listdir(self.folder)), ["g.pbtxt", "small.pbtxt"])
        self.opc("debug", "reduce", "small.pbtxt", "--check", "! grep -q sqrt {}", "-o", "smaller.pbtxt")

    def test_refusals(self):
        self.write("g.pbtxt", chain(4, {}))
        self.write("wrong.pbtxt", chain(4, {2: "nothing_of_this_name"}))
        self.opc("compile", "g.pbtxt", "-o", "g.plan")
        before = sorted(os.listdir(self.folder))
        for code, text, *args in (
            (2, "the command does not fail for g.pbtxt", "g.pbtxt", "--check", "true {}", "-o", "s.pbtxt"),
            (2, "has no {}", "g.pbtxt", "--check", "false", "-o", "s.pbtxt"),
            (2, "wants a command that fails", "g.pbtxt", "-o", "s.pbtxt"),
            (2, "g.plan is a plan", "g.plan", "--check", "false {}", "-o", "s.pbtxt"),
            (2, "there is no directory", "g.pbtxt", "--check", "false {}", "-o", "no/s.pbtxt"),
            (2, "--chain has no meaning for opc debug reduce", "g.pbtxt", "--check", "false {}", "-o", "s.pbtxt", "--chain"),
            (2, "does not fail any more when", "g.pbtxt", "--check", "if [ {} = g.pbtxt ]; then exit 1; fi", "-o", "s.pbtxt"),
            (3, "nothing_of_this_name", "wrong.pbtxt", "--check", "false {}", "-o", "s.pbtxt"),
            (2, "above 0", "g.pbtxt", "--check", "false {}", "-o", "s.pbtxt", "--timeout", "0"),
        ):
            done = self.opc("debug", "reduce", *args, code=code)
            self.assertIn(text, done.stderr)
        self.assertIn("--output has no meaning for opc debug first-diff", self.opc("debug", "first-diff", "g.pbtxt", "-o", "s", code=2).stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)


if __name__ == "__main__":
    unittest.main()
