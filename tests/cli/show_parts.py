# opc show: costs, tasks, a part of a graph, drawings; what is drawn is looked up in the file, and names stay names.
# SPDX-License-Identifier: Apache-2.0
import csv
import io
import json
import os
import re
import subprocess
import unittest
import xml.etree.ElementTree as xml

import big_graphs
from folder_test import FolderTest

BUILD, SOURCE = os.environ["OPC_BUILD_DIR"], os.environ["OPC_SOURCE_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
SVG = "{http://www.w3.org/2000/svg}"


def read(name):
    with open(os.path.join(DIGITS, name), encoding="utf-8") as f:
        return f.read()


MLP = read("mlp.pbtxt")
HOSTILE = ('</title><script>alert(1)</script>', '"><img src=x onerror=alert(1)>', "]]> & <!-- ' --", '"]; evil [label="x', "\\x1b[2J\\n")


class Show(FolderTest):
    def setUp(self):
        super().setUp()
        self.file("mlp.pbtxt", MLP)

    def file(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(text)
        return name

    def json(self, *args):
        return json.loads(self.opc("show", *args, "--json").stdout)

    def csv(self, *args, code=0):
        done = subprocess.run([OPC, "show", *args, "--as", "csv"], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stderr)
        return list(csv.DictReader(io.StringIO(done.stdout.decode(), newline="")))

    def test_csv(self):
        """Every list of the JSON documents, record by record."""
        for what, mesh in [("ops", []), ("tensors", []), ("tasks", []), ("memory", []), ("cost", []), ("sbp", ["2"]), ("boxing", ["2"])]:
            args = ["mlp.pbtxt", "--what", what] + [w for m in mesh for w in ("--mesh", m)]
            document = self.json(*args)
            rows = {"cost": document.get("ops"), "memory": document.get("memory", {}).get("slots"), "sbp": document.get("sbp", {}).get("ops"),
                    "boxing": document.get("sbp", {}).get("transitions")}.get(what, document.get(what))
            shown = self.csv(*args)
            self.assertEqual(len(shown), len(rows), what)
            for record, row in zip(shown, rows):
                self.assertEqual([key for key in record if key in row or record[key]], list(row))
                for key, value in row.items():
                    same = value if isinstance(value, str) else "" if value is None else json.dumps(value)
                    self.assertEqual(json.loads(record[key]) if isinstance(value, (dict, list)) else record[key],
                                     value if isinstance(value, (dict, list)) else same, (what, key))
        phases = [list(r.values())[0] for r in self.csv("mlp.pbtxt", "--what", "phases")]
        self.assertEqual(phases[:2], ["import", "shape"])

    def test_csv_quotes(self):
        """Names with commas, quotes and ends of lines are one cell."""
        for number, name in enumerate(('a,b', 'say "x"', "two\\nlines", "=1+1")):
            self.file(f"q{number}.pbtxt", MLP.replace('"fc1"', '"' + name.replace('"', '\\"') + '"').replace("fc1/out_0", name.replace('"', '\\"') + "/out_0"))
            names = [r["name"] for r in self.csv(f"q{number}.pbtxt", "--what", "ops")]
            self.assertEqual(names, [op["name"] for op in self.json(f"q{number}.pbtxt")["ops"]])
        self.assertIn("exclude each other", self.opc("show", "mlp.pbtxt", "--as", "csv", "--json", code=2).stderr)

    def test_paths(self):
        names = lambda *args: {o["name"] for o in self.json("mlp.pbtxt", *args)["ops"]}
        between = names("--paths", "relu1..fc2_bias")
        self.assertEqual(between, {"relu1", "fc2", "fc2_bias"})
        self.assertEqual(names("--paths", "fc2..fc2"), {"fc2"})
        document = self.json("mlp.pbtxt", "--paths", "fc2_w..logits")
        self.assertEqual([v["name"] for v in document["variables"]], ["fc2_w"])
        self.assertEqual([v["name"] for v in document["outputs"]], ["logits"])
        self.assertIn("<svg", self.opc("show", "mlp.pbtxt", "--paths", "relu1..fc2", "--as", "svg").stdout)
        for text, words in [("fc2..relu1", "no data goes from fc2 to relu1"), ("fc2", "takes A..B"), ("fc9..fc2", "fc9"), ("fc1..rleu2", "relu2")]:
            self.assertIn(words, self.opc("show", "mlp.pbtxt", "--paths", text, code=2).stderr)
        self.assertIn("exclude each other", self.opc("show", "mlp.pbtxt", "--paths", "fc1..fc2", "--op", "fc1", code=2).stderr)

    def test_cost(self):
        document = self.json("mlp.pbtxt", "--what", "cost")
        ops = {op["name"]: op for op in document["ops"]}
        # A product of [360, 64] and [64, 128]: a multiplication and an addition for each.
        self.assertEqual(ops["fc1"]["flops"], 2 * 360 * 64 * 128)
        self.assertEqual(ops["fc1"]["bytes"], 4 * (360 * 64 + 64 * 128 + 360 * 128))
        self.assertEqual(document["flops"], sum(op["flops"] for op in document["ops"]))
        self.assertEqual(document["peak_bytes"], self.json("mlp.pbtxt", "--what", "memory")["memory"]["arena_bytes"])
        ops = self.json("mlp.pbtxt", "--what", "tasks")["tasks"]
        # bias_add and relu are one task.
        self.assertEqual([op["op"] for op in ops if op.get("region") == 0], ["fc1_bias", "relu1"])
        self.assertEqual(document["tasks"], len({("region", op["region"]) if "region" in op else op["op"] for op in ops}))
        text = self.opc("show", "mlp.pbtxt", "--what", "cost").stdout
        self.assertIn("operations     12,468,240 flops\n", text)
        self.assertRegex(text, r"\nfc1 +matmul +5,898,240 +47.3 % +302 KiB\n")
        self.assertEqual(document["comm_bytes"], 0)
        # More operations than an integer has room for are counted all the same.
        side = 2**22
        product = "".join(f'op {{ name: "{n}" input_conf {{ out: "out" blob_conf {{ shape {{ dim: {side} dim: {side} }} data_type: kFloat }} }} }}\n' for n in "ab")
        product += ('op { name: "p" user_conf { op_type_name: "matmul" input { key: "a" value { s: "a/out" } } input { key: "b" value { s: "b/out" } } } }\n'
                    'op { name: "y" output_conf { in: "p/out_0" } }\n')
        self.file("large.pbtxt", product)
        large = self.json("large.pbtxt", "--what", "cost")
        self.assertEqual((large["flops"], large["ops"][0]["flops"], large["bytes"]), (2 * side**3, 2 * side**3, 3 * 4 * side**2))
        self.assertIn("operations     1.476e20 flops\n", self.opc("show", "large.pbtxt", "--what", "cost").stdout)
        mesh = self.json("mlp.pbtxt", "--what", "cost", "--mesh", "2", "--sbp", "fc1_w=S(0)", "--sbp", "logits=B")
        self.assertGreater(mesh["comm_bytes"], 0)

    def test_tasks(self):
        tasks = self.json("mlp.pbtxt", "--what", "tasks")["tasks"]
        self.assertEqual(tasks[0], {"op": "fc1", "kernel": "cpu/matmul/f32", "stream": 0})
        self.assertIn("0     0       fc1       cpu/matmul/f32\n", self.opc("show", "mlp.pbtxt", "--what", "tasks").stdout)

    def test_a_part(self):
        self.assertEqual([op["name"] for op in self.json("mlp.pbtxt", "--op", "fc2")["ops"]], ["fc2"])
        part = self.json("mlp.pbtxt", "--around", "fc2", "--depth", "1")
        self.assertEqual([op["name"] for op in part["ops"]], ["relu1", "fc2", "fc2_bias"])
        self.assertEqual([v["name"] for v in part["variables"]], ["fc2_w"])
        self.assertEqual((part["inputs"], part["outputs"]), ([], []))
        self.assertEqual([op["name"] for op in self.json("mlp.pbtxt", "--around", "fc2_w", "--depth", "1")["ops"]], ["fc2"])
        self.assertEqual([op["name"] for op in self.json("mlp.pbtxt", "--around", "fc2", "--depth", "0")["ops"]], ["fc2"])
        self.assertEqual(len(self.json("mlp.pbtxt", "--around", "fc2")["ops"]), 5)
        self.assertEqual(len(self.json("mlp.pbtxt", "--around", "fc2", "--depth", "99")["ops"]), 8)
        names = {t["name"] for t in self.json("mlp.pbtxt", "--around", "fc2", "--depth", "1", "--what", "tensors")["tensors"]}
        self.assertEqual(names, {"relu1/y_0", "fc2/out_0", "fc2_bias/out_0", "fc2_w/out"})
        self.assertIn("did you mean fc2", self.opc("show", "mlp.pbtxt", "--op", "fc22", code=2).stderr)

    def test_a_part_that_is_no_op(self):
        self.file("mlp.pbtxt", read("mlp.pbtxt"))
        self.assertRegex(self.opc("show", "mlp.pbtxt", "--op", "image").stdout, r"image +f32\[360,64\]")
        self.assertRegex(self.opc("show", "mlp.pbtxt", "--op", "fc1_w").stdout, r"fc1_w +f32\[128,64\]")
        self.assertNotIn("fc2", self.opc("show", "mlp.pbtxt", "--op", "fc1_w").stdout)

    def boxes(self, text):
        """The title of each box with its place."""
        root = xml.fromstring(text)
        return {g.find(SVG + "title").text: g.find(SVG + "rect").attrib for g in root.iter(SVG + "g")}, root

    def test_svg(self):
        text = self.opc("show", "mlp.pbtxt", "--as", "svg").stdout
        self.assertEqual(text, self.opc("show", "mlp.pbtxt", "--as", "svg", "-j", "2").stdout)
        self.opc("show", "mlp.pbtxt", "--as", "svg", "-o", "m.svg")
        with open(os.path.join(self.folder, "m.svg"), encoding="utf-8") as f:
            self.assertEqual(f.read(), text)
        boxes, root = self.boxes(text)
        # Eight ops, an input, an output; variables stand in the titles of what reads them.
        self.assertEqual(len(boxes), 10)
        fc1 = next(t for t in boxes if t.startswith("fc1: "))
        line = MLP[:MLP.index('name: "fc1"')].count("\n")
        self.assertEqual(fc1, f"fc1: matmul f32[360,128], fc1_w f32[128,64] (mlp.pbtxt:{line})")
        rows = [float(boxes[next(t for t in boxes if t.startswith(n + ":"))]["y"]) for n in ("image", "fc1", "fc1_bias", "relu1", "logits")]
        self.assertEqual(rows, sorted(set(rows)))
        self.assertEqual(len(list(root.iter(SVG + "path"))), 9)  # a chain of ten
        self.assertEqual(len(self.boxes(self.opc("show", "mlp.pbtxt", "--as", "svg", "--around", "fc2", "--depth", "1").stdout)[0]), 3)

    def test_svg_of_a_training_step(self):
        self.file("loss.pbtxt", MLP + read("mlp_loss.pbtxt"))
        self.opc("grad", "loss.pbtxt", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", "step.pbtxt")
        boxes, _ = self.boxes(self.opc("show", "step.pbtxt", "--as", "svg").stdout)
        forward = max(float(r["x"]) for r in boxes.values() if r.get("class", "") in ("", "i"))
        backward = [float(r["x"]) for r in boxes.values() if r.get("class") == "b"]
        self.assertTrue(backward)
        self.assertGreater(min(backward), forward)
        # A backward op stands beside the op whose gradient it computes.
        with open(os.path.join(self.folder, "step.pbtxt"), encoding="utf-8") as f:
            links = re.findall(r'name: "([^"]+)"\n  pass_tag: "gradient_of:([^"]+)"', f.read())
        rows = {title.split(":")[0]: float(r["y"]) for title, r in boxes.items()}
        self.assertGreater(len(links), 8)
        for op, of in links:
            self.assertEqual(rows[op], rows[of], (op, of))

    def test_svg_on_a_mesh(self):
        text = self.opc("show", "mlp.pbtxt", "--as", "svg", "--mesh", "2", "--sbp", "fc1_w=S(0)", "--sbp", "logits=B").stdout
        sent = self.json("mlp.pbtxt", "--what", "boxing", "--mesh", "2", "--sbp", "fc1_w=S(0)", "--sbp", "logits=B")["sbp"]["transitions"]
        self.assertTrue(sent)
        self.assertIn('class="x"', text)
        self.assertIn(sent[0]["kind"], text)
        self.assertRegex(text, r'<rect class="(s0|s1|B|P)"')
        self.assertNotIn('class="x"', self.opc("show", "mlp.pbtxt", "--as", "svg").stdout)

    def test_picture_of_the_page(self):
        """docs/images/step.svg is what opc draws: the training step of the digits on a mesh of 2x4."""
        self.file("step.pbtxt", MLP + read("mlp_loss.pbtxt"))
        self.opc("grad", "step.pbtxt", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", "train.pbtxt")
        drawn = self.opc("show", "train.pbtxt", "--mesh", "2x4", "--as", "svg").stdout
        with open(os.path.join(SOURCE, "docs", "images", "step.svg"), encoding="utf-8") as f:
            self.assertEqual(drawn, f.read(), "opc show train.pbtxt --mesh 2x4 --as svg -o docs/images/step.svg")
        # Each transition is named once, and never on a box: a label stands between rows.
        root = xml.fromstring(drawn)
        labels = [float(t.get("y")) for t in root.iter(SVG + "text") if t.get("class") == "xt"]
        rows = {float(r.get("y")) for r in root.iter(SVG + "rect")}
        self.assertTrue(labels)
        for y in labels:
            self.assertFalse([row for row in rows if row < y - 3 < row + 38], y)
        colours = {r.get("class") for r in root.iter(SVG + "rect")}
        self.assertLessEqual({"s0", "s1", "P", "b s0", "b B"}, colours)

    def test_svg_of_memory(self):
        text = self.opc("show", "mlp.pbtxt", "--what", "memory", "--as", "svg").stdout
        slots = self.json("mlp.pbtxt", "--what", "memory")["memory"]["slots"]
        titles = [t.text for t in xml.fromstring(text).iter(SVG + "title")]
        for slot in slots:
            self.assertTrue(any(t.startswith(slot["name"] + ": " + slot["kind"]) and f" at {slot['offset']}" in t for t in titles), slot)
        self.opc("compile", "mlp.pbtxt", "-o", "m.plan")
        self.assertIn("<rect", self.opc("show", "m.plan", "--what", "memory", "--as", "svg").stdout)
        self.assertIn("<rect", self.opc("show", "m.plan", "--as", "svg").stdout)

    def test_dot(self):
        text = self.opc("show", "mlp.pbtxt", "--as", "dot").stdout
        self.assertTrue(text.startswith('digraph "mlp.pbtxt" {\n'))
        labels = re.findall(r'^  "(\w+)" \[label="(\w+)\\n', text, re.M)
        self.assertEqual(len(labels), 16)  # with the variables
        self.assertEqual([a for a, b in labels if a != b], [])
        edges = set(re.findall(r'^  "(\w+)" -> "(\w+)";$', text, re.M))
        self.assertEqual(len(edges), 15)
        self.assertLessEqual({("image", "fc1"), ("fc1_w", "fc1"), ("fc1", "fc1_bias"), ("fc3_bias", "logits")}, edges)

    def test_model_explorer(self):
        self.file("nested.pbtxt", MLP.replace("fc1_bias", "block/0/bias"))
        collection = json.loads(self.opc("show", "nested.pbtxt", "--as", "model-explorer").stdout)
        self.assertEqual(collection["label"], "nested.pbtxt")
        nodes = {n["id"]: n for n in collection["graphs"][0]["nodes"]}
        self.assertEqual(len(nodes), 16)
        names = {next(a["value"] for a in n["attrs"] if a["key"] == "name"): n for n in nodes.values()}
        self.assertEqual((names["block/0/bias"]["namespace"], names["block/0/bias"]["label"]), ("block/0", "bias_add"))
        edges = [(nodes[e["sourceNodeId"]]["label"], e["sourceNodeOutputId"], e["targetNodeInputId"]) for e in names["fc2"]["incomingEdges"]]
        self.assertEqual(edges, [("relu", "0", "a_0"), ("fc2_w", "0", "b_0")])
        self.assertIn({"key": "transpose_b", "value": "true"}, names["fc2"]["attrs"])
        self.assertEqual(names["fc2"]["outputsMetadata"][0]["attrs"][0], {"key": "tensor_shape", "value": "f32[360,64]"})

    def test_costs_for_model_explorer(self):
        self.opc("show", "mlp.pbtxt", "--as", "model-explorer", "-o", "graph.json")
        self.opc("show", "mlp.pbtxt", "--what", "cost", "--as", "model-explorer", "-o", "cost.json")
        with open(os.path.join(self.folder, "graph.json"), encoding="utf-8") as f:
            graph = json.load(f)["graphs"][0]
        ids = {n["id"]: next(a["value"] for a in n["attrs"] if a["key"] == "name") for n in graph["nodes"]}
        for file, key in (("cost.json", "flops"), ("cost.bytes.json", "bytes")):
            with open(os.path.join(self.folder, file), encoding="utf-8") as f:
                (name, data), = json.load(f).items()
            self.assertEqual(name, graph["id"])
            self.assertEqual([g["stop"] for g in data["gradient"]], [0, 1])
            found = {ids[i]: r["value"] for i, r in data["results"].items()}
            self.assertEqual(found, {op["name"]: op[key] for op in self.json("mlp.pbtxt", "--what", "cost")["ops"]})
        self.assertIn("two files", self.opc("show", "mlp.pbtxt", "--what", "cost", "--as", "model-explorer", code=2).stderr)

    def test_html(self):
        text = self.opc("show", "mlp.pbtxt", "--as", "html").stdout
        self.assertEqual(text, self.opc("report", "mlp.pbtxt", "-o", "-").stdout)
        self.file("open.pbtxt", MLP.replace("dim: 360", "dim: -1"))
        self.assertIn('"f32[?,64]"', self.opc("show", "open.pbtxt", "--as", "html").stdout)
        self.opc("show", "mlp.pbtxt", "--as", "html", "--what", "memory", code=2)

    def test_names_stay_names(self):
        text = MLP
        for name, hostile in zip(("fc1_bias", "relu1", "fc2", "fc2_bias", "relu2"), HOSTILE):
            text = re.sub(rf'"{name}(["/])', lambda m, h=hostile: '"' + h.replace("\\x1b", "\\033").replace('"', '\\"') + m.group(1), text)
        self.file("evil.pbtxt", text)
        boxes, root = self.boxes(self.opc("show", "evil.pbtxt", "--as", "svg").stdout)
        self.assertEqual({e.tag for e in root.iter()} - {SVG + t for t in ("svg", "title", "style", "text", "rect", "path", "g")}, set())
        for hostile in HOSTILE[:4]:
            self.assertTrue(any(title.startswith(hostile + ": ") for title in boxes), hostile)
        dot = self.opc("show", "evil.pbtxt", "--as", "dot").stdout
        self.assertNotIn("\x1b", dot)
        for line in dot.splitlines()[2:-1]:  # each line is one statement, whatever stands in its label
            self.assertRegex(line, r'^  "([^"\\]|\\.)*" (\[label="([^"\\]|\\.)*"(, (shape=ellipse|style=rounded))?\]|-> "([^"\\]|\\.)*");$')

    def test_large(self):
        self.file("big.pbtxt", big_graphs.graph(3000))
        text = self.opc("show", "big.pbtxt", "--as", "svg").stdout
        self.assertLess(len(text), 3 << 20)
        self.assertEqual(len(self.boxes(text)[0]), len({f"n{i}" for i in range(3000)}) + 2)

    def test_costs_and_tasks_of_a_plan(self):
        self.opc("compile", "mlp.pbtxt", "--no-fuse", "-o", "m.plan")
        of = lambda name, what: json.loads(self.opc("show", name, "--what", what, "--json").stdout)
        graph, plan = of("mlp.pbtxt", "cost"), of("m.plan", "cost")
        # The network's products: twice rows, columns and depth.
        self.assertEqual({o["name"]: o["flops"] for o in plan["ops"]}["fc1"], 2 * 360 * 64 * 128)
        self.assertEqual(plan["flops"], graph["flops"])
        kernels = {t["op"]: t["kernel"] for t in of("m.plan", "tasks")["tasks"]}
        self.assertEqual(kernels["fc1"], "cpu/matmul/f32")
        self.assertIn("cpu/matmul/f32", self.opc("show", "m.plan", "--what", "tasks").stdout)
        # Of a plan for several ranks: the first rank's pieces.
        self.opc("compile", "mlp.pbtxt", "--mesh", "2", "--sbp", "image=S(0)", "-o", "m2.plan")
        self.assertEqual({o["name"]: o["flops"] for o in of("m2.plan", "cost")["ops"]}["fc1"], 180 * 64 * 128 * 2)
        with open(os.path.join(self.folder, "m.plan"), "rb") as f:
            damaged = f.read()[:-40]
        with open(os.path.join(self.folder, "bad.plan"), "wb") as f:
            f.write(damaged)
        self.opc("show", "bad.plan", "--what", "cost", code=3)

    def test_refused(self):
        self.opc("compile", "mlp.pbtxt", "-o", "m.plan")
        for args, why in ((("m.plan", "--what", "phases"), "does not know the phases"), (("m.plan", "--what", "fusion"), "does not say why its ops are alone"),
                          (("mlp.pbtxt", "--what", "fusion", "--op", "fc1"), "is for ops and tensors"), (("mlp.pbtxt", "--what", "fusion", "--as", "svg"), "no drawing of fusion"),
                          (("m.plan", "--what", "sbp", "--mesh", "2"), "has its states already"),
                          (("mlp.pbtxt", "--what", "cost", "--as", "svg"), "there is no drawing of cost"), (("mlp.pbtxt", "--what", "memory", "--as", "dot"), "--as dot is the graph"),
                          (("mlp.pbtxt", "--op", "fc1", "--around", "fc2"), "exclude each other"), (("mlp.pbtxt", "--depth", "3"), "how far --around goes"),
                          (("mlp.pbtxt", "--around", "fc1", "--depth", "-1"), "--depth"), (("mlp.pbtxt", "--around", "fc1", "--what", "memory"), "is for ops and tensors"),
                          (("mlp.pbtxt", "--as", "svg", "--json"), "exclude each other"), (("mlp.pbtxt", "--as", "png"), "--as")):
            self.assertIn(why, self.opc("show", *args, code=2).stderr)
        self.opc("show", "mlp.pbtxt", "--as", "svg", "-o", "nowhere/m.svg", code=2)


if __name__ == "__main__":
    unittest.main()
