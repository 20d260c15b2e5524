// The constants of a graph that a pipeline has, for what writes it in other formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Pipeline.h"

#include <map>
#include <string>

namespace opc {

/// By tensor, after the phase that was run: from the IR that the pipeline emits.
std::map<std::string, StoredTensor> graphConstants(Pipeline &pipeline, const Registry &registry);

} // namespace opc
