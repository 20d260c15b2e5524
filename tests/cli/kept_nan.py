# A NaN that reaches a relu or clip that was joined with a convolution stays one, as with --no-fuse, and numbers are those that it gives.
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import unittest

import numpy as np

from folder_test import FolderTest

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
RUNTIME = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc-runtime")
BATCH, CHANNELS, SIDE = 2, 16, 12


def dims(*shape):
    return "shape { " + " ".join(f"dim: {d}" for d in shape) + " }"


def op(name, kind, inputs, out, attrs=""):
    args = " ".join(f'input {{ key: "{k}" value {{ s: "{v}" }} }}' for k, v in inputs.items())
    return f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" {args} output {{ key: "{out}" value {{ s: "{name}/{out}_0" }} }} {attrs} }} }}'


def conv(name, x, w, size, groups=1, channels=CHANNELS):
    ints = lambda key, *v: f'attr {{ key: "{key}" value {{ at_list_int32 {{ ' + " ".join(f"val: {i}" for i in v) + " } } }"
    number = lambda key, v: f'attr {{ key: "{key}" value {{ at_int32: {v} }} }}'
    return op(name, "conv2d", {"in": x, "weight": f"{w}/out"}, "out", number("filters", channels) + number("groups", groups) + ints("kernel_size", size, size) + ints("padding_before", size // 2, size // 2))


CLIP = ('attr { key: "floating_min" value { at_double: -0.25 } } attr { key: "floating_max" value { at_double: 1.5 } } '
        'attr { key: "integral_min" value { at_int64: 0 } } attr { key: "integral_max" value { at_int64: 0 } }')


def network(batch=BATCH, side=SIDE, channels=CHANNELS):
    """1x1, 3x3 and grouped convolutions with relu and clip behind them, one of them behind a residual."""
    lines = [f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(batch, channels, side, side)} data_type: kFloat }} }} }}']
    for name, size, groups in (("wa", 1, 1), ("wb", 3, 1), ("wc", 3, channels // 2)):
        lines.append(f'op {{ name: "{name}" variable_conf {{ out: "out" {dims(channels, channels // groups, size, size)} data_type: kFloat initializer {{ random_normal_conf {{ mean: 0 std: 0.3 }} }} }} }}')
    lines += [conv("a", "x/out", "wa", 1, 1, channels), op("ra", "relu", {"x": "a/out_0"}, "y"),
              conv("b", "ra/y_0", "wb", 3, 1, channels), op("s", "broadcast_add", {"x": "b/out_0", "y": "x/out"}, "z"), op("rb", "relu", {"x": "s/z_0"}, "y"),
              conv("c", "rb/y_0", "wc", 3, channels // 2, channels), op("rc", "clip_by_scalar", {"x": "c/out_0"}, "y", CLIP),
              'op { name: "y" output_conf { in: "rc/y_0" out: "out" } }', ""]
    return "\n".join(lines)


class KeptNan(FolderTest):
    def setUp(self):
        super().setUp()
        self.draw = np.random.default_rng(5)
        self.weights = self.drawn(CHANNELS)
        self.x = self.draw.standard_normal((BATCH, CHANNELS, SIDE, SIDE), dtype=np.float32)
        np.savez(self.path("w.npz"), **self.weights)
        self.file("g.pbtxt", network())

    def drawn(self, channels):
        return {n: (self.draw.standard_normal((channels, c, k, k)) * 0.3).astype(np.float32) for n, c, k in (("wa", channels, 1), ("wb", channels, 3), ("wc", 2, 3))}

    def file(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def values(self, graph, x, *more, program=OPC, weights="w.npz"):
        np.save(self.path("x.npy"), x)
        shutil.rmtree(self.path("made"), ignore_errors=True)
        os.makedirs(self.path("made"))
        command = [program, *(["run"] if program == OPC else []), graph, "--weights", weights, "--input", "x=@x.npy", "--outputs", "made", *more]
        done = subprocess.run(command + (["--config", "none"] if program == OPC else []), cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return np.load(self.path("made/y.npy"))

    def ways(self):
        subprocess.run([OPC, "compile", "g.pbtxt", "-o", "g.plan", "--config", "none", "-q"], cwd=self.folder, check=True)
        for more in (["-j", "1"], ["-j", "2"], ["-j", "2", "--repeat", "3"], ["--no-codegen"]):
            yield "g.pbtxt", more, OPC
        for threads in ("1", "2"):
            yield "g.plan", ["-j", threads], RUNTIME

    def check(self, x, nans, weights="w.npz", part=0):
        """Where NaN is with --no-fuse, but for `part` of all, where an order of sums decides; numbers differ by the rounding of what was joined,
        and with `part` the order of sums decides of some, too, on which side of zero an overflow lies."""
        plain = self.values("g.pbtxt", x, "--no-fuse", weights=weights)
        self.assertEqual(np.isnan(plain).any(), nans)
        for graph, more, program in self.ways():
            found = self.values(graph, x, *more, program=program, weights=weights)
            wrong = np.isnan(found) != np.isnan(plain)
            self.assertLessEqual(wrong.sum(), part * wrong.size, (graph, more))
            good = np.isfinite(plain) & ~wrong
            far = ~np.isclose(found[good], plain[good], rtol=1e-4, atol=1e-4)
            self.assertLessEqual(far.sum(), 5 * part * wrong.size, (graph, more))

    def test_limits_the_wrong_way_round(self):
        """Of a least above the most the clip is the most, as numpy's, and the library's the least: the two stay apart. So do those with a limit that is NaN."""
        for least, most in ((1.5, -0.25), (1e300, -0.25)):
            self.file("g.pbtxt", network().replace("at_double: -0.25", f"at_double: {least!r}").replace("at_double: 1.5", f"at_double: {most!r}"))
            for graph, more, program in self.ways():
                np.testing.assert_array_equal(self.values(graph, self.x, *more, program=program), np.clip(self.x, np.float32(1.5), np.float32(most)))

    def test_nothing_changes_for_numbers(self):
        self.check(self.x, False)

    def test_a_nan_of_the_input(self):
        self.x[1, 3, 5, 7] = np.nan
        self.check(self.x, True)
        # It is in no other sample, and of numbers the bits are those without it; a sample that has one is computed directly, whatever it is otherwise.
        found, filtered = (self.values("g.pbtxt", self.x, *more) for more in (["--no-winograd"], []))
        # A convolution of one pixel hands it to all channels there, and each of the two of three by three one pixel further.
        expected = np.zeros(found.shape, bool)
        expected[1, :, 3:8, 5:10] = True
        for values in (found, filtered):
            np.testing.assert_array_equal(np.isnan(values), expected)
        self.x[1, 3, 5, 7] = 0
        clean = self.values("g.pbtxt", self.x, "--no-winograd")
        self.assertEqual(found[0].tobytes(), clean[0].tobytes())
        self.assertEqual(filtered[0].tobytes(), self.values("g.pbtxt", self.x)[0].tobytes())
        same = ~np.isnan(found[1])
        same[:, 3:8, 5:10] = False  # what is near it is computed of another number now
        self.assertEqual(found[1][same].tobytes(), clean[1][same].tobytes())
        np.testing.assert_allclose(filtered[1][same], clean[1][same], atol=1e-5)

    def test_a_nan_that_the_network_makes(self):
        """Products that are too large are infinite, and their difference is none; so is infinity times zero."""
        big = self.x * np.float32(5e37)
        self.check(big, True, part=0.01)
        self.weights["wb"][2, 3, 1, 1] = np.inf
        np.savez(self.path("inf.npz"), **self.weights)
        self.x[:, 3] = 0
        self.check(self.x, True, weights="inf.npz")

    def test_runs_that_are_not_made_again(self):
        """Of several ranks, for sizes in a range, and while somebody watches."""
        self.x[1, 3, 5, 7] = np.nan
        expected = np.zeros(self.x.shape, bool)
        expected[1, :, 3:8, 5:10] = True
        for more in (["--mesh", "2", "--ranks", "2"], ["--shape", f"x=1..4,{CHANNELS},{SIDE},{SIDE}"], ["--trace", "t.json"], ["--profile"]):
            np.testing.assert_array_equal(np.isnan(self.values("g.pbtxt", self.x, *more)), expected, str(more))

    def test_numbers_of_channels(self):
        """Of one sample after the other, where the library has no direct kernel."""
        for channels in (2, 6, 10, 34):
            self.file("g.pbtxt", network(channels=channels))
            np.savez(self.path("few.npz"), **self.drawn(channels))
            x = self.draw.standard_normal((BATCH, channels, SIDE, SIDE), dtype=np.float32)
            self.check(x, False, weights="few.npz")
            x[0, 1, 2, 3] = np.nan
            self.check(x, True, weights="few.npz")

    def test_batches_in_parts(self):
        self.file("g.pbtxt", network(8, 96))
        shown = subprocess.run([OPC, "show", "g.pbtxt", "--what", "fusion", "--config", "none"], cwd=self.folder, capture_output=True, text=True, check=True).stdout
        self.assertIn("parts", shown)
        x = self.draw.standard_normal((8, CHANNELS, 96, 96), dtype=np.float32)
        x[6, 2, 50, 50] = np.nan
        self.check(x, True)

    @unittest.skipIf(os.environ.get("OPC_SANITIZE"), "builds under sanitizers have no Python package")
    def test_the_next_runs(self):
        """A program goes on with numbers after it has met NaN, and the other way round; the bits are those of programs that have met none."""
        import sys

        sys.path.insert(0, os.path.join(os.environ["OPC_BUILD_DIR"], "python"))
        import opc

        program = opc.load(self.path("g.pbtxt")).compile()
        session = program.session(threads=2)
        fresh = program.session(threads=1)
        for name, value in self.weights.items():
            session.variables[name] = value
            fresh.variables[name] = value
        good = fresh.run(x=self.x)["y"].copy()
        bad = self.x.copy()
        bad[0, 0, 0, 0] = np.nan
        for step in range(200):
            wrong = step in (3, 4, 90, 150)
            y = session.run(x=bad if wrong else self.x)["y"]
            self.assertEqual(np.isnan(y).any(), wrong, step)
            if not wrong:
                self.assertEqual(y.tobytes(), good.tobytes(), step)


class Zeros(FolderTest):
    """The sign of what a limit makes of zeros: by itself a clip keeps that of its input, as torch.clamp does; joined with a convolution it is the limit's."""

    def made(self, x, lines, *more, **weights):
        with open(os.path.join(self.folder, "g.pbtxt"), "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        np.savez(os.path.join(self.folder, "in.npz"), x=x, **weights)
        command = [OPC, "run", "g.pbtxt", "--inputs", "in.npz", "--output", "y=y.npy", "--print", "none", "--config", "none", *more]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return np.load(os.path.join(self.folder, "y.npy"))

    @staticmethod
    def limits(**values):
        return "".join(f'attr {{ key: "{key}" value {{ at_double: {value!r} }} }} ' for key, value in values.items())

    def same(self, a, b):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a)[~np.isnan(a)], np.signbit(b)[~np.isnan(b)])

    def test_by_itself(self):
        for kind, name in ((np.float32, "kFloat"), (np.float64, "kDouble"), (np.float16, "kFloat16")):
            x = np.resize(np.array([-0.0, 0.0, np.nan, np.inf, -np.inf, 0.5, -0.5, 2, -2], kind), 99)
            given = f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(99)} data_type: {name} }} }} }}'
            for low, high in ((0.0, 1.0), (-0.0, 1.0), (-1.0, 0.0), (-1.0, -0.0), (-1.0, 1.0), (0.0, None), (-0.0, None), (None, 0.0), (None, -0.0), (None, 1.0)):
                limits = {**({} if low is None else {"floating_min": low}), **({} if high is None else {"floating_max": high})}
                clip = "clip_by_scalar" + ("_min" if high is None else "_max" if low is None else "")
                raised = x if low is None else np.where(x < low, kind(low), x)
                expected = raised if high is None else np.where(raised > high, kind(high), raised)
                for more in ((), ("--no-codegen",), ("--no-fuse",)):
                    with self.subTest(kind=name, low=low, high=high, more=more):
                        self.same(self.made(x, [given, op("c", clip, {"x": "x/out"}, "y", self.limits(**limits)), 'op { name: "y" output_conf { in: "c/y_0" out: "out" } }'], *more), expected)

    def test_joined_with_a_convolution(self):
        x, w = np.full((BATCH, CHANNELS, SIDE, SIDE), -1e-30, np.float32), np.full((CHANNELS, CHANNELS, 1, 1), 1e-30, np.float32)
        x[:, :, 0] = 3
        w[0] = 1
        given = [f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(*x.shape)} data_type: kFloat }} }} }}',
                 f'op {{ name: "w" variable_conf {{ out: "out" {dims(*w.shape)} data_type: kFloat initializer {{ constant_conf {{ value: 0 }} }} }} }}', conv("a", "x/out", "w", 1)]
        end = 'op { name: "y" output_conf { in: "%s" out: "out" } }'
        sums = self.made(x, [*given, end % "a/out_0"], w=w)
        self.assertTrue(np.signbit(sums[sums == 0]).any(), "no sum is a negative zero, and nothing is tested")
        for low, high in ((0.0, 6.0), (-0.0, 6.0), (-6.0, 0.0), (-6.0, -0.0), (-6.0, 6.0)):
            lines = [*given, op("c", "clip_by_scalar", {"x": "a/out_0"}, "y", self.limits(floating_min=low, floating_max=high)), end % "c/y_0"]
            apart = np.where(sums < low, np.float32(low), np.where(sums > high, np.float32(high), sums))
            zero = next((limit for limit in (low, high) if limit == 0), None)
            with self.subTest(low=low, high=high):
                self.same(self.made(x, lines, "--no-fuse", w=w), apart)
                self.same(self.made(x, lines, w=w), apart if zero is None else np.where(apart == 0, np.float32(zero), apart))
        for more in ((), ("--no-fuse",)):  # of a relu the limit's either way
            self.same(self.made(x, [*given, op("c", "relu", {"x": "a/out_0"}, "y"), end % "c/y_0"], *more, w=w), np.where(sums <= 0, np.float32(0), sums))


if __name__ == "__main__":
    unittest.main()
