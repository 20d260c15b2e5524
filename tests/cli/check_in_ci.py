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
        entry, files = (re.search(rf"^ *{key}: (.*)$", text, re.M)[1] for key in ("entry", "files"))
        staged = [f for f in ("graphs/g.pbtxt", "graphs/g.opc.lock") if re.search(files, f)]
        self.assertEqual(staged, ["graphs/g.pbtxt"])
        self.assertEqual(self.run_step(f"{entry} {staged[0]}").returncode, 0)
        self.write("graphs/g.pbtxt", GRAPH.replace('"relu"', '"tanh"'))
        self.assertEqual(self.run_step(f"{entry} {staged[0]}").returncode, 1)


if __name__ == "__main__":
    unittest.main()
