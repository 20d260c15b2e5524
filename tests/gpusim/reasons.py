"""The lists of this folder, of what may be as it is and why."""
# SPDX-License-Identifier: Apache-2.0
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def rows(name):
    """Those of a list, without comments."""
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return [line.rstrip("\n") for line in f if line.strip() and not line.startswith("#")]


def reasons(name):
    """[(WHAT, REASON)] of rows WHAT | REASON."""
    return [row.split(" | ") for row in rows(name)]
