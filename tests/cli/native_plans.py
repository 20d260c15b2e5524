# Machine code in plans: the bits of the interpreted plan, run where that is asked for and nowhere else, and refused where it is damaged
# or not the plan's.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import struct
import subprocess
import unittest

import numpy as np

import plan_bytes as pb
from code_levels import LEVELS
from folder_test import FolderTest
from plan_bytes import Plan, xxh64
from plugin_build import build_plugin
from regions import NUMPY, OPC, PLUGIN, RUNTIME, Graph, random_graph, values

SOURCE = os.environ["OPC_SOURCE_DIR"]
# The graphs of docs/examples/digits, and their training steps.
EXAMPLES = [(files, trains) for net in ("mlp", "cnn") for files, trains in (([net], False), ([net, net + "_loss"], False), ([net, net + "_loss"], True))]


def chain(*types, shape=(300,), dtype="f32"):
    g = Graph()
    x = g.input(shape, dtype)
    for type in types:
        x = g.unary(type, x) if type in ("exp", "tanh", "negative", "sqrt", "sigmoid", "erf", "gelu") else g.op(type, [("x", x)], "y", x[1], x[2])
    g.output("y", x)
    return g


class NativePlans(FolderTest):
    def setUp(self):
        super().setUp()
        self.assertTrue(LEVELS, "a processor with AVX2")
        self.environment = {k: v for k, v in os.environ.items() if k != "OPC_CODE_LEVEL"}

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def opc(self, *args, code=0, program=OPC, **environment):
        return super().opc(*args, code=code, program=program, env={**self.environment, **environment})

    def make(self, g, *flags, seed=0, name="g.plan"):
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(g.text())
        rng = np.random.default_rng(seed)
        np.savez(self.path("in.npz"), **{name: values(rng, shape, dtype) for name, (shape, dtype) in g.inputs.items()})
        native = () if any(f.startswith("--native") for f in flags) else ("--native",)
        return self.opc("compile", "g.pbtxt", *native, *flags, "-o", name)

    def outputs(self, *args, plan="g.plan", program=RUNTIME, given=("--inputs", "in.npz"), **environment):
        """The outputs' bytes, and how many loops ran as the plan's code."""
        call = [plan] if program == RUNTIME else ["run", plan]
        done = self.opc(*call, *given, "--outputs", "out.npz", "--print", "none", "--stats", *args, program=program, **environment)
        loops = done.stderr.split("machine code for ")[-1].split()[0] if "the plan's machine code for " in done.stderr else "0"
        with np.load(self.path("out.npz")) as z:
            return {k: (z[k].dtype.str, z[k].shape, z[k].tobytes()) for k in z.files}, int(loops)

    def same(self, *, ranks=(), **more):
        """Interpreted, and native at each level of this processor: the same bytes. How many loops the plan has."""
        want, none = self.outputs(**more)
        self.assertEqual(none, 0)
        counts = set()
        for level in LEVELS:
            got, loops = self.outputs("--allow-native", OPC_CODE_LEVEL=level, **more)
            self.assertEqual(got, want, level)
            counts.add(loops)
        got, _ = self.outputs("--allow-native", "-j", "2", **more)
        self.assertEqual(got, want)
        got, loops = self.outputs("--allow-native", *ranks, program=OPC, **more)
        self.assertEqual((got, {loops}), (want, counts))
        return loops

    def test_examples(self):
        total = 0
        for files, trains in EXAMPLES:
            with self.subTest(files=files, trains=trains):
                text = b""
                for name in files:
                    with open(os.path.join(SOURCE, "docs", "examples", "digits", name + ".pbtxt"), "rb") as f:
                        text += f.read()
                self.write("g.pbtxt", text)
                if trains:
                    self.opc("grad", "g.pbtxt", "--loss", "loss", "--optimizer", "adam", "--lr", "0.01", "-o", "train.pbtxt")
                self.opc("compile", "train.pbtxt" if trains else "g.pbtxt", "--native", "-o", "g.plan")
                rng, inputs = np.random.default_rng(1), {}
                for port in json.loads(self.opc("show", "g.plan", "--json").stdout)["inputs"]:
                    shape = port["shape"]
                    inputs[port["name"]] = rng.random(shape, np.float32) if port["dtype"] == "f32" else rng.integers(0, 10, shape).astype(NUMPY[port["dtype"]])
                np.savez(self.path("in.npz"), **inputs)
                total += self.same(given=("--inputs", "in.npz", "--seed", "3"))
        self.assertGreater(total, 8)

    def test_random_graphs(self):
        total = 0
        for seed in range(6):
            with self.subTest(seed=seed):
                self.make(random_graph(seed), seed=seed)
                total += self.same()
        self.assertGreater(total, 4)

    def test_regions_by_rows(self):
        """The stages between the ops over rows have code; where one of two has none, the other one has."""
        for first in ("exp", "asinh"):
            with self.subTest(first=first):
                g = Graph()
                x = g.input((64, 96), "f32")
                a = g.unary("tanh", g.op(first, [("x", x)], "y", x[1], "f32"))
                s = g.op("softmax", [("in", a)], "out", x[1], "f32")
                g.output("y", g.unary("gelu", g.binary("broadcast_mul", s, x)))
                self.make(g)
                self.assertEqual(self.same(), 2 if first == "exp" else 1)

    def test_ops_by_themselves(self):
        """Elementwise ops that are in no region have code, too; small ones, those that broadcast, and other ops have none."""
        g = Graph()
        x = g.input((40, 75), "f32")
        rolled = [("shifts", (1,)), ("dims", (0,))]
        attrs = " ".join(f'attr {{ key: "{k}" value {{ at_list_int32 {{ val: {v[0]} }} }} }}' for k, v in rolled)
        y = g.op("roll", [("in", g.unary("exp", x))], "out", x[1], "f32", attrs)
        g.output("y", g.unary("tanh", y))
        g.output("z", g.unary("exp", g.input((1023,), "f32")))
        g.output("b", g.binary("broadcast_add", x, g.input((75,), "f32")))
        said = self.make(g).stderr
        self.assertIn("2 different loops (of 2 loops in regions and ops)", said)
        self.assertEqual(self.same(), 2)
        # Code of one that stands at an op without a loop.
        plan, codes = Plan(self.read("g.plan")), []
        for field in plan.message.all(pb.TASK):
            task = pb.Message(field[2])
            codes += [(field, task)] if not task.all(pb.TASK_NATIVE) and b"roll" in field[2] else []
        field, task = codes[0]
        task.fields.append([pb.TASK_NATIVE, 2, b"\1"])
        field[2] = task.encode()
        want, _ = self.outputs()
        self.write("g.plan", plan.bytes())
        self.assertEqual(self.outputs(), (want, 0))
        self.refused("OPC0825", 4, "machine code for 1 loops of a task that has 0", "--allow-native")

    def test_ops_of_plugins(self):
        g = Graph()
        x = g.input((3, 1000), "f32")
        g.output("y", g.unary("negative", g.op("hump", [("x", g.unary("tanh", x))], "y", x[1], "f32")))
        for number, (options, loops) in enumerate(((("-march=x86-64-v3", "-ffp-contract=off"), 1), ((), 0))):
            library = f"./libhump{number}.so"
            build_plugin(self.path(library), PLUGIN, "-O1", *options)
            done = self.make(g, "--plugin", library, name=f"{number}.plan")
            self.assertEqual("its ops' own loops give other bits" in done.stderr, loops == 0, done.stderr)
            self.assertEqual(self.same(plan=f"{number}.plan", given=("--inputs", "in.npz", "--plugin", library)), loops)
        # The same op in another file is the same op; with other bits its code does not run.
        os.rename(self.path("libhump0.so"), self.path("renamed.so"))
        _, loops = self.outputs("--allow-native", plan="0.plan", given=("--inputs", "in.npz", "--plugin", "./renamed.so"))
        self.assertEqual(loops, 1)
        done = self.opc("0.plan", "--inputs", "in.npz", "--plugin", "./libhump1.so", "--allow-native", code=4, program=RUNTIME)
        self.assertIn("OPC0825", done.stderr)

    def test_ranks(self):
        g = Graph()
        x = g.input((64, 96), "f32")
        g.output("y", g.unary("gelu", g.unary("exp", x)))
        self.make(g, "--mesh", "2")
        self.assertEqual(self.same(ranks=("--ranks", "2", "--in-process")), 2)  # each has its part of the loop

    def test_what_compiles_and_what_does_not(self):
        self.make(chain("exp", "tanh", "negative"))
        np.savez(self.path("in.npz"), in0=np.linspace(-3, 3, 300, dtype=np.float32))

        def stats(*args, **environment):
            done = self.opc("run", *args, "--inputs", "in.npz", "--print", "none", "--stats", "--json", **environment)
            s = json.loads(done.stdout)["stats"]
            return s["codegen"]["compiled"], s["native"]["loops"]

        images = 2
        self.assertEqual(stats("g.plan", OPC_CODE_LEVEL="v3"), (1, 0))
        self.assertEqual(stats("g.plan", "--allow-native", OPC_CODE_LEVEL="v3"), (0, 1))
        self.assertEqual(stats("g.plan", "--allow-native", "--no-codegen"), (0, 1))
        self.assertIn(f"{images} images of machine code, not run (--allow-native runs them)", self.opc("g.plan", "--inputs", "in.npz", "--stats", program=RUNTIME).stderr)
        # A loop without an image is compiled here, and interpreted there.
        done = self.make(chain("exp", "asinh", "negative"))
        self.assertIn("no machine code (v3) for the loop that begins with op1: it calls asinhf of another library", done.stderr)
        self.assertEqual(stats("g.plan", "--allow-native", OPC_CODE_LEVEL="v3"), (1, 0))
        self.assertEqual(self.same(), 0)
        self.assertEqual(self.read("g.plan")[8], 2)
        # A plan without regions.
        self.assertIn("no machine code: the plan has no loops over elements", self.make(chain("exp")).stderr)
        self.same()

    def test_same_bytes_twice(self):
        self.make(chain("exp", "tanh", "gelu"))
        self.make(chain("exp", "tanh", "gelu"), name="again.plan")
        self.assertEqual(self.read("g.plan"), self.read("again.plan"))
        self.assertEqual(self.read("g.plan")[8], 4)
        self.opc("compile", "g.pbtxt", "-o", "without.plan")
        self.assertEqual(self.read("without.plan")[8], 2)

    def test_what_a_plan_holds(self):
        """Equal loops of different shapes have one image for each level."""
        g = Graph()
        for shape in ((100,), (7, 9)):
            x = g.input(shape, "f32")
            g.output(f"y{len(shape)}", g.unary("gelu", g.unary("exp", x)))
        for flags, levels in (((), ["v3", "v4"]), (("--native=v3",), ["v3"]), (("--native=v4,v3",), ["v3", "v4"])):
            made = json.loads(self.make(g, *flags, "--json").stdout)["native"]
            self.assertEqual((made["loops"], made["codes"], made["images"], made["refused"]), (2, 1, len(levels), []))
            held = json.loads(self.opc("show", "g.plan", "--json").stdout)["native"]
            self.assertEqual([(h["level"], h["images"]) for h in held], [(level, 1) for level in levels])
            self.assertEqual(sum(h["bytes"] for h in held), made["bytes"])
            self.assertRegex(self.opc("show", "g.plan").stdout, r"code +v3 +1 image, ")
        self.assertEqual(self.same(), 2)
        self.opc("compile", "g.pbtxt", "-o", "g.plan")
        self.assertNotIn("native", json.loads(self.opc("show", "g.plan", "--json").stdout))

    def test_code_of_a_file_never_runs_unasked(self):
        """Code that does nothing, and code that ends the process, each with checksums that fit: only with the flag they run."""
        self.make(chain("exp", "tanh", "negative"), "--native=v3")
        want, loops = self.outputs("--allow-native")
        self.assertEqual(loops, 1)

        def begins_with(instruction):
            def change(_, image):
                data = bytearray(image.get(pb.DATA))
                data[image.get(pb.ENTRY) : image.get(pb.ENTRY) + len(instruction)] = instruction
                image.set(pb.DATA, bytes(data))
            return change

        good = self.read("g.plan")
        for instruction, ending in ((b"\xc3", 4), (b"\x0f\x0b", None)):  # ret; ud2
            self.write("g.plan", Plan(good).change(begins_with(instruction)).bytes())
            for args in ((), ("-j", "2")):
                self.assertEqual(self.outputs(*args), (want, 0))
            self.assertEqual(self.outputs(program=OPC), (want, 0))
            self.assertEqual(self.outputs("--no-codegen", program=OPC), (want, 0))
            self.opc("show", "g.plan")
            for call in ((RUNTIME, "g.plan"), (OPC, "run", "g.plan")):
                done = subprocess.run([*call, "--inputs", "in.npz", "--allow-native"], capture_output=True, text=True, timeout=60, cwd=self.folder, env={**self.environment, "OPC_CRASH_DIR": self.folder})
                self.assertEqual("gives other bits than the ops' own loops" in done.stderr, ending == 4, done.stderr)
                if ending:
                    self.assertEqual(done.returncode, ending, done.stderr)
                else:
                    self.assertNotIn(done.returncode, (0, 2, 3, 4, 5), "the code did not run")

    def test_code_of_others(self):
        """Codes that changed places, and code of another version: refused where code runs, and no matter elsewhere."""
        g = chain("exp", "tanh", "negative")
        y = g.unary("gelu", g.unary("sqrt", g.input((50,), "f32")))
        g.output("z", y)
        self.make(g)
        want, loops = self.outputs("--allow-native")
        self.assertEqual(loops, 2)
        good = self.read("g.plan")

        def swap(plan):
            a, b = plan.message.all(pb.NATIVE)
            a[2], b[2] = b[2], a[2]

        def point_elsewhere(plan):
            for field in plan.message.all(pb.TASK):
                task = pb.Message(field[2])
                for native in task.all(pb.TASK_NATIVE):
                    native[2] = b"\1" if native[1] == 2 else 1
                field[2] = task.encode()

        def other_version(code, _):
            code.set(pb.REGION, struct.pack("<Q", 77))

        plans = []
        for change in (swap, point_elsewhere):
            plans.append(Plan(good))
            change(plans[-1])
        one_level = chain("exp", "tanh", "negative")
        for plan in plans:
            self.write("g.plan", plan.bytes())
            self.refused("OPC0825", 4, "opc compile --native", "--allow-native")
            self.assertEqual(self.outputs(), (want, 0))
        self.make(one_level, "--native=v3")
        want, _ = self.outputs()
        self.write("g.plan", Plan(self.read("g.plan")).change(other_version).bytes())
        self.refused("OPC0825", 4, "another version of opc", "--allow-native")
        self.assertEqual(self.outputs(), (want, 0))

    def refused(self, name, status, words, *args, **environment):
        for program, call in ((RUNTIME, ["g.plan"]), (OPC, ["run", "g.plan"])):
            done = self.opc(*call, "--inputs", "in.npz", *args, code=status, program=program, **environment)
            self.assertIn(f"error[{name}]", done.stderr)
            self.assertIn(words, done.stderr)

    def test_sizes_in_a_range(self):
        """At every size the ops run the code that was made for them, which are alone there; those that have become small have their own loops."""
        for types in (("exp",), ("exp", "tanh", "negative")):
            self.make(chain(*types, shape=(64, 300)), "--shape", "in0=n:1..64,300")
            for n in (64, 7, 1, 50):
                np.savez(self.path("in.npz"), in0=values(np.random.default_rng(n), (n, 300), "f32"))
                want, none = self.outputs()
                self.assertEqual(none, 0)
                for program in (RUNTIME, OPC):
                    with self.subTest(types=types, n=n, program=program):
                        self.assertEqual(self.outputs("--allow-native", program=program), (want, 0 if n == 1 else len(types)))

    def test_levels(self):
        self.make(chain("exp", "tanh", "negative"), "--native=v4")
        want, _ = self.outputs()
        self.refused("OPC0824", 4, "level v4, and OPC_CODE_LEVEL takes v3" if "v4" in LEVELS else "level v4, and this processor has v3", "--allow-native", OPC_CODE_LEVEL="v3")
        self.refused("OPC0824", 4, "opc compile --native=v3", "--allow-native", OPC_CODE_LEVEL="none")
        self.assertEqual(self.outputs(OPC_CODE_LEVEL="v3"), (want, 0))
        # Code of the lower level runs on a processor that has more.
        self.make(chain("exp", "tanh", "negative"), "--native=v3")
        self.assertEqual(self.outputs("--allow-native"), (want, 1))

    def test_damaged_frames(self):
        """Every number of an image's frame beyond its range, with checksums that fit: refused with and without the flag."""
        self.make(chain("exp", "tanh", "negative"), "--native=v3")
        good = self.read("g.plan")

        def setting(number, value):
            return lambda _, image: image.set(number, value)

        pages = len(good) // 4096 * 4096
        for what, change in {
            "is for no level": setting(pb.LEVEL, 0),
            "computes 0 elements": setting(pb.LANES, 0),
            "computes 65 elements": setting(pb.LANES, 65),
            "computes 4294967295 elements": setting(pb.LANES, 0xFFFFFFFF),
            "begins at byte 4294967295": setting(pb.ENTRY, 0xFFFFFFFF),
            "has 0 executable bytes": setting(pb.CODE, 0),
            "has 4097 executable bytes": setting(pb.CODE, 4097),
            f"has {pages + 4096} executable bytes": setting(pb.CODE, pages + 4096),
            "has 4096 executable bytes of 100": lambda _, image: (image.set(pb.CODE, 4096), image.set(pb.DATA, image.get(pb.DATA)[:100])),
            "executable bytes of 0": setting(pb.DATA, b""),
            "has more than 16777216 bytes": setting(pb.DATA, bytes(17 << 20)),
        }.items():
            with self.subTest(what):
                self.write("g.plan", Plan(good).change(change, sums=len(what) < 200 and "more than" not in what).bytes())
                for flags in ((), ("--allow-native",)):
                    self.refused("OPC0823", 3, what, *flags)
        rng = np.random.default_rng(5)
        image_bytes = []
        Plan(good).change(lambda _, image: image_bytes.append(image.get(pb.DATA)))
        for at in (0, len(image_bytes[0]) - 1, *rng.integers(0, len(image_bytes[0]), 6)):  # one bit of the code
            def flip(_, image, at=int(at)):
                data = bytearray(image.get(pb.DATA))
                data[at] ^= 1 << int(rng.integers(0, 8))
                image.set(pb.DATA, bytes(data))
            self.write("g.plan", Plan(good).change(flip, sums=False).bytes())
            self.refused("OPC0823", 3, "its checksum does not match", "--allow-native")
        for size in (len(good) - 1, len(good) - 4096, 40):
            self.write("g.plan", good[:size])
            self.refused("OPC0803", 3, "truncated", "--allow-native")
        self.write("g.plan", Plan(good).bytes(version=3))
        self.refused("OPC0804", 3, "machine code, which came with version 4")

    def test_references(self):
        self.make(chain("exp", "tanh", "negative"), "--native=v3")
        good = self.read("g.plan")

        def tasks(change):
            plan = Plan(good)
            for field in plan.message.all(pb.TASK):
                task = pb.Message(field[2])
                change(task)
                field[2] = task.encode()
            return plan

        def second(task):
            task.all(pb.TASK_NATIVE)[0][2] = 2

        def many(task):
            task.fields += [[pb.TASK_NATIVE, 0, 1]] * 2

        def too_many(task):
            task.fields += [[pb.TASK_NATIVE, 0, 1]] * 9

        self.write("g.plan", tasks(second).bytes())
        self.refused("OPC0823", 3, "is 2 of 1")
        self.write("g.plan", tasks(too_many).bytes())
        self.refused("OPC0823", 3, "more loops with machine code than ops")
        self.write("g.plan", tasks(many).bytes())
        self.refused("OPC0825", 4, "machine code for 3 loops", "--allow-native")
        plan = Plan(good)
        plan.message.fields.append([pb.NATIVE, 2, b""])
        self.write("g.plan", plan.bytes())
        self.refused("OPC0823", 3, "machine code 1 has 0 images")

    def test_checksums_are_those_of_the_program(self):
        self.assertEqual([xxh64(b) for b in (b"", b"a", b"abc")], [0xEF46DB3751D8E999, 0xD24EC4F1A98C6E5B, 0x44BC2CF5AD770999])
        self.make(chain("exp", "tanh"))
        self.assertEqual(Plan(self.read("g.plan")).bytes(), self.read("g.plan"))

    def test_usage(self):
        g = chain("exp", "tanh")
        self.make(g)
        for args, words in (
            (("--native=v5", "-o", "x.plan"), "--native takes v3, v4 or v3,v4, not 'v5'"),
            (("--native=v3,", "-o", "x.plan"), "--native takes v3, v4 or v3,v4"),
            (("--native", "--emit", "mlir"), "--native is for plans"),
            (("--native", "--to", "fuse"), "--native is for plans"),
            (("--native", "--device", "sim", "-o", "x.plan"), "--native makes machine code for the cpu"),
        ):
            self.assertIn(words, self.opc("compile", "g.pbtxt", *args, code=2).stderr)
        self.assertIn("--allow-native is for plans", self.opc("run", "g.pbtxt", "--inputs", "in.npz", "--allow-native", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
