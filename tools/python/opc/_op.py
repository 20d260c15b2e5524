"""Operators that are written in Python: the decorator `opc.op`, its rules, and the table of what has been defined."""
# SPDX-License-Identifier: Apache-2.0
import collections
import dataclasses
import functools
import hashlib
import inspect
import keyword
import os
import re
import reprlib
import warnings
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _definition, _grad_results, _op_names
from . import _manifest as text
from ._dtypes import DType, dtype
from ._errors import HostError, UsageError
from ._graph import Spec
from ._schema import HANDED_OVER, Argument, Attribute, Signature, check_name, signature_of

Function = Callable[..., Any]
LOADED = "_opc_ops_"  #: names of modules that were loaded from a folder of --op-path begin with this


class _Elementwise:
    """`sbp=opc.elementwise`: the tensors may be cut alike on every axis."""

    def __repr__(self) -> str:
        return "opc.elementwise"


elementwise = _Elementwise()


@dataclasses.dataclass
class Kernel:
    """The code of one operator of a graph, and how it is called."""

    op: str
    function: Optional[Function]
    positional: Tuple[str, ...]
    keywords: Tuple[str, ...]
    out: Optional[Function] = None
    infer: Optional[Callable[[Dict[str, Any], Dict[str, Any]], Sequence[Any]]] = None
    none_is_zero: bool = False
    make: Optional[Callable[[str], Function]] = None  # of a function for each place in a graph: node name -> function
    source: str = ""
    defined: bool = True  # by an operator of this process
    outputs: Tuple[str, ...] = ()
    optional: Tuple[str, ...] = ()  # outputs that may be absent, with the inputs whose gradients they are
    isolated: bool = False  # as its source says now, whatever it said when a graph was saved
    timeout_s: float = 0.0


#: Operators by name, and the kernels of all names that graphs see (gradients have names of their own).
operators: Dict[str, "Operator"] = {}
kernels: Dict[str, Kernel] = {}
#: Kernels that this process has handed to graphs, by number: a definition that is replaced goes on where it is in use.
live: List[Kernel] = []


def _keywords_of(function: Function, names: Iterable[str]) -> Tuple[str, ...]:
    """Those of the names that the function takes after `*`; "@position" for `position` and `rng`."""
    parameters = inspect.signature(function).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    chosen = [n for n in names if anything or n in parameters]
    return tuple(chosen + (["@position"] if _draws(function) and "position" not in chosen else []))


def _draws(function: Function) -> bool:
    """Whether the function asks for what differs from step to step. Inputs may have these names."""
    return any(p.name in ("rng", "position") and p.kind is p.KEYWORD_ONLY for p in inspect.signature(function).parameters.values())


def _with_rng(function: Function) -> Function:
    """A function that takes `rng` gets a generator that follows from the session's seed, its step and the op's name."""
    rng = inspect.signature(function).parameters.get("rng")
    if rng is None or rng.kind is not rng.KEYWORD_ONLY:
        return function

    @functools.wraps(function)
    def drawing(*args: Any, position: Optional[Tuple[int, int, str]] = None, **kwargs: Any) -> Any:
        seed, step, node = position or (0, 0, "")
        name = int.from_bytes(hashlib.sha256(node.encode()).digest()[:8], "little")
        kwargs["rng"] = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, step + 1, name])))
        return function(*args, **kwargs)

    return drawing


def _fresh(names: Sequence[str], taken: List[str]) -> Dict[str, str]:
    """name -> "d" + name, with "_" behind while that is taken; they are taken, too, afterwards."""
    made: Dict[str, str] = {}
    for name in names:
        fresh = "d" + name
        while fresh in taken:
            fresh += "_"
        made[name] = fresh
        taken.append(fresh)
    return made


def _spread(function: Function, signature: Signature) -> Function:
    """A function with `*xs` gets the tensors of this input one by one, as in a call on arrays; graphs hand them over as one tuple."""
    if not any(p.kind is p.VAR_POSITIONAL and signature.input(p.name) for p in inspect.signature(function).parameters.values()):
        return function

    @functools.wraps(function)
    def spread(*args: Any, **kwargs: Any) -> Any:
        return function(*args[:-1], *args[-1], **kwargs)

    return spread


def _call_signature(function: Function, signature: Signature) -> Tuple[inspect.Signature, List[Tuple[int, str]]]:
    """What a call for a graph takes; and the optional inputs at the end that have no default of their own, with their places."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in HANDED_OVER or p.kind is not p.KEYWORD_ONLY]
    absent: List[Tuple[int, str]] = []
    for at in range(len(parameters) - 1, -1, -1):
        p = parameters[at]
        argument = signature.input(p.name)
        if argument is None or p.kind is p.VAR_POSITIONAL:
            continue
        if not argument.optional:
            break
        if p.default is p.empty:
            parameters[at] = p.replace(default=None)
            absent.append((at, p.name))
    return inspect.Signature(parameters), absent


class Code:
    """Where a function is: what a manifest says so that another process finds it."""

    def __init__(self, function: Function) -> None:
        function = inspect.unwrap(function)
        self.module: str = getattr(function, "__module__", "") or ""
        self.qualified_name: str = getattr(function, "__qualname__", repr(function))
        self.path, self.line = "", 0
        try:
            self.path = os.path.abspath(inspect.getsourcefile(function) or "")
            self.line = inspect.getsourcelines(function)[1]
        except (TypeError, OSError):
            pass
        if not os.path.isfile(self.path):
            self.path = self.module = ""
        if self.module == "__main__":
            self.module = os.path.splitext(os.path.basename(self.path))[0]
        elif self.module.startswith(LOADED):  # "_opc_ops_1_p.rel"; of a package that is the named folder itself, "_opc_ops_1_.rel"
            self.module = re.sub(r"^\d+_\.?", "", self.module[len(LOADED):]) or "__init__"

    @property
    def content_hash(self) -> str:
        """sha256 of the source file as it is now."""
        if not self.path:
            return ""
        with open(self.path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def lines(self, content_hash: str) -> str:
        """The message Code of a manifest."""
        fields = (("module", self.module), ("qualified_name", self.qualified_name), ("content_hash", content_hash))
        said = " ".join(f"{name}: {text.quoted(value)}" for name, value in fields)
        return f"code {{ {said} file: {text.quoted(os.path.basename(self.path))} line: {self.line} }}"


@dataclasses.dataclass
class Gradient:
    """The numeric rule: a function of the gradients of the outputs and of the tensors that it needs."""

    function: Function
    needs: Tuple[str, ...]


@dataclasses.dataclass
class Options:
    """What the decorator was given besides names."""

    sbp: Any = None
    like: Union[None, str, Mapping[str, str]] = None
    broadcast: Sequence[str] = ()
    shape: Optional[Mapping[str, Sequence[Any]]] = None
    dtype: Optional[Mapping[str, Any]] = None
    aux: Sequence[str] = ()
    inplace: Mapping[str, str] = dataclasses.field(default_factory=dict)
    side_effect: bool = False
    needs_rng: bool = False
    non_differentiable: Sequence[str] = ()
    no_grad: Sequence[str] = ()
    isolated: bool = False
    timeout_s: float = 0.0
    cases: Sequence[Mapping[str, Any]] = ()


class Operator:
    """An operator that is written in Python. Called with tensors of a graph it adds a node, with arrays it computes."""

    def __init__(self, name: str, function: Function, signature: Signature, options: Options) -> None:
        functools.update_wrapper(self, function)
        self.name = self.given_name = name  # in graphs it may have a number behind (_op_names)
        self.module = getattr(function, "__module__", "")
        self.function = function
        self.signature = signature
        self.options = options
        self.code = Code(function)
        self._call_signature, self._absent = _call_signature(function, signature)
        names = [a.name + "_" * keyword.iskeyword(a.name) for a in signature.outputs]
        self._result = collections.namedtuple(re.sub(r"\W+", "_", name) + "_outputs", names, rename=True) if len(names) > 1 else None  # type: ignore[misc]
        # Functions of their own for each place in a graph: node name -> function. That of the gradient of "NODE" is asked
        # for "NODE_grad_rule".
        self.make: Optional[Callable[[str], Function]] = None
        self.make_grad: Optional[Callable[[str], Function]] = None
        self._infer: Optional[Function] = None
        self._out: Optional[Function] = None
        self._gradient: Optional[Gradient] = None
        self._recorded_gradient: Optional[List[str]] = None
        self._no_gradient = ""
        self._records: Dict[str, List[str]] = {}
        self._live: Dict[str, int] = {}
        self._registered = False

    def __repr__(self) -> str:
        return f"<opc.op {self.name}>"

    def __reduce__(self) -> str:
        """Copied and pickled as functions are: by its name."""
        return self.function.__qualname__

    # The rules.

    def infer(self, rule: Function) -> "Operator":
        """Decorates the rule of shapes and element types: called with `opc.Spec`s, answers one for each output."""
        self._infer = rule
        return self._changed()

    def out(self, kernel: Function) -> "Operator":
        """Decorates a kernel that writes into `out`: an array, or a tuple of them where there are several outputs."""
        if "out" not in inspect.signature(kernel).parameters:
            raise TypeError(f"{self.name}: the kernel of the form with out= has no parameter 'out'")
        _definition.check_draws(self.name, _draws(kernel), self.options)
        self._out = kernel
        return self._changed()

    def grad(self, rule: Optional[Function] = None, *, needs: Optional[Sequence[str]] = None) -> Any:
        """Decorates the numeric gradient rule: `(dy, *, x, alpha)` -> the gradient of each input.

        needs: names of the inputs and outputs that the rule reads; if not given, those that are its parameters.
        """
        if rule is None:
            return functools.partial(self.grad, needs=needs)
        s = self.signature
        known = [a.name for a in s.inputs + s.outputs]
        if needs is None:
            parameters = inspect.signature(rule).parameters
            needs = [n for n in known if n in parameters and parameters[n].kind is parameters[n].KEYWORD_ONLY]
        for n in needs:
            if n not in known:
                raise ValueError(f"{self.name}: the gradient rule needs '{n}'; the op has {', '.join(known)}")
        for a in self._differentiable():
            if a.minimum is not None and a.name not in needs:
                raise ValueError(f"{self.name}: the gradient rule must need '{a.name}', of which there may be several")
        _grad_results.check_parameters(
            self.name, rule, [y.name for y in self._outputs_with_gradient()], self.options.non_differentiable, _keywords_of(rule, [*needs, *(a.name for a in s.attrs)])
        )
        self._gradient = Gradient(rule, tuple(needs))
        return self._changed()

    def grad_graph(self, rule: Function) -> "Operator":
        """Decorates the symbolic gradient rule `(g, fw, dy)`: it builds ops, and so has gradients of every order."""
        from ._grad_graph import record

        self._recorded_gradient = record(self, rule)
        return self._changed()

    def no_gradient(self, reason: str) -> "Operator":
        """Says that the derivative is zero or makes no sense, and why."""
        self._no_gradient = reason
        return self._changed()

    # Use.

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from . import _graph

        def holds(value: Any) -> bool:
            if isinstance(value, (list, tuple)):
                return any(holds(v) for v in value)
            return isinstance(value, _graph.Tensor)

        if not any(holds(a) for a in args) and not any(holds(v) for v in kwargs.values()) and self.signature.inputs:
            left_out = {n: None for at, n in self._absent if at >= len(args) and n not in kwargs}
            return _with_rng(self.function)(*args, **{**kwargs, **self._narrow(kwargs)}, **left_out)
        name, outputs = kwargs.pop("name", None), kwargs.pop("outputs", None)
        bound = self._bound(args, kwargs)
        for a in self.signature.inputs:
            if bound.get(a.name) is None and not a.optional and a.minimum != 0:
                raise TypeError(f"{self.name}: input '{a.name}' is None; only optional inputs may be left out")
        inputs = {a.name: bound[a.name] for a in self.signature.inputs if bound.get(a.name) is not None}
        attrs = {a.name: bound[a.name] for a in self.signature.attrs if a.name in bound}
        self.register()
        made = _graph.add_op(self.name, inputs, attrs, name=name, outputs=outputs)
        if self._result and len(made) == len(self.signature.outputs):
            return self._result(*made)
        return made[0] if len(made) == 1 else made

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments of a call for a graph, by name."""
        try:
            return self._call_signature.bind(*args, **kwargs).arguments
        except TypeError as error:  # Python's words, which say nothing of the op
            takes = [p.replace(annotation=p.empty) for p in self._call_signature.parameters.values()]
            raise TypeError(f"{self.name}: {error}; it takes {inspect.Signature(takes)}") from None

    def _narrow(self, given: Mapping[str, Any]) -> Dict[str, Any]:
        """Attributes of f32 as kernels of graphs get them."""
        refuse, made = _definition.refusal(self.name), {}
        for a in self.signature.attrs:
            value = given.get(a.name, a.default)
            if a.type in ("float", "list_float") and value is not inspect.Parameter.empty:
                _definition.value_of(refuse, "the call", a.name, a.type, value)
                made[a.name] = float(np.float32(value)) if a.type == "float" else (list if isinstance(value, list) else tuple)(float(np.float32(v)) for v in value)
        return made

    def register(self) -> None:
        """Makes the op known to graphs of this process. A change of the definition counts from the next use on."""
        if self._registered:
            return
        from . import _core

        _op_names.take_name(self, operators)
        for kernel in self.kernels():
            live.append(kernel)
            self._live[kernel.op] = len(live) - 1
            if kernel.op != self.name and _op_names.of_files.pop(kernel.op, ""):
                _core.register_python_ops(kernel.op, text.text_of([]))  # the definition of a file makes way
        _core.register_python_ops(self.name, text.text_of(self.describe(running=True)))
        self._registered = True
        for name in _types_in("\n".join(self._recorded_gradient or ())):
            needed = operators.get(name)
            if needed:
                needed.register()  # no graph may have used it yet

    # What others ask.

    def grad_name(self) -> str:
        """The operator that computes the gradients."""
        return self.name + "_grad"

    def kernels(self) -> List[Kernel]:
        """The kernels of this op and of its gradient."""
        s, source = self.signature, self.code.path
        attrs = [a.name for a in s.attrs]
        apart: Dict[str, Any] = {"isolated": self.options.isolated, "timeout_s": self.options.timeout_s}
        run = self._out or self.function
        made = [
            Kernel(
                self.name,
                _with_rng(_spread(self.function, s)),
                tuple(a.name for a in s.inputs),
                _keywords_of(run, attrs),
                out=_with_rng(_spread(self._out, s)) if self._out else None,
                infer=self._infer_specs if self._infer else None,
                make=self.make,
                source=source,
                outputs=tuple(y.name for y in s.outputs),
                **apart,
            )
        ]
        if self._gradient:
            g = self._gradient
            dxs, dys = self._grad_arguments()
            made.append(
                Kernel(
                    self.grad_name(),
                    _with_rng(_grad_results.in_a_row(g.function, self._differentiable(), dxs)),
                    tuple(dys.values()),
                    _keywords_of(g.function, list(g.needs) + attrs),
                    none_is_zero=True,
                    make=self.make_grad,
                    source=source,
                    outputs=tuple(dxs.values()),
                    optional=tuple(dxs[a.name] for a in self._differentiable() if a.optional),
                    **apart,
                )
            )
        return made

    def describe(self, running: bool = False) -> List[str]:
        """The ops of the manifest: this one, and that of its gradient. running: for this process, by number."""
        made = [self._forward(self._code(self.name, self.code, running))]
        if self._gradient:
            made.append(self._backward(self._code(self.grad_name(), self.grad_code(), running)))
        return made

    def grad_code(self) -> Code:
        """Where the numeric rule is."""
        assert self._gradient is not None
        return Code(self._gradient.function)

    def _code(self, op: str, code: Code, running: bool) -> str:
        return code.lines(f"live:{self._live[op]}" if running else code.content_hash)

    def _changed(self) -> "Operator":
        self._registered = False
        for kernel in self.kernels():
            kernels[kernel.op] = kernel
        return self

    def _differentiable(self) -> List[Argument]:
        return [a for a in self.signature.inputs if a.name not in self.options.aux and a.name not in self.options.no_grad]

    def _outputs_with_gradient(self) -> List[Argument]:
        return [y for y in self.signature.outputs if y.name not in self.options.non_differentiable]

    def _infer_specs(self, inputs: Dict[str, Any], attrs: Dict[str, Any]) -> Sequence[Any]:
        """Asks the rule, and keeps the answer for the manifest."""
        assert self._infer is not None
        arguments = []
        for a in self.signature.inputs:
            specs = inputs.get(a.name, [])
            arguments.append(specs if a.minimum is not None else specs[0] if specs else None)
        chosen = {n: attrs[n] for n in _keywords_of(self._infer, attrs) if n in attrs}
        answer = self._specs_in(_spread(self._infer, self.signature)(*arguments, **chosen))
        self._record(inputs, attrs, answer)
        return answer

    def _specs_in(self, answer: Any) -> List[Any]:
        """What the rule of shapes answers, as a list."""
        if answer is None and not self.signature.outputs:
            return []
        is_one = hasattr(answer, "dtype") or not isinstance(answer, Iterable)  # a Spec is a tuple, too
        specs = [answer] if is_one else list(answer)
        if all(hasattr(s, "shape") and hasattr(s, "dtype") for s in specs):
            return [Spec(s.shape, self._type_in(s.dtype, i)) for i, s in enumerate(specs)]
        wanted = ", ".join(y.name for y in self.signature.outputs) or "none"
        raise HostError(
            "OPC0923",
            f"the shape rule has returned {reprlib.repr(answer)}, expected an opc.Spec for each output: {wanted}",
            "return opc.Spec(shape, dtype): a shape alone says no element type",
        )

    def _type_in(self, kind: Any, at: int) -> DType:
        """The element type of a Spec, as every part of the package reads types."""
        try:
            return dtype(kind)
        except UsageError as error:
            output = f" of '{self.signature.outputs[at].name}'" if at < len(self.signature.outputs) else ""
            there = str(error.diagnostics[0]["message"]).split("; ", 1)[-1]
            raise HostError(
                "OPC0923",
                f"the shape rule says that the element type{output} is {reprlib.repr(kind)}, which is none of graphs; {there}",
                "types are opc's names, numpy's, or numpy's types",
            ) from None

    def _record(self, inputs: Dict[str, Any], attrs: Dict[str, Any], answer: Sequence[Any]) -> None:
        kinds = {a.name: a.type for a in self.signature.attrs}
        lines = [text.spec("input", s.shape, s.dtype) for a in self.signature.inputs for s in inputs.get(a.name, [])]
        lines += [
            f"attr {{ key: {text.quoted(n)} value {{ {text.attr_value(kinds[n], attrs[n])} }} }}" for n in sorted(attrs)
        ]
        open_ = [a for a in self.signature.inputs if a.optional or a.minimum is not None]
        if len(open_) > 1:  # the inputs in a row do not tell whose they are
            lines += [f"count: {len(inputs.get(a.name, []))}" for a in self.signature.inputs]
        key = "\n".join(lines)
        self._records[key] = lines + [text.spec("output", s.shape, s.dtype) for s in answer]

    # The manifest's messages.

    def _rules(self) -> List[str]:
        """One `infer` for each output; none when the rule is Python's."""
        if self._infer:
            return []
        o, s = self.options, self.signature
        made = []
        for y in s.outputs:
            fields = self._shape_rule(y.name)
            if o.dtype and y.name in o.dtype:
                fields += f" data_type: {text.type_name(o.dtype[y.name])}"
            made.append(f"infer {{ {fields} }}")
        return made

    def _shape_rule(self, output: str) -> str:
        o, s = self.options, self.signature
        like = o.like if isinstance(o.like, str) else (o.like or {}).get(output)
        if like:
            return f"like: {text.quoted(like)}"
        if o.shape and output in o.shape:
            return "is_formula: true" + "".join(f" dim: {text.quoted(str(d))}" for d in o.shape[output])
        names = list(o.broadcast)
        if not names and isinstance(o.sbp, _Elementwise):
            names = [a.name for a in s.inputs if not a.optional]
        if names:
            return " ".join(f"broadcast: {text.quoted(n)}" for n in names)
        raise TypeError(
            f"{self.name}: nothing says the shape of output '{output}': give like=, broadcast= or shape=, or a rule with "
            f"@{self.function.__name__}.infer"
        )

    def _forward(self, code: str) -> str:
        o, s = self.options, self.signature
        lines = [f"name: {text.quoted(self.name)}"]
        if self.__doc__:
            lines.append(f"doc: {text.quoted(inspect.cleandoc(self.__doc__))}")
        lines += [text.argument("input", a) for a in s.inputs]
        lines += [text.argument("output", a) for a in s.outputs]
        lines += [text.attribute(a.name, a.type, a.default) for a in s.attrs]
        lines += self._rules()
        lines += [text.block("recorded", r) for _, r in sorted(self._records.items())]
        lines += self._sharding()
        lines += self._gradient_lines()
        if o.side_effect or o.needs_rng or o.aux or not s.outputs:
            lines.append("pure: false")
        if self._infer and not s.outputs:
            lines.append("refuses_by_python: true")
        lines += [f"aux: {text.quoted(n)}" for n in o.aux]
        lines += [f"inplace {{ input: {text.quoted(x)} output: {text.quoted(y)} }}" for x, y in o.inplace.items()]
        lines += [f"non_differentiable: {text.quoted(n)}" for n in o.non_differentiable]
        lines += [f"no_grad: {text.quoted(n)}" for n in o.no_grad]
        lines += [text.block("case", self._case(c)) for c in self._cases()]
        return text.block("op", lines + [code] + self._isolation())

    def _isolation(self) -> List[str]:
        o = self.options
        return (["isolated: true"] if o.isolated else []) + ([f"timeout_s: {o.timeout_s!r}"] if o.timeout_s else [])

    def _sharding(self) -> List[str]:
        if isinstance(self.options.sbp, _Elementwise):
            return ["elementwise: true"]
        return [f"sharding: {text.quoted(self.options.sbp)}"] if self.options.sbp else []

    def _gradient_lines(self) -> List[str]:
        if self._no_gradient:
            return [f"no_gradient: {text.quoted(self._no_gradient)}"]
        if self._recorded_gradient is not None:
            return [text.block("gradient", self._recorded_gradient)]
        if not self._gradient:
            return []
        lines = [f"op: {text.quoted(self.grad_name())}"]
        for arg, of, what in self._gradient_inputs():
            lines.append(f"input {{ arg: {text.quoted(arg)} of: {text.quoted(of.name)} what: {text.quoted(what)} }}")
        for a in self._differentiable():
            given = ""
            if self._shape_of_gradient(a) is None:
                given = ' shape_attr: "{}" type_attr: "{}"'.format(*self._given_attrs(a))
            lines.append(f'output {{ arg: "{self._grad_arguments()[0][a.name]}" of: {text.quoted(a.name)}{given} }}')
        return [text.block("gradient", lines)]

    def _gradient_inputs(self) -> List[Tuple[str, Argument, str]]:
        assert self._gradient is not None
        dys = self._grad_arguments()[1]
        made = [(dys[y.name], y, "dy") for y in self._outputs_with_gradient()]
        for a in self.signature.inputs:
            if a.name in self._gradient.needs:
                made.append((a.name, a, "x"))
        for y in self.signature.outputs:
            if y.name in self._gradient.needs:
                made.append((y.name, y, "y"))
        return made

    def _shape_of_gradient(self, a: Argument) -> Optional[str]:
        """The input of the gradient's op that has the shape of `a`; None: an attribute must say it."""
        assert self._gradient is not None
        if a.name in self._gradient.needs:
            return a.name
        like = self.options.like
        for y in self._outputs_with_gradient():
            has_type = y.name not in (self.options.dtype or {})  # the input's, and so has its gradient
            if has_type and not self._infer and (like if isinstance(like, str) else (like or {}).get(y.name)) == a.name:
                return self._grad_arguments()[1][y.name]
        return None

    def _grad_arguments(self) -> Tuple[Dict[str, str], Dict[str, str]]:
        """What the gradient's op calls the gradients of the inputs, and those of the outputs: "dx" for "x", with "_" behind
        where the rule needs an argument of that name, or the op has such an attribute."""
        assert self._gradient is not None
        taken = [*self._gradient.needs, *(attr.name for attr in self.signature.attrs)]
        return _fresh([a.name for a in self._differentiable()], taken), _fresh([y.name for y in self._outputs_with_gradient()], taken)

    def _given_attrs(self, a: Argument) -> List[str]:
        """The attributes of the gradient's op that say the shape and type of the gradient of `a`."""
        names = _fresh([a.name + "_shape", a.name + "_type"], [attr.name for attr in self.signature.attrs])
        return list(names.values())

    def _backward(self, code: str) -> str:
        lines = [f"name: {text.quoted(self.grad_name())}"]
        lines.append(f"doc: {text.quoted('The gradients of ' + self.name + '.')}")
        for arg, of, _ in self._gradient_inputs():
            lines.append(text.argument("input", Argument(arg, of.optional, of.minimum)))
        rules, attrs = [], [(a.name, a.type, a.default) for a in self.signature.attrs]
        for a in self._differentiable():
            lines.append(text.argument("output", Argument(self._grad_arguments()[0][a.name], a.optional, a.minimum)))
            like = self._shape_of_gradient(a)
            if like:
                rules.append(f"infer {{ like: {text.quoted(like)} }}")
            else:
                shape, kind = self._given_attrs(a)
                rules.append(f'infer {{ shape_attr: "{shape}" type_attr: "{kind}" }}')
                attrs += [(shape, "shape", ()), (kind, "data_type", np.float32)]
        lines += [text.attribute(*a) for a in attrs] + rules
        if isinstance(self.options.sbp, _Elementwise) and not any("shape_attr" in r for r in rules):
            lines.append("elementwise: true")
        lines.append(f"gradient_of: {text.quoted(self.name)}")
        gradient = self._gradient
        if self.options.needs_rng or (gradient and "@position" in _keywords_of(gradient.function, [*gradient.needs, *(a.name for a in self.signature.attrs)])):
            lines.append("pure: false")
        return text.block("op", lines + [code] + self._isolation())

    def _cases(self) -> Sequence[Mapping[str, Any]]:
        if self.options.cases:
            return self.options.cases
        if self._infer or self.options.shape or any(a.default is inspect.Parameter.empty for a in self.signature.attrs):
            return ()
        return [{a.name: [(2, 3)] * max(1, a.minimum or 0) for a in self.signature.inputs if not a.optional}]

    def _case(self, case: Mapping[str, Any]) -> List[str]:
        lines = []
        kinds: Dict[str, Attribute] = {a.name: a for a in self.signature.attrs}
        for name, value in case.items():
            if name in kinds:
                lines.append(f"attr {{ key: {text.quoted(name)} value {{ {text.attr_value(kinds[name].type, value)} }} }}")
                continue
            for i, shape in enumerate(value if isinstance(value, list) else [value]):
                dims = "".join(f" dim: {int(d)}" for d in shape)
                lines.append(f"input {{ arg: {text.quoted(name)}{dims} index: {i} }}")
        return lines


def op(
    name: str,
    *,
    outputs: Optional[Sequence[str]] = None,
    optional: Sequence[str] = (),
    variadic: Optional[Mapping[str, int]] = None,
    isolation: Optional[str] = None,
    timeout_s: float = 0.0,
    **options: Any,
) -> Callable[[Function], Operator]:
    """Makes a function an operator of graphs (docs/python-ops.md).

    name: with a namespace, "demo::leaky_relu". outputs: their names (one is "y", or "z" where an input is "y"). optional: inputs that may be left out.
    variadic: inputs that are several tensors, and how many at least. isolation="process": the kernel runs in a process of
    its own; timeout_s: for one call of it. sbp: opc.elementwise, or a rule over axes, "m k, k n -> m n"; else tensors are
    whole on every device. Shapes: like="x", broadcast=("x", "y"), shape={"y": ("x[0]", 4)}, dtype={"y": "float32"}.
    aux: inputs that are variables and are written. inplace={"x": "y"}: y may take the memory of x. side_effect, needs_rng:
    not a function of its inputs alone. non_differentiable: outputs; no_grad: inputs. cases: samples for `opc verify`,
    {"x": (2, 3), "alpha": 0.5}.
    """
    check_name(name)
    known = [f.name for f in dataclasses.fields(Options) if f.name != "isolated"]
    for option in options:
        if option not in known:
            raise _definition.unknown_option(name, option, known + ["outputs", "optional", "variadic", "isolation"])
    if isolation not in (None, "process"):
        raise ValueError(f"{name}: isolation is None or 'process', not {isolation!r}")
    if timeout_s and not isolation:
        raise ValueError(f"{name}: timeout_s needs isolation='process': a kernel of this process cannot be stopped")

    many = {} if variadic is None else variadic
    _definition.check_signature(name, outputs, optional, many)

    def made(function: Function) -> Operator:
        signature = signature_of(function, name, outputs, optional, dict(many))
        given = Options(isolated=isolation is not None, timeout_s=timeout_s, **options)
        _definition.check(name, signature, given, optional, many)
        _definition.check_draws(name, _draws(function), given)
        return define(Operator(name, function, signature, given))

    return made


def define(operator: Operator) -> Operator:
    """Puts an operator into the table; one of that name is replaced for nodes made afterwards, with a warning."""
    old = operators.get(operator.name)
    if old and (old.code.path, old.code.qualified_name) != (operator.code.path, operator.code.qualified_name):
        where = f"{os.path.basename(old.code.path)}:{old.code.line}"
        warnings.warn(f"the operator {operator.name} of {where} is replaced for what is built from now on", stacklevel=3)
    operators[operator.name] = operator
    _op_names.defined.setdefault(_op_names.unnumbered(operator.name), []).append(operator)
    _follow_saves()
    return operator._changed()


def _follow_saves() -> None:
    """From the first definition on, a graph that is saved has its manifest beside it."""
    from . import _graph

    if text.write not in _graph._on_save:
        _graph._on_save.append(text.write)


def operator_of(op_type: str) -> Optional[Operator]:
    """The operator that a name of graphs belongs to: its own, or that of its gradient."""
    for name in (op_type, op_type[: -len("_grad")]) if op_type.endswith("_grad") else (op_type,):
        known = _op_names.in_graphs.get(name) or operators.get(name)
        if known is not None:
            return known
    return None


def name_in_graphs(name: str) -> str:
    """What new nodes of graphs call the operator of this name: the last definition counts."""
    operator = operators.get(name)
    if operator is None:
        return name
    operator.register()
    return operator.name


def used_in(graph: Any) -> List[str]:
    """Names of the Python operators that a graph's text has, with those that their gradients need."""
    names = graph.op_types() if hasattr(graph, "op_types") else _types_in(graph.text())
    known: Dict[str, Operator] = {}
    waiting = list(names)
    while waiting:
        operator = operator_of(waiting.pop())
        if operator and operator.name not in known:
            known[operator.name] = operator
            waiting += _types_in("\n".join(operator._recorded_gradient or ()))
    return sorted(known)


def _types_in(graph_text: str) -> List[str]:
    return re.findall(r'\bop(?:_type_name)?:\s*"([^"]+)"', graph_text)


def describe(names: Iterable[str]) -> List[str]:
    """The ops of a manifest."""
    chosen = [operator_of(n) for n in names]
    return [block for operator in chosen if operator for block in operator.describe()]


def know(graph_path: str, content: Any) -> Any:
    """Before a graph is read from a file: registers the operators of its manifest, as this process defines them, else as
    the manifest says. Runs nothing. Gives the graph with the names that they have in graphs of this process."""
    from . import _core

    manifest = text.path_beside(graph_path)
    if not os.path.isfile(manifest):
        return content
    with open(manifest, encoding="utf-8") as file:
        described = file.read()
    names: Dict[str, str] = {}
    for name, block in text.ops_of(described):
        of = re.search(r'^  gradient_of: "([^"\\]+)"$', block, re.MULTILINE)
        if of and of.group(1) in names:
            names[name] = names[of.group(1)] + "_grad"
            continue
        operator = _op_names.defined_as(name, block)
        if operator:
            operator.register()
            if operator.name in names.values():
                raise _op_names.unclear(name, _op_names.place_in(block), f"one definition for it and '{operator.name}'")
            names[name] = operator.name
        elif _op_names.of_files.get(name) != block:
            _core.register_python_ops(name, text.text_of([block]))
            _op_names.of_files[name] = block
    return _op_names.renamed(content, names, graph_path)
