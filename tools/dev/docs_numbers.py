"""Parts of docs/numerics.md that tests check: errors of elementwise ops and gradients at kinks (tools/dev/docs.py)."""
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import json
import math
import os

from docs_parts import ROOT, table

CONFORMANCE = os.path.join(ROOT, "tests", "conformance")
TYPES = ("f64", "f32", "f16", "bf16")


def ulp_bounds(build):
    """Ops of equal bounds share a row; exact ones come first."""
    with open(os.path.join(CONFORMANCE, "ulp_bounds.json"), encoding="utf-8") as f:
        bounds = json.load(f)
    rows = {}
    for op, of in bounds.items():
        rows.setdefault(tuple(of[t] for t in TYPES), []).append(f"`{op}`")
    return table([*TYPES, "operators"], [[*(f"{b:g}" for b in key), ", ".join(sorted(rows[key]))] for key in sorted(rows)])


def kinks(build):
    """Where, and what the derivative is by each operand."""
    spec = importlib.util.spec_from_file_location("kinks", os.path.join(CONFORMANCE, "kinks.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = []
    for op, where, why, attrs, points in module.KINKS:
        given = ", ".join(f"{k} {v:g}" for k, v in attrs.items() if not isinstance(v, bool))
        shown = []
        for operands, slopes in points:
            at = operands[0] if len(operands) == 1 else operands
            shown.append(f"{number(at)}: {number(slopes[0] if len(slopes) == 1 else slopes)}")
        rows.append([f"`{op}`" + (f" ({given})" if given else ""), where.replace("<", "&lt;"), why.replace("<", "&lt;"), "; ".join(shown)])
    return table(["operator", "at", "gradient", "checked: operands: derivatives"], rows)


def number(v):
    if isinstance(v, tuple):
        return "(" + ", ".join(map(number, v)) + ")"
    return "NaN" if math.isnan(v) else f"{v:.6g}".replace("inf", "infinity")


PARTS = {"ulp-bounds": ulp_bounds, "kinks": kinks}
