// The values that a plan has for variables, on their way into a session.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FileBytes.h"
#include "OutsideValues.h"
#include "opc/Status.h"
#include "plan.pb.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

namespace opc::runtime {

/// Those of the file that `bytes` are mapped from, if any.
inline std::shared_ptr<ValuePages> pagesOfMapping(std::string_view bytes) {
  return mappedFileAt(bytes.data()) ? std::make_shared<ValuePages>(bytes) : std::make_shared<ValuePages>();
}

/// Another value would be undefined behaviour in a kernel.
inline void makeBools(char *bytes, size_t size) {
  std::for_each(bytes, bytes + size, [](char &c) { c = c != 0; });
}

/// give(name, value) for the values that the plan has for variables; frees those of the message.
template <class Give> Status giveValues(plan::Plan &plan, const OutsideValues &outside, Give give) {
  const auto inMemory = std::make_shared<ValuePages>();
  for (int p = 0; p < std::max(1, plan.part_size()); ++p) {
    plan::Plan &part = plan.part_size() ? *plan.mutable_part(p) : plan;
    for (plan::Interface::Variable &v : *part.mutable_interface()->mutable_variable()) {
      if (!v.has_data()) continue;
      const auto found = outside.find(&v);
      OPC_RETURN_IF_ERROR(give(v.name(), found == outside.end() ? OutsideValue{v.data(), inMemory} : found->second));
      std::string().swap(*v.mutable_data());
    }
  }
  return Status::ok();
}

} // namespace opc::runtime
