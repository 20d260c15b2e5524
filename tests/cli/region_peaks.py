# A graph needs no more memory with regions than without: random graphs of every kind of op, of gradients, and of ops with workspaces, empty
# tensors and several results.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import random
import subprocess
import unittest

from folder_test import FolderTest

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
OPC = os.environ.get("OPC_BINARY") or os.path.join(BIN, "opc")
# Of the first hundreds these needed more with regions once: a kernel's workspace, an empty tensor, an order that undone joins left behind.
KNOWN = {"any": (62, 90, 141), "gradients": (42,)}


def op(name, kind, inputs, attrs=""):
    return f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" ' + "".join(f'input {{ key: "{k}" value {{ s: "{t}" }} }} ' for k, t in inputs) + attrs + "} }"


def mixed(seed):
    """Loops over elements and rows beside reductions with workspaces, narrow slices, and tensors without elements."""
    rng = random.Random(seed)
    rows, width = rng.choice((3, 5, 16, 40)), rng.choice((7, 8, 33, 64))
    lines = [f'op {{ name: "x{i}" input_conf {{ out: "out" blob_conf {{ shape {{ dim: {rows} dim: {width} }} data_type: kFloat }} }} }}' for i in range(2)]
    lines.append(f'op {{ name: "none" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 0 dim: {width} }} data_type: kFloat }} }} }}')
    full, empty, single, read = ["x0/out", "x1/out"], ["none/out"], [], set()
    axis = 'attr { key: "axis" value { at_list_int32 { val: 1 } } } attr { key: "keepdims" value { at_bool: true } }'
    for i in range(rng.choice((6, 9, 14, 22))):
        name, a = f"n{i}", rng.choice(full[-5:])
        draw = rng.random()
        if draw < 0.15:
            lines.append(op(name, rng.choice(("logsumexp", "reduce_sum", "reduce_max")), [("input_tensor", a)], axis))
            single.append(f"{name}/output_tensor_0")
        elif draw < 0.3 and single:
            b = rng.choice(single)
            lines.append(op(name, "broadcast_sub", [("x", a), ("y", b)]))
            full.append(f"{name}/z_0")
            read.add(b)
        elif draw < 0.4:
            lines.append(op(name, "softmax", [("in", a)]))
            full.append(f"{name}/out_0")
        elif draw < 0.5:
            a = rng.choice(empty)
            lines.append(op(name, rng.choice(("tanh", "exp")), [("x", a)]))
            empty.append(f"{name}/y_0")
        elif draw < 0.75:
            lines.append(op(name, rng.choice(("tanh", "exp", "abs")), [("x", a)]))
            full.append(f"{name}/y_0")
        else:
            b = rng.choice(full)
            lines.append(op(name, rng.choice(("broadcast_add", "broadcast_mul")), [("x", a), ("y", b)]))
            full.append(f"{name}/z_0")
            read.add(b)
        read.add(a)
    ends = [t for t in full + empty + single if t not in read and not t.endswith("/out")]
    lines += [f'op {{ name: "y{i}" output_conf {{ in: "{t}" out: "out" }} }}' for i, t in enumerate(ends)]
    return "\n".join(lines) + "\n"


class RegionPeaks(FolderTest):
    def setUp(self):
        super().setUp()
        self.joined = 0

    def compiled(self, *flags):
        """The bytes of the plan's memory, and how many tasks it has."""
        done = subprocess.run([OPC, "compile", "g.pbtxt", "-o", "g.plan", "--json", *flags], capture_output=True, text=True, timeout=120, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        report = json.loads(done.stdout)
        return report["memory"]["arena_bytes"], report["tasks"]

    def check(self, text):
        with open(os.path.join(self.folder, "g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(text)
        (fused, tasks), (single, most) = self.compiled(), self.compiled("--no-fuse")
        self.assertLessEqual(fused, single)
        self.joined += most - tasks

    def drawn(self, kind, seeds):
        for seed in seeds:
            with self.subTest(seed=seed):
                text = subprocess.run([os.path.join(BIN, "opc_random_graphs"), "--kind", kind, "--print", str(seed)], capture_output=True, text=True, check=True).stdout
                # What kernels of half precision have in f32 is in the graph with fusion, and inside them without: no matter of regions.
                self.check(text.replace("kFloat16", "kFloat").replace("kBFloat16", "kFloat"))

    def test_any_op(self):
        self.drawn("any", (*range(1, 40), *KNOWN["any"]))
        self.assertGreater(self.joined, 100)

    def test_gradients(self):
        self.drawn("gradients", (*range(1, 40), *KNOWN["gradients"]))
        self.assertGreater(self.joined, 50)

    def test_workspaces_and_empty_tensors(self):
        for seed in range(60):
            with self.subTest(seed=seed):
                self.check(mixed(seed))
        self.assertGreater(self.joined, 100)


if __name__ == "__main__":
    unittest.main()
