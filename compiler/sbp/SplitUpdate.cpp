// Updates that need norms of their whole model, split.
// SPDX-License-Identifier: Apache-2.0
#include "SplitUpdate.h"
#include "Graph.h"
#include "GraphCosts.h"
#include "Locations.h"
#include "UserOpBuilder.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace opc {
namespace {

constexpr char kNorms[] = "norms";

/// The op that measures for an update, "" for other ops.
StringRef measurerOf(ir::UserOp op) {
  if (llvm::is_contained(op.getInputNames().getAsValueRange<StringAttr>(), StringRef(kNorms))) return "";
  return llvm::StringSwitch<StringRef>(op.getOpType())
      .Case("lamb_update", "lamb_norms")
      .Case("lars_update", "lars_norms")
      .Default("");
}

/// The two ops in place of one, and which operands of the update the first one reads.
struct Pair {
  OpInstance measurer, update;
  std::vector<unsigned> read;

  static std::optional<Pair> of(ir::UserOp op, const OpInstance &instance) {
    const StringRef type = measurerOf(op);
    MLIRContext *context = op->getContext();
    const user_op::OpDef *def =
        type.empty() ? nullptr
                     : context->getLoadedDialect<ir::OpcDialect>()->definition(StringAttr::get(context, type));
    if (!def) return std::nullopt;
    user_op::OpConf conf;
    conf.type = type.str();
    conf.name = instance.conf().name + "/" + kNorms;
    std::vector<unsigned> read;
    unsigned at = 0; // all arguments have one tensor
    for (const user_op::ArgBinding &b : instance.conf().inputs) {
      if (llvm::any_of(def->inputs, [&](const user_op::ArgDef &a) { return a.name == b.name; })) {
        conf.inputs.push_back(b);
        read.push_back(at);
      }
      at += static_cast<unsigned>(b.tensors.size());
    }
    for (const user_op::AttrDef &a : def->attrs)
      if (auto it = instance.conf().attrs.find(a.name); it != instance.conf().attrs.end()) conf.attrs.insert(*it);
    if (!completeOpConf(*def, &conf).isOk()) return std::nullopt;
    Pair pair{OpInstance(*def, std::move(conf)), instance, std::move(read)};
    for (size_t i = 0; i < pair.read.size(); ++i) pair.measurer.inputDescs()[i] = instance.inputDescs()[pair.read[i]];
    if (!pair.measurer.infer().isOk()) return std::nullopt;
    user_op::OpConf given = instance.conf();
    given.inputs.push_back({kNorms, {pair.measurer.conf().outputs[0].tensors[0]}});
    pair.update = OpInstance(instance.def(), std::move(given));
    pair.update.inputDescs() = instance.inputDescs();
    pair.update.inputDescs().push_back(pair.measurer.outputDescs()[0]);
    return pair.update.infer().isOk() ? std::optional(std::move(pair)) : std::nullopt;
  }

  /// The states of the norms as they are measured: addends where the model is split.
  static NdSbp measured(const std::vector<NdSbp> &states) {
    NdSbp norms(states[0].size(), SbpParallel::broadcast());
    for (size_t m = 0; m < norms.size(); ++m)
      if (states[0][m].has_split_parallel()) norms[m] = SbpParallel::partialSum();
    return norms;
  }
  std::vector<NdSbp> statesOfMeasurer(const std::vector<NdSbp> &states) const {
    std::vector<NdSbp> list;
    for (unsigned i : read) list.push_back(states[i]);
    list.push_back(measured(states));
    return list;
  }
};

double secondsOf(const Pair &pair, const std::vector<NdSbp> &states, const Placement &placement, const MeshLinks &links,
                 const DeviceSpeed &device) {
  OpInstance local = pair.measurer;
  for (size_t i = 0; i < pair.read.size(); ++i) {
    user_op::TensorDesc &d = local.inputDescs()[i];
    d = user_op::TensorDesc(localShape(d.shape(), states[pair.read[i]], placement.dims, 0), d.data_type());
  }
  double seconds = opSeconds(local, device);
  const user_op::TensorDesc &norms = local.outputDescs()[0];
  NdSbp from = Pair::measured(states);
  for (size_t m = 0; m < from.size(); ++m) {
    if (!from[m].has_partial_sum_parallel()) continue;
    NdSbp to = from;
    to[m] = SbpParallel::broadcast();
    const BoxingStep step{BoxingKind::kAllReduce, static_cast<int32_t>(m), from, to};
    seconds += boxingSeconds({step, norms.shape(), norms.data_type(), placement, placement}, links);
    from = std::move(to);
  }
  return seconds;
}

void expand(ir::UserOp op, const Pair &pair, const std::vector<NdSbp> &states) {
  OpBuilder builder(op);
  const auto make = [&](Location location, const OpInstance &instance, ValueRange operands, TypeRange results,
                        const std::vector<NdSbp> &list) {
    ir::UserOp made = ir::UserOpBuilder(builder, instance.conf(), operands, results).role(op.getRole()).make(location);
    for (NamedAttribute a : op->getDiscardableAttrs()) made->setAttr(a.getName(), a.getValue());
    made->setAttr(ir::kStatesAttr, stateList(builder.getContext(), list));
    return made;
  };
  SmallVector<Value> read, all(op.getArgs());
  for (unsigned i : pair.read) read.push_back(op.getArgs()[i]);
  const Type type = RankedTensorType::get({2}, builder.getF64Type());
  ir::UserOp measurer = make(ir::renamed(op.getLoc(), pair.measurer.conf().name), pair.measurer, read, type,
                             pair.statesOfMeasurer(states));
  all.push_back(measurer.getOuts()[0]);
  std::vector<NdSbp> given = states;
  given.push_back(NdSbp(states[0].size(), SbpParallel::broadcast()));
  make(op.getLoc(), pair.update, all, {}, given);
  op.erase();
}

} // namespace

std::vector<CompositeSignature> splitUpdateSignatures(ir::UserOp op, const OpInstance &instance,
                                                      const Placement &placement, const MeshLinks &links,
                                                      const DeviceSpeed &device) {
  std::vector<CompositeSignature> found;
  const std::optional<Pair> pair = Pair::of(op, instance);
  if (!pair) return found;
  auto signatures = ndSignaturesOf(pair->update, placement.dims);
  if (!signatures) return found;
  for (NdSignature &s : *signatures) {
    s.states.pop_back(); // of the norms, which are whole
    if (isBroadcast(s.states[0])) continue;
    const double seconds = secondsOf(*pair, s.states, placement, links, device);
    found.push_back({std::move(s), seconds});
  }
  return found;
}

void expandSplitUpdates(ModuleOp module) {
  GraphStates states;
  for (Operation &op : llvm::make_early_inc_range(graphBlock(module))) {
    auto user = dyn_cast<ir::UserOp>(op);
    if (!user || measurerOf(user).empty() || isBroadcast(states.of(user)[0])) continue;
    const std::vector<NdSbp> chosen = states.of(user);
    if (const auto pair = Pair::of(user, *ir::toInstance(user, *user.def()))) expand(user, *pair, chosen);
  }
}

} // namespace opc
