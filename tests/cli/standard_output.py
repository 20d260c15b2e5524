# Standard output that takes no more: a full disk is exit code 5 whatever the answer is, a reader that leaves is no error.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import unittest

from folder_test import OPC, FolderTest

GRAPH = """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 3 } data_type: kFloat } } }
op { name: "twice" user_conf { op_type_name: "broadcast_add" input { key: "x" value { s: "x/out" } } input { key: "y" value { s: "x/out" } } } }
op { name: "y" output_conf { in: "twice/z_0" } }
"""
# The loss is a mean of what is fed with a weight.
STEP = """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 1 } data_type: kFloat } } }
op { name: "w" variable_conf { out: "out" shape { dim: 1 } data_type: kFloat initializer { constant_conf { value: 1 } } } }
op { name: "next" user_conf { op_type_name: "broadcast_mul" input { key: "x" value { s: "w/out" } } input { key: "y" value { s: "x/out" } } output { key: "z" value { s: "next/z_0" } } } }
op { name: "keep" user_conf { op_type_name: "assign" input { key: "ref" value { s: "w/out" } } input { key: "value" value { s: "next/z_0" } } } }
op { name: "loss" output_conf { in: "next/z_0" } }
"""
RUN = ["run", "net.pbtxt", "--fill", "ones"]
TRAIN = ["run", "step.pbtxt", "--feed-dataset", "x=@x.npy", "--batch", "1"]


class StandardOutput(FolderTest):
    def setUp(self):
        super().setUp()
        for name, text in (("net.pbtxt", GRAPH), ("other.pbtxt", GRAPH.replace("broadcast_add", "broadcast_maximum")), ("step.pbtxt", STEP)):
            self.write(name, text)
        with open(self.path("x.npy"), "wb") as f:  # [1, 1, 1] as npy has it
            head = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }".ljust(117) + "\n"
            f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + b"\x00\x00\x80\x3f" * 3)

    def into(self, stdout, *args):
        return subprocess.run([OPC, *args], cwd=self.folder, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120)

    def unread(self, *args):
        """Its standard output is a pipe that nobody reads."""
        reading, writing = os.pipe()
        os.close(reading)
        try:
            return self.into(writing, *args)
        finally:
            os.close(writing)

    # A command, what says that the answer is yes or no, and its exit code.
    answers = [(RUN, 0), ([*RUN, "--expect", "y=7"], 1), ([*RUN, "--expect", "y=7", "--json"], 1), (["diff", "net.pbtxt", "other.pbtxt"], 1),
               (["check", "net.pbtxt", "--format", "sarif"], 1), (["check", "net.pbtxt", "--json"], 1), (["check", "net.pbtxt", "--format", "json", "--exit-zero"], 0)]

    def test_a_full_disk_is_an_error_whatever_the_answer_is(self):
        for args, code in self.answers:
            with self.subTest(args):
                self.assertEqual(self.into(subprocess.DEVNULL, *args).returncode, code)
                with open("/dev/full", "w", encoding="utf-8") as full:
                    done = self.into(full, *args)
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertIn("error[OPC0707]: cannot write to the standard output: No space left on device", done.stderr)

    def test_a_reader_that_leaves(self):
        for args, code in self.answers:
            with self.subTest(args):
                done = self.unread(*args)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertNotIn("OPC0707", done.stderr)

    def test_a_reader_that_leaves_where_the_output_stands_for_a_file(self):
        for args, code in (([*RUN, "--output", "y=-"], 0), ([*RUN, "--report", "-"], 0), (["compile", "net.pbtxt", "-o", "n.plan", "--trace", "-"], 0),
                           (["check", "net.pbtxt", "--report", "sarif=/dev/stdout"], 1), ([*RUN, "--output", "y=/dev/stdout"], 0), ([*RUN, "--trace", "/dev/stdout"], 0),
                           ([*RUN, "--capture-stats", "/dev/stdout"], 0), ([*TRAIN, "--metrics", "/dev/stdout"], 0)):
            with self.subTest(args):
                done = self.unread(*args)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertNotIn("OPC0707", done.stderr)
                with open("/dev/full", "w", encoding="utf-8") as full:  # which is as it was
                    self.assertEqual(self.into(full, *args).returncode, 5)

    def test_a_checkpoint_that_nobody_reads_is_an_error(self):
        done = self.unread(*TRAIN, "--save", "/dev/stdout")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("error[OPC0707]: cannot write /dev/stdout: Broken pipe", done.stderr)


if __name__ == "__main__":
    unittest.main()
