# Operators that do more than compute: what opc concludes of them, and that it neither drops, merges nor bakes them in.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import signal
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import build_and_load as base

scratch = base.scratch.name
LIB = {}


def setUpModule():
    for name in ("effects", "impure"):
        LIB[name] = base.build(f"lib{name}.so", os.path.join(base.BAD, f"{name}.cpp"))


def opc(*args, lib="effects"):
    return base.opc(*args, plugins=[LIB[lib]])


def write(name, *ops):
    path = os.path.join(scratch, name + ".pbtxt")
    with open(path, "w") as f:
        f.write("\n".join(ops) + "\n")
    return path


X = 'op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 2 } data_type: kFloat } } }'


def user(name, kind, given="x/out", output="y", attrs="", more=""):
    into = f'input {{ key: "x" value {{ s: "{given}" }} }}' if given else ""
    out = f'output {{ key: "{output}" value {{ s: "{name}/{output}_0" }} }}' if output else ""
    return f'op {{ name: "{name}" {more} user_conf {{ op_type_name: "{kind}" {into} {out} {attrs} }} }}'


def result(name, tensor):
    return f'op {{ name: "{name}" output_conf {{ in: "{tensor}" out: "out" }} }}'


def values(test, graph, *args, lib="effects"):
    """The outputs of a run, by name."""
    out = tempfile.mkdtemp(dir=scratch)
    done = opc("run", graph, "--outputs", out, "--print", "none", *args, lib=lib)
    test.assertEqual(done.returncode, 0, done.stderr)
    return {f[:-4]: np.load(os.path.join(out, f)).tolist() for f in os.listdir(out) if f.endswith(".npy")}


class Purity(unittest.TestCase):
    def test_the_state_of_a_kernel_goes_on(self):
        graph = write("counts", X, user("a", "e_counts"), result("r", "a/y_0"))
        self.assertEqual(values(self, graph, "--input", "x=1,2", "--repeat", "3"), {"r": [4, 5]})

    def test_equal_stateful_ops_are_not_merged(self):
        graph = write("twins", X, user("a", "e_counts"), user("b", "e_counts"), result("r", "a/y_0"), result("s", "b/y_0"))
        done = opc("run", graph, "--fill", "ones", "--json", "--stats")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["stats"]["tasks"], 2)

    def test_a_source_runs_in_every_step(self):
        for kind in ("e_source", "e_plain_source"):
            graph = write(kind, X, user("a", kind, given=None), result("r", "a/y_0"), result("k", "x/out"))
            for more in ([], ["--no-simplify"]):
                found = values(self, graph, "--fill", "zeros", "--repeat", "4", *more)
                self.assertEqual(found["r"], [4], f"{kind} {more}")

    def test_a_source_that_says_so_is_computed_ahead(self):
        graph = write("ahead", X, user("a", "e_pure_source", given=None), result("r", "a/y_0"), result("k", "x/out"))
        self.assertEqual(values(self, graph, "--fill", "zeros", "--repeat", "4")["r"], [1])

    def test_an_op_without_outputs_runs(self):
        log = os.path.join(scratch, "sink.txt")
        attrs = f'attr {{ key: "path" value {{ at_string: "{log}" }} }}'
        graph = write("sink", X, user("a", "e_sink", output=None, attrs=attrs), result("k", "x/out"))
        for more in ([], ["--no-simplify"]):
            if os.path.exists(log):
                os.remove(log)
            values(self, graph, "--input", "x=7,8", "--repeat", "2", *more)
            with open(log) as f:
                self.assertEqual(f.read(), "7\n7\n")

    def test_plugin_check_says_what_was_concluded(self):
        done = opc("plugin", "check", "--json", LIB["effects"])
        self.assertEqual(done.returncode, 0, done.stderr)
        ops = {o["name"]: (o["pure"], o["pure_reason"]) for o in json.loads(done.stdout)["plugins"][0]["ops"]}
        expected = {"e_counts": (False, "makes a state"), "e_source": (False, "makes a state"),
                    "e_plain_source": (False, "a source"), "e_pure_source": (True, "its definition says so"),
                    "e_sink": (False, "no outputs"), "e_stops": (True, "no kernel of it makes a state")}
        for name, (pure, reason) in expected.items():
            self.assertEqual(ops[name][0], pure, name)
            self.assertIn(reason, ops[name][1], name)
        text = opc("plugin", "check", LIB["effects"]).stdout
        self.assertRegex(text, r"op e_counts\n(    .*\n)*    pure +no: its kernel .*effects\.cpp:\d+\) makes a state")

    def test_verify_finds_every_planted_one(self):
        done = opc("verify", "i_*", "p_pure", "--json", lib="impure")
        self.assertEqual(done.returncode, 1, done.stderr)
        found = {f["op"]: f for f in json.loads(done.stdout)["not_pure"]}
        planted = {"i_counter", "i_rand", "i_random_device", "i_seconds", "i_process", "i_thread", "i_pointer",
                   "i_order_found", "i_member", "i_unwritten", "i_in_place", "i_workspace"}
        self.assertEqual(set(found), planted)
        for op, when in (("i_member", "twice in one instance"), ("i_unwritten", "memory that held something else"),
                         ("i_workspace", "memory that held something else"), ("i_thread", "two threads"),
                         ("i_seconds", "later"), ("i_process", "fresh process"), ("i_order_found", "after other operators"),
                         ("i_in_place", "run once"), ("i_counter", "another instance"), ("i_pointer", "another instance")):
            self.assertIn(when, found[op]["when"], op)
        self.assertRegex(found["i_counter"]["detail"], r"output y\[0\] is \S+, it was \S+")
        text = opc("verify", "i_counter", lib="impure").stdout
        self.assertIn("i_counter  NOT_PURE: run again in another instance, case one in f32", text)

    def test_verify_of_a_pure_one(self):
        done = opc("verify", "p_pure", lib="impure")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("0 NOT_PURE", done.stderr)


class Training(unittest.TestCase):
    def test_states_that_no_checkpoint_holds(self):
        """A kernel's state is not in a checkpoint: said where one is written, warned of where one is continued."""
        variable = 'op { name: "w" variable_conf { out: "out" shape { dim: 2 } data_type: kFloat initializer { constant_conf { value: 0 } } } }'
        assign = 'op { name: "a" user_conf { op_type_name: "assign" input { key: "ref" value { s: "w/out" } } input { key: "value" value { s: "c/y_0" } } } }'
        data, saved = os.path.join(scratch, "states.npy"), os.path.join(scratch, "states.safetensors")
        np.save(data, np.ones(8, "f4"))
        for kind, words in (("e_counts", "the kernel of op c (e_counts) keeps a state of its own; no checkpoint holds it"), ("e_stops", "")):
            graph = write("states", X, variable, user("c", kind), assign, result("loss", "c/y_0"))
            run = ["run", graph, "--feed-dataset", f"x=@{data}"]
            first = opc(*run, "--steps", "2", "--save", saved)
            self.assertEqual(first.returncode, 0, first.stderr)
            self.assertEqual("note: " + words in first.stderr, bool(words), first.stderr)
            again = opc(*run, "--steps", "4", "--resume", saved, "-q")
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertEqual("warning: " + words in again.stderr, bool(words), again.stderr)


class Contract(unittest.TestCase):
    """What a kernel or rule may not do is refused in words, or said aloud."""

    def failure(self, kind, code, exit_code, *words):
        graph = write(kind, X, user("culprit", kind), result("r", "culprit/y_0"))
        done = opc("run", graph, "--fill", "ones")
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        for w in (code, *words):
            self.assertIn(w, done.stderr)
        return done

    def test_dynamic_size(self):
        self.failure("e_dynamic", "OPC0210", 3, "output 'y' is declared dynamic", "e_dynamic.pbtxt:2:1", "true count")

    def test_shape_set_by_a_kernel(self):
        done = self.failure("e_shrinks", "OPC0602", 5, "set the shape of 'y' to (1)", "says (2)", "e_shrinks.pbtxt:2:1")
        self.assertNotIn("1.0", done.stdout)

    def test_exit_in_a_kernel(self):
        self.failure("e_exits", "OPC0603", 5, "the kernel of op culprit (e_exits) called exit(0)")

    def test_quick_exit_in_a_kernel(self):
        self.failure("e_leaves", "OPC0603", 5, "the kernel of op culprit (e_leaves) called exit(")

    @unittest.skipIf(os.environ.get("OPC_SANITIZE"), "sanitizers have an _exit() of their own")
    def test_the_shortest_end_in_a_kernel(self):
        """Past exit(), and with the code of a run that went well. A child that a kernel forks may end like that."""
        self.failure("e_ends", "OPC0603", 5, "the kernel of op culprit (e_ends) called _exit(0)")
        self.failure("e_ends_apart", "OPC0603", 5, "code of a plugin called _exit(0)")
        self.failure("e_ends_early", "OPC0603", 5, "code of a plugin called _exit(3)")
        done = opc("run", write("e_forks", X, user("parent", "e_forks"), result("r", "parent/y_0")), "--fill", "ones", "--expect", "r=1,1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipIf(os.environ.get("OPC_SANITIZE"), "sanitizers have handlers of their own")
    def test_crashes_name_the_op(self):
        """The signal stays what it was: a debugger or a core file is to show the place."""
        self.failure("e_aborts", "OPC0605", -signal.SIGABRT, "the kernel of op culprit (e_aborts) called abort()")
        self.failure("e_strays", "OPC0605", -signal.SIGSEGV, "the kernel of op culprit (e_strays) touched memory")

    def test_copies_on_a_mesh(self):
        """Each device runs an op that is not pure: said, unless it says itself what each has. Pure ones are copied."""
        path = 'attr { key: "path" value { at_string: "none" } }'
        graph = write("copies", X, user("a", "e_source", given=""), user("b", "e_counts"), user("s", "e_sink", output=None, attrs=path),
                      result("r", "a/y_0"), result("t", "b/y_0"))
        for mesh in (["--mesh", "2"], ["--mesh", "1"], []):
            done = opc("compile", graph, "-o", os.path.join(scratch, "copies.plan"), *mesh)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("OPC0315" in done.stderr, mesh[1:] == ["2"], done.stderr)
        done = opc("compile", graph, "-o", os.path.join(scratch, "copies.plan"), "--mesh", "2")
        self.assertIn("each of 2 devices runs", done.stderr)
        self.assertIn("(and so with 2 more ops)", done.stderr)
        graph = write("pure", user("a", "e_pure_source", given=""), result("r", "a/y_0"))
        self.assertNotIn("OPC0315", opc("compile", graph, "-o", os.path.join(scratch, "pure.plan"), "--mesh", "2").stderr)

    def test_check_names_its_place(self):
        with open(os.path.join(base.BAD, "effects.cpp")) as f:
            lines = f.read().split("\n")
        place = {k: next(i + 1 for i, text in enumerate(lines) if k in text) for k in ("CHECK_EQ(", "CHECK_EQ_OR_RETURN(")}
        self.failure("e_checks", "OPC0601", 5, "(2 vs 12345): rows", f"(effects.cpp:{place['CHECK_EQ(']})")
        self.failure("e_checks_shape", "OPC0203", 3, "(2 vs 12345) rows", f"(effects.cpp:{place['CHECK_EQ_OR_RETURN(']})")

    def test_device_tag(self):
        graph = write("gpu", X, user("a", "e_stops", more='device_tag: "gpu"'), user("b", "e_stops", more='device_tag: "cuda"'),
                      result("r", "a/y_0"), result("s", "b/y_0"))
        done = opc("run", graph, "--fill", "ones")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("OPC0413", done.stderr)
        self.assertIn("2 ops ask for the device gpu", done.stderr)
        self.assertIn("gpu.pbtxt:2:1", done.stderr)
        graph = write("tpu", X, user("a", "e_stops", more='device_tag: "tpu"'), result("r", "a/y_0"))
        done = opc("run", graph, "--fill", "ones")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("device_tag 'tpu' is no device", done.stderr)

    def test_position_in_the_run(self):
        graph = write("position", X, user("a", "e_position", given=None), result("r", "a/y_0"), result("k", "x/out"))
        self.assertEqual(values(self, graph, "--fill", "zeros", "--seed", "11", "--repeat", "3")["r"], [11, 2])


class Gradients(unittest.TestCase):
    def test_an_output_without_gradient(self):
        graph = write("stops", X, user("a", "e_stops"), user("s", "square", attrs="").replace('"y"', '"y"'), result("r", "a/y_0"))
        done = opc("grad", graph, "--loss", "a/y_0", "--wrt", "x", "--explain", "x")
        text = done.stdout + done.stderr
        self.assertIn("its results take no gradient", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
