// The sizes that a plan leaves open, and a graph for each that has been run.
// SPDX-License-Identifier: Apache-2.0
#include "FreeSizes.h"

#include "NativeImages.h"
#include "TextParts.h"

#include <algorithm>

namespace opc::runtime {
namespace {

user_op::TensorDesc descAt(const plan::Tensor &tensor, const SizeValues &sizes) {
  const std::vector<int64_t> dims = dimsAt(tensor, sizes);
  return {Shape(DimVector(dims.begin(), dims.end())), static_cast<DataType>(tensor.data_type())};
}

/// "f32[n,784]", or with its numbers where it does not depend on the sizes.
std::string wantedText(const PortInfo &port) {
  if (port.sizes.empty()) return port.desc.toString();
  return std::string(dataTypeName(port.desc.data_type())) + "[" + port.sizes + "]";
}

std::string givenText(const PortInfo &port, const Shape &shape) {
  return "input '" + port.name + "' is " + user_op::TensorDesc(shape, port.desc.data_type()).toString();
}

} // namespace

FreeSizes::FreeSizes(plan::Plan open, const JobPlan &job, const Registry &registry, int threads,
                     const SessionOptions &options, std::shared_ptr<NativeImages> native)
    : plan_(std::move(open)), job_(job), registry_(registry), threads_(threads), native_(std::move(native)),
      keepsVariables_(options.keepPackedVariables), kept_(options.keptSizes), wanted_(largestSizes(plan_)),
      now_(wanted_), given_(static_cast<size_t>(plan_.interface().input_size())) {}

plan::Plan FreeSizes::takeOut(plan::Plan *plan) {
  plan::Plan taken;
  if (!hasSizes(*plan)) return taken;
  *taken.mutable_size() = plan->size();
  *taken.mutable_tensor() = plan->tensor();
  fixSizes(plan, largestSizes(*plan));
  return taken;
}

void FreeSizes::putBack(const plan::Plan &taken, plan::Plan *plan) {
  *plan->mutable_size() = taken.size();
  *plan->mutable_tensor() = taken.tensor();
}

void FreeSizes::describe(SessionInterface *interface) const {
  for (const plan::Size &s : plan_.size()) interface->sizes.push_back({s.name(), s.min(), s.max()});
  const auto describePort = [&](const plan::Tensor &tensor, PortInfo *port) {
    port->sizes = sizeText(plan_, tensor);
    if (!port->sizes.empty()) port->smallest = descAt(tensor, smallestSizes(plan_)).shape();
  };
  for (size_t i = 0; i < interface->inputs.size(); ++i)
    describePort(tensorOf(plan_.interface().input(static_cast<int>(i))), &interface->inputs[i]);
  for (size_t i = 0; i < interface->outputs.size(); ++i)
    describePort(tensorOf(plan_.interface().output(static_cast<int>(i))), &interface->outputs[i]);
}

Status FreeSizes::misfit(size_t input, const Shape &shape, const SessionInterface &interface) const {
  std::string ranges;
  for (const plan::Size &s : plan_.size())
    ranges +=
        (ranges.empty() ? "" : ", ") + s.name() + " from " + std::to_string(s.min()) + " to " + std::to_string(s.max());
  const PortInfo &port = interface.inputs[input];
  return Status(StatusCode::kUsage, "OPC0704",
                givenText(port, shape) + ", expected " + wantedText(port) +
                    (port.sizes.empty() ? "" : " with " + ranges) + ": the shapes differ");
}

Status FreeSizes::outOfRange(size_t input, const Shape &shape, size_t size, const SessionInterface &interface) const {
  const plan::Size &s = plan_.size(static_cast<int>(size));
  const PortInfo &port = interface.inputs[input];
  return Status(StatusCode::kUsage, "OPC0704",
                givenText(port, shape) + ", expected " + wantedText(port) + " with " + s.name() + " from " +
                    std::to_string(s.min()) + " to " + std::to_string(s.max()))
      .withHelp("feed it in parts, or compile the graph for a larger range: opc compile --shape " + port.name + "=...");
}

Status FreeSizes::give(size_t input, const Shape &shape, SessionInterface *interface) {
  PortInfo &port = interface->inputs[input];
  if (given_[input] && port.desc.shape() == shape) return Status::ok(); // nothing new, and nothing allocated
  const plan::Tensor &tensor = tensorOf(plan_.interface().input(static_cast<int>(input)));
  Given sizes;
  if (!sizesOf(plan_, tensor, shape.dim_vec(), &sizes)) return misfit(input, shape, *interface);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (const plan::Size &s = plan_.size(static_cast<int>(i)); sizes[i] && (*sizes[i] < s.min() || *sizes[i] > s.max()))
      return outOfRange(input, shape, i, *interface);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i]) wanted_[i] = *sizes[i];
  given_[input] = std::move(sizes);
  for (size_t i = 0; i < given_.size(); ++i)
    if (i == input || !given_[i])
      interface->inputs[i].desc = descAt(tensorOf(plan_.interface().input(static_cast<int>(i))), wanted_);
  return Status::ok();
}

Status FreeSizes::disagreement(size_t size, size_t one, size_t other, const SessionInterface &interface) const {
  const plan::Size &s = plan_.size(static_cast<int>(size));
  const auto text = [&](size_t input) {
    const PortInfo &port = interface.inputs[input];
    return givenText(port, port.desc.shape()) + " (" + wantedText(port) + ")";
  };
  return Status(StatusCode::kUsage, "OPC0704", text(one) + " and " + text(other) + ": they disagree about " + s.name())
      .withHelp("give all inputs that share " + s.name() + " the same size, from " + std::to_string(s.min()) + " to " +
                std::to_string(s.max()));
}

Status FreeSizes::agree(const SessionInterface &interface) const {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    std::optional<size_t> first;
    for (size_t k = 0; k < given_.size(); ++k) {
      if (!given_[k] || !(*given_[k])[i]) continue;
      if (first && (*given_[*first])[i] != (*given_[k])[i]) return disagreement(i, *first, k, interface);
      if (!first) first = k;
    }
  }
  return Status::ok();
}

std::string FreeSizes::valuesText(const SizeValues &sizes) const {
  std::string text;
  for (size_t i = 0; i < sizes.size(); ++i)
    text += (i ? ", " : "") + plan_.size(static_cast<int>(i)).name() + " = " + std::to_string(sizes[i]);
  return text;
}

Result<std::unique_ptr<RankGraph>> FreeSizes::make(const RankGraph &sibling) const {
  plan::Plan fixed = plan_;
  fixSizes(&fixed, wanted_);
  if (native_) native_->beginOtherSizes(plan_);
  return RankGraph::load(fixed, job_, 0, registry_, threads_, {}, &sibling, native_);
}

Status FreeSizes::select(std::unique_ptr<RankGraph> *current, SessionInterface *interface, bool *isOther) {
  *isOther = false;
  OPC_RETURN_IF_ERROR(agree(*interface));
  if (wanted_ == now_) return Status::ok();
  if ((*current)->graph().hasReleased())
    return Status(StatusCode::kUsage, "OPC0617",
                  "the session cannot go from " + valuesText(now_) + " to " + valuesText(wanted_) +
                      ": kernels have packed the weights, and the session does not keep the originals")
        .withHelp("load the session with keepPackedVariables");
  auto known = std::find_if(others_.begin(), others_.end(), [&](const Kept &k) { return k.sizes == wanted_; });
  std::unique_ptr<RankGraph> next;
  if (known != others_.end()) {
    next = std::move(known->graph);
    others_.erase(known);
  } else {
    Result<std::unique_ptr<RankGraph>> made = make(**current);
    if (!made) return Status(made.status()).withContext("making the graph for " + valuesText(wanted_));
    next = std::move(*made);
    if (!keepsVariables_) next->graph().releasePacked();
  }
  next->graph().followOn((*current)->graph());
  others_.insert(others_.begin(), Kept{now_, std::move(*current)});
  if (others_.size() > kept_) others_.pop_back();
  *current = std::move(next);
  now_ = wanted_;
  *isOther = true;
  for (size_t i = 0; i < interface->outputs.size(); ++i)
    interface->outputs[i].desc = descAt(tensorOf(plan_.interface().output(static_cast<int>(i))), now_);
  return Status::ok();
}

bool FreeSizes::hasBound() const {
  return std::any_of(others_.begin(), others_.end(), [](const Kept &k) { return k.graph->graph().isBound(); });
}

void FreeSizes::markChanged(uint32_t reg) {
  for (const Kept &k : others_) k.graph->graph().markChanged(reg);
}

} // namespace opc::runtime
