// Why a job of several ranks ends, as data: who speaks of it depends on whom it is about.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace opc {

struct RankReport {
  enum class Kind {
    kFailed, // a rank has met an error; it reports that itself
    kGone,   // a rank has ended without a word, or this process is to end
    kStuck,  // a rank makes no step
  };
  Kind kind = Kind::kFailed;
  int64_t rank = 0; // that it is about
  std::string id;   // "OPC0721"
  std::string message;
};

} // namespace opc
