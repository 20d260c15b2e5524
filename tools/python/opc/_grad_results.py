"""Numeric gradient rules: what they are called with, and what they give for inputs that are several tensors, as kernels give
outputs: one after the other."""
# SPDX-License-Identifier: Apache-2.0
import functools
import inspect
from typing import Any, Callable, Dict, List, Mapping, Sequence

from ._errors import HostError
from ._schema import Argument

Function = Callable[..., Any]


def check_parameters(op: str, rule: Function, outputs: Sequence[str], without: Sequence[str], keywords: Sequence[str]) -> None:
    """Refuses a rule that cannot be called with the gradients of these outputs. without: the outputs that have none.
    keywords: the inputs, outputs and attributes that it gets by name."""
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):  # a builtin's, say
        return
    try:
        signature.bind(*outputs, **{k: k for k in keywords if k[0] != "@"}, **{k: k for k in ("rng", "position") if k in signature.parameters and k not in keywords})
    except TypeError as error:
        code = getattr(inspect.unwrap(rule), "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno}, in {code.co_name})" if code else ""
        gets = ", ".join("d" + y for y in outputs) or "nothing"
        none = f"; {' and '.join(without)}, non_differentiable, {'has' if len(without) == 1 else 'have'} none" if without else ""
        raise TypeError(
            f"{op}: the gradient rule {getattr(rule, '__name__', '')}{signature} cannot be called: {error}{where}; it gets a gradient for each output, by position: "
            f"{gets}{none}; what it needs of the op, and attributes, stand behind a '*'"
        ) from None


def in_a_row(rule: Function, inputs: Sequence[Argument], outputs: Mapping[str, str]) -> Function:
    """The rule, whose dicts become lists where an input is several tensors: {"xs": [dx0, dx1], "w": dw} is dx0, dx1, dw.
    `inputs` are those that have gradients. An array alone under "xs" is the gradient of each of them. outputs: what the
    gradient's op calls the gradient of each input; dicts become lists, too, where that is not "dx" for "x", or means two inputs."""
    if all(a.minimum is None and outputs[a.name] == "d" + a.name and "d" + a.name not in outputs for a in inputs):
        return rule

    @functools.wraps(rule)
    def flat(*args: Any, **kwargs: Any) -> Any:
        answer = rule(*args, **kwargs)
        return _values(answer, inputs, kwargs) if isinstance(answer, dict) else answer

    return flat


def _values(answer: Mapping[str, Any], inputs: Sequence[Argument], tensors: Mapping[str, Any]) -> List[Any]:
    """tensors: what the rule was called with, which has the inputs that are several (Operator.grad asks for them)."""
    names = [a.name for a in inputs]
    keys: Dict[str, str] = {n: "d" + n if "d" + n in answer and "d" + n not in names else n for n in names}
    unknown = [k for k in answer if k not in keys.values()]
    if unknown:
        raise HostError(
            "OPC0623",
            f"the gradient rule has returned a dict with '{unknown[0]}', which is no input that has a gradient",
            "the names are those of the inputs: " + ", ".join(keys),
        )
    made: List[Any] = []
    for a in inputs:
        value: Any = answer.get(keys[a.name])
        if a.minimum is None:
            made.append(value)
            continue
        is_list = isinstance(value, (list, tuple))
        count = len(tensors[a.name]) if a.name in tensors else len(value) if is_list else 1
        if is_list and count and len(value) != count:  # what stands for tensors that were left out does not matter
            found = "1 array" if len(value) == 1 else f"{len(value)} arrays"
            raise HostError(
                "OPC0623",
                f"the gradient of '{a.name}' is {found}, expected {count}: there are so many tensors",
                "return one for each tensor, in their order; None stands for zeros",
            )
        made += list(value)[:count] if is_list else [value] * count
    return made
