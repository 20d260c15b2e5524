// Gradients of ops whose work is graphs of their own (if, loop): ops with graphs, too.
// SPDX-License-Identifier: Apache-2.0
#include "ControlGradients.h"
#include "AttrBridge.h"
#include "ControlOp.h"
#include "EmitStatus.h"
#include "GradientFlow.h"
#include "Locations.h"

#include <algorithm>

using namespace mlir;

namespace opc {
namespace {

using user_op::ArgBinding;
using user_op::OpConf;
using Numbers = std::vector<size_t>;

/// Adds an op with graphs; its results, or nothing after an error.
FailureOr<ir::UserOp> addControl(const ControlHost &host, ir::UserOp origin, OpConf conf, size_t outputs) {
  conf.outputs = {ArgBinding{"out", std::vector<std::string>(outputs)}};
  ir::UserOp made;
  if (Status s = host.build.addOp(&conf, origin, &made); !s.isOk()) return emitStatus(origin, s), failure();
  return made;
}

/// An op of one output beside the gradient.
FailureOr<Value> addOne(const ControlHost &host, ir::UserOp origin, OpConf conf) {
  auto made = host.build.add(std::move(conf), origin);
  if (!made) return emitStatus(origin, made.status()), failure();
  return *made;
}

FailureOr<Value> addConstant(const ControlHost &host, ir::UserOp origin, const user_op::TensorDesc &desc,
                             int64_t integer) {
  OpConf conf{ir::opName(origin) + "_grad_constant", "constant", {}, {}, {}};
  const bool isFloating = IsFloatingDataType(desc.data_type());
  conf.attrs["dtype"] = AttrValue(desc.data_type());
  conf.attrs["shape"] = AttrValue(desc.shape());
  conf.attrs["floating_value"] = AttrValue(static_cast<double>(integer));
  conf.attrs["integer_value"] = AttrValue(integer);
  conf.attrs["is_floating_value"] = AttrValue(isFloating);
  return addOne(host, origin, std::move(conf));
}

void describeAll(const std::vector<user_op::TensorDesc> &descs, const char *dtypes, const char *shapes, OpConf *conf) {
  std::vector<DataType> types;
  std::vector<Shape> dims;
  for (const auto &d : descs) types.push_back(d.data_type()), dims.push_back(d.shape());
  conf->attrs[dtypes] = AttrValue(types);
  conf->attrs[shapes] = AttrValue(dims);
}

// if ----------------------------------------------------------------------------------------------------------------

struct Branch {
  OpGraph graph;
  std::vector<Value> gradients; // by wanted operand; null: it does not depend on that one
};

class IfRule {
public:
  IfRule(ir::UserOp op, const ControlHost &host) : op_(op), host_(host) {}

  LogicalResult run() {
    for (unsigned k = 0; k < op_.getOuts().size(); ++k)
      if (host_.gradientOf(op_.getOuts()[k])) seeded_.push_back(k);
    for (unsigned j = 1; j < op_.getArgs().size(); ++j)
      if (host_.wants(j)) wanted_.push_back(j - 1);
    for (const std::string &attribute : controlGraphs(ControlKind::kIf)) {
      auto graph = OpGraph::read(op_, attribute, host_.build.registry(), *host_.graphs.texts);
      if (!graph) return failure();
      auto gradients = graph->differentiate(seeded_, wanted_);
      if (failed(gradients)) return failure();
      branches_.push_back({std::move(*graph), std::move(*gradients)});
    }
    return settle();
  }

private:
  LogicalResult settle() {
    Numbers given; // of wanted_
    for (size_t i = 0; i < wanted_.size(); ++i)
      if (llvm::any_of(branches_, [&](const Branch &b) { return static_cast<bool>(b.gradients[i]); }))
        given.push_back(i);
    if (given.empty()) return success();
    std::vector<user_op::TensorDesc> descs;
    for (size_t i : given) descs.push_back(ir::descOf(capture(wanted_[i])));
    for (Branch &b : branches_) {
      std::vector<Value> outputs;
      for (size_t i : given) {
        Value v = b.gradients[i] ? b.gradients[i] : b.graph.addZero(capture(wanted_[i]).getType());
        if (!v) return failure();
        outputs.push_back(v);
      }
      b.graph.setOutputs(outputs);
    }
    Numbers kept;
    OpConf conf{ir::opName(op_) + "_grad", op_.getOpType().str(), {}, {}, {}};
    conf.inputs = {bindTensor("cond", host_.build.nameOf(op_.getArgs()[0])), {"in", {}}};
    for (size_t j = 0; j < branches_[0].graph.inputs(); ++j) {
      if (llvm::none_of(branches_, [&](const Branch &b) { return b.graph.reads(j); })) continue;
      const size_t captures = op_.getArgs().size() - 1;
      kept.push_back(j);
      conf.inputs[1].tensors.push_back(
          host_.build.nameOf(j < captures ? capture(j) : host_.gradientOf(op_.getOuts()[seeded_[j - captures]])));
    }
    if (kept.empty()) conf.inputs.pop_back();
    for (auto [attribute, branch] : llvm::zip(controlGraphs(ControlKind::kIf), branches_)) {
      const std::string text = branch.graph.write(kept);
      if (text.empty()) return failure();
      conf.attrs[attribute] = AttrValue(text);
    }
    describeAll(descs, "dtypes", "shapes", &conf);
    auto made = addControl(host_, op_, std::move(conf), given.size());
    if (failed(made)) return failure();
    for (auto [k, i] : llvm::enumerate(given))
      if (host_.give(static_cast<unsigned>(wanted_[i] + 1), made->getOuts()[static_cast<unsigned>(k)]).failed())
        return failure();
    return success();
  }

  Value capture(size_t j) { return op_.getArgs()[static_cast<unsigned>(j + 1)]; }

  ir::UserOp op_;
  const ControlHost &host_;
  Numbers seeded_, wanted_; // outputs; inputs of the graphs
  std::vector<Branch> branches_;
};

// loop --------------------------------------------------------------------------------------------------------------

class LoopRule {
public:
  LoopRule(ir::UserOp op, const ControlHost &host)
      : op_(op), host_(host), parts_(loopParts(*ir::toInstance(op, *op.def()))) {}

  LogicalResult run() {
    auto graph = OpGraph::read(op_, graphAttr(), host_.build.registry(), *host_.graphs.texts);
    if (!graph) return failure();
    isEndless_ = knownInteger(graph->output(0), host_.build.registry()).value_or(0) != 0 &&
                 knownInteger(op_.getArgs()[LoopParts::kCondition], host_.build.registry()).value_or(0) != 0;
    choose(*graph);
    if (wanted_.empty() && states_.empty()) return success();
    Numbers seeded, asked = states_;
    for (size_t k : states_) seeded.push_back(k);
    for (size_t k : rows_) seeded.push_back(1 + parts_.states + k);
    asked.insert(asked.end(), wanted_.begin(), wanted_.end());
    auto gradients = graph->differentiate(seeded, asked);
    if (failed(gradients)) return failure();
    return makeTurn(*graph, std::move(*gradients));
  }

private:
  static std::string graphAttr() { return controlGraphs(ControlKind::kLoop)[0]; }
  // Input j of the graph and the op's operand; 0 is the turn's number.
  Value operand(size_t j) { return op_.getArgs()[static_cast<unsigned>(LoopParts::kFirst + j - 1)]; }
  bool isState(size_t j) const { return j >= 1 && j <= parts_.states; }
  bool isSequence(size_t j) const { return j > parts_.states && j <= parts_.states + parts_.sequences; }
  Value result(size_t output) { return op_.getOuts()[static_cast<unsigned>(output - 1)]; }

  /// Which states hand gradients on: those that depend on what is wanted and on which a result with a gradient depends,
  /// in this turn or through others.
  void choose(const OpGraph &graph) {
    llvm::SmallDenseSet<size_t> active, useful; // inputs of the graph; its outputs
    const auto values = [&](const llvm::SmallDenseSet<size_t> &numbers, bool areInputs) {
      SmallVector<Value> list;
      for (size_t i = 1; i < (areInputs ? graph.inputs() : 1 + op_.getOuts().size()); ++i)
        if (numbers.contains(i)) list.push_back(areInputs ? graph.input(i) : graph.output(i));
      return list;
    };
    llvm::SmallDenseSet<size_t> outputs;
    ControlDependences known;
    for (size_t i = 1; i <= op_.getOuts().size(); ++i) {
      outputs.insert(i);
      if (host_.gradientOf(result(i))) useful.insert(i);
    }
    for (size_t j = 1; j < graph.inputs(); ++j)
      if (host_.wants(static_cast<unsigned>(LoopParts::kFirst + j - 1))) active.insert(j);
    for (bool grows = true; grows;) {
      grows = false;
      const GradientFlow flow(graph.module(), values(outputs, false), values(active, true), host_.graphs.texts);
      for (size_t k = 1; k <= parts_.states; ++k)
        if (flow.carries(graph.output(k))) grows |= active.insert(k).second;
    }
    for (bool grows = true; grows;) {
      grows = false;
      const GradientFlow flow(graph.module(), values(useful, false), values(active, true), host_.graphs.texts);
      for (size_t k = 1; k <= parts_.states; ++k)
        if (active.contains(k) && flow.carries(graph.input(k))) grows |= useful.insert(k).second;
    }
    for (size_t k = 1; k <= parts_.states; ++k)
      if (active.contains(k) && useful.contains(k)) states_.push_back(k);
    for (size_t k = 0; k < parts_.rows; ++k)
      if (useful.contains(1 + parts_.states + k)) rows_.push_back(k);
    for (size_t j = 1 + parts_.states; j < graph.inputs(); ++j)
      if (active.contains(j)) wanted_.push_back(j);
  }

  /// The graph of a backward turn takes its number, the gradients of the states after it, sums of gradients over the
  /// turns, and then what it reads: states before the turn, elements of sequences and of gradients of rows, captures.
  LogicalResult makeTurn(OpGraph &graph, std::vector<Value> gradients) {
    const size_t dys = 1 + parts_.states + parts_.sequences + parts_.captures; // of states_, then rows_
    std::vector<Value> outputs{graph.addInteger({Shape(), kBool}, 1)}, sequences;
    for (size_t k = 0; k < states_.size(); ++k)
      outputs.push_back(gradients[k] ? gradients[k] : graph.addZero(operand(states_[k]).getType()));
    Numbers sums, summed, cut; // inputs of the graph: sums, and what they are of; sequences with a gradient
    for (auto [i, j] : llvm::enumerate(wanted_)) {
      Value g = gradients[states_.size() + i];
      if (!g) continue;
      if (isSequence(j)) {
        sequences.push_back(g);
        cut.push_back(j);
        continue;
      }
      sums.push_back(graph.addInput("sum" + std::to_string(j), g.getType()));
      summed.push_back(j);
      outputs.push_back(graph.addSum(graph.input(sums.back()), g));
    }
    outputs.insert(outputs.end(), sequences.begin(), sequences.end());
    if (llvm::is_contained(outputs, Value())) return failure();
    graph.setOutputs(outputs);

    Numbers kept, over, after, captured;
    for (size_t j = 1; j < dys; ++j)
      if (graph.reads(j)) (isState(j) ? kept : isSequence(j) ? over : captured).push_back(j);
    for (size_t k = 0; k < rows_.size(); ++k)
      if (graph.reads(dys + states_.size() + k)) after.push_back(k);
    auto states = statesOfTurns(kept);
    if (failed(states)) return failure();

    OpConf conf{ir::opName(op_) + "_grad", op_.getOpType().str(), {}, {}, {}};
    std::vector<Value> in;
    Numbers order{0};
    for (size_t k = 0; k < states_.size(); ++k) {
      Value dy = host_.gradientOf(result(states_[k]));
      if (!dy && failed(zero(operand(states_[k]), &dy))) return failure();
      in.push_back(dy), order.push_back(dys + k);
    }
    for (size_t k = 0; k < sums.size(); ++k) {
      Value none;
      if (failed(zero(operand(summed[k]), &none))) return failure();
      in.push_back(none), order.push_back(sums[k]);
    }
    for (size_t k = 0; k < kept.size(); ++k) in.push_back(states->rows[k]), order.push_back(kept[k]);
    for (size_t j : over) in.push_back(operand(j)), order.push_back(j);
    for (size_t k : after)
      in.push_back(host_.gradientOf(result(1 + parts_.states + rows_[k]))), order.push_back(dys + states_.size() + k);
    for (size_t j : captured) in.push_back(operand(j)), order.push_back(j);

    auto goes = addConstant(host_, op_, {Shape(), kBool}, 1);
    if (failed(goes)) return failure();
    const std::string text = graph.write(order);
    if (text.empty()) return failure();
    std::vector<user_op::TensorDesc> made;
    for (size_t j : cut) made.push_back(ir::descOf(operand(j)));
    describeAll(made, "row_dtypes", "row_shapes", &conf);
    conf.inputs = {bindTensor("turns", host_.build.nameOf(states->count)),
                   bindTensor("cond", host_.build.nameOf(*goes)),
                   {"in", {}}};
    for (Value v : in) conf.inputs[2].tensors.push_back(host_.build.nameOf(v));
    if (in.empty()) conf.inputs.pop_back();
    conf.attrs[graphAttr()] = AttrValue(text);
    conf.attrs["states"] = AttrValue(static_cast<int64_t>(states_.size() + sums.size()));
    conf.attrs["sequences"] = AttrValue(static_cast<int64_t>(kept.size() + over.size() + after.size()));
    conf.attrs["partial"] = AttrValue(true);
    conf.attrs["reverse"] = AttrValue(!parts_.isReverse);
    const size_t results = states_.size() + sums.size() + cut.size();
    if (results == 0) return success();
    auto loop = addControl(host_, op_, std::move(conf), results);
    if (failed(loop)) return failure();
    Numbers given = states_;
    given.insert(given.end(), summed.begin(), summed.end());
    given.insert(given.end(), cut.begin(), cut.end());
    for (auto [k, j] : llvm::enumerate(given)) {
      const auto number = static_cast<unsigned>(LoopParts::kFirst + j - 1);
      if (host_.wants(number) && host_.give(number, loop->getOuts()[static_cast<unsigned>(k)]).failed())
        return failure();
    }
    return success();
  }

  LogicalResult zero(Value like, Value *made) {
    auto constant = addConstant(host_, op_, ir::descOf(like), 0);
    if (failed(constant)) return failure();
    *made = *constant;
    return success();
  }

  struct Turns {
    Value count;             // how many the forward loop has made
    std::vector<Value> rows; // the states before each
  };

  LogicalResult refuse(const std::string &why, const std::string &help) {
    return emitFinding(op_.getLoc(), "OPC0511",
                       "op " + ir::opName(op_) + " (" + op_.getOpType().str() + ") has no gradient: " + why, help),
           failure();
  }

  /// What the backward turns read of the forward ones, by a twin of the loop where that must keep more than it does.
  FailureOr<Turns> statesOfTurns(const Numbers &kept) {
    Turns turns;
    const bool isFull = parts_.rows > 0 && !parts_.isPartial; // a run that makes fewer turns is an error
    if (isFull) {
      auto length = addConstant(host_, op_, {Shape(), kInt64}, parts_.length);
      if (failed(length)) return failure();
      turns.count = *length;
    } else if (isEndless_) {
      turns.count = op_.getArgs()[LoopParts::kTurns];
    } else if (parts_.isReverse) {
      return refuse("it goes backwards and may end before its turns are made", "turn what it goes over (flip) instead");
    }
    if (turns.count && kept.empty()) return turns;
    std::optional<int64_t> bound = knownInteger(op_.getArgs()[LoopParts::kTurns], host_.build.registry());
    if (parts_.length >= 0) bound = isFull ? parts_.length : std::min(bound.value_or(parts_.length), parts_.length);
    if (!bound || *bound > kMostKeptTurns)
      return refuse(bound ? "it would keep the states of " + std::to_string(*bound) + " turns"
                          : "it keeps the state of each turn, and nothing says how many turns there are at most",
                    "make the number of its turns known (--const of an ONNX model), or give the op the attribute most");
    return keepStates(kept, std::max<int64_t>(*bound, 0), std::move(turns));
  }

  FailureOr<Turns> keepStates(const Numbers &kept, int64_t bound, Turns turns) {
    const bool isCounted = !turns.count;
    auto twin = llvm::find_if(host_.graphs.twins, [&](const LoopTwin &t) {
      return t.loop == op_ && t.kept == kept && t.isCounted == isCounted;
    });
    ir::UserOp keeping; // a gradient of a gradient needs the same
    if (twin == host_.graphs.twins.end()) {
      auto made = makeTwin(kept, isCounted, bound);
      if (failed(made)) return failure();
      keeping = *made;
    } else {
      keeping = twin->keeping;
    }
    const auto first = static_cast<unsigned>(op_.getOuts().size());
    for (size_t k = 0; k < kept.size(); ++k) turns.rows.push_back(keeping.getOuts()[first + static_cast<unsigned>(k)]);
    if (!isCounted) return turns;
    // Ones of the turns that were made, and zeros.
    OpConf sum{ir::opName(op_) + "_grad_turns",
               "reduce_sum",
               {bindTensor("input_tensor", host_.build.nameOf(keeping.getOuts().back()))},
               {},
               {}};
    sum.attrs["axis"] = AttrValue(std::vector<int32_t>{0});
    sum.attrs["keepdims"] = AttrValue(false);
    auto count = addOne(host_, op_, std::move(sum));
    if (failed(count)) return failure();
    turns.count = *count;
    return turns;
  }

  /// The same loop with more rows: the states before each turn, and ones.
  FailureOr<ir::UserOp> makeTwin(const Numbers &kept, bool isCounted, int64_t bound) {
    auto graph = OpGraph::read(op_, graphAttr(), host_.build.registry(), *host_.graphs.texts);
    if (!graph) return failure();
    OpConf conf = ir::toOpConf(op_);
    conf.name += "_kept";
    for (ArgBinding &b : conf.inputs)
      for (auto [i, tensor] : llvm::enumerate(b.tensors))
        tensor = host_.build.nameOf(op_.input(b.name, static_cast<int32_t>(i)));
    std::vector<Value> outputs;
    std::vector<user_op::TensorDesc> rows;
    for (size_t k = 0; k <= op_.getOuts().size(); ++k) outputs.push_back(graph->output(k));
    for (size_t k = 0; k < parts_.rows; ++k) rows.push_back(ir::descOf(result(1 + parts_.states + k)));
    const auto keep = [&](Value v) {
      const user_op::TensorDesc desc = ir::descOf(v);
      DimVector dims = desc.shape().dim_vec();
      dims.insert(dims.begin(), bound);
      outputs.push_back(v);
      rows.push_back({Shape(dims), desc.data_type()});
    };
    for (size_t j : kept) keep(graph->input(j));
    if (isCounted) keep(graph->addInteger({Shape(), kInt64}, 1));
    graph->setOutputs(outputs);
    Numbers all(graph->inputs());
    for (size_t j = 0; j < all.size(); ++j) all[j] = j;
    const std::string text = graph->write(all);
    if (text.empty()) return failure();
    conf.attrs[graphAttr()] = AttrValue(text);
    describeAll(rows, "row_dtypes", "row_shapes", &conf);
    if (parts_.rows == 0) conf.attrs["partial"] = AttrValue(true);
    const ir::Role role = std::exchange(host_.build.role, op_.getRole());
    auto keeping = addControl(host_, op_, std::move(conf), parts_.states + rows.size());
    host_.build.role = role;
    if (failed(keeping)) return failure();
    (*keeping)->moveAfter(op_);
    host_.graphs.twins.push_back({op_, *keeping, kept, isCounted});
    return *keeping;
  }

  static constexpr int64_t kMostKeptTurns = int64_t{1} << 24;

  ir::UserOp op_;
  const ControlHost &host_;
  const LoopParts parts_;
  bool isEndless_ = false;         // nothing but the number of turns ends it
  Numbers states_, wanted_, rows_; // inputs of the graph; rows with a gradient
};

} // namespace

LogicalResult differentiateIf(ir::UserOp op, const ControlHost &host) { return IfRule(op, host).run(); }
LogicalResult differentiateLoop(ir::UserOp op, const ControlHost &host) { return LoopRule(op, host).run(); }

} // namespace opc
