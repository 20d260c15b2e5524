# What of a folder of sources in OneFlow's style compiles against the SDK, loads, runs, and gives the right numbers.
# SPDX-License-Identifier: Apache-2.0
"""usage: oneflow_sources.py FOLDER [--cxx g++] [-j N] [--cflag FLAG]... [--objects DIR] [--no-run] [--list]

FOLDER holds the sources as an include path would: FOLDER/oneflow/user/ops/*.cpp and so on. What is below FOLDER/oneflow/core
is not used: those headers are the SDK's. Every .cpp file is compiled by itself; what compiles becomes one library, without
the files that need a function of a file that did not; the library is loaded with --plugin-overrides.

Numbers: an op that has a built-in's name runs the built-in's sample cases in f32 and is compared with the vectors of
tests/conformance (numpy's and PyTorch's values), within the tolerance of that op. Other ops are compared with the numpy
expressions below, in EXPRESSIONS. Cases that an op's own definition refuses (an axis that it wants positive, an argument that it
does not have) decide nothing. A file of kernels has "numbers" when an op of it agrees in a case and none of its ops differs.

Output: a table for each folder of sources, the reasons of what failed, with counts, and with --list a line for each file. The same
sources give the same output. The commands come from OPC_BUILD_DIR or OPC_BINARY.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
import driver  # noqa: E402
from registry_cases import DTYPES, CaseInstance, instances, load_registry, opc_binary, vector_path  # noqa: E402


def said_by(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Source:
    def __init__(self, folder, path):
        self.path, self.name = path, os.path.relpath(path, folder)
        self.group = os.path.dirname(self.name)
        self.object = self.reason = None  # of what failed first
        self.kernels, self.compared, self.wrong = set(), set(), {}  # op types


def stage(folder, scratch):
    """An include folder with everything of FOLDER/oneflow but its core."""
    os.makedirs(os.path.join(scratch, "oneflow"))
    top = os.path.join(folder, "oneflow")
    for entry in sorted(os.listdir(top)) if os.path.isdir(top) else ():
        if entry != "core":
            os.symlink(os.path.join(top, entry), os.path.join(scratch, "oneflow", entry))
    return scratch


def reason_of(errors):
    """The first error of a compiler, without its place."""
    found = re.search(r"error: (.*)", errors)
    if not found:
        return "the compiler failed"
    text = re.sub(r"[‘’`]", "'", found.group(1)).split("; did you mean")[0]
    header = re.match(r"'?([\w./]+\.(?:h|hpp|cuh))'?(?: file not found|: No such file)", text)
    return f"wants the header {header.group(1)}" if header else text.strip()[:100]


def compile_all(sources, compiler, include, objects, jobs):
    def one(source):
        target = os.path.join(objects, source.name.replace("/", "_") + ".o")
        if os.path.exists(target) and os.path.getmtime(target) > os.path.getmtime(source.path):
            source.object = target
            return
        done = subprocess.run([*compiler, "-I", include, "-c", source.path, "-o", target], capture_output=True, text=True)
        if done.returncode == 0:
            source.object = target
        else:
            source.reason = reason_of(done.stderr)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, sources))


def link(sources, output, compiler, ldflags):
    """One library of the objects whose symbols are all there; the others get a reason."""
    def undefined(source):
        lines = said_by(["nm", "-P", "-u", source.object]).splitlines()
        return {line.split()[0] for line in lines if line.split()[1] == "U"}

    def defined(source):
        return {line.split()[0] for line in said_by(["nm", "-P", "--defined-only", source.object]).splitlines() if line}

    linked = [s for s in sources if s.object]
    wants, has = {s: undefined(s) for s in linked}, {s: defined(s) for s in linked}
    while True:
        there = set().union(*(has[s] for s in linked)) if linked else set()
        lost = [(s, sorted(w for w in wants[s] - there if w.startswith("_ZN") and "7oneflow" in w)) for s in linked]
        lost = [(s, missing) for s, missing in lost if missing]
        if not lost:
            break
        for s, missing in lost:
            name = said_by(["c++filt", missing[0]]).strip()
            s.reason = "wants the function " + re.sub(r"\(.*", "", name)
            linked.remove(s)
    done = subprocess.run([*compiler, "-shared", *[s.object for s in linked], "-o", output, *ldflags], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("the library cannot be linked:\n" + done.stderr)
    return linked


# Ops that no built-in has: what numpy gives for inputs that are drawn below. Attributes are in the order of the graph's text.
def _relu(x):
    return np.maximum(x, 0)


EXPRESSIONS = {
    "ccrelu": dict(inputs={"in": (3, 5)}, outputs={"out": _relu}),
    "ccrelu_grad": dict(inputs={"y": (3, 5), "dy": (3, 5)}, outputs={"dx": lambda y, dy: np.where(y > 0, dy, 0)}),
    "TestReshape": dict(inputs={"in": (4, 6)}, attrs='attr { key: "shape" value { at_shape { dim: 8 dim: 3 } } }',
                        outputs={"out": lambda x: x.reshape(8, 3)}),
    "TestReshapeLike4KeepHeaderOnly": dict(inputs={"in": (4, 6), "like": (3, 8)}, outputs={"out": lambda x, like: x.reshape(3, 8)}),
    "TestSource": dict(inputs={}, outputs={"out": lambda: np.arange(5, dtype=np.float32)}),
    "TestMultiOutputOrder": dict(inputs={"in": (3, 4)}, outputs={"out1": lambda x: x, "out2": np.zeros_like}),
    "TestMultiInput": dict(inputs={"x1": (3, 4), "x2": (3, 4)}, outputs={"y": lambda a, b: a}),
    "TestMultiInputGrad": dict(inputs={"x1": (3, 4), "x2": (3, 4), "y_diff": (3, 4)},
                               outputs={"x1_diff": lambda a, b, d: d, "x2_diff": lambda a, b, d: np.full_like(d, 2)}),
}


def run_expression(name, case, folder):
    rng = np.random.default_rng(1)
    values = {arg: rng.uniform(-1, 1, shape).astype(np.float32) for arg, shape in case["inputs"].items()}
    ops, bound = [], ""
    for arg, v in values.items():
        dims = " ".join(f"dim: {d}" for d in v.shape)
        ops.append(f'op {{ name: "{arg}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: kFloat }} }} }}')
        bound += f'input {{ key: "{arg}" value {{ s: "{arg}/out" }} }} '
    for out in case["outputs"]:
        bound += f'output {{ key: "{out}" value {{ s: "it/{out}_0" }} }} '
        ops.append(f'op {{ name: "end_{out}" output_conf {{ in: "it/{out}_0" out: "out" }} }}')
    ops.append(f'op {{ name: "it" user_conf {{ op_type_name: "{name}" {bound}{case.get("attrs", "")} }} }}')
    graph = os.path.join(folder, "graph.pbtxt")
    with open(graph, "w") as f:
        f.write("\n".join(ops))
    command = [opc_binary(), "run", graph, "--outputs", os.path.join(folder, "out"), "--print", "none"]
    if values:
        np.savez(os.path.join(folder, "in.npz"), **values)
        command += ["--inputs", os.path.join(folder, "in.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        return failure_of(done.stderr, done.returncode)
    for out, expression in case["outputs"].items():
        got, want = np.load(os.path.join(folder, "out", f"end_{out}.npy")), expression(*values.values())
        if got.shape != want.shape or not np.allclose(got, want, rtol=1.3e-6, atol=1e-5):
            return f"{out} differs from numpy's"
    return None


def failure_of(text, code):
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    found = re.search(r"error(?:\[\w+\])?: (.*)", text)
    message = found.group(1) if found else text.strip().splitlines()[-1] if text.strip() else f"exit code {code}"
    return re.sub(r"\bi\d+\b", "the op", message)[:160]


def name_among(entries, known, name):
    """The name that the plugin has for what the built-in calls `name`: that, an older spelling, or the only one of both."""
    entry = next((e for e in entries if e["name"] == name), None)
    found = next((n for n in [name, *(entry["aliases"] if entry else ())] if n in known), None)
    return found or (next(iter(known)) if len(known) == len(entries) == 1 else None)


def adapted(instance, op):
    """The built-in's case under the plugin's names (case, renamed inputs, renamed outputs), or why the op cannot have it."""
    builtin, case = instance.op, dict(instance.case)
    inputs, attrs, outputs = {i["name"] for i in op["inputs"]}, {a["name"]: a for a in op["attrs"]}, {o["name"] for o in op["outputs"]}
    ins = {i["arg"]: name_among(builtin["inputs"], inputs, i["arg"]) for i in case["inputs"]}
    outs = {o: name_among(builtin["outputs"], outputs, o) for o in instance.outputs() if o not in instance.mutable()}
    for what, names in (("input", ins), ("output", outs)):
        for name, own in names.items():
            if not own:
                return None, f"has no {what} {name}"
    for i in op["inputs"]:
        if not i["optional"] and i["name"] not in ins.values():
            return None, f"wants the input {i['name']}"
    values, given = {}, case.get("attrs", {})
    for a in builtin["attrs"]:
        to = next((n for n in [a["name"], *a["aliases"]] if n in attrs), None)
        value = given[a["name"]]["value"] if a["name"] in given else a["default"]
        if not to and a["name"] in given and value != a["default"]:
            return None, f"has no attribute {a['name']}"
        if to and value is not None and (a["name"] in given or attrs[to]["required"] or attrs[to]["default"] != value):
            values[to] = {"type": attrs[to]["type"], "value": value}
    for a in op["attrs"]:
        if a["required"] and a["name"] not in values:
            return None, f"wants the attribute {a['name']}"
    case["attrs"] = values
    return (case, ins, outs), None


class Fitted(CaseInstance):
    """A case under the plugin's names for arguments and attributes."""

    def __init__(self, instance, fitted):
        case, self.ins, self.outs = fitted
        super().__init__(instance.op, case, instance.dtype)
        self.original = instance

    def outputs(self):
        return self.original.outputs()

    def mutable(self):
        return self.original.mutable()


class FittedGraph(driver.Graph):
    def add(self, number, instance, vectors):
        before = len(self.ops)
        super().add(number, instance, vectors)
        renamed = [(f'input {{ key: "{old}"', f'input {{ key: "{new}"') for old, new in instance.ins.items()]
        for old, new in instance.outs.items():
            renamed += [(f'output {{ key: "{old}"', f'output {{ key: "{new}"'), (f'"i{number}/{old}_', f'"i{number}/{new}_')]
        for n in range(before, len(self.ops)):
            for old, new in renamed:
                self.ops[n] = self.ops[n].replace(old, new)


def run_cases(op, builtin, folder):
    """What came of the built-in's cases: [(case, None or the difference)], [(case, why it was refused)]."""
    vectors, agreed, refused, fitting = dict(np.load(vector_path(builtin["name"]))), [], [], []
    for instance in (i for i in instances(builtin) if i.dtype in ("f32", "fixed")):
        fitted, why = adapted(instance, op)
        if fitted:
            fitting.append(Fitted(instance, fitted))
        else:
            refused.append((instance.case["name"], why))

    def attempt(batch):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            graph = FittedGraph()
            for n, i in enumerate(batch):
                graph.add(n, i, vectors)
            code, said = graph.run(place)
            if code != 0 and len(batch) > 1:
                for i in batch:
                    attempt([i])
                return
            if code != 0:
                refused.append((batch[0].case["name"], failure_of(said, code)))
                return
            wrong = {}
            for i, arg, index, end in graph.wanted:
                key = next((k for k in vectors if k.startswith(f"{i.name}|out|{arg}|{index}|")), None)
                if key is None:
                    continue
                got, want, dtype = np.load(os.path.join(place, "out", f"{end}.npy")), vectors[key], key.rsplit("|", 1)[1]
                if got.shape != want.shape and got.size == want.size == 1:
                    got = got.reshape(want.shape)  # OneFlow 0.3 has no rank 0
                if dtype != "bf16":
                    got = got.astype(DTYPES[dtype][1])  # an int8 is as good as a bool
                difference = driver.compare(builtin, got, want, dtype)
                wrong.setdefault(i.name, (i.case["name"], None))
                if difference and not wrong[i.name][1]:
                    wrong[i.name] = (i.case["name"], f"{arg} {difference}")
            agreed.extend(wrong.values())

    if fitting:
        attempt(fitting)
    return agreed, refused


def verdict(agreed, refused):
    """("agrees", how many), ("differs", where) or ("not compared", why); a case that the op's definition refuses decides nothing."""
    wrong = next((f"{case}: {text}" for case, text in agreed if text), None)
    if wrong:
        return "differs", wrong
    if agreed:
        return "agrees", f"{len(agreed)}" + (f", {len(refused)} refused" if refused else "")
    return "not compared", "{}: {}".format(*refused[0]) if refused else "no case is in f32"


def compare_all(sources, library, folder):
    """Fills in the sources' ops; op type -> (status, detail)."""
    os.environ["OPC_PLUGINS"] = ""
    builtins = {}
    for op in load_registry():
        for name in [op["name"], *op["aliases"]]:
            builtins[name] = op
    os.environ["OPC_PLUGINS"] = f"overrides={library}"
    loaded = subprocess.run([opc_binary(), "plugin", "check", f"overrides={library}"], capture_output=True, text=True)
    if loaded.returncode != 0:
        sys.exit("the library cannot be loaded:\n" + loaded.stderr)
    ops = [o for o in load_registry() if o["library"] == library or any(k["origin"] == library for k in o["kernels"])]
    by_file = {os.path.basename(s.name): s for s in sources if s.object}
    results = {}
    for n, op in enumerate(ops):
        name = op["name"].split("::")[-1]
        files = {by_file[k["source"]] for k in op["kernels"] if k["source"] in by_file}
        for s in files:
            s.kernels.add(name)
        if not files:
            continue
        place = os.path.join(folder, str(n))
        os.makedirs(place)
        if name in EXPRESSIONS:
            results[name] = verdict([("drawn", run_expression(name, EXPRESSIONS[name], place))], [])
        elif name not in builtins:
            results[name] = "not compared", "no built-in has the name"
        elif not os.path.exists(vector_path(builtins[name]["name"])):
            results[name] = "not compared", "the built-in has no vectors"
        else:
            results[name] = verdict(*run_cases(op, builtins[name], place))
        for s in files:
            if results[name][0] == "differs":
                s.wrong[name] = results[name][1]
            elif results[name][0] == "agrees":
                s.compared.add(name)
    return results


def report(sources, results, listed, ran):
    groups = collections.OrderedDict()
    for s in sources:
        groups.setdefault(s.group, []).append(s)
    width = max(len(g) for g in groups)
    print(f"{'folder':{width}}  files  compiled  loaded" + ("  with kernels  numbers" if ran else ""))
    for g, members in groups.items():
        line = f"{g:{width}}  {len(members):5}  {sum(bool(s.object) for s in members):8}  {sum(not s.reason for s in members):6}"
        if ran:
            line += f"  {sum(bool(s.kernels) for s in members):12}  {sum(bool(s.compared) and not s.wrong for s in members):7}"
        print(line)
    print("\nfailed, by reason:")
    reasons = collections.Counter(s.reason for s in sources if s.reason)
    for reason, count in sorted(reasons.items(), key=lambda r: (-r[1], r[0])):
        print(f"  {count:4}  {reason}")
    if ran:
        counts = collections.Counter(status for status, _ in results.values())
        print("\nops with kernels: " + ", ".join(f"{counts[k]} {k}" for k in ("agrees", "differs", "not compared")))
        for name, (status, detail) in sorted(results.items()):
            if status != "agrees":
                print(f"  {name}: {status}: {detail}")
    if listed:
        print()
        for s in sources:
            state = s.reason or ("; ".join(f"{k}: {v}" for k, v in sorted(s.wrong.items())) if s.wrong else
                                 "numbers" if s.compared else "loaded")
            print(f"{s.name}: {state}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[0].removeprefix("usage: "))
    parser.add_argument("folder")
    parser.add_argument("--cxx", default=os.environ.get("OPC_PLUGIN_CXX", "g++"))
    parser.add_argument("-j", type=int, default=os.cpu_count())
    parser.add_argument("--cflag", action="append", default=[])
    parser.add_argument("--objects")
    parser.add_argument("--no-run", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    folder = os.path.abspath(options.folder)
    sources = [Source(folder, os.path.join(at, f)) for at, _, files in os.walk(folder) for f in files if f.endswith(".cpp")]
    sources = [s for s in sources if not s.name.startswith(os.path.join("oneflow", "core", ""))]
    sources.sort(key=lambda s: s.name)
    if not sources:
        sys.exit(f"{options.folder} holds no .cpp file")
    cflags, ldflags = (shlex.split(said_by([opc_binary(), "sdk", f])) for f in ("--cflags", "--ldflags"))
    with tempfile.TemporaryDirectory() as scratch:
        objects = options.objects or os.path.join(scratch, "objects")
        os.makedirs(objects, exist_ok=True)
        include = stage(folder, os.path.join(scratch, "include"))
        compiler = [options.cxx, "-w", "-O1", "-fPIC", *cflags, *options.cflag]
        compile_all(sources, compiler, include, objects, options.j)
        results = {}
        library = os.path.join(scratch, "libsources.so")
        link(sources, library, [options.cxx], ldflags)
        if not options.no_run:
            os.makedirs(os.path.join(scratch, "runs"))
            results = compare_all(sources, library, os.path.join(scratch, "runs"))
        report(sources, results, options.list, not options.no_run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
