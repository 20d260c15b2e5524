# What the tests of opc check share: a folder with a graph, its lock, and the command.
# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import os
import re
import subprocess

from folder_test import FolderTest

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
SOURCE = os.environ["OPC_SOURCE_DIR"]
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")

GRAPH = '''op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 dim: 3 } data_type: kFloat } } }
op { name: "w" variable_conf { out: "out" shape { dim: 3 dim: 5 } data_type: kFloat initializer { constant_conf { value: 0.5 } } } }
op { name: "fc" user_conf { op_type_name: "matmul" input { key: "a" value { s: "x/out" } } input { key: "b" value { s: "w/out" } } } }
op { name: "act" user_conf { op_type_name: "relu" input { key: "x" value { s: "fc/out_0" } } } }
op { name: "y" output_conf { in: "act/y_0" } }
'''
# What a run of GitHub or of another CI sets must not change what is tested.
KEPT_OUT = ("CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "CI_PROJECT_DIR")


def relocked(text):
    """A lock whose digests are those of its sections: what a tool that knows the format would write."""
    lines = text.split("\n")
    digests = json.loads(lines[1].removeprefix('"sections":').removesuffix(","))
    for name in digests:
        body = re.search(r'^"%s":\[\n?(.*?)\][,}]\n' % name, text, re.S | re.M).group(1)
        digests[name] = hashlib.sha256(body.encode()).hexdigest()[:16]
    lines[1] = '"sections":' + json.dumps(digests, separators=(",", ":")) + ","
    return "\n".join(lines)


class Checks(FolderTest):
    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def check(self, *args, code=0, env=None):
        done = subprocess.run([OPC, "check", *args], capture_output=True, text=True, timeout=120, cwd=self.folder,
                              env={**{k: v for k, v in os.environ.items() if k not in KEPT_OUT}, **(env or {})})
        if code is not None:
            self.assertEqual(done.returncode, code, (args, done.stdout, done.stderr))
        return done

    def findings(self, *args, code=1):
        return json.loads(self.check(*args, "--json", code=code).stdout)["findings"]

    def found(self, *args, code=1):
        """{(rule, op, line)}."""
        return {(f["rule"], f["op"], f["source"] and f["source"]["line"]) for f in self.findings(*args, code=code)}

    def rules(self, *args, code=1):
        return {f["rule"] for f in self.findings(*args, code=code)}

    def locked(self, text=GRAPH):
        self.write("g.pbtxt", text)
        self.check("g.pbtxt", "--update")
        return self.read("g.opc.lock")

    def changed(self, old, new, *args):
        self.locked()
        self.assertIn(old, GRAPH)
        self.write("g.pbtxt", GRAPH.replace(old, new))
        return self.found("g.pbtxt", *args)
