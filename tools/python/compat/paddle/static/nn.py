"""Operators of functions: py_func and static_pylayer."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

import opc
from opc._graph import add_op
from opc._schema import Attribute
from opc_styles import classes

from ..autograd import AT, GIVES_ZEROS, SPEC_ATTRS, called, check_said, probing_rule, said, shapes_of, specs_of, zeros_of
from ..tensor import Tensor, Variable

Function = Callable[..., Any]
EACH_INPUT = "one tensor for each input"
GIVES_OUT = "what the function returns has the count, shapes and types of `out`"
BACKWARD_GETS = "each x, each out and the gradient of each out, in this order, without those of skip_vars_in_backward_input"


class Rule(NamedTuple):
    """The functions of an op, and whether they take paddle's tensors (static_pylayer) or arrays."""

    func: Function
    backward: Optional[Function]
    tensors: bool

    def call(self, function: Function, arrays: Sequence[Optional[np.ndarray]], what: str, absent: int = 0) -> List[Any]:
        """what: the function gets, in words. absent: so many None are what None alone means."""
        given = [Tensor(a) for a in arrays] if self.tensors else arrays
        role = "backward" if function is self.backward else "forward"
        got = called(function, given, f"the {role} function {getattr(function, '__name__', type(function).__name__)}", what)
        listed = [None] * absent if got is None else list(got) if isinstance(got, (list, tuple)) else [got]
        return [None if v is None else np.asarray(v) for v in listed]

    def specs(self, tensors: Sequence[Any]) -> List[opc.Spec]:
        """What the function gives for zeros."""
        with classes.probing():
            return [opc.Spec(a.shape, a.dtype) for a in self.call(self.func, zeros_of(tensors), EACH_INPUT)]


_operators: Dict[str, Tuple[Rule, classes.ClassOperator]] = {}


def _kernels(name: str, rule: Rule) -> Tuple[Function, Function]:
    def forward(data: Any, *, at: Any, shapes: Any, types: Any, skip: Any, names: Any) -> Any:
        with classes.kernel_of(name):
            made = rule.call(rule.func, classes.copies(data), EACH_INPUT)
            if not rule.tensors or shapes_of(data or ()) == list(at):
                check_said(made, data or (), shapes, types, names, rule.func, GIVES_ZEROS if rule.tensors else GIVES_OUT)
            return made

    def backward(doutput: Any, *, data: Any, output: Any, skip: Any) -> Any:
        with classes.kernel_of(name + "_grad"):
            assert rule.backward is not None
            known = [*classes.copies(data), *classes.copies(output)]
            kept = [a for i, a in enumerate(known) if i not in skip]
            count = len(data or ())
            got = rule.call(rule.backward, [*kept, *classes.copies(doutput)], "the gradients of the outputs" if rule.tensors else BACKWARD_GETS, count)
            if len(got) != count:
                raise ValueError(f"{rule.backward.__name__} must return {count} gradients, one for each input (None: no gradient); found {len(got)}")
            classes.check_gradients(got, data or (), rule.backward)
            return got

    return forward, backward


def _name_of(function: Function) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return name if name.isidentifier() and name.isascii() else "py_func"


def _what_runs(function: Optional[Function]) -> Any:
    """Equal for functions that compute the same: the same code, with the same objects from around it."""
    code = getattr(function, "__code__", None)
    if code is None:
        return function
    try:
        around = [id(c.cell_contents) for c in function.__closure__ or ()]  # type: ignore[union-attr]
    except ValueError:  # a cell that is filled later
        return function
    given = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())  # type: ignore[union-attr]
    return code, code.co_filename, id(function.__globals__), around, [id(v) for v in given]  # type: ignore[union-attr]


def _is_same(a: Rule, b: Rule) -> bool:
    return a == b or a.tensors == b.tensors and all(_what_runs(f) == _what_runs(g) for f, g in ((a.func, b.func), (a.backward, b.backward)))


def operator_of(rule: Rule) -> classes.ClassOperator:
    """`paddle::FUNC`; another function of that name, or with another backward_func, has a number behind: nodes keep theirs."""
    base = name = "paddle::" + _name_of(rule.func)
    number = 1
    while name in _operators:
        known, operator = _operators[name]
        if _is_same(known, rule):
            return operator
        number += 1
        name = f"{base}_{number}"
    forward, backward = _kernels(name, rule)
    operator = classes.ClassOperator(name, rule.func, forward, [AT, *SPEC_ATTRS, Attribute("skip", "list_int64", ()), Attribute("names", "list_string", ())], side_effect=True)
    operator.given_name = base
    operator.infer(probing_rule(lambda data, attrs: rule.specs(data)) if rule.tensors else specs_of)
    if rule.backward is None:
        operator.no_gradient(f"py_func of {_name_of(rule.func)} has no backward_func")
    else:
        operator.grad(backward, needs=["data", "output"])
    _operators[name] = (rule, classes.define(operator))
    return operator


def _listed(value: Any) -> List[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) and not hasattr(value, "dtype") else [value]


def _known_shape(out: Any, tensors: Sequence[opc.Tensor], declared: Sequence[Any]) -> Tuple[str, str]:
    """As specs_of reads it: open sizes are those of the first input that is open there, too, whatever they are in a run."""
    shape = []
    for axis, size in enumerate(out.shape):
        if size is None or size < 0:
            open_at = [i for i, d in enumerate(declared) if axis < len(d.shape) and (isinstance(d, opc.Tensor) or d.shape[axis] < 0)]
            if not open_at:
                raise ValueError(f"{getattr(out, 'name', 'out')}: dimension {axis} is -1, and no input is open there: declare its size")
            size = f"data[{open_at[0]}][{axis}]"
        shape.append(str(size))
    kind = opc.dtype(out.dtype)
    like = next((f"data[{i}]" for i, t in enumerate(tensors) if t.dtype == kind and kind.startswith(("f", "bf"))), None)
    return ",".join(shape), like or kind


def _say(outs: Sequence[Any], tensors: Sequence[opc.Tensor], declared: Sequence[Any]) -> Dict[str, List[str]]:
    known = [_known_shape(o, tensors, declared) for o in outs]
    names = [getattr(o, "name", None) or f"out[{i}]" for i, o in enumerate(outs)]
    return {"shapes": [shape for shape, _ in known], "types": [kind for _, kind in known], "names": names}


def _add(operator: classes.ClassOperator, tensors: Sequence[opc.Tensor], outputs: Dict[str, List[str]], skip: Sequence[int]) -> Tuple[opc.Tensor, ...]:
    operator.register()
    inputs = {"data": tensors} if tensors else {}
    count = len(outputs["shapes"])
    attrs = {"at": shapes_of(tensors), **outputs, "skip": list(skip)}
    return add_op(operator.name, inputs, attrs, outputs={"output": count} if count else None)


def py_func(func: Function, x: Any, out: Any, backward_func: Optional[Function] = None, skip_vars_in_backward_input: Any = None) -> Any:
    """The function as an op: `out = func(*x)` in each run, `backward_func(x..., out..., gradients of out...)` for its gradient.

    x, out: variables of a program; or tensors of an opc.Graph and opc.Specs (InputSpecs), and then the outputs are returned.
    """
    xs, outs = _listed(x), _listed(out)
    if not callable(func) or not (backward_func is None or callable(backward_func)):
        raise TypeError("py_func: func and backward_func are functions")
    if not xs and not outs:
        raise ValueError("py_func: there is neither an input nor an output")
    operator = operator_of(Rule(func, backward_func, False))
    known = xs + outs
    skip = []
    for v in _listed(skip_vars_in_backward_input):
        at = [i for i, k in enumerate(known) if k is v]
        if not at:
            raise ValueError(f"py_func: {getattr(v, 'name', v)} in skip_vars_in_backward_input is neither an input nor an output")
        skip += at
    if xs and all(isinstance(v, opc.Tensor) for v in xs):
        made = _add(operator, xs, _say(outs, xs, xs), skip)
        return made[0] if len(made) == 1 else made
    for v in known:
        if not isinstance(v, Variable):
            raise TypeError(f"py_func: {v!r} is no variable of a program")
        if hasattr(v, "_gradient_of"):
            raise NotImplementedError(f"py_func: {v.name} is a gradient, which runs fetch and no op of a program reads or writes")
    program = (known[0]).program
    from .program import Op

    def build(tensors: List[opc.Tensor]) -> Sequence[opc.Tensor]:
        return _add(operator, tensors, _say(outs, tensors, xs), skip)

    program.ops.append(Op(xs, outs, build))
    return out


def static_pylayer(forward_fn: Function, inputs: Sequence[Any], backward_fn: Optional[Function] = None) -> Any:
    """An op of two functions on tensors: forward_fn(*inputs), and backward_fn(gradients of the outputs...)."""
    rule = Rule(forward_fn, backward_fn, True)
    operator = operator_of(rule)
    xs = _listed(inputs)

    def build(tensors: List[opc.Tensor]) -> Sequence[opc.Tensor]:
        specs = rule.specs(tensors)
        return _add(operator, tensors, said(specs, tensors), range(len(tensors) + len(specs)))

    made = build(xs) if isinstance(xs[0], opc.Tensor) else xs[0].program.add(_name_of(forward_fn), xs, build)
    return made[0] if len(made) == 1 else made
