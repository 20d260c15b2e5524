"""What the decorator `opc.op` is given, checked where it stands: a mistake is an exception at the definition."""
# SPDX-License-Identifier: Apache-2.0
import difflib
import math
import numbers
import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, Sequence

from . import _manifest as text
from ._arrays import fits_float
from ._errors import UsageError
from ._schema import MISSING, Signature

Refuse = Callable[[str, str], Exception]


def refusal(name: str) -> Refuse:
    """Makes the exceptions of an operator: `raise refuse("sbp", "is ...")`."""
    return lambda argument, why: ValueError(f"{name}: {argument} {why}")


def names(refuse: Refuse, argument: str, value: Any) -> Sequence[str]:
    """A sequence of names."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise refuse(argument, f"is a sequence of names, such as {argument}=('x',), not {value!r}")
    listed = list(value)
    for n in listed:
        if not isinstance(n, str) or not n:
            raise refuse(argument, f"has {n!r}, which is no name")
    if len(set(listed)) != len(listed):
        raise refuse(argument, f"has a name twice: {', '.join(listed)}")
    return listed


def mapping(refuse: Refuse, argument: str, value: Any, example: str) -> Mapping[str, Any]:
    """A dict by names."""
    if not isinstance(value, Mapping) or not all(isinstance(n, str) for n in value):
        raise refuse(argument, f"is a dict by names, such as {argument}={example}, not {value!r}")
    return value


def known(refuse: Refuse, argument: str, used: Iterable[str], there: Sequence[str], what: str) -> None:
    """Names of what the operator has."""
    for n in used:
        if n not in there:
            near = difflib.get_close_matches(n, there, 1)
            raise refuse(argument, f"names '{n}', which is no {what}; there are {', '.join(there) or 'none'}" + (f"; did you mean '{near[0]}'?" if near else ""))


def unknown_option(name: str, option: str, there: Sequence[str]) -> TypeError:
    near = difflib.get_close_matches(option, there, 1)
    return TypeError(f"{name}: opc.op has no option '{option}'; " + (f"did you mean '{near[0]}'?" if near else f"it has {', '.join(sorted(there))}"))


def check_signature(name: str, outputs: Any, optional: Any, variadic: Any) -> None:
    """What the signature is made with, before it is made."""
    refuse = refusal(name)
    for n in names(refuse, "outputs", outputs if outputs is not None else ()):
        if not n.isidentifier():
            raise refuse("outputs", f"has {n!r}, which is no name")
    names(refuse, "optional", optional)
    for n, least in mapping(refuse, "variadic", variadic, '{"xs": 1}').items():
        if isinstance(least, bool) or not isinstance(least, numbers.Integral) or least < 0:
            raise refuse("variadic", f"says how many tensors '{n}' has at least: a number from 0, not {least!r}")


def check(name: str, s: Signature, o: Any, optional: Sequence[str], variadic: Mapping[str, int]) -> None:
    """All options against the signature. `o` are _op.Options."""
    refuse = refusal(name)
    inputs, outputs = [a.name for a in s.inputs], [a.name for a in s.outputs]
    for n in outputs:
        if n in inputs + [a.name for a in s.attrs]:
            raise refuse("outputs", f"has '{n}', which is an input or attribute, too")
    for argument, used, there, what in (
        ("optional", optional, inputs, "input"),
        ("variadic", variadic, inputs, "input"),
        ("aux", names(refuse, "aux", o.aux), inputs, "input"),
        ("like", _like(refuse, o.like, outputs), inputs, "input"),
        ("broadcast", names(refuse, "broadcast", o.broadcast), inputs, "input"),
        ("no_grad", names(refuse, "no_grad", o.no_grad), inputs, "input"),
        ("inplace", mapping(refuse, "inplace", o.inplace, '{"x": "y"}'), inputs, "input"),
        ("inplace", o.inplace.values(), outputs, "output"),
        ("shape", mapping(refuse, "shape", o.shape or {}, '{"y": ("x[0]", 4)}'), outputs, "output"),
        ("dtype", mapping(refuse, "dtype", o.dtype or {}, '{"y": "int64"}'), outputs, "output"),
        ("non_differentiable", names(refuse, "non_differentiable", o.non_differentiable), outputs, "output"),
    ):
        known(refuse, argument, used, there, what)
    for output, formulas in (o.shape or {}).items():
        _formulas(refuse, output, formulas, s)
    for output, dtype in (o.dtype or {}).items():
        try:
            text.type_name(dtype)
        except UsageError:
            raise refuse("dtype", f"of '{output}' is {dtype!r}, which is no element type") from None
    for option in ("side_effect", "needs_rng"):
        if not isinstance(getattr(o, option), bool):
            raise refuse(option, f"is True or False, not {getattr(o, option)!r}")
    for a in s.attrs:
        if a.default is not MISSING:
            value_of(refuse, "the default", a.name, a.type, a.default)
    _time_limit(refuse, o.timeout_s)
    _sharding(refuse, o.sbp, s)
    _cases(refuse, o.cases, s)


def check_draws(name: str, draws: bool, o: Any) -> None:
    """A kernel that gets other numbers in each step is no function of its inputs alone: of two such ops one would be dropped."""
    if draws and not (o.needs_rng or o.side_effect):
        raise refusal(name)("needs_rng", "must be True: the kernel takes random numbers (rng) or its place in the run (position)")


def _like(refuse: Refuse, like: Any, outputs: Sequence[str]) -> List[str]:
    if like is None or isinstance(like, str):
        return [like] if like else []
    known(refuse, "like", mapping(refuse, "like", like, '{"y": "x"}'), outputs, "output")
    return list(like.values())


def _formulas(refuse: Refuse, output: str, formulas: Any, s: Signature) -> None:
    """Sizes: numbers, sizes of inputs, integer attributes. The grammar is the manifest's affair."""
    if isinstance(formulas, (str, bytes)) or not isinstance(formulas, Iterable):
        raise refuse("shape", f"of '{output}' is a sequence of sizes, such as ('x[0]', 4), not {formulas!r}")
    attrs = {a.name for a in s.attrs if a.type in ("int32", "int64")}
    for size in formulas:
        if isinstance(size, bool) or not isinstance(size, (str, numbers.Integral)):
            raise refuse("shape", f"of '{output}' has {size!r}, which is neither a number nor a formula")
        for word, bracket in re.findall(r"([A-Za-z_]\w*)\s*(\[?)", str(size)):
            if not (s.input(word) if bracket else word in attrs):
                what = "input" if bracket else "integer attribute"
                raise refuse("shape", f"of '{output}' names '{word}' in '{size}', which is no {what}: sizes of inputs are written x[0]")


def _time_limit(refuse: Refuse, seconds: Any) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, numbers.Real) or not 0 <= float(seconds) < math.inf:
        raise refuse("timeout_s", f"is a number of seconds from 0 (no limit), not {seconds!r}")


def _sharding(refuse: Refuse, rule: Any, s: Signature) -> None:
    """"m k, k n -> m n": a term for each argument, of names, "c*", ".", ".." and one "...", "+" or "?" in front (docs/sbp.md#sharding-rules)."""
    from ._op import elementwise

    if rule is None or rule is elementwise:
        return
    if not isinstance(rule, str):
        raise refuse("sbp", f"is opc.elementwise or a rule such as 'm k, k n -> m n', not {rule!r}")
    first, colon, terms_text = rule.partition(":")
    sides = (terms_text if colon else rule).split("->")
    if len(sides) != 2:
        raise refuse("sbp", f"is '{rule}', which has {len(sides) - 1} arrows: a rule is 'm k, k n -> m n'")
    before: Dict[str, None] = {}
    for side, arguments, what in ((sides[0], s.inputs, "input"), (sides[1], s.outputs, "output")):
        terms = [re.sub(r"^\s*[+?](?=\s)", "", t).split() for t in side.split(",")] if side.strip() else []
        if len(terms) > len(arguments):
            raise refuse("sbp", f"is '{rule}', which has {len(terms)} terms for {len(arguments)} {what}s")
        for term in terms:
            for factor in term:
                if factor not in (".", "..", "...") and not factor.removesuffix("*").isidentifier():
                    raise refuse("sbp", f"is '{rule}', and '{factor}' is no name of an axis: blanks part axes, commas tensors")
            factors = [f.removesuffix("*") for f in term if f not in (".", "..")]
            if len(set(factors)) != len(factors):
                raise refuse("sbp", f"is '{rule}', which names an axis twice in '{' '.join(term)}'")
            if what == "output":
                known(refuse, "sbp", [f for f in factors if f != "..."], list(before), "axis of an input")
            before.update((f, None) for f in factors if f != "...")
    if colon:
        known(refuse, "sbp", first.split(), list(before), "axis of the rule")


def _cases(refuse: Refuse, cases: Any, s: Signature) -> None:
    """Samples for `opc verify`."""
    if isinstance(cases, (str, bytes, Mapping)) or not isinstance(cases, Iterable):
        raise refuse("cases", f"is a sequence of dicts, such as [{{'x': (2, 3)}}], not {cases!r}")
    attrs = {a.name: a for a in s.attrs}
    for case in cases:
        mapping(refuse, "cases", case, "[{'x': (2, 3)}]")
        known(refuse, "cases", case, [a.name for a in s.inputs] + list(attrs), "input or attribute")
        for a in s.inputs:
            if a.name not in case:
                if not a.optional:
                    raise refuse("cases", f"has a case without a shape for the input '{a.name}': {dict(case)!r}")
                continue
            shapes = case[a.name] if isinstance(case[a.name], list) else [case[a.name]]
            if a.minimum is None and len(shapes) != 1 or len(shapes) < (a.minimum or 0):
                raise refuse("cases", f"has {len(shapes)} shapes for the input '{a.name}': a list has one for each of several tensors")
            for shape in shapes:
                if not isinstance(shape, tuple) or any(isinstance(d, bool) or not isinstance(d, numbers.Integral) or d < 0 for d in shape):
                    raise refuse("cases", f"has {shape!r} for the input '{a.name}', which is no shape: a tuple such as (2, 3)")
        for attr in s.attrs:
            if attr.name not in case and attr.default is MISSING:
                raise refuse("cases", f"has a case without the attribute '{attr.name}', which has no default: {dict(case)!r}")
            if attr.name in case:
                value_of(refuse, "cases", attr.name, attr.type, case[attr.name])


def value_of(refuse: Refuse, argument: str, attr: str, kind: str, value: Any) -> None:
    """Refuses what is no value of an attribute's type."""
    items = value if kind.startswith("list_") or kind == "shape" else [value]
    one = {"list_int64": "int64", "list_int32": "int32", "shape": "int64", "list_float": "float", "list_string": "string", "list_data_type": "data_type"}.get(kind, kind)
    fits: Dict[str, Callable[[Any], bool]] = {
        "int32": lambda v: isinstance(v, numbers.Integral) and not isinstance(v, bool) and -(2**31) <= int(v) < 2**31,
        "int64": lambda v: isinstance(v, numbers.Integral) and not isinstance(v, bool) and -(2**63) <= int(v) < 2**63,
        "float": lambda v: isinstance(v, numbers.Real) and not isinstance(v, bool) and fits_float(v, "f32"),
        "double": lambda v: isinstance(v, numbers.Real) and not isinstance(v, bool),
        "bool": lambda v: isinstance(v, bool),
        "string": lambda v: isinstance(v, str),
        "data_type": _is_type,
    }
    is_list = not isinstance(items, (str, bytes)) and isinstance(items, Iterable)
    if not is_list or not all(fits.get(one, lambda v: True)(v) for v in items):
        wanted = (kind.replace("_", " of ", 1) if kind.startswith("list_") else kind) + (" and holds numbers of f32" if one == "float" else "")
        raise refuse(argument, f"has {value!r} for the attribute '{attr}', which is {wanted}")


def _is_type(value: Any) -> bool:
    try:
        return bool(text.type_name(value))
    except UsageError:
        return False
