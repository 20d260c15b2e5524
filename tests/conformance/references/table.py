# The table of references, and what a reference function gets and gives.
# SPDX-License-Identifier: Apache-2.0
"""A reference is a function of an Instance that returns one of
  - an array: the op's first output;
  - a dict: output argument -> array or list of arrays.
A floating array takes the element type of the case, an integer one too when the case is an integer one; Typed says
another type. All computing is in f64 and int64: inputs were rounded to their element type before.

An elementwise op also has an exact function of one element, for elementwise_sweep.py and elementwise_gradients.py: in
../exact_functions.py, or @exact beside its reference.
"""
import numpy as np

REFERENCES = {}
EXACT = {}

# Ops whose values have no outside reference, with the reason. The driver checks what statistics_checks.py says.
NOT_COMPARED = {
    "uniform": "random",
    "normal": "random",
    "bernoulli": "random",
    "randperm": "random",
    "random_mask_like": "random",
    "dropout": "random",
}


class Typed:
    """An output with an element type of its own ("i64", "bool", ...)."""

    def __init__(self, array, dtype):
        self.array, self.dtype = np.asarray(array), dtype


class Instance:
    """One op with its inputs (argument -> list of f64 or int64 arrays), attributes and case dtype."""

    def __init__(self, op, inputs, attrs, dtype, outputs, types):
        self.op, self.inputs, self.attrs, self.dtype, self.outputs, self.types = op, inputs, attrs, dtype, outputs, types

    @property
    def floating(self):
        return self.dtype in ("f16", "bf16", "f32", "f64")

    def has(self, *names):
        return any(self.inputs.get(n) for n in names)

    def get(self, *names):
        """The first tensor of the argument, by its name or an older one; None when absent."""
        for n in names:
            if self.inputs.get(n):
                return self.inputs[n][0]
        return None

    def all(self, *names):
        for n in names:
            if self.inputs.get(n):
                return self.inputs[n]
        return []

    def torch(self, *names):
        import torch  # not everybody's reference needs it

        a = self.get(*names)
        return None if a is None else torch.from_numpy(np.array(a, order="C"))

    def only(self):
        """The op's single input."""
        (tensors,) = [v for v in self.inputs.values() if v]
        return tensors[0]

    def attr(self, *names, default=None):
        for n in names:
            if n in self.attrs:
                return self.attrs[n]
        return default

    def operand(self, int_name="int_operand", float_name="float_operand"):
        """The scalar operand of the scalar_* family."""
        if self.attr("has_float_operand", default=False):
            v = self.attr(float_name, default=0.0)
            return v if self.floating else int(v)
        return self.attr(int_name, default=0)


def reference(*names):
    def add(fn):
        for n in names:
            REFERENCES[n] = fn
        return fn

    return add


class Exact:
    """What @exact says of an op."""

    def __init__(self, fn, ulps, within):
        self.fn, self.ulps, self.within = fn, ulps, within


def exact(name, ulps=4, within=None):
    """The function takes an element of each input and the attributes by name: floats as mpf, integers as they are. It gives an
    mpf (or an integer), or None where the op is not judged; an input that is NaN gives NaN. `ulps`: the error that the kernels
    may have, in units of the last place, unless ulp_bounds.json says. `within`: (lo, hi) between which values are judged."""

    def add(fn):
        EXACT[name] = Exact(fn, ulps, within)
        return fn

    return add
