# Regions that read through transposes, slices, joined and padded tensors: the bits of the ops one after the other, in no more
# memory, as a loop over tiles and as machine code of either level.
# SPDX-License-Identifier: Apache-2.0
import json
import random
import unittest

import numpy as np

from code_levels import SETTINGS
from regions import RUNTIME, Graph, RegionCase

MOVES = ("transpose", "slice", "flip", "expand", "cat", "stack", "pad", "narrow")


def ints(name, kind, numbers):
    return f'attr {{ key: "{name}" value {{ {kind} {{ ' + " ".join(f"val: {n}" for n in numbers) + " } } }"


def shape_attr(name, dims):
    return f'attr {{ key: "{name}" value {{ at_shape {{ ' + " ".join(f"dim: {d}" for d in dims) + " } } }"


class Moves(Graph):
    def transpose(self, x, perm):
        return self.op("transpose", [("input", x)], "output", [x[1][p] for p in perm], x[2], ints("perm", "at_list_int32", perm))

    def slice(self, x, box):
        """box: (start, stop, step) an axis."""
        shape = np.empty(x[1])[tuple(slice(a, None if c < 0 and b < 0 else b, c) for a, b, c in box)].shape
        return self.op("slice", [("x", x)], "y", shape, x[2], " ".join(ints(n, "at_list_int64", [b[i] for b in box]) for i, n in enumerate(("start", "stop", "step"))))

    def flip(self, x, axes):
        return self.op("flip", [("x", x)], "y", x[1], x[2], ints("dims", "at_list_int32", axes))

    def expand(self, x, shape):
        return self.op("expand", [("in", x)], "out", shape, x[2], shape_attr("expand_shape", shape))

    def cat(self, parts, axis):
        shape = list(parts[0][1])
        shape[axis] = sum(p[1][axis] for p in parts)
        return self.op("cat", [], "out", shape, parts[0][2], self.many(parts) + f' attr {{ key: "axis" value {{ at_int64: {axis} }} }}')

    def stack(self, parts, axis):
        shape = list(parts[0][1])
        shape.insert(axis, len(parts))
        return self.op("stack", [], "out", shape, parts[0][2], self.many(parts) + f' attr {{ key: "axis" value {{ at_int64: {axis} }} }}')

    @staticmethod
    def many(parts):
        return 'input { key: "in" value { ' + " ".join(f's: "{p[0]}"' for p in parts) + " } }"

    def pad(self, x, before, after, value):
        shape = [a + n + b for a, n, b in zip(before, x[1], after)]
        return self.op("pad", [("x", x)], "y", shape, x[2], ints("padding_before", "at_list_int64", before) + ints("padding_after", "at_list_int64", after)
                       + f' attr {{ key: "floating_constant_value" value {{ at_double: {value} }} }}')

    def narrow(self, x, axis, start, length):
        shape = list(x[1])
        shape[axis] = length
        return self.op("narrow", [("in", x)], "out", shape, x[2], "".join(f'attr {{ key: "{k}" value {{ at_int64: {v} }} }}' for k, v in (("dim", axis), ("start", start), ("length", length))))


def moved(g, pick, x, kind, others):
    """x under an op that moves elements."""
    rank, shape = len(x[1]), x[1]
    axis = pick.randrange(rank)
    if kind == "transpose":
        return g.transpose(x, pick.sample(range(rank), rank))
    if kind == "slice":
        box = []
        for n in shape:
            step = pick.choice([1, 1, 2, -1])
            start, stop = (pick.randrange(n), n) if step > 0 else (n - 1, -n - 1)
            box.append((start, stop, step))
        return g.slice(x, box)
    if kind == "flip":
        return g.flip(x, pick.sample(range(rank), pick.randint(1, rank)))
    if kind == "expand":
        return g.expand(x, (pick.choice([2, 3]), *shape))
    if kind == "cat":
        fits = [y for y in others if y[2] == x[2] and len(y[1]) == rank and all(a == b for i, (a, b) in enumerate(zip(y[1], shape)) if i != axis)]
        return g.cat([x, *pick.sample(fits, min(len(fits), 2)), x], axis)
    if kind == "stack":
        return g.stack([x, x], pick.randint(0, rank))
    if kind == "pad":
        return g.pad(x, [pick.choice([0, 1, 2, -1 if n > 3 else 0]) for n in shape], [pick.choice([0, 3, -1 if n > 3 else 0]) for n in shape], pick.choice([0, 0.5]))
    start = pick.randrange(shape[axis])
    return g.narrow(x, axis, start, pick.randint(1, shape[axis] - start))


def random_moves(seed):
    """Elementwise ops, softmax and sums between ops that move."""
    pick, g = random.Random(seed), Moves()
    dtype = pick.choice(["f32", "f32", "f64", "f16"])
    shape = pick.choice([(7,), (40, 33), (4, 6, 5), (2, 3, 17, 8), (65, 130), (1, 9, 1), (300, 70)])
    made = [g.input(shape, dtype) for _ in range(2)]
    for _ in range(pick.randint(3, 12)):
        x = pick.choice(made[-3:])
        kind = pick.random()
        if kind < 0.45 and int(np.prod(x[1])) < 60000:
            y = moved(g, pick, x, pick.choice(MOVES), made)
        elif kind < 0.6:
            y = g.unary(pick.choice(["relu", "negative", "tanh", "square", "abs"]), x)
        elif kind < 0.67:
            y = g.op("softmax", [("in", x)], "out", x[1], x[2])
        else:
            fits = [t for t in made if t[1] == x[1]] + [g.input([d if pick.random() < 0.6 else 1 for d in x[1]][pick.randint(0, len(x[1]) - 1) :], dtype)]
            y = g.binary(pick.choice(["broadcast_add", "broadcast_mul", "broadcast_sub"]), *pick.sample([x, pick.choice(fits)], 2))
        made.append(y)
    read = " ".join(g.ops)
    for i, t in enumerate(made):
        if f's: "{t[0]}"' not in read:
            g.output(f"y{i}", t)
    return g


class MovedRegions(RegionCase):
    def test_random_moves(self):
        joined, seen = 0, set()
        for seed in range(60):
            with self.subTest(seed=seed):
                g = random_moves(seed)
                self.write(g, np.random.default_rng(seed))
                want = self.outputs("--no-fuse", "-j", "1")
                self.assertEqual(self.outputs("-j", "1", "--no-codegen"), want)
                self.assertEqual(self.outputs("-j", "2"), want)
                for level in SETTINGS:
                    self.assertEqual(self.outputs("-j", "2", level=level), want, level)
                self.opc("compile", "g.pbtxt", "-o", "g.plan")
                self.assertEqual(self.outputs("-j", "1", program=RUNTIME, what="g.plan"), want)
                tasks = [t for t in json.loads(self.opc("show", "g.plan", "--what", "tasks", "--json").stdout)["tasks"] if "region" in t]
                kinds = {t["kernel"].split("/")[1] for t in tasks} & set(MOVES)
                joined += bool(kinds)
                seen |= kinds
                memory = [json.loads(self.opc("show", "g.plan", "--what", "memory", "--json").stdout)["memory"]["activation_bytes"]]
                self.opc("compile", "g.pbtxt", "-o", "g.plan", "--no-fuse")
                memory.append(json.loads(self.opc("show", "g.plan", "--what", "memory", "--json").stdout)["memory"]["activation_bytes"])
                self.assertLessEqual(memory[0], memory[1])
        self.assertGreater(joined, 25)
        self.assertEqual(seen, set(MOVES))

    def one(self, build, shapes, want, ops, moved_bytes):
        """A graph whose ops are one region that gives numpy's numbers, and reads what it says."""
        g = Moves()
        inputs = [g.input(s, "f32") for s in shapes]
        g.output("y", build(g, *inputs))
        rng = np.random.default_rng(1)
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(g.text())
        data = {name: rng.standard_normal(s).astype(np.float32) for name, (s, _) in g.inputs.items()}
        np.savez(self.path("in.npz"), **data)
        for level in ("none", *SETTINGS):
            self.opc("run", "g.pbtxt", "--inputs", "in.npz", "--outputs", "out.npz", level=level)
            with np.load(self.path("out.npz")) as z:
                np.testing.assert_array_equal(z["y"], want(*data.values()))
        fusion = self.fusion()
        self.assertEqual([len(r["ops"]) for r in fusion["regions"]], [ops], fusion)
        self.assertEqual(fusion["regions"][0]["bytes_moved"], moved_bytes)

    def test_transposed_operand(self):
        self.one(lambda g, x, y: g.binary("broadcast_add", g.transpose(x, [1, 0]), y), [(70, 90), (90, 70)], lambda x, y: x.T + y, 2, 3 * 6300 * 4)

    def test_transposed_result(self):
        self.one(lambda g, x, y: g.transpose(g.binary("broadcast_add", x, y), [0, 2, 1, 3]), [(2, 30, 4, 16), (16,)],
                 lambda x, y: (x + y).transpose(0, 2, 1, 3), 2, (2 * 3840 + 16) * 4)

    def test_slices_of_one_tensor(self):
        """A gate: one half times the other; each element is read once."""
        def gate(g, x):
            return g.binary("broadcast_mul", g.narrow(x, 1, 0, 40), g.unary("relu", g.narrow(x, 1, 40, 40)))

        self.one(gate, [(50, 80)], lambda x: x[:, :40] * np.maximum(x[:, 40:], 0), 4, (4000 + 2000) * 4)

    def test_several_sources(self):
        def joined(g, x, y):
            return g.unary("negative", g.pad(g.cat([x, y, x], 1), [1, 0], [0, 2], 0.5))

        self.one(joined, [(30, 20), (30, 7)], lambda x, y: -np.pad(np.concatenate([x, y, x], 1), ((1, 0), (0, 2)), constant_values=0.5), 3, (600 + 210 + 31 * 49) * 4)

    def test_channels_of_several_tensors(self):
        """Joined rows with a scale and a bias for each column, in tiles of whole rows, whatever the widths are and where threads begin; and operands that
        are repeated otherwise. The numbers are numpy's."""
        for widths in ((32, 64, 32), (16, 48), (5, 7), (40, 24, 33), (1, 256), (300, 200)):
            self.channels([(1500, w) for w in widths], [(sum(widths),)] * 2)
        for shape, operand in (((200, 16, 10), (16, 1)), ((600, 3, 8, 4), (3, 1, 4)), ((900, 33), (900, 1)), ((40, 7, 120), (40, 1, 120)), ((5000, 9), (9,))):
            self.channels([shape], [operand] * 2)

    def channels(self, parts, operands):
        g, rng = Moves(), np.random.default_rng(4)
        inputs = [g.input(s, "f32") for s in parts]
        scale, bias = (g.input(s, "f32") for s in operands)
        x = g.cat(inputs, 1) if len(inputs) > 1 else inputs[0]
        g.output("y", g.unary("relu", g.binary("broadcast_add", g.binary("broadcast_mul", x, scale), bias)))
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(g.text())
        data = {name: rng.standard_normal(s).astype(np.float32) for name, (s, _) in g.inputs.items()}
        np.savez(self.path("in.npz"), **data)
        *values, a, b = data.values()
        want = np.maximum(np.concatenate(values, 1) * a + b, 0)
        for level in ("none", *SETTINGS):
            for threads in ("1", "3"):
                self.opc("run", "g.pbtxt", "--inputs", "in.npz", "--outputs", "out.npz", "-j", threads, level=level)
                with np.load(self.path("out.npz")) as z:
                    np.testing.assert_array_equal(z["y"], want, f"{parts} {operands} {level} {threads}")

    def test_nothing_is_computed(self):
        """Ops that only move are no region; an expansion does not compute an element twice; rows far apart are not read in order."""
        for build, shape, reason in ((lambda g, x: g.flip(g.transpose(x, [1, 0]), [0]), (8, 9), "moves"),
                                     (lambda g, x: g.expand(g.unary("tanh", x), (3, 8, 9)), (8, 9), "access"),
                                     (lambda g, x: g.unary("negative", g.transpose(x, [1, 0])), (3000, 40), "stride")):
            g = Moves()
            g.output("y", build(g, g.input(shape, "f32")))
            self.write(g, np.random.default_rng(0))
            fusion = self.fusion()
            self.assertEqual(fusion["regions"], [])
            self.assertEqual([a["reasons"] for a in fusion["alone"]], [[reason]] * 2)
            self.assertEqual([b["reason"] for b in fusion["boundaries"]], [reason])


if __name__ == "__main__":
    unittest.main()
