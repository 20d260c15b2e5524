// The steps of a region by rows in stages: those over elements that follow each other may be machine code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RegionCode.h"
#include "RowAccess.h"

namespace opc {

struct RowStage {
  /// An operand of a step that comes from outside of the stage.
  struct Input {
    uint32_t value;
    RowRead read;
    size_t step, operand;
  };
  size_t begin = 0, end = 0;     // steps of the region
  std::unique_ptr<Region> part;  // as a region over elements; null for what goes by rows or by an element of each
  std::vector<Input> inputs;     // those of `part`
  std::vector<uint32_t> outputs; // those of `part`, as values of the region
  bool byRow = false;            // one of the inputs is an element of each row
  int64_t work = 0;              // for an element, in additions or about that
  std::unique_ptr<RegionCodeChoice> code;
};

/// `compiler`: null where there is to be no code.
std::vector<RowStage> stagesOf(const Region &region, const RowAccess &access,
                               const std::shared_ptr<RegionCompiler> &compiler);

/// The regions over elements for which code is made: the region itself, or its stages.
std::vector<std::shared_ptr<const Region>> codeParts(std::shared_ptr<const Region> region);

} // namespace opc
