# Updates of many variables in one task: the bits of separate ones, for any number of threads and ranks, in no more memory.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import random
import unittest

import numpy as np

from folder_test import FolderTest

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
RUNTIME = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc-runtime")
OPTIMIZERS = {"sgd": [], "momentum:beta=0.75,nesterov=true": [], "adam": [], "adamw": ["--weight-decay", "0.125"], "rmsprop": [], "adagrad": []}


def network(sizes, batch=4):
    """A chain of layers with biases; the loss is the mean of the last one's squares."""
    def dims(*shape):
        return "shape { " + " ".join(f"dim: {d}" for d in shape) + " }"

    def op(name, kind, inputs, attrs=""):
        args = " ".join(f'input {{ key: "{k}" value {{ s: "{v}" }} }}' for k, v in inputs.items())
        return f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" {args} {attrs} }} }}'

    lines = [f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(batch, sizes[0])} data_type: kFloat }} }} }}']
    last = "x/out"
    for i, (rows, columns) in enumerate(zip(sizes, sizes[1:])):
        for name, shape in ((f"w{i}", (rows, columns)), (f"b{i}", (columns,))):
            lines.append(f'op {{ name: "{name}" variable_conf {{ out: "out" {dims(*shape)} data_type: kFloat initializer {{ random_normal_conf {{ mean: 0 std: 0.1 }} }} }} }}')
        lines += [op(f"fc{i}", "matmul", {"a": last, "b": f"w{i}/out"}), op(f"ba{i}", "bias_add", {"a": f"fc{i}/out_0", "b": f"b{i}/out"}, 'attr { key: "axis" value { at_int32: 1 } }'),
                  op(f"act{i}", "tanh", {"x": f"ba{i}/out_0"})]
        last = f"act{i}/y_0"
    lines += [op("sq", "square", {"x": last}),
              op("loss", "reduce_mean", {"input_tensor": "sq/y_0"}, 'attr { key: "axis" value { at_list_int32 { val: 0 val: 1 } } } attr { key: "keepdims" value { at_bool: false } }'),
              'op { name: "loss_now" output_conf { in: "loss/output_tensor_0" } }']
    for i in range(len(sizes) - 1):
        lines += [f'op {{ name: "{n}_now" output_conf {{ in: "{n}/out" }} }}' for n in (f"w{i}", f"b{i}")]
    return "\n".join([*lines, ""])


class Updates(FolderTest):
    def step(self, sizes, optimizer, *more, batch=4):
        """A training step as a graph, and its input."""
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(network(sizes, batch))
        self.opc("grad", "g.pbtxt", "--loss", "loss", "--optimizer", optimizer, "--lr", "0.03125", "-o", "step.pbtxt", *more)
        np.save(self.path("x.npy"), np.random.default_rng(1).normal(size=(batch, sizes[0])).astype(np.float32))

    def values(self, *args, steps=5, what="step.pbtxt", program=OPC):
        self.opc(*(["run"] if program == OPC else []), what, "--input", "x=@x.npy", "--repeat", str(steps), "--outputs", "out.npz", "--print", "none", *args, program=program)
        with np.load(self.path("out.npz")) as z:
            return {k: z[k].tobytes() for k in z.files}

    def tasks(self, *args):
        """The updates of the graph's plan by task: lists of names."""
        self.opc("compile", "step.pbtxt", "-o", "step.plan", *args)
        groups = {}
        for t in json.loads(self.opc("show", "step.plan", "--what", "tasks", "--json").stdout)["tasks"]:
            if "_update" in t["kernel"]:
                groups.setdefault(("region", t["region"]) if "region" in t else t["op"], []).append(t["op"])
        return list(groups.values())

    def test_same_bits(self):
        for optimizer, more in OPTIMIZERS.items():
            with self.subTest(optimizer=optimizer):
                self.step([7, 130, 33, 20, 3], optimizer, *more, batch=256)
                groups = self.tasks("--no-fuse")
                self.assertEqual([len(g) for g in groups], [1] * 8)
                groups = self.tasks()
                self.assertLess(len(groups), 5)
                self.assertEqual(sum(map(len, groups)), 8)
                want = self.values("--no-fuse", "-j", "1")
                for threads in ("1", "2", "3"):
                    self.assertEqual(self.values("-j", threads), want)
                    self.assertEqual(self.values("-j", threads, what="step.plan", program=RUNTIME), want)

    def test_threads_share_tensors_of_every_size(self):
        """More pieces than one in some of them, none in others."""
        self.step([3, 1, 5000, 2, 70], "adam", batch=16)
        self.assertLess(len(self.tasks()), 5)
        want = self.values("--no-fuse", "-j", "1", steps=3)
        for threads in ("1", "2", "4"):
            self.assertEqual(self.values("-j", threads, steps=3), want)

    def test_what_fusion_says(self):
        """A batch stands with the regions, with all its ops and what they move, and none of them is alone."""
        self.step([7, 130, 33, 20, 3], "sgd", batch=256)
        fusion = json.loads(self.opc("show", "step.pbtxt", "--what", "fusion", "--json").stdout)["fusion"]
        batches = [r for r in fusion["regions"] if any("optimizer" in op for op in r["ops"])]
        self.assertEqual(sorted(op for r in batches for op in r["ops"]), sorted(op for g in self.tasks() if len(g) > 1 for op in g))
        self.assertTrue(batches)
        self.assertFalse({op for r in batches for op in r["ops"]} & {a["op"] for a in fusion["alone"]})
        floats = {"w0": 7 * 130, "b0": 130, "w1": 130 * 33, "b1": 33, "w2": 33 * 20, "b2": 20, "w3": 20 * 3, "b3": 3}
        for r in batches:  # a variable is read and written, its gradient read
            self.assertEqual(r["bytes_moved"], 12 * sum(n for v, n in floats.items() if any(op.startswith(v) for op in r["ops"])))
            self.assertEqual((r["bytes_saved"], r["code"], r["why_no_code"]), (0, False, "updates are computed by their kernels"))

    def test_memory(self):
        """Gradients that wait for a batch raise no peak: random chains of layers, and where the updates are most of the memory."""
        rng, batched = random.Random(5), 0
        for number in range(14):
            sizes = [rng.choice([1, 3, 16, 64, 200]) for _ in range(rng.randint(3, 9))]
            with self.subTest(sizes=sizes):
                self.step(sizes, rng.choice(["adam", "sgd", "momentum:beta=0.5"]), batch=rng.choice([1, 16, 256]))
                memory = []
                for pipeline in ("", "opc-batch-updates,"):
                    self.opc("compile", "step.pbtxt", "--to", "fuse", "--emit", "mlir", "-o", "step.mlir")
                    done = self.opc("step.mlir", f"--pass-pipeline=builtin.module(opc-schedule,{pipeline}opc-plan-memory)", program=os.path.join(os.path.dirname(OPC), "opc-opt"))
                    memory.append(int(done.stdout.split("opc.arena_bytes = ")[1].split(" ")[0]))
                    batched += '"updates"' in done.stdout
                self.assertLessEqual(memory[1], memory[0])
        self.assertGreater(batched, 4)

    def test_what_is_large_stays_alone(self):
        """A gradient that cannot wait, as it would be alive beside the next ones, is not waited for; the small ones are one task."""
        self.step([400] * 5, "sgd", batch=1)
        groups = self.tasks()
        self.assertEqual(sum(map(len, groups)), 8)
        large = [g for g in groups if any(n.startswith("w") for n in g)]
        self.assertEqual([len([n for n in g if n.startswith("w")]) for g in large], [1] * 4)  # never two of them
        self.assertTrue(any({"b1_optimizer", "b2_optimizer"} <= set(g) for g in groups), groups)

    def test_ordered_updates_stay_apart(self):
        """What the graph orders behind an update sees the new value, batched or not."""
        def update(name, variable, gradient, more=""):
            return (f'op {{ name: "{name}" {more} user_conf {{ op_type_name: "sgd_update" input {{ key: "model" value {{ s: "{variable}/out" }} }}'
                    f' input {{ key: "model_diff" value {{ s: "{gradient}" }} }} attr {{ key: "learning_rate_val" value {{ at_float: 0.5 }} }} }} }}')

        lines = ['op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 } data_type: kFloat } } }']
        for v in "abc":
            lines.append(f'op {{ name: "{v}" variable_conf {{ out: "out" shape {{ dim: 4 }} data_type: kFloat initializer {{ constant_conf {{ value: 1 }} }} }} }}')
        lines += [update("ua", "a", "x/out"), update("again", "a", "x/out", 'ctrl_in_op_name: "ua"'),
                  'op { name: "new" ctrl_in_op_name: "again" user_conf { op_type_name: "square" input { key: "x" value { s: "a/out" } } } }',
                  update("ub", "b", "new/y_0"), update("uc", "c", "b/out"),
                  'op { name: "a_now" output_conf { in: "a/out" } }', 'op { name: "b_now" output_conf { in: "b/out" } }', 'op { name: "c_now" output_conf { in: "c/out" } }', ""]
        with open(self.path("step.pbtxt"), "w", encoding="utf-8") as f:
            f.write("\n".join(lines))
        np.save(self.path("x.npy"), np.array([1, 2, 3, 4], np.float32))
        x, a, b, c = np.array([1, 2, 3, 4], np.float32), *np.ones((3, 4), np.float32)
        for _ in range(2):
            c = c - np.float32(0.5) * b  # the old b
            a = a - np.float32(0.5) * x - np.float32(0.5) * x
            b = b - np.float32(0.5) * a * a
        for args in ((), ("--no-fuse",)):
            got = self.values(*args, steps=2)
            for name, want in (("a_now", a), ("b_now", b), ("c_now", c)):
                np.testing.assert_allclose(np.frombuffer(got[name], np.float32), want, rtol=1e-6)
        for group in self.tasks():
            self.assertFalse({"ua", "again"} <= set(group))
            self.assertFalse({"ub", "uc"} <= set(group))

    def test_casts_of_what_the_data_puts_behind_an_update(self):
        """A reader of new statistics that reads the result of the op that writes them, and one of the old: each in another type."""
        def const(name, value):
            return f'op {{ name: "{name}" variable_conf {{ out: "out" shape {{ dim: 3 }} data_type: kFloat initializer {{ constant_conf {{ value: {value} }} }} }} }}'

        def add(name, x, y):
            return f'op {{ name: "{name}" user_conf {{ op_type_name: "broadcast_add" input {{ key: "x" value {{ s: "{x}" }} }} input {{ key: "y" value {{ s: "{y}" }} }} }} }}'

        read = {"moving_mean": "m/out", "moving_variance": "v/out", "gamma": "g/out", "beta": "b/out", "x": "x/out"}
        args = " ".join(f'input {{ key: "{k}" value {{ s: "{t}" }} }}' for k, t in read.items())
        lines = ['op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 8 dim: 3 } data_type: kFloat } } }',
                 const("m", 5), const("v", 2), const("g", 1), const("b", 0),
                 f'op {{ name: "norm" user_conf {{ op_type_name: "normalization" {args} attr {{ key: "axis" value {{ at_int32: 1 }} }} attr {{ key: "epsilon" value {{ at_float: 1e-5 }} }}'
                 ' attr { key: "training" value { at_bool: true } } attr { key: "momentum" value { at_float: 0.75 } } } }',
                 add("late", "norm/y_0", "m/out"), add("early", "x/out", "m/out"),
                 'op { name: "row" user_conf { op_type_name: "expand_dims" input { key: "in" value { s: "m/out" } } attr { key: "axis" value { at_int32: 0 } } } }',
                 add("viewed", "norm/y_0", "row/out_0"),
                 *(f'op {{ name: "{n}_out" output_conf {{ in: "{n}/z_0" }} }}' for n in ("late", "early", "viewed")), ""]
        with open(self.path("step.pbtxt"), "w", encoding="utf-8") as f:
            f.write("\n".join(lines))
        x = np.random.default_rng(2).normal(1, 3, (8, 3)).astype(np.float32)
        np.save(self.path("x.npy"), x)
        m, y = np.full(3, 5.0), (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
        for _ in range(2):
            old, m = m, 0.75 * m + 0.25 * x.mean(0)
        for more in ((), ("--cast-ops", "late=f64", "--cast-ops", "viewed=f64", "--cast-ops", "early=f64")):
            got = self.values(*more, steps=2)
            for name, want in (("late_out", y + m), ("viewed_out", y + m), ("early_out", x + old)):
                np.testing.assert_allclose(np.frombuffer(got[name], np.float32).reshape(8, 3), want, rtol=1e-4, atol=1e-4, err_msg=f"{name} {more}")

    def test_accumulation_and_ranks(self):
        self.step([6, 40, 8], "adam", "--accumulate", "2", batch=64)
        self.assertLess(len(self.tasks()), 4)
        self.assertEqual(self.values("-j", "1", steps=6), self.values("--no-fuse", "-j", "1", steps=6))
        self.step([6, 40, 8], "adam", batch=64)
        want = self.values("--no-fuse", "--ranks", "2")
        self.assertEqual(self.values("--ranks", "2"), want)

    def test_trace_and_profile_list_the_ops(self):
        self.step([6, 40, 8], "adam", batch=64)
        self.values("--trace", "t.json", steps=1)
        with open(self.path("t.json"), encoding="utf-8") as f:
            events = [e for e in json.load(f)["traceEvents"] if e.get("cat") == "task" and e["args"]["op"] == "opc.fused"]
        updates = [e for e in events if "adam_update" in e["args"]["ops"]]
        self.assertEqual([len(e["args"]["ops"]) for e in updates], [len(g) for g in self.tasks() if len(g) > 1])
        self.assertGreater(len(updates), 0)
        for e in updates:
            self.assertGreater(e["args"]["flops"], 0)
            self.assertGreater(e["args"]["bytes"], 0)

    def test_until(self):
        self.step([6, 40, 8], "adam")
        self.opc("run", "step.pbtxt", "--input", "x=@x.npy", "--until", "fc1/out_0", "--print", "none")


if __name__ == "__main__":
    unittest.main()
