// --shape: dimensions, and ranges of dimensions.
// SPDX-License-Identifier: Apache-2.0
#include "ShapeFlags.h"

#include "NumberText.h"
#include "TensorSpec.h"
#include "TextParts.h"

#include <algorithm>
#include <cctype>

namespace opc::cli {

namespace {

Status shapeError(const std::string &flag, const std::string &message) {
  return Status(StatusCode::kUsage, "OPC0003", "--shape " + flag + ": " + message)
      .withHelp("dimensions are whole numbers or ranges of them, with commas between: x=32,784, x=1..64,784; a name "
                "before a range ties dimensions: x=n:1..64,784 y=n");
}

bool isName(const std::string &text) {
  const auto isLetter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  return !text.empty() && isLetter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return isLetter(c) || std::isdigit(static_cast<unsigned char>(c));
  });
}

/// One dimension as it is written.
struct Dimension {
  std::string name; // of its size; empty for a number
  std::optional<SizeRange> range;
  int64_t value = 0;
};

class ShapeReader {
public:
  Status read(const std::string &flag) {
    OPC_ASSIGN_OR_RETURN(auto named, splitNamed(flag, "--shape"));
    const auto &[input, text] = named;
    if (written_.count(input))
      return Status(StatusCode::kUsage, "OPC0003", "--shape is given twice for '" + input + "'");
    std::vector<Dimension> &dims = written_[input];
    if (text.find_first_not_of(" ") == std::string::npos) return Status::ok(); // a scalar
    size_t axis = 0;
    for (std::string part : splitAt(text, ',')) {
      part.erase(std::remove(part.begin(), part.end(), ' '), part.end());
      OPC_ASSIGN_OR_RETURN(Dimension d, dimension(flag, part, input + "." + std::to_string(axis++)));
      dims.push_back(std::move(d));
    }
    if (static_cast<int64_t>(dims.size()) > kMaxRank)
      return shapeError(flag, "rank " + std::to_string(dims.size()) + ", the largest is " + std::to_string(kMaxRank));
    return Status::ok();
  }

  /// Names are known when all flags have been read.
  Result<GivenShapes> resolve() {
    GivenShapes given;
    for (const auto &[input, dims] : written_) {
      std::vector<int64_t> &largest = given.shapes[input];
      std::vector<int> sizes;
      for (const Dimension &d : dims) {
        const auto range = d.name.empty() ? ranges_.end() : ranges_.find(d.name);
        if (!d.name.empty() && range == ranges_.end())
          return shapeError(input + "=...", "size " + d.name + " has no range anywhere");
        const bool isOpen = range != ranges_.end() && range->second.min < range->second.max;
        largest.push_back(d.name.empty() ? d.value : range->second.max);
        sizes.push_back(isOpen ? indexOf(range->second, &given.sizes) : -1);
      }
      if (std::any_of(sizes.begin(), sizes.end(), [](int s) { return s >= 0; }))
        given.sizes.dims[input] = std::move(sizes);
    }
    return given;
  }

private:
  Result<Dimension> dimension(const std::string &flag, const std::string &part, const std::string &ownName) {
    Dimension d;
    const size_t dots = part.find(".."), colon = part.find(':');
    if (dots == std::string::npos && isName(part)) return d.name = part, d;
    if (dots == std::string::npos) {
      const auto value = parseInteger<int64_t>(part);
      if (!value) return shapeError(flag, "'" + part + "' is no dimension");
      if (*value < 0) return shapeError(flag, "the dimension " + part + " is less than 0");
      return d.value = *value, d;
    }
    d.name = colon == std::string::npos ? ownName : part.substr(0, colon);
    const size_t begin = colon == std::string::npos ? 0 : colon + 1;
    if (colon != std::string::npos && !isName(d.name)) return shapeError(flag, "'" + d.name + "' is no name of a size");
    const auto min = parseInteger<int64_t>(part.substr(begin, dots - begin)),
               max = parseInteger<int64_t>(part.substr(dots + 2));
    if (!min || !max) return shapeError(flag, "'" + part + "' is no range");
    if (*min < 1 || *max < *min)
      return shapeError(flag, "the range " + part.substr(begin) + (*min < 1 ? " begins below 1" : " is empty"));
    const SizeRange range{d.name, *min, *max};
    auto [known, isNew] = ranges_.emplace(d.name, range);
    if (!isNew && (known->second.min != range.min || known->second.max != range.max))
      return shapeError(flag, "size " + d.name + " has another range elsewhere: " + std::to_string(known->second.min) +
                                  ".." + std::to_string(known->second.max));
    return d;
  }

  static int indexOf(const SizeRange &range, SizeRequest *request) {
    std::vector<SizeRange> &sizes = request->sizes;
    auto it = std::find_if(sizes.begin(), sizes.end(), [&](const SizeRange &s) { return s.name == range.name; });
    const auto index = static_cast<int>(it - sizes.begin());
    if (it == sizes.end()) sizes.push_back(range);
    return index;
  }

  std::map<std::string, std::vector<Dimension>> written_;
  std::map<std::string, SizeRange> ranges_;
};

} // namespace

Option shapeOption(std::vector<std::string> *to, bool takesRanges, bool brief) {
  return {"--shape",
          0,
          "NAME=DIMS",
          takesRanges ? "the shape of an input, in place of the graph's: x=32,784; x=1..64,784 for any size in a range "
                        "(repeatable)"
                      : "the shape of an input, in place of the graph's: x=32,784 (repeatable)",
          to,
          brief};
}

Result<GivenShapes> parseShapeFlags(const std::vector<std::string> &flags) {
  ShapeReader reader;
  for (const std::string &flag : flags) OPC_RETURN_IF_ERROR(reader.read(flag));
  return reader.resolve();
}

Result<std::map<std::string, std::vector<int64_t>>> parseFixedShapes(const std::vector<std::string> &flags,
                                                                     const std::string &why) {
  OPC_ASSIGN_OR_RETURN(GivenShapes given, parseShapeFlags(flags));
  if (given.sizes.empty()) return std::move(given.shapes);
  return usageError("--shape takes no ranges here: " + why, "give one size for " + given.sizes.dims.begin()->first);
}

} // namespace opc::cli
