# Every rule of opc check: what finds it, at which op and line; a graph as it is locked finds none.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import tempfile
import unittest

from check_cases import GRAPH, Checks, relocked
from plugin_build import build_plugin

FAST = '''#include "oneflow/core/framework/framework.h"
namespace oneflow {
namespace {
class FastRelu final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    user_op::Tensor *y = ctx->Tensor4ArgNameAndIndex("y", 0);
    for (int64_t i = 0; i < x->shape().elem_cnt(); ++i) y->mut_dptr<float>()[i] = x->dptr<float>()[i] > 0 ? x->dptr<float>()[i] : 0;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_USER_KERNEL("relu").SetCreateFn<FastRelu>().SetPriority(PRIORITY).SetIsMatchedHob(
    (user_op::HobDeviceType() == DeviceType::kCPU) & (user_op::HobDataType("x", 0) == DataType::kFloat));
}
}
'''


class Rules(Checks):
    def lock(self, *args):
        self.write("g.pbtxt", GRAPH)
        self.check("g.pbtxt", "--update", *args)
        return json.loads(self.read("g.opc.lock"))

    def edited(self, change):
        """What is found when the lock says something else, as a tool that knows the format would write it."""
        self.lock()
        text = self.read("g.opc.lock")
        new = change(text)
        self.assertNotEqual(new, text)
        self.write("g.opc.lock", relocked(new))

    def test_ir_hash(self):
        ir = self.lock()["tasks"][0]["ir"]
        self.assertRegex(ir, "^[0-9a-f]{16}$")
        self.write("h.pbtxt", "# elsewhere\n\n" + GRAPH.replace('"fc"', '"dense"').replace("fc/", "dense/"))
        self.check("h.pbtxt", "--update")
        self.assertEqual(json.loads(self.read("h.opc.lock"))["tasks"][0]["ir"], ir)  # names and lines are not looked at
        self.edited(lambda t: t.replace(ir, "0" * 16))
        self.check("g.pbtxt")
        self.assertEqual(self.rules("g.pbtxt", "--use", "EXACT"), {"IR_HASH_CHANGED"})
        self.check("g.pbtxt", "--use", "EXACT", "--update=tasks")
        self.check("g.pbtxt", "--use", "EXACT")
        # An attribute that no other rule of the category would see is seen.
        self.write("g.pbtxt", GRAPH.replace("value: 0.5", "value: 0.5000001"))
        self.assertIn("IR_HASH_CHANGED", self.rules("g.pbtxt", "--use", "EXACT"))
        # A lock of a version that had no digest.
        self.edited(lambda t: t.replace(f',"ir":"{ir}"', ""))
        self.check("g.pbtxt", "--use", "EXACT")

    def test_kernels(self):
        """A plugin's kernel of a higher priority, one of the same, and one that its author calls a fallback."""
        with tempfile.TemporaryDirectory() as folder:
            for name, priority in (("libfast.so", 10), ("libslow.so", -10)):
                build_plugin(os.path.join(folder, name), FAST.replace("PRIORITY", str(priority)), "-O0")
            fast, slow = (["--plugin", os.path.join(folder, n)] for n in ("libfast.so", "libslow.so"))
            lock = self.lock(*fast)
            self.assertIn({"op": "act", "kernel": "cpu/relu/f32", "from": "libfast.so", "priority": 10}, lock["tasks"])
            self.assertNotIn(folder, self.read("g.opc.lock"))
            self.check("g.pbtxt", *fast)
            # A graph with a manifest has a registry of its own, and the plugin's kernels are in that, too.
            self.write("g.ops.pbtxt", "version: 1\n")
            self.assertEqual(self.findings("g.pbtxt", *fast, code=0), [])
            os.remove(self.path("g.ops.pbtxt"))
            # What the built-in kernel writes in place is a note beside it: it needs less memory.
            found = [f for f in self.findings("g.pbtxt", code=0) if f["severity"] != "note"]
            self.assertEqual([(f["rule"], f["severity"], f["op"], f["source"]["line"]) for f in found], [("KERNEL_FALLBACK", "warning", "act", 4)])
            self.assertEqual(found[0]["message"], "kernel cpu/relu/f32 (libfast.so, priority 10) -> cpu/relu/f32")
            self.assertEqual(found[0]["help"], "the kernel of the lock is in libfast.so: --plugin libfast.so")
            self.lock()
            self.check("g.pbtxt", *slow)  # a fallback is not chosen beside another
            found = [f for f in self.findings("g.pbtxt", *fast, code=None) if f["rule"].startswith("KERNEL")]
            self.assertEqual([(f["rule"], f["severity"], f["op"], f["source"]["line"]) for f in found], [("KERNEL_CHANGED", "warning", "act", 4)])
            # A kernel that counts its calls is no function of its inputs: the second run gives other bits.
            counts = (FAST.replace("PRIORITY", "10").replace("for (int64_t", "static int calls = 0;\n    ++calls;\n    for (int64_t")
                      .replace("? x->dptr<float>()[i] : 0", "? x->dptr<float>()[i] : calls"))
            build_plugin(os.path.join(folder, "libcounts.so"), counts, "-O0")
            found = self.findings("g.pbtxt", "--twice", "--except", "NUMERIC_MISMATCH", "--plugin", os.path.join(folder, "libcounts.so"), code=1)
            self.assertIn(("NONDETERMINISTIC", "error"), {(f["rule"], f["severity"]) for f in found})
            self.assertNotIn("NONDETERMINISTIC", self.rules("g.pbtxt", "--twice", *fast, code=None))
            self.assertIn("note[KERNEL_CHANGED]: op act: accepted: kernel cpu/relu/f32 -> cpu/relu/f32 (libfast.so, priority 10)",
                          self.check("g.pbtxt", *fast, "--update=tasks,cost").stdout)

    def test_pieces_and_transfers(self):
        """On a mesh: what the ranks have of a tensor, and what its transfers send. Of x's 4 rows a rank has 2."""
        args = ("--mesh", "2", "--sbp", "x=S(0)")
        self.lock(*args)
        tensors = {t["tensor"]: t for t in json.loads(self.read("g.opc.lock"))["tensors"]}
        self.assertEqual(tensors["fc/out_0"], {"tensor": "fc/out_0", "type": "f32[4,5]", "pieces": "f32[2,5] on 0-1"})
        self.edited_mesh(lambda t: t.replace('"pieces":"f32[2,5] on 0-1"', '"pieces":"f32[1,5] on 0, f32[3,5] on 1"', 1))
        self.assertEqual([(f["rule"], f["op"], f["tensor"], f["message"]) for f in self.findings("g.pbtxt", *args)],
                         [("TENSOR_TYPE_CHANGED", "fc", "fc/out_0", "pieces f32[1,5] on 0, f32[3,5] on 1 -> f32[2,5] on 0-1")])
        self.check("g.pbtxt", "--use", "SEMANTIC", *args)
        self.check("g.pbtxt", "--update=tensors", *args)
        self.check("g.pbtxt", *args)
        # The result is put together at the end: a rank sends its 2 x 5 floats to the other.
        self.assertEqual([(b["kind"], b["bytes"]) for b in json.loads(self.read("g.opc.lock"))["boxing"]], [("all_gather", 40)])
        for other, severity, code in ((20, "error", 1), (80, "note", 0)):
            self.lock(*args)
            self.edited_mesh(lambda t: t.replace('"dim":0,"bytes":40', f'"dim":0,"bytes":{other}', 1))
            found = self.findings("g.pbtxt", *args, code=code)
            self.assertEqual([(f["rule"], f["severity"], f["op"]) for f in found], [("BOXING_GREW", severity, "act")])
            self.assertIn(f"{other} -> 40 bytes a step", found[0]["message"])

    def test_costs(self):
        """What a lock allows is less than what the graph needs now."""
        args = ("--mesh", "2", "--sbp", "x=S(0)")
        for key, rule in (("comm_bytes", "COMM_BYTES_GREW"), ("tasks", "TASKS_GREW"), ("peak_bytes", "PEAK_MEMORY_GREW"), ("flops", "FLOPS_GREW")):
            value = self.lock(*args)["cost"][0][key]
            self.check("g.pbtxt", *args)
            cost = f'"{key}":{value},'
            self.edited_mesh(lambda t: t.replace(cost, f'"{key}":{value - 1},'))
            self.assertEqual([(f["rule"], f["severity"]) for f in self.findings("g.pbtxt", *args)], [(rule, "error")])
            self.check("g.pbtxt", "--grow", key + "=100%", *args)

    def test_a_gradient_that_is_missing(self):
        """A job that trains w and v, and a lock that had a gradient for v: now the loss does not depend on v."""
        loss = 'op { name: "l" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "act/y_0" } } attr { key: "axis" value { at_list_int32 { val: 0 val: 1 } } } } }\n'
        other = 'op { name: "v" variable_conf { out: "out" shape { dim: 4 dim: 5 } data_type: kFloat initializer { constant_conf { value: 0.5 } } } }\n'
        add = 'op { name: "add" user_conf { op_type_name: "broadcast_add" input { key: "x" value { s: "act/y_0" } } input { key: "y" value { s: "v/out" } } } }\n'
        conf = '} job_conf { job_name: "j" train_conf { loss_lbn: "l/output_tensor_0" optimizer_conf { base_learning_rate: 0.1 sgd_conf { } } } }\n'
        kept = 'op { name: "kept" output_conf { in: "%s" } }\n'
        joined = loss.replace("act/y_0", "add/z_0")
        self.write("g.pbtxt", "net {\n" + GRAPH + other + add + joined + kept % "add/z_0" + conf.replace("sgd_conf", "naive_conf"))
        self.check("g.pbtxt", "--update")
        self.check("g.pbtxt")
        self.write("g.pbtxt", "net {\n" + GRAPH + other + add + loss + kept % "add/z_0" + conf.replace("sgd_conf", "naive_conf"))
        found = {(f["rule"], f["severity"], f["op"], f["source"] and f["source"]["line"]) for f in self.findings("g.pbtxt")}
        self.assertIn(("GRAD_MISSING", "error", "v", 7), found)
        # Once: neither the doubt nor the compiler's warning says it again.
        self.assertEqual([s for rule, s, *_ in found if rule in ("GRAD_MISSING", "WARNING_ADDED")], ["error"])
        self.check("g.pbtxt", "--update")
        self.assertEqual([(f["rule"], f["severity"]) for f in self.findings("g.pbtxt", code=0)], [("GRAD_MISSING", "warning")])
        # A doubt of another variable comes first, and is not what a report of failures says.
        more = other.replace('"v"', '"u"') + add.replace('"add"', '"extra"').replace("v/out", "u/out") + kept.replace('"kept"', '"more"') % "extra/z_0"
        for ops in (joined, loss):
            self.write("g.pbtxt", "net {\n" + GRAPH + other + add + more + ops + kept % "add/z_0" + conf.replace("sgd_conf", "naive_conf"))
            if ops is joined:
                self.check("g.pbtxt", "--update")
        self.assertEqual([(f["severity"], f["op"]) for f in self.findings("g.pbtxt") if f["rule"] == "GRAD_MISSING"], [("error", "v"), ("warning", "u")])
        self.assertIn('<failure type="GRAD_MISSING" message="has no gradient any more">', self.check("g.pbtxt", "--format", "junit", code=1).stdout)

    def test_hazards(self):
        """What is said without a lock, with op and line; f32 in place of f16, and log_softmax, have none."""
        text = ('op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 2 dim: 70000 } data_type: kFloat16 } } }\n'
                'op { name: "p" user_conf { op_type_name: "softmax" input { key: "in" value { s: "x/out" } } } }\n'
                'op { name: "l" user_conf { op_type_name: "log" input { key: "x" value { s: "p/out_0" } } } }\n'
                'op { name: "s" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "l/y_0" } } '
                'attr { key: "axis" value { at_list_int32 { val: 1 } } } } }\nop { name: "y" output_conf { in: "s/output_tensor_0" } }\n')
        self.write("g.pbtxt", text)
        found = {(f["rule"], f["severity"], f["op"], f["source"]["line"]) for f in self.findings("g.pbtxt", "--no-run", "--except", "LOCK_MISSING", code=0)}
        self.assertEqual(found, {("NUMERIC_HAZARD", "warning", "l", 3), ("NUMERIC_HAZARD", "warning", "s", 4)})
        self.write("g.pbtxt", text.replace("kFloat16", "kFloat").replace('"softmax"', '"log_softmax"').replace("p/out_0", "p/prob_0").replace('"log"', '"abs"'))
        self.check("g.pbtxt", "--no-run", "--except", "LOCK_MISSING")

    def edited_mesh(self, change):
        text = self.read("g.opc.lock")
        new = change(text)
        self.assertNotEqual(new, text)
        self.write("g.opc.lock", relocked(new))


if __name__ == "__main__":
    unittest.main()
