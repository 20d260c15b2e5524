# The examples of the page that asks for the command line, in a shell, as they are printed there; for each its exit code, or
# the reason why it cannot work yet. Where ../shared/CLI.md lies beside the repository, the list here is the page's.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

import numpy as np

SOURCE, BIN = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
PAGE = os.path.join(SOURCE, "..", "shared", "CLI.md")
MLP = """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 32 dim: 784 } data_type: kFloat } } }
op { name: "label" input_conf { out: "out" blob_conf { shape { dim: 32 } data_type: kInt32 } } }
op { name: "fc0.w" variable_conf { out: "out" shape { dim: 784 dim: 64 } data_type: kFloat initializer { random_normal_conf { mean: 0 std: 0.05 } } } }
op { name: "fc1.w" variable_conf { out: "out" shape { dim: 64 dim: 10 } data_type: kFloat initializer { random_normal_conf { mean: 0 std: 0.05 } } } }
op { name: "fc0" user_conf { op_type_name: "matmul" input { key: "a" value { s: "x/out" } } input { key: "b" value { s: "fc0.w/out" } } output { key: "out" value { s: "fc0/out_0" } } } }
op { name: "relu0" user_conf { op_type_name: "relu" input { key: "x" value { s: "fc0/out_0" } } output { key: "y" value { s: "relu0/out_0" } } } }
op { name: "fc1" user_conf { op_type_name: "matmul" input { key: "a" value { s: "relu0/out_0" } } input { key: "b" value { s: "fc1.w/out" } } output { key: "out" value { s: "fc1/out_0" } } } }
op { name: "ce" user_conf { op_type_name: "sparse_softmax_cross_entropy" input { key: "prediction" value { s: "fc1/out_0" } } input { key: "label" value { s: "label/out" } }
  output { key: "prob" value { s: "ce/prob_0" } } output { key: "out" value { s: "ce/out_0" } } attr { key: "depth" value { at_int64: 10 } } } }
op { name: "mean" user_conf { op_type_name: "reduce_mean" input { key: "input_tensor" value { s: "ce/out_0" } } output { key: "output_tensor" value { s: "mean/out_0" } }
  attr { key: "axis" value { at_list_int32 { val: 0 } } } attr { key: "keepdims" value { at_bool: false } } } }
op { name: "loss" output_conf { in: "mean/out_0" out: "out" } }
"""

GPU = "OPC0630"  # no GPU on this machine: exit code 4, and the message says so
# The line, its exit code, what its output or its file must hold, and where that is ("" is standard output).
EXAMPLES = [
    ("opc compile mlp.pbtxt --to sbp --emit mlir -o -", 0, r'opc\.user_op "matmul"', ""),
    ("opc compile mlp.pbtxt --mode train --mesh 2 -o mlp.plan --dump ir/ --stats", 0, "all_gather", "ir/06-boxing.mlir"),
    ("opc run mlp.pbtxt --inputs in.npz --weights w.safetensors --expects out.npz --device gpu --report run.html", 4, GPU, "stderr"),
    ("opc run mlp.pbtxt --fill rand --seed 7 --until relu0/out_0 --print 8", 0, "relu0/out_0", ""),
    ("opc grad mlp.pbtxt --loss loss --wrt '*.w' -o mlp.grad.pbtxt --check", 0, "fc1.w", "mlp.grad.pbtxt"),
    ("opc check graphs/ --report junit=check.xml --report sarif=check.sarif", 0, "<testsuite", "check.xml"),
    ('opc check --against git:origin/main --format markdown >> "$GITHUB_STEP_SUMMARY"', 0, "### opc check", "summary.md"),
    ("opc check graphs/mlp.pbtxt --update=cost", 0, "cost", "graphs/mlp.opc.lock"),
    ("opc diff git:HEAD~1:mlp.pbtxt mlp.pbtxt --as html > d.html", 1, "<html", "d.html"),
    ("opc debug first-diff mlp.pbtxt --device gpu --inputs in.npz", 4, GPU, "stderr"),
    ("opc show mlp.pbtxt --what memory --as svg -o mem.svg", 0, "<svg", "mem.svg"),
    ("cat mlp.pbtxt | opc show - --what cost --json | jq .peak_bytes", 0, r"^[1-9]\d{4,6}$", ""),
    ("opc ops --missing grad --plugin build/libmyops.so", 0, "myrelu", ""),
]
# What of a line that needs a GPU works without one: the same without these words.
WITHOUT = {"--device gpu": "", "--report run.html": ""}


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.tools = os.path.join(cls.folder, ".tools")
        os.makedirs(cls.tools)
        os.symlink(os.path.join(BIN, "opc"), os.path.join(cls.tools, "opc"))
        if not shutil.which("jq"):  # the one program of others in these lines
            with open(os.path.join(cls.tools, "jq"), "w", encoding="utf-8") as f:
                f.write('#!/bin/sh\nexec python3 -c "import json, sys; print(json.load(sys.stdin)[sys.argv[1][1:]])" "$1"\n')
            os.chmod(os.path.join(cls.tools, "jq"), 0o755)
        cls.repository()
        cls.tensors()
        cls.plugin()

    @classmethod
    def write(cls, name, text):
        with open(os.path.join(cls.folder, name), "w", encoding="utf-8") as f:
            f.write(text)

    @classmethod
    def shell(cls, line):
        env = dict(os.environ, PATH=cls.tools + ":" + os.environ["PATH"], GITHUB_STEP_SUMMARY="summary.md", GIT_CONFIG_GLOBAL="/dev/null")
        for name in ("CI", "GITHUB_ACTIONS"):
            env.pop(name, None)
        return subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=cls.folder, env=env, capture_output=True, text=True, timeout=240)

    @classmethod
    def must(cls, line):
        done = cls.shell(line)
        assert done.returncode == 0, line + ": " + done.stdout + done.stderr
        return done.stdout

    @classmethod
    def repository(cls):
        """Two commits, of which the first has another graph, and the branch of a server."""
        os.makedirs(os.path.join(cls.folder, "graphs"))
        git = "git -c user.name=a -c user.email=a@b"
        cls.write("mlp.pbtxt", MLP.replace('"relu"', '"tanh"'))
        cls.write("opc.toml", '[check]\npaths = ["graphs/**/*.pbtxt"]\n')
        cls.write("graphs/mlp.pbtxt", MLP)
        cls.must("git init -q . && opc check graphs/ --update --all")
        cls.must(f"git add mlp.pbtxt opc.toml graphs && {git} commit -qm one")
        cls.write("mlp.pbtxt", MLP)
        cls.must(f"git add mlp.pbtxt && {git} commit -qm two && git update-ref refs/remotes/origin/main HEAD")

    @classmethod
    def tensors(cls):
        random = np.random.default_rng(3)
        np.savez(os.path.join(cls.folder, "in.npz"), x=random.standard_normal((32, 784)).astype(np.float32), label=np.arange(32, dtype=np.int32) % 10)
        data, header = b"", {}
        for name, shape in (("fc0.w", (784, 64)), ("fc1.w", (64, 10))):
            raw = (random.standard_normal(shape) * 0.05).astype("<f4").tobytes()
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
        text = json.dumps(header).encode()
        with open(os.path.join(cls.folder, "w.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + data)
        cls.must("opc run mlp.pbtxt --inputs in.npz --weights w.safetensors --outputs out.npz --print none")

    @classmethod
    def plugin(cls):
        shutil.copytree(os.path.join(SOURCE, "docs", "examples", "myrelu_plugin"), os.path.join(cls.folder, "plugin"))
        cls.must("make -C plugin libmyrelu.so && mkdir -p build && cp plugin/libmyrelu.so build/libmyops.so")

    def found(self, where, done):
        if where in ("", "stderr"):
            return done.stderr if where else done.stdout
        with open(os.path.join(self.folder, where), encoding="utf-8") as f:
            return f.read()

    def test_every_line(self):
        for line, code, words, where in EXAMPLES:
            with self.subTest(line):
                done = self.shell(line)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertRegex(self.found(where, done), words)

    def test_without_a_gpu(self):
        """The lines that ask for a GPU do the same on the CPU."""
        for line, code, *_ in EXAMPLES:
            if code != 4:
                continue
            for words, other in WITHOUT.items():
                line = line.replace(words, other)
            line = line.replace("first-diff mlp.pbtxt", "first-diff mlp.pbtxt --weights w.safetensors")
            done = self.shell(line)
            self.assertEqual(done.returncode, 0, line + ": " + done.stdout + done.stderr)

    def test_these_are_the_page(self):
        with open(PAGE, encoding="utf-8") as f:
            block = re.search(r"### 6\.6.*?```\n(.*?)```", f.read(), re.S).group(1)
        printed = [re.sub(r"\s+# .*", "", line) for line in block.strip().split("\n")]
        self.assertEqual(printed, [line for line, *_ in EXAMPLES])


if not os.path.exists(PAGE):
    del Examples.test_these_are_the_page


if __name__ == "__main__":
    unittest.main()
