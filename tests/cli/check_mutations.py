# Forty kinds of single changes, at every place of six graphs where they fit: opc check finds each with the right rule at the right
# line, or rightly says nothing; graphs that are not changed have no finding.
# SPDX-License-Identifier: Apache-2.0
import collections
import json
import os
import random
import re
import resource
import shutil
import subprocess
import tempfile
import unittest

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
SOURCE = os.environ["OPC_SOURCE_DIR"]
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
BLOCK = os.path.join(SOURCE, "tests", "cli", "Inputs", "attention_block.pbtxt")

# In canonical text an op begins with a line "op {" and ends with a line "}" of the same indent.
OP = re.compile(r"^( *)op \{\n.*?^\1\}\n", re.M | re.S)
NAME, TYPE = re.compile(r'\bname: "([^"]*)"'), re.compile(r'op_type_name: "([^"]*)"')

# What the compiler or the run says is found as well.
BROKEN = {"GRAPH_INVALID", "RUN_FAILED"}
NO_OUTPUT = "OPC0111: the graph has no output"  # of the whole graph, and nowhere in it
ATTR = {"OP_ATTR_CHANGED", "GRAD_CHANGED"}
EDGE = {"EDGE_CHANGED", "GRAD_CHANGED"}
ADDED = {"OP_ADDED", "GRAD_CHANGED"}

# Kinds of which an application changes one thing of one op: one finding at it, besides what is measured of its effects.
ONE_THING = {"flag", "i32 + 1", "i32 - 1", "i64 + 1", "f64 doubled", "f64 by a bit", "f32 doubled", "text", "list", "op type", "input's size", "input's type",
             "variable's size", "variable's type", "initializer", "weights by 2 tolerances", "weights by 0.1 tolerance", "seed", "trainable", "op renamed",
             "input renamed", "output renamed", "variable renamed", "gradient's op", "unused op", "output added", "neighbours swapped", "output removed"}
# What is said of other things than the graph's text, and what follows from a tensor that has another type.
EFFECTS = {"NUMERIC_MISMATCH", "NONFINITE", "PEAK_MEMORY_GREW", "FLOPS_GREW", "TASKS_GREW", "COMM_BYTES_GREW", "KERNEL_CHANGED", "WARNING_ADDED", "DEAD_OP",
           "UNUSED_INPUT", "SBP_CHANGED", "BOXING_ADDED", "BOXING_REMOVED", "BOXING_GREW", "TENSOR_TYPE_CHANGED", "OUTPUT_TYPE_CHANGED", "GRAD_MISSING",
           "NUMERIC_HAZARD"}

# text: the graph; rules: one of these is found, nothing when there are none; op: where; never: what must not be found.
Mutant = collections.namedtuple("Mutant", "text rules op line never", defaults=(None, None, frozenset()))


class Op:
    def __init__(self, graph, match):
        self.start, self.end, self.text = match.start(), match.end(), match.group(0)
        self.name = NAME.search(self.text).group(1)
        self.type = (TYPE.search(self.text) or ["", ""])[1]
        self.kind = re.search(r"(input|output|variable|user)_conf", self.text).group(1)
        self.line = graph.count("\n", 0, self.start) + 1


class Graph:
    def __init__(self, name, text, flags=()):
        self.name, self.text, self.flags, self.states = name, text, flags, {}
        self.ops = [Op(text, m) for m in OP.finditer(text)]
        self.made = re.findall(r'^ *output \{ key: "\w+" value \{ s: "([^"]*)" \} \}', text, re.M)

    def with_op(self, op, new):
        return self.text[:op.start] + new + self.text[op.end:]

    def after(self, op, new):
        return self.text[:op.end] + new + self.text[op.end:]


class Reach:
    """What a change of a graph's text touches: ops with their lines, None for those that are gone; and what depends on them."""
    def __init__(self, before, text):
        after = Graph("", text)
        was = {op.name: op.text for op in before.ops}
        is_ = {op.name: op for op in after.ops}
        self.touched = {op.name: op.line for op in after.ops if was.get(op.name) != op.text}
        self.touched.update({name: None for name in was if name not in is_})
        # Two of one name hide each other in a dictionary.
        counts = collections.Counter(op.name for op in after.ops)
        order = {name: i for i, name in enumerate(was)}
        moved = [op for i, op in enumerate(after.ops) if order.get(op.name, i) != i] if len(was) == len(after.ops) else []
        if not self.touched:
            self.touched = {op.name: op.line for op in moved}
        reached = {op.name for op in after.ops if op.name in self.touched or counts[op.name] > 1}
        grown = True
        sources = {name: f'"{name}/' for name in self.touched}
        while grown:
            grown = False
            for op in after.ops:
                if op.name not in reached and any(prefix in op.text or f'"{name}"' in op.text for name, prefix in sources.items() if name != op.name):
                    reached.add(op.name)
                    sources[op.name] = f'"{op.name}/'
                    grown = True
        self.names = reached | set(self.touched)
        self.lines = {line for op in after.ops if op.name in reached for line in range(op.line, op.line + op.text.count("\n"))}


def replacing(old, new, rules, kinds=("user",), where="", never=frozenset()):
    """One mutant for each place where the expression `old` stands in an op."""
    def mutants(graph):
        for op in graph.ops:
            if op.kind not in kinds or not re.search(where, op.text):
                continue
            for m in re.finditer(old, op.text):
                value = new(m) if callable(new) else m.expand(new)
                if value != m.group(0):
                    changed = graph.with_op(op, op.text[:m.start()] + value + op.text[m.end():])
                    yield Mutant(changed, rules, op.name, op.line, never)
    return mutants


def renamed(graph, op, to):
    text = graph.text.replace(f'name: "{op.name}"', f'name: "{to}"').replace(f'"gradient_of:{op.name}"', f'"gradient_of:{to}"')
    return re.sub(r'"%s/' % re.escape(op.name), f'"{to}/', text)


def renaming(kind, rules):
    def mutants(graph):
        for op in graph.ops:
            if op.kind == kind:
                # The names of what differentiation has made follow from the other ops: they are nobody's.
                wanted = rules if "calculation_pass_name" not in op.text else set()
                yield Mutant(renamed(graph, op, op.name + "_renamed"), wanted, op.name + "_renamed" if kind == "user" else None, op.line)
    return mutants


def outputs_of(op):
    return re.findall(r'output \{ key: "\w+" value \{ s: "([^"]*)" \} \}', op.text)


def unary(name, kind, tensor, indent=""):
    key = "in" if kind == "identity" else "x"
    out = "out" if kind == "identity" else "y"
    return (f'{indent}op {{\n{indent}  name: "{name}"\n{indent}  user_conf {{\n{indent}    op_type_name: "{kind}"\n'
            f'{indent}    input {{ key: "{key}" value {{ s: "{tensor}" }} }}\n'
            f'{indent}    output {{ key: "{out}" value {{ s: "{name}/{out}_0" }} }}\n{indent}  }}\n{indent}}}\n')


def inserting(kinds):
    """Ops in a row behind each tensor that an op reads, for its first reader."""
    def mutants(graph):
        for op in graph.ops:
            if op.kind != "user":
                continue
            for tensor in outputs_of(op):
                reader = next((o for o in graph.ops if o.start > op.start and f'"{tensor}"' in o.text and tensor not in outputs_of(o)), None)
                if not reader:
                    continue
                chain, at = "", tensor
                for i, kind in enumerate(kinds):
                    chain += unary(f"mutant{i}", kind, at)
                    at = f"mutant{i}/" + ("out_0" if kind == "identity" else "y_0")
                text = graph.text[:reader.start] + chain + reader.text.replace(f'"{tensor}"', f'"{at}"') + graph.text[reader.end:]
                yield Mutant(text, ADDED, "mutant0", reader.line)
    return mutants


def unused_op(graph):
    for op in graph.ops:
        for tensor in outputs_of(op):
            yield Mutant(graph.after(op, unary("mutant", "identity", tensor)), {"OP_ADDED"}, "mutant", op.line + op.text.count("\n"))


def duplicated(graph):
    for op in graph.ops:
        if op.kind == "user" and outputs_of(op) and "calculation_pass" not in op.text:
            copy = re.sub(r'"%s/' % re.escape(op.name), '"mutant/', op.text.replace(f'name: "{op.name}"', 'name: "mutant"'))
            yield Mutant(graph.after(op, copy), {"OP_ADDED", "OP_RENAMED"})


def bypassed(graph):
    """The op goes, and its readers read its first input."""
    for op in graph.ops:
        made, read = outputs_of(op), re.findall(r'input \{ key: "\w+" value \{ s: "([^"]*)"', op.text)
        if op.kind == "user" and made and read:
            yield Mutant(graph.with_op(op, "").replace(f'"{made[0]}"', f'"{read[0]}"'),
                         {"OP_REMOVED", "GRAD_CHANGED", "EDGE_CHANGED", "OP_TYPE_CHANGED"})


def removed(kind, rules):
    def mutants(graph):
        for op in graph.ops:
            if op.kind == kind:
                yield Mutant(graph.with_op(op, ""), rules)
    return mutants


def relinked(graph):
    """A backward op is said to be part of another op's gradient."""
    tags = sorted(set(re.findall(r'"gradient_of:([^"]*)"', graph.text)))
    for op in graph.ops:
        for m in re.finditer(r'"gradient_of:([^"]*)"', op.text):
            other = tags[(tags.index(m.group(1)) + 1) % len(tags)]
            yield Mutant(graph.with_op(op, op.text.replace(m.group(0), f'"gradient_of:{other}"')), {"GRAD_CHANGED"}, op.name, op.line)


def updates_removed(graph):
    for op in graph.ops:
        if "optimizer_pass" in op.text and not outputs_of(op):
            yield Mutant(graph.with_op(op, ""), {"GRAD_CHANGED"})


def rewired(seed):
    """Another tensor of the graph in place of each that is read."""
    def mutants(graph):
        numbers = random.Random(seed)
        for op in graph.ops:
            for m in re.finditer(r'(input \{ key: "\w+" value \{ s: |output_conf \{ in: )"([^"]*)"', op.text):
                others = [t for t in graph.made if t != m.group(2) and t not in outputs_of(op)]
                if others:
                    new = op.text[:m.start()] + m.group(1) + f'"{numbers.choice(others)}"' + op.text[m.end():]
                    yield Mutant(graph.with_op(op, new), EDGE | {"OUTPUT_TYPE_CHANGED", "OP_REMOVED", "OP_ADDED", "OP_RENAMED"})
    return mutants


def swapped_operands(graph):
    for op in graph.ops:
        m = re.search(r'( *input \{ key: "\w+" value \{ s: )("[^"]*")( \} \}\n *input \{ key: "\w+" value \{ s: )("[^"]*")', op.text)
        if op.kind == "user" and m and m.group(2) != m.group(4):
            new = op.text[:m.start()] + m.group(1) + m.group(4) + m.group(3) + m.group(2) + op.text[m.end():]
            yield Mutant(graph.with_op(op, new), EDGE, op.name, op.line)


def reordered(graph):
    """Neighbours change places where neither reads the other. Only inputs, and only outputs, have an order."""
    for a, b in zip(graph.ops, graph.ops[1:]):
        if a.end == b.start and f'"{a.name}/' not in b.text and f'"{a.name}"' not in b.text:
            same = a.kind == b.kind and a.kind in ("input", "output")
            yield Mutant(graph.text[:a.start] + b.text + a.text + graph.text[b.end:], {"IO_ORDER_CHANGED"} if same else set())


def output_added(graph):
    for op in graph.ops:
        for tensor in outputs_of(op):
            new = f'op {{\n  name: "mutant"\n  output_conf {{ in: "{tensor}" out: "out" }}\n}}\n'
            yield Mutant(graph.after(op, new), {"OP_ADDED"}, "mutant", op.line + op.text.count("\n"))


def written_otherwise(change):
    def mutants(graph):
        for op in graph.ops:
            new = change(op.text)
            if new != op.text:
                yield Mutant(graph.with_op(op, new), set())
    return mutants


def add(n):
    return lambda m: m.group(1) + str(int(m.group(2)) + n)


def scaled(factor, offset=0.0):
    return lambda m: m.group(1) + repr(float(m.group(2)) * factor + offset)


NUMBER = r"([-+.\de]+)"
def pinned(states):
    """A state that the file asks for: on one device nothing, on a mesh another plan, unless the planner had chosen it."""
    def mutants(graph):
        for op in graph.ops:
            if op.kind == "variable" and "nd_sbp" not in op.text:
                pin = "".join(f'    nd_sbp: "{s}"\n' for s in states)
                new = re.sub(r"(\n    data_type: .*\n)", r"\1" + pin, op.text, count=1)
                rules = {"SBP_CHANGED", "BOXING_ADDED", "BOXING_REMOVED"} if graph.flags and not chosen(graph, op.name, states) else set()
                yield Mutant(graph.with_op(op, new), rules)
    return mutants


def chosen(graph, name, states):
    """Whether the variable has these states in the plan as it is."""
    if not graph.states:
        done = subprocess.run([OPC, "show", "-", "--what", "sbp", "--json", *graph.flags], input=graph.text, capture_output=True, text=True, check=True)
        graph.states.update({o["name"]: o["signature"] for o in json.loads(done.stdout)["sbp"]["ops"]})
    return graph.states[name] == "([" + ", ".join(states) + "])"


OTHERS = {"relu": "tanh", "tanh": "relu", "square": "abs", "matmul": "broadcast_add", "max_pool_2d": "avg_pool_2d", "bias_add": "broadcast_add"}
# f32: rtol 1.3e-6, atol 1e-5 (numerics of the output, of which a bias is a summand).
KINDS = {
    "flag": replacing(r"(at_bool: )(true|false)", lambda m: m.group(1) + ("false" if m.group(2) == "true" else "true"), ATTR),
    "i32 + 1": replacing(r"(at_int32: )(-?\d+)", add(1), ATTR),
    "i32 - 1": replacing(r"(at_int32: )(-?\d+)", add(-1), ATTR),
    "i64 + 1": replacing(r"(at_int64: )(-?\d+)", add(1), ATTR),
    "f64 doubled": replacing(r"(at_double: )" + NUMBER, scaled(2, 1e-3), ATTR),
    "f64 by a bit": replacing(r"(at_double: )" + NUMBER, scaled(1 + 2**-52, 5e-324), ATTR),
    "f32 doubled": replacing(r"(at_float: )" + NUMBER, scaled(2, 1e-3), ATTR),
    "text": replacing(r'(at_string: )"([^"]*)"', r'\1"\2x"', ATTR),
    "list": replacing(r"(at_list_\w+ \{ val: )(-?\d+)", add(1), ATTR),
    "shape": replacing(r"(at_shape \{ dim: )(-?\d+)", add(1), ATTR | {"GRAPH_INVALID"}),
    "element type": replacing(r"(at_data_type: )k\w+", r"\1kDouble", ATTR),
    "attribute unknown": replacing(r"\n( *)(op_type_name: .*)\n", r'\n\1\2\n\1attr { key: "mutant" value { at_int64: 1 } }\n', ATTR),
    "op type": replacing(r'op_type_name: "(\w+)"', lambda m: f'op_type_name: "{OTHERS.get(m.group(1), m.group(1))}"', {"OP_TYPE_CHANGED", "GRAD_CHANGED"}),
    "input's size": replacing(r"(dim: )(\d+)", add(1), {"INPUT_TYPE_CHANGED"}, ("input",)),
    "input's rank": replacing(r"(shape \{) dim: \d+", r"\1", {"INPUT_TYPE_CHANGED"}, ("input",)),
    "input's type": replacing(r"(data_type: )k\w+", r"\1kDouble", {"INPUT_TYPE_CHANGED"}, ("input",)),
    "variable's size": replacing(r"(dim: )(\d+)", add(1), {"VARIABLE_TYPE_CHANGED"}, ("variable",)),
    "variable's type": replacing(r"(data_type: )k\w+", r"\1kDouble", {"VARIABLE_TYPE_CHANGED"}, ("variable",)),
    "initializer": replacing(r"(variance_norm: )kFanIn", r"\1kFanOut", ATTR, ("variable",)),
    "weights by 2 tolerances": replacing(r"(constant_conf \{ value: )" + NUMBER, scaled(1 + 2.6e-6, 2e-5), ATTR, ("variable",)),
    "weights by 0.1 tolerance": replacing(r"(constant_conf \{ value: )" + NUMBER, scaled(1 + 1.3e-7, 1e-7), ATTR, ("variable",), never={"NUMERIC_MISMATCH"}),
    "seed": replacing(r"\n( *)(data_type: .*)\n", r"\n\1\2\n\1random_seed: 99\n", ATTR, ("variable",), "^(?!.*random_seed)(?s:.)"),
    "trainable": replacing(r"\n( *)(data_type: .*)\n", r"\n\1\2\n\1trainable: false\n", ATTR, ("variable",), "^(?!(?s:.)*trainable)(?s:.)"),
    "device": replacing(r'\n( *)(name: "[^"]*")\n', r'\n\1\2\n\1device_tag: "gpu"\n', {"WARNING_ADDED", "PLACEMENT_CHANGED", "GRAPH_INVALID"}),
    "state S(0), S(1)": pinned(["S(0)", "S(1)"]),
    "state B, S(0)": pinned(["B", "S(0)"]),
    "op renamed": renaming("user", {"OP_RENAMED"}),
    "input renamed": renaming("input", {"INPUT_REMOVED"}),
    "output renamed": renaming("output", {"OUTPUT_REMOVED"}),
    "variable renamed": renaming("variable", {"VARIABLE_REMOVED"}),
    "neighbours swapped": reordered,
    "edge (1)": rewired(1),
    "edge (2)": rewired(2),
    "edge (3)": rewired(3),
    "operands swapped": swapped_operands,
    "op bypassed": bypassed,
    "op removed": removed("user", {"OP_REMOVED", "GRAD_CHANGED"}),
    "output removed": removed("output", {"OUTPUT_REMOVED"}),
    "gradient's op": relinked,
    "update removed": updates_removed,
    "identity inserted": inserting(["identity"]),
    "two that cancel": inserting(["negative", "negative"]),
    "op inserted": inserting(["abs"]),
    "unused op": unused_op,
    "op twice": duplicated,
    "output added": output_added,
    "place in Python": written_otherwise(lambda t: re.sub(r'(\n *name: "[^"]*")', r'\1\n  loc: "train.py:41"', t, count=1)),
    "comment": written_otherwise(lambda t: "# a comment\n" + t),
    "blanks": written_otherwise(lambda t: t.replace("{ ", "{\t ").replace(": ", ":  ")),
}


def training(*parts):
    text = ""
    for part in parts:
        with open(os.path.join(DIGITS, part), encoding="utf-8") as f:
            text += f.read()
    return subprocess.run([OPC, "grad", "-", "--shape", "image=16,64", "--shape", "label=16", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", "-"],
                          input=text, capture_output=True, text=True, check=True).stdout


def canonical(path, *flags, given=None):
    return subprocess.run([OPC, "compile", path, "--to", "import", "--emit", "pbtxt", "-o", "-", *flags], input=given, capture_output=True, text=True,
                          check=True).stdout


def graphs():
    mlp = training("mlp.pbtxt", "mlp_loss.pbtxt")
    return [Graph("mlp", canonical(os.path.join(DIGITS, "mlp.pbtxt"), "--shape", "image=16,64")),
            Graph("cnn", canonical(os.path.join(DIGITS, "cnn.pbtxt"), "--shape", "image=16,64")),
            Graph("mlp training", mlp), Graph("cnn training", training("cnn.pbtxt", "cnn_loss.pbtxt")),
            Graph("encoder block", canonical(BLOCK, "--shape", "q=2,12,8", "--shape", "k=2,12,8", "--shape", "v=2,12,48")),
            Graph("mlp on 2x4", mlp, ("--mesh", "2x4"))]


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


class Mutations(unittest.TestCase):
    def check(self, folder, *args):
        done = subprocess.run([OPC, "check", folder, "--json", "--exit-zero", *args], capture_output=True, text=True, timeout=600,
                              env={k: v for k, v in os.environ.items() if k != "CI"})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        found = collections.defaultdict(list)
        for f in json.loads(done.stdout)["findings"]:
            found[os.path.basename(f["graph"])].append(f)
        return found

    def refusal(self, graph, mutant, found):
        """Why what the compiler or the run says is not of the change, or None: an error has a code, and the line of an op that the change
        reaches."""
        reached = Reach(graph, mutant.text)
        for f in found:
            if f["rule"] not in BROKEN:
                continue
            if not re.match(r"OPC\d{4}: .", f["message"]):
                return f"{f['message']!r} has no code"
            if f["source"] and f["source"]["line"] not in reached.lines:
                return f"{f['message']!r} at line {f['source']['line']}, which the change does not reach"
            if not f["source"] and not f["message"].startswith(NO_OUTPUT) and not any(name in f["message"] for name in reached.names):
                return f"{f['message']!r} names no op that the change reaches"
        return None

    def missed(self, kind, graph, mutant, found):
        """Why the findings are not what the mutant wants, or None."""
        rules = {f["rule"] for f in found}
        if rules & mutant.never:
            return f"{rules & mutant.never} must not be found"
        if not mutant.rules:
            if kind.startswith("state "):  # another order of ops that are as good, and of it which updates are one task
                rules -= {"TASKS_GREW"}
            return f"{rules} where nothing has changed" if rules else None
        if rules & BROKEN:
            return self.refusal(graph, mutant, found)
        if not rules and canonical("-", given=mutant.text) == canonical("-", given=graph.text):
            return None  # the same graph, written otherwise
        if kind in ONE_THING:
            said = [(f["rule"], f["op"], f["message"]) for f in found if f["rule"] not in EFFECTS - mutant.rules]
            if len([s for s in said if s[1] == mutant.op or not mutant.op]) > 1:
                return f"{said}: one change is one finding"
        right = [f for f in found if f["rule"] in mutant.rules]
        if not right:
            return f"{rules or 'nothing'}, and none of {mutant.rules}"
        places = [(f["rule"], f["op"], f["source"] and f["source"]["line"]) for f in right]
        if mutant.op is not None:
            at = [p for p in places if p[0] == "WARNING_ADDED" or p[1:] == (mutant.op, mutant.line)]
            return None if at else f"{places}, not at {mutant.op}, line {mutant.line}"
        # An op that is there has its line; one that is gone has none.
        touched = Reach(graph, mutant.text).touched
        at = [p for p in places if p[1] in touched and p[2] == touched[p[1]]]
        return None if at else f"{places}, not at one of {touched}"

    def test_all(self):
        applied, outcome, faults = collections.Counter(), collections.defaultdict(collections.Counter), []
        for graph in graphs():
            with tempfile.TemporaryDirectory() as folder:
                write(os.path.join(folder, "base.pbtxt"), graph.text)
                self.assertFalse([f for f in self.check(folder, "--update", *graph.flags)["base.pbtxt"] if f["severity"] != "note"])
                for flags in (["--twice"], ["-j", "1"], ["-j", "2"]):
                    self.assertEqual(self.check(folder, *flags), {}, graph.name)
                mutants = {}
                for kind, make in KINDS.items():
                    for mutant in make(graph):
                        name = f"m{len(mutants):05}.pbtxt"
                        mutants[name] = (kind, mutant)
                        write(os.path.join(folder, name), mutant.text)
                        shutil.copy(os.path.join(folder, "base.opc.lock"), os.path.join(folder, name.replace(".pbtxt", ".opc.lock")))
                found = self.check(folder)
            for name, (kind, mutant) in mutants.items():
                why = self.missed(kind, graph, mutant, found[name])
                rules = {f["rule"] for f in found[name]}
                applied[kind] += 1
                outcome[kind]["missed" if why else "refused" if rules & BROKEN else "found" if rules else "ignored"] += 1
                if why:
                    faults.append(f"{graph.name}: {kind}: {mutant.op or name}: {why}")
        # Found by a rule at the right op and line; refused with a code at the right op; rightly ignored.
        print(f"{'kind':26} {'applied':>8} {'by rule':>8} {'refused':>8} {'ignored':>8} {'missed':>7}")
        for kind in KINDS:
            row = outcome[kind]
            print(f"{kind:26} {applied[kind]:8} {row['found']:8} {row['refused']:8} {row['ignored']:8} {row['missed']:7}")
        by_rule = [k for k in KINDS if outcome[k]["found"] or not outcome[k]["refused"]]
        print(f"{len(KINDS)} kinds, {len(by_rule)} of them beside what the compiler refuses, {sum(applied.values())} applications")
        self.assertEqual(faults, [], f"{len(faults)} of {sum(applied.values())}:\n" + "\n".join(faults[:60]))
        self.assertGreaterEqual(sum(applied.values()), 2000)
        self.assertEqual([k for k in KINDS if not applied[k]], [], "kinds that fit nowhere")
        self.assertGreaterEqual(len(by_rule), 40)


class Many(unittest.TestCase):
    def test_a_folder_of_two_hundred_graphs(self):
        """200 graphs of 500 ops cost no more than three times what compiling each with a program of its own does: nothing of one check
        makes the next one dearer. A ratio, as no two machines are equally fast."""
        text = 'op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 32 dim: 64 } data_type: kFloat } } }\n'
        at = "x/out"
        for i in range(125):
            text += (f'op {{ name: "w{i}" variable_conf {{ out: "out" shape {{ dim: 64 dim: 64 }} data_type: kFloat '
                     f'initializer {{ random_uniform_conf {{ min: -0.1 max: 0.1 }} }} }} }}\n'
                     f'op {{ name: "fc{i}" user_conf {{ op_type_name: "matmul" input {{ key: "a" value {{ s: "{at}" }} }} '
                     f'input {{ key: "b" value {{ s: "w{i}/out" }} }} }} }}\n'
                     f'op {{ name: "r{i}" user_conf {{ op_type_name: "relu" input {{ key: "x" value {{ s: "fc{i}/out_0" }} }} }} }}\n'
                     f'op {{ name: "t{i}" user_conf {{ op_type_name: "tanh" input {{ key: "x" value {{ s: "r{i}/y_0" }} }} }} }}\n')
            at = f"t{i}/y_0"
        text += f'op {{ name: "y" output_conf {{ in: "{at}" }} }}\n'
        with tempfile.TemporaryDirectory() as folder:
            for i in range(200):
                write(os.path.join(folder, f"g{i:03}.pbtxt"), text)
            env = {k: v for k, v in os.environ.items() if k not in ("CI", "OPC_VERIFY_EACH")}
            subprocess.run([OPC, "check", folder, "--update", "-q"], check=True, capture_output=True, env=env)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run([OPC, "check", folder, "-j", "2"], capture_output=True, text=True, env=env)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            for i in range(10):
                plan = os.path.join(folder, "g.plan")
                subprocess.run([OPC, "compile", os.path.join(folder, f"g{i:03}.pbtxt"), "-o", plan], check=True, capture_output=True, env=env)
            last = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual((done.returncode, done.stderr), (0, "checked 200 graphs: no finding\n"))
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        compiling = 20 * (last.ru_utime + last.ru_stime - after.ru_utime - after.ru_stime)
        print(f"200 graphs of 502 ops: {seconds:.1f} s of processor time, {seconds / compiling:.2f} of compiling each")
        self.assertLess(seconds, 3 * compiling)


if __name__ == "__main__":
    unittest.main()
