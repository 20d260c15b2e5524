"""`user_op_builder`: an op of any type, named argument by argument."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Dict, List, Optional, Sequence

import opc
from opc._graph import add_op

from ._python_op import graph_name, prepare


def user_op_builder(name: Optional[str] = None) -> "UserOpConfBuilder":
    """Describes the op of that name, one in a job."""
    return UserOpConfBuilder(name)


class UserOpConfBuilder:
    """What the op is to have. Each call gives the builder again; Build() the op."""

    def __init__(self, name: Optional[str]) -> None:
        self._name = name
        self._type: Optional[str] = None
        self._inputs: Dict[str, Sequence[opc.Tensor]] = {}
        self._outputs: Dict[str, int] = {}
        self._attrs: Dict[str, Any] = {}

    def Op(self, op_type_name: str) -> "UserOpConfBuilder":
        self._type = op_type_name
        return self

    def Input(self, input_name: str, input_blob_list: Sequence[opc.Tensor]) -> "UserOpConfBuilder":
        if isinstance(input_blob_list, opc.Tensor) or not isinstance(input_blob_list, (list, tuple)):
            raise TypeError(f'Input("{input_name}", ...) takes a list of tensors: write [{getattr(input_blob_list, "op_name", "x")}]')
        for tensor in input_blob_list:
            if not isinstance(tensor, opc.Tensor):
                raise TypeError(
                    f'Input("{input_name}", ...) of op \'{self._name or self._type}\': a {type(tensor).__name__} is no tensor of a job; '
                    "a value comes in by a parameter of the job, tp.Numpy.Placeholder, or an input of an opc.Graph"
                )
        self._inputs[input_name] = list(input_blob_list)
        return self

    def Output(self, output_name: str, num: int = 1) -> "UserOpConfBuilder":
        self._outputs[output_name] = num
        return self

    def Attr(self, attr_name: str, attr_value: Any, attr_type_name: Optional[str] = None) -> "UserOpConfBuilder":
        self._attrs[attr_name] = attr_value
        return self

    def Build(self) -> "UserOp":
        if self._type is None:
            raise ValueError(f"the op '{self._name or ''}' has no type: call .Op(op_type_name) before .Build()")
        return UserOp(self._type, self._name, self._inputs, self._outputs, self._attrs)


class UserOp:
    """The op; InferAndTryRun adds it to the job."""

    def __init__(self, type_name: str, name: Optional[str], inputs: Dict[str, Any], outputs: Dict[str, int], attrs: Dict[str, Any]) -> None:
        self._type, self._name, self._inputs, self._outputs, self._attrs = type_name, name, inputs, outputs, attrs
        self._made: Optional[List[opc.Tensor]] = None

    def InferAndTryRun(self) -> "UserOp":
        """Adds the op: arguments are checked, shapes and element types inferred."""
        prepare(self._type, self._inputs, self._attrs)
        type_name = graph_name(self._type)
        made = add_op(type_name, self._inputs, self._attrs, self._name, self._outputs)
        by_argument: Dict[str, List[opc.Tensor]] = {}
        for tensor in made:
            by_argument.setdefault(tensor.name.rsplit("/", 1)[1].rsplit("_", 1)[0], []).append(tensor)
        self._made = [t for name in self._outputs for t in by_argument.get(name, [])]
        return self

    def RemoteBlobList(self) -> List[opc.Tensor]:
        """The outputs, in the order in which the builder named them."""
        if self._made is None:
            raise RuntimeError(f"call InferAndTryRun() of op '{self._name or self._type}' first")
        return list(self._made)

    def SoleOutputBlob(self) -> opc.Tensor:
        """The output of an op that has one."""
        made = self.RemoteBlobList()
        if len(made) != 1:
            raise ValueError(f"op '{self._name or self._type}' has {len(made)} outputs: take them of RemoteBlobList()")
        return made[0]
