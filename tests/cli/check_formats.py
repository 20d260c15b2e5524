# The forms of opc check's findings: each is what its readers take, holds every finding once, and lets no name of a graph through.
# SPDX-License-Identifier: Apache-2.0
import copy
import hashlib
import json
import os
import re
import shutil
import subprocess
import unittest
import xml.etree.ElementTree as xml

from check_cases import GRAPH, KEPT_OUT, OPC, Checks

try:
    import jsonschema
except ImportError:
    jsonschema = None

# A name that every form would trip over, were it not escaped.
HOSTILE = 'a%0A,:b|<script>"&\u00e9`]]>'

# From https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
GITLAB = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "not": {"pattern": "^\\./"}},
                    "lines": {"type": "object", "required": ["begin"], "properties": {"begin": {"type": "integer", "minimum": 1}}},
                },
            },
        },
    },
}

# What of SARIF 2.1.0 (OASIS Standard, 27 March 2020) opc writes: sections 3.13 to 3.30.
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["tool", "results"],
                "properties": {
                    "originalUriBaseIds": {
                        "type": "object",
                        "additionalProperties": {"type": "object", "additionalProperties": False, "properties": {"uri": {"type": "string"}, "description": {"type": "object", "required": ["text"]}}},
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "additionalProperties": False,
                                            "required": ["id"],
                                            "properties": {
                                                "id": {"type": "string"},
                                                "shortDescription": {"type": "object", "required": ["text"]},
                                                "help": {"type": "object", "required": ["text"]},
                                                "defaultConfiguration": {"type": "object", "properties": {"level": {"enum": ["none", "note", "warning", "error"]}}},
                                                "properties": {"type": "object"},
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["message", "ruleId"],
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": -1},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}},
                                "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
                                "locations": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "required": ["physicalLocation"],
                                        "properties": {
                                            "physicalLocation": {
                                                "type": "object",
                                                "required": ["artifactLocation"],
                                                "properties": {
                                                    "artifactLocation": {"type": "object", "required": ["uri"], "properties": {"uri": {"type": "string", "pattern": "^[A-Za-z0-9._~/%:-]+$"}}},
                                                    "region": {
                                                        "type": "object",
                                                        "additionalProperties": False,
                                                        "required": ["startLine"],
                                                        "properties": {k: {"type": "integer", "minimum": 1} for k in ("startLine", "startColumn", "endLine", "endColumn")},
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}

# From https://github.com/testmoapp/junitxml: the elements that readers agree on, their attributes, those that must be there.
JUNIT = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, {"tests", "failures"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time"}, {"name", "tests", "failures"}, {"testcase"}),
    "testcase": ({"name", "classname", "time", "file", "line"}, {"name", "classname"}, {"failure", "system-out"}),
    "failure": ({"type", "message"}, {"message"}, set()),
    "system-out": (set(), set(), set()),
}


def junit_faults(text):
    """What is wrong with a JUnit file."""
    try:
        root = xml.fromstring(text)
    except xml.ParseError as e:
        return [str(e)]
    faults = [] if root.tag == "testsuites" else [f"the root is {root.tag}"]

    def look(element):
        allowed, wanted, children = JUNIT.get(element.tag, (set(), set(), set()))
        faults.extend(f"{element.tag} has {a}" for a in set(element.attrib) - allowed)
        faults.extend(f"{element.tag} has no {a}" for a in wanted - set(element.attrib))
        for child in element:
            if child.tag not in children:
                faults.append(f"{element.tag} holds {child.tag}")
            look(child)
        for kind, found in (("tests", "testcase"), ("failures", "failure")):
            if element.tag.startswith("testsuite") and element.get(kind) != str(len(list(element.iter(found)))):
                faults.append(f"{element.tag}: {kind} is {element.get(kind)}")

    look(root)
    return faults


def unescaped(text):
    """As GitHub's runner reads a property or message back."""
    return re.sub("%(0D|0A|3A|2C|25)", lambda m: chr(int(m[1], 16)), text)


class Formats(Checks):
    def setUp(self):
        super().setUp()
        hostile = HOSTILE.replace("\\", "\\\\").replace('"', '\\"')
        self.write("g.pbtxt", GRAPH.replace('"act"', f'"{hostile}"').replace('"act/y_0"', f'"{hostile}/y_0"'))
        self.check("g.pbtxt", "--update")
        self.write("g.pbtxt", self.read("g.pbtxt").replace('"relu"', '"tanh"').replace("value: 0.5", "value: 0.75"))
        self.write("sub dir/new.pbtxt", GRAPH)
        self.write("bad.pbtxt", GRAPH.replace('"relu"', '"reluu"'))

    def all_findings(self):
        return self.findings(".", code=3)

    def report(self, form):
        self.check(".", "--report", f"{form}=out/../report.{form}", code=2)  # no folder of that name
        self.check(".", "--report", f"{form}=report.{form}", "-q", code=3)
        text = self.read(f"report.{form}")
        self.assertEqual(self.check(".", "--format", form, code=3).stdout, text)
        return text

    def test_several_reports_in_one_run(self):
        self.check(".", "--report", "junit=a.xml", "--report", "sarif=b.sarif", "--report", "json=c.json", "--report", "text=d.txt", code=3)
        self.assertEqual(json.loads(self.read("c.json"))["findings"], self.all_findings())
        self.assertIn("error[OP_TYPE_CHANGED]", self.read("d.txt"))
        for name in ("a.xml", "b.sarif"):
            self.assertTrue(self.read(name))

    def test_jsonl(self):
        self.assertEqual([json.loads(x) for x in self.report("jsonl").splitlines()], self.all_findings())

    @unittest.skipUnless(jsonschema, "python3-jsonschema is not installed")
    def test_gitlab(self):
        document = json.loads(self.report("gitlab"))
        validator = jsonschema.Draft202012Validator(GITLAB)
        validator.validate(document)
        self.assertEqual([d["check_name"] for d in document], [f["rule"] for f in self.all_findings()])
        self.assertEqual(len({d["fingerprint"] for d in document}), len(document))
        for break_it in (lambda d: d[0].pop("fingerprint"), lambda d: d[0].update(severity="error"), lambda d: d[0]["location"]["lines"].update(begin="1")):
            broken = copy.deepcopy(document)
            break_it(broken)
            self.assertFalse(validator.is_valid(broken))

    @unittest.skipUnless(jsonschema, "python3-jsonschema is not installed")
    def test_sarif(self):
        document = json.loads(self.report("sarif"))
        validator = jsonschema.Draft202012Validator(SARIF)
        validator.validate(document)
        results, rules = document["runs"][0]["results"], document["runs"][0]["tool"]["driver"]["rules"]
        findings = self.all_findings()
        self.assertEqual([(r["ruleId"], r["level"]) for r in results], [(f["rule"], f["severity"]) for f in findings])
        for result, finding in zip(results, findings):
            self.assertEqual(rules[result["ruleIndex"]]["id"], result["ruleId"])
            region = result["locations"][0]["physicalLocation"]["region"]
            self.assertEqual(region["startLine"], finding["source"]["line"] if finding["source"] else 1)
        uris = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results}
        self.assertIn("sub%20dir/new.pbtxt", uris)
        prints = [r["partialFingerprints"]["opcFinding/v1"] for r in results]
        self.assertEqual(len(set(prints)), len(prints))
        # The same alert when lines move.
        self.write("g.pbtxt", "# a comment\n" + self.read("g.pbtxt"))
        again = json.loads(self.report("sarif"))["runs"][0]["results"]
        self.assertEqual([r["partialFingerprints"] for r in again], [r["partialFingerprints"] for r in results])
        for break_it in (lambda d: d.update(version="2.0.0"), lambda d: d["runs"][0].pop("tool"), lambda d: d["runs"][0]["results"][0].pop("message")):
            broken = copy.deepcopy(document)
            break_it(broken)
            self.assertFalse(validator.is_valid(broken))

    def test_columns_of_sarif(self):
        """In code units of UTF-16, as the report says that they are: an a with an accent is one, a smiling face two."""
        tail = GRAPH.splitlines()[4]
        self.write("u.pbtxt", GRAPH.replace(tail, '# x\nop { name: "\u00e1\U0001f600" input_conf { out: "out" blob_conf { shape { dim: 2 } data_type: kFloat } } } ' + tail))
        found = json.loads(self.check("u.pbtxt", "--update", "--format", "sarif").stdout)["runs"][0]["results"]
        self.check("u.pbtxt", "--update")
        self.write("u.pbtxt", self.read("u.pbtxt").replace('name: "y"', 'name: "z"'))
        results = json.loads(self.check("u.pbtxt", "--format", "sarif", code=1).stdout)["runs"][0]["results"]
        line = self.read("u.pbtxt").splitlines()[5]
        region = [r for r in results if r["ruleId"] == "OUTPUT_REMOVED"][0]["locations"][0]["physicalLocation"]["region"]
        units = len(line[:line.index('op { name: "z"')].encode("utf-16-le")) // 2
        self.assertEqual((region["startLine"], region["startColumn"], region["endColumn"]), (6, units + 1, len(line.encode("utf-16-le")) // 2 + 1))
        self.assertEqual({r["ruleId"] for r in found}, {"UNUSED_INPUT", "LOCK_MISSING"})

    def test_sarif_by_its_own_tool(self):
        tool = os.environ.get("OPC_SARIF_MULTITOOL") or shutil.which("sarif-multitool")
        if not tool:
            self.skipTest("sarif-multitool is not installed (npm: @microsoft/sarif-multitool-linux)")
        self.report("sarif")
        done = subprocess.run([tool, "validate", "report.sarif", "--output", "found.sarif"], cwd=self.folder, capture_output=True, text=True)
        with open(self.path("found.sarif"), encoding="utf-8-sig") as f:
            found = json.load(f)["runs"][0].get("results", [])
        self.assertEqual([r for r in found if r.get("level", "warning") == "error"], [], done.stdout)

    def test_junit(self):
        text = self.report("junit")
        self.assertEqual(junit_faults(text), [])
        root = xml.fromstring(text)
        failed = {(c.get("classname"), c.get("name")) for c in root.iter("testcase") if c.find("failure") is not None}
        self.assertEqual(failed, {(f["graph"], f["rule"]) for f in self.all_findings() if f["severity"] == "error"})
        passed = [c.get("name") for c in root.iter("testcase") if c.get("classname") == "g.pbtxt" and len(c) == 0]
        self.assertIn("INPUT_REMOVED", passed)  # what passes is counted, too
        self.assertIn(HOSTILE, "".join(root.itertext()))
        for old, new in (("<testsuite name=", "<testsuite nam="), ("</testsuites>", ""), ("<testcase ", "<test "), ('failures="', 'failures="9')):
            self.assertTrue(junit_faults(text.replace(old, new, 1)), (old, new))

    def test_github(self):
        lines = self.report("github").splitlines()
        findings = self.all_findings()
        self.assertEqual(len(lines), len(findings))  # no name breaks a line
        for line, finding in zip(lines, findings):
            match = re.fullmatch(r"::(error|warning|notice) file=([^,:]*),line=(\d+)(?:,endLine=\d+)?,title=([^,:]*)::(.*)", line)
            self.assertTrue(match, line)
            self.assertEqual(match[1], {"note": "notice"}.get(finding["severity"], finding["severity"]))
            self.assertEqual(unescaped(match[2]), finding["graph"])
            self.assertEqual(unescaped(match[4]), "OPC " + finding["rule"])
            self.assertIn(finding["message"], unescaped(match[5]))
        self.assertIn(HOSTILE.replace("%", "%25"), "\n".join(lines))

    def test_in_a_workflow_of_github(self):
        self.write("summary.md", "before\n")
        env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": self.path("summary.md")}
        done = self.check(".", code=3, env=env)
        self.assertIn("\n::error file=", done.stdout)
        self.assertIn("error[OP_TYPE_CHANGED]", done.stdout)
        self.assertEqual(self.read("summary.md"), "before\n" + self.report("markdown"))
        self.assertNotIn("::error", self.check(".", code=3).stdout)

    def test_markdown(self):
        text = self.report("markdown")
        rows = [x for x in text.splitlines() if x.startswith("| ") and not x.startswith("| |")]
        self.assertEqual(len(rows), len(self.all_findings()))
        for row in rows:
            self.assertEqual(len(re.findall(r"(?<!\\)\|", row)), 5, row)
        self.assertNotIn("<script>", text)
        for before in ("", "a"):  # a long text ends between two characters, and not within one
            self.write("long.pbtxt", GRAPH.replace('"relu"', '"' + before + "\u00e9" * 300 + '"'))
            cut = next(x for x in self.check("long.pbtxt", "--format", "markdown", code=3).stdout.splitlines() if "\u00e9..." in x)
            self.assertNotIn("\ufffd", cut)

    def test_names_of_files_are_no_commands(self):
        """To a runner of GitHub a line that begins with :: is a command: no name of a file begins one, in any format, nor in other commands."""
        name, broken, folder = "z\n::error::graph.pbtxt", "y\n::error::broken.pbtxt", "x\n::error::folder"
        self.write(name, GRAPH)
        self.write(broken, "op {")
        self.write(f"{folder}/g.pbtxt", GRAPH)
        self.write(f"{folder}/old.opc.lock", "{}")
        files = [name, broken, f"{folder}/g.pbtxt", folder, name + ".nowhere"]
        calls = [["check", "--format", f, "."] for f in ("text", "json", "jsonl", "markdown", "github", "gitlab", "junit", "sarif")] + [["check", "."], ["check", ".", "--update"], ["diff", name, broken]]
        for command in ("run", "show", "check", "grad", "bench", "verify", "plugin check", "debug replay", "diff"):
            calls += [[*command.split(), f] for f in files]
        calls += [["compile", name, "-o", f"{name}.plan"], ["run", name, "--weights", broken], ["run", name, "--report", f"{name}.html"], ["report", name]]
        for words in calls:
            with self.subTest(words=words):
                done = subprocess.run([OPC, *words], capture_output=True, text=True, timeout=60, cwd=self.folder, stdin=subprocess.DEVNULL,
                                      env={**{k: v for k, v in os.environ.items() if k not in KEPT_OUT}, "GITHUB_ACTIONS": "true"})
                lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
                injected = [line for line in lines if line.startswith(("::error::graph", "::error::broken", "::error::folder"))]
                self.assertEqual(injected, [], (done.stdout, done.stderr))


# What each form calls the files of its findings.
CALLED = {
    "github": lambda text: re.findall(r"^::\w+ file=([^,]*),", text, re.M),
    "gitlab": lambda text: [f["location"]["path"] for f in json.loads(text)],
    "sarif": lambda text: [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in json.loads(text)["runs"][0]["results"]],
}


class Places(Checks):
    """What a runner shows beside the code is called by its way from the top of the repository, wherever opc runs and however a graph is named."""

    def setUp(self):
        super().setUp()
        self.write("repo/.git/HEAD", "ref: refs/heads/main\n")  # git is not asked, and need not be there
        self.write("repo/nets/in/a b.pbtxt", GRAPH)
        self.write("alone/a.pbtxt", GRAPH)

    def text(self, form, *args, cwd="", env=None):
        return self.check("-C", self.path(cwd), *args, "--format", form, code=1, env=env).stdout

    def called(self, form, *args, **where):
        """The one file that the form names."""
        name, = set(CALLED[form](self.text(form, *args, **where)))
        return name

    def spellings(self):
        graph = self.path("repo/nets/in/a b.pbtxt")
        for cwd, name in (("repo", "nets/in/a b.pbtxt"), ("repo", "./nets//in/../in/a b.pbtxt"), ("repo/nets", "in/a b.pbtxt"), ("repo/nets", "."), ("repo/nets/in", "a b.pbtxt"),
                          ("alone", graph), ("alone", "../repo/nets/in/a b.pbtxt"), ("", graph), ("", "repo")):
            yield {"cwd": cwd}, name

    def test_from_the_top_of_the_repository(self):
        for where, name in self.spellings():
            for form in CALLED:
                with self.subTest(form=form, name=name, **where):
                    self.assertEqual(self.called(form, name, **where), "nets/in/a b.pbtxt".replace(" ", "%20" if form == "sarif" else " "))
        run = json.loads(self.text("sarif", "in", cwd="repo/nets"))["runs"][0]
        self.assertEqual({r["locations"][0]["physicalLocation"]["artifactLocation"]["uriBaseId"] for r in run["results"]}, {"%SRCROOT%"})
        self.assertEqual(list(run["originalUriBaseIds"]), ["%SRCROOT%"])
        self.assertNotIn(self.folder, json.dumps(run))  # nothing of this machine

    def test_fingerprints(self):
        """An alert is the same however its graph is named, and those of one op in two graphs are two."""
        self.write("repo/nets/b.pbtxt", GRAPH)
        for form, prints in (("gitlab", lambda d: [f["fingerprint"] for f in d]), ("sarif", lambda d: [r["partialFingerprints"]["opcFinding/v1"] for r in d["runs"][0]["results"]])):
            seen = {print_ for where, name in self.spellings() if "." in name[1:] for print_ in prints(json.loads(self.text(form, name, **where)))}
            # As 0.1.0 made them in the repository's top: rule, graph, op, tensor, and how many there were before.
            self.assertEqual(seen, {hashlib.sha256(b"LOCK_MISSING\nnets/in/a b.pbtxt\n\n\n0").hexdigest()[:32]})
            both = prints(json.loads(self.text(form, ".", cwd="repo/nets")))
            self.assertEqual(len(set(both)), 2)
            self.assertLessEqual(seen, set(both))

    def test_in_the_folder_that_ci_names(self):
        """Without a repository in it as well, as where it was unpacked; another variable, and another folder, say nothing."""
        for form, variable, other in (("github", "GITHUB_WORKSPACE", "CI_PROJECT_DIR"), ("sarif", "GITHUB_WORKSPACE", "CI_PROJECT_DIR"), ("gitlab", "CI_PROJECT_DIR", "GITHUB_WORKSPACE")):
            for name, top, wanted in ((variable, "alone/..", "alone/a.pbtxt"), (variable, "alone", "a.pbtxt"), (other, "", "a.pbtxt"), (variable, "repo", "a.pbtxt"), (variable, "nowhere", "a.pbtxt")):
                for graph in ("a.pbtxt", self.path("alone/a.pbtxt")):
                    self.assertEqual(self.called(form, graph, cwd="alone", env={name: self.path(top)}), wanted, (form, name, top))
            # A checkout in a part of that folder, and a submodule in a checkout.
            self.write("repo/sub/.git", "gitdir: ../.git/modules/sub\n")
            self.write("repo/sub/c.pbtxt", GRAPH)
            for env, wanted in (({variable: self.folder}, "sub/c.pbtxt"), ({variable: self.path("repo")}, "sub/c.pbtxt"), ({}, "c.pbtxt")):
                self.assertEqual(self.called(form, "repo/sub/c.pbtxt", env=env), wanted, (form, env))

    def test_in_no_repository(self):
        for form in CALLED:
            for cwd, name, wanted in (("alone", "./a.pbtxt", "a.pbtxt"), ("alone", self.path("alone/a.pbtxt"), "a.pbtxt"), ("", "repo/../alone/a.pbtxt", "alone/a.pbtxt"), ("repo", "../alone/./a.pbtxt", "../alone/a.pbtxt"),
                                      ("repo", self.path("alone/a.pbtxt"), ("file://" if form == "sarif" else "") + self.path("alone/a.pbtxt"))):
                self.assertEqual(self.called(form, name, cwd=cwd), wanted, (form, name))
        self.assertNotIn("SRCROOT", self.text("sarif", "a.pbtxt", cwd="alone"))

    def test_what_people_read_says_what_they_wrote(self):
        for form in ("text", "markdown", "jsonl", "junit"):
            self.assertIn("./in/../in/a b.pbtxt", self.text(form, "./in/../in/a b.pbtxt", cwd="repo/nets"))


if __name__ == "__main__":
    unittest.main()
