# What `opc ops show` gives to paste is pasted: every operator's snippet is a part of a graph that runs, with its defaults written out or not.
# SPDX-License-Identifier: Apache-2.0
import json
import math
import os
import re
import subprocess
import tempfile
import unittest

import numpy as np

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
TYPES = {}


def opc(*args):
    done = subprocess.run([os.path.join(BIN, "opc"), *args], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (args[:3], done.stdout[-500:], done.stderr[:3000])
    return done.stdout


class Pasted:
    """One graph of many snippets. What each reads is an input or variable of its own, called OP.ARG."""

    def __init__(self, ops):
        self.text, self.values, self.outputs = "", [], []
        for op in ops:
            if op["cases"]:  # if and loop have none: their graphs are texts
                self.paste(op)

    def paste(self, op):
        snippet, case = op["snippet"], op["cases"][0] if op["cases"] else {"inputs": []}
        mutable = {i["name"] for i in op["inputs"] if i["mutable"]}
        ranges = {}
        for given in case["inputs"]:
            ranges.setdefault(given["arg"], []).append((given["lo"], given["hi"]))
        for arg, tensors, notes in re.findall(r'^  input \{ key: "(\w+)" value \{(.*?) \} \}  # (.*)$', snippet, flags=re.M):
            shown = re.findall(r'(\w+)\[([\d,]*)\]', notes)
            names = re.findall(r's: "(\w+)/out"', tensors)
            assert len(names) == len(shown) == len(ranges[arg]), (op["name"], names, shown)
            for name, (dtype, dims), (lo, hi) in zip(names, shown, ranges[arg]):
                own = f"{op['name']}.{name}"
                shape = "shape {" + "".join(f" dim: {d}" for d in dims.split(",") if d) + " }"
                if arg in mutable:  # the snippet has the variable
                    assert f'op {{ name: "{name}" variable_conf {{ out: "out" {shape} data_type: {TYPES[dtype]} ' in snippet, (op["name"], name)
                else:
                    self.text += f'op {{ name: "{own}" input_conf {{ out: "out" blob_conf {{ {shape} data_type: {TYPES[dtype]} }} }} }}\n'
                if dtype[0] in "iu":  # rand() takes integers from both ends, a case all below hi
                    lo, hi = math.ceil(lo), math.ceil(hi) - 1
                self.values += ["--input", f"{own}={dtype}[{dims}]:rand" + (f"({lo},{hi})" if dtype != "bool" else "")]
        snippet = re.sub(r'^op \{ name: "(\w+)" variable_conf', lambda m: f'op {{ name: "{op["name"]}.{m[1]}" variable_conf', snippet, flags=re.M)
        self.text += re.sub(r's: "(\w+)/out"', lambda m: f's: "{op["name"]}.{m[1]}/out"', snippet)
        for number, tensor in enumerate(re.findall(r's: "(my_\w+/\w+_\d+)"', snippet)):
            self.outputs.append(f"{op['name']}.{number}")
            self.text += f'op {{ name: "{self.outputs[-1]}" output_conf {{ in: "{tensor}" }} }}\n'


class Snippets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        document = json.loads(opc("ops", "--json"))
        cls.ops = document["ops"]
        TYPES.update({t["name"]: t["graph"] for t in document["types"]})

    def run_graph(self, folder, name, graph):
        path = os.path.join(folder, name + ".pbtxt")
        with open(path, "w", encoding="utf-8") as f:
            f.write(graph.text)
        opc("-q", "run", path, *graph.values, "--seed", "3", "--no-simplify", "--print", "none", "--outputs", os.path.join(folder, name + ".npz"))
        return np.load(os.path.join(folder, name + ".npz"))

    def test_every_snippet_runs(self):
        self.assertGreater(len(self.ops), 300)
        with tempfile.TemporaryDirectory() as folder:
            plain = Pasted(self.ops)
            got = self.run_graph(folder, "plain", plain)
            self.assertEqual(sorted(got.files), sorted(plain.outputs))
            # What stands behind # is the default: written out it changes nothing.
            whole = [dict(op, snippet=re.sub(r"^  # attr", "  attr", op["snippet"], flags=re.M)) for op in self.ops]
            self.assertTrue(any("at_list" in op["snippet"] for op in whole))
            again = self.run_graph(folder, "whole", Pasted(whole))
            for name in plain.outputs:
                self.assertTrue(np.array_equal(got[name], again[name], equal_nan=got[name].dtype.kind == "f"), name)

    def test_ops_that_write_bring_their_variables(self):
        """As pasted, with an input for whatever else is read."""
        written = [op for op in self.ops if any(i["mutable"] for i in op["inputs"])]
        self.assertGreater(len(written), 8)
        with tempfile.TemporaryDirectory() as folder:
            for op in written:
                text = op["snippet"]
                for name, dtype, dims in re.findall(r's: "(\w+)/out" \} \}  # (\w+)\[([\d,]*)\]', text):
                    shape = "".join(f" dim: {d}" for d in dims.split(",") if d)
                    if f'name: "{name}" variable_conf' not in text:
                        text += f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{{shape} }} data_type: {TYPES[dtype]} }} }} }}\n'
                for number, tensor in enumerate(re.findall(r's: "(my_\w+/\w+_\d+)"', text) or [op["inputs"][0]["name"] + "/out"]):
                    text += f'op {{ name: "made{number}" output_conf {{ in: "{tensor}" }} }}\n'
                path = os.path.join(folder, op["name"] + ".pbtxt")
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
                with self.subTest(op["name"]):
                    opc("-q", "run", path, "--fill", "rand", "--print", "none")

    def test_every_attribute_is_shown(self):
        """Each with the field of its type."""
        fields = {"kAtInt32": "at_int32: ", "kAtInt64": "at_int64: ", "kAtBool": "at_bool: ", "kAtFloat": "at_float: ", "kAtDouble": "at_double: ",
                  "kAtString": "at_string: ", "kAtShape": "at_shape {", "kAtDataType": "at_data_type: ", "kAtListInt32": "at_list_int32 {",
                  "kAtListInt64": "at_list_int64 {", "kAtListFloat": "at_list_float {", "kAtListDataType": "at_list_data_type {",
                  "kAtListShape": "at_list_shape {", "kAtListString": "at_list_string {"}
        for op in self.ops:
            for attr in op["attrs"]:
                self.assertIn(f'attr {{ key: "{attr["name"]}" value {{ {fields[attr["type"]]}', op["snippet"], op["name"])

    def test_page_ends_with_it(self):
        for op in self.ops[::60]:
            page = opc("ops", "show", op["name"])
            self.assertTrue(page.endswith("\n\n" + op["snippet"]), page)
            self.assertIn("to paste into a graph", page)


if __name__ == "__main__":
    unittest.main()
