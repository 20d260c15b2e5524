"""What graphs, tensors, programs and the others are as Python objects: shown, copied, pickled, and as text."""
# SPDX-License-Identifier: Apache-2.0
import copy
import os
import pickle
import subprocess
import sys
import unittest

import numpy as np

import opc

from scratch import ScratchTest
from test_numbers import forward, step

SOURCE = os.environ["OPC_SOURCE_DIR"]


@opc.op("objects::same", like="x")
def same(x):
    return x


class Objects(ScratchTest):
    def everything(self):
        g = forward()
        program = g.compile()
        training = opc.train(step(), {"x": np.zeros((8, 6), "f"), "t": np.zeros(8, "i4")}, steps=3)
        return [g, g.inputs["x"], program, program.default_session, program.variables, training]

    def test_copies_say_what_does_it(self):
        for thing, way in zip(self.everything(), ("opc.load", "graph.tensor", "program.save", "program.session()", "save_weights", "resume=")):
            for make in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.subTest(thing=thing, make=make), self.assertRaises(TypeError) as caught:
                    make(thing)
                self.assertRegex(str(caught.exception), f"^an opc.{type(thing).__name__} cannot be copied or pickled: .*")
                self.assertIn(way, str(caught.exception))

    def test_what_is_only_data_is_copied(self):
        things = [opc.optim.AdamW(1e-3, schedule=opc.optim.cosine(10), clip_norm=1.0), opc.init.normal(std=0.5), opc.dtype("bf16"), opc.Spec((2, 3), "f32")]
        for thing in things:
            for again in (copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing))):
                self.assertEqual((type(again), repr(again)), (type(thing), repr(thing)))
        for again in (copy.copy(same), copy.deepcopy(same), pickle.loads(pickle.dumps(same))):
            self.assertIs(again, same)

    def test_what_is_shown(self):
        g, tensor, program, session, variables, training = self.everything()
        self.assertEqual(repr(g), "<opc.Graph small: 2 inputs, 1 variables, 1 outputs>")
        self.assertEqual(repr(tensor), "<opc.Tensor x/out f32[4,6]>")
        self.assertRegex(repr(program), r"^<opc.Program small: a plan of [\d,]+ bytes>$")
        self.assertEqual(repr(session), "<opc.Session: inputs x f32[4,6], t i32[4]; outputs loss f32[]; 1 variables; step 0>")
        self.assertEqual(repr(variables), "<opc variables: w f32[6,3]>")
        self.assertEqual(repr(training), "<opc.Training: step 3, epoch 1 of 2 steps each, loss 1.099>")
        self.assertEqual(repr(opc.optim.SGD(0.1, momentum=0.9, clip_norm=2)), "<opc.optim momentum_update: lr 0.1, beta 0.9, dampening 0.0, nesterov False, clip_norm 2.0>")
        self.assertEqual(repr(opc.optim.step(3)), "<opc.optim schedule: step_size 3, gamma 0.1, decay_type 'step'>")
        program.save(self.path("p.plan"))
        self.assertIn("<opc.Program p: ", repr(opc.load(self.path("p.plan"))))

    def test_a_working_directory_that_has_been_removed(self):
        gone = self.path("gone")
        self.write("program.py", """
import os
import sys
import opc

os.chdir(sys.argv[1])
os.rmdir(sys.argv[1])
g = opc.Graph()
g.output("y", opc.ops.relu(g.input("x", (2,))))
print(g.text())
print(g.compile().run(x=[-1.0, 1.0])["y"])
""")
        os.mkdir(gone)
        done = subprocess.run([sys.executable, self.path("program.py"), gone], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(opc.__file__))})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('loc: "program.py:9"', done.stdout)
        self.assertIn("[0. 1.]", done.stdout)

    def test_the_text_of_a_loaded_graph_is_the_command_s(self):
        step().save(self.path("step.pbtxt"))
        step().save(self.path("step.pb"))
        same_op = opc.Graph()
        same_op.output("y", same(same_op.input("x", (2,))))
        same_op.save(self.path("python.pbtxt"))
        files = [self.path(name) for name in ("step.pbtxt", "step.pb", "python.pbtxt")] + [os.path.join(SOURCE, "docs", "examples", "digits", name) for name in ("cnn.pbtxt", "mlp.pbtxt")]
        for file in files:
            canonical = self.command("compile", file, "--to", "shape", "--emit", "pbtxt", "-o", "-")
            loaded = opc.load(file)
            self.assertEqual(loaded.text(), canonical, file)
        with open(self.path("canonical.pbtxt"), "w") as f:
            f.write(canonical)
        loaded = opc.load(self.path("canonical.pbtxt"))
        self.assertEqual(loaded.text(), canonical)
        loaded.save(self.path("again.pbtxt"))
        with open(self.path("again.pbtxt")) as f:
            self.assertEqual(f.read(), canonical)
        loaded.output("more", loaded.tensor(next(iter(loaded.outputs))))
        self.assertNotEqual(loaded.text(), canonical)
        self.assertIn("more", loaded.text())
        loaded.save(self.path("more.pbtxt"))
        self.assertIn("more", opc.load(self.path("more.pbtxt")).outputs)


if __name__ == "__main__":
    unittest.main()
