#!/usr/bin/python3
"""Computes the polynomial coefficients of kernels/sdk/include/opc/ScalarFloat.h.

Remez exchange in 50-digit arithmetic; the coefficients are then rounded to the target type. The weights are what the
polynomial is multiplied by in the result, plus a small floor that keeps the exchange well posed at a zero.
Needs mpmath and numpy (Debian: python3-mpmath python3-numpy).
"""
# SPDX-License-Identifier: Apache-2.0
import numpy as np
from mpmath import mp, mpf

mp.dps = 50


def remez(g, weight, a, b, powers, iterations=12):
    """Coefficients c with |weight(t) * (g(t) - sum c_i t^powers[i])| minimal on [a, b], and that maximum."""
    n = len(powers)
    if n == 0:
        return [], mpf(0)
    k = n + 1
    nodes = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * i / (k - 1)) for i in range(k)]
    grid = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * i / 1200) for i in range(1201)]
    table = [(t, g(t), weight(t)) for t in grid]
    coeffs, worst = None, None
    for _ in range(iterations):
        rows = mp.matrix(k, k)
        rhs = mp.matrix(k, 1)
        for i, t in enumerate(nodes):
            for j, p in enumerate(powers):
                rows[i, j] = t ** p
            rows[i, n] = (-1) ** i / weight(t)
            rhs[i] = g(t)
        solution = mp.lu_solve(rows, rhs)
        coeffs = [solution[j] for j in range(n)]
        errors = [w * (value - sum(c * t ** p for c, p in zip(coeffs, powers))) for t, value, w in table]
        worst = max(abs(e) for e in errors)
        # One extremum for each run of equal sign.
        runs = []
        for t, e in zip(grid, errors):
            if runs and (runs[-1][1] > 0) == (e > 0):
                if abs(e) > abs(runs[-1][1]):
                    runs[-1] = (t, e)
            else:
                runs.append((t, e))
        while len(runs) > k:
            runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
        if len(runs) < k:
            break
        fresh = [t for t, _ in runs]
        if max(abs(x - y) for x, y in zip(fresh, nodes)) < (b - a) * mpf(10) ** -8:
            break
        nodes = fresh
    return coeffs, worst


def fit(name, g, weight, a, b, degree, ctype):
    a, b = mpf(a), mpf(b)
    values, worst = remez(g, weight, a, b, list(range(degree + 1)))
    if ctype == "float":
        text = [mp.nstr(mpf(float(np.float32(float(v)))), 9) + "f" for v in values]
    else:
        text = [repr(float(v)) for v in values]
    print(f"// {name}: degree {degree} on [{mp.nstr(a, 6)}, {mp.nstr(b, 6)}], weighted error {mp.nstr(worst, 3)}")
    print("  " + ", ".join(text))


half_ln2 = mp.log(2) / 2 * mpf("1.001")
tiny = mpf("1e-12")


def series_safe(f, at):
    """f, with the removable singularity at 0 avoided."""
    return lambda t: f(t if abs(t) > tiny else tiny)


fit("exp: (e^r - 1 - r) / r^2", series_safe(lambda r: (mp.expm1(r) - r) / r ** 2, 0), lambda r: r * r + mpf("1e-2"), -half_ln2,
    half_ln2, 4, "float")
fit("exp2: (2^f - 1) / f", series_safe(lambda f: mp.expm1(f * mp.log(2)) / f, 0), lambda f: abs(f) + mpf("1e-1"), -mpf("0.501"),
    mpf("0.501"), 5, "float")
fit("log: (log(1+f) - f + f^2/2) / f^3", series_safe(lambda f: (mp.log1p(f) - f + f * f / 2) / f ** 3, 0),
    lambda f: f ** 2 + mpf("1e-2"), mp.sqrt(mpf(1) / 2) - 1, mp.sqrt(2) - 1, 8, "float")
fit("erf, small: erf(t)/t - 1 in s = t^2", lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s) - 1 if s > tiny else 2 / mp.sqrt(mp.pi) - 1,
    lambda s: mpf(1), 0, mpf("0.93") ** 2, 5, "float")
fit("erf, large: log2(erfc(t)) / t", lambda t: mp.log(mp.erfc(t), 2) / t, lambda t: t * mp.erfc(t) + mpf("1e-4"), mpf("0.92"),
    mpf("4.0"), 6, "float")
quarter = mp.pi / 4 * mpf("1.02")
fit("sin: (sin(r)/r - 1)/r^2 in s = r^2", lambda s: (mp.sin(mp.sqrt(s)) / mp.sqrt(s) - 1) / s if s > tiny else mpf(-1) / 6,
    lambda s: s + mpf("1e-1"), 0, quarter ** 2, 4, "double")
fit("cos: (cos(r) - 1 + r^2/2)/r^4 in s = r^2",
    lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s ** 2 if s > mpf("1e-10") else mpf(1) / 24, lambda s: s ** 2 + mpf("1e-1"), 0,
    quarter ** 2, 4, "double")
fit("pow, exp2: (2^f - 1) / f", series_safe(lambda f: mp.expm1(f * mp.log(2)) / f, 0), lambda f: abs(f) + mpf("1e-1"),
    -mpf("0.501"), mpf("0.501"), 7, "double")
z = mpf("0.1717") ** 2
fit("pow, log2: log2((1+z)/(1-z))/z in s = z^2",
    lambda s: 2 * mp.atanh(mp.sqrt(s)) / mp.sqrt(s) / mp.log(2) if s > tiny else 2 / mp.log(2), lambda s: mpf(1), 0, z, 6,
    "double")
