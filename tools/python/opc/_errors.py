"""Errors of opc as exceptions: one class for each class of exit codes, the text that the command prints."""
# SPDX-License-Identifier: Apache-2.0
import json
import warnings
from typing import Any, Dict, List


class Error(Exception):
    """What opc reports. `str()` is what the command line prints.

    code: the stable code of the first error, "OPC0203" (`opc explain OPC0203`).
    exit_code: what the command would have returned.
    diagnostics: every finding as in the command's JSON: code, message, subject, place, operands, notes, help.
    """

    def __init__(self, text: str, code: str = "", document: str = "{}", exit_code: int = 70) -> None:
        super().__init__(text)
        self.code = code
        self.exit_code = exit_code
        self._document = document

    @property
    def diagnostics(self) -> List[Dict[str, Any]]:
        return json.loads(self._document).get("diagnostics", [])

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return type(self), (str(self), self.code, self._document, self.exit_code)


class UsageError(Error, ValueError):
    """A value, name or option that does not fit (exit code 2)."""


class GraphError(Error):
    """The graph, plan or file is not valid (exit code 3)."""


class UnsupportedError(Error):
    """Valid, but not possible here: no kernel, too little memory (exit code 4)."""


class ExecutionError(Error):
    """A run failed (exit code 5)."""


class InternalError(Error):
    """A bug of opc (exit code 70)."""


class HostError(Exception):
    """What code that C++ has called (a kernel, a shape rule) finds wrong: an error with an id and a way out."""

    def __init__(self, code: str, message: str, help: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.help = code, message, help


class OpcWarning(UserWarning):
    """A warning of the compiler."""


_CLASSES = {2: UsageError, 3: GraphError, 4: UnsupportedError, 5: ExecutionError, 70: InternalError}


def make(code: str, text: str, document: str, exit_code: int) -> Error:
    """The exception of a failure; called by the core."""
    return _CLASSES.get(exit_code, Error)(text, code, document, exit_code)


def failure(exit_code: int, code: str, message: str, help: str = "") -> Error:
    """The exception of what the package finds itself, in the words and with the findings of the command."""
    from . import _core

    text, document = _core.failure(exit_code, code, message, help)
    return make(code, text.rstrip("\n"), document, exit_code)


def usage(message: str, help: str = "", code: str = "OPC0003") -> Error:
    """A UsageError: a value that does not fit."""
    return failure(2, code, message, help)


def warn(code: str, text: str, is_warning: bool) -> None:
    """A warning or note of a compilation that went well; notes are silent."""
    if is_warning:
        warnings.warn(text.rstrip(), OpcWarning, stacklevel=4)
