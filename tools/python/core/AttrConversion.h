// Attribute values from Python, by the type that an operator declares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <pybind11/pybind11.h>

namespace opc::python {

/// Errors: OPC0205 for a value that does not fit the attribute.
Result<AttrValue> attrFromPython(const user_op::AttrDef &attr, pybind11::handle value);
pybind11::object attrToPython(const AttrValue &value);

Shape shapeFromPython(pybind11::handle shape);
pybind11::tuple shapeToPython(const Shape &shape);
/// From opc's, numpy's or the graph files' name, or an object whose `name` or `__name__` is one of those.
DataType dataTypeFromPython(pybind11::handle type);

} // namespace opc::python
