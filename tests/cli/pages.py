# opc report and opc diff as pages and drawings: what they say, that names stay names, and that a browser shows them.
# SPDX-License-Identifier: Apache-2.0
import html.parser
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree as xml

import big_graphs

BUILD, SOURCE = os.environ["OPC_BUILD_DIR"], os.environ["OPC_SOURCE_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
SVG = "{http://www.w3.org/2000/svg}"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE = 10 if os.environ.get("OPC_SANITIZE") else 1


def read(name):
    with open(os.path.join(DIGITS, name), encoding="utf-8") as f:
        return f.read()


MLP = read("mlp.pbtxt")
HOSTILE = {"fc1_bias": "</title></svg><script>alert(1)</script>", "relu1": '"><img src=x onerror=alert(1)>', "fc2": "</pre></style><b>' & &amp;"}


def hostile(text):
    for name, evil in HOSTILE.items():
        text = re.sub(rf'"{name}(["/])', lambda m, e=evil: '"' + e.replace('"', '\\"') + m.group(1), text)
    return text


class Elements(html.parser.HTMLParser):
    """The elements of a page with their attributes, and its text."""
    VOID = {"meta", "input"}

    def __init__(self, text):
        super().__init__()
        self.seen, self.open, self.words = [], [], []
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
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.file("mlp.pbtxt", MLP)
        self.file("evil.pbtxt", hostile(MLP))

    def file(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(text)
        return name

    def opc(self, *args, code=0):
        done = subprocess.run([OPC, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, cwd=self.folder)
        self.assertEqual(done.returncode, code, (args, done.stdout[-2000:], done.stderr))
        return done

    def page(self, text):
        """Its elements, after what holds for every page."""
        page = Elements(text)
        self.assertEqual(page.open, [])
        tags = {tag for tag, _ in page.seen}
        self.assertFalse(tags & {"img", "link", "iframe", "object", "embed", "base", "form", "b", "a", "image", "use", "foreignobject"}, tags)
        self.assertEqual(sum(tag == "script" for tag, _ in page.seen), 1)
        for tag, attrs in page.seen:
            self.assertFalse({a for a in attrs if a.startswith("on") or a in ("src", "href", "xlink:href", "srcdoc", "style")}, (tag, attrs))
        policy = next(a["content"] for tag, a in page.seen if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy")
        self.assertTrue(policy.startswith("default-src 'none'"))
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
        self.assertEqual(tabs, ["summary", "graph", "ops", "memory", "tasks"])
        words = "".join(page.words)
        for said in ("operations     12,686,804 flops", "cpu/matmul/f32", "f32[128,64]", "5,898,240", "mlp.pbtxt:14"):
            self.assertIn(said, words)
        meshes = [self.opc("report", "mlp.pbtxt", "--mesh", "2", "-o", "-").stdout for _ in range(2)]
        self.assertEqual(*meshes)
        self.assertIn("sbp", self.page(meshes[0])[1])
        self.opc("compile", "mlp.pbtxt", "-o", "m.plan")
        self.page(self.opc("report", "m.plan", "-o", "-").stdout)

    def test_open_sizes(self):
        self.file("open.pbtxt", MLP.replace("dim: 360", "dim: -1"))
        done = self.opc("report", "open.pbtxt", "-o", "-")
        self.assertIn("neither plan nor cost: inputs leave dimensions open", done.stderr)
        self.assertEqual(self.page(done.stdout)[1], ["summary", "graph", "ops"])

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
                self.assertIn(evil, "".join(page.words))
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

    def training_step(self, ops):
        self.file("big.pbtxt", big_graphs.chain(ops))
        self.opc("grad", "big.pbtxt", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", "step.pbtxt")
        return "step.pbtxt"

    def test_three_thousand_ops(self):
        with open(os.path.join(self.folder, self.training_step(700)), encoding="utf-8") as f:
            self.assertGreater(f.read().count("user_conf"), 3000)
        self.opc("report", "step.pbtxt", "-o", "big.html")
        self.assertLess(os.path.getsize(os.path.join(self.folder, "big.html")), 3 << 20)
        with open(os.path.join(self.folder, "big.html"), encoding="utf-8") as f:
            self.page(f.read())

    @unittest.skipUnless(BROWSER, "Chromium is not installed")
    def test_in_a_browser(self):
        self.opc("report", "evil.pbtxt", "--mesh", "2", "-o", "evil.html")
        self.opc("report", self.training_step(700), "-o", "big.html")
        for name in ("evil.html", "big.html"):
            start = time.monotonic()
            done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--user-data-dir=" + os.path.join(self.folder, "profile"),
                                   "--dump-dom", "file://" + os.path.join(self.folder, name)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
            seconds = time.monotonic() - start
            self.assertIn('data-ready="yes"', done.stdout, done.stderr[-2000:])
            self.assertNotIn("CONSOLE", done.stderr)
            self.assertEqual(done.stdout.count('aria-selected="true"'), 1)
            self.assertLess(seconds, 20 * PATIENCE)  # with the browser's own start


if __name__ == "__main__":
    unittest.main()
