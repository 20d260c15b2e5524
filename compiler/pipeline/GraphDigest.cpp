// What a graph file says is to be computed: whether two files compute the same.
// SPDX-License-Identifier: Apache-2.0
#include "GraphDigest.h"

#include "ControlOp.h"
#include "GraphFile.h"
#include "PlanFile.h"

#include <algorithm>
#include <cstdio>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

namespace opc {
namespace {

uint64_t digestOf(const google::protobuf::MessageLite &message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializePartialToCodedStream(&coded);
  }
  return planChecksum(bytes);
}

/// Entries of what is a map on the wire: a file may have them in any order.
template <class Entries> void sortByKey(Entries *entries) {
  std::stable_sort(entries->begin(), entries->end(), [](const auto &a, const auto &b) { return a.key() < b.key(); });
}

std::unique_ptr<GraphFile> fileOf(const std::string &bytes) {
  std::vector<Diagnostic> findings;
  return readGraphFile("", bytes, uint64_t{1} << 40, &findings);
}

std::string withoutPlaces(const std::string &text, int depth) {
  const std::unique_ptr<GraphFile> file = depth < kMostControlDepth ? fileOf(text) : nullptr;
  if (!file) return text;
  for (graph::OperatorConf &op : *file->job->mutable_net()->mutable_op()) {
    op.clear_loc();
    op.clear_place();
    if (!op.has_user_conf()) continue;
    const std::vector<std::string> graphs = controlGraphs(controlKind(op.user_conf().op_type_name()));
    for (auto &attr : *op.mutable_user_conf()->mutable_attr())
      if (std::find(graphs.begin(), graphs.end(), attr.key()) != graphs.end())
        attr.mutable_value()->set_at_string(withoutPlaces(attr.value().at_string(), depth + 1));
  }
  std::string plain;
  return google::protobuf::TextFormat::PrintToString(file->job->net(), &plain) ? plain : text;
}

} // namespace

std::optional<std::string> graphDigest(const std::string &bytes) {
  const std::unique_ptr<GraphFile> file = fileOf(bytes);
  if (!file) return std::nullopt;
  std::vector<uint64_t> sums;
  for (graph::OperatorConf &op : *file->job->mutable_net()->mutable_op()) {
    if (op.has_user_conf()) {
      sortByKey(op.mutable_user_conf()->mutable_attr());
      sortByKey(op.mutable_user_conf()->mutable_input());
      sortByKey(op.mutable_user_conf()->mutable_output());
    }
    // Where it comes from, and what a compiler has noted.
    op.clear_loc();
    op.clear_place();
    op.clear_scope_symbol_id();
    op.clear_pass_tag();
    op.clear_logical_chain_id();
    op.clear_order_in_logical_chain();
    op.clear_calculation_pass_name();
    sums.push_back(digestOf(op));
  }
  std::sort(sums.begin(), sums.end());
  file->job->clear_net(); // its numbers are in its ops
  if (file->job->has_job_conf()) file->job->mutable_job_conf()->clear_job_name();
  sums.push_back(digestOf(*file->job));
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(
                    planChecksum({reinterpret_cast<const char *>(sums.data()), sums.size() * sizeof(uint64_t)})));
  return std::string(digits);
}

std::string graphWithoutPlaces(const std::string &text) { return withoutPlaces(text, 0); }

} // namespace opc
