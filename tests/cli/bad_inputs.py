# Broken files and commands: each gives the exit code of its class and a message; nothing crashes, nothing hangs.
# SPDX-License-Identifier: Apache-2.0
import bz2
import concurrent.futures
import gzip
import lzma
import os
import struct
import subprocess
import unittest
import zipfile

import numpy as np

from folder_test import FolderTest

SOURCE, BIN = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")

SMALL = '''op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 2 dim: 3 } data_type: kFloat } } }
op { name: "w" variable_conf { out: "out" shape { dim: 3 } data_type: kFloat initializer { constant_conf { value: 2 } } } }
op { name: "m" user_conf { op_type_name: "broadcast_mul" input { key: "x" value { s: "x/out" } } input { key: "y" value { s: "w/out" } }
  output { key: "z" value { s: "m/z_0" } } } }
op { name: "y" output_conf { in: "m/z_0" out: "out" } }'''


def opc(*args, **kw):
    return subprocess.run([os.path.join(BIN, "opc"), *args], capture_output=True, timeout=60, **kw)


class Scratch(FolderTest):
    def setUp(self):
        super().setUp()
        self.graph = self.file("small.pbtxt", SMALL)

    def file(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return path

    def fails(self, codes, *args, words=()):
        done = opc(*args)
        codes = (codes,) if isinstance(codes, int) else codes
        self.assertIn(done.returncode, codes, f"{args}\n{done.stdout}\n{done.stderr.decode(errors='replace')}")
        text = done.stderr.decode(errors="replace")
        self.assertIn("error", text)
        for w in words:
            self.assertIn(w, text)
        return text

    def all_fail(self, names, make):
        """Runs make(name) -> arguments for each, two at a time; every run must exit with 2, 3 or 4 and say something."""
        def one(name):
            done = opc(*make(name))
            return name, done.returncode, done.stderr

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            wrong = [(n, code, said[:200]) for n, code, said in pool.map(one, names) if code not in (2, 3, 4) or not said]
        self.assertFalse(wrong, wrong[:5])


class Graphs(Scratch):
    def test_small_graph_runs(self):
        done = opc("run", self.graph, "--input", "x=1", "--outputs", os.path.join(self.folder, "o"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(np.load(os.path.join(self.folder, "o", "y.npy")).tolist(), [[2, 2, 2]] * 2)

    def test_truncated_at_every_byte(self):
        text = SMALL.encode()
        for n in range(len(text)):
            self.file(f"t{n}.pbtxt", text[:n])
        self.all_fail(range(len(text)), lambda n: ("compile", os.path.join(self.folder, f"t{n}.pbtxt"), "-o", os.path.join(self.folder, "x.plan")))

    def test_examples_truncated(self):
        """The examples, at a sample of places, the last bytes among them (tests/fuzz tries all)."""
        for net in ("mlp", "cnn"):
            with open(os.path.join(DIGITS, f"{net}.pbtxt"), "rb") as f:
                text = f.read()
            places = sorted(set(range(0, len(text), 97)) | set(range(len(text) - 60, len(text))))
            for n in places:
                self.file(f"{net}{n}.pbtxt", text[:n])
            self.all_fail(places, lambda n, net=net: ("compile", os.path.join(self.folder, f"{net}{n}.pbtxt"), "-o", os.path.join(self.folder, "x.plan")))

    def test_binary_truncated_at_every_byte(self):
        path = os.path.join(self.folder, "small.pb")
        done = opc("compile", self.graph, "--to", "import", "--emit", "pb", "-o", path)
        if done.returncode != 0:
            self.skipTest("opc compile emits no binary graph")
        with open(path, "rb") as f:
            whole = f.read()
        self.assertEqual(opc("compile", path, "-o", os.path.join(self.folder, "x.plan")).returncode, 0)
        for n in range(len(whole)):
            self.file(f"b{n}.pb", whole[:n])
        self.all_fail(range(len(whole)), lambda n: ("compile", os.path.join(self.folder, f"b{n}.pb"), "-o", os.path.join(self.folder, "x.plan")))

    def test_plan_damaged(self):
        """Truncated at every 7th byte, and with every 13th byte flipped (tests/fuzz tries all)."""
        plan = os.path.join(self.folder, "small.plan")
        self.assertEqual(opc("compile", self.graph, "-o", plan).returncode, 0)
        with open(plan, "rb") as f:
            whole = f.read()
        names = []
        for n in range(0, len(whole), 7):
            names.append(self.file(f"t{n}.plan", whole[:n]))
        for n in range(0, len(whole), 13):
            names.append(self.file(f"f{n}.plan", whole[:n] + bytes([whole[n] ^ 0xFF]) + whole[n + 1:]))
        self.all_fail(names, lambda p: ("run", p, "--input", "x=1"))

    def test_not_a_graph(self):
        for content in (b"", b"\n\n", b"\x00" * 100, b"\xff" * 100, b"hello world", b"{}", b"op {", b"op { name: 1 }", b"op {}",
                        b"op { name: \"a\" }", bytes(range(256)) * 4):
            self.fails(3, "compile", self.file("bad.pbtxt", content), "-o", os.path.join(self.folder, "x.plan"))

    def test_deep_nesting(self):
        self.fails(3, "compile", self.file("deep.pbtxt", b"op { " * 100000), "-o", os.path.join(self.folder, "x.plan"))

    def test_unknown_op(self):
        text = self.fails(3, "compile", self.file("u.pbtxt", SMALL.replace("broadcast_mul", "broadcast_mull")), "-o", os.path.join(self.folder, "x.plan"))
        self.assertIn("broadcast_mul", text)
        self.assertIn("u.pbtxt:3:", text)
        self.assertIn("OPC0201", text)

    def test_shape_error_shows_place_operands_and_producers(self):
        text = self.fails(3, "compile", self.file("s.pbtxt", SMALL.replace("shape { dim: 3 }", "shape { dim: 4 }")), "-o", os.path.join(self.folder, "x.plan"))
        for w in ("s.pbtxt:3:", "^", "f32[2,3]", "f32[4]", "OPC02", "x/out", "w/out"):
            self.assertIn(w, text)

    def test_all_errors_of_a_phase(self):
        bad = "\n".join(f'op {{ name: "b{i}" user_conf {{ op_type_name: "no_such_{i}" input {{ key: "x" value {{ s: "x/out" }} }} '
                        f'output {{ key: "y" value {{ s: "b{i}/y_0" }} }} }} }}' for i in range(30))
        text = self.fails(3, "compile", self.file("many.pbtxt", SMALL + "\n" + bad), "-o", os.path.join(self.folder, "x.plan"))
        self.assertEqual(text.count("error[OPC0201]"), 20)
        self.assertIn("30", text)

    def test_structure(self):
        other = SMALL.replace
        for content, words in (
            (other('s: "x/out"', 's: "nowhere/out"'), ("nowhere/out",)),
            (other('s: "x/out"', 's: "m/z_0"'), ("cycle",)),
            (other('name: "w"', 'name: "x"'), ("'x'",)),
            (other('key: "x" value { s: "x/out" }', 'key: "q" value { s: "x/out" }'), ("q",)),
            (other('op_type_name: "broadcast_mul"', 'op_type_name: "broadcast_mul" attr { key: "nope" value { at_bool: true } }'), ("nope",)),
            (other("data_type: kFloat }", "data_type: kInt32 }", 1), ("m",)),
            (other("dim: 2", "dim: -7"), ("-7",)),
            (other("dim: 2 dim: 3", " ".join(["dim: 1"] * 40)), ("40",)),
        ):
            text = self.fails((3, 4), "compile", self.file("g.pbtxt", content), "-o", os.path.join(self.folder, "x.plan"))
            for w in words:
                self.assertIn(w, text)


    def test_what_a_file_says_of_its_tensors(self):
        """It must be said of inputs, and must be true of outputs; each refusal has the place."""
        def outcome(text, *flags):
            return opc("run", self.file("said.pbtxt", text), "--fill", "ones", *flags)

        def refused(text, place, *words):
            done = outcome(text)
            self.assertEqual((done.returncode, done.stdout), (3, b""), done.stderr)
            for word in (f"said.pbtxt:{place}", *words):
                self.assertIn(word, done.stderr.decode())

        def says(blob):
            return SMALL.replace('in: "m/z_0" out: "out"', f'in: "m/z_0" out: "out" blob_conf {{ {blob} }}')

        refused(SMALL.replace(" data_type: kFloat } } }", " } } }", 1), "1:1", "OPC0105", "'data_type' is missing", "what numbers x holds", "data_type: kFloat")
        refused(SMALL.replace(" data_type: kFloat initializer", " initializer"), "2:1", "OPC0105", "what numbers w holds")
        refused(says("shape { dim: 2 dim: 4 } data_type: kFloat"), "5:1", "OPC0203", "output_conf of y says (2,4), and m/z_0 is (2,3)")
        refused(says("shape { dim: 6 }"), "5:1", "OPC0203")
        refused(says("data_type: kInt32"), "5:1", "OPC0204", "output_conf of y says i32, and m/z_0 is f32")
        for fine in ("shape { dim: 2 dim: 3 } data_type: kFloat", "shape { dim: -1 dim: 3 }", "data_type: kFloat", "is_dynamic: false"):
            done = outcome(says(fine))
            self.assertEqual(done.returncode, 0, done.stderr)
        # --shape replaces what the file says of the inputs, and with it what follows.
        done = outcome(says("shape { dim: 2 dim: 3 } data_type: kFloat"), "--shape", "x=7,3")
        self.assertEqual(done.returncode, 0, done.stderr)
        # A job may say the type for all of its tensors.
        job = "net {\n" + SMALL.replace(" data_type: kFloat", "") + "\n}\njob_conf { job_name: \"j\" default_data_type: kDouble }\n"
        self.assertIn(b"f64[2,3]", outcome(job).stdout)

    def test_operands_that_are_nan(self):
        scalar = SMALL.replace('"broadcast_mul"', '"scalar_mul"').replace('input { key: "y" value { s: "w/out" } }', "ATTR").replace('key: "x" value', 'key: "in" value').replace('"z"', '"out"').replace("m/z_0", "m/out_0")
        attr = 'attr {{ key: "has_float_operand" value {{ at_bool: true }} }}\n  attr {{ key: "float_operand" value {{ at_double: {} }} }}'
        for value, code in (("2", 0), ("inf", 0), ("nan", 3), ("-nan", 3)):
            done = opc("run", self.file("nan.pbtxt", scalar.replace("ATTR", attr.format(value))), "--fill", "ones")
            self.assertEqual(done.returncode, code, done.stderr)
            if code:
                self.assertRegex(done.stderr.decode(), r"OPC0205\]: attribute 'float_operand' is nan[\s\S]*nan\.pbtxt:4:")
        leaky = (SMALL[: SMALL.index("op { name: \"w\"")] + 'op { name: "m" user_conf { op_type_name: "leaky_relu" input { key: "x" value { s: "x/out" } } ATTR } }\n'
                 'op { name: "y" output_conf { in: "m/y_0" out: "out" } }\n')
        for value, code in (("0.1", 0), ("inf", 0), ("1e300", 3), ("-1e300", 3)): # of 32 bits, given as a double
            done = opc("run", self.file("leaky.pbtxt", leaky.replace("ATTR", f'attr {{ key: "alpha" value {{ at_double: {value} }} }}')), "--fill", "ones")
            self.assertEqual(done.returncode, code, done.stderr)
            if code:
                self.assertIn(f"attribute 'alpha' has {value[:-4]}e+300, which at_float does not hold", done.stderr.decode())
        like = SMALL[: SMALL.index('op { name: "m"')] + 'op { name: "m" constant_like_conf { like: "x/out" out: "out" float_operand: nan } }\nop { name: "y" output_conf { in: "m/out" } }\n'
        done = opc("run", self.file("like.pbtxt", like), "--fill", "ones")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr.decode(), r"OPC0205\]: float_operand is nan[\s\S]*like\.pbtxt:3:1")
        done = opc("run", self.file("like.pbtxt", like.replace("nan", "2.5")), "--fill", "ones", "--print", "all")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_more_memory_than_there_is(self):
        graph = self.file("huge.pbtxt", SMALL.replace("dim: 2", "dim: 99999999999999"))
        self.fails((3, 4), "run", graph, "--fill", "zeros", words=("memory",))
        graph = self.file("overflow.pbtxt", SMALL.replace("dim: 2", "dim: 9223372036854775807"))
        self.fails((3, 4), "run", graph, "--fill", "zeros")


class Mistakes(Scratch):
    """What people mistype, and the files of other kinds that they give: named, shown, with the way out."""

    def shown(self, text, wrong, *words, name="t.pbtxt"):
        """The line of the mistake is shown, with a caret under the first of its letters."""
        said = self.fails(3, "show", self.file(name, text), words=words)
        lines = text.split("\n")
        number = next(i for i, line in enumerate(lines, 1) if wrong in line)
        column = lines[number - 1].index(wrong) + 1
        self.assertIn(f"{name}:{number}:{column}\n", said)
        printed = said.split("\n")
        carets = next(i for i, line in enumerate(printed) if line.lstrip(" |").startswith("^"))
        self.assertEqual(printed[carets - 1][printed[carets].index("^"):][:1], wrong[0], said)
        return said

    def test_element_types(self):
        for wrong, right in (("kFlot", "kFloat"), ("float32", "kFloat"), ("FLOAT", "kFloat"), ("torch.float32", None), ("DT_HALF", "kFloat16"),
                             ("bf16", "kBFloat16"), ("kInt34", "kInt32"), ("long", "kInt64"), ("double", "kDouble"), ("boolean", "kBool"),
                             ("f8e5m2", "kFloat8E5M2")):
            text = SMALL.replace("data_type: kFloat", f"data_type: {wrong}", 1)
            if right:
                self.shown(text, wrong, "OPC0101", f"did you mean {right}?")
            else:  # two words to protobuf
                self.fails(3, "show", self.file("t.pbtxt", text), words=("OPC0101", "^"))
        self.shown(SMALL.replace("data_type: kFloat", 'data_type: "kFloat"', 1), '"kFloat"', "write kFloat without quotes")
        # The parser stands at the next word, which may be lines away, and counts tabs as eight.
        self.shown(SMALL.replace("data_type: kFloat", "data_type: kFlot  # a comment\n\n # kFlot too?\n", 1), "kFlot", "did you mean kFloat?")
        self.shown("\t# tabs\n\t" + SMALL.replace("data_type: kFloat", "\tdata_type:\tkFlot", 1), "kFlot", "did you mean kFloat?")
        bom = self.file("bom.pbtxt", b"\xef\xbb\xbf" + SMALL.replace("kFloat", "kFlot").encode())
        self.fails(3, "show", bom, words=("bom.pbtxt:1:", "^^^^^", "did you mean kFloat?"))
        with open(os.path.join(self.folder, "long.pbtxt"), "w") as f:  # parsed by two threads
            f.write("# " + "x" * 5000000 + "\n" + SMALL + "\n" + SMALL.replace("kFloat", "kFlot"))
        said = self.fails(3, "show", os.path.join(self.folder, "long.pbtxt"), words=("did you mean kFloat?",))
        self.assertIn("long.pbtxt:7:", said)

    def test_places_within_an_op(self):
        """An op's text is parsed once more for them, by protobuf, which counts a tab to the next multiple of eight."""
        tabs = SMALL.replace("user_conf {", "user_conf {\n\t\t").replace("  output {", "\toutput {").replace('"w/out"', '"v/out"')
        said = self.shown(tabs, 's: "v/out"', "OPC0107", "no op makes the tensor 'v/out'")
        self.assertIn(" " + "^" * len('s: "v/out"') + " ", said)
        one = tabs.replace("{\n\t\t", "{\t\t").replace("op { name: \"m\"", "\top {\tname: \"m\"")  # all in the op's first line
        self.shown(one, 's: "v/out"', "OPC0107")
        nan = SMALL.replace("  output {", '\tattr {\tkey: "alpha"\tvalue { at_double: nan } }\n\toutput {')
        self.shown(nan, "attr", "OPC0205", "attribute 'alpha' is nan")

    def test_ops_in_a_list(self):
        """op: [{ ... }, { ... }] is what protobuf reads as well; each op is where its brace is."""
        listed = "# one list\nop: [" + ",\n ".join(part.removeprefix("op ") for part in SMALL.replace("\n  ", " ").split("\n")) + "]\n"
        self.assertEqual(opc("show", self.file("l.pbtxt", listed)).returncode, 0)
        for old, new, line, column in (('"broadcast_mul"', '"broadcast_mull"', 4, 2), ('"m/z_0" out', '"n/z_0" out', 5, 2), ('name: "w"', 'name: "x"', 3, 2), ("dim: 2 dim: 3", "dim: -2", 2, 1)):
            with self.subTest(new):
                said = self.fails(3, "show", self.file("l.pbtxt", listed.replace(old, new)))
                self.assertIn(f"l.pbtxt:{line}:{column}\n", said)

    def test_fields(self):
        for wrong, right in (("inptu_conf", "input_conf"), ("blob_cnf", "blob_conf"), ("op_type", "op_type_name"), ("initialiser", "initializer")):
            text = SMALL.replace(right, wrong, 1)
            done = opc("show", self.file("f.pbtxt", text))
            said = done.stderr.decode()
            number = next(i for i, line in enumerate(text.split("\n"), 1) if wrong in line)
            self.assertIn(f"f.pbtxt:{number}:{text.split(chr(10))[number - 1].index(wrong) + 1}", said)
            self.assertIn(f"did you mean {right}?", said)
        said = self.shown(SMALL.replace("op {", "opp {", 1), "opp", "OPC0103", "did you mean op?")
        self.assertIn("it begins with 'opp'", said)
        attribute = SMALL.replace('output { key: "z"', 'attr { key: "axis" value { at_in32: 1 } } output { key: "z"')
        self.assertIn("did you mean at_int32?", opc("show", self.file("f.pbtxt", attribute)).stderr.decode())

    def test_numbers_beyond_their_types(self):
        """In digits they were infinite without a word; inf says that it is meant."""
        job = 'net {\n%s\n} job_conf { train_conf { loss_lbn: "m/z_0" optimizer_conf { base_learning_rate:\t4e38 } } }'
        scaled = SMALL.replace("broadcast_mul", "scalar_mul").replace('key: "x"', 'key: "in"').replace(' input { key: "y" value { s: "w/out" } }', "").replace('key: "z"', 'key: "out"')
        attr = scaled.replace("  output {", '  attr { key: "has_float_operand" value { at_bool: true } } attr { key: "float_operand" value { at_double: %s } }\n  output {')
        listed = SMALL.replace("  output {", '  attr { key: "numbers" value { at_list_float { val: [1, inf, -%s] } } }\n  output {')
        f64, f32 = "larger than every number of f64", "larger than every number of f32"
        for text, number, words in ((attr % "1e400", "1e400", "at_double is 1e400, " + f64), (attr % "-1e400", "1e400", "at_double is 1e400, " + f64),
                                    (attr % ("9" * 400), "9" * 400, "at_double is " + "9" * 40 + "..., " + f64),
                                    (SMALL.replace("value: 2", "value: 1e39"), "1e39", "value is 1e39, " + f32),
                                    (SMALL.replace("value: 2", "value: 3.5e38f"), "3.5e38f", "value is 3.5e38f, " + f32),
                                    (listed % "1e39", "1e39", "val is 1e39, " + f32), (job % SMALL, "4e38", "base_learning_rate is 4e38, " + f32)):
            with self.subTest(words=words):
                self.shown(text, number, "error[OPC0101]", words, "write inf where infinity is meant")
        for number, value in (("inf", "inf"), ("-inf", "-inf"), ("1e308", "inf"), ("1e-400", "0")):  # the op has it in f32
            done = opc("run", self.file("infinite.pbtxt", attr % number), "--input", "x=1")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(value, done.stdout.decode())

    def test_kinds_of_attributes(self):
        """In the words of the graph file."""
        soft = SMALL.replace('op_type_name: "broadcast_mul" input { key: "x" value { s: "x/out" } } input { key: "y" value { s: "w/out" } }',
                             'op_type_name: "bias_add" input { key: "a" value { s: "x/out" } } input { key: "b" value { s: "w/out" } }')
        self.assertNotEqual(soft, SMALL)
        soft = soft.replace('key: "z"', 'key: "out"').replace("m/z_0", "m/out_0")
        wrong = soft.replace('output { key: "out"', 'attr { key: "axis" value { at_float: 1 } } output { key: "out"', 1)
        said = self.fails(3, "show", self.file("k.pbtxt", wrong),
                          words=("OPC0205", "attribute 'axis' is at_float, it should be at_int32", "help: write value { at_int32: ... }"))
        self.assertNotIn("kAt", said)
        shape = SMALL.replace("broadcast_mul", "reshape").replace('key: "x"', 'key: "in"').replace(' input { key: "y" value { s: "w/out" } }', "")
        self.assertIn("(at_shape) must be given", self.fails(3, "show", self.file("k.pbtxt", shape.replace('key: "z"', 'key: "out"').replace("m/z_0", "m/out_0"))))

    def test_a_missing_input_is_not_what_the_op_makes(self):
        text = SMALL + ('\nop { name: "lake" user_conf { op_type_name: "split_like" input { key: "in" value { s: "x/out" } } '
                        'input { key: "like" value { s: "like/out" s: "like/out" } } output { key: "out" value { s: "lake/out_0" s: "lake/out_1" } } } }\n')
        said = self.fails(3, "show", self.file("l.pbtxt", text), words=("OPC0107", "no op makes the tensor 'like/out'"))
        self.assertNotIn("did you mean 'lake", said)

    def test_lines_in_a_pipe(self):
        """Whole where nobody's window bounds them; very long ones are cut, and that is shown."""
        before = " " * 60
        text = SMALL.replace("op {", "op {" + before, 1).replace("data_type: kFloat", "data_type: kFlot" + " " * 200 + "# the end", 1)
        path = self.file("wide.pbtxt", text)
        env = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
        said = opc("show", path, env=env).stderr.decode()
        line = next(line for line in text.split("\n") if "kFlot" in line)
        self.assertIn(f"| {line}\n", said)
        marks = next(m for m in said.split("\n") if "^" in m)
        self.assertEqual(marks.index("^") - said.split("\n")[said.split("\n").index(marks) - 1].index("kFlot"), 0)
        self.assertEqual(marks.count("^"), len("kFlot"))
        self.assertNotIn("the end", opc("show", path, env={**env, "COLUMNS": "80"}).stderr.decode())
        longer = self.file("longer.pbtxt", text.replace("# the end", " " * 400 + "# the end"))
        shown = next(m for m in opc("show", longer, env=env).stderr.decode().split("\n") if "kFlot" in m and "|" in m)
        self.assertTrue(shown.endswith("..."), shown)
        self.assertLessEqual(len(shown), 500)
        # A whole op is underlined as a whole.
        wrong = self.file("op.pbtxt", SMALL.replace("broadcast_mul", "no_such"))
        marks = next(m for m in opc("show", wrong, env=env).stderr.decode().split("\n") if "^" in m)
        self.assertGreater(marks.count("^"), 40)

    def test_other_slips(self):
        self.shown(SMALL.replace("dim: 2", "dim: two", 1), "two", "OPC0101")
        self.shown(SMALL.replace('name: "m"', "name: m_1"), "m_1", 'put it in quotes: "m_1"')
        self.shown(SMALL.replace("initializer", "trainable: perhaps initializer"), "perhaps", "write true or false")
        self.fails(3, "show", self.file("b.pbtxt", SMALL + "}"), words=("b.pbtxt:5:", "^"))

    def test_other_worlds(self):
        """Names of operators elsewhere."""
        for wrong, words in (("Gemm", "here that is matmul and bias_add"), ("nn.Conv2d", "did you mean conv2d?"), ("Linear", "bias_add"),
                             ("Relu6", "hardtanh (min_val: 0 and max_val: 6)"), ("aten::permute", "here that is transpose"),
                             ("tf.nn.MaxPool2D", "did you mean max_pool_2d?"), ("MaxPool", "max_pool_1d, max_pool_2d or max_pool_3d"),
                             ("LayerNormalization", "layer_norm"), ("keras.layers.Dense", "bias_add"), ("CrossEntropyLoss", "sparse_softmax_cross_entropy"),
                             ("LSTM", "did you mean lstm?"), ("nn.GRU", "did you mean gru?"), ("SimpleRNN", "here that is rnn")):
            self.fails(3, "show", self.file("u.pbtxt", SMALL.replace("broadcast_mul", wrong)), words=("OPC0201", words))
            self.fails(2, "ops", "show", wrong, words=(words,))

    def test_files_of_other_kinds(self):
        text = SMALL.encode()
        archive = os.path.join(self.folder, "z.zip")
        with zipfile.ZipFile(archive, "w") as z:
            z.writestr("net.pbtxt", text)
        torch = os.path.join(self.folder, "net.pt")
        with zipfile.ZipFile(torch, "w") as z:
            z.writestr("net/data.pkl", b"\x80\x02")
        tensors = os.path.join(self.folder, "w.npz")
        np.savez(tensors, w=np.zeros(3))
        np.save(os.path.join(self.folder, "w.npy"), np.zeros(3))
        header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        kinds = [(archive, "zip archive", "unzip"), (torch, "PyTorch", "safetensors"), (tensors, "npz", "--weights"),
                 (os.path.join(self.folder, "w.npy"), "numpy", "--input"),
                 (self.file("g.pbtxt.gz", gzip.compress(text)), "gzip", "gunzip -c"), (self.file("g.bz2", bz2.compress(text)), "bzip2", "bunzip2"),
                 (self.file("g.xz", lzma.compress(text)), "xz", "xz -dc"), (self.file("u.pbtxt", SMALL.encode("utf-16")), "UTF-16", "iconv"),
                 (self.file("le.pbtxt", SMALL.encode("utf-16-le")), "UTF-16LE", "iconv -f UTF-16LE"),
                 (self.file("be.pbtxt", SMALL.encode("utf-16-be")), "UTF-16BE", "iconv -f UTF-16BE"),
                 (self.file("s.safetensors", struct.pack("<Q", len(header)) + header + bytes(4)), "safetensors", "--weights"),
                 (self.file("p.pkl", b"\x80\x04\x95" + bytes(9)), "pickle", "--weights"),
                 (self.file("j.json", '{"nodes": []}'), "JSON", "--emit pbtxt"), (self.file("h.html", "<!DOCTYPE html><html>"), "HTML", "download"),
                 (self.file("m.mlir", "module {\n}\n"), "MLIR", "emit mlir"), (self.file("n.py", "import torch\n"), "program", "graph"),
                 (self.file("c.cpp", "#include <vector>\nint main() {}\n"), "program", "graph"), (self.file("d.cpp", "// a comment\nint x;\n"), "program", "graph"),
                 (self.file("s.sh", "#!/bin/sh\nopc run\n"), "program", "graph"),
                 (self.file("l.so", b"\x7fELF\x02\x01\x01" + bytes(90)), "library", "--plugin"),
                 (self.file("k.h5", b"\x89HDF\r\n\x1a\n" + bytes(90)), "HDF5", "safetensors"),
                 (self.file("l.gguf", b"GGUF" + bytes(90)), "GGUF", "safetensors")]
        for path, *words in kinds:
            for command in (("show", path), ("compile", path, "-o", os.path.join(self.folder, "o.plan")), ("run", path), ("grad", path, "--loss", "y")):
                # opc show reads IR, and misses in this what opc writes into it.
                is_ir = command[0] == "show" and path.endswith(".mlir")
                said = self.fails(3, *command, words=("OPC0114" if is_ir else "OPC0103", path, *words))
                self.assertIn("help: ", said)
        plan = os.path.join(self.folder, "p.plan")
        self.assertEqual(opc("compile", self.graph, "-o", plan).returncode, 0)
        for command in (("compile", plan), ("grad", plan, "--loss", "y")):
            self.fails(2, *command, words=("is a plan",))


class Commands(Scratch):
    def test_flags(self):
        self.fails(2, "run", self.graph, "--fil", "rand", words=("--fill",))
        self.fails(2, "rum", self.graph, words=("opc run",))
        self.fails(2, "run", os.path.join(self.folder, "missing.pbtxt"), words=("missing.pbtxt",))
        self.fails(2, "run", self.folder)
        self.fails(2, "run")
        self.fails(2, "compile", self.graph, "--to", "nowhere", words=("nowhere",))
        self.fails(2, "run", self.graph, "--fill", "sevens", words=("sevens",))
        self.fails(2, "run", self.graph, "-j", "0")
        self.fails(2, "run", self.graph, "--input", "x")
        self.fails(2, "explain", "OPC9999")

    def test_missing_input(self):
        text = self.fails(2, "run", self.graph, words=("x", "--fill"))
        self.assertIn("opc run", text)

    def test_input_specs(self):
        for spec in ("f32[2,3]:1,2", "f32[2]:1,2", "f32[2,3", "f33[2,3]:1", "f32[2,3]:one", "@", "@nowhere.npy", "f32[-1]:0", "rand(1", "i32[2,3]:1", "1e999x"):
            self.fails((2, 3), "run", self.graph, "--input", f"x={spec}")
        self.fails(2, "run", self.graph, "--input", "q=1", "--fill", "ones", words=("q",))

    def test_names_with_signs(self):
        """--input splits at the first '='; names may hold ':' and '/'."""
        graph = self.file("n.pbtxt", SMALL.replace('name: "x"', 'name: "a/b:c"').replace("x/out", "a/b:c/out"))
        done = opc("run", graph, "--input", "a/b:c=1")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_output_into_a_file(self):
        self.fails((2, 5), "run", self.graph, "--input", "x=1", "--outputs", self.graph)

    def test_closed_stdout(self):
        done = subprocess.run(f'"{BIN}/opc" ops | head -1', shell=True, capture_output=True, timeout=60)
        self.assertNotIn(b"error", done.stderr)


class Tensors(Scratch):
    def header(self, text):
        text = text.encode() + b" " * (-(10 + len(text) + 1) % 64) + b"\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text

    def feed(self, content, name="x.npy"):
        return ("run", self.graph, "--input", f"x=@{self.file(name, content)}")

    def npy(self, array):
        path = os.path.join(self.folder, "a.npy")
        np.save(path, array)
        with open(path, "rb") as f:
            return f.read()

    def test_good_forms(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        for a in (x, np.asfortranarray(x), x.astype(">f4")):
            out = os.path.join(self.folder, "o")
            done = opc(*self.feed(self.npy(a)), "--outputs", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            np.testing.assert_array_equal(np.load(os.path.join(out, "y.npy")), 2 * x)

    def test_truncated_at_every_byte(self):
        whole = self.npy(np.ones((2, 3), np.float32))
        for n in range(len(whole)):
            self.file(f"t{n}.npy", whole[:n])
        self.all_fail(range(len(whole)), lambda n: ("run", self.graph, "--input", f"x=@{self.folder}/t{n}.npy"))

    def test_wrong_tensors(self):
        self.fails((2, 3, 4), *self.feed(self.npy(np.ones((2, 3)))), words=("f64", "f32"))
        self.fails((2, 3, 4), *self.feed(self.npy(np.ones((3, 2), np.float32))), words=("[3,2]", "[2,3]"))
        self.fails((2, 3, 4), *self.feed(self.npy(np.array(["a", "b"]))))
        self.fails((2, 3, 4), *self.feed(self.npy(np.ones((2, 3), np.complex64))))

    def test_lying_headers(self):
        for h in ("{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999, 999999999999), }",
                  "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3), }",
                  "{'descr': '<f4', 'shape': (2, 3), }",
                  "{'descr': 'O', 'fortran_order': False, 'shape': (2, 3), }",
                  "__import__('os').system('true')", "{" * 3000, ""):
            self.fails((2, 3, 4), *self.feed(self.header(h) + b"\0" * 24))

    def test_npz(self):
        path = os.path.join(self.folder, "w.npz")
        np.savez_compressed(path, x=np.ones((2, 3), np.float32))
        self.assertEqual(opc("run", self.graph, "--input", f"x=@{path}:x").returncode, 0)
        self.assertEqual(opc("run", self.graph, "--inputs", path).returncode, 0)
        self.fails((2, 3), "run", self.graph, "--input", f"x=@{path}:y", words=("y",))
        with open(path, "rb") as f:
            whole = f.read()
        for n in range(0, len(whole), 3):
            self.file(f"z{n}.npz", whole[:n])
        self.all_fail(range(0, len(whole), 3), lambda n: ("run", self.graph, "--input", f"x=@{self.folder}/z{n}.npz:x"))

    def test_nan_is_a_difference(self):
        x = np.full((2, 3), np.nan, np.float32)
        np.save(os.path.join(self.folder, "nan.npy"), x)
        spec = f"@{self.folder}/nan.npy"
        done = opc("run", self.graph, "--input", f"x={spec}", "--expect", f"y={spec}")
        self.assertEqual(done.returncode, 1, done.stderr)
        done = opc("run", self.graph, "--input", f"x={spec}", "--expect", f"y={spec}", "--nan", "equal")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
