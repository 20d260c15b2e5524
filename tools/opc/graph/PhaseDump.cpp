// The IR after each phase.
// SPDX-License-Identifier: Apache-2.0
#include "PhaseDump.h"

#include "Log.h"
#include "OutputFiles.h"

namespace opc::cli {

std::vector<Option> PhaseDump::options() {
  return {{"--dump", 0, "DIR", "write the IR after each phase: DIR/01-import.mlir, ...", &folder_, true},
          {"--dump-filter", 0, "REGEX", "of the phases of --dump, those whose names fit: 'sbp|boxing'", &filter_},
          {"--dump-changed", 0, "", "of the phases of --dump, those that have changed the IR", &changedAlone_}};
}

Status PhaseDump::open() {
  if (!isAsked())
    return filter_.empty() && !changedAlone_
               ? Status::ok()
               : usageError("--dump-filter and --dump-changed are for --dump", "--dump DIR");
  if (!filter_.empty()) {
    try {
      wanted_.emplace(filter_, std::regex::extended);
    } catch (const std::regex_error &e) {
      return usageError("--dump-filter takes a regular expression (POSIX, extended), not '" + filter_ + "'",
                        "'sbp|boxing' fits the names of two phases");
    }
  }
  return makeOutputDirectory(folder_);
}

void PhaseDump::write(Phase phase, const std::string &text) {
  const bool isSame = changedAlone_ && text == last_;
  if (changedAlone_) last_ = text;
  if (isSame || (wanted_ && !std::regex_search(phaseName(phase), *wanted_))) return;
  const std::string number = std::to_string(static_cast<int>(phase) + 1);
  const std::string name = (number.size() < 2 ? "0" : "") + number + "-" + phaseName(phase) + ".mlir";
  logDebug("dump " + name);
  if (Status s = writeFileAtomically(folder_ + "/" + name, text); !s && status_) status_ = s;
}

} // namespace opc::cli
