"""What the part in C++ asks of Python: kernels by name, shapes, errors in words. Nothing here is on the way of a call."""
# SPDX-License-Identifier: Apache-2.0
import atexit
import functools
import hashlib
import inspect
import os
import sys
import traceback
from types import ModuleType
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from . import _op, _op_names, _sources, _threads
from ._errors import Error, HostError
from ._graph import Spec as Spec  # asked for by name

_folders: List[str] = []


class Place(NamedTuple):
    """Where the code of an operator is, and for which node of a graph it is wanted."""

    op: str
    node: str
    module: str
    qualified_name: str
    content_hash: str
    file: str
    line: int
    isolated: bool
    timeout_s: float


def start(folders: Sequence[str], hooks: Dict[str, Any]) -> None:
    """Once: `folders` are those that the user named; hooks is what the part in C++ does around fork and at the end."""
    _folders.extend(os.path.abspath(f) for f in folders)
    if sys.stdout is sys.stderr:  # the command, which keeps its standard output for itself
        sys.__stdout__ = sys.stderr  # type: ignore[assignment]
    # Sources import their neighbours; behind everything else, so that no file takes the place of a module of Python.
    sys.path.extend(f for f in _folders if f not in sys.path)
    os.register_at_fork(
        before=hooks["before_fork"],
        after_in_parent=hooks["after_fork_in_parent"],
        after_in_child=hooks["after_fork_in_child"],
    )
    atexit.register(hooks["close"])

    def capture() -> Any:
        call = hooks["running_kernel"]()
        return call and functools.partial(hooks["started_in_kernel"], *call)

    _threads.follow(capture)


def _kernel(place: Place) -> _op.Kernel:
    if place.content_hash.startswith("live:"):
        return _op.live[int(place.content_hash[5:])]
    if place.op in _op.kernels and not _folders:
        return _op.kernels[place.op]  # this process defines it, and the graph is from a file
    path = _find_file(place)
    module = load(path, place.module)
    if place.op.startswith("oneflow::") and place.op not in _op.kernels and callable(getattr(module, place.qualified_name, None)):
        _op.kernels[place.op] = _of_one_tuple(place.op, getattr(module, place.qualified_name), path)
    kernel = kernel_in(path, place.op, place.qualified_name, place.line)
    _warn_if_changed(place, path)
    return kernel


def kernel_in(path: str, op: str, qualified_name: str, line: int) -> _op.Kernel:
    """The kernel of an op in a source that has run."""
    known = _op.kernels.get(op)
    if known and not known.defined and _is_file(known.source, path):
        return known  # of a file that defines no operator
    found = _op_names.meant(path, op, qualified_name, line)
    if len(found) == 1:
        return found[0]
    if found:
        raise HostError(
            "OPC0923",
            f"{path} defines '{op}' {len(found)} times as {qualified_name}, and nothing tells which of them the graph means",
            "give each definition a name of its own and save the graph again",
        )
    mine = sorted(k.op for k in _op.kernels.values() if _is_file(k.source, path))
    raise HostError(
        "OPC0923",
        f"{path} defines no op '{op}'; it defines {', '.join(mine) or 'none'}",
        'define it at the top level of the module, in no function and not below `if __name__ == "__main__":`, then save the graph again',
    )


def _is_file(a: str, b: str) -> bool:
    return os.path.realpath(a) == os.path.realpath(b)


def _of_one_tuple(op: str, function: Any, path: str) -> _op.Kernel:
    """A kernel of a OneFlow directory: `forward(args)`, a function in a file that defines no operator."""
    return _op.Kernel(op, lambda *inputs: function(inputs), ("@inputs",), (), source=path, defined=False)


def _find_file(place: Place) -> str:
    """The module's source in one of the folders that the user named, and nowhere else."""
    parts = place.module.split(".")
    if not all(p.isidentifier() for p in parts):
        raise HostError("OPC0923", f"the manifest says that op '{place.op}' is in the module '{place.module}', which is no name")
    if not _folders:
        raise HostError(
            "OPC0921", f"op '{place.op}' is written in Python ({place.file}:{place.line}), and this process does not define it",
            "import the module that defines it",
        )  # fmt: skip
    for folder in _folders:
        for path in (os.path.join(folder, *parts) + ".py", os.path.join(folder, *parts, "__init__.py")):
            if os.path.isfile(path):
                return path
    help = "name the folder that has it: --op-path DIR"
    above = [os.path.dirname(f) for f in _folders if os.path.basename(f) == parts[0] and len(parts) > 1]
    if above:
        help = f"{parts[0]} is a package: name the folder that it lies in: --op-path {above[0]}"
    raise HostError(
        "OPC0923",
        f"the code of op '{place.op}' is in {'/'.join(parts)}.py, which is in none of the folders {', '.join(_folders)}",
        help,
    )


def load(path: str, module: str = "") -> ModuleType:
    """Runs a source file as a module of a name of its own: it cannot take the place of another module."""
    return _sources.load(path, module, _folders)


def _warn_if_changed(place: Place, path: str) -> None:
    with open(path, "rb") as file:
        now = hashlib.sha256(file.read()).hexdigest()
    if place.content_hash and now != place.content_hash and (place.op, path) not in _warned:
        _warned.add((place.op, path))
        print(f"warning: {path} has changed since the graph with {place.op} was saved", file=sys.stderr)


_warned: set = set()


def find(given: Tuple[Any, ...]) -> Tuple[Any, Tuple[str, ...], Tuple[str, ...], bool, bool]:
    """The function of a place, what it is called with, whether it writes `out`, whether None means zeros."""
    place = Place(*given)
    kernel = _kernel(place)
    if kernel.isolated:
        from ._worker import Isolated

        place = place._replace(isolated=True, timeout_s=kernel.timeout_s)
        path = kernel.source or _find_file(place)
        return Isolated(place, path), kernel.positional, kernel.keywords, True, False
    if kernel.make:
        return kernel.make(place.node), kernel.positional, kernel.keywords, False, kernel.none_is_zero
    function = kernel.out or kernel.function
    if function is None:
        raise HostError("OPC0923", f"op '{place.op}' has no kernel")
    return function, kernel.positional, kernel.keywords, kernel.out is not None, kernel.none_is_zero


def infer(given: Tuple[Any, ...], inputs: Dict[str, List[Spec]], attrs: Dict[str, Any]) -> Sequence[Spec]:
    """Asks the shape rule of an op."""
    kernel = _kernel(Place(*given))
    if kernel.infer is None and kernel.op.startswith("oneflow::"):
        raise HostError(
            "OPC0923",
            f"op '{kernel.op}' of a OneFlow directory has other shapes or element types than those for which its graph was made",
            "its shape rule is its C++ definition: make the graph with these shapes in Python, where the directory is built, and save it",
        )
    if kernel.infer is None:
        raise HostError("OPC0923", f"op '{kernel.op}' has no shape rule any more", "save the graph again")
    try:
        return kernel.infer(inputs, attrs)
    except Exception as error:
        raise _in_a_line(error) from error


def describe(folder: str) -> str:
    """Imports the Python sources of a folder that the user named, and gives the manifest of their ops."""
    folder = os.path.abspath(folder)
    if folder not in _folders:
        raise HostError("OPC0921", f"{folder} is not a folder whose code may run", "name it: --op-path DIR")
    if not os.path.isdir(folder):
        raise HostError("OPC0923", f"{folder} is no folder", "give the folder that has the .py file: --op-path DIR")
    failed: List[Tuple[str, Exception]] = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.endswith(".py") and os.path.isfile(path) and _sources.may_define_ops(path):
            try:
                load(path)
            except Exception as error:
                failed.append((path, error))
    inside = os.path.realpath(folder) + os.sep
    names = sorted(n for n, o in _op.operators.items() if os.path.realpath(o.code.path).startswith(inside))
    # Ops of other files may be all that is wanted; where one is not there, this is why.
    for path, why in failed:
        if not names:
            raise why
        said = _printable(_explained(why)[1].splitlines()[0])
        print(f"warning: {path} was left out, with the operators that it defines: {said}", file=sys.stderr)
    from . import _manifest

    return _manifest.text_of(_op.describe(names))


def explain(error: BaseException) -> Tuple[str, str, str]:
    """An exception as id, message with traceback, and help: text that C can take, whatever the exception says."""
    code, message, help = _explained(error)
    return code, _printable(message), _printable(help)


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def _text_of(error: BaseException) -> str:
    try:
        return str(error) or "no message"
    except Exception as e:
        return f"no message: its __str__ raises {type(e).__name__}"


def _explained(error: BaseException) -> Tuple[str, str, str]:
    if isinstance(error, HostError):
        return error.code, error.message, error.help
    if isinstance(error, Error) and error.code == "OPC0625":
        said = error.diagnostics
        help = "a kernel runs while a graph runs, and cannot run another one: make what it needs an op of the graph"
        return error.code, said[0]["message"] if said else str(error).split(": ", 1)[-1].splitlines()[0], help
    frames = _frames_of(error)
    says = _text_of(error)
    last = _until_numpy(frames)[-1:]
    where = f"{last[0].filename}:{last[0].lineno}, in {last[0].name}" if last else ""
    if isinstance(error, SyntaxError) and error.filename:
        says, where = error.msg, f"{error.filename}:{error.lineno}"
    head = f"{type(error).__name__}: {says}" + (f" ({where})" if where else "")
    lines = traceback.format_list(frames)
    message = head + ("\nTraceback (most recent call last):\n" + "".join(lines).rstrip() if lines else "")
    return "OPC0622", message, getattr(error, "opc_help", "") or _help_for(error, says, bool(frames))


def defined_at(function: Any) -> str:
    """" (ops.py:7, in twice)": where a kernel is, for what is wrong with its results; "" for one of opc's own."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    return "" if code is None or _is_own(function.__module__) else f" ({code.co_filename}:{code.co_firstlineno}, in {code.co_name})"


def _is_own(module: Any) -> bool:
    """Of opc, or of the import of a source."""
    own = {"opc", "importlib"} | ({"opc_styles", "mxnet", "oneflow", "paddle"} if "opc_styles" in sys.modules else set())
    return str(module).split(".")[0] in own


def _frames_of(error: BaseException) -> List[traceback.FrameSummary]:
    """The user's part of the traceback."""
    kept = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not _is_own(frame.f_globals.get("__name__", "")) and not frame.f_code.co_filename.startswith("<frozen importlib")
    ]
    return list(traceback.StackSummary.extract(iter(kept)))


def _until_numpy(frames: List[traceback.FrameSummary]) -> List[traceback.FrameSummary]:
    """Without the calls within numpy: the last one is the user's line, whose arguments numpy refuses."""
    numpy = os.path.dirname(np.__file__) + os.sep, "<__array_function__"
    return frames[: max((i for i, f in enumerate(frames, 1) if not f.filename.startswith(numpy)), default=len(frames))]


def _in_a_line(error: Exception) -> Exception:
    """What a shape rule has raised, for a diagnostic of the graph, which is a line: the calls are in it."""
    code, message, help = _explained(error)
    calls = "".join(f", called at {f.filename}:{f.lineno}, in {f.name}" for f in reversed(_until_numpy(_frames_of(error))[:-1]))
    first = message.split("\nTraceback (most recent call last):\n")[0]
    first = " ".join(line.strip() for line in first.splitlines())
    return HostError(code, first[:-1] + calls + ")" if calls and first.endswith(")") else first, help)


def _help_for(error: BaseException, says: str, has_begun: bool) -> str:
    """has_begun: a line of the user's has raised it; else the call itself does not fit the function."""
    if isinstance(error, ValueError) and "read-only" in says:
        return "inputs are read-only: copy first, or compute into a new array"
    if isinstance(error, ModuleNotFoundError):
        return "install the module, or put its file into a folder of --op-path"
    if isinstance(error, TypeError) and "argument" in says and not has_begun:
        return "a kernel gets the op's inputs in their order and its attributes by keyword"
    return ""
