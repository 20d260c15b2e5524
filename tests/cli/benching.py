# opc bench: a graph with far more work is a regression beside a small one, and says so in text, JSON and the exit code.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import signal
import subprocess
import time
import unittest

from folder_test import FolderTest

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")


def graph(count, rows):
    """`count` sigmoids of rows x 64 elements in a row."""
    ops = [f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: {rows} dim: 64 }} data_type: kFloat }} }} }}']
    last = "x/out"
    for i in range(count):
        ops.append(f'op {{ name: "s{i}" user_conf {{ op_type_name: "sigmoid" input {{ key: "x" value {{ s: "{last}" }} }} }} }}')
        last = f"s{i}/y_0"
    return "\n".join(ops) + f'\nop {{ name: "y" output_conf {{ in: "{last}" }} }}\n'


class Benches(FolderTest):
    def setUp(self):
        super().setUp()
        self.write("small.pbtxt", graph(1, 8))
        self.write("large.pbtxt", graph(40, 1024))  # 5,000 times the work

    def bench(self, *args, code=0):
        done = subprocess.run([OPC, "bench", *args], capture_output=True, text=True, timeout=300, cwd=self.folder)
        self.assertEqual(done.returncode, code, (args, done.stdout, done.stderr))
        return done

    def test_alone(self):
        done = self.bench("small.pbtxt", "--fill", "rand", "--rounds", "6")
        self.assertRegex(done.stdout, r"^small.pbtxt: 6 runs: p50 \S+ \S+, p90 .*, p99 .*, fastest .*, slowest .*\n$")
        found = json.loads(self.bench("small.pbtxt", "--fill", "rand", "--rounds", "6", "--json").stdout)
        self.assertLessEqual(0, found["fastest_s"])
        for smaller, larger in (("fastest_s", "p50_s"), ("p50_s", "p90_s"), ("p90_s", "p99_s"), ("p99_s", "slowest_s")):
            self.assertLessEqual(found[smaller], found[larger])
        self.assertEqual((found["rounds"], found["tasks"]), (6, 1))

    def test_a_regression(self):
        subprocess.run([OPC, "compile", "small.pbtxt", "-o", "small.plan"], cwd=self.folder, check=True, capture_output=True)
        for baseline in ("small.pbtxt", "small.plan"):
            done = self.bench("large.pbtxt", "--fill", "rand", "--rounds", "8", "--baseline", baseline, code=1)
            self.assertRegex(done.stdout, r"slower: \S+ % beside " + baseline)
        found = json.loads(self.bench("large.pbtxt", "--fill", "rand", "--rounds", "8", "--baseline", "small.pbtxt", "--json", code=1).stdout)
        self.assertTrue(found["baseline"]["regression"] and found["baseline"]["paired"])
        self.assertLessEqual(1.05, found["baseline"]["ratio_low"])
        self.assertLessEqual(found["baseline"]["ratio_low"], found["baseline"]["ratio"])
        self.assertLessEqual(found["baseline"]["ratio"], found["baseline"]["ratio_high"])
        self.bench("large.pbtxt", "--fill", "rand", "--rounds", "8", "--baseline", "large.pbtxt", "--tolerance", "1000")
        found = json.loads(self.bench("small.pbtxt", "--fill", "rand", "--rounds", "8", "--baseline", "large.pbtxt", "--json").stdout)
        self.assertLess(found["baseline"]["ratio_high"], 1)

    def test_saved_times(self):
        self.bench("small.pbtxt", "--fill", "rand", "--rounds", "6", "--save", "t.json")
        with open(self.path("t.json"), encoding="utf-8") as f:
            saved = json.load(f)
        done = self.bench("large.pbtxt", "--fill", "rand", "--rounds", "6", "--baseline", "t.json", code=1)
        self.assertIn("beside t.json", done.stdout)
        self.write("other.json", json.dumps({**saved, "machine": "Some Processor, 3 threads"}))
        self.assertIn("OPC0414", self.bench("small.pbtxt", "--fill", "rand", "--baseline", "other.json", code=4).stderr)
        for text in ("", "[]", "{", "{}", json.dumps({**saved, "schema": 2}), json.dumps({**saved, "p50_s": "x"}), json.dumps({**saved, "p50_s": 0}),
                     json.dumps({**saved, "machine": 3}), "\x00" * 100):
            self.write("bad.json", text)
            self.assertIn("bad.json: no file that opc bench --save wrote", self.bench("small.pbtxt", "--fill", "rand", "--baseline", "bad.json", code=2).stderr)

    def test_a_revision(self):
        def git(*args):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *args], cwd=self.folder, check=True, capture_output=True)
        git("init", "-q")
        git("add", "small.pbtxt")
        git("commit", "-qm", "one")
        self.write("small.pbtxt", graph(40, 1024))
        self.bench("small.pbtxt", "--fill", "rand", "--rounds", "6", "--baseline", "git:HEAD:small.pbtxt", code=1)
        # The same notation where one graph runs, or is a reference.
        for command, code, text in ((["run", "git:HEAD:small.pbtxt", "--fill", "ones"], 0, "f32[8,64]"),
                                    (["run", "git:HEAD:none.pbtxt", "--fill", "ones"], 2, "no such file"),
                                    (["debug", "first-diff", "small.pbtxt", "--fill", "ones", "--reference", "git:HEAD:small.pbtxt"], 2, "the shapes differ"),
                                    (["debug", "first-diff", "git:HEAD:small.pbtxt", "--fill", "ones", "--reference", "git:HEAD:small.pbtxt"], 0, "no difference")):
            done = subprocess.run([OPC, *command], capture_output=True, text=True, timeout=120, cwd=self.folder)
            self.assertEqual(done.returncode, code, (command, done.stdout, done.stderr))
            self.assertIn(text, done.stdout + done.stderr)
        self.assertIn("no such file", self.bench("small.pbtxt", "--fill", "rand", "--baseline", "git:HEAD:none.pbtxt", code=2).stderr)

    def test_interrupted(self):
        process = subprocess.Popen([OPC, "bench", "large.pbtxt", "--fill", "rand", "--rounds", "1000000", "--save", "t.json"], cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertFalse(os.path.exists(self.path("t.json")))
        self.assertTrue(said == "" or "p50" in said, said)

    def test_refusals(self):
        for code, text, *args in (
            (2, "no value for 1 of the graph's inputs", "small.pbtxt"),
            (2, "OPC0706", "small.pbtxt", "--fill", "rand", "--baseline", "none.pbtxt"),
            (2, "OPC0706", "small.pbtxt", "--fill", "rand", "--baseline", "none.json"),
            (2, "ends in .json", "small.pbtxt", "--fill", "rand", "--save", "t.txt"),
            (2, "from 6 to", "small.pbtxt", "--fill", "rand", "--rounds", "5"),
            (2, "from 0 to", "small.pbtxt", "--fill", "rand", "--tolerance", "-0.1"),
            (2, "there is no directory", "small.pbtxt", "--fill", "rand", "--save", "none/t.json"),
        ):
            self.assertIn(text, self.bench(*args, code=code).stderr)


if __name__ == "__main__":
    unittest.main()
