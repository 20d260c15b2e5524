"""Where in the user's program an op was made."""
# SPDX-License-Identifier: Apache-2.0
import os
import sys
from typing import Dict

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_shown: Dict[str, str] = {}
_inside = {_PACKAGE: True}
_skipped = [_PACKAGE]


def skip_folder(folder: str) -> None:
    """Files below this folder are not the user's: front ends over opc call this once."""
    _skipped.append(os.path.abspath(folder) + os.sep)
    _shown.clear()


def _show(filename: str) -> str:
    """The file as diagnostics name it: relative to the working directory, or its name alone where it lies elsewhere, so that
    the same program gives the same graph text in every folder. Empty for files of a front end."""
    try:
        here = os.getcwd() + os.sep
    except OSError:  # the directory has been removed: nothing lies in it
        here = ""
    path = os.path.join(here, filename) if not filename.startswith("<") else filename
    path = os.path.normpath(path)
    if any(path.startswith(folder) for folder in _skipped):
        return ""
    if filename.startswith("<"):
        return filename
    return path[len(here):] if here and path.startswith(here) else os.path.basename(path)


def caller() -> str:
    """ "train.py:41": the nearest line outside of the package; "" when there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        shown = _shown.get(filename)
        if shown is None:
            shown = _shown[filename] = _show(filename)
        if shown:
            return "%s:%d" % (shown, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return ""
