// Outputs of which only a run knows how much there is.
// SPDX-License-Identifier: Apache-2.0
#include "OutputCuts.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace opc::runtime {
namespace {

constexpr const char *kBoundedOp = "bounded";

bool isBounding(const plan::Task &task) { return task.op_type() == kBoundedOp; }

/// One part's tensors and the tasks that make them.
class Makers {
public:
  explicit Makers(const plan::Plan &part) {
    for (const plan::Task &task : part.task()) {
      const std::vector<uint32_t> from = flat(task.input()), to = flat(task.output());
      for (size_t k = 0; k < to.size(); ++k) {
        if (task.has_boxing() && from.size() == to.size())
          moved_[to[k]] = from[k];
        else
          maker_[to[k]] = &task;
      }
    }
  }

  /// The tensor before it was moved between ranks.
  uint32_t source(uint32_t tensor) const {
    for (size_t k = 0; k <= moved_.size(); ++k) {
      const auto at = moved_.find(tensor);
      if (at == moved_.end()) break;
      tensor = at->second;
    }
    return tensor;
  }
  const plan::Task *bounding(uint32_t tensor) const {
    const auto at = maker_.find(source(tensor));
    return at != maker_.end() && isBounding(*at->second) ? at->second : nullptr;
  }

private:
  template <class Arguments> static std::vector<uint32_t> flat(const Arguments &list) {
    std::vector<uint32_t> all;
    for (const plan::Argument &a : list) all.insert(all.end(), a.tensor().begin(), a.tensor().end());
    return all;
  }
  std::unordered_map<uint32_t, uint32_t> moved_;
  std::unordered_map<uint32_t, const plan::Task *> maker_;
};

} // namespace

Result<std::vector<std::optional<OutputCut>>> outputCuts(const plan::Plan &plan, const JobPlan &job) {
  std::unordered_map<std::string, size_t> index;
  for (size_t i = 0; i < job.outputs.size(); ++i) index.emplace(job.outputs[i].name, i);
  std::vector<std::optional<OutputCut>> cuts(job.outputs.size());
  for (int p = 0; p < std::max(1, plan.part_size()); ++p) {
    const plan::Plan &part = plan.part_size() ? plan.part(p) : plan;
    const auto &tasks = part.task();
    if (std::none_of(tasks.begin(), tasks.end(), isBounding)) continue;
    const Makers makers(part);
    std::unordered_map<uint32_t, size_t> outputs; // by the tensor that they are
    for (const auto &port : part.interface().output())
      outputs.emplace(makers.source(port.tensor()), index.at(port.name()));
    for (const auto &port : part.interface().output()) {
      const plan::Task *task = makers.bounding(port.tensor());
      if (!task || task->input_size() != 2 || task->input(1).tensor_size() != 1 || task->attr_size() != 1) continue;
      const auto count = outputs.find(makers.source(task->input(1).tensor(0)));
      if (count == outputs.end()) continue;
      const size_t at = index.at(port.name());
      const int64_t axis = task->attr(0).value().at_int64();
      const Shape &shape = job.outputs[at].desc.shape();
      if (axis < 0 || axis >= shape.NumAxes() || job.outputs[count->second].desc.shape().elem_cnt() != 1) continue;
      if (job.microBatches > 1)
        return Status(StatusCode::kUnsupported, "OPC0210",
                      "output '" + port.name() +
                          "' has as much as a run finds, and micro-batches cannot be joined by it")
            .withHelp("compile the graph without --micro-batches");
      cuts[at] = OutputCut{count->second, axis};
    }
  }
  return cuts;
}

Result<HostTensor> cutTo(HostTensor whole, const HostTensor &count, int64_t axis, const std::string &name) {
  const int64_t n = count.dtype() == kInt32 ? *count.as<int32_t>() : *count.as<int64_t>();
  Shape shape = whole.shape();
  const int64_t most = shape.At(axis);
  if (n < 0 || n > most)
    return Status(StatusCode::kExecution, "OPC0613",
                  "output '" + name + "' has room for " + std::to_string(most) + " along axis " + std::to_string(axis) +
                      ", and its count is " + std::to_string(n));
  if (n == most) return whole;
  shape.Set(axis, n);
  OPC_ASSIGN_OR_RETURN(HostTensor cut, HostTensor::createUninitialized(whole.dtype(), shape));
  const auto element = static_cast<int64_t>(GetSizeOfDataType(whole.dtype()));
  const int64_t outer = shape.Count(0, axis), unit = shape.Count(axis + 1) * element;
  for (int64_t o = 0; o < outer && n * unit > 0; ++o)
    std::memcpy(cut.as<char>() + o * n * unit, whole.as<char>() + o * most * unit, static_cast<size_t>(n * unit));
  return cut;
}

} // namespace opc::runtime
