"""What `Graph.compile` was given, checked, as the compiler takes it."""
# SPDX-License-Identifier: Apache-2.0
import difflib
import inspect
from types import SimpleNamespace
from typing import Any, Callable, List, Mapping, Sequence

from . import _core, _numbers
from ._errors import usage


def bound(function: Callable[..., Any], given: Mapping[str, Any], called: str = "", more: Sequence[str] = ()) -> SimpleNamespace:
    """The parameters of `function` behind the first one, with its defaults where nothing is given. called, more: what the user has
    called, and what that takes besides."""
    known = {p.name: p.default for p in list(inspect.signature(function).parameters.values())[1:]}
    for name in given:
        if name not in known:
            names = [*more, *known]
            near = difflib.get_close_matches(name, names, 1)
            help = f"did you mean '{near[0]}'?" if near else f"it takes {', '.join(names)}"
            raise TypeError(f"{called or function.__name__}() takes no '{name}'; {help}")
    return SimpleNamespace(**{**known, **given})


def _mapping(value: Any, name: str, example: str) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} is a dict, such as {example}, not {value!r}")
    return value or {}


def _texts(value: Any, name: str, example: str) -> List[str]:
    if isinstance(value, str) or not all(isinstance(v, str) for v in value):
        raise TypeError(f"{name} is a sequence of str, such as {example}, not {value!r}")
    return list(value)


def sizes(dims: Any) -> Mapping[str, int]:
    """Sizes of an ONNX model by name."""
    return {_name(name, "dims"): _numbers.dimension(size, f"the size '{name}'") for name, size in _mapping(dims, "dims", '{"batch": 4}').items()}


def constants(consts: Any) -> Mapping[str, Any]:
    """Values for inputs of an ONNX model."""
    return {_name(name, "consts"): value for name, value in _mapping(consts, "consts", '{"sr": 16000}').items()}


def refuse_other_sizes(shapes: Mapping[str, Any], made_for: Mapping[str, Any]) -> None:
    """What a model computes from the sizes of its inputs was computed when it was loaded."""
    for name, dims in shapes.items():
        if name in made_for and tuple(dims) != tuple(made_for[name]):
            raise usage(f"the model was loaded for input '{name}' of shape {tuple(made_for[name])}, not {tuple(dims)}",
                        f"load it for that one: opc.load(path, shapes={{{name!r}: {tuple(dims)}}})")  # fmt: skip


def _name(name: Any, where: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the names in {where} are str, not {name!r}")
    return name


def request(o: SimpleNamespace, pins: Mapping[str, str]) -> Any:
    """The core's options for the parameters of `Graph.compile`; `pins` are the states that tensors say themselves."""
    options = _core.CompileOptions()
    options.shapes = {name: list(_numbers.dims(dims, f"the shape of '{name}'")) for name, dims in _mapping(o.shapes, "shapes", '{"x": (32, 784)}').items()}
    options.simplify, options.fuse, options.train = _numbers.truth(o.simplify, "simplify"), _numbers.truth(o.fuse, "fuse"), _numbers.truth(o.train, "train")
    options.winograd = _numbers.truth(o.winograd, "winograd")
    sbp, stages = _mapping(o.sbp, "sbp", '{"fc*.w": "S(0)"}'), _texts(o.stages, "stages", '["emb*=0-1"]')
    micro_batches, memory = _numbers.whole(o.micro_batches, "micro_batches"), _numbers.size(o.device_memory, "device_memory")
    if o.mesh is not None:
        states = {**pins, **sbp}
        for name, state in states.items():
            if not isinstance(name, str) or not isinstance(state, str):
                raise TypeError(f"sbp has globs of tensors and their states, both str, such as {{'fc*.w': 'S(0)'}}, not {{{name!r}: {state!r}}}")
        options.set_mesh(list(_numbers.dims(o.mesh, "mesh", 1, "(2, 4)")), [f"{n}={s}" for n, s in states.items()], stages, micro_batches, memory)
    elif sbp or stages or micro_batches != 1 or memory:
        raise usage("sbp, stages, micro_batches and device_memory are for a mesh", "compile(mesh=(2, 4), ...)")
    return options
