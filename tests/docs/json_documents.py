# Every JSON document of opc is described: what commands and files say is valid by docs/schemas, and has nothing that is not there.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

try:
    import jsonschema
except ImportError:
    jsonschema = None

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
QUANTIZED, WEIGHTS, IMAGES = (os.path.join(DIGITS, name) for name in ("mlp.pbtxt", "mlp_weights.npz", "train_images.npy"))
CLUSTER = os.path.join(SOURCE, "docs", "examples", "clusters", "two_hosts.json")
PAGE = os.path.join(SOURCE, "docs", "json.md")
with open(os.path.join(SOURCE, "docs", "schemas", "opc-1.schema.json"), encoding="utf-8") as f:
    SCHEMA = json.load(f)

NUMBERS = '''op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 2 dim: 3 } data_type: kFloat } } }
op { name: "w" variable_conf { out: "out" shape { dim: 2 dim: 3 } data_type: kFloat initializer { constant_conf { value: 1 } } } }
op { name: "sum" user_conf { op_type_name: "broadcast_add" input { key: "x" value { s: "x/out" } } input { key: "y" value { s: "w/out" } } } }
op { name: "ln" user_conf { op_type_name: "log" input { key: "x" value { s: "sum/z_0" } } } }
op { name: "mean" user_conf { op_type_name: "reduce_mean" input { key: "input_tensor" value { s: "ln/y_0" } } attr { key: "axis" value { at_list_int32 { val: 0 val: 1 } } } } }
op { name: "y" output_conf { in: "ln/y_0" } }
op { name: "loss" output_conf { in: "mean/output_tensor_0" } }
'''


def closed(node):
    """The schema with nothing allowed beside what it names: readers must accept new fields, opc must describe them."""
    if isinstance(node, dict):
        node = {k: closed(v) for k, v in node.items()}
        if "properties" in node:
            node.setdefault("additionalProperties", False)
    elif isinstance(node, list):
        node = [closed(v) for v in node]
    return node


STRICT = closed(SCHEMA)
used, of_other_builds = set(), set()


def validate(document, name, schema=None):
    used.add(name)
    rules = {**(schema or STRICT), "$ref": f"#/$defs/{name}"}
    jsonschema.Draft202012Validator(rules).validate(document)
    # JSON has no NaN; Python's reader would take it.
    json.dumps(document, allow_nan=False)


@unittest.skipUnless(jsonschema, "python3-jsonschema is not installed")
class Documents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.graph = cls.file("g.pbtxt", NUMBERS)
        np.save(cls.path("x.npy"), np.arange(20 * 3, dtype=np.float32).reshape(20, 3) + 1)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def file(cls, name, text):
        os.makedirs(os.path.dirname(cls.path(name)), exist_ok=True)
        with open(cls.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return cls.path(name)

    def opc(self, *args, code=0):
        done = subprocess.run([OPC, *args], capture_output=True, text=True, timeout=300, cwd=self.folder)
        self.assertEqual(done.returncode, code, (args, done.stdout, done.stderr))
        return done

    def check(self, name, *args, code=0):
        """The document that a command prints."""
        def refuse(word):
            raise AssertionError(f"{args}: {word} in JSON")

        document = json.loads(self.opc(*args, code=code).stdout, parse_constant=refuse)
        validate(document, name)
        return document

    def test_schema_is_a_schema(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        refs = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(SCHEMA)))
        self.assertLessEqual(refs, set(SCHEMA["$defs"]))

    def test_strictness(self):
        """A document that breaks the promise is refused: a field gone, another type, another schema, a field nobody described."""
        document = self.check("version", "version", "--json")
        for change in ({"schema": 2}, {"version": 3}, {"devices": "cpu"}, {"new": 1}):
            with self.assertRaises(jsonschema.ValidationError):
                validate({**document, **change}, "version")
        without = dict(document)
        del without["version"]
        with self.assertRaises(jsonschema.ValidationError):
            validate(without, "version")
        validate({**document, "new": 1}, "version", SCHEMA)  # readers are to accept new fields

    def test_about_opc(self):
        self.check("version", "--version", "--json")
        self.check("phases", "compile", "--to", "help", "--json")
        self.check("sdk", "sdk", "--json")
        self.check("python", "python", "--json")
        self.check("codes", "explain", "--list", "--json")
        self.check("explain", "explain", "OPC0203", "--json")
        self.check("commands", "__commands")
        self.check("doctor", "doctor", "--json")
        self.file("opc.toml", '[run]\nseed = 7\n[tolerance]\nf16 = { rtol = 2e-3, atol = 1e-3 }\n"logits" = { metric = "cos>=0.9", nan = "equal" }\n')
        document = self.check("config", "config", "--json")
        self.assertEqual(len(document["tolerances"]), 2)
        self.check("setting", "config", "run.seed", "--json")
        self.check("cache", "cache", "--json")
        self.check("cache", "cache", "clear", "--json")
        os.remove(self.path("opc.toml"))

    def test_operators(self):
        self.check("ops", "ops", "--json")
        self.check("op", "ops", "show", "matmul", "--json")
        self.check("verify", "verify", "relu", "--parts", "2", "--json")
        if json.loads(self.opc("doctor", "--json").stdout)["device_kernels"]:
            self.check("verify_device", "verify", "relu", "--device", "sim", "--json")
        else:
            of_other_builds.add("verify_device")  # those with nvcc

    def test_check(self):
        self.file("checked/g.pbtxt", NUMBERS)
        self.check("check", "check", "checked", "--json", code=1)
        self.check("check", "check", "checked", "--json", "--update", "--update-in-ci")
        self.file("checked/g.pbtxt", NUMBERS.replace("value: 1", "value: 2"))
        self.assertTrue(self.check("check", "check", "checked", "--json", code=1)["findings"])
        self.assertTrue(self.check("check_rules", "check", "--list-rules", "--json")["rules"])

    def test_diff(self):
        changed = self.file("changed.pbtxt", NUMBERS.replace('"ln"', '"log"').replace("ln/y_0", "log/y_0").replace("broadcast_add", "broadcast_sub"))
        self.assertTrue(self.check("diff", "diff", self.graph, self.graph, "--json")["same"])
        document = self.check("diff", "diff", self.graph, changed, "--mesh", "2", "--as", "json", code=1)
        self.assertEqual({f["kind"] for f in document["findings"]} & {"names", "structural"}, {"names", "structural"})

    def test_bench(self):
        self.check("bench", "bench", self.graph, "--fill", "ones", "--rounds", "6", "--json", "--save", "times.json")
        with open(self.path("times.json"), encoding="utf-8") as f:
            validate(json.load(f), "bench")
        for baseline in (self.graph, "times.json"):
            self.assertEqual(self.check("bench", "bench", self.graph, "--fill", "ones", "--rounds", "6", "--json", "--baseline", baseline,
                                        "--tolerance", "1000")["baseline"]["paired"], baseline == self.graph)

    def test_first_difference(self):
        folder = self.path("captured")
        self.opc("run", self.graph, "--fill", "ones", "--capture", f"*={folder}", "--print", "none", "--no-simplify")
        self.assertEqual(self.check("first_difference", "debug", "first-diff", self.graph, "--fill", "ones", "--json")["differences"], [])
        np.save(os.path.join(folder, "ln", "y_0.npy"), np.zeros((2, 3), np.float32))
        document = self.check("first_difference", "debug", "first-diff", self.graph, "--fill", "ones", "--json", "--reference", folder, code=1)
        self.assertEqual([d["op"] for d in document["differences"]], ["ln", "mean"])
        document = self.check("reduction", "debug", "reduce", self.graph, "--check", "! grep -q log {}", "-o", "small.pbtxt", "--json")
        self.assertEqual(document["ops"], ["ln"])

    def test_replays(self):
        with open(self.graph, encoding="utf-8") as f, open(self.path("again.pbtxt"), "w", encoding="utf-8") as to:
            to.write('# opc reproducer 1\n# command: ["show","{}"]\n' + f.read())
        document = self.check("replay", "debug", "replay", self.path("again.pbtxt"), "--json", code=1)
        self.assertEqual((document["same"], document["recorded"], document["found"]), (False, None, "no failure"))

    def test_plugins(self):
        library = next((os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(BUILD, "tests"))
                        for name in sorted(names) if re.fullmatch(r"lib\w*relu\w*\.so", name)), None)
        if not library:
            source = os.path.join(SOURCE, "docs", "examples", "myrelu_plugin")
            flags = {k: self.opc("sdk", k).stdout.split() for k in ("--cflags", "--ldflags")}
            library = self.path("libmyrelu.so")
            subprocess.run(["g++", "-O0", "-shared", "-fPIC", *flags["--cflags"], os.path.join(source, "myrelu_op.cpp"),
                            os.path.join(source, "myrelu_cpu_kernel.cpp"), "-o", library, *flags["--ldflags"]], check=True)
        self.assertTrue(self.check("plugins", "plugin", "check", library, "--json")["plugins"][0]["ops"])

    def test_compile_and_show(self):
        self.check("compile", "compile", self.graph, "-o", "g.plan", "--json")
        self.check("compile", "compile", self.graph, "-o", "g.plan", "--stats=json")
        self.check("compile", "compile", self.graph, "--emit", "pbtxt", "-o", "h.pbtxt", "--json")
        for extra in ((), ("--mesh", "2x2")):
            document = self.check("compile", "compile", self.graph, "-o", "g.plan", "--json", "--simulate", CLUSTER, "--simulate-trace", "s.json", *extra)
            self.assertIn("simulation", document)
        with open(self.path("s.json"), encoding="utf-8") as f:
            validate(json.load(f), "trace")
        for what in ("summary", "ops"):
            self.check("show", "show", self.graph, "--what", what, "--json")
        self.opc("compile", self.graph, "-o", "g.plan")
        self.check("show", "show", "g.plan", "--json")
        for what in ("tensors", "memory", "cost", "tasks", "fusion", "phases"):
            self.check(f"show_{what}", "show", self.graph, "--what", what, "--json")
        self.opc("compile", self.graph, "--native=v3", "-o", "native.plan")
        for what in ("tensors", "memory", "cost", "tasks"):
            self.assertTrue(self.check(f"show_{what}", "show", "native.plan", "--what", what, "--json")["native"], what)
        for what in ("sbp", "boxing"):
            self.check("show_sbp", "show", self.graph, "--mesh", "2x2", "--what", what, "--json")
        open_graph = self.file("open.pbtxt", NUMBERS.replace("dim: 2 dim: 3 } data_type: kFloat } } }", "dim: -1 dim: 3 } data_type: kFloat } } }", 1))
        self.assertEqual(self.check("show", "show", open_graph, "--json")["inputs"][0]["shape"], [-1, 3])

    def test_reasons(self):
        """Those of `opc show --what fusion` are the code's."""
        with open(os.path.join(SOURCE, "compiler", "facts", "FusionReasons.h"), encoding="utf-8") as f:
            reasons = re.findall(r'\{FusionReason::k\w+,\s+"(\w+)"', f.read())
        self.assertGreater(len(reasons), 15)
        self.assertEqual(SCHEMA["$defs"]["fusion_reason"]["enum"], reasons)

    def test_run(self):
        given = ("run", self.graph, "--input", "x=1,2,3,4,5,6", "--json")
        self.check("run", *given, "--print", "all", "--stats", "--timing", "--profile", "--repeat", "3")
        self.check("run", *given, "--outputs", "out", "--expect", "loss=1.4", "--rtol", "9")
        self.check("run", *given, "--expect", "y=3", "--metric", "y:cos>=0.1")
        self.check("run", *given, "--expect", "y=3", code=1)
        self.check("run", *given, "--expect", "y=f32[3,2]:1", code=1)
        self.check("run", *given, "--reference", "cpu")
        document = self.check("run", *given, "--mesh", "2", "--ranks", "2", "--in-process", "--stats")
        self.assertEqual(len(document["ranks"]), 2)

    def test_not_finite(self):
        """NaN and infinities are texts among values, and left out of statistics."""
        document = self.check("run", "run", self.graph, "--input", "x=-1,-3,nan,inf,1,-inf", "--print", "all", "--json")
        y = next(o for o in document["outputs"] if o["name"] == "y")
        self.assertEqual(y["values"][0], "-inf")  # log 0
        self.assertIn(y["values"][1], ("nan", "-nan"))  # log -2
        self.assertEqual(y["values"][3], "inf")
        self.assertEqual((y["nan"], y["infinite"]), (3, 2))
        self.assertAlmostEqual(y["min"], np.log(2), 6)
        loss = next(o for o in document["outputs"] if o["name"] == "loss")
        self.assertIsNone(loss["mean"])
        self.check("run", "run", self.graph, "--input", "x=-1,-3,nan,inf,1,-inf", "--expect", "y=0", "--metric", "y:max<=1", "--json", code=1)
        self.opc("run", self.graph, "--input", "x=-1,-3,nan,inf,1,-inf", "--capture-stats", "stats.jsonl", "--print", "none")
        self.lines("stats.jsonl", "statistics_line")

    def lines(self, file, name):
        with open(self.path(file), encoding="utf-8") as f:
            lines = f.read().splitlines()
        self.assertTrue(lines)
        for line in lines:
            validate(json.loads(line), name)

    def test_files_and_streams(self):
        given = ("run", self.graph, "--fill", "ones", "--print", "none")
        self.opc(*given, "--trace", "t.json")
        with open(self.path("t.json"), encoding="utf-8") as f:
            validate(json.load(f), "trace")
        done = self.opc(*given, "--progress", "json")
        for line in done.stderr.splitlines():
            validate(json.loads(line), "progress_line")
        with open(CLUSTER, encoding="utf-8") as f:
            validate(json.load(f), "cluster")
        self.opc("compile", self.graph, "-o", "g.plan", "--calibrate", "here.json")
        with open(self.path("here.json"), encoding="utf-8") as f:
            validate(json.load(f), "cluster")
        self.opc("compile", self.graph, "--mesh", "2", "-o", "g.plan", "--calibrate", "here.json")
        with open(self.path("here.json"), encoding="utf-8") as f:
            validate(json.load(f), "cluster")

    def test_training(self):
        self.check("gradients", "grad", self.graph, "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", "t.pbtxt", "--json")
        given = ("run", "t.pbtxt", "--feed-dataset", "x=@x.npy", "--batch", "2", "--json")
        self.check("training", *given, "--metrics", "m.jsonl", "--save", "c.safetensors")
        self.lines("m.jsonl", "metrics_line")
        said = self.opc(*given, "--progress", "json", "--epochs", "400").stderr
        seen = [json.loads(line) for line in said.splitlines() if line.startswith("{") and '"step"' in line]
        for line in seen:
            validate(line, "training_progress_line")

    def test_gradients(self):
        self.check("quantization", "quantize", QUANTIZED, "--weights", WEIGHTS, "--calibrate", f"image=@{IMAGES}", "--json")
        self.check("quantization", "quantize", QUANTIZED, "--weights", WEIGHTS, "--to", "bf16-weights", "-o", "q.onnx", "--json")
        self.check("gradients", "grad", self.graph, "--loss", "loss", "-o", "d.pbtxt", "--json")
        self.check("gradient_check", "grad", self.graph, "--loss", "loss", "--check", "--json", "--input", "x=1,2,3,4,5,6")
        self.check("gradient_paths", "grad", self.graph, "--loss", "loss", "--explain", "w", "--json")

    def test_wrong_gradients_of_large_graphs(self):
        """Where ops are too many to be tried one by one, that is said."""
        with open(os.path.join(SOURCE, "tests", "cli", "Inputs", "nan_gradient.pbtxt"), encoding="utf-8") as f:
            wrong = f.read()
        made = self.file("wrong.pbtxt", wrong)
        document = self.check("gradient_check", "grad", made, "--loss", "loss", "--check", "--json", "--wrt", "x", "--input", "x=4,-1,9", code=1)
        self.assertTrue(document["ops"])
        self.assertNotIn("unsearched_ops", document)
        tensors = ["pick/out_0"] + [f"n{i}/y_0" for i in range(2000)]
        chain = "".join(f'op {{ name: "n{i}" user_conf {{ op_type_name: "negative" input {{ key: "x" value {{ s: "{x}" }} }} }} }}\n'
                        for i, x in enumerate(tensors[:-1]))
        self.assertEqual(wrong.count('in: "pick/out_0"'), 1)
        large = self.file("large.pbtxt", chain + wrong.replace('in: "pick/out_0"', f'in: "{tensors[-1]}"'))
        given = ("grad", large, "--loss", "loss", "--check", "--wrt", "x", "--input", "x=4,-1,9")
        document = self.check("gradient_check", *given, "--json", code=1)
        self.assertEqual(document["unsearched_ops"], wrong.count("user_conf") + 2000)
        self.assertNotIn("ops", document)
        self.assertIn("the op to blame is not looked for: the losses need 2,004 ops, and at most 2,000 are tried one by one", self.opc(*given, code=1).stdout)

    def test_failures(self):
        self.check("failure", "run", self.graph, "--json", code=2)  # a value is missing
        self.check("failure", "run", "nowhere.pbtxt", "--json", code=2)
        self.check("failure", "show", self.file("bad.pbtxt", NUMBERS.replace("broadcast_add", "broadcast_ad")), "--json", code=3)
        self.check("failure", "show", self.file("shapes.pbtxt", NUMBERS.replace("dim: 2 dim: 3 } data_type: kFloat init", "dim: 2 dim: 4 } data_type: kFloat init")), "--json", code=3)
        self.check("failure", "run", self.graph, "--input", "x=-3,1,1,1,1,1", "--trap", "nan", "--json", code=5)

    def test_page(self):
        """docs/json.md has a row for each document, and none for what there is not."""
        with open(PAGE, encoding="utf-8") as f:
            rows = re.findall(r"^\| `(\w+)` \|", f.read(), flags=re.M)
        documents = {n for n, d in SCHEMA["$defs"].items() if "description" in d and ("schema" in d.get("properties", {}) or n.endswith("_line") or n == "trace")}
        self.assertEqual(sorted(rows), sorted(documents))


def load_tests(loader, tests, pattern):
    """Last: that each document has been seen."""
    class Complete(unittest.TestCase):
        def test_every_document_was_checked(self):
            documents = {n for n, d in SCHEMA["$defs"].items() if "schema" in d.get("properties", {})}
            if jsonschema and len(used) > 5:  # not where single tests were asked for
                self.assertFalse(documents - used - of_other_builds, "no test makes these documents")

    tests.addTests(loader.loadTestsFromTestCase(Complete))
    return tests


if __name__ == "__main__":
    unittest.main()
