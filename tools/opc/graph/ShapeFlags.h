// --shape: dimensions, and ranges of dimensions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Option.h"
#include "Pipeline.h"

#include <map>
#include <string>
#include <vector>

namespace opc::cli {

struct GivenShapes {
  std::map<std::string, std::vector<int64_t>> shapes; // by input name; of ranges the largest
  SizeRequest sizes;                                  // of dimensions that are ranges
};

/// `--shape`, repeated. `brief`: shown by -h.
Option shapeOption(std::vector<std::string> *to, bool takesRanges, bool brief);

/// "x=32,784", "x=1..64,784", "x=n:1..64,784" and then "y=n". Errors: OPC0003.
Result<GivenShapes> parseShapeFlags(const std::vector<std::string> &flags);
/// The same for commands that work on one shape. `why`: "gradients are made for one size".
Result<std::map<std::string, std::vector<int64_t>>> parseFixedShapes(const std::vector<std::string> &flags,
                                                                     const std::string &why);

} // namespace opc::cli
