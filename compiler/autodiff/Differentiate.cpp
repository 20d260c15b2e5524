// From a request to gradients in the graph.
// SPDX-License-Identifier: Apache-2.0
#include "Differentiate.h"
#include "AttrBridge.h"
#include "EmitStatus.h"
#include "GradientGeneration.h"
#include "Graph.h"
#include "GraphBuilder.h"
#include "Locations.h"
#include "OpGraph.h"
#include "OpcDialect.h"
#include "Passes.h"
#include "TrainingGraph.h"

using namespace mlir;

namespace opc {
namespace {

class Differentiation {
public:
  Differentiation(ModuleOp module, const Registry &registry, const GradientRequest &request,
                  std::vector<GraphGradient> *made, const GraphTexts *texts)
      : module_(module), registry_(registry), request_(request), builder_(module, registry), made_(made),
        graphs_{texts, {}} {}

  LogicalResult run() {
    if (findTensors().failed()) return failure();
    if (request_.lossesOnly)
      for (auto out : llvm::make_early_inc_range(graphBlock(module_).getOps<ir::OutputOp>())) out.erase();
    if (request_.lossOutputs)
      for (auto [i, loss] : llvm::enumerate(losses_)) builder_.addOutput("loss:" + std::to_string(i), loss);
    if (request_.lossesOnly) return success();
    auto first = firstOrder();
    if (failed(first)) return failure();
    builder_.refresh();
    if (allOrders(std::move(*first)).failed()) return failure();
    joinTwins(&graphs_);
    if (request_.backwardOnly) keepBackwardOnly(module_);
    return failure(failed_);
  }

private:
  LogicalResult findTensors() {
    for (const std::string &name : request_.losses)
      if (Value loss = findLoss(module_, name, request_.isOfGraph)) losses_.push_back(loss);
    auto wanted = findWanted(module_, request_.wrt);
    if (losses_.size() != request_.losses.size() || failed(wanted)) return failure();
    wanted_ = std::move(*wanted);
    if (request_.wrt.empty()) llvm::erase_if(wanted_, [&](const WantedGradient &w) { return isWritten(w.tensor); });
    return success();
  }

  FailureOr<Seeds> seeds() {
    Seeds seeds;
    if (request_.dyInputs)
      for (auto [i, loss] : llvm::enumerate(losses_))
        seeds.gradients.push_back(builder_.addInput(request_.losses[i] + ".dy", loss.getType()));
    if (request_.training)
      return scaledSeeds(module_, registry_, losses_, seeds.gradients, request_.training->lossScale);
    return seeds;
  }

  FailureOr<std::vector<GeneratedGradient>> firstOrder() {
    auto seeded = seeds();
    if (failed(seeded)) return failure();
    auto gradients = generateGradients(module_, registry_, losses_, wanted_, seeded->gradients, &graphs_);
    if (failed(gradients)) return failure();
    if (!request_.recompute.empty() && failed(recompute(module_, request_.recompute))) return failure();
    if (request_.training) {
      if (failed(addTraining(module_, registry_, *request_.training, *gradients, seeded->lossScale))) return failure();
      addLossOutputs();
    }
    return gradients;
  }

  /// What is trained is shown: a loss that is no output becomes one.
  void addLossOutputs() {
    GraphBuilder builder(module_, registry_);
    for (auto [i, loss] : llvm::enumerate(losses_)) {
      if (llvm::any_of(loss.getUsers(), [](Operation *user) { return isa<ir::OutputOp>(user); })) continue;
      std::string name = request_.losses[i];
      if (const size_t slash = name.rfind('/'); slash != std::string::npos) name.resize(slash);
      builder.addOutput(name == ir::opName(loss.getDefiningOp()) ? name + "_value" : name, loss);
    }
  }

  LogicalResult allOrders(std::vector<GeneratedGradient> level) {
    std::string suffix;
    for (int order = 1;; ++order) {
      suffix += ".grad";
      for (const GeneratedGradient &g : level) show(g, suffix, order);
      if (order >= request_.order) break;
      // The next order: each gradient's sum is a loss of its own, for its own tensor.
      std::vector<GeneratedGradient> next;
      for (const GeneratedGradient &g : level) {
        if (!g.gradient) continue;
        auto second = generateGradients(module_, registry_, {g.gradient}, {{g.name, g.tensor}}, {}, &graphs_);
        if (failed(second)) return failure();
        next.insert(next.end(), second->begin(), second->end());
      }
      builder_.refresh();
      level = std::move(next);
    }
    if (!reached_ && !level.empty())
      return emitFinding(module_.getLoc(), "OPC0505",
                         "no gradient of " + request_.losses[0] + " reaches anything that was asked for",
                         "opc grad --explain NAME shows where the path ends");
    return success();
  }

  void show(const GeneratedGradient &g, const std::string &suffix, int order) {
    GraphGradient fact;
    fact.name = g.name;
    fact.tensor = ir::tensorName(g.tensor);
    user_op::TensorDesc desc;
    ir::describe(g.tensor.getType(), &desc);
    fact.dtype = desc.data_type();
    fact.shape = desc.shape();
    if (g.gradient) {
      ++reached_;
      fact.gradient = ir::tensorName(g.gradient);
      if (!request_.training || !isa<ir::VariableOp>(g.tensor.getDefiningOp()))
        fact.output = builder_.addOutput(g.name + suffix, g.gradient);
    } else if (order == 1) {
      const bool exact = llvm::is_contained(request_.wrt, g.name);
      failed_ |= exact;
      emitFinding(module_.getLoc(), "OPC0505",
                  "the loss " + request_.losses[0] + " does not depend differentiably on " + g.name +
                      "; it gets no gradient",
                  "opc grad --explain " + g.name + " shows where the path ends",
                  exact ? DiagnosticSeverity::Error : DiagnosticSeverity::Warning);
    }
    made_->push_back(std::move(fact));
  }

  ModuleOp module_;
  const Registry &registry_;
  const GradientRequest &request_;
  GraphBuilder builder_;
  std::vector<GraphGradient> *made_;
  OpGraphs graphs_;
  SmallVector<Value> losses_;
  std::vector<WantedGradient> wanted_;
  size_t reached_ = 0;
  bool failed_ = false; // a tensor that was asked for by name gets no gradient
};

} // namespace

LogicalResult differentiate(ModuleOp module, const Registry &registry, const GradientRequest &request,
                            std::vector<GraphGradient> *made, const GraphTexts *texts) {
  return Differentiation(module, registry, request, made, texts).run();
}

#define GEN_PASS_DEF_ADDGRADIENTS
#include "Passes.h.inc"

namespace {
struct AddGradientsPass : impl::AddGradientsBase<AddGradientsPass> {
  using Base::Base;
  AddGradientsPass(const GradientRequest &request, std::vector<GraphGradient> *found,
                   std::shared_ptr<const GraphTexts> texts)
      : request(request), found(found), texts(std::move(texts)) {}
  void runOnGraph() override {
    std::vector<GraphGradient> gradients;
    if (differentiate(getOperation(), registryOf(&getContext()), request ? *request : asked(), &gradients, texts.get())
            .failed())
      signalPassFailure();
    made += static_cast<unsigned>(llvm::count_if(gradients, [](const auto &g) { return !g.gradient.empty(); }));
    if (found) *found = std::move(gradients);
  }
  GradientRequest asked() const {
    GradientRequest r;
    r.losses.assign(losses.begin(), losses.end());
    r.wrt.assign(wrt.begin(), wrt.end());
    r.order = order;
    r.backwardOnly = backwardOnly;
    r.dyInputs = dyInputs;
    r.recompute.segments = segments;
    if (rate > 0) {
      r.training.emplace().groups.emplace_back();
      r.training->groups[0].learningRate = rate;
    }
    return r;
  }
  std::optional<GradientRequest> request; // without one the options say it
  std::vector<GraphGradient> *found = nullptr;
  std::shared_ptr<const GraphTexts> texts; // shared: a pass can be cloned
};
} // namespace

std::unique_ptr<Pass> createAddGradients(const GradientRequest &request, std::vector<GraphGradient> *made,
                                         std::shared_ptr<const GraphTexts> texts) {
  return std::make_unique<AddGradientsPass>(request, made, std::move(texts));
}

} // namespace opc
