// Whether all ranks have the same plan.
// SPDX-License-Identifier: Apache-2.0
#include "PlanAgreement.h"

#include <cstdio>
#include <cstring>
#include <map>

namespace opc::runtime {

std::string rankListText(const std::vector<int64_t> &ranks) {
  std::string s;
  for (size_t i = 0; i < ranks.size();) {
    size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
    s += (s.empty() ? "" : ",") + std::to_string(ranks[i]);
    if (j > i) s += "-" + std::to_string(ranks[j]);
    i = j + 1;
  }
  return s;
}

Status checkAllHaveTheSame(Communicator &comm, const std::string &what, std::string_view bytes) {
  // FNV-1a with 64 bits, and the length: this is about mistakes, not about attacks.
  uint64_t digest[2] = {14695981039346656037ull, bytes.size()};
  for (const char c : bytes) digest[0] = (digest[0] ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  std::vector<char> all(static_cast<size_t>(comm.size()) * sizeof digest);
  OPC_RETURN_IF_ERROR(comm.allGatherBytes(digest, sizeof digest, all.data()));
  std::map<std::string, std::vector<int64_t>> holders;
  for (int64_t r = 0; r < comm.size(); ++r) {
    uint64_t theirs[2];
    std::memcpy(theirs, all.data() + static_cast<size_t>(r) * sizeof theirs, sizeof theirs);
    char text[64];
    std::snprintf(text, sizeof text, "%016llx (%llu bytes)", static_cast<unsigned long long>(theirs[0]),
                  static_cast<unsigned long long>(theirs[1]));
    holders[text].push_back(r);
  }
  if (holders.size() == 1) return Status::ok();
  std::string who;
  for (const auto &[text, ranks] : holders)
    who += std::string(who.empty() ? "" : ", ") + (ranks.size() == 1 ? "rank " : "ranks ") + rankListText(ranks) +
           (ranks.size() == 1 ? " has " : " have ") + text;
  return std::move(Status(StatusCode::kUsage, "OPC0723", "the ranks have different " + what + ": " + who))
      .withHelp("give every rank the same file and the same flags");
}

} // namespace opc::runtime
