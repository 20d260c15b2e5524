"""Parts of pages that follow from the code: commands, options, exit codes, settings, tests, packages, records (tools/dev/docs.py)."""
# SPDX-License-Identifier: Apache-2.0
import functools
import glob
import json
import os
import re
import subprocess

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


class Build:
    """A build tree, asked for what it knows."""

    def __init__(self, path):
        self.path = path

    def run(self, *command):
        # Settings and the terminal of whoever writes the pages do not show in them.
        env = {k: v for k, v in os.environ.items() if not k.startswith("OPC_")} | {"NO_COLOR": "1", "COLUMNS": "100"}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=env, cwd=ROOT).stdout

    def opc(self, *arguments):
        return self.run(os.path.join(self.path, "bin", "opc"), "--config", "none", *arguments)

    @functools.cached_property
    def cli(self):
        """What the program says of its command line: `opc __commands`."""
        return json.loads(self.opc("__commands"))

    @functools.cached_property
    def tests(self):
        """[(name, command, labels)] of ctest's entries, in its order. It leaves out commands that are not built yet: its own files
        have them."""
        commands = {}
        for path in glob.glob(os.path.join(self.path, "**", "CTestTestfile.cmake"), recursive=True):
            with open(path, encoding="utf-8") as f:
                for name, words in re.findall(r"^add_test\(\[=*\[(.*?)\]=*\] (.*)\)$", f.read(), re.M):
                    commands[name] = re.findall(r'"((?:[^"\\]|\\.)*)"', words)
        found = []
        for test in json.loads(self.run("ctest", "--test-dir", self.path, "--show-only=json-v1"))["tests"]:
            labels = next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])
            found.append((test["name"], commands[test["name"]], labels))
        return found


def cell(text):
    """Text inside a table: no bars, no line ends; outside of code no emphasis and no tags."""
    parts = re.sub(r"\s+", " ", text).replace("|", "\\|").strip().split("`")
    return "`".join(p if i % 2 else re.sub(r"([*<])", r"\\\1", p) for i, p in enumerate(parts))


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows]) + "\n"


def code(text):
    return "`" + text.replace("|", "\\|") + "`"


def bounds(option):
    """"; from 1 to 4096": what a number may be, where that is not any."""
    if "above" in option:
        return f"; above {option['above']:g}"
    return (f"; from {option['least']:.15g}" if "least" in option else "") + (f" to {option['most']:.15g}" if "most" in option else "")


def option_table(options):
    rows = []
    for o in options:
        names = [f"-{o['letter']}"] * bool(o["letter"]) + [o["name"]] * bool(o["name"])
        value = (o["value"] if o["value"].startswith("[=") else " " + o["value"]) if o["value"] else ""
        rows.append((", ".join(code(n) for n in names[:-1] + [names[-1] + value]), cell(o["doc"] + bounds(o))))
    return table(("option", "meaning"), rows)


def commands(build):
    return table(("command", "what it does"), [(code(c["name"]), cell(c["summary"])) for c in build.cli["commands"] if not c["hidden"]])


def common_options(build):
    return option_table(build.cli["common_options"])


def options(build, *command):
    return option_table(next(c["options"] for c in build.cli["commands"] if c["name"] == " ".join(command)))


def exit_codes(build):
    rows = re.findall(r"^ +(\d+(?:, \d+)*) +(.*)$", build.opc("explain", "exit-codes"), re.M)
    lacking = {str(c["code"]) for c in build.cli["exit_codes"]} - {code for row in rows for code in row[0].split(", ")}
    if lacking:
        raise ValueError(f"opc explain exit-codes (docs/errors.md) lacks {', '.join(sorted(lacking))}")
    return table(("code", "meaning"), [(n, cell(d)) for n, d in rows])


def settings(build):
    rows = [(code(s["name"]), code(s["environment"]) if s["environment"] else "-", code(s["option"]) if s["option"] else "-", cell(s["doc"]), cell(s["default"])) for s in build.cli["settings"]]
    return table(("setting", "variable", "flag", "meaning", "default"), rows)


def head(path):
    """The first sentence of a file's head comment."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = f.read(2000)
    if quoted := re.match(r'(?:#!.*\n)?"""(.*?)(?:"""|\n\n|\nusage)', text, re.S):
        comment = quoted.group(1)
    else:
        lines = []
        for line in text.split("\n"):
            if line.startswith("#!"):
                continue
            found = re.match(r"(?://|#) ?(.*)", line)
            if not found or "SPDX" in line:
                break
            lines.append(found.group(1))
        comment = " ".join(lines)
    comment = re.sub(r"\s+", " ", comment).strip()
    return re.split(r"\. |; | usage: ", comment)[0].rstrip(".:;")


def executables():
    """executable -> its main source, from the lists of the build."""
    found = {}
    for path in glob.glob(os.path.join(ROOT, "tests", "**", "CMakeLists.txt"), recursive=True):
        with open(path, encoding="utf-8") as f:
            for name, source in re.findall(r"add_executable\((\w+) (\S+\.cpp)", f.read()):
                found[name] = os.path.relpath(os.path.join(os.path.dirname(path), source), ROOT)
    return found


# What has no source of its own with a head that says it.
PROGRAMS = {
    "opc_unit_tests": ("tests/unit", "one Catch2 program; `build/bin/opc_unit_tests \"[tag]\"` runs some of it"),
    "opc_gpusim_tests": ("tests/gpusim", "The PTX simulator against formulas: instructions, matrices, launches, text that is no PTX"),
    "ir": ("tests/ir", "lit and FileCheck on passes, with `opc-opt`"),
    "cli": ("tests/cli", "lit and FileCheck on the command `opc`"),
    "verify_sim": ("kernels", "every kernel for GPUs on the simulated one beside the CPU's, with each tensor in memory of its own"),
    "opc": ("kernels", "every SBP signature that an operator declares, proven by execution"),
}


def described(test, command, mains):
    """(where, what) of an entry."""
    scripts = [os.path.relpath(c, ROOT) for c in command[1:] if c.endswith(".py") and not c.endswith("run_script.py")]
    if scripts:
        return scripts[0], head(scripts[0])
    program = os.path.basename(command[0])
    for name in (test, program):
        if name in PROGRAMS:
            return PROGRAMS[name]
    return mains[program], head(mains[program])


def tests(build):
    """One row for what has one command and one source: damage_cnn and damage_mlp share theirs."""
    mains, groups = executables(), {}
    for name, command, labels in build.tests:
        groups.setdefault((described(name, command, mains), tuple(labels)), []).append(name)
    rows = []
    for ((where, what), labels), names in groups.items():
        rows.append((", ".join(code(n) for n in names), cell(what), code(where), " ".join(labels)))
    return table(("test", "what it does", "where", "labels"), rows)


def packages(build, group):
    rows = []
    for line in build.run(os.path.join(ROOT, "tools", "dev", "setup.sh"), "--table").strip().split("\n"):
        name, listed, version, licence, purpose = [x.strip() for x in line.split(" | ", 4)]
        if name == group:
            rows.append((", ".join(listed.split()), version, purpose, licence))
    return table(("package", "version", "for", "licence"), rows)


def records(build):
    rows = []
    folder = os.path.join(ROOT, "docs", "adr")
    for name in sorted(n for n in os.listdir(folder) if re.match(r"\d{4}-", n)):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            lines = f.read().split("\n")
        rows.append((f"[{name[:4]}]({name})", lines[0][len("# 0000: ") :], lines[2][len("Status: ") :].split(",")[0]))
    return table(("record", "decision", "status"), rows)


def onnx_ops(build):
    """The ONNX ops that opc imports."""
    rows = ["| ONNX op | operator sets | becomes | refused |", "|---|---|---|---|"]
    for op in build.cli["onnx_ops"]:
        name = op["domain"] + "." + op["op"] if op["domain"] else op["op"]
        versions = ", ".join(str(v) for v in op["versions"])
        rows.append(f"| {name} | {versions} | {op['becomes']} | {op['refuses']} |")
    return "\n".join(rows)


def onnx_exports(build):
    """The ops that opc writes as ONNX."""
    ops = build.cli["onnx_exports"]
    rows = ["| op | becomes | note |", "|---|---|---|"]
    rows += [f"| {o['op']} | {o['becomes']} | {o['note']} |" for o in ops if o["becomes"] not in ("", "its expression")]
    names = ", ".join(o["op"] for o in ops if o["becomes"] == "its expression")
    none = ", ".join(o["op"] for o in ops if not o["becomes"])
    return "\n".join(rows) + f"\n\nNode by node, as `opc ops show NAME` prints it: {names}; and elementwise ops of plugins.\n\nWithout a form, nodes of the domain `opc`: {none}; and all other ops of plugins."


PARTS = {
    "commands": commands,
    "common-options": common_options,
    "options": options,
    "exit-codes": exit_codes,
    "settings": settings,
    "tests": tests,
    "packages": packages,
    "records": records,
    "onnx-ops": onnx_ops,
    "onnx-exports": onnx_exports,
}
