// Tensors of a model that its import has made part of ops, as graphs and plans keep them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"
#include "opc/Tensor.h"

#include "graph.pb.h"

#include <string>
#include <string_view>
#include <vector>

namespace opc {

graph::ModelNumber modelNumber(const std::string &name, const user_op::TensorDesc &desc, std::string_view bytes,
                               const std::string &reader);

/// Whether they have names of their own, types, and values of those. What a file says is not trusted. The status has
/// the code `id`.
Status checkModelNumbers(const std::vector<graph::ModelNumber> &numbers, const char *id);

/// Of one that has been checked.
user_op::TensorDesc descOf(const graph::ModelNumber &number);
bool hasValue(const graph::ModelNumber &number, std::string_view bytes);

} // namespace opc
