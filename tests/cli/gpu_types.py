# Kernels for GPUs in the element types and modes that no op's case has, on the simulated one: as on the CPU.
# SPDX-License-Identifier: Apache-2.0
import itertools
import unittest

import numpy as np

import gpu_ops
from gpu_build import need_simulator

FLOATS = {"kFloat": 2e-6, "kDouble": 1e-13, "kFloat16": 2e-3, "kBFloat16": 2e-2}  # of the largest element
INTEGERS = ["kInt8", "kUInt8", "kInt16", "kUInt16", "kInt32", "kUInt32", "kInt64", "kUInt64"]


def ints(*values):
    return "at_list_int32 { " + " ".join(f"val: {v}" for v in values) + " }"


def numbers(array):
    if array.dtype == np.dtype("V2"):
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


class Graph(gpu_ops.Graph):
    """Inputs are numbers of any type, converted in the graph."""

    def __init__(self):
        super().__init__()
        self.count, self.random, self.close, self.has_infinite = 0, np.random.default_rng(23), {}, False

    def tensor(self, kind, shape, low=-1.0, high=1.0):
        values = self.random.integers(int(low), int(high) + 1, shape) if kind in INTEGERS or kind == "kBool" else self.random.uniform(low, high, shape)
        given = self.input(f"x{len(self.inputs)}", values.astype(np.float64))
        return given if kind == "kDouble" else self.add("cast", {"in": given}, ("out",), dtype=f"at_data_type: {kind}")

    def add(self, kind, inputs, outputs, close=None, **attrs):
        """Adds an op; with a tolerance its outputs are compared."""
        self.count += 1
        first = self.op(f"op{self.count}", kind, inputs, outputs, **attrs)
        if close is not None:
            for name in outputs:
                self.output(f"op{self.count}_{name}", f"op{self.count}/{name}_0")
                self.close[self.outputs[-1]] = (close, f"{kind} {attrs}")
        return first


class Types(unittest.TestCase):
    def compare(self, graph, *options):
        """The least number of outputs that a test makes is its own to say."""
        results = []
        for device in ("cpu", "sim"):
            done, outputs = graph.run(device, "--no-fuse", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            results.append(outputs)
        for name, (close, what) in graph.close.items():
            want, got = numbers(results[0][name]), numbers(results[1][name])
            self.assertEqual(got.shape, want.shape, what)
            finite = np.isfinite(want)
            self.assertEqual(finite.all(), not graph.has_infinite, what)
            np.testing.assert_array_equal(got[~finite], want[~finite], err_msg=what)
            got, want = got[finite], want[finite]
            self.assertLessEqual(np.abs(got - want).max(initial=0), close * max(1e-3, np.abs(want).max(initial=0)), what)
        return len(graph.close)

    def test_rows_of_minus_infinity(self):
        """Nothing is the largest of such a row, whose probabilities are no numbers; of a few elements and of several a lane."""
        for kind, close in FLOATS.items():
            g = Graph()
            g.has_infinite = True
            for n in (7, 300):
                values = g.random.uniform(-2, 2, (4, n))
                values[1] = -np.inf
                x = g.add("cast", {"in": g.input(f"rows{n}", values)}, ("out",), dtype=f"at_data_type: {kind}")
                g.add("softmax_cross_entropy", {"prediction": x, "label": g.tensor(kind, (4, n), 0, 1)}, ("prob", "out"), close * 4)
                for type_ in (np.int32, np.int64):
                    label = g.input(f"label{n}{np.dtype(type_).name}", g.random.integers(0, n, 4).astype(type_))
                    g.add("sparse_softmax_cross_entropy", {"prediction": x, "label": label}, ("prob", "out"), close * 4)
            self.assertEqual(self.compare(g), 12)

    def test_grids_in_all_modes(self):
        """Points inside and far outside, whose gradients stay where the edge holds them fast."""
        for kind, close in FLOATS.items():
            g = Graph()
            image, other, dy = g.tensor(kind, (2, 3, 5, 6)), g.tensor(kind, (2, 3, 5, 6)), g.tensor(kind, (2, 3, 4, 3))
            grid, dgrid = g.tensor(kind, (2, 4, 3, 2), -2.5, 2.5), g.tensor(kind, (2, 4, 3, 2))
            for mode, padding, align in itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), ("false", "true")):
                how = {"interpolation_mode": f'at_string: "{mode}"', "padding_mode": f'at_string: "{padding}"', "align_corners": f"at_bool: {align}"}
                g.add("grid_sample", {"input": image, "grid": grid}, ("output",), close * 4, **how)
                g.add("grid_sample_grad", {"doutput": dy, "input": image, "grid": grid}, ("dinput", "dgrid"), close * 8, **how)
                second = {"doutput": dy, "input": image, "grid": grid, "ddinput": other, "ddgrid": dgrid}
                g.add("grid_sample_grad_grad", second, ("ddoutput", "dinput", "dgrid"), close * 16, **how)
            self.assertEqual(self.compare(g), 18 * 6)

    def test_regions_in_all_modes(self):
        """Inside, partly and wholly outside; as ends at begins; more samples than are gone through."""
        places = np.array([[0, 0, 5, 4], [1.5, 2, 3, 6.5], [-2, -1, 4, 3], [4, 3, 12, 9], [30, 3, 33, 4], [5, 4, 1, 2], [2, 2, 2, 2], [-1000, 0, 1000, 4]])
        for kind, close in FLOATS.items():
            g = Graph()
            x, dy = g.tensor(kind, (2, 3, 7, 6)), g.tensor(kind, (8, 3, 3, 2))
            rois = g.add("cast", {"in": g.input("rois", places)}, ("out",), dtype=f"at_data_type: {kind}")
            for wide, mode, ratio, coordinates in itertools.product((np.int32, np.int64), ("avg", "max"), (0, 2), ("half_pixel", "output_half_pixel")):
                indices = g.input(f"i{g.count}", np.array([0, 1, 1, 0, 1, 0, 0, 1], wide))
                how = {"mode": f'at_string: "{mode}"', "coordinate_transformation_mode": f'at_string: "{coordinates}"', "spatial_scale": "at_double: 0.75",
                       **{name: f"at_int64: {n}" for name, n in (("output_height", 3), ("output_width", 2), ("sampling_ratio", ratio))}}
                given = {"x": x, "rois": rois, "batch_indices": indices}
                g.add("roi_align", given, ("y",), close * 4, **how)
                g.add("roi_align_grad", {"dy": dy, **given}, ("dx",), close * 8, **how)
            self.assertEqual(self.compare(g), 32)

    def test_choices(self):
        """Conditions of every width for elements of every width, whole, of one element, and broadcast."""
        g = Graph()
        for condition, kind in itertools.product(("kBool", "kInt16", "kInt32", "kInt64"), ("kInt8", "kInt16", "kInt32", "kInt64")):
            for shapes in (((1003,), (1003,), (1003,)), ((7, 1), (1, 9), (1,)), ((1, 5, 1), (3, 1, 4), (3, 5, 1))):
                given = {"condition": g.tensor(condition, shapes[0], 0, 1), "x": g.tensor(kind, shapes[1], -99, 99), "y": g.tensor(kind, shapes[2], -99, 99)}
                g.add("where", given, ("out",), 0)
        self.assertEqual(self.compare(g), 48)

    def test_running_sums(self):
        """Along lines that lie side by side, and along neighbours."""
        g = Graph()
        for kind in [*FLOATS, *INTEGERS]:
            x = g.tensor(kind, (2, 70, 40), -3, 3)
            for dim in (1, 2):
                g.add("cumsum", {"x": x}, ("y",), FLOATS.get(kind, 0) * 4, dim=f"at_int64: {dim}")
        self.assertEqual(self.compare(g), 24)

    def test_elements_of_all_widths(self):
        """Moves and choices of places, which know the width of an element alone."""
        g = Graph()
        index, wide = g.input("index", np.array([[2], [0], [2]])), g.input("wide", g.random.integers(0, 7, (3, 5)))
        for kind in ("kInt8", "kInt16", "kInt32", "kInt64"):
            x, rows = g.tensor(kind, (3, 7), -99, 99), g.tensor(kind, (4, 3), -99, 99)
            g.add("dim_scatter_update_grad", {"dy": x, "index": wide}, ("dx",), 0, dim="at_int32: 1")
            g.add("tensor_scatter_nd_update_grad", {"dy": rows, "indices": index}, ("dx",), 0)
            g.add("one_hot", {"indices": wide}, ("out",), 0, depth="at_int64: 8", dtype=f"at_data_type: {kind}")
            g.add("unfold", {"x": g.tensor(kind, (1, 2, 6, 5), -99, 99)}, ("y",), 0, kernel_size=ints(2, 3))
        self.assertEqual(self.compare(g), 16)

    def test_random_numbers_of_all_types(self):
        g = Graph()
        for kind, close in FLOATS.items():
            common = {"dtype": f"at_data_type: {kind}", "shape": "at_shape { dim: 13 dim: 37 }"}
            g.add("uniform", {}, ("out",), 0, **common, to="at_double: 3")
            g.add("normal", {}, ("out",), close, **common, mean="at_double: 1", std="at_double: 2")
        self.assertEqual(self.compare(g, "--seed", "5"), 8)

    def test_what_is_found(self):
        """Rows that occur several times, with NaN among those of floats; places that are not 0; tensors as far as a count says."""
        for kind in [*FLOATS, *INTEGERS]:
            g = Graph()
            values = np.random.default_rng(29).integers(0, 4, (300, 3)).astype(np.float64)
            if kind in FLOATS:
                values[::7, 1] = np.nan
                values[::11, 2] = -np.inf
            given = g.input("x", values)
            x = given if kind == "kDouble" else g.add("cast", {"in": given}, ("out",), dtype=f"at_data_type: {kind}")
            for is_sorted in ("true", "false"):
                g.add("unique_rows", {"in": x}, ("first", "inverse", "counts", "output_size"), 0, sorted=f"at_bool: {is_sorted}")
            for places in ("kInt32", "kInt64"):
                g.add("argwhere", {"input": x}, ("output", "output_size"), 0, dtype=f"at_data_type: {places}")
            few = np.zeros((2, 3, 2, 5, 3, 120))
            few[1, :, 0, 2, 1, ::50] = 3
            given = g.input("few", few)
            given = given if kind == "kDouble" else g.add("cast", {"in": given}, ("out",), dtype=f"at_data_type: {kind}")
            g.add("argwhere", {"input": given}, ("output", "output_size"), 0)
            some = g.tensor(kind, (3, 9, 2), -3, 3)
            for number in (np.int32, np.int64):
                count = g.input(f"n{np.dtype(number).name}", np.array([5], number))
                g.add("bounded", {"x": some, "count": count}, ("y",), 0, axis="at_int64: 1")
            self.assertEqual(self.compare(g), 16)

    def test_maxima_and_weights(self):
        """What takes positions, or slices of long sums, in the types that no larger test has."""
        for kind, close in FLOATS.items():
            g = Graph()
            window = {"kernel_size": ints(2, 2), "stride": ints(1, 1)}
            x = g.tensor(kind, (1, 2, 18, 18))
            y = g.add("max_pool_2d", {"x": x}, ("y", "indice"), 0, return_indices="at_bool: true", **window)
            g.add("max_pool_2d_grad", {"x": x, "dy": y, "indice": y.replace("/y_0", "/indice_0")}, ("dx",), close, **window)
            x, dy = g.tensor(kind, (2, 8, 19, 19)), g.tensor(kind, (2, 16, 17, 17))
            g.add("conv_filter_grad", {"dy": dy, "x": x}, ("filter_diff",), close * 4, num_spatial_dims="at_int32: 2", kernel_size=ints(3, 3))
            self.assertEqual(self.compare(g), 4)


if __name__ == "__main__":
    need_simulator()
    unittest.main()
