# opc check: what the command line says stands in place of what the settings say; one change is one finding; links of backward ops.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_cases import DIGITS, GRAPH, OPC, Checks, relocked

# What follows from a change in numbers: values, costs and kernels move as they will.
MEASURED = {"NUMERIC_MISMATCH", "FLOPS_GREW", "PEAK_MEMORY_GREW", "TASKS_GREW", "KERNEL_CHANGED", "WARNING_ADDED"}


class Settings(Checks):
    """The flag's value, the setting's, and what is found of a graph with another name, type and cost."""

    def setUp(self):
        super().setUp()
        self.locked()
        self.write("g.pbtxt", GRAPH.replace('name: "act"', 'name: "bend"').replace("act/", "bend/").replace("value: 0.5", "value: 0.25"))
        self.everything = {"OP_RENAMED", "OP_ATTR_CHANGED", "NUMERIC_MISMATCH"}

    def settings(self, text):
        self.write("opc.toml", text)

    def test_categories(self):
        order = ["INTERFACE", "SEMANTIC", "PARALLEL", "COST", "EXACT"]
        for setting in (None, "INTERFACE", "EXACT"):
            self.settings(f'[check]\nuse = ["{setting}"]\n' if setting else "")
            for flag in [None, *order]:
                wanted = order.index(flag or setting or "COST")
                found = self.rules("g.pbtxt", *(["--use", flag] if flag else []), code=None)
                exact = {"IR_HASH_CHANGED"} if order[wanted] == "EXACT" else set()
                self.assertEqual(found, self.everything | exact if wanted else set(), (setting, flag))
        self.settings('[check]\nuse = ["INTERFACE", "SEMANTIC"]\n')
        self.assertEqual(self.rules("g.pbtxt"), self.everything)
        self.assertEqual(self.rules("g.pbtxt", "--use", "INTERFACE", code=0), set())

    def test_rules_that_are_left_out(self):
        without = lambda *rules: self.everything - set(rules)
        self.settings('[check]\nexcept = ["OP_RENAMED"]\n')
        self.assertEqual(self.rules("g.pbtxt"), without("OP_RENAMED"))
        self.assertEqual(self.rules("g.pbtxt", "--except", "OP_ATTR_CHANGED"), without("OP_ATTR_CHANGED"))
        self.assertEqual(self.rules("g.pbtxt", "--except", "OP_ATTR_CHANGED", "--except", "OP_RENAMED"), {"NUMERIC_MISMATCH"})
        self.assertEqual(self.rules("g.pbtxt", "--except", "none"), self.everything)

    def test_graphs_that_are_left_out(self):
        self.settings('[check.ignore]\n"g.*" = ["*"]\n')
        self.check("g.pbtxt")
        self.assertEqual(self.rules("g.pbtxt", "--ignore", "h*:*"), self.everything)
        self.check("./g.pbtxt", "--ignore", "g.*:*")
        self.check(self.path("g.pbtxt"), "--ignore", "./g.*:*")
        self.check("g.pbtxt", "--ignore", self.path("g.*") + ":*")
        self.assertEqual(self.rules("g.pbtxt", "--ignore", "g*:OP_RENAMED"), self.everything - {"OP_RENAMED"})
        self.assertEqual(self.rules("g.pbtxt", "--ignore", "none"), self.everything)

    def test_settings_that_fit_nothing(self):
        """A misspelt name is noted where the settings say what is checked; where one graph is named, they may be meant for others."""
        self.settings('[check]\npaths = ["*.pbtxt"]\nexcept = ["OP_RENAMED", "OP_ATTR_CHANGED", "NUMERIC_MISMATCH"]\n'
                      '[check.ignore]\n"g.*" = ["COST"]\n'.replace("COST", "FLOPS_GREW") + '"h.*" = ["FLOPS_GREW", "*"]\n'
                      '[tolerance]\nf64 = { rtol = 1 }\n"y" = { rtol = 1e-3 }\n"z?" = { rtol = 1e-3 }\n')
        notes = [line for line in self.check().stderr.splitlines() if line.startswith("note: ")]
        self.assertEqual(notes, ["note: the tolerance of 'z?' (opc.toml:10) fits no output and no tensor that a lock has",
                                 "note: no graph that is checked fits 'h.*', for which FLOPS_GREW is left out (opc.toml:6)",
                                 "note: no graph that is checked fits 'h.*', for which all rules are left out (opc.toml:6)"])
        self.assertNotIn("note: ", self.check("g.pbtxt").stderr)
        self.assertIn("note: no graph that is checked fits 'k*', for which all rules are left out\n", self.check("g.pbtxt", "--ignore", "k*:*").stderr)
        self.assertNotIn("note: the tolerance", self.check("--no-run").stderr)
        self.write("gone.opc.lock", self.read("g.opc.lock"))  # of a graph that is no longer there: its outputs are not known
        self.assertNotIn("note: the tolerance", self.check().stderr)

    def test_names_that_mean_the_same(self):
        self.write("graphs/deep/g.pbtxt", self.read("g.pbtxt"))
        self.write("graphs/deep/g.opc.lock", self.read("g.opc.lock"))
        for glob in ("deep/g.*", "./deep/./g.*", "other/../deep/g.*", "../graphs/deep/*"):
            done = subprocess.run([OPC, "check", "deep/g.pbtxt", "--ignore", glob + ":*"], cwd=self.path("graphs"), capture_output=True, text=True)
            self.assertEqual((done.returncode, "note" in done.stderr), (0, False), glob + done.stderr)
        for name in ("f32", "float32", "kFloat"):
            self.settings(f'[tolerance]\n{name} = {{ rtol = 10, atol = 10 }}\n')
            self.assertEqual(self.rules("g.pbtxt"), self.everything - {"NUMERIC_MISMATCH"}, name)
        self.settings('[check.ignore]\n"" = ["*"]\n')
        self.assertIn("a glob of graphs is empty (opc.toml:2)", self.check("g.pbtxt", code=2).stderr)

    def test_graphs_are_named_from_the_folder_of_the_settings(self):
        self.settings('[check.ignore]\n"graphs/trial/*" = ["*"]\n')
        for name in ("g.pbtxt", "g.opc.lock"):
            self.write("graphs/trial/" + name, self.read(name))
        paths = ((".", "graphs/trial/g.pbtxt"), (".", "./graphs/../graphs/trial/g.pbtxt"), (".", self.path("graphs/trial/g.pbtxt")),
                 ("graphs", "trial/g.pbtxt"), ("graphs", "trial"), ("graphs/trial", "g.pbtxt"), ("graphs/trial", "../../graphs"))
        for folder, graph in paths:
            for flags, code in (((), 0), (("--ignore", "none"), 1)):
                done = subprocess.run([OPC, "check", graph, *flags], cwd=self.path(folder), capture_output=True, text=True)
                self.assertEqual(done.returncode, code, (folder, graph, flags, done.stdout, done.stderr))
        # Globs of the command line begin where the command is given.
        for glob, code in (("trial/*:*", 0), ("graphs/trial/g*:*", 1)):
            done = subprocess.run([OPC, "check", "trial", "--ignore", glob], cwd=self.path("graphs"), capture_output=True, text=True)
            self.assertEqual(done.returncode, code, (glob, done.stdout, done.stderr))

    def test_each_kind_by_itself(self):
        """A flag is in place of its own setting, and of no other."""
        self.settings('[check]\nuse = ["SEMANTIC"]\nexcept = ["OP_RENAMED"]\n[check.ignore]\n"*" = ["NUMERIC_MISMATCH"]\n')
        self.assertEqual(self.rules("g.pbtxt"), {"OP_ATTR_CHANGED"})
        self.assertEqual(self.rules("g.pbtxt", "--except", "none"), {"OP_ATTR_CHANGED", "OP_RENAMED"})
        self.assertEqual(self.rules("g.pbtxt", "--ignore", "none"), {"OP_ATTR_CHANGED", "NUMERIC_MISMATCH"})
        self.check("g.pbtxt", "--use", "INTERFACE")

    def test_costs_are_settings_each(self):
        bigger = GRAPH.replace("dim: 4 dim: 3", "dim: 5 dim: 3")
        self.write("g.pbtxt", bigger)
        self.settings('[check.cost]\nflops = "30%"\n')
        self.assertNotIn("FLOPS_GREW", {f["rule"] for f in self.findings("g.pbtxt", code=None) if f["severity"] == "error"})
        for flag, found in ((["--grow", "peak_bytes=500%"], False), (["--grow", "flops=1%"], True)):
            rules = {f["rule"] for f in self.findings("g.pbtxt", *flag, code=None) if f["severity"] == "error"}
            self.assertEqual("FLOPS_GREW" in rules, found, flag)


class OneChange(Checks):
    def structural(self, text, old, new):
        self.write("g.pbtxt", text)
        self.check("g.pbtxt", "--update")
        self.assertIn(old, text)
        self.write("g.pbtxt", text.replace(old, new))
        return sorted((f["rule"], f["op"]) for f in self.findings("g.pbtxt", code=None) if f["rule"] not in MEASURED)

    def test_a_type_whose_arguments_have_other_names(self):
        """relu reads x and makes y, gelu reads in and makes out: what is read of it is the same tensor."""
        text = GRAPH.replace('s: "fc/out_0" } } } }', 's: "fc/out_0" } } output { key: "y" value { s: "act/y_0" } } } }').replace(
            'op { name: "y"', 'op { name: "b" user_conf { op_type_name: "tanh" input { key: "x" value { s: "act/y_0" } } } }\nop { name: "y"').replace(
                'in: "act/y_0"', 'in: "b/y_0"')
        old = 'op_type_name: "relu" input { key: "x" value { s: "fc/out_0" } } output { key: "y"'
        new = 'op_type_name: "gelu" input { key: "in" value { s: "fc/out_0" } } output { key: "out"'
        self.assertEqual(self.structural(text, old, new), [("OP_TYPE_CHANGED", "act")])
        self.assertEqual(self.structural(text.replace(old, new), new, old), [("OP_TYPE_CHANGED", "act")])
        found = self.findings("g.pbtxt", code=None)
        self.assertNotIn("KERNEL_CHANGED", {f["rule"] for f in found})  # another type has another kernel

    def test_a_type_and_an_edge(self):
        """An op that reads something else besides is two findings."""
        old = 'op_type_name: "relu" input { key: "x" value { s: "fc/out_0" } } }'
        new = ('op_type_name: "broadcast_add" input { key: "x" value { s: "fc/out_0" } } input { key: "y" value { s: "fc/out_0" } } '
               'output { key: "z" value { s: "act/y_0" } } }')
        self.assertEqual(self.structural(GRAPH, old, new), [("EDGE_CHANGED", "act"), ("OP_TYPE_CHANGED", "act")])

    def test_numbers_are_written_for_people(self):
        """No exponents, and no per cent of what has grown a millionfold."""
        self.locked()
        lock = self.read("g.opc.lock")
        flops = re.search(r'"flops":([\d.]+)', lock).group(1)
        now = int(float(flops))
        for was, shown in ((now / 11, " (+1000 %)"), (now * 1.5, " (-33.3 %)"), (now * 1.0000001, " (-<0.01 %)"), (now / 1e9, "")):
            self.write("g.opc.lock", relocked(lock.replace(f'"flops":{flops}', f'"flops":{was!r}')))
            found = [f for f in self.findings("g.pbtxt", code=None) if f["rule"] == "FLOPS_GREW"]
            self.assertEqual(len(found), 1, was)
            self.assertRegex(found[0]["message"], rf"^operations [\d,]+ -> {now:,} flops{re.escape(shown)}$")
        for was in ("1e+300", "1e+19"):  # of nobody's graph
            self.write("g.opc.lock", relocked(lock.replace(f'"flops":{flops}', f'"flops":{was}')))
            self.assertIn("FLOPS_GREW", self.rules("g.pbtxt", code=0))


def training():
    text = ""
    for part in ("mlp.pbtxt", "mlp_loss.pbtxt"):
        with open(os.path.join(DIGITS, part), encoding="utf-8") as f:
            text += f.read()
    return subprocess.run([OPC, "grad", "-", "--shape", "image=16,64", "--shape", "label=16", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", "-"],
                          input=text, capture_output=True, text=True, check=True).stdout


class Links(Checks):
    """Of whose gradient a backward op is part."""

    @classmethod
    def setUpClass(cls):
        cls.text = training()

    def backward(self):
        return [r for r in json.loads(self.read("g.opc.lock"))["grad"] if r.get("role") == "backward"]

    def test_each_backward_op_names_its_forward_op(self):
        lock = self.locked(self.text)
        forward = {r["op"]: r for r in json.loads(lock)["ops"]}
        backward = self.backward()
        self.assertGreater(len(backward), 5)
        for record in backward:
            self.assertIn(record["gradient_of"], forward)
            self.assertTrue(record["op"].startswith(record["gradient_of"]), record)  # as differentiation names them
        self.assertFalse([r for r in json.loads(lock)["ops"] if "gradient_of" in r])

    def test_the_file_says_what_the_lock_has(self):
        self.locked(self.text)
        written = {r["op"]: r["gradient_of"] for r in self.backward()}
        self.assertEqual(written, {op: of for op, of in re.findall(
            r'name: "([^"]*)"\n(?:  [^\n]*\n)*?  pass_tag: "gradient_of:([^"]*)"', self.text)})

    def test_a_change_is_found(self):
        lock = self.locked(self.text)
        tags = re.findall(r'pass_tag: "gradient_of:([^"]*)"', self.text)
        names = sorted(set(tags))
        self.assertGreater(len(names), 2)
        for place in list(re.finditer(r'  pass_tag: "gradient_of:([^"]*)"\n', self.text))[::4]: # check_mutations has all
            tag = place.group(1)
            other = names[(names.index(tag) + 1) % len(names)]
            for line, shown in ((place.group(0).replace(tag, other), other), ("", "(none)")):
                self.write("g.pbtxt", self.text[:place.start()] + line + self.text[place.end():])
                found = self.findings("g.pbtxt", "--no-run")
                self.assertEqual([(f["rule"], f["message"]) for f in found], [("GRAD_CHANGED", f"gradient of: {tag} -> {shown}")])
        self.write("g.pbtxt", self.text)
        self.check("g.pbtxt")
        self.write("g.opc.lock", relocked(lock.replace(f'"gradient_of":"{tags[0]}"', f'"gradient_of":"{tags[-1]}"', 1)))
        self.assertEqual(self.rules("g.pbtxt"), {"GRAD_CHANGED"})

    def test_names_that_follow(self):
        """A forward op that is renamed everywhere is one finding; where the tag was left behind, too."""
        self.locked(self.text)
        everywhere = self.text.replace('"relu1"', '"bend"').replace('"relu1/', '"bend/').replace('"gradient_of:relu1"', '"gradient_of:bend"')
        for text in (everywhere, everywhere.replace('"gradient_of:bend"', '"gradient_of:relu1"')):
            self.write("g.pbtxt", text)
            self.assertEqual([(f["rule"], f["op"]) for f in self.findings("g.pbtxt", "--no-run")], [("OP_RENAMED", "bend")])

    def test_names_in_quotes(self):
        """Whatever an op is called, the file that names it is read again as it was."""
        with open(os.path.join(DIGITS, "mlp.pbtxt"), encoding="utf-8") as f, open(os.path.join(DIGITS, "mlp_loss.pbtxt"), encoding="utf-8") as g:
            text = (f.read() + g.read()).replace('"relu1"', '"é\\"q"').replace('"relu1/', '"é\\"q/')
        made = subprocess.run([OPC, "grad", "-", "--shape", "image=16,64", "--shape", "label=16", "--loss", "loss", "-o", "-"], input=text,
                              capture_output=True, text=True, check=True).stdout
        self.locked(made)
        self.assertIn('é"q', {r["gradient_of"] for r in self.backward()})


if __name__ == "__main__":
    unittest.main()
