# opc show --as onnx, judged by ONNX's own reader and checker.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import unittest

from folder_test import FolderTest

try:
    import onnx
except ImportError as error:
    raise unittest.SkipTest("python3-onnx is not installed") from error

BUILD, SOURCE = os.environ["OPC_BUILD_DIR"], os.environ["OPC_SOURCE_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
HOSTILE = {"fc1": "../../etc/passwd", "relu1": '"><script>alert(1)</script>', "fc2": "a\\x00b", "relu2": "\u202ex\u0085", "fc3": "ünï/cødé:0 {=}"}
# Two attributes of a kind each, one of them without an exact float.
ATTRIBUTES = '''op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 2 dim: 6 } data_type: kFloat } } }
op { name: "thirds" user_conf { op_type_name: "scalar_mul" input { key: "in" value { s: "x/out" } }
  attr { key: "has_float_operand" value { at_bool: true } } attr { key: "float_operand" value { at_double: 0.1 } } } }
op { name: "halves" user_conf { op_type_name: "scalar_mul" input { key: "in" value { s: "thirds/out_0" } }
  attr { key: "has_float_operand" value { at_bool: true } } attr { key: "float_operand" value { at_double: 0.5 } } } }
op { name: "flat" user_conf { op_type_name: "reshape" input { key: "in" value { s: "halves/out_0" } }
  attr { key: "shape" value { at_shape { dim: 12 } } } } }
op { name: "half" user_conf { op_type_name: "cast" input { key: "in" value { s: "flat/out_0" } } attr { key: "dtype" value { at_data_type: kFloat16 } } } }
op { name: "y" output_conf { in: "half/out_0" } }
'''


def read(name):
    with open(os.path.join(DIGITS, name), encoding="utf-8") as f:
        return f.read()


class Onnx(FolderTest):
    def setUp(self):
        super().setUp()
        self.file("mlp.pbtxt", read("mlp.pbtxt"))

    def file(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(text)

    def opc(self, *args, code=0):
        done = subprocess.run([OPC, *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, cwd=self.folder)
        self.assertEqual(done.returncode, code, (args, done.stdout[-500:], done.stderr))
        return done

    def model(self, name):
        """As ONNX reads it; its checker demands that nodes stand in order and every value has one maker."""
        model = onnx.load(os.path.join(self.folder, name))
        onnx.checker.check_model(model)
        self.assertEqual({(o.domain, o.version) for o in model.opset_import}, {("opc.ops", 1), ("", 17)})
        return model.graph

    @staticmethod
    def types(values):
        kinds = {v: k for k, v in onnx.TensorProto.DataType.items()}
        return {v.name: (kinds[v.type.tensor_type.elem_type], [d.dim_value for d in v.type.tensor_type.shape.dim]) for v in values}

    def test_a_forward_graph(self):
        self.opc("show", "mlp.pbtxt", "--as", "onnx", "-o", "mlp.onnx")
        graph = self.model("mlp.onnx")
        self.assertEqual(graph.name, "mlp.pbtxt")
        self.assertEqual(len(graph.initializer), 0)  # no weight is copied
        inputs = self.types(graph.input)
        self.assertEqual(inputs["image"], ("FLOAT", [360, 64]))
        self.assertEqual(inputs["fc1_w"], ("FLOAT", [128, 64]))
        self.assertEqual({v.name: v.doc_string.split(",")[0] for v in graph.input}["fc1_w"], "variable")
        self.assertEqual(self.types(graph.output), {"logits": ("FLOAT", [360, 10])})
        self.assertEqual(self.types(graph.value_info)["relu1/y_0"], ("FLOAT", [360, 128]))
        self.assertEqual([(n.name, n.domain, n.op_type) for n in graph.node][:2] + [(graph.node[-1].name, graph.node[-1].domain, graph.node[-1].op_type)],
                         [("fc1", "opc.ops", "matmul"), ("fc1_bias", "opc.ops", "bias_add"), ("logits", "", "Identity")])
        fc1 = graph.node[0]
        self.assertEqual((list(fc1.input), list(fc1.output)), (["image", "fc1_w"], ["fc1/out_0"]))
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in fc1.attribute}
        self.assertEqual(attributes, {"alpha": 1.0, "transpose_a": 0, "transpose_b": 1})
        self.assertEqual(fc1.doc_string, "inputs a_0 b_0, outputs out_0; mlp.pbtxt:14:1")
        # To standard output, and the same bytes.
        with open(os.path.join(self.folder, "mlp.onnx"), "rb") as f:
            self.assertEqual(f.read(), self.opc("show", "mlp.pbtxt", "--as", "onnx", "-j", "2").stdout)

    def test_attributes(self):
        self.file("attributes.pbtxt", ATTRIBUTES)
        self.opc("show", "attributes.pbtxt", "--as", "onnx", "-o", "a.onnx")
        graph = self.model("a.onnx")
        values = {n.name: {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute} for n in graph.node}
        self.assertEqual(values["thirds"]["float_operand"], b"0.1")  # no float holds it
        self.assertEqual(values["halves"]["float_operand"], 0.5)
        self.assertEqual(values["thirds"]["has_float_operand"], 1)
        self.assertEqual(list(values["flat"]["shape"]), [12])
        self.assertEqual(values["half"]["dtype"], b"f16")
        self.assertEqual(self.types(graph.output), {"y": ("FLOAT16", [12])})

    def test_forward_and_backward_are_two_files(self):
        self.file("training.pbtxt", read("mlp.pbtxt") + read("mlp_loss.pbtxt"))
        self.opc("grad", "training.pbtxt", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "--shape", "image=64,64", "--shape", "label=64", "-o", "step.pbtxt")
        self.assertIn(b"two files", self.opc("show", "step.pbtxt", "--as", "onnx", code=2).stderr)
        self.assertIn(b"step.backward.onnx", self.opc("show", "step.pbtxt", "--as", "onnx", "-o", "step.onnx").stderr)
        forward, backward = self.model("step.onnx"), self.model("step.backward.onnx")
        self.assertEqual(self.types(forward.output)["loss"], ("FLOAT", []))
        self.assertFalse({n.op_type for n in forward.node} & {"sgd_update", "relu_grad"})
        self.assertTrue({"sgd_update", "relu_grad"} <= {n.op_type for n in backward.node})
        # Every op is in one of them, and what the second reads of the first is an output there.
        done = self.opc("show", "step.pbtxt", "--what", "ops", "--json")
        names = re.findall(rb'"name": "([^"]+)",\s*"type"', done.stdout)
        self.assertEqual(sorted(n.name for n in list(forward.node) + list(backward.node) if n.domain), sorted(n.decode() for n in names))
        handed = {v.name for v in backward.input if v.doc_string == "made by the forward part"}
        self.assertTrue(handed)
        self.assertTrue(handed <= {v.name for v in forward.output}, handed)

    def test_names(self):
        text = read("mlp.pbtxt")
        for name, evil in HOSTILE.items():
            text = re.sub(rf'"{name}(["/])', lambda m, e=evil: '"' + e.replace("\\", "\\\\").replace('"', '\\"') + m.group(1), text)
        self.file("evil.pbtxt", text)
        self.opc("show", "evil.pbtxt", "--as", "onnx", "-o", "evil.onnx")
        names = [n.name for n in self.model("evil.onnx").node]
        for evil in HOSTILE.values():
            self.assertIn(evil.replace("\u202e", "\\u202e").replace("\u0085", "\\u0085"), names)
        # An input called as a tensor of an op is: two values.
        self.file("twins.pbtxt", read("mlp.pbtxt").replace('"image"', '"relu1/y_0"').replace('"image/', '"relu1/y_0/'))
        self.opc("show", "twins.pbtxt", "--as", "onnx", "-o", "twins.onnx")
        graph = self.model("twins.onnx")
        self.assertEqual((graph.input[0].name, list(graph.node[0].input)[0]), ("relu1/y_0", "relu1/y_0"))
        self.assertEqual(next(list(n.output) for n in graph.node if n.name == "relu1"), ["relu1/y_0~2"])

    def test_an_output_of_an_input_and_parts(self):
        self.file("through.pbtxt", read("mlp.pbtxt") + 'op { name: "same" output_conf { in: "image/out" } }\n')
        self.opc("show", "through.pbtxt", "--as", "onnx", "-o", "t.onnx")
        self.assertEqual(self.types(self.model("t.onnx").output)["same"], ("FLOAT", [360, 64]))
        self.opc("show", "mlp.pbtxt", "--until", "relu1", "--as", "onnx", "-o", "u.onnx")
        self.assertEqual([n.name for n in self.model("u.onnx").node if n.domain], ["fc1", "fc1_bias", "relu1"])
        self.opc("compile", "mlp.pbtxt", "-o", "m.plan")
        self.opc("show", "m.plan", "--as", "onnx", "-o", "m.onnx")
        self.assertIn("fc2", " ".join(n.name for n in self.model("m.onnx").node))

    def test_refused(self):
        self.file("open.pbtxt", read("mlp.pbtxt").replace("dim: 360", "dim: -1"))
        self.assertIn(b"leave dimensions open", self.opc("show", "open.pbtxt", "--as", "onnx", "-o", "o.onnx", code=2).stderr)
        self.opc("show", "open.pbtxt", "--as", "onnx", "--shape", "image=8,64", "-o", "o.onnx")
        self.assertEqual(self.types(self.model("o.onnx").output), {"logits": ("FLOAT", [8, 10])})
        self.opc("show", "mlp.pbtxt", "--as", "onnx", "--what", "memory", "-o", "m.onnx", code=2)
        self.opc("show", "mlp.pbtxt", "--as", "onnx", "--json", code=2)
        self.opc("show", "mlp.pbtxt", "--as", "onnx", "-o", "nowhere/m.onnx", code=2)
        self.file("bad.pbtxt", read("mlp.pbtxt").replace('"relu"', '"rellu"'))
        self.opc("show", "bad.pbtxt", "--as", "onnx", "-o", "b.onnx", code=3)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "b.onnx")))


if __name__ == "__main__":
    unittest.main()
