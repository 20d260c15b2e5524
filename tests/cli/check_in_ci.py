# The workflow and the hook of docs/examples/ci: their commands run in a repository, and say what has changed.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shlex
import shutil
import subprocess
import unittest

from check_cases import GRAPH, KEPT_OUT, OPC, SOURCE, Checks

EXAMPLES = os.path.join(SOURCE, "docs", "examples", "ci")


PYTHON_OPS = os.path.join(SOURCE, "tests", "compat", "manifest-1") # a graph with operators in Python, and their manifest


def example(name):
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as f:
        return f.read()


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class Examples(Checks):
    def run_step(self, command):
        env = {k: v for k, v in os.environ.items() if k not in KEPT_OUT}
        env.update(PATH=os.path.dirname(OPC) + os.pathsep + env["PATH"], CI="true", GITHUB_ACTIONS="true", GITHUB_BASE_REF="main",
                   GITHUB_STEP_SUMMARY=self.path("summary.md"))
        # As GitHub runs a step: bash -e.
        return subprocess.run(["bash", "-e", "-c", command], cwd=self.folder, capture_output=True, text=True, env=env)

    def setUp(self):
        super().setUp()
        self.write("graphs/g.pbtxt", GRAPH)
        self.check("graphs", "--update")
        for command in ("init -q -b main", "add .", "-c user.name=t -c user.email=t@t commit -qm first", "update-ref refs/remotes/origin/main HEAD"):
            subprocess.run(["git", *shlex.split(command)], cwd=self.folder, check=True, capture_output=True)
        self.write("summary.md", "")

    def test_the_workflow(self):
        steps = re.findall(r"^ *(?:- )?run: (.*)$", example("opc-check.yml"), re.M)
        self.assertEqual(len(steps), 2)
        self.assertEqual([self.run_step(s).returncode for s in steps], [0, 0])
        self.write("graphs/g.pbtxt", GRAPH.replace('"relu"', '"tanh"'))
        first, second = [self.run_step(s) for s in steps]
        self.assertEqual((first.returncode, second.returncode), (1, 0))
        self.assertIn("::error file=graphs/g.pbtxt,line=4,", first.stdout)
        results = json.loads(self.read("opc.sarif"))["runs"][0]["results"]
        self.assertIn("OP_TYPE_CHANGED", {r["ruleId"] for r in results})
        # The table of the locks, and the one against the branch.
        self.assertEqual(self.read("summary.md").count("| error | OP\\_TYPE\\_CHANGED | graphs/g.pbtxt:4 |"), 2)

    def test_the_hook(self):
        text = example("pre-commit-config.yaml")
        entry, files, named = (re.search(rf"^ *{key}: (.*)$", text, re.M)[1] for key in ("entry", "files", "pass_filenames"))
        self.assertEqual(named, "false")
        for name in ("g.pbtxt", "g.prototxt", "sub/g.onnx", "g.pb", "g.opc.lock", "g.opc.inputs.npz", "demo.ops.pbtxt"):
            self.assertRegex("graphs/" + name, files)
        for name in ("graphs/notes.txt", "graphs/g.opc.outputs.npz.txt", "docs/g.pbtxt", "README.md"):
            self.assertNotRegex(name, files)
        for name in ("graph.pbtxt", "graph.ops.pbtxt"):
            shutil.copy(os.path.join(PYTHON_OPS, name), self.path("graphs/" + name))
        self.check("graphs/graph.ops.pbtxt", "--no-run", code=3) # by its name it is no graph
        self.check("graphs/graph.pbtxt", "--no-run", "--update")
        self.assertEqual(self.run_step(entry).returncode, 0)
        lock = self.read("graphs/g.opc.lock")
        for name, old in (("graphs/g.pbtxt", GRAPH), ("graphs/g.opc.lock", lock)):
            new = old.replace('"relu"', '"tanh"')
            self.assertNotEqual(new, old)
            self.write(name, new)
            self.assertEqual(self.run_step(entry).returncode, 1, name)
            self.write(name, old)
        self.assertEqual(self.run_step(entry).returncode, 0)

    def test_operators_of_ones_own(self):
        """What the page and the workflow say about plugins and Python operators: options that opc has, and a variable."""
        for text in (example("opc-check.yml"), example("pre-commit-config.yaml")):
            for word in ("--plugin PATH", "--op-path DIR", "OPC_PLUGINS"):
                self.assertIn(word, text)
        self.assertIn("GITHUB_PATH", example("opc-check.yml"))
        for words, env in ((["--plugin", "none.so"], {}), ([], {"OPC_PLUGINS": "./none.so"}), (["--op-path", "none"], {})):
            done = self.check("graphs", *words, code=None, env=env)
            self.assertIn(done.returncode, (2, 4), done.stderr)
            self.assertIn("none", done.stderr)
        for name in ("graph.pbtxt", "graph.ops.pbtxt"):
            shutil.copy(os.path.join(PYTHON_OPS, name), self.path("graphs/" + name))
        failed, = [f for f in self.findings("graphs/graph.pbtxt", code=4) if f["rule"] == "RUN_FAILED"]
        for word in ("--op-path DIR", "--no-run"): # the two ways out
            self.assertIn(word, failed["help"])


if __name__ == "__main__":
    unittest.main()
