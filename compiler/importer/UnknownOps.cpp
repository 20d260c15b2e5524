// Ops of types that nobody registered, in parts of a graph that are not wanted.
// SPDX-License-Identifier: Apache-2.0
#include "UnknownOps.h"

#include "PluginOverrides.h"
#include "StateHints.h"

#include <string_view>
#include <unordered_map>

namespace opc {
namespace {

using graph::OperatorConf;

/// Who reads whom, by the names in the file alone: the ops' definitions may be unknown.
class NamedReads {
public:
  explicit NamedReads(const graph::DLNetConf &net) : reads_(static_cast<size_t>(net.op_size())) {
    for (int i = 0; i < net.op_size(); ++i) {
      owners_.emplace(net.op(i).name(), i);
      for (const auto &output : net.op(i).user_conf().output())
        for (const std::string &tensor : output.value().s()) owners_.emplace(tensor, i);
    }
    for (int i = 0; i < net.op_size(); ++i) readsOf(net.op(i), &reads_[static_cast<size_t>(i)]);
  }

  /// The op of this name, or the one that makes the tensor; -1: none.
  int owner(const std::string &name) const {
    for (const std::string &spelling : {name, withoutHints(name), name.substr(0, name.find('/'))})
      if (auto found = owners_.find(spelling); found != owners_.end()) return found->second;
    return -1;
  }

  /// Whether each op is among `from` or is read by one that is, at any distance.
  std::vector<bool> readBy(std::vector<int> from) const {
    std::vector<bool> reached(reads_.size());
    while (!from.empty()) {
      const int op = from.back();
      from.pop_back();
      if (op < 0 || reached[static_cast<size_t>(op)]) continue;
      reached[static_cast<size_t>(op)] = true;
      from.insert(from.end(), reads_[static_cast<size_t>(op)].begin(), reads_[static_cast<size_t>(op)].end());
    }
    return reached;
  }

  /// Whether each op is marked or reads one that is, at any distance.
  std::vector<bool> readersOf(std::vector<bool> marked) const {
    std::vector<std::vector<int>> readers(reads_.size());
    std::vector<int> open;
    for (size_t i = 0; i < reads_.size(); ++i) {
      if (marked[i]) open.push_back(static_cast<int>(i));
      for (int from : reads_[i])
        if (from >= 0) readers[static_cast<size_t>(from)].push_back(static_cast<int>(i));
    }
    while (!open.empty()) {
      const int op = open.back();
      open.pop_back();
      for (int reader : readers[static_cast<size_t>(op)])
        if (!marked[static_cast<size_t>(reader)]) marked[static_cast<size_t>(reader)] = true, open.push_back(reader);
    }
    return marked;
  }

private:
  void readsOf(const OperatorConf &conf, std::vector<int> *reads) const {
    for (const auto &input : conf.user_conf().input())
      for (const std::string &tensor : input.value().s()) reads->push_back(owner(tensor));
    if (conf.has_output_conf()) reads->push_back(owner(conf.output_conf().in()));
    if (conf.has_return_conf()) reads->push_back(owner(conf.return_conf().in()));
    for (const std::string &before : conf.ctrl_in_op_name()) reads->push_back(owner(before));
  }

  std::unordered_map<std::string, int> owners_;
  std::vector<std::vector<int>> reads_;
};

void eraseOps(GraphFile *file, const std::vector<bool> &gone) {
  auto *ops = file->job->mutable_net()->mutable_op();
  int kept = 0;
  for (int i = 0; i < ops->size(); ++i) {
    if (gone[static_cast<size_t>(i)]) continue;
    ops->SwapElements(kept, i);
    const auto from = static_cast<size_t>(i), to = static_cast<size_t>(kept++);
    if (from == to) continue;
    file->opRanges[to] = std::move(file->opRanges[from]);
    if (!file->opText.empty()) file->opText[to] = file->opText[from];
  }
  ops->DeleteSubrange(kept, ops->size() - kept);
  file->opRanges.resize(static_cast<size_t>(kept));
  if (!file->opText.empty()) file->opText.resize(static_cast<size_t>(kept));
}

} // namespace

void eraseUnwantedUnknown(GraphFile *file, const Registry &registry, const std::vector<std::string> &wanted) {
  const graph::DLNetConf &net = file->job->net();
  std::vector<bool> unknown(static_cast<size_t>(net.op_size()));
  bool any = false;
  for (int i = 0; i < net.op_size(); ++i)
    if (net.op(i).has_user_conf() && !findGraphOp(registry, net.op(i).user_conf().op_type_name()))
      unknown[static_cast<size_t>(i)] = any = true;
  if (!any || wanted.empty()) return;

  const NamedReads reads(net);
  std::vector<int> roots;
  for (const std::string &name : wanted) {
    roots.push_back(reads.owner(name));
    if (roots.back() < 0) return;
  }
  const std::vector<bool> needed = reads.readBy(std::move(roots));
  for (size_t i = 0; i < unknown.size(); ++i) unknown[i] = unknown[i] && !needed[i];
  eraseOps(file, reads.readersOf(std::move(unknown)));
}

} // namespace opc
