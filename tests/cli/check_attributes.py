# Values that opc check and opc diff must tell apart, or take for one: long ones, which a lock has as digests, zeros with a sign, graphs in
# ops, initializers that say their defaults.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import tempfile
import unittest

from check_cases import OPC, Checks, relocked
from plugin_build import build_plugin

# An op with attributes of every length, which change none of its numbers.
NOTED = """#include "opc/Op.h"
namespace opc {
using namespace user_op;
REGISTER_USER_OP("noted").Input("x").Output("y").Doc("An op.").Attr<std::string>("text", "").Attr<float>("number", 0)
    .Attr<std::vector<int32_t>>("integers", {}).Attr<std::vector<float>>("numbers", {}).Attr<std::vector<std::string>>("texts", {})
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> { return ctx->Out("y") = ctx->In("x"), Maybe<void>::Ok(); });
struct Copy final : OpKernel {
  void Compute(KernelComputeContext *ctx) const override {
    const Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    Tensor *y = ctx->Tensor4ArgNameAndIndex("y", 0);
    for (int64_t i = 0; i < x->shape().elem_cnt(); ++i) y->mut_dptr<float>()[i] = x->dptr<float>()[i];
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_USER_KERNEL("noted").SetCreateFn<Copy>().SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU);
}
"""


def port(name, shape):
    dims = " ".join(f"dim: {d}" for d in shape)
    return f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: kFloat }} }} }}\n'


def user(name, kind, inputs, outputs, more="", first=""):
    text = "".join(f' input {{ key: "{k}" value {{ s: "{v}" }} }}' for k, v in inputs.items())
    text += "".join(f' output {{ key: "{k}" value {{ s: "{name}/{k}_0" }} }}' for k in outputs)
    return f'op {{ name: "{name}"{first} user_conf {{ op_type_name: "{kind}"{text}{more} }} }}\n'


def output(name, tensor):
    return f'op {{ name: "{name}" output_conf {{ in: "{tensor}" out: "out" }} }}\n'


def attr(name, value):
    return f' attr {{ key: "{name}" value {{ {value} }} }}'


def noted(name, value):
    return port("x", [4]) + user("act", "noted", {"x": "x/out"}, ["y"], attr(name, value)) + output("y", "act/y_0")


def scaled(factor):
    more = attr("has_float_operand", "at_bool: true") + attr("float_operand", f"at_double: {factor}")
    return port("x", [3]) + user("n", "scalar_mul", {"in": "x/out"}, ["out"], more) + output("y", "n/out_0")


def constant(value):
    more = attr("floating_value", f"at_double: {value}") + attr("is_floating_value", "at_bool: true") + attr("dtype", "at_data_type: kFloat")
    return user("n", "constant", {}, ["out"], more + attr("shape", "at_shape { dim: 3 }")) + output("y", "n/out_0")


def chosen(other, place=""):
    """An `if` whose second branch is the op `other`."""
    def branch(kind):
        op = user("e", kind, {"x": "in0/out"}, ["y"], first=f' loc: "{place}"' if place else "")
        return (port("in0", [4]) + op + output("out0", "e/y_0")).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    more = attr("then_graph", f'at_string: "{branch("relu")}"') + attr("else_graph", f'at_string: "{branch(other)}"')
    more += attr("shapes", "at_list_shape { val { dim: 4 } }") + attr("dtypes", "at_list_data_type { val: kFloat }")
    condition = 'op { name: "c" input_conf { out: "out" blob_conf { shape { } data_type: kBool } } }\n'
    return condition + port("x", [4]) + user("i", "if", {"cond": "c/out", "in": "x/out"}, ["out"], more) + output("y", "i/out_0")


def variable(initializer):
    text = 'op { name: "v" variable_conf { out: "out" shape { dim: 3 dim: 4 } data_type: kFloat initializer { %s } } }\n' % initializer
    return text + user("r", "relu", {"x": "v/out"}, ["y"]) + output("y", "r/y_0")


class Attributes(Checks):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.plugin = build_plugin(os.path.join(folder, "libnoted.so"), NOTED, "-O0")

    def check(self, *args, code=0, env=None):
        return super().check(*args, code=code, env={"OPC_PLUGINS": self.plugin, **(env or {})})

    def diff(self, a, b, code=1):
        done = subprocess.run([OPC, "diff", a, b, "--json", "--plugin", self.plugin], capture_output=True, text=True, timeout=120, cwd=self.folder)
        self.assertEqual(done.returncode, code, (a, b, done.stdout, done.stderr))
        return [(f["rule"], f["op"], f["message"]) for f in json.loads(done.stdout)["findings"]]

    def everywhere(self, old, new):
        """What the lock, the other graph, and opc diff of both say: rules and ops, the same of all four. Returns the message of diff."""
        self.locked(old)
        self.write("old.pbtxt", old)
        self.write("g.pbtxt", new)
        found = [self.findings("g.pbtxt", "--no-run", *against, code=None) for against in ([], ["--against", "old.pbtxt"])]
        said = [[(f["rule"], f["op"]) for f in one] for one in found]
        code = 1 if said[0] else 0
        from_lock, from_graph = self.diff("g.opc.lock", "g.pbtxt", code), self.diff("old.pbtxt", "g.pbtxt", code)
        self.assertEqual(said[0], said[1])
        self.assertEqual(said[0], [f[:2] for f in from_lock])
        self.assertEqual(said[0], [f[:2] for f in from_graph])
        for f in from_lock + from_graph + [("", "", f["message"]) for one in found for f in one]:
            sides = f[2].partition(": ")[2].split(" -> ")
            self.assertEqual(len(set(sides)), 2, f)
        return said[0], [f[2] for f in from_graph]

    def test_long_values(self):
        """The last one of many is another one."""
        values = {"text": ('at_string: "' + "a" * 499 + '%s"', "a", "b"), "integers": ("at_list_int32 { " + "val: 1 " * 499 + "val: %s }", 1, 2),
                  "numbers": ("at_list_float { " + "val: 1 " * 499 + "val: %s }", 1, 1.5), "texts": ("at_list_string { " + 'val: "1" ' * 499 + 'val: "%s" }', 1, 2)}
        for name, (text, was, is_) in values.items():
            old, new = (noted(name, text % one) for one in (was, is_))
            with self.subTest(name):
                self.assertEqual(self.everywhere(old, old)[0], [])
                said, messages = self.everywhere(old, new)
                self.assertEqual(said, [("OP_ATTR_CHANGED", "act")])
                self.assertLess(len(messages[0]), 200)

    def test_zeros_and_what_is_no_number(self):
        for old, new in ((scaled("0"), scaled("-0.0")), (noted("number", "at_float: 0"), noted("number", "at_float: -0.0")),
                         (noted("numbers", "at_list_float { val: 0 val: 1 }"), noted("numbers", "at_list_float { val: -0.0 val: 1 }"))):
            op = "n" if "scalar_mul" in old else "act"
            self.assertEqual(self.everywhere(old, new)[0], [("OP_ATTR_CHANGED", op)])
            self.assertEqual(self.everywhere(new, new)[0], [])
        self.assertEqual(self.everywhere(constant("nan"), constant("nan"))[0], [])
        self.assertEqual(self.everywhere(constant("nan"), constant("1"))[0], [("OP_ATTR_CHANGED", "n")])
        self.assertEqual(self.everywhere(constant("0"), constant("-0.0"))[0], [("OP_ATTR_CHANGED", "n")])

    def test_a_branch(self):
        self.assertEqual(self.everywhere(chosen("abs"), chosen("abs"))[0], [])
        said, messages = self.everywhere(chosen("abs"), chosen("exp"))
        self.assertEqual(said, [("OP_ATTR_CHANGED", "i")])
        self.assertIn('"abs', messages[0])
        self.assertIn('"exp', messages[0])
        # Where an op of a branch comes from is none of its values.
        self.assertEqual(self.everywhere(chosen("abs", "a.onnx: node 1"), chosen("abs", "b.onnx: node 1"))[0], [])
        self.assertEqual(self.everywhere(chosen("abs", "a.onnx: node 1"), chosen("abs"))[0], [])
        self.check("g.pbtxt", "--use", "EXACT", "--against", "old.pbtxt")
        self.assertEqual(self.everywhere(chosen("abs", "a.onnx: node 1"), chosen("exp", "a.onnx: node 1"))[0], [("OP_ATTR_CHANGED", "i")])

    # By kind of initializer: forms that say the same, and another one.
    INITIALIZERS = (("constant_conf { }", "constant_conf { value: 0 }", "constant_conf { value: -0.0 }"),
                    ("random_normal_conf { mean: 0 std: 1 }", "random_normal_conf { }", "random_normal_conf { std: 2 }"),
                    ("random_uniform_conf { min: 0 }", "random_uniform_conf { max: 1 }", "random_uniform_conf { min: 0.5 }"),
                    ("range_conf { start: 0 stride: 1 axis: -1 }", "range_conf { }", "range_conf { axis: 0 stride: 1 }"),
                    ("xavier_conf { variance_norm: kFanIn }", "xavier_conf { }", "xavier_conf { variance_norm: kFanOut }"))

    def test_defaults_of_initializers(self):
        for one, same, other in self.INITIALIZERS:
            with self.subTest(one):
                for a, b in ((one, same), (same, one)):
                    self.assertEqual(self.everywhere(variable(a), variable(b))[0], [])
                self.assertEqual(self.locked(variable(one)), self.locked(variable(same)))
                self.write("g.pbtxt", variable(one))
                self.check("g.pbtxt", "--use", "EXACT")
                said, messages = self.everywhere(variable(one), variable(other))
                self.assertEqual(said, [("OP_ATTR_CHANGED", "v")])
                self.assertIn("initializer: ", messages[0])

    def test_initializers_of_an_earlier_lock(self):
        """Such a lock has what the graph wrote."""
        lock = self.locked(variable("random_normal_conf { std: 2 }"))
        was = "random_normal_conf {std = 2.000000e+00 : f32}"
        self.assertIn(was, lock)
        for text, found in (("{mean = 0.000000e+00 : f32, std = 2.000000e+00 : f32}", []), ("{mean = 1.000000e+00 : f32, std = 2.000000e+00 : f32}", ["OP_ATTR_CHANGED"]),
                            ("{}", ["OP_ATTR_CHANGED"]), ("{std = 2.000000e+00 : f32, no = 1}", ["OP_ATTR_CHANGED"]), ("{std", ["OP_ATTR_CHANGED"])):
            self.write("g.opc.lock", relocked(lock.replace(was, "random_normal_conf " + text)))
            self.assertEqual([f["rule"] for f in self.findings("g.pbtxt", code=1 if found else 0)], found, text)

    def test_attributes_of_a_later_version(self):
        """An op has got an attribute since the lock was written: its default is what was meant."""
        lock = self.locked(noted("text", 'at_string: "a"'))
        for attribute, is_default in (("number", True), ("integers", True), ("text", False)):
            with self.subTest(attribute):
                old = re.sub(rf'"{attribute}":(\{{[^{{}}]*\}}|"[^"]*"),?', "", lock).replace(",}", "}")
                self.assertNotEqual(old, lock)
                self.write("g.opc.lock", relocked(old))
                rules = [] if is_default else ["OP_ATTR_CHANGED"]
                self.assertEqual([f["rule"] for f in self.findings("g.pbtxt", code=0 if is_default else 1)], rules)
                self.assertEqual([rule for rule, *_ in self.diff("g.opc.lock", "g.pbtxt", code=0 if is_default else 1)], rules)

    def test_a_name_that_another_op_has_taken(self):
        """The output reads the tensor of the name that it read, and another op makes it."""
        def graph(first, second):
            text = port("x", [4]) + user("a", "relu", {"x": "x/out"}, ["y"]) + user("b", "exp", {"x": "x/out"}, ["y"])
            return text.replace("a/y_0", first).replace("b/y_0", second) + output("y", "Y") + output("z", "Z")

        self.locked(graph("Y", "Z"))
        self.write("g.pbtxt", graph("Z", "Y"))
        edges = [f for f in self.findings("g.pbtxt", "--no-run") if f["rule"] == "EDGE_CHANGED"]
        self.assertEqual({(f["op"], f["message"]) for f in edges}, {("y", "input in: Y of a (relu) -> Y of b (exp)"), ("z", "input in: Z of b (exp) -> Z of a (relu)")})
        self.assertEqual({(f["expected"], f["found"]) for f in edges if f["op"] == "y"}, {("Y of a (relu)", "Y of b (exp)")})

    def test_names_that_random_numbers_follow(self):
        """A dropout of another name drops others: that is no mere name."""
        def graph(name):
            more = attr("rate", "at_float: 0.5")
            return port("x", [4, 8]) + user(name, "dropout", {"in": "x/out"}, ["out", "mask"], more) + output("y", name + "/out_0")

        self.locked(graph("drop"))
        self.write("old.pbtxt", graph("drop"))
        self.write("g.pbtxt", graph("other"))
        self.assertIn("NUMERIC_MISMATCH", self.rules("g.pbtxt"))  # so it is
        for against in ([], ["--against", "old.pbtxt"]):
            found = self.findings("g.pbtxt", "--no-run", "--except", "OP_RENAMED", *against)
            self.assertEqual([(f["rule"], f["op"], f["message"]) for f in found], [("OP_ATTR_CHANGED", "other", "random numbers: those of drop -> those of other")])
        self.assertEqual([f[:2] for f in self.diff("old.pbtxt", "g.pbtxt")], [("OP_RENAMED", "other"), ("OP_ATTR_CHANGED", "other")])

    @staticmethod
    def ordered(first="", name="as"):
        """Two variables that are written; `cp` reads the first one before, or after, that is done."""
        text = port("x", [4])
        for v in "vw":
            text += 'op { name: "%s" variable_conf { out: "out" shape { dim: 4 } data_type: kFloat initializer { constant_conf { value: 0.5 } } trainable: false } }\n' % v
        more = attr("has_float_operand", "at_bool: true") + attr("float_operand", "at_double: 2")
        text += user(name, "assign", {"ref": "v/out", "value": "x/out"}, []) + user("cp", "scalar_mul", {"in": "v/out"}, ["out"], more, first)
        return text + user("as2", "assign", {"ref": "w/out", "value": "cp/out_0"}, []) + user("r", "relu", {"x": "x/out"}, ["y"]) + output("y", "r/y_0")

    def test_what_an_op_must_run_after(self):
        none, one = self.ordered(), self.ordered(' ctrl_in_op_name: "as"')
        for old, new, message in ((one, none, "runs after as no more"), (none, one, "must run after as now")):
            self.locked(old)
            self.check("g.pbtxt")
            self.write("old.pbtxt", old)
            self.write("g.pbtxt", new)
            for against in ([], ["--against", "old.pbtxt"]):
                found = self.findings("g.pbtxt", "--no-run", *against)
                errors = [(f["rule"], f["op"], f["message"]) for f in found if f["severity"] == "error" and f["rule"] != "PEAK_MEMORY_GREW"]
                self.assertEqual(errors, [("EDGE_CHANGED", "cp", message)])
            for a in ("g.opc.lock", "old.pbtxt"):
                self.assertIn(("EDGE_CHANGED", "cp", message), self.diff(a, "g.pbtxt"))
        # An op that is called otherwise is the same one.
        self.locked(one)
        self.write("g.pbtxt", self.ordered(' ctrl_in_op_name: "first"', "first"))
        self.assertEqual({(f["rule"], f["op"]) for f in self.findings("g.pbtxt", "--no-run")}, {("OP_RENAMED", "first")})
        # A lock of an earlier build does not say it.
        self.locked(one)
        old = re.sub(r',"detailed":\[[^\]]*\]', "", self.read("g.opc.lock"))
        self.write("g.opc.lock", relocked(old.replace(',"after":["as"]', "")))
        self.assertNotIn('"after"', self.read("g.opc.lock"))
        self.check("g.pbtxt")
        self.assertEqual(self.diff("g.opc.lock", "g.pbtxt", code=0), [])
        self.check("g.pbtxt", "--update=ops")
        self.assertIn('"after":["as"]', self.read("g.opc.lock"))
        self.write("g.pbtxt", none)
        self.assertEqual(self.rules("g.pbtxt", "--no-run", "--except", "WARNING_ADDED", "--except", "PEAK_MEMORY_GREW"), {"EDGE_CHANGED"})

    def test_a_lock_of_an_earlier_build(self):
        """It has digests of branches with the places in them, of which nothing can be said; of other long values it says what it has."""
        self.locked(chosen("abs", "elsewhere/a.onnx: node 1"))
        text = self.read("g.opc.lock")
        old = re.sub(r',"detailed":\[[^\]]*\]', "", text)
        old = re.sub(r'("(then|else)_graph":\{"raw":\{"kind":6,"bytes":"7368613235363a)[0-9a-f]{8}', r"\g<1>33333333", old)
        self.assertNotEqual(old.split("\n")[0], text.split("\n")[0])
        self.write("g.opc.lock", relocked(old))
        self.check("g.pbtxt")
        self.assertEqual(self.diff("g.opc.lock", "g.pbtxt", code=0), [])
        self.check("g.pbtxt", "--update=ops")
        self.write("g.pbtxt", chosen("exp", "elsewhere/a.onnx: node 1"))
        self.assertEqual(self.rules("g.pbtxt", "--no-run"), {"OP_ATTR_CHANGED"})
        self.locked(noted("text", 'at_string: "' + "a" * 500 + '"'))
        self.write("g.opc.lock", re.sub(r',"detailed":\[[^\]]*\]', "", self.read("g.opc.lock")))
        self.check("g.pbtxt")
        self.write("g.pbtxt", noted("text", 'at_string: "' + "b" * 500 + '"'))
        self.assertEqual(self.rules("g.pbtxt"), {"OP_ATTR_CHANGED"})


if __name__ == "__main__":
    unittest.main()
