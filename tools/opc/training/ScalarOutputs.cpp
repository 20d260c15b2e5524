// The outputs of one element.
// SPDX-License-Identifier: Apache-2.0
#include "ScalarOutputs.h"

#include "TextParts.h"

#include "opc/Convert.h"
#include "opc/Dispatch.h"

namespace opc::cli {

namespace {
/// The element types of numbers to watch.
using Watched = types::Numbers;
} // namespace

ScalarOutputs::ScalarOutputs(const Session &session) {
  for (const PortInfo &p : session.interface().outputs)
    if (p.desc.shape().elem_cnt() == 1 && contains<Watched>(p.desc.data_type())) outputs_.push_back(p);
}

std::vector<std::string> ScalarOutputs::names() const { return namesOf(outputs_); }

Result<std::vector<std::pair<std::string, double>>> ScalarOutputs::read(const Session &session) const {
  std::vector<std::pair<std::string, double>> values;
  for (const PortInfo &p : outputs_) {
    HostTensor copy;
    const void *data = session.outputData(p.name);
    if (!data) { // why not
      OPC_ASSIGN_OR_RETURN(copy, session.fetch(p.name));
      data = copy.data();
    }
    visit<Watched>(p.desc.data_type(), [&](auto tag) {
      values.push_back(
          {p.name, static_cast<double>(numberOf(*static_cast<const typename decltype(tag)::type *>(data)))});
    });
  }
  return values;
}

} // namespace opc::cli
