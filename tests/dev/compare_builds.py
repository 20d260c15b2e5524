#!/usr/bin/env python3
# Whether two builds of opc do the same: outputs bit for bit, plans, messages and gradient graphs of many graphs.
#
#   tests/dev/compare_builds.py OLD NEW [--quick] [--kinds registry,example,network,model] [--only REGEX]
#                               [--allow REGEX]... [--ignore REGEX]... [--jobs N] [--json FILE]
#
# OLD and NEW are build folders or opc commands. The graphs are made here: the examples, every case of every operator that
# both builds know, in every element type of its kernels, random networks of what fusion joins, the bench models. Each is
# compiled and run by both on one thread with the same values, and differentiated. Compared are
#
#   outputs     the bits of every output
#   tasks       order, arguments, attributes, streams, placements of tasks
#   kernels     which kernel each task has
#   memory      arenas, registers with their offsets, tensors
#   peak        bytes of the arenas
#   interface   inputs, outputs, variables and constants of the plan
#   gradients   the text of the gradient graph, and all of the above for its plan
#   messages    what is said where a graph is refused, and the exit code
#
# --allow names differences that are meant: a regular expression for the lines that this script prints. --ignore removes
# text from gradient graphs and messages before they are compared. Exit code 1 when something else differs.
# SPDX-License-Identifier: Apache-2.0

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

import build_subjects
from plan_facts import plan_facts, planned_bytes

SEED = "1"
SOURCE_LINE = re.compile(r" \(\S+\.(cpp|h):\d+\)")
FIRST = 8  # differences of a kind that are printed


def command_of(path):
    path = pathlib.Path(path)
    opc = path / "bin/opc" if path.is_dir() else path
    if not opc.is_file():
        sys.exit(f"compare_builds: {path} is neither an opc command nor a build folder with bin/opc; ninja -C {path} opc")
    return opc.resolve()


class Table:
    """How many things of each kind were compared, and which differ."""

    def __init__(self, allow):
        self.allow = [re.compile(a) for a in allow]
        self.compared, self.allowed = collections.Counter(), collections.Counter()
        self.different = collections.defaultdict(list)

    def add(self, kind, name, same, detail=""):
        self.compared[kind] += 1
        if same:
            return
        line = f"{kind}: {name}" + (f": {detail}" if detail else "")
        if any(a.search(line) for a in self.allow):
            self.allowed[kind] += 1
        else:
            self.different[kind].append(line)

    def text(self):
        rows = [("kind", "compared", "equal", "allowed", "different")]
        for kind in sorted(self.compared):
            n, bad, allowed = self.compared[kind], len(self.different[kind]), self.allowed[kind]
            rows.append((kind, str(n), str(n - bad - allowed), str(allowed), str(bad)))
        widths = [max(len(r[i]) for r in rows) for i in range(5)]
        lines = ["  ".join(r[0].ljust(widths[0]) if i == 0 else r[i].rjust(widths[i]) for i in range(5)) for r in rows]
        for kind in sorted(self.different):
            lines += [f"DIFFERENT {d}" for d in self.different[kind][:FIRST]]
            if len(self.different[kind]) > FIRST:
                lines.append(f"  and {len(self.different[kind]) - FIRST} more in {kind}")
        return "\n".join(lines)

    def failed(self):
        return any(self.different.values())


class Build:
    """One of the two commands, in a folder of its own for each graph."""

    def __init__(self, opc):
        self.opc = opc

    def __call__(self, folder, *arguments):
        command = [str(self.opc), *arguments, "--config", "none", "-j", "1"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
        return done.returncode, done.stderr


class Made:
    """What one build makes of a subject: files in `folder`, and the refusal of each step that failed."""

    def __init__(self, build, subject, folder):
        self.folder, self.refused = folder, {}
        folder.mkdir()
        (folder / "graph.pbtxt").write_text(subject.text)
        if subject.plan and self.step(build, "compile", "graph.pbtxt", "-q", "-o", "graph.plan", *subject.flags) and subject.run:
            self.step(build, "run", "graph.plan", *self.values(subject), "--fill", "rand", "--seed", SEED, "--print", "none",
                      "--outputs", "out.npz")
        if subject.grad and self.step(build, "grad", "graph.pbtxt", "-q", *subject.grad, "-o", "grad.pbtxt"):
            self.step(build, "compile", "grad.pbtxt", "-q", "-o", "grad.plan")

    def step(self, build, *arguments):
        code, said = build(self.folder, *arguments)
        if code:
            self.refused[" ".join(arguments[:2])] = (code, said)
        return not code

    def values(self, subject):
        flags = list(subject.files)
        for arrays, flag, name in ((subject.inputs, "--inputs", "in.npz"), (subject.weights, "--weights", "variables.npz")):
            if arrays:
                np.savez(self.folder / name, **arrays)
                flags += [flag, name]
        return flags

    def bytes(self, name):
        path = self.folder / name
        return path.read_bytes() if path.exists() else None


class Comparison:
    def __init__(self, builds, table, scratch, ignore):
        self.builds, self.table, self.scratch = builds, table, scratch
        self.ignore = [re.compile(i) for i in ignore]
        self.count = 0

    def compare(self, subject):
        self.count += 1
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            made = [Made(build, subject, pathlib.Path(folder) / side) for build, side in zip(self.builds, ("old", "new"))]
            if len(subject.parts) > 1 and any(m.refused for m in made):
                half = len(subject.parts) // 2  # one refused case hides the others
                for parts in (subject.parts[:half], subject.parts[half:]):
                    self.compare(build_subjects.registry_subject(parts))
                return
            self.messages(subject, made)
            for name, prefix in (("graph.plan", ""), ("grad.plan", "gradient of ")):
                self.plans(prefix + subject.name, [m.bytes(name) for m in made])
            self.outputs(subject, made)
            self.texts(subject, [m.bytes("grad.pbtxt") for m in made])

    def messages(self, subject, made):
        for step in sorted({s for m in made for s in m.refused}):
            old, new = ((code, self.plain(said)) for code, said in (m.refused.get(step, (0, "")) for m in made))
            self.table.add("messages", f"{subject.name}: opc {step}", old == new, f"{old[0]} {old[1].strip()!r}, now {new[0]} {new[1].strip()!r}")

    def plain(self, text):
        """Without what is ignored, the source lines of rules, and the lines that are empty then."""
        for i in [*self.ignore, SOURCE_LINE]:
            text = i.sub("", text)
        return "\n".join(line for line in text.splitlines() if line.strip())

    def plans(self, name, files):
        if None in files:
            return  # a refusal, compared as a message
        old, new = (plan_facts(f) for f in files)
        for kind in old:
            self.table.add(kind, name, old[kind] == new[kind], first_difference(old[kind], new[kind]))
        peak = [planned_bytes(f) for f in files]
        self.table.add("peak", name, peak[0] == peak[1], f"{peak[0]} bytes, now {peak[1]}")

    def outputs(self, subject, made):
        if any(not (m.folder / "out.npz").exists() for m in made):
            return
        old, new = (np.load(m.folder / "out.npz") for m in made)
        for name in sorted({*old.files, *new.files}):
            label = subject.labels.get(name) or f"{subject.name} {name}"
            a, b = (f[name] if name in f.files else None for f in (old, new))
            self.table.add("outputs", label, *same_bits(a, b))

    def texts(self, subject, files):
        if None in files:
            return
        old, new = (self.plain(f.decode()).splitlines() for f in files)
        self.table.add("gradients", subject.name, old == new, first_difference([(x, x) for x in old], [(x, x) for x in new]))


def same_bits(a, b):
    if a is None or b is None:
        return False, "missing in the " + ("old" if a is None else "new")
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False, f"{a.dtype}{list(a.shape)}, now {b.dtype}{list(b.shape)}"
    if a.tobytes() == b.tobytes():
        return True, ""
    if a.dtype.kind == "V":
        a, b = a.view(np.uint16), b.view(np.uint16)
    wrong = np.argwhere(~((a == b) | ((a != a) & (b != b))))
    if not len(wrong):
        return False, "signs of zeros or bits of NaN differ"
    at = tuple(int(i) for i in wrong[0])
    return False, f"{len(wrong)} of {a.size} differ, first at {at}: {a[at]!r}, now {b[at]!r}"


def first_difference(old, new):
    """Where two lists of (label, facts) part."""
    for (a, x), (b, y) in zip(old, new):
        if (a, x) != (b, y):
            return f"{a!r} becomes {b!r}" if a != b else f"{a}: {parting(x, y)}"
    return "" if len(old) == len(new) else f"{len(old)} entries, now {len(new)}"


def parting(x, y):
    pairs = [(a, b) for a, b in zip(x, y) if a != b] if isinstance(x, list) and len(x) == len(y) else [(x, y)]
    return f"{pairs[0][0]!r:.200}, now {pairs[0][1]!r:.200}"


def known_to_both(registries):
    """Operators with the cases and element types that both builds have; and what only the new one has."""
    old, new = ({o["name"]: o for o in r} for r in registries)
    both, only = [], []
    for name, op in new.items():
        if name not in old:
            only.append(name)
            continue
        types = {k["dtype"] for k in old[name]["kernels"]}
        more = sorted({str(k["dtype"]) for k in op["kernels"] if k["dtype"] not in types})
        if more:
            only.append(f"{name} ({', '.join(more)})")
        if op.get("gradient") != old[name].get("gradient") and bool(op.get("gradient")) and not old[name].get("gradient"):
            only.append(f"{name} (gradient)")
        both.append(old[name])
    return both, only, sorted(set(old) - set(new))


def main():
    parser = argparse.ArgumentParser(description="whether two builds of opc do the same")
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--quick", action="store_true", help="a sample: two cases of each operator, tiny models")
    parser.add_argument("--kinds", default="example,network,model,registry")
    parser.add_argument("--only", default="", help="graphs (and operators) whose name fits this regular expression")
    parser.add_argument("--allow", action="append", default=[])
    parser.add_argument("--ignore", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--models", default="", help="a folder of bench models, to keep them")
    parser.add_argument("--json", default="", help="all differences, as a file")
    args = parser.parse_args()
    builds = [Build(command_of(p)) for p in (args.old, args.new)]
    kinds, wanted = args.kinds.split(","), re.compile(args.only)
    table = Table(args.allow)
    both, only, gone = known_to_both([build_subjects.load_registry(b.opc) for b in builds])
    for name in gone:
        table.add("operators", name, False, "is gone")
    ops = [o for o in both if wanted.search(o["name"])]
    with tempfile.TemporaryDirectory() as scratch:
        models = pathlib.Path(args.models or scratch, "models")
        models.mkdir(parents=True, exist_ok=True)
        comparison = Comparison(builds, table, scratch, args.ignore)
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            waiting = [pool.submit(comparison.compare, s) for s in build_subjects.subjects(ops, kinds, args.quick, models)
                       if s.kind == "registry" or wanted.search(s.name)]
            for done in waiting:
                done.result()
    print(f"{comparison.count} graphs\n{table.text()}")
    if only:
        print(f"only in the new build: {', '.join(only)}")
    if args.json:
        report = {"schema": 1, "compared": table.compared, "allowed": table.allowed, "different": table.different}
        pathlib.Path(args.json).write_text(json.dumps(report, indent=1) + "\n")
    return 1 if table.failed() else 0


if __name__ == "__main__":
    sys.exit(main())
