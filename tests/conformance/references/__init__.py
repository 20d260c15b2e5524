# Reference implementations of the operators, in f64, by numpy and PyTorch. One module a family or an op.
# SPDX-License-Identifier: Apache-2.0
import importlib
import pkgutil
import sys

from .table import NOT_COMPARED, REFERENCES, Instance, Typed  # noqa: F401

for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")  # each fills the table
if "torch" in sys.modules:
    sys.modules["torch"].set_num_threads(1)
