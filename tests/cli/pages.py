# opc report and opc diff as pages and drawings: what they say, and that names stay names. pages_in_browser.py opens them.
# SPDX-License-Identifier: Apache-2.0
import base64
import hashlib
import html.parser
import json
import os
import re
import shutil
import subprocess
import unittest
import xml.etree.ElementTree as xml

import big_graphs
from folder_test import FolderTest

BUILD, SOURCE = os.environ["OPC_BUILD_DIR"], os.environ["OPC_SOURCE_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
SVG = "{http://www.w3.org/2000/svg}"
KINDS = ["input", "variable", "op", "output"]


def read(name):
    with open(os.path.join(DIGITS, name), encoding="utf-8") as f:
        return f.read()


MLP = read("mlp.pbtxt")
HOSTILE = {"fc1_bias": "</title></svg><script>alert(1)</script>", "relu1": '"><img src=x onerror=alert(1)>', "fc2": "</pre></style><b>' & &amp;"}


def hostile(text):
    for name, evil in HOSTILE.items():
        text = re.sub(rf'"{name}(["/])', lambda m, e=evil: '"' + e.replace('"', '\\"') + m.group(1), text)
    return text


HAS_MPI = shutil.which("mpirun") and os.path.exists(os.path.join(os.environ["OPC_BUILD_DIR"], "lib", "libopc_mpi.so"))

class Elements(html.parser.HTMLParser):
    """The elements of a page with their attributes, and its text."""
    VOID = {"meta", "input"}

    def __init__(self, text):
        super().__init__()
        self.seen, self.open, self.words, self.scripts = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.words.append(data)


class Pages(FolderTest):
    def setUp(self):
        super().setUp()
        self.file("mlp.pbtxt", MLP)
        self.file("evil.pbtxt", hostile(MLP))

    def file(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(text)
        return name

    def page(self, text):
        """Its elements, after what holds for every page."""
        page = Elements(text)
        self.assertEqual(page.open, [])
        tags = {tag for tag, _ in page.seen}
        self.assertFalse(tags & {"img", "link", "iframe", "object", "embed", "base", "form", "b", "a", "image", "use", "foreignobject"}, tags)
        self.assertEqual([a for tag, a in page.seen if tag == "script"], [{"type": "application/json", "id": "data"}, {}])
        for tag, attrs in page.seen:
            self.assertFalse({a for a in attrs if a.startswith("on") or a in ("src", "href", "xlink:href", "srcdoc", "style")}, (tag, attrs))
        policy = next(a["content"] for tag, a in page.seen if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy")
        # Nothing is loaded, and no script runs but the one whose hash the policy has.
        digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
        self.assertEqual(policy, f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'")
        self.assertLess(len(page.scripts[1]) + text.index("</style>") - text.index("<style>"), 60 << 10)
        page.data = json.loads(page.scripts[0])
        page.text = page.data["texts"].__getitem__
        # Each tab leads to a part, and each part has a tab.
        tabs = [a["aria-controls"] for tag, a in page.seen if a.get("role") == "tab"]
        self.assertEqual(tabs, [a["id"] for tag, a in page.seen if a.get("role") == "tabpanel"])
        self.assertTrue(all(tag == "button" for tag, a in page.seen if a.get("role") == "tab"))
        return page, tabs

    def test_report(self):
        self.opc("report", "mlp.pbtxt", "-o", "r.html")
        with open(os.path.join(self.folder, "r.html"), encoding="utf-8") as f:
            text = f.read()
        self.assertEqual(text, self.opc("report", "mlp.pbtxt", "-o", "-", "-j", "2").stdout)
        page, tabs = self.page(text)
        self.assertEqual(tabs, ["summary", "graph", "ops", "memory", "timeline", "tasks", "phases", "checks"])
        words = "".join(page.words)
        for said in ("operations     12,468,240 flops", "f32[128,64]", "simplify", "no lock lies beside it", "Nothing was found."):
            self.assertIn(said, words)
        nodes = page.data["nodes"]
        node = next(n for n in nodes if page.text(n[2]) == "fc1")
        self.assertEqual((KINDS[node[0]], page.text(node[3]), page.text(node[4][0][1])), ("op", "matmul", "f32[360,128]"))
        self.assertEqual([page.text(nodes[node[5][i]][2]) for i in (0, 3)], ["image", "fc1_w"])  # image and weight
        self.assertEqual((page.text(node[6][0]), node[6][1]), ("mlp.pbtxt", 14))
        self.assertEqual(node[8], 2 * 360 * 64 * 128)
        self.assertIn("cpu/matmul/f32", [page.text(t[1]) for t in page.data["tasks"]])
        self.assertEqual(page.data["memory"]["arena"], json.loads(self.opc("show", "mlp.pbtxt", "--what", "memory", "--json").stdout)["memory"]["arena_bytes"])
        spans = page.data["timelines"][0]["spans"]
        tasks = json.loads(self.opc("show", "mlp.pbtxt", "--what", "tasks", "--json").stdout)["tasks"]
        self.assertEqual(len(tasks), len(page.data["tasks"]))
        loops = {t["region"] for t in tasks if "region" in t}  # ops that are computed in one loop are one span
        self.assertEqual(len(spans), len([t for t in tasks if "region" not in t]) + len(loops))
        self.assertTrue(all(b[2] >= a[2] + a[3] - 1 for a, b in zip(spans, spans[1:])))  # one stream: one after the other

    def test_mesh(self):
        meshes = [self.opc("report", "mlp.pbtxt", "--mesh", "2x4", "-o", "-").stdout for _ in range(2)]
        self.assertEqual(*meshes)
        page, tabs = self.page(meshes[0])
        self.assertIn("sbp", tabs)
        shown = json.loads(self.opc("show", "mlp.pbtxt", "--what", "sbp", "--mesh", "2x4", "--json").stdout)["sbp"]
        signatures = {o["name"]: o["signature"] for o in shown["ops"]}
        choices = page.data["choices"]["list"]
        self.assertGreater(len(choices), 5)
        for c in choices:
            chosen = [x for x in c["choices"] if x[4]]
            self.assertEqual(len(chosen), 1)
            maker = page.text(c["tensors"]).split("/")[0]
            self.assertEqual(page.text(chosen[0][1]), signatures[maker])
            self.assertTrue(2 <= len(c["choices"]) <= 7 or c["possible"] == len(c["choices"]))
            prices = [x[2] + x[3] for x in c["choices"]]
            self.assertEqual(prices, sorted(prices))
        # No op alone can be moved to something cheaper: the assignment is proven the cheapest.
        for c in choices:
            chosen = next(x for x in c["choices"] if x[4])
            self.assertLessEqual(chosen[2] + chosen[3], min(x[2] + x[3] for x in c["choices"]) * (1 + 1e-4))
        self.assertEqual(sum(m[5] for m in page.data["moves"] if m[5] > 0), sum(t["bytes"] for t in shown["transitions"]))

    def test_plan(self):
        self.opc("compile", "mlp.pbtxt", "-o", "m.plan")
        page, tabs = self.page(self.opc("report", "m.plan", "-o", "-").stdout)
        self.assertEqual(tabs, ["summary", "graph", "ops", "memory", "timeline", "tasks"])
        self.assertIn("cpu/matmul/f32", [page.text(t[1]) for t in page.data["tasks"]])
        self.opc("compile", "mlp.pbtxt", "--mesh", "2x4", "-o", "m8.plan")
        page, tabs = self.page(self.opc("report", "m8.plan", "-o", "-").stdout)
        self.assertIn("rank 0 (+7) stream 0", [page.text(lane) for lane in page.data["timelines"][0]["lanes"]])

    def test_times_are_asked_for(self):
        plain = self.opc("report", "mlp.pbtxt", "-o", "-").stdout
        timed, _ = self.page(self.opc("report", "mlp.pbtxt", "--timing", "-o", "-").stdout)
        heads = [w for w in timed.words if w == "time"]
        self.assertEqual((len(heads), plain.count(">time<")), (1, 0))
        self.assertIn("total", timed.words)

    def test_run(self):
        """opc run --report: results, comparison, measured times; every refusal leaves no file."""
        run = lambda *more, code=0: self.opc("run", "mlp.pbtxt", "--weights", os.path.join(DIGITS, "mlp_weights.npz"), "--input", "image=@" + os.path.join(DIGITS, "test_images.npy"),
                                             "--report", "run.html", *more, code=code)
        expect = "logits=@" + os.path.join(DIGITS, "mlp_test_logits.npy")
        self.assertIn("report in run.html", run("--expect", expect, "--profile", "--repeat", "3").stderr)

        def page():
            with open(os.path.join(self.folder, "run.html"), encoding="utf-8") as f:
                return self.page(f.read())

        got, tabs = page()
        self.assertEqual(tabs, ["run", "summary", "graph", "ops", "memory", "timeline", "tasks", "phases", "checks"])
        words = "".join(got.words)
        for said in ("as expected", "f32[360,10]", "3 runs: p50", "Profile", "total"):
            self.assertIn(said, words)
        measured, planned = got.data["timelines"]
        self.assertEqual((measured["measured"], planned["measured"]), (True, False))
        names = [got.text(s[1]) for s in measured["spans"]]
        self.assertIn("fc2", names)
        self.assertEqual(sorted(names), sorted(got.text(s[1]) for s in planned["spans"]))
        self.assertTrue(all(s[3] >= 0 and s[2] >= 0 for s in measured["spans"]))
        # What is not as expected is on the page, and the exit code says it.
        run("--expect", expect, "--expect", "logits=f32[360,10]:0", code=2)
        os.remove(os.path.join(self.folder, "run.html"))
        run("--expect", "logits=f32[360,10]:0", code=1)
        words = "".join(page()[0].words)
        self.assertIn("DIFFERS", words)
        self.assertIn("expected 0", words)
        os.remove(os.path.join(self.folder, "run.html"))
        self.opc("run", "mlp.pbtxt", "--fill", "rand", "--report", "nowhere/r.html", code=2)
        self.opc("run", "mlp.pbtxt", "--fill", "rand", "--report", "mlp.pbtxt", code=2)
        self.opc("run", "mlp.pbtxt", "--fill", "rand", "--report", "-", "--json", code=2)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "run.html")))
        # A plan says what ran, too, and a part of a graph alone is on the page of a part.
        self.opc("compile", "mlp.pbtxt", "-o", "m.plan")
        self.opc("run", "m.plan", "--fill", "rand", "--report", "run.html")
        self.assertEqual(page()[1], ["run", "summary", "graph", "ops", "memory", "timeline", "tasks"])
        self.opc("run", "mlp.pbtxt", "--fill", "rand", "--until", "relu1", "--report", "run.html")
        got, _ = page()
        self.assertNotIn("fc2", [got.text(n[2]) for n in got.data["nodes"]])
        # Checks: against the lock beside the graph, where it is that graph that ran.
        self.opc("check", "mlp.pbtxt", "--update", "--update-in-ci")
        self.file("mlp.pbtxt", MLP.replace("relu1", "act1"))
        for more, found in ([], True), (["--until", "act1"], False), (["--shape", "image=2,64"], False):
            self.opc("run", "mlp.pbtxt", "--fill", "rand", *more, "--report", "run.html")
            words = "".join(page()[0].words)
            self.assertEqual(("what differs from mlp.opc.lock" in words, "OP_RENAMED" in words), (found, found))
        self.file("dead.pbtxt", MLP + 'op { name: "idle" user_conf { op_type_name: "relu" input { key: "x" value { s: "fc1/out_0" } } } }\n')
        self.opc("run", "dead.pbtxt", "--fill", "rand", "--report", "run.html")
        self.assertIn("DEAD_OP", "".join(page()[0].words))

    def ranks_page(self, ranks, *command, env=None):
        """A lane for each stream of each rank, with what each rank sent."""
        done = subprocess.run([*command, "--print", "none", "--report", "run.html", "--stats", "--json"], capture_output=True, text=True, timeout=300,
                              cwd=self.folder, env=env)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("report in run.html"), 1)
        with open(os.path.join(self.folder, "run.html"), encoding="utf-8") as f:
            page, tabs = self.page(f.read())
        self.assertLessEqual({"run", "timeline", "sbp"} if "--mesh" in command else {"run", "timeline"}, set(tabs))
        measured = next(t for t in page.data["timelines"] if t["measured"])
        self.assertEqual([page.text(l) if isinstance(l, int) else l for l in measured["lanes"]], [f"rank {r} stream 0" for r in range(ranks)])
        spans = [[s for s in measured["spans"] if s[0] == lane] for lane in range(ranks)]
        names = [sorted(page.text(s[1]) for s in lane) for lane in spans]
        self.assertTrue(names[0])
        self.assertEqual(names, [names[0]] * ranks)
        sent = [r["bytes_sent"] for r in json.loads(done.stdout)["ranks"]]
        self.assertGreater(min(sent), 0)
        words = "".join(page.words)
        self.assertIn("Ranks", words)
        for lane in spans: # one at a time, in the order of the plan
            lane = sorted((s[2], s[3]) for s in lane)
            self.assertTrue(all(a + b <= c + 1e-6 for (a, b), (c, _) in zip(lane, lane[1:])))

    def test_run_on_ranks(self):
        given = ["--fill", "rand", "--sbp", "fc1_w=S(0)", "--sbp", "fc2_w=S(1)"]
        self.ranks_page(2, OPC, "run", "mlp.pbtxt", "--mesh", "2", "--in-process", *given)
        self.opc("compile", "mlp.pbtxt", "--mesh", "2", *given[2:], "-o", "m2.plan")
        self.ranks_page(2, OPC, "run", "m2.plan", "--ranks", "2", "--in-process", "--fill", "rand")

    @unittest.skipUnless(HAS_MPI, "no mpirun, or built without MPI")
    def test_run_on_processes(self):
        self.opc("compile", "mlp.pbtxt", "--mesh", "2", "--sbp", "fc1_w=S(0)", "--sbp", "fc2_w=S(1)", "-o", "m2.plan")
        self.ranks_page(2, "mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", OPC, "run", "m2.plan", "--fill", "rand",
                        env=dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith("run.html")], ["run.html"])

    def test_checks(self):
        """The findings of lint, and with a lock those of the lock."""
        dead = MLP + 'op { name: "idle" user_conf { op_type_name: "relu" input { key: "x" value { s: "fc1/out_0" } } } }\n'
        self.file("dead.pbtxt", dead)
        words = "".join(self.page(self.opc("report", "dead.pbtxt", "-o", "-").stdout)[0].words)
        self.assertIn("DEAD_OP", words)
        self.opc("check", "mlp.pbtxt", "--update", "--update-in-ci")
        words = "".join(self.page(self.opc("report", "mlp.pbtxt", "-o", "-").stdout)[0].words)
        self.assertIn("what differs from mlp.opc.lock", words)
        self.assertIn("Nothing was found.", words)
        self.file("mlp.pbtxt", MLP.replace("relu1", "act1"))
        page, _ = self.page(self.opc("report", "mlp.pbtxt", "-o", "-").stdout)
        self.assertIn("OP_RENAMED", page.words)
        self.assertIn("act1", page.words)

    def test_open_sizes(self):
        self.file("open.pbtxt", MLP.replace("dim: 360", "dim: -1"))
        done = self.opc("report", "open.pbtxt", "-o", "-")
        self.assertIn("neither plan nor cost: inputs leave dimensions open", done.stderr)
        self.assertEqual(self.page(done.stdout)[1], ["summary", "graph", "ops", "phases", "checks"])

    def test_difference(self):
        self.file("new.pbtxt", MLP.replace("relu1", "act1"))
        self.file("less.pbtxt", re.sub(r'op \{\n  name: "relu2".*?\n\}\n', "", MLP, flags=re.S).replace("relu2/y_0", "fc2_bias/out_0"))
        page, tabs = self.page(self.opc("diff", "mlp.pbtxt", "new.pbtxt", "--as", "html", code=1).stdout)
        self.assertEqual(tabs, ["changes", "graph"])
        self.assertIn("renamed from relu1", "".join(page.words))
        boxes = self.classes(self.opc("diff", "mlp.pbtxt", "new.pbtxt", "--as", "svg", code=1).stdout)
        self.assertEqual(boxes["act1"], "ren")
        self.assertEqual(boxes["fc2"], "")
        boxes = self.classes(self.opc("diff", "mlp.pbtxt", "less.pbtxt", "--as", "svg", code=1).stdout)
        self.assertEqual((boxes["relu2"], boxes["fc3"], boxes["fc1"]), ("del", "mod", ""))
        boxes = self.classes(self.opc("diff", "less.pbtxt", "mlp.pbtxt", "--as", "svg", code=1).stdout)
        self.assertEqual((boxes["relu2"], boxes["fc3"]), ("add", "mod"))
        self.opc("diff", "mlp.pbtxt", "mlp.pbtxt", "--as", "svg", "-o", "same.svg")
        self.opc("diff", "mlp.pbtxt", "mlp.pbtxt", "--as", "svg", "--json", code=2)
        self.opc("diff", "mlp.pbtxt", "mlp.pbtxt", "--as", "html", "-o", "nowhere/d.html", code=2)

    @staticmethod
    def classes(text):
        return {g.find(SVG + "title").text.split(": ")[0]: g.find(SVG + "rect").get("class", "") for g in xml.fromstring(text).iter(SVG + "g")}

    def test_names_stay_names(self):
        for text in (self.opc("report", "evil.pbtxt", "-o", "-").stdout, self.opc("diff", "mlp.pbtxt", "evil.pbtxt", "--as", "html", code=1).stdout):
            page, _ = self.page(text)
            for evil in HOSTILE.values():
                self.assertIn(evil, page.data["texts"])
        boxes = self.classes(self.opc("diff", "mlp.pbtxt", "evil.pbtxt", "--as", "svg", code=1).stdout)
        self.assertEqual(boxes[HOSTILE["relu1"]], "ren")

    def test_refused(self):
        self.assertIn("needs -o", self.opc("report", "mlp.pbtxt", code=2).stderr)
        self.opc("report", "nowhere.pbtxt", "-o", "r.html", code=2)
        self.opc("report", "mlp.pbtxt", "-o", "nowhere/r.html", code=2)
        self.opc("report", "mlp.pbtxt", "-o", "-", "--json", code=2)
        self.file("bad.pbtxt", MLP.replace('"relu"', '"rellu"'))
        self.opc("report", "bad.pbtxt", "-o", "r.html", code=3)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "r.html")))
        self.opc("compile", "mlp.pbtxt", "-o", "m.plan")
        self.opc("report", "m.plan", "--mesh", "2", "-o", "-", code=2)

    def test_endings_of_other_kinds(self):
        """A page in r.pdf would be opened as what it is not."""
        known = {("report", "mlp.pbtxt", "-o", "r.pdf"): ("-o writes no .pdf file: r.pdf", "it writes .html"),
                 ("report", "mlp.pbtxt", "-o", "r.SVG"): ("no .SVG file", "it writes .html"),
                 ("run", "mlp.pbtxt", "--fill", "rand", "--report", "r.pdf"): ("--report writes no .pdf file", "it writes .html"),
                 ("show", "mlp.pbtxt", "-o", "s.svg"): ("-o with --as text writes no .svg file", "it writes .txt, .md"),
                 ("show", "mlp.pbtxt", "--as", "svg", "-o", "s.html"): ("-o with --as svg writes no .html file", "it writes .svg"),
                 ("show", "mlp.pbtxt", "--json", "-o", "s.csv"): ("-o with --as json writes no .csv file", "it writes .json"),
                 ("diff", "mlp.pbtxt", "mlp.pbtxt", "--as", "html", "-o", "d.json"): ("-o with --as html writes no .json file", "it writes .html"),
                 ("grad", "mlp.pbtxt", "--loss", "loss", "-o", "g.onnx"): ("-o writes no .onnx file", "it writes .pbtxt"),
                 ("compile", "mlp.pbtxt", "-o", "m.onnx"): ("-o m.onnx: without --emit opc compile writes plan", "give --emit onnx, or a name that ends in .plan"),
                 ("compile", "mlp.pbtxt", "--to", "shape", "-o", "m.plan"): ("without --emit opc compile writes mlir", "give --emit plan")}
        for command, words in known.items():
            done = self.opc(*command, code=2)
            for word in ("OPC0002", *words):
                self.assertIn(word, done.stderr, command)
            self.assertFalse(os.path.exists(os.path.join(self.folder, command[-1])), command)
        for command in (("report", "mlp.pbtxt", "-o", "page"), ("report", "mlp.pbtxt", "-o", "mlp.v2"), ("show", "mlp.pbtxt", "--json", "-o", "s.json"),
                        ("show", "mlp.pbtxt", "-o", "s.txt"), ("compile", "mlp.pbtxt", "--emit", "mlir", "-o", "m.txt")):
            self.opc(*command)
            self.assertTrue(os.path.exists(os.path.join(self.folder, command[-1])), command)

    def test_three_thousand_ops(self):
        self.file("big.pbtxt", big_graphs.chain(700))
        self.opc("grad", "big.pbtxt", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", "step.pbtxt")
        self.opc("report", "step.pbtxt", "-o", "big.html")
        self.assertLess(os.path.getsize(os.path.join(self.folder, "big.html")), 3 << 20)
        with open(os.path.join(self.folder, "big.html"), encoding="utf-8") as f:
            page, _ = self.page(f.read())
        self.assertGreater(sum(n[0] == KINDS.index("op") for n in page.data["nodes"]), 3000)


if __name__ == "__main__":
    unittest.main()
