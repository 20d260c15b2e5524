"""Headers of npy files are parsed once for all arrays of one type and shape.

numpy takes the header of a file to pieces and evaluates it, which for the small arrays of tests is nearly all that loading costs. Equal text has
equal meaning, so what these two functions of numpy's have made of it is kept. A numpy that has them no more is as it is."""
# SPDX-License-Identifier: Apache-2.0
import functools

import numpy.lib.format as npy

for name in ("_filter_header", "safe_eval"):
    if hasattr(npy, name):
        setattr(npy, name, functools.cache(getattr(npy, name)))
