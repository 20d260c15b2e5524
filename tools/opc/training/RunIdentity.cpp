// Notes of checkpoints on what a run was fed.
// SPDX-License-Identifier: Apache-2.0
#include "RunIdentity.h"

#include "PlanFile.h"

#include <cstdio>
#include <string_view>

namespace opc::cli {

static constexpr std::string_view kContent = "content of ";

std::string contentKey(const std::string &input) { return std::string(kContent) + input; }
bool isContentKey(const std::string &key) { return key.compare(0, kContent.size(), kContent) == 0; }

std::string contentOf(const user_op::TensorDesc &desc, const void *data) {
  constexpr size_t kWhole = size_t{1} << 30, kBlock = size_t{1} << 16, kBlocks = size_t{1} << 14;
  const std::string_view bytes(static_cast<const char *>(data),
                               static_cast<size_t>(desc.shape().elem_cnt()) * GetSizeOfDataType(desc.data_type()));
  uint64_t sum = 0;
  if (bytes.size() <= kWhole)
    sum = planChecksum(bytes);
  else
    for (size_t i = 0; i < kBlocks; ++i) {
      const size_t last = bytes.size() - kBlock; // where the last block begins
      const size_t begin = last / (kBlocks - 1) * i + last % (kBlocks - 1) * i / (kBlocks - 1);
      const uint64_t both[] = {sum, planChecksum(bytes.substr(begin, kBlock))};
      sum = planChecksum({reinterpret_cast<const char *>(both), sizeof both});
    }
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(sum));
  return desc.toString() + " " + digits;
}

Status checkSameRun(const std::string &path, const std::map<std::string, std::string> &notes,
                    const std::map<std::string, std::string> &mine) {
  for (const bool contents : {false, true}) // what the data is said to be comes before what is in it
    for (const auto &[key, value] : mine) {
      const auto it = notes.find(key);
      if (isContentKey(key) != contents || it == notes.end() || it->second == value) continue;
      if (key == kGraphKey) {
        std::string help =
            "resume with the graph that it was made with (--lr X for another learning rate); go on with this "
            "one all the same: --other-graph; or start a new run from its values with --weights ";
        return Status(StatusCode::kUsage, "OPC0712",
                      path + " is of a run of another graph: an op has other attributes, or there are other ops")
            .withHelp(help.append(path));
      }
      const std::string what =
          contents ? " is of a run with other values for input '" + key.substr(kContent.size()) + "': " + it->second +
                         ", here " + value
                   : " is of a run with " + key + " " + it->second + ", this one has " + key + " " + value;
      return Status(StatusCode::kUsage, "OPC0712", path + what)
          .withHelp("use the same data and flags, or start a new run from its values with --weights " + path);
    }
  return Status::ok();
}

} // namespace opc::cli
