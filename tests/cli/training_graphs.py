# Training graphs against the formulas, in numpy: optimizers, schedules, clipping, loss scale, accumulation, train_conf of a
# Job, recomputation, and the size of gradient graphs.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

OPC = os.environ.get("OPC_BINARY") or os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
scratch = tempfile.TemporaryDirectory()

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
W = np.array([0.5, 1.0, -1.5])
V = np.array([0.2, -0.4])

# loss = sum((x w)^2) + sum(v^2)
GRAPH = '''
op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 2 dim: 3 } data_type: kDouble } } }
op { name: "w" variable_conf { out: "out" shape { dim: 3 } data_type: kDouble initializer { constant_conf { value: 0 } } } }
op { name: "v" variable_conf { out: "out" shape { dim: 2 } data_type: kDouble initializer { constant_conf { value: 0 } } } }
op { name: "xw" user_conf { op_type_name: "broadcast_mul" input { key: "x" value { s: "x/out" } } input { key: "y" value { s: "w/out" } } } }
op { name: "sq" user_conf { op_type_name: "square" input { key: "x" value { s: "xw/z_0" } } } }
op { name: "s" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "sq/y_0" } } attr { key: "axis" value { at_list_int32 { val: 0 val: 1 } } } attr { key: "keepdims" value { at_bool: false } } } }
op { name: "vq" user_conf { op_type_name: "square" input { key: "x" value { s: "v/out" } } } }
op { name: "t" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "vq/y_0" } } attr { key: "axis" value { at_list_int32 { val: 0 } } } attr { key: "keepdims" value { at_bool: false } } } }
op { name: "loss" user_conf { op_type_name: "broadcast_add" input { key: "x" value { s: "s/output_tensor_0" } } input { key: "y" value { s: "t/output_tensor_0" } } } }
op { name: "w_now" output_conf { in: "w/out" out: "out" } }
op { name: "v_now" output_conf { in: "v/out" out: "out" } }
'''


def run(*args, code=0):
    done = subprocess.run([OPC, *args], capture_output=True, text=True, cwd=scratch.name, timeout=120)
    assert done.returncode == code, f"{' '.join(args)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def write(name, text):
    path = os.path.join(scratch.name, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def values(graph, steps, *flags, v="v"):
    out = os.path.join(scratch.name, "values.npz")
    np.savez(os.path.join(scratch.name, "in.npz"), x=X)
    np.savez(os.path.join(scratch.name, "weights.npz"), **{"w": W, v: V})
    run("run", graph, "--inputs", "in.npz", "--weights", "weights.npz", "--partial-weights", "--repeat", str(steps), "--outputs", out, "--print", "none", *flags)
    return dict(np.load(out))


def stored(name):
    """What a file in the format safetensors has."""
    with open(os.path.join(scratch.name, name), "rb") as f:
        data = f.read()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = {k: v for k, v in json.loads(data[8:begin]).items() if k != "__metadata__"}
    kinds = {"F32": np.float32, "I64": np.int64}
    return {k: np.frombuffer(data[begin + v["data_offsets"][0]:begin + v["data_offsets"][1]], kinds[v["dtype"]]) for k, v in header.items()}


def trained(steps, *flags, v="v"):
    """The variables after some steps; `v` is what v is called."""
    step = os.path.join(scratch.name, "step.pbtxt")
    graph = GRAPH.replace('"v"', f'"{v}"').replace('"v/out"', f'"{v}/out"')
    run("grad", write("graph.pbtxt", graph), "--loss", "loss", "-o", step, *flags)
    return values(step, steps, v=v)


def gradients(w, v):
    return 2 * (X * X).sum(0) * w, 2 * v


def simulate(steps, update, prepare=lambda g: g):
    """update(parameter, gradient, state, t) -> parameter; t counts from 0."""
    p = [W.copy(), V.copy()]
    states = [{}, {}]
    for t in range(steps):
        g = prepare(list(gradients(*p)))
        p = [update(p[i], g[i], states[i], t) for i in range(2)]
    return p


class Optimizers(unittest.TestCase):
    def same(self, found, expected, rtol=1e-6):
        # Rates and betas are f32 attributes: that is the tolerance, in a computation in f64.
        np.testing.assert_allclose(found["w_now"], expected[0], rtol=rtol)
        np.testing.assert_allclose(found["v_now"], expected[1], rtol=rtol)

    def test_sgd_with_l2(self):
        found = trained(7, "--optimizer", "sgd", "--lr", "0.03125", "--weight-decay", "0.125")
        self.same(found, simulate(7, lambda p, g, s, t: p - 0.03125 * (g + 0.125 * p)))

    def test_momentum(self):
        def update(p, g, s, t):
            s["m"] = 0.75 * s.get("m", 0) + g
            return p - 0.015625 * s["m"]

        self.same(trained(7, "--optimizer", "momentum:beta=0.75", "--lr", "0.015625"), simulate(7, update))

    def adam(self, decoupled):
        def update(p, g, s, t):
            s["m"] = 0.5 * s.get("m", 0) + 0.5 * g
            s["v"] = 0.75 * s.get("v", 0) + 0.25 * g * g
            m, v = s["m"] / (1 - 0.5 ** (t + 1)), s["v"] / (1 - 0.75 ** (t + 1))
            return p - 0.03125 * (m / (np.sqrt(v) + 2.0**-20) + decoupled * p)

        return update

    def test_adam(self):
        found = trained(7, "--optimizer", f"adam:beta1=0.5,beta2=0.75,epsilon={2.0 ** -20}", "--lr", "0.03125")
        self.same(found, simulate(7, self.adam(0)))

    def test_adamw_without_decay_of_one(self):
        found = trained(7, "--optimizer", f"adamw:beta1=0.5,beta2=0.75,epsilon={2.0 ** -20}", "--lr", "0.03125", "--weight-decay", "0.25", "--no-decay", "v")
        self.same({"w_now": found["w_now"], "v_now": found["v_now"]}, [simulate(7, self.adam(0.25))[0], simulate(7, self.adam(0))[1]])

    def test_decay_of_nothing(self):
        step = ("grad", write("graph.pbtxt", GRAPH), "--loss", "loss", "--optimizer", "adamw", "--lr", "0.03125", "-o", "never.pbtxt")
        said = run(*step, "--weight-decay", "0.25", "--no-decay", "v", "--no-decay", "zz*", code=2).stderr
        self.assertIn("the graph has no variable 'zz*' (--no-decay zz*)", said)
        self.assertIn("--no-decay needs --weight-decay", run(*step, "--no-decay", "v", code=2).stderr)
        self.assertFalse(os.path.exists(os.path.join(scratch.name, "never.pbtxt")))

    def test_clipping(self):
        def prepare(g):
            norm = np.sqrt(sum((x * x).sum() for x in g))
            return [x * min(1, 0.5 / norm) for x in g]

        found = trained(40, "--optimizer", "sgd", "--lr", "0.0625", "--clip-norm", "0.5")
        self.same(found, simulate(40, lambda p, g, s, t: p - 0.0625 * g, prepare))

    def test_loss_scale_changes_nothing(self):
        plain = simulate(7, lambda p, g, s, t: p - 0.03125 * g)
        for scale in ("1024", "dynamic"):
            self.same(trained(7, "--optimizer", "sgd", "--lr", "0.03125", "--loss-scale", scale), plain)

    def test_variables_may_have_the_names_of_a_training_step(self):
        plain = simulate(7, lambda p, g, s, t: p - 0.03125 * g)
        for name in ("loss_scale", "train_step", "good_step_counter"):
            self.same(trained(7, "--optimizer", "sgd", "--lr", "0.03125", "--loss-scale", "dynamic", v=name), plain)

    def test_loss_scale_with_clipping(self):
        def prepare(g):
            norm = np.sqrt(sum((x * x).sum() for x in g))
            return [x * min(1, 0.5 / norm) for x in g]

        expected = simulate(7, lambda p, g, s, t: p - 0.0625 * g, prepare)
        for scale in ("64", "dynamic"):
            self.same(trained(7, "--optimizer", "sgd", "--lr", "0.0625", "--clip-norm", "0.5", "--loss-scale", scale), expected)

    def test_accumulation(self):
        # The data do not change, so the mean of three equal gradients is one of them: an update every third step.
        found = trained(8, "--optimizer", "momentum:beta=0.5", "--lr", "0.03125", "--accumulate", "3")

        def update(p, g, s, t):
            s["m"] = 0.5 * s.get("m", 0) + g
            return p - 0.03125 * s["m"]

        self.same(found, simulate(2, update))

    def test_a_round_with_a_gradient_that_is_not_finite(self):
        """It is skipped as a whole, and nothing of it is left for the next; the scale falls once for it, and holds for a whole round."""
        variable = 'op {{ name: "{0}" variable_conf {{ out: "out" {1}data_type: kFloat initializer {{ constant_conf {{ value: 1 }} }} }} }}\n'
        binary = 'op {{ name: "{0}" user_conf {{ op_type_name: "{1}" input {{ key: "x" value {{ s: "{2}" }} }} input {{ key: "y" value {{ s: "{3}" }} }} }} }}\n'
        graph = ('op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 1 dim: 3 } data_type: kFloat } } }\n' +
                 variable.format("w", "shape { dim: 3 } ") + variable.format("k", "shape { } ") + binary.format("xw", "broadcast_mul", "x/out", "w/out") +
                 binary.format("xk", "broadcast_add", "xw/z_0", "k/out") +
                 'op { name: "loss" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "xk/z_0" } } attr { key: "axis" value { at_list_int32 '
                 '{ val: 0 val: 1 } } } attr { key: "keepdims" value { at_bool: false } } } }\n' +
                 'op { name: "w_now" output_conf { in: "w/out" out: "out" } }\n')
        x = np.ones((12, 3), np.float32)
        x[2] = 1e35 # times the scale no f32
        np.save(os.path.join(scratch.name, "x.npy"), x)
        rounds = 2 * 12 // 2
        for optimizer in ("sgd", "momentum:beta=0"):
            run("grad", write("rounds.pbtxt", graph), "--loss", "loss", "--optimizer", optimizer, "--lr", "0.001", "--loss-scale", "dynamic", "--accumulate", "2",
                "-o", "rounds_step.pbtxt")
            run("run", "rounds_step.pbtxt", "--feed-dataset", "x=@x.npy", "--batch", "1", "--epochs", "2", "--save", "rounds.st", "-q")
            after = stored("rounds.st")
            np.testing.assert_allclose(after["w"], 1 - 0.001 * (rounds - 2) * np.ones(3), rtol=1e-6)
            np.testing.assert_allclose(after["k"], [1 - 0.003 * (rounds - 2)], rtol=1e-6)
            self.assertEqual((after["loss_scale"].item(), after["good_step_counter"].item()), (65536 / 4, 4))
            self.assertTrue(np.isfinite(after["w-accumulated"]).all())

    def test_schedule_with_warmup(self):
        rates = []
        for t in range(9):
            found = trained(t + 1, "--optimizer", "sgd", "--lr", "0.03125", "--schedule", "cosine:decay_batches=8,alpha=0.25", "--warmup", "4:0.5")
            rates.append(float(found["lr"][0]))
        expected = []
        for t in range(9):
            decayed = 0.25 + 0.75 * 0.5 * (1 + np.cos(np.pi * min(t, 8) / 8))
            expected.append(0.03125 * (0.5 + 0.5 * t / 4 if t < 4 else decayed))
        np.testing.assert_allclose(rates, expected, rtol=1e-6)

    def test_train_conf_of_a_job(self):
        job = "net {" + GRAPH + '''}
job_conf { job_name: "j" train_conf { loss_lbn: "loss/z_0"
  optimizer_conf { variable_op_names: "w" base_learning_rate: 0.03125 adam_conf { beta1: 0.5 beta2: 0.75 epsilon: 9.5367431640625e-07 } }
  optimizer_conf { variable_op_names: "v" base_learning_rate: 0.0625 momentum_conf { beta: 0.5 } weight_decay_conf { weight_decay_rate: 0.125 } } } }
'''
        path = write("job.pbtxt", job)
        found = values(path, 5)

        def momentum(p, g, s, t):
            s["m"] = 0.5 * s.get("m", 0) + g
            return p - 0.0625 * (s["m"] + 0.125 * p)

        self.same(found, [simulate(5, self.adam(0))[0], simulate(5, momentum)[1]])
        # Written out, the training step is in the graph and no longer asked for.
        run("compile", path, "--to", "grad", "--emit", "pbtxt", "-o", "lowered.pbtxt")
        with open(os.path.join(scratch.name, "lowered.pbtxt")) as f:
            text = f.read()
        self.assertIn("adam_update", text)
        self.assertNotIn("train_conf", text)
        self.same(values(os.path.join(scratch.name, "lowered.pbtxt"), 5), [found["w_now"], found["v_now"]], rtol=0)
        # For inference the job is its forward graph.
        run("compile", path, "--mode", "infer", "-o", "infer.plan")
        still = values(os.path.join(scratch.name, "infer.plan"), 5)
        np.testing.assert_array_equal(still["w_now"], W)
        run("compile", path, "--mode", "sideways", code=2)

    def test_accumulation_of_a_job(self):
        job = "net {%s} job_conf { num_gradient_accumulation_steps: %d train_conf { loss_lbn: \"loss/z_0\" optimizer_conf { base_learning_rate: 0.03125 naive_conf { } } } }"
        for k, updates in ((1, 8), (3, 2), (4, 2)):
            self.same(values(write("rounds.pbtxt", job % (GRAPH, k)), 8), simulate(updates, lambda p, g, s, t: p - 0.03125 * g))
        done = run("compile", write("bad.pbtxt", job % (GRAPH, 0)), "-o", "never.plan", code=3)
        self.assertIn("error[OPC0507]: train_conf: num_gradient_accumulation_steps is 0", done.stderr)

    def test_regularizers(self):
        """Of a variable, with the job's optimizer and the command line's; before gradients are clipped, whatever the loss is scaled by."""
        conf = "regularizer { l1_l2_conf { l1: 0.25 l2: 0.5 } } "
        graph = GRAPH.replace('"w" variable_conf { ', '"w" variable_conf { ' + conf)
        job = "net {%s} job_conf { %s train_conf { loss_lbn: \"loss/z_0\" %s optimizer_conf { base_learning_rate: 0.03125 naive_conf { } %s } } }"

        def regular(g, p):
            return [g[0] + 0.25 * np.sign(p[0]) + 0.5 * p[0], g[1]]

        def clipped(g, p):
            g = regular(g, p)
            norm = np.sqrt(sum((x * x).sum() for x in g))
            return [x * min(1, 0.5 / norm) for x in g]

        def steps(n, prepare, decay=0):
            p = [W.copy(), V.copy()]
            for _ in range(n):
                g = prepare(list(gradients(*p)), p)
                p = [p[i] - 0.03125 * (g[i] + decay * p[i]) for i in range(2)]
            return p

        clip, dynamic = "clip_conf { clip_by_global_norm { max_norm: 0.5 } }", "dynamic_loss_scale_policy { initial_loss_scale: 64 }"
        accumulates = "num_gradient_accumulation_steps: 2"
        for wanted, n, *parts in ((regular, 7, "", "", ""), (regular, 3, accumulates, "", ""), (regular, 7, "", "loss_scale_factor: 64", ""), (regular, 7, "", dynamic, ""),
                                  (clipped, 7, "", "", clip), (clipped, 3, accumulates, "loss_scale_factor: 64", clip)):
            with self.subTest(parts=parts):
                self.same(values(write("regular.pbtxt", job % (graph, *parts)), n * (2 if parts[0] else 1)), steps(n, wanted))
        done = run("compile", write("bad.pbtxt", job % (graph, "", dynamic, clip)), "-o", "never.plan", code=3)
        self.assertIn("the variable w has a regularizer, and its gradient is clipped while it has a dynamic loss scale", done.stderr)
        for flags, wanted, decay in (((), regular, 0), (("--weight-decay", "0.125"), regular, 0.125), (("--clip-norm", "0.5"), clipped, 0)):
            run("grad", write("graph.pbtxt", graph), "--loss", "loss", "-o", "step.pbtxt", "--optimizer", "sgd", "--lr", "0.03125", *flags)
            self.same(values(os.path.join(scratch.name, "step.pbtxt"), 7), steps(7, wanted, decay))

    def test_regularizers_are_terms_of_the_loss(self):
        """l1 |w| + l2 / 2 w^2, added to the loss by hand, gives the same steps: for every optimizer, alone and on two ranks."""
        conf = "regularizer { l1_l2_conf { l1: 4 l2: 8 } } "
        regular = GRAPH.replace('"w" variable_conf { ', '"w" variable_conf { ' + conf)
        sums = 'attr { key: "axis" value { at_list_int32 { val: 0 } } } attr { key: "keepdims" value { at_bool: false } }'
        terms = '''
op { name: "a" user_conf { op_type_name: "abs" input { key: "x" value { s: "w/out" } } } }
op { name: "q" user_conf { op_type_name: "square" input { key: "x" value { s: "w/out" } } } }
op { name: "aq" user_conf { op_type_name: "broadcast_add" input { key: "x" value { s: "a/y_0" } } input { key: "y" value { s: "q/y_0" } } } }
op { name: "r" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "aq/z_0" } } SUMS } }
op { name: "r4" user_conf { op_type_name: "scalar_mul" input { key: "in" value { s: "r/output_tensor_0" } } attr { key: "has_float_operand" value { at_bool: true } } attr { key: "float_operand" value { at_double: 4 } } } }
op { name: "total" user_conf { op_type_name: "broadcast_add" input { key: "x" value { s: "loss/z_0" } } input { key: "y" value { s: "r4/out_0" } } } }
'''.replace("SUMS", sums)
        job = "net {%s} job_conf { train_conf { loss_lbn: \"%s\" optimizer_conf { base_learning_rate: 0.03125 %s } } }"
        for optimizer in ("naive_conf { }", "momentum_conf { beta: 0.5 }", "adam_conf { }", "adagrad_conf { }", "rmsprop_conf { }", "rmsprop_conf { centered: true }",
                          "lars_conf { lars_coefficient: 0.5 }", "lamb_conf { }", "adam_conf { } weight_decay_conf { weight_decay_rate: 0.125 }"):
            with self.subTest(optimizer=optimizer):
                expected = values(write("terms.pbtxt", job % (GRAPH + terms, "total/z_0", optimizer)), 7)
                plain = values(write("plain.pbtxt", job % (GRAPH, "loss/z_0", optimizer)), 7)
                self.assertGreater(abs(plain["w_now"] - expected["w_now"]).max(), 1e-4)
                path = write("regular.pbtxt", job % (regular, "loss/z_0", optimizer))
                self.same(values(path, 7), [expected["w_now"], expected["v_now"]])
                self.same(values(path, 7, "--ranks", "2", "--in-process"), [expected["w_now"], expected["v_now"]])

    def test_train_conf_errors(self):
        for conf, word in (('optimizer_conf { base_learning_rate: 1 }', "loss_lbn"),
                           ('loss_lbn: "loss/z_0" optimizer_conf { variable_op_names: "nobody" base_learning_rate: 1 }', "updates nothing"),
                           ('loss_lbn: "loss/z_0" optimizer_conf { base_learning_rate: 1 ftrl_conf { } }', "optimizer"),
                           ('loss_lbn: "loss/z_0" optimizer_conf { variable_op_names: "w" base_learning_rate: 1 } optimizer_conf { variable_op_names: "w" base_learning_rate: 1 }', "two optimizers")):
            done = run("compile", write("bad.pbtxt", "net {" + GRAPH + "} job_conf { train_conf { " + conf + " } }"), "-o", "never.plan", code=3)
            self.assertIn("OPC0507", done.stderr)
            self.assertIn(word, done.stderr)
            self.assertFalse(os.path.exists(os.path.join(scratch.name, "never.plan")))

    def test_types_of_variables(self):
        """A variable in f16 or bf16, which no update takes, is refused with its op; one in f32 that is cast trains."""
        variable = 'op {{ name: "w" variable_conf {{ out: "out" shape {{ dim: 3 }} data_type: {0} initializer {{ constant_conf {{ value: 0.5 }} }} }} }}'
        halves = {"f16": "kFloat16", "bf16": "kBFloat16"}
        for name, kind in halves.items():
            ops = ['op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 3 }} data_type: {0} }} }} }}'.format(kind)]
            end = ['op { name: "xw" user_conf { op_type_name: "broadcast_mul" input { key: "x" value { s: "x/out" } } input { key: "y" value { s: "%s" } } } }',
                   'op { name: "l" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "xw/z_0" } } attr { key: "axis" value { at_list_int32 { val: 0 } } } } }']
            write("half.pbtxt", "\n".join([*ops, variable.format(kind), *end]) % "w/out" + "\n")
            cast = 'op { name: "h" user_conf { op_type_name: "cast" input { key: "in" value { s: "w/out" } } attr { key: "dtype" value { at_data_type: %s } } } }' % kind
            shown = 'op { name: "w_now" output_conf { in: "w/out" out: "out" } }'
            write("cast.pbtxt", "\n".join([*ops, variable.format("kFloat"), cast, end[0] % "h/out_0", end[1], shown]) + "\n")
            for optimizer in ("sgd", "momentum", "adam", "adamw", "lamb", "lars", "rmsprop", "adagrad"):
                done = run("grad", "half.pbtxt", "--loss", "l", "--optimizer", optimizer, "--lr", "0.5", "-o", "never.pbtxt", code=3)
                self.assertRegex(done.stderr, rf"OPC0507\]: no kernel of \w+_update updates the variable w of type {name}, but of f32, f64")
                self.assertIn("half.pbtxt:2:1", done.stderr)
                self.assertIn(f"keep w in f32 and cast it to {name} where it is read", done.stderr)
                self.assertFalse(os.path.exists(os.path.join(scratch.name, "never.pbtxt")))
                run("grad", "cast.pbtxt", "--loss", "l", "--optimizer", optimizer, "--lr", "0.5", "-o", "step.pbtxt")
                run("compile", "step.pbtxt", "-o", "step.plan")
            run("grad", "cast.pbtxt", "--loss", "l", "--optimizer", "sgd", "--lr", "0.5", "-o", "step.pbtxt")
            out = os.path.join(scratch.name, "half.npz")
            run("run", "step.pbtxt", "--input", "x=2", "--repeat", "3", "--outputs", out, "--print", "none")
            np.testing.assert_array_equal(np.load(out)["w_now"], np.full(3, 0.5 - 3 * 0.5 * 2))


class Steps(unittest.TestCase):
    """What a step does beside its optimizer's formula, and what it is not asked for twice."""
    SUM = ('op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 1 dim: 3 }} data_type: kFloat }} }} }}\n'
           'op {{ name: "w" variable_conf {{ out: "out" shape {{ dim: 3 }} data_type: kFloat {0}initializer {{ constant_conf {{ value: 1 }} }} }} }}\n'
           'op {{ name: "xw" user_conf {{ op_type_name: "broadcast_mul" input {{ key: "x" value {{ s: "x/out" }} }} input {{ key: "y" value {{ s: "w/out" }} }} }} }}\n'
           'op {{ name: "loss" user_conf {{ op_type_name: "reduce_sum" input {{ key: "input_tensor" value {{ s: "xw/z_0" }} }} attr {{ key: "axis" value {{ at_list_int32 '
           '{{ val: 0 val: 1 }} }} }} attr {{ key: "keepdims" value {{ at_bool: false }} }} }} }}\n'
           'op {{ name: "w_now" output_conf {{ in: "w/out" out: "out" }} }}\n')
    SGD = ("--loss", "loss", "--optimizer", "sgd", "--lr", "0.5")

    def after(self, steps, *flags, graph="sum.pbtxt"):
        """The weight, which has a gradient of 1 in each step, and begins with 1."""
        out = os.path.join(scratch.name, "after.npz")
        run("run", graph, "--input", "x=ones", "--repeat", str(steps), "--outputs", out, "--print", "none", *flags)
        return dict(np.load(out))

    def test_variables_of_both_types(self):
        """One in f32 and one in f64, whichever is first, take the steps that both take in f64."""
        cast = 'op {{ name: "{0}d" user_conf {{ op_type_name: "cast" input {{ key: "in" value {{ s: "{0}/out" }} }} attr {{ key: "dtype" value {{ at_data_type: kDouble }} }} }} }}\n'
        adam = ("--loss", "loss", "--optimizer", "adam", "--lr", "0.0625", "--schedule", "exponential:decay_batches=4,decay_rate=0.5")
        for flags in ((), ("--clip-norm", "0.5"), ("--clip-norm", "0.5", "--loss-scale", "dynamic"), ("--clip-norm", "0.5", "--loss-scale", "64", "--accumulate", "2")):
            expected = trained(6, *adam[2:], *flags)
            for narrow in "wv":
                with self.subTest(flags=flags, narrow=narrow):
                    lines = GRAPH.replace(f'value {{ s: "{narrow}/out" }}', f'value {{ s: "{narrow}d/out_0" }}').split("\n")
                    at = next(i for i, line in enumerate(lines) if f'name: "{narrow}" variable' in line)
                    lines[at] = lines[at].replace("kDouble", "kFloat")
                    run("grad", write("both.pbtxt", "\n".join(lines) + cast.format(narrow)), *adam, *flags, "-o", "both_step.pbtxt")
                    found = values("both_step.pbtxt", 6, "--cast")
                    for name in ("w_now", "v_now"):
                        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)

    def test_given_gradient_of_a_scaled_loss(self):
        """The scale goes into a gradient that is given (--dy) as into ones, and out of the updates."""
        write("sum.pbtxt", self.SUM.format(""))
        for scale in ((), ("--loss-scale", "64"), ("--loss-scale", "dynamic"), ("--loss-scale", "64", "--accumulate", "1")):
            run("grad", "sum.pbtxt", *self.SGD, "--dy", *scale, "-o", "dy.pbtxt")
            np.testing.assert_array_equal(self.after(1, "--input", "loss.dy=f32[]:0.25", graph="dy.pbtxt")["w_now"], np.full(3, 1 - 0.5 * 0.25))

    def test_updates_without_the_forward_ops(self):
        write("sum.pbtxt", self.SUM.format(""))
        run("grad", "sum.pbtxt", *self.SGD, "--emit", "backward", "-o", "back.pbtxt")
        with open(os.path.join(scratch.name, "back.pbtxt"), encoding="utf-8") as f:
            text = f.read()
        self.assertIn("sgd_update", text)
        self.assertIn("train_step_update", text)
        self.assertNotIn('name: "xw"', text)

    def test_a_check_of_a_training_graph(self):
        """--check looks at the gradients, whatever is made of them."""
        write("sum.pbtxt", self.SUM.format(""))
        for more in ((), ("--emit", "backward"), ("--clip-norm", "1", "--loss-scale", "dynamic")):
            self.assertIn("every gradient agrees", run("grad", "sum.pbtxt", *self.SGD, "--check", *more).stdout)

    def test_steps_that_are_skipped_do_not_count(self):
        """Neither for the corrections of Adam's means, nor for a schedule: after one step that overflows the first update is as large as the rate."""
        write("sum.pbtxt", self.SUM.format(""))
        x = np.ones((8, 3), np.float32)
        x[:3] = 1e35 # times the scale no f32
        np.save(os.path.join(scratch.name, "x.npy"), x)
        for optimizer, more, steps, updates in (("adam", (), 4, 1), ("lamb", (), 4, 1), ("adam", ("--accumulate", "2"), 6, 1), ("adam", ("--accumulate", "2"), 8, 2)):
            with self.subTest(optimizer=optimizer, more=more, steps=steps):
                run("grad", "sum.pbtxt", "--loss", "loss", "--optimizer", optimizer, "--lr", "0.125", "--schedule", "step:step_size=1,gamma=0.5", "--loss-scale", "dynamic",
                    *more, "-o", "skip.pbtxt")
                run("run", "skip.pbtxt", "--feed-dataset", "x=@x.npy", "--batch", "1", "--steps", str(steps), "--save", "skip.st", "-q", "--metrics", "skip.jsonl")
                # m / (1 - beta1) and v / (1 - beta2) are 1 and 1: the direction is that of ones, and LAMB's norms are equal.
                np.testing.assert_allclose(stored("skip.st")["w"], np.full(3, 1 - 0.125 * (1.5 if updates == 2 else 1)), rtol=1e-5)
                with open(os.path.join(scratch.name, "skip.jsonl"), encoding="utf-8") as f:
                    self.assertEqual(json.loads(f.readlines()[-1])["lr"], 0.125 * 0.5 ** (updates - 1))

    def test_what_would_be_ignored_is_refused(self):
        write("sum.pbtxt", self.SUM.format(""))
        for flags, said in ((("--optimizer", "sgd:learning_rate_val=2"), "--optimizer: learning_rate_val would be ignored: it comes from --lr"),
                            (("--optimizer", "adam:bias_correction1_val=0.5"), "--optimizer: bias_correction1_val would be ignored: it comes from beta1 and the step"),
                            (("--optimizer", "sgd", "--schedule", "step:step_size=2,learning_rate=2"), "--schedule: learning_rate would be ignored: it comes from --lr"),
                            (("--optimizer", "sgd", "--schedule", "constant:warmup_batches=2"), "--schedule: warmup_batches would be ignored: it comes from --warmup N[:FACTOR]"),
                            (("--optimizer", "sgd:l2=0.5", "--weight-decay", "0.25"), "--optimizer sgd:l2=0.5 and --weight-decay both give l2"),
                            (("--optimizer", "sgd", "--schedule", "step:step_size=2,gamma=inf"), "gamma is inf, it should be finite")):
            done = run("grad", "sum.pbtxt", "--loss", "loss", "--lr", "0.5", *flags, "-o", "never.pbtxt", code=2)
            self.assertIn(said, done.stderr)
        self.assertFalse(os.path.exists(os.path.join(scratch.name, "never.pbtxt")))

    def test_a_regularizer_beside_the_optimizers_own(self):
        write("sum.pbtxt", self.SUM.format("regularizer { l1_l2_conf { l1: 0.25 l2: 0.5 } } "))
        run("grad", "sum.pbtxt", "--loss", "loss", "--optimizer", "sgd:l1=0.125,l2=0.25", "--lr", "0.5", "-o", "both.pbtxt")
        np.testing.assert_array_equal(self.after(1, graph="both.pbtxt")["w_now"], np.full(3, 1 - 0.5 * (1 + 0.375 + 0.75)))
        # The scale of gradients, too, beside that of a mean of two steps.
        write("sum.pbtxt", self.SUM.format(""))
        run("grad", "sum.pbtxt", "--loss", "loss", "--optimizer", "sgd:scale=0.5", "--lr", "0.5", "--accumulate", "2", "-o", "half.pbtxt")
        np.testing.assert_array_equal(self.after(2, graph="half.pbtxt")["w_now"], np.full(3, 1 - 0.5 * 0.5))

    def test_loss_scales_that_their_types_have_not(self):
        """f16 ends at 65504: the gradients of a larger scale are infinite, and no step is any good. In f32 what undoes a scale has to be a number above 0, too."""
        half = """op { name: "w" variable_conf { out: "out" shape { dim: 3 } data_type: %s initializer { constant_conf { value: 1 } } } }
op { name: "c" user_conf { op_type_name: "cast" input { key: "in" value { s: "w/out" } } attr { key: "dtype" value { at_data_type: %s } } } }
op { name: "loss" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "c/out_0" } } attr { key: "axis" value { at_list_int32 { val: 0 } } } attr { key: "keepdims" value { at_bool: false } } } }
op { name: "w_now" output_conf { in: "w/out" out: "out" } }
"""
        for variable, loss, scale, said in (("kFloat", "kFloat16", "65536", "the loss scale 65536 of loss, which is f16, is inf there"), ("kFloat", "kBFloat16", "3.4e38", "the loss scale 3.4e+38 of loss, which is bf16, is inf there"),
                                            ("kFloat", "kFloat16", "1e-9", "the loss scale 1e-09 of loss, which is f16, is 0 there"), ("kFloat", "kFloat", "1e39", "of loss, which is f32, is inf there"),
                                            ("kFloat", "kDouble", "1e50", "the loss scale 1e+50 is undone for w, which is f32, by 0 there")):
            done = run("grad", write("half.pbtxt", half % (variable, loss)), "--loss", "loss", "--optimizer", "sgd", "--lr", "0.5", "--loss-scale", scale, "-o", "never.pbtxt", code=3)
            self.assertIn("error[OPC0507]", done.stderr)
            self.assertIn(said, done.stderr)
        for variable, loss, scale in (("kFloat", "kFloat16", "32768"), ("kFloat", "kBFloat16", "65536"), ("kDouble", "kDouble", "1e50"), ("kFloat", "kFloat16", "dynamic")):
            run("grad", write("half.pbtxt", half % (variable, loss)), "--loss", "loss", "--optimizer", "sgd", "--lr", "0.5", "--loss-scale", scale, "-o", "step.pbtxt")
            run("run", "step.pbtxt", "--repeat", "4", "--outputs", "step.npz", "--print", "none")
            if scale != "dynamic":
                np.testing.assert_array_equal(np.load(os.path.join(scratch.name, "step.npz"))["w_now"], np.full(3, 1 - 4 * 0.5))

    def test_numbers_of_a_job_that_make_no_training(self):
        for conf, said in (("loss_scale_factor: 0 optimizer_conf { base_learning_rate: 1 }", "loss_scale_factor is 0, it should be above 0"),
                           ("loss_scale_factor: -4 optimizer_conf { base_learning_rate: 1 }", "loss_scale_factor is -4, it should be above 0"),
                           ("dynamic_loss_scale_policy { initial_loss_scale: 0 } optimizer_conf { base_learning_rate: 1 }", "initial_loss_scale is 0, it should be above 0"),
                           ("optimizer_conf { base_learning_rate: nan }", "base_learning_rate is nan, it should be finite"),
                           ("optimizer_conf { base_learning_rate: 1 clip_conf { clip_by_global_norm { max_norm: -1 } } }", "max_norm is -1, it should be above 0"),
                           ("optimizer_conf { base_learning_rate: 1 adagrad_conf { initial_accumulator_value: -1 } }", "initial_accumulator_value is -1, it should be 0 or more"),
                           # What has no default is required: 0 in its place trains nothing, or otherwise than was meant.
                           ("optimizer_conf { }", "optimizer_conf has no base_learning_rate"),
                           ("optimizer_conf { adam_conf { } learning_rate_decay { cosine_conf { decay_batches: 8 } } }", "optimizer_conf has no base_learning_rate"),
                           ("optimizer_conf { learning_rate_decay { piecewise_constant_conf { values: 1 } } warmup_conf { constant_conf { warmup_batches: 2 multiplier: 0.5 } } }",
                            "optimizer_conf has no base_learning_rate"),
                           ("optimizer_conf { base_learning_rate: 1 learning_rate_decay { exponential_conf { decay_batches: 4 } } }", "exponential_conf has no decay_rate"),
                           ("optimizer_conf { base_learning_rate: 1 learning_rate_decay { linear_lr_conf { end_factor: 1 total_iters: 4 } } }", "linear_lr_conf has no start_factor"),
                           ("optimizer_conf { base_learning_rate: 1 warmup_conf { linear_conf { warmup_batches: 4 } } }", "linear_conf has no start_multiplier"),
                           ("optimizer_conf { base_learning_rate: 1 warmup_conf { linear_conf { } warmup_batches: 4 } }", "warmup_conf has no warmup_factor"),
                           ("optimizer_conf { base_learning_rate: 1 weight_decay_conf { } }", "weight_decay_conf has no weight_decay_rate"),
                           ("dynamic_loss_scale_policy { increment_period: nan } optimizer_conf { base_learning_rate: 1 }", "increment_period is nan, it should be above 0")):
            done = run("compile", write("bad.pbtxt", "net {" + GRAPH + '} job_conf { train_conf { loss_lbn: "loss/z_0" ' + conf + " } }"), "-o", "never.plan", code=3)
            self.assertIn("error[OPC0507]: train_conf: " + said, done.stderr)
            self.assertFalse(os.path.exists(os.path.join(scratch.name, "never.plan")))
        # Rates that are all given need no other.
        job = "net {%s} job_conf { train_conf { loss_lbn: \"loss/z_0\" optimizer_conf { %s } } }"
        for conf, rate in (("learning_rate_decay { piecewise_constant_conf { values: 0.03125 } }", 0.03125), ("base_learning_rate: 0", 0)):
            found, expected = values(write("rates.pbtxt", job % (GRAPH, conf)), 3), simulate(3, lambda p, g, s, t, rate=rate: p - rate * g)
            np.testing.assert_allclose(found["w_now"], expected[0], rtol=1e-6)


def layers(count, batch, width):
    lines = [f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: {batch} dim: {width} }} data_type: kFloat }} }} }}']
    now = "x/out"
    for i in range(count):
        lines.append(f'op {{ name: "w{i:03}" variable_conf {{ out: "out" shape {{ dim: {width} dim: {width} }} data_type: kFloat initializer {{ random_normal_conf {{ std: 0.25 }} }} random_seed: {i} }} }}')
        lines.append(f'op {{ name: "m{i:03}" user_conf {{ op_type_name: "matmul" input {{ key: "a" value {{ s: "{now}" }} }} input {{ key: "b" value {{ s: "w{i:03}/out" }} }} }} }}')
        lines.append(f'op {{ name: "t{i:03}" user_conf {{ op_type_name: "tanh" input {{ key: "x" value {{ s: "m{i:03}/out_0" }} }} }} }}')
        now = f"t{i:03}/y_0"
    lines.append(f'op {{ name: "loss" user_conf {{ op_type_name: "reduce_mean" input {{ key: "input_tensor" value {{ s: "{now}" }} }} attr {{ key: "axis" value {{ at_list_int32 {{ val: 0 val: 1 }} }} }} attr {{ key: "keepdims" value {{ at_bool: false }} }} }} }}')
    lines += [f'op {{ name: "w{i:03}_now" output_conf {{ in: "w{i:03}/out" out: "out" }} }}' for i in range(count)]
    return "\n".join(lines)


def activations(graph):
    import json

    return json.loads(run("show", graph, "--what", "memory", "--json").stdout)["memory"]["activation_bytes"]


class Recomputation(unittest.TestCase):
    def test_sqrt_segments_cost_a_third_and_give_the_same_bits(self):
        graph = write("deep.pbtxt", layers(64, 256, 16))
        results, peaks = {}, {}
        for kind, flags in {"keep": [], "sqrt": ["--recompute", "sqrt"], "globs": ["--recompute", "*", "--recompute", "!t0[0-9]7", "--recompute", "!loss"]}.items():
            step = os.path.join(scratch.name, kind + ".pbtxt")
            run("grad", graph, "--loss", "loss", "--optimizer", "sgd", "--lr", "0.5", "-o", step, *flags)
            peaks[kind] = activations(step)
            out = os.path.join(scratch.name, kind + ".npz")
            run("run", step, "--input", "x=rand", "--repeat", "3", "--outputs", out, "--print", "none")
            results[kind] = dict(np.load(out))
        for kind in ("sqrt", "globs"):
            self.assertLessEqual(3 * peaks[kind], peaks["keep"], peaks)
            for name, value in results["keep"].items():
                np.testing.assert_array_equal(results[kind][name], value, err_msg=f"{kind} {name}")

    def test_memory_limit(self):
        graph = write("deep.pbtxt", layers(64, 256, 16))
        run("grad", graph, "--loss", "loss", "--optimizer", "sgd", "--lr", "0.5", "-o", "all.pbtxt")
        whole = activations("all.pbtxt")
        run("grad", graph, "--loss", "loss", "--optimizer", "sgd", "--lr", "0.5", "--memory", str(whole // 2), "-o", "half.pbtxt")
        self.assertLessEqual(activations("half.pbtxt"), whole // 2)
        done = run("grad", graph, "--loss", "loss", "--optimizer", "sgd", "--lr", "0.5", "--memory", "1K", "-o", "never.pbtxt", code=4)
        self.assertIn("OPC0509", done.stderr)

    def test_random_ops_are_not_repeated(self):
        graph = write("noise.pbtxt", '''
op { name: "w" variable_conf { out: "out" shape { dim: 64 } data_type: kFloat initializer { constant_conf { value: 1 } } } }
op { name: "a" user_conf { op_type_name: "sin" input { key: "x" value { s: "w/out" } } } }
op { name: "c" user_conf { op_type_name: "square" input { key: "x" value { s: "a/y_0" } } } }
op { name: "d" user_conf { op_type_name: "dropout" input { key: "in" value { s: "c/y_0" } } output { key: "out" value { s: "d/out_0" } } output { key: "mask" value { s: "d/mask_0" } } attr { key: "rate" value { at_float: 0.5 } } } }
op { name: "b" user_conf { op_type_name: "square" input { key: "x" value { s: "d/out_0" } } } }
op { name: "loss" output_conf { in: "b/y_0" out: "out" } }
''')
        run("grad", graph, "--loss", "loss", "--recompute", "*", "-o", "noise.grad.pbtxt")
        with open(os.path.join(scratch.name, "noise.grad.pbtxt")) as f:
            text = f.read()
        self.assertIn("a_recompute", text)
        self.assertNotIn("d_recompute", text)


class Size(unittest.TestCase):
    def test_ops_grow_with_the_graph(self):
        def ops(path):
            with open(os.path.join(scratch.name, path)) as f:
                return sum(line.startswith("op {") for line in f)

        counts = []
        for n in (100, 200, 400):
            run("grad", write("deep.pbtxt", layers(n, 2, 2)), "--loss", "loss", "-o", "out.pbtxt")
            counts.append(ops("out.pbtxt"))
        self.assertEqual(counts[2] - counts[1], 2 * (counts[1] - counts[0]))
        # matmul and tanh: two forward ops a layer, at most three backward ops each, and an output.
        self.assertLessEqual(counts[1] - counts[0], 100 * (4 + 6 + 1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
