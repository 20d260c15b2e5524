"""Writes ops.pyi: the functions of opc.ops for type checkers and editors. The build runs it: python3 -m opc._stubs FILE."""
# SPDX-License-Identifier: Apache-2.0
import sys
from typing import Any, Dict

from . import _core, ops

HEAD = '''"""Every operator as a function. Written by opc._stubs from the definitions."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple, Union

from ._dtypes import DTypeLike
from ._graph import Tensor

Tensors = Union[Tensor, Sequence[Tensor]]

def function(type_name: str) -> Callable[..., Any]: ...
def forget(type_name: str) -> None: ...
'''


def stub(definition: Dict[str, Any]) -> str:
    parameters = []
    for name, optional, variadic in ops.inputs_of(definition):
        kind = "Tensors" if variadic else "Tensor"
        parameters.append(f"{ops.python_name(name)}: " + (f"Optional[{kind}] = ..." if optional else kind))
    parameters.append("*")
    for name, kind, _, has_default in definition["attrs"]:
        parameters.append(f"{ops.python_name(name)}: {ops._ATTRS.get(kind, 'Any')}" + " = ..." * has_default)
    parameters += ["name: Optional[str] = ...", "outputs: Optional[Mapping[str, int]] = ..."]
    declared = definition["outputs"]
    single = len(declared) == 1 and declared[0][2] == 1 and not declared[0][3]
    return f"def {ops.python_name(definition['name'])}({', '.join(parameters)}) -> {'Tensor' if single else 'Tuple[Tensor, ...]'}: ...\n"


def text() -> str:
    return HEAD + "".join(stub(_core.describe_op(name)) for name in _core.op_names() if ":" not in name)


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write(text())
