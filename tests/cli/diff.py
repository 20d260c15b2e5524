# opc diff: what it finds between two graphs, what it says of it, and how it ends.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import random
import re
import resource
import subprocess
import unittest

import big_graphs
from folder_test import FolderTest

BUILD, SOURCE = os.environ["OPC_BUILD_DIR"], os.environ["OPC_SOURCE_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")
with open(os.path.join(SOURCE, "docs", "examples", "digits", "mlp.pbtxt"), encoding="utf-8") as f:
    MLP = f.read()


def processor_seconds(call):
    """Of the programs that `call` runs, and what it returns: what else a machine has to do does not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = call()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, result


class Diff(FolderTest):
    def setUp(self):
        super().setUp()
        self.file("a.pbtxt", MLP)

    def file(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(text)
        return name

    def assert_pairing_is_cheap(self, seconds, graph):
        """Pairing ops that look alike costs no more than twice what comparing a graph with itself takes, where the names say all. The
        limit is a ratio, as no two machines are equally fast."""
        itself, _ = processor_seconds(lambda: self.opc("diff", graph, graph))
        self.assertLess(seconds, 3 * itself + 0.2)

    def findings(self, a, b, *args):
        """(rule, op or tensor, line) of each finding."""
        done = subprocess.run([OPC, "diff", a, b, "--json", *args], capture_output=True, text=True, timeout=300, cwd=self.folder)
        document = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if document["same"] else 1)
        return [(f["rule"], f["tensor"] or f["op"], f["source"] and f["source"]["line"]) for f in document["findings"]]

    def test_same(self):
        self.assertEqual(self.opc("diff", "a.pbtxt", "a.pbtxt").stdout, "no difference\n")
        self.assertEqual(self.opc("diff", "-", "a.pbtxt", input=MLP).stdout, "no difference\n")
        self.assertEqual(self.opc("diff", "a.pbtxt", "-", "-q", input=MLP).stdout, "")
        # Comments and blanks are no part of a graph.
        self.file("b.pbtxt", "# more\n\n" + MLP.replace("  ", "\t"))
        self.opc("diff", "a.pbtxt", "b.pbtxt")

    def test_line_of_a_change(self):
        lines = MLP.split("\n")
        at = next(i for i, line in enumerate(lines) if 'name: "fc2_bias"' in line)
        axis = next(i for i in range(at, len(lines)) if "at_int32: 1" in lines[i])
        changed = self.file("b.pbtxt", "\n".join(lines[:axis] + [lines[axis].replace("1 }", "-1 }")] + lines[axis + 1:]))
        self.assertEqual(self.findings("a.pbtxt", changed), [("OP_ATTR_CHANGED", "fc2_bias", at)])  # of its "op {"
        text = self.opc("diff", "a.pbtxt", changed, code=1).stdout
        self.assertIn(f"attr axis: 1 -> -1  b.pbtxt:{at}:1\n", text)
        self.assertTrue(text.endswith("1 structural change\n"), text)

    def test_line_of_what_is_gone(self):
        start = MLP.index('op { name: "logits"')
        self.file("b.pbtxt", MLP[:start] + MLP[start:].replace('"logits"', '"answer"'))
        self.assertEqual(self.findings("a.pbtxt", "b.pbtxt", "--ignore", "names"), [])
        rule, name, _ = self.findings("a.pbtxt", "b.pbtxt")[0]
        self.assertEqual((rule, name), ("OUTPUT_REMOVED", "answer"))
        extra = 'op { name: "more" output_conf { in: "fc1/out_0" } }\n'
        self.file("c.pbtxt", MLP.rstrip("\n") + "\n" + extra)
        line = MLP.rstrip("\n").count("\n") + 2
        self.assertEqual(self.findings("a.pbtxt", "c.pbtxt", "--ignore", "cost"), [("OP_ADDED", "more", line)])
        self.assertEqual(self.findings("c.pbtxt", "a.pbtxt", "--ignore", "cost"), [("OUTPUT_REMOVED", "more", line)])
        self.assertIn(f"c.pbtxt:{line}:1", self.opc("diff", "c.pbtxt", "a.pbtxt", code=1).stdout)

    def test_a_new_name_and_a_new_type_at_once(self):
        """An op that reads what the old one did, for the same readers, is that op."""
        block = MLP[MLP.index('op {\n  name: "relu1"'):]
        block = block[:block.index("\n}\n") + 3]
        changed = MLP.replace(block, block.replace("relu1", "gate").replace('"relu"', '"tanh"')).replace('"relu1/y_0"', '"gate/y_0"')
        self.file("b.pbtxt", changed)
        rules = sorted((rule, op) for rule, op, _ in self.findings("a.pbtxt", "b.pbtxt", "--ignore", "cost"))
        self.assertEqual(rules, [("OP_RENAMED", "gate"), ("OP_TYPE_CHANGED", "gate")])
        # Of types that call their slots and outputs otherwise, too.
        gelu = changed.replace('"tanh"', '"gelu"').replace('"gate/y_0"', '"gate/out_0"')
        at = gelu.index('"gate"')
        self.file("c.pbtxt", gelu[:at] + gelu[at:].replace('key: "x"', 'key: "in"', 1).replace('key: "y"', 'key: "out"', 1))
        found = [(rule, op) for rule, op, _ in self.findings("a.pbtxt", "c.pbtxt", "--ignore", "cost")]
        self.assertLessEqual({("OP_RENAMED", "gate"), ("OP_TYPE_CHANGED", "gate")}, set(found))
        self.assertFalse({rule for rule, _ in found} & {"OP_ADDED", "OP_REMOVED"}, found)
        # Two that could stand there are no one op.
        twin = 'op { name: "%s" user_conf { op_type_name: "%s" input { key: "x" value { s: "fc1_bias/out_0" } } } }\n'
        out = 'op { name: "o%d" output_conf { in: "%s/y_0" } }\n'
        self.file("d.pbtxt", MLP + "".join(twin % (n, "relu") for n in ("p", "q")) + out % (1, "p") + out % (2, "q"))
        self.file("e.pbtxt", MLP + "".join(twin % (n, "tanh") for n in ("r", "s")) + out % (1, "r") + out % (2, "s"))
        found = [(rule, op) for rule, op, _ in self.findings("d.pbtxt", "e.pbtxt", "--ignore", "cost")]
        self.assertEqual({("OP_RENAMED", "r"), ("OP_RENAMED", "s")} - set(found), set())  # their outputs tell them apart

    def test_for_model_explorer(self):
        self.file("b.pbtxt", MLP.replace("relu1", "act1"))
        self.opc("diff", "a.pbtxt", "b.pbtxt", "--as", "model-explorer", "-o", "d.json", code=1)
        with open(os.path.join(self.folder, "d.json"), encoding="utf-8") as f:
            graphs = json.load(f)["graphs"]
        with open(os.path.join(self.folder, "d.sync.json"), encoding="utf-8") as f:
            sync = json.load(f)
        self.assertEqual([g["id"] for g in graphs], ["a.pbtxt", "b.pbtxt"])
        self.assertEqual((sync["type"], sync["showDiffHighlights"]), ("sync_navigation", True))
        names = [{n["id"]: next(a["value"] for a in n["attrs"] if a["key"] == "name") for n in g["nodes"]} for g in graphs]
        pairs = {names[0][a]: names[1][b] for a, b in sync["mapping"].items()}
        self.assertEqual(pairs.pop("relu1"), "act1")
        self.assertEqual(set(pairs), set(pairs.values()))
        self.assertEqual(len(pairs), len(names[0]) - 1)
        self.opc("diff", "a.pbtxt", "a.pbtxt", "--as", "model-explorer", "-o", "same.json")
        with open(os.path.join(self.folder, "same.json"), encoding="utf-8") as f:
            self.assertEqual(len({g["id"] for g in json.load(f)["graphs"]}), 2)
        self.assertIn("two files", self.opc("diff", "a.pbtxt", "b.pbtxt", "--as", "model-explorer", code=2).stderr)
        self.opc("diff", "a.pbtxt", "b.pbtxt", "--as", "model-explorer", "-o", "nowhere/d.json", code=2)
        self.opc("diff", "a.pbtxt", "b.pbtxt", "--as", "model-explorer", "-o", "x.json", "--json", code=2)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "x.json")))

    def test_highlights_of_model_explorer(self):
        """The viewer marks a node, or a layer of nodes, when nothing that it is mapped to is on the other side; what is not mapped is
        looked for by its id (the comments of its SyncNavigationData)."""
        layered = MLP.replace("relu1", "block/act").replace("fc2_bias", "block/bias")
        self.file("a.pbtxt", layered)
        self.file("b.pbtxt", layered.replace("block/act", "block/other") + 'op { name: "more/x" user_conf { op_type_name: "tanh" '
                  'input { key: "x" value { s: "fc1_bias/out_0" } } } }\nop { name: "o" output_conf { in: "more/x/y_0" } }\n')
        self.opc("diff", "a.pbtxt", "b.pbtxt", "--as", "model-explorer", "-o", "d.json", code=1)
        with open(os.path.join(self.folder, "d.json"), encoding="utf-8") as f:
            graphs = json.load(f)["graphs"]
        with open(os.path.join(self.folder, "d.sync.json"), encoding="utf-8") as f:
            sync = json.load(f)
        layers = [{n["namespace"] + "___group___" for n in g["nodes"] if n["namespace"]} for g in graphs]
        sides = [{n["id"] for n in g["nodes"]} | groups for g, groups in zip(graphs, layers)]
        names = {n["id"]: next(a["value"] for a in n["attrs"] if a["key"] == "name") for g in graphs for n in g["nodes"]}
        self.assertEqual(len(names), sum(len(g["nodes"]) for g in graphs))
        ways = sync["mapping"], {b: a for a, b in sync["mapping"].items()}
        marked = []
        for side, way in enumerate(ways):
            for node in sorted(sides[side]):
                mapped = way.get(node, None if sync.get("disableMappingFallback") else node)
                if mapped not in sides[1 - side]:
                    marked.append((side, names.get(node, node)))
        self.assertEqual(sorted(marked), [(1, "more/x"), (1, "more___group___"), (1, "o")])

    def test_five_thousand_ops(self):
        self.file("a5.pbtxt", big_graphs.graph(5000))
        self.file("b5.pbtxt", big_graphs.graph(5000, prefix="other/", shuffle=3))
        seconds, done = processor_seconds(lambda: self.opc("diff", "a5.pbtxt", "b5.pbtxt", "--stat", code=1))
        self.assert_pairing_is_cheap(seconds, "a5.pbtxt")
        text = done.stdout
        self.assertRegex(text.splitlines()[-1], r"^renamed/reordered only: 5,003 of 5,003 renamed, 4,\d\d\d of 5,003 reordered$")
        self.assertEqual(self.opc("diff", "a5.pbtxt", "b5.pbtxt", "--ignore", "names").stdout.split(";")[0], "no difference")
        # One op that is another one, too.
        self.file("c5.pbtxt", big_graphs.graph(5000, prefix="other/", shuffle=3, change=2500))
        found = self.findings("a5.pbtxt", "c5.pbtxt", "--ignore", "names,cost")
        self.assertTrue(found)
        self.assertTrue(all("n2500" in name or rule == "EDGE_CHANGED" for rule, name, _ in found), found)

    def test_order_of_the_interface(self):
        """Equal towers stand in the order of the file, and with them their inputs and outputs: that is an order, and nothing else."""
        lines = []
        for i in range(4):
            lines += [f'op {{ name: "x{i}" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 4 }} data_type: kFloat }} }} }}',
                      f'op {{ name: "r{i}" user_conf {{ op_type_name: "relu" input {{ key: "x" value {{ s: "x{i}/out" }} }} }} }}',
                      f'op {{ name: "y{i}" output_conf {{ in: "r{i}/y_0" }} }}']
        self.file("towers.pbtxt", "\n".join(lines))
        self.file("turned.pbtxt", "\n".join(reversed(lines)))
        rules = {rule for rule, _, _ in self.findings("towers.pbtxt", "turned.pbtxt")}
        self.assertLessEqual(rules, {"IO_ORDER_CHANGED"})
        text = self.opc("diff", "towers.pbtxt", "turned.pbtxt", code=1 if rules else 0).stdout
        self.assertRegex(text.splitlines()[-1], r"^(no difference|renamed/reordered only: 0 of 12 renamed, \d+ of 12 reordered)")
        self.opc("diff", "towers.pbtxt", "turned.pbtxt", "--ignore", "names")

    def test_lists_are_short_unless_full(self):
        self.file("a1.pbtxt", big_graphs.graph(100))
        self.file("b1.pbtxt", big_graphs.graph(100, prefix="p."))
        short = self.opc("diff", "a1.pbtxt", "b1.pbtxt", code=1).stdout
        self.assertEqual(short.count("renamed from n"), 20)
        self.assertIn("... and 80 more", short)
        full = self.opc("diff", "a1.pbtxt", "b1.pbtxt", "--full", code=1).stdout
        self.assertEqual(full.count("renamed from n"), 100)

    def test_binary_graphs(self):
        self.opc("compile", "a.pbtxt", "--emit", "pb", "--to", "import", "-o", "a.pb")
        self.opc("diff", "a.pbtxt", "a.pb")
        self.file("b.pbtxt", MLP.replace("relu1", "act1"))
        self.assertEqual([f[:2] for f in self.findings("a.pb", "b.pbtxt")], [("OP_RENAMED", "act1")])

    def test_nothing_but_equal_ops(self):
        """Thousands of ops that are told apart by position alone, and a chain that has lost its middle."""
        def fan(prefix):
            lines = ['op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 } data_type: kFloat } } }']
            for i in range(4000):
                lines.append(f'op {{ name: "{prefix}{i}" user_conf {{ op_type_name: "relu" input {{ key: "x" value {{ s: "x/out" }} }} }} }}')
            for i in range(0, 4000, 2):
                lines.append(f'op {{ name: "{prefix}s{i}" user_conf {{ op_type_name: "broadcast_add" input {{ key: "x" value {{ s: "{prefix}{i}/y_0" }} }} '
                             f'input {{ key: "y" value {{ s: "{prefix}{i + 1}/y_0" }} }} }} }}')
            return "\n".join(lines)

        self.file("fan_a.pbtxt", fan("a"))
        self.file("fan_b.pbtxt", fan("b"))
        seconds, found = processor_seconds(lambda: self.findings("fan_a.pbtxt", "fan_b.pbtxt"))
        self.assertEqual({rule for rule, _, _ in found}, {"OP_RENAMED"})
        self.assert_pairing_is_cheap(seconds, "fan_a.pbtxt")

    def test_plans(self):
        self.file("b.pbtxt", MLP.replace("dim: 360 dim: 64", "dim: 90 dim: 64"))
        self.opc("compile", "a.pbtxt", "-o", "a.plan")
        self.opc("compile", "b.pbtxt", "-o", "b.plan")
        self.opc("diff", "a.plan", "a.pbtxt")
        rules = {rule for rule, _, _ in self.findings("a.plan", "b.plan")}
        self.assertEqual(rules, {"INPUT_TYPE_CHANGED", "OUTPUT_TYPE_CHANGED", "TENSOR_TYPE_CHANGED", "PEAK_MEMORY_GREW", "FLOPS_GREW"})
        self.opc("diff", "a.plan", "b.pbtxt", "--mesh", "2", code=2)

    def test_locks(self):
        self.file("b.pbtxt", MLP.replace("relu1", "act1"))
        self.opc("check", "a.pbtxt", "--update", "--update-in-ci")
        self.opc("diff", "a.opc.lock", "a.pbtxt")
        self.opc("diff", "a.pbtxt", "a.opc.lock")
        self.opc("diff", "a.opc.lock", "a.opc.lock")
        line = MLP[:MLP.index('name: "relu1"')].count("\n")
        self.assertEqual(self.findings("a.opc.lock", "b.pbtxt"), [("OP_RENAMED", "act1", line)])
        # The mesh is that of the lock.
        self.opc("check", "a.pbtxt", "--update", "--update-in-ci", "--mesh", "2")
        self.opc("diff", "a.opc.lock", "a.pbtxt")
        self.assertIn(("PLACEMENT_CHANGED", "fc1"), [f[:2] for f in self.findings("a.opc.lock", "a.pbtxt", "--mesh", "4")])
        with open(os.path.join(self.folder, "a.opc.lock"), encoding="utf-8") as f:
            lock = f.read()
        self.file("cut.opc.lock", lock[:400])
        self.assertIn("OPC0120", self.opc("diff", "cut.opc.lock", "a.pbtxt", code=3).stderr)
        self.file("newer.opc.lock", lock.replace('"opc_lock":1', '"opc_lock":9'))
        self.opc("diff", "newer.opc.lock", "a.pbtxt", code=4)
        self.file("mesh.opc.lock", lock.replace('"mesh":"2"', '"mesh":"two"'))
        self.opc("diff", "mesh.opc.lock", "a.pbtxt", code=3)
        self.opc("compile", "a.pbtxt", "-o", "a.plan")
        self.assertIn("a lock file has the ops as they are written", self.opc("diff", "a.opc.lock", "a.plan", code=2).stderr)

    def test_locks_that_no_compiler_wrote(self):
        """Cycles, ops that read themselves, names that occur twice, tensors that nobody makes: compared, or refused."""
        self.opc("check", "a.pbtxt", "--update", "--update-in-ci")
        with open(os.path.join(self.folder, "a.opc.lock"), encoding="utf-8") as f:
            lock = json.load(f)
        names = sorted(set(re.findall(r'"(\w+(?:/\w+)?)"', json.dumps([lock["interface"], lock["ops"]]))))
        chance = random.Random(5)
        codes = set()
        for trial in range(60):
            document = json.loads(json.dumps(lock))
            for _ in range(chance.randint(1, 6)):
                section = document[chance.choice(["interface", "ops", "tensors"])]
                record = chance.choice(section)
                kind = chance.randrange(5)
                if kind == 0:
                    section.append(dict(record))
                elif kind == 1:
                    section.remove(record)
                elif kind == 2:
                    chance.shuffle(section)
                else:
                    key = chance.choice(list(record))
                    if isinstance(record[key], str):
                        record[key] = chance.choice(names)
                    elif isinstance(record[key], dict) and record[key] and kind == 3:
                        record[key][chance.choice(list(record[key]))] = chance.choice(names)
                if not section:
                    section.append(dict(record))
            self.file("odd.opc.lock", '{"opc_lock"' + json.dumps(document).split('{"opc_lock"', 1)[1])
            shown = chance.choice(["text", "json", "svg", "html"])
            for pair in (("odd.opc.lock", "a.pbtxt"), ("a.pbtxt", "odd.opc.lock")):
                done = subprocess.run([OPC, "diff", *pair, "--as", shown], capture_output=True, text=True, timeout=60, cwd=self.folder)
                self.assertIn(done.returncode, (0, 1, 3), (trial, pair, shown, done.stderr))
                codes.add(done.returncode)
        self.assertIn(1, codes)

    def test_meshes(self):
        self.file("b.pbtxt", MLP.replace("dim: 128 dim: 64", "dim: 4096 dim: 64").replace("dim: 128 }", "dim: 4096 }").replace("dim: 64 dim: 128", "dim: 64 dim: 4096"))
        kinds = {rule for rule, _, _ in self.findings("a.pbtxt", "b.pbtxt", "--mesh", "4")}
        self.assertIn("PEAK_MEMORY_GREW", kinds)
        ignored = {rule for rule, _, _ in self.findings("a.pbtxt", "b.pbtxt", "--mesh", "4", "--ignore", "sbp,cost")}
        self.assertFalse({r for r in ignored if "GREW" in r or "SBP" in r or "BOXING" in r or "KERNEL" in r})

    def test_training_steps(self):
        with open(os.path.join(SOURCE, "docs", "examples", "digits", "mlp_loss.pbtxt"), encoding="utf-8") as f:
            self.file("loss.pbtxt", MLP + f.read())
        rates = ("0.1", "0.2", "0.3", "0.05", "0.7")
        for rate in rates:
            self.opc("grad", "loss.pbtxt", "--loss", "loss", "--optimizer", "sgd", "--lr", rate, "-o", f"{rate}.pbtxt")
        self.opc("diff", "0.1.pbtxt", "0.1.pbtxt")
        for rate in rates[1:]:  # a number changes neither the order of ops nor what is fused
            rules = {rule for rule, _, _ in self.findings("0.1.pbtxt", f"{rate}.pbtxt")}
            self.assertTrue(rules and rules <= {"GRAD_CHANGED", "OP_ATTR_CHANGED"}, rules)
        with open(os.path.join(self.folder, "0.1.pbtxt"), encoding="utf-8") as f:
            text = f.read()
        other = re.sub(r"(learning_rate_val.*?at_float: )0.1", lambda m: m.group(1) + "0.25", text, count=1, flags=re.S)
        self.assertNotEqual(text, other)
        self.file("one.pbtxt", other)
        self.assertEqual({rule for rule, _, _ in self.findings("0.1.pbtxt", "one.pbtxt")}, {"GRAD_CHANGED"})

    def test_open_sizes(self):
        self.file("open.pbtxt", MLP.replace("dim: 360", "dim: -1"))
        done = self.opc("diff", "open.pbtxt", "open.pbtxt")
        self.assertIn("plan and costs are not compared: inputs leave dimensions open", done.stderr)
        self.assertIn(("INPUT_TYPE_CHANGED", "image"), [f[:2] for f in self.findings("open.pbtxt", "a.pbtxt")])

    def test_names_that_would_move_the_cursor(self):
        self.file("b.pbtxt", MLP.replace('"relu1', '"\\033[2Jr\\nx'))
        done = self.opc("diff", "a.pbtxt", "b.pbtxt", code=1)
        self.assertNotIn("\x1b", done.stdout)
        self.assertIn("\\x1b[2Jr\\nx", done.stdout)

    def test_trouble(self):
        self.file("bad.pbtxt", MLP.replace('"relu"', '"rellu"'))
        self.file("junk.pbtxt", "\x00\x01 not a graph")
        self.assertIn("rellu", self.opc("diff", "a.pbtxt", "bad.pbtxt", code=3).stderr)
        self.opc("diff", "junk.pbtxt", "a.pbtxt", code=3)
        self.opc("diff", "a.pbtxt", "nowhere.pbtxt", code=2)
        self.opc("diff", "a.pbtxt", code=2)
        self.opc("diff", "a.pbtxt", "a.pbtxt", "a.pbtxt", code=2)
        self.assertIn("both are -", self.opc("diff", "-", "-", code=2).stderr)
        self.assertIn("a list of names, sbp, cost", self.opc("diff", "a.pbtxt", "a.pbtxt", "--ignore", "name", code=2).stderr)
        self.opc("diff", "a.pbtxt", "a.pbtxt", "--as", "png", code=2)
        self.opc("diff", "a.pbtxt", "a.pbtxt", "--stat", "--full", code=2)
        for more in (["--json"], ["--as", "svg"], ["--as", "html"]):
            self.assertIn("--stat is for text", self.opc("diff", "a.pbtxt", "a.pbtxt", "--stat", *more, code=2).stderr)

    def test_quiet_into_a_file(self):
        """-q leaves nothing but the code; a file that was asked for is data."""
        self.file("b.pbtxt", MLP.replace('"relu"', '"tanh"'))
        text = self.opc("diff", "a.pbtxt", "b.pbtxt", code=1).stdout
        done = self.opc("diff", "a.pbtxt", "b.pbtxt", "-q", "-o", "d.txt", code=1)
        self.assertEqual(done.stdout + done.stderr, "")
        with open(os.path.join(self.folder, "d.txt"), encoding="utf-8") as f:
            self.assertEqual(f.read(), text)


if __name__ == "__main__":
    unittest.main()
