# Reports in headless Chromium: nothing on the console, every part by keyboard alone, names that do nothing.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import big_graphs
import browser

BUILD, SOURCE = os.environ["OPC_BUILD_DIR"], os.environ["OPC_SOURCE_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
BIDI = "\u202ertl\u2066"
if not browser.PROGRAM:
    raise unittest.SkipTest("Chromium is not installed")
EVIL = {"fc1_bias": "</title></svg></script><script>document.title='broken'</script>", "relu1": '"><img src=x onerror=document.title=1>',
        "fc2": "</script><svg onload=document.title=2><foreignObject><iframe src=javascript:alert(1)>", "relu2": BIDI + "<b onmouseover=alert(1)>"}


def read(name):
    with open(os.path.join(DIGITS, name), encoding="utf-8") as f:
        return f.read()


def evil(text):
    for name, instead in EVIL.items():
        text = re.sub(rf'"{name}(["/])', lambda m, e=instead: '"' + e.replace('"', '\\"') + m.group(1), text)
    return text


class PagesInBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.file("mlp.pbtxt", read("mlp.pbtxt"))
        cls.file("training.pbtxt", read("mlp.pbtxt") + read("mlp_loss.pbtxt"))
        cls.file("evil.pbtxt", evil(read("mlp.pbtxt")))
        cls.opc("grad", "training.pbtxt", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "--shape", "image=64,64", "--shape", "label=64", "-o", "step.pbtxt")
        cls.opc("report", "step.pbtxt", "--mesh", "2x4", "-o", "step.html")
        cls.opc("report", "evil.pbtxt", "--mesh", "2", "-o", "evil.html")
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        shutil.rmtree(cls.folder)

    @classmethod
    def file(cls, name, text):
        with open(os.path.join(cls.folder, name), "w", encoding="utf-8") as f:
            f.write(text)

    @classmethod
    def opc(cls, *args, code=0):
        done = subprocess.run([OPC, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, cwd=cls.folder)
        assert done.returncode == code, (args, done.stdout[-2000:], done.stderr)
        return done

    def show(self, name, part=""):
        self.browser.open(os.path.join(self.folder, name), part)
        self.js, self.key = self.browser.js, self.browser.key

    def tearDown(self):
        self.browser.media()
        self.assertEqual(self.browser.problems, [])
        self.assertEqual([r for r in self.browser.requests if not r.startswith("file://" + self.folder)], [])

    def shown(self):
        """The parts that can be seen."""
        return self.js("[...document.querySelectorAll('[role=tabpanel]')].filter(s => s.offsetHeight > 0).map(s => s.id)")

    def tab_until(self, wanted, most=12):
        for _ in range(most):
            self.key("Tab")
            if wanted(self.browser.focused()):
                return self.browser.focused()
        self.fail("not reached by Tab: " + str(self.browser.focused()))

    def test_every_part_by_keyboard(self):
        self.show("step.html")
        ids = self.js("[...document.querySelectorAll('[role=tab]')].map(t => t.getAttribute('aria-controls'))")
        self.assertEqual(ids, ["summary", "graph", "ops", "memory", "timeline", "sbp", "tasks", "phases", "checks"])
        self.assertEqual(self.tab_until(lambda f: f[1] == "tab")[2], "tab-summary")
        seen = []
        for _ in ids:
            self.assertEqual(self.shown(), [self.browser.focused()[2][4:]])
            self.assertGreater(self.js("document.querySelector('[role=tabpanel]:not([hidden])').textContent.trim().length"), 20)
            seen += self.shown()
            self.key("ArrowRight")
        self.assertEqual(seen, ids)
        self.assertEqual(self.shown(), ["summary"])  # round and round
        self.key("End")
        self.assertEqual(self.shown(), ["checks"])
        self.key("Home")
        self.key("ArrowLeft")
        self.assertEqual(self.shown(), ["checks"])
        # Each tab says what it controls and whether it is chosen, and one alone is in the order of Tab.
        self.assertEqual(self.js("[...document.querySelectorAll('[role=tab]')].map(t => [t.tabIndex, t.getAttribute('aria-selected')]).filter(t => t[0] === 0)"), [[0, "true"]])

    def test_details_by_keyboard(self):
        self.show("step.html", "graph")
        self.tab_until(lambda f: f[1] == "tab")
        self.tab_until(lambda f: f[0] == "input")
        self.tab_until(lambda f: f[0] == "g")
        walked = []
        for _ in range(4):
            walked.append(self.browser.focused()[3].split(",")[0])
            self.key("ArrowDown")
        self.assertEqual(walked, ["image", "fc1", "fc1_bias", "relu1"])
        self.key("ArrowUp", times=3)
        self.key("Enter")
        panel = self.js("document.querySelector('aside').innerText")
        self.assertEqual(self.browser.focused()[0], "aside")
        for said in ("fc1", "matmul", "step.pbtxt:", "image f32[64,64]", "fc1_w f32[128,64]", "f32[64,128]", "transpose_b", "cpu/matmul/f32", "1,048,576 flops", "signature"):
            self.assertIn(said, panel)
        # From a neighbour in the panel to that neighbour, and back out.
        self.key("Tab")
        self.assertEqual(self.browser.focused()[0], "button")
        self.key("Escape")
        self.assertEqual(self.browser.focused()[3].split(",")[0], "fc1")
        self.assertTrue(self.js("document.querySelector('aside').hidden"))

    def test_backward_ops_stand_beside_their_forward_ops(self):
        with open(os.path.join(self.folder, "step.pbtxt"), encoding="utf-8") as f:
            links = re.findall(r'name: "([^"]+)"\n  pass_tag: "gradient_of:([^"]+)"', f.read())
        self.assertGreater(len(links), 8)
        self.show("step.html", "graph")
        tops = dict(self.js("[...document.querySelectorAll('.g g[role=button]')].map(g => [g.getAttribute('aria-label').split(',')[0], Math.round(g.getBoundingClientRect().top)])"))
        for op, of in links:
            self.assertEqual(tops[op], tops[of], (op, of))

    def test_transitions_on_edges(self):
        """Every transition's kind and bytes stand on an edge: the steps of one from a state to another are on one edge."""
        shown = json.loads(self.opc("show", "step.pbtxt", "--what", "boxing", "--mesh", "2x4", "--json").stdout)["sbp"]["transitions"]
        self.show("step.html", "graph")
        labels = ", ".join(self.js("[...document.querySelectorAll('.g .xt')].map(t => t.textContent)"))
        for kind in {t["kind"] for t in shown}:
            self.assertEqual(labels.count(kind), sum(t["kind"] == kind for t in shown), labels)
        self.assertIn("KiB", labels)

    def test_search(self):
        self.show("step.html", "graph")
        self.tab_until(lambda f: f[1] == "tab")
        self.tab_until(lambda f: f[0] == "input")
        self.browser.write("sgd_update")
        hits = self.js("[...document.querySelectorAll('.g .hit')].map(g => g.getAttribute('aria-label').split(',')[0])")
        self.assertEqual(len(hits), 6)  # variables of three layers
        self.assertIn("6 found", self.js("document.querySelector('#graph [role=status]').textContent"))
        self.key("Enter", times=2)
        self.assertIn("2 of 6", self.js("document.querySelector('#graph [role=status]').textContent"))
        self.show("step.html", "ops")
        self.tab_until(lambda f: f[1] == "tab")
        self.tab_until(lambda f: f[0] == "input")
        self.browser.write("relu")
        rows = self.js("[...document.querySelectorAll('#ops tbody tr')].filter(r => !r.hidden).map(r => r.cells[0].textContent)")
        self.assertEqual(sorted(rows), ["relu1", "relu1_grad_x", "relu2", "relu2_grad_x"])

    def test_memory_and_timeline_by_keyboard(self):
        for part in ("memory", "timeline"):
            self.show("step.html", part)
            self.tab_until(lambda f: f[1] == "tab")
            self.tab_until(lambda f: f[0] == "rect")
            before = self.browser.focused()[3]
            self.key("ArrowRight")
            after = self.browser.focused()[3]
            self.assertNotEqual(before, after)
            self.assertIn(after.split(":")[0], self.js(f"document.querySelector('#{part} [role=status]').textContent"))
        wide = self.js("document.querySelector('#timeline svg').getAttribute('width')")
        self.key("+")
        self.assertGreater(float(self.js("document.querySelector('#timeline svg').getAttribute('width')")), 1.5 * float(wide))

    def test_names_do_nothing(self):
        self.show("evil.html")
        title = self.js("document.title")
        for part in self.js("[...document.querySelectorAll('[role=tab]')].map(t => t.getAttribute('aria-controls'))"):
            self.show("evil.html", part)
            self.assertEqual(self.js("document.querySelectorAll('img,iframe,b,foreignObject,[onload],[onerror],[onmouseover]').length"), 0)
        self.show("evil.html", "graph")
        labels = self.js("[...document.querySelectorAll('.g [role=button]')].map(g => g.getAttribute('aria-label'))")
        for name in EVIL.values():
            self.assertTrue(any(label.startswith(name.replace("\u202e", "\\u202e").replace("\u2066", "\\u2066")) for label in labels), (name, labels))
        at = next(i for i, label in enumerate(labels) if label.startswith(EVIL["fc2"][:9]))
        self.js(f"document.querySelectorAll('.g [role=button]')[{at}].focus()")
        self.key("Enter")
        self.assertIn(EVIL["fc2"], self.js("document.querySelector('aside h3').textContent"))
        self.assertEqual(self.js("document.title"), title)
        self.assertEqual(self.js("document.scripts.length"), 2)
        # If a script came in all the same, the policy would not let it run.
        self.js("(() => { const s = document.createElement('script'); s.textContent = 'document.title = 3'; document.body.appendChild(s); })()")
        self.assertEqual(self.js("document.title"), title)
        self.assertEqual(len([p for p in self.browser.problems if "Content Security Policy" in p]), 1)
        self.browser.problems.clear()

    def test_difference(self):
        self.file("new.pbtxt", read("mlp.pbtxt").replace("relu1", "act1"))
        self.file("diff.html", self.opc("diff", "mlp.pbtxt", "new.pbtxt", "--as", "html", code=1).stdout)
        self.show("diff.html", "graph")
        self.assertEqual(self.js("[...document.querySelectorAll('.g .ren')].map(g => g.getAttribute('aria-label').split(',')[0])"), ["act1"])
        self.show("diff.html", "changes")
        self.tab_until(lambda f: f[1] == "tab")
        self.tab_until(lambda f: f[0] == "input")
        self.browser.write("nothing like it")
        self.assertEqual(self.js("[...document.querySelectorAll('#changes tbody tr')].filter(r => !r.hidden).length"), 0)

    def test_pages_of_every_kind(self):
        """Each part of each has something in it, and nothing goes wrong on the way."""
        self.file("tiny.pbtxt", 'op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 2 } data_type: kFloat } } }\nop { name: "y" output_conf { in: "x/out" } }\n')
        self.file("open.pbtxt", read("mlp.pbtxt").replace("dim: 360", "dim: -1"))
        self.opc("compile", "mlp.pbtxt", "-o", "m.plan")
        for graph in ("tiny.pbtxt", "open.pbtxt", "m.plan"):
            self.opc("report", graph, "-o", graph + ".html")
        self.opc("report", "step.pbtxt", "--mesh", "4", "--stage", "fc1*=0-1", "--stage", "*=2-3", "--micro-batches", "4", "-o", "pipeline.html")
        self.opc("run", "mlp.pbtxt", "--fill", "rand", "--report", "run.html")
        self.file("gone.pbtxt", re.sub(r'op \{\n  name: "relu2".*?\n\}\n', "", read("mlp.pbtxt"), flags=re.S).replace("relu2/y_0", "fc2_bias/out_0"))
        self.opc("diff", "mlp.pbtxt", "gone.pbtxt", "--as", "html", "-o", "gone.html", code=1)
        for page in ("tiny.pbtxt.html", "open.pbtxt.html", "m.plan.html", "pipeline.html", "run.html", "gone.html"):
            self.show(page)
            for part in self.js("[...document.querySelectorAll('[role=tab]')].map(t => t.getAttribute('aria-controls'))"):
                self.js(f"document.getElementById('tab-{part}').click()")
                self.assertGreater(self.js(f"document.getElementById('{part}').innerText.trim().length"), 10, (page, part))
            self.assertEqual(self.browser.problems, [], page)
            self.assertGreater(self.js("document.querySelectorAll('.g rect').length"), 1, page)
        self.assertEqual(self.js("[...document.querySelectorAll('.g .del')].map(g => g.getAttribute('aria-label').split(',')[0])"), ["relu2"])
        self.show("pipeline.html", "timeline")
        self.assertEqual(self.js("[...document.querySelectorAll('#timeline svg text')].map(t => t.textContent).filter(t => t.endsWith('stream 0'))"),
                         ["rank 0 (+1) stream 0", "rank 2 (+1) stream 0"])

    def test_dark_and_print(self):
        colors = {}
        for dark in (False, True):
            self.browser.media(dark=dark)
            self.show("step.html", "graph")
            colors[dark] = self.js("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('.g text')).fill]")
        self.assertEqual(colors, {False: ["rgb(255, 255, 255)", "rgb(89, 99, 110)"], True: ["rgb(13, 17, 23)", "rgb(145, 152, 161)"]})
        self.browser.media()
        self.show("step.html", "summary")
        self.js("dispatchEvent(new Event('beforeprint'))")
        self.browser.media(medium="print")
        self.assertEqual(len(self.shown()), 9)  # all parts below each other
        self.assertGreater(self.js("document.querySelectorAll('#graph .g rect').length"), 30)

    def test_large_graphs_begin_collapsed(self):
        self.file("big.pbtxt", big_graphs.chain(700))
        self.opc("grad", "big.pbtxt", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", "big_step.pbtxt")
        self.opc("report", "big_step.pbtxt", "-o", "big.html")
        self.show("big.html", "graph")
        boxes = lambda: self.js("document.querySelectorAll('.g [role=button]').length")
        first = boxes()
        self.assertTrue(20 < first <= 400, first)
        # What is there before the first look is small; other parts come when they are asked for.
        self.assertLess(self.js("document.getElementsByTagName('*').length"), 12000)
        self.assertEqual(self.js("document.querySelectorAll('#memory rect, #timeline rect, #ops td').length"), 0)
        self.tab_until(lambda f: f[1] == "tab")
        self.tab_until(lambda f: f[0] == "g")
        self.assertTrue(self.browser.focused()[3].startswith("group x ... "), self.browser.focused())
        self.key("Enter")
        self.assertGreater(boxes(), first)
        self.assertEqual(self.browser.focused()[3].split(",")[0], "x")
        self.key("-")
        self.assertEqual(boxes(), first)
        # A search opens what it goes to.
        self.js("document.querySelector('#graph .search').focus()")
        self.browser.write("act345")
        self.key("Enter")
        self.assertEqual(self.js("[...document.querySelectorAll('.g .sel')].map(g => g.getAttribute('aria-label').split(',')[0])"), ["act345"])

    def test_groups_are_parts_of_names(self):
        text = read("mlp.pbtxt")
        for name in ("fc1", "fc1_bias", "relu1"):
            text = re.sub(rf'"{name}(["/])', rf'"block/one/{name}\1', text)
        self.file("grouped.pbtxt", text)
        self.opc("report", "grouped.pbtxt", "-o", "grouped.html")
        self.show("grouped.html", "graph")
        boxes = self.js("document.querySelectorAll('.g [role=button]').length")
        self.js("[...document.querySelectorAll('#graph button')].find(b => b.textContent === 'collapse all').click()")
        labels = self.js("[...document.querySelectorAll('.g [role=button]')].map(g => g.getAttribute('aria-label'))")
        self.assertEqual(len(labels), boxes - 2)
        self.assertIn("group block, 3 ops: matmul x1 bias_add x1 relu x1", labels)


if __name__ == "__main__":
    unittest.main()
