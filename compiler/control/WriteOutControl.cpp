// Branches, turns and parts of batches, written out for where ops with graphs (if, loop, batch_parts) cannot run: both
// branches and a choice, every turn that there can be.
// SPDX-License-Identifier: Apache-2.0
#include "AttrBridge.h"
#include "ControlOp.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "GraphBuilder.h"
#include "Locations.h"
#include "OpGraph.h"
#include "Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace opc {
namespace {

using user_op::OpConf;
using user_op::TensorDesc;

constexpr int64_t kMostTurns = 4096, kMostOps = 1'000'000; // that are written out, as an import writes them

struct TooMuch {}; // has been reported
using Values = std::vector<Value>;

/// Adds the ops that take the place of one.
class Writing {
public:
  Writing(ir::UserOp op, GraphBuilder &build, int64_t *made) : op_(op), build_(build), made_(made) {}

  [[noreturn]] void refuse(const std::string &why) {
    emitFinding(op_.getLoc(), "OPC0416", "op " + ir::opName(op_) + " (" + op_.getOpType().str() + "): " + why,
                "graphs in ops run on one CPU with fixed shapes: compile for that, or make what the op decides known "
                "(--const of an ONNX model)");
    throw TooMuch();
  }

  Value add(OpConf conf, Operation *origin = nullptr) {
    if (++*made_ > kMostOps) refuse("written out it has more than " + std::to_string(kMostOps) + " ops");
    ir::UserOp made;
    if (Status s = build_.addOp(&conf, origin ? origin : op_, &made); !s.isOk()) {
      emitStatus(op_, s);
      throw TooMuch();
    }
    last_ = made;
    ir::setRole(made, op_.getRole());
    const ir::OpLocation here = ir::readLocation(op_.getLoc());
    ir::OpLocation parts = ir::readLocation(made.getLoc());
    parts.file = here.file, parts.line = here.line,
    parts.column = here.column; // no line of the text is one of the file
    parts.endLine = here.endLine, parts.endColumn = here.endColumn;
    if (Attribute of = op_->getAttr(ir::kGradientOfAttr)) made->setAttr(ir::kGradientOfAttr, of);
    made->setLoc(ir::makeLocation(op_.getContext(), parts));
    return made.getOuts().empty() ? Value() : Value(made.getOuts()[0]);
  }

  Value op(const char *type, const std::vector<std::pair<std::string, Value>> &inputs,
           std::map<std::string, AttrValue> attrs = {}) {
    OpConf conf{ir::opName(op_) + "/" + type, type, {}, {}, {}};
    for (const auto &[arg, v] : inputs) conf.inputs.push_back(bindTensor(arg, build_.nameOf(v)));
    for (auto &[name, value] : attrs) conf.attrs[name] = std::move(value);
    return add(std::move(conf));
  }

  Value constant(const TensorDesc &desc, int64_t value) {
    const bool isFloating = IsFloatingDataType(desc.data_type());
    return op("constant", {},
              {{"dtype", AttrValue(desc.data_type())},
               {"shape", AttrValue(desc.shape())},
               {"floating_value", AttrValue(static_cast<double>(value))},
               {"integer_value", AttrValue(value)},
               {"is_floating_value", AttrValue(isFloating)}});
  }
  Value number(int64_t value) { return constant({Shape(), kInt64}, value); }
  Value zero(const TensorDesc &desc) { return constant(desc, 0); }

  Value reshape(Value v, const Shape &shape) {
    if (ir::descOf(v).shape() == shape) return v;
    return op("reshape", {{"in", v}}, {{"shape", AttrValue(shape)}});
  }
  Value select(Value condition, Value yes, Value no) {
    return yes == no ? yes : op("where", {{"condition", condition}, {"x", yes}, {"y", no}});
  }
  Value both(Value a, Value b) { return op("broadcast_logical_and", {{"x", a}, {"y", b}}); }

  /// Element `at` of the first axis.
  Value element(Value v, int64_t at) {
    const Shape shape = ir::descOf(v).shape();
    return reshape(elements(v, at, 1), Shape(DimVector(shape.begin() + 1, shape.end())));
  }
  /// Elements from `at` on.
  Value elements(Value v, int64_t at, int64_t count) {
    return op("narrow", {{"in", v}},
              {{"dim", AttrValue(int64_t{0})}, {"start", AttrValue(at)}, {"length", AttrValue(count)}});
  }
  /// Of parts of one shape, along their first axis.
  Value joined(const Values &parts) {
    if (parts.size() == 1) return parts[0];
    OpConf conf{ir::opName(op_) + "/cat", "cat", {{"in", {}}}, {}, {}};
    for (Value v : parts) conf.inputs[0].tensors.push_back(build_.nameOf(v));
    conf.attrs["axis"] = AttrValue(int64_t{0});
    return add(std::move(conf));
  }
  /// Of parts of one shape, along a new first axis.
  Value stacked(const Values &parts) {
    OpConf conf{ir::opName(op_) + "/cat", "cat", {{"in", {}}}, {}, {}};
    for (Value v : parts) {
      const Shape shape = ir::descOf(v).shape();
      DimVector dims(shape.begin(), shape.end());
      dims.insert(dims.begin(), 1);
      conf.inputs[0].tensors.push_back(build_.nameOf(reshape(v, Shape(dims))));
    }
    conf.attrs["axis"] = AttrValue(int64_t{0});
    return parts.size() == 1 ? build_.findTensor(conf.inputs[0].tensors[0]) : add(std::move(conf));
  }

  /// The ops of a graph, whose inputs are `inputs`; its outputs.
  Values inlined(OpGraph &graph, const Values &inputs, size_t outputs) {
    IRMapping mapping;
    for (size_t j = 0; j < graph.inputs(); ++j) mapping.map(graph.input(j), inputs[j]);
    for (Operation &o : graphBlock(graph.module())) {
      auto inner = dyn_cast<ir::UserOp>(&o);
      if (!inner) continue;
      OpConf conf = ir::toOpConf(inner);
      conf.name = ir::opName(op_) + "/" + conf.name;
      unsigned k = 0;
      for (user_op::ArgBinding &b : conf.inputs)
        for (std::string &tensor : b.tensors) tensor = build_.nameOf(mapping.lookup(inner.getArgs()[k++]));
      add(std::move(conf), inner);
      for (auto [from, to] : llvm::zip(inner.getOuts(), last_.getOuts())) mapping.map(from, to);
    }
    Values made;
    for (size_t k = 0; k < outputs; ++k) made.push_back(mapping.lookupOrDefault(graph.output(k)));
    return made;
  }

private:
  ir::UserOp op_, last_;
  GraphBuilder &build_;
  int64_t *made_;
};

OpGraph graphOf(ir::UserOp op, const std::string &attribute, const Registry &registry, const GraphTexts &texts) {
  auto graph = OpGraph::read(op, attribute, registry, texts);
  if (!graph) throw TooMuch();
  return std::move(*graph);
}

Values writtenOutIf(Writing &w, ir::UserOp op, const Registry &registry, const GraphTexts &texts) {
  const Values inputs(op.getArgs().begin() + 1, op.getArgs().end());
  std::vector<Values> branches;
  for (const std::string &attribute : controlGraphs(ControlKind::kIf)) {
    OpGraph graph = graphOf(op, attribute, registry, texts);
    branches.push_back(w.inlined(graph, inputs, op.getOuts().size()));
  }
  const Value condition = w.reshape(op.getArgs()[0], Shape());
  Values made;
  for (size_t k = 0; k < branches[0].size(); ++k) made.push_back(w.select(condition, branches[0][k], branches[1][k]));
  return made;
}

Values writtenOutParts(Writing &w, ir::UserOp op, const Registry &registry, const GraphTexts &texts) {
  const BatchParts parts = batchParts(*ir::toInstance(op, *op.def()));
  if (parts.parts > kMostTurns)
    w.refuse("it has " + std::to_string(parts.parts) + " parts, and for other devices at most " +
             std::to_string(kMostTurns) + " are written out");
  OpGraph graph = graphOf(op, controlGraphs(ControlKind::kParts)[0], registry, texts);
  std::vector<Values> made(op.getOuts().size());
  for (int64_t part = 0; part < parts.parts; ++part) {
    Values inputs;
    for (auto [k, v] : llvm::enumerate(op.getArgs())) {
      const int64_t count = k < parts.cut ? ir::descOf(v).shape().At(0) / parts.parts : 0;
      inputs.push_back(k < parts.cut ? w.elements(v, part * count, count) : v);
    }
    for (auto [all, one] : llvm::zip(made, w.inlined(graph, inputs, op.getOuts().size()))) all.push_back(one);
  }
  Values whole;
  for (const Values &all : made) whole.push_back(w.joined(all));
  return whole;
}

class LoopWriting {
public:
  LoopWriting(Writing &w, ir::UserOp op, const Registry &registry, const GraphTexts &texts)
      : w_(w), op_(op), registry_(registry), parts_(loopParts(*ir::toInstance(op, *op.def()))),
        graph_(graphOf(op, controlGraphs(ControlKind::kLoop)[0], registry, texts)) {}

  Values run() {
    turns_ = known(op_.getArgs()[LoopParts::kTurns]);
    const int64_t most = mostTurns();
    goesOn_ = known(op_.getArgs()[LoopParts::kCondition]) == 1
                  ? Value()
                  : w_.reshape(op_.getArgs()[LoopParts::kCondition], Shape());
    isEndless_ = known(graph_.output(0)) == 1;
    for (size_t k = 0; k < parts_.states; ++k) states_.push_back(operand(k));
    rows_.resize(parts_.rows);
    for (Values &r : rows_) r.resize(static_cast<size_t>(most));
    for (int64_t k = 0; k < most; ++k) turn(parts_.isReverse ? most - 1 - k : k);
    Values made = states_;
    for (size_t k = 0; k < parts_.rows; ++k) made.push_back(rows(k));
    return made;
  }

private:
  std::optional<int64_t> known(Value v) const { return knownInteger(v, registry_); }
  Value operand(size_t k) { return op_.getArgs()[static_cast<unsigned>(LoopParts::kFirst + k)]; }

  /// That there can be: all are written out.
  int64_t mostTurns() {
    std::optional<int64_t> most = turns_;
    if (parts_.length >= 0) most = std::min(most.value_or(parts_.length), parts_.length);
    if (!most) w_.refuse("the run alone knows how many turns it makes, and for other devices all are written out");
    if (*most > kMostTurns)
      w_.refuse("it makes up to " + std::to_string(*most) + " turns, and for other devices at most " +
                std::to_string(kMostTurns) + " are written out");
    return std::max<int64_t>(*most, 0);
  }

  /// Whether turn `number` is made, as far as only the run knows that; null: it is.
  Value isMade(int64_t number, Value at) {
    Value made = goesOn_;
    if (turns_ && number < *turns_) return made;
    const Value count = w_.reshape(op_.getArgs()[LoopParts::kTurns], Shape());
    const Value isBefore = w_.op("broadcast_less", {{"x", at}, {"y", count}});
    return made ? w_.both(made, isBefore) : isBefore;
  }

  void turn(int64_t number) {
    const Value at = w_.number(number), isMade = this->isMade(number, at);
    Values inputs{at};
    inputs.insert(inputs.end(), states_.begin(), states_.end());
    for (size_t k = 0; k < parts_.sequences; ++k) inputs.push_back(w_.element(operand(parts_.states + k), number));
    for (size_t k = 0; k < parts_.captures; ++k) inputs.push_back(operand(parts_.states + parts_.sequences + k));
    const Values made = w_.inlined(graph_, inputs, 1 + op_.getOuts().size());
    const auto ifMade = [&](Value v, Value otherwise) { return isMade ? w_.select(isMade, v, otherwise) : v; };
    for (size_t k = 0; k < parts_.states; ++k) states_[k] = ifMade(made[1 + k], states_[k]);
    for (size_t k = 0; k < parts_.rows; ++k) {
      const Value row = made[1 + parts_.states + k];
      rows_[k][static_cast<size_t>(number)] = isMade && parts_.isPartial ? ifMade(row, w_.zero(ir::descOf(row))) : row;
    }
    if (isEndless_) return;
    const Value before = goesOn_ ? goesOn_ : w_.constant({Shape(), kBool}, 1);
    goesOn_ = ifMade(w_.reshape(made[0], Shape()), before);
  }

  /// The elements of an output: of no turn they are zeros.
  Value rows(size_t k) {
    const TensorDesc desc = ir::descOf(op_.getOuts()[static_cast<unsigned>(parts_.states + k)]);
    const int64_t count = desc.shape().At(0);
    if (count == 0 || rows_[k].empty()) return w_.zero(desc);
    Values parts = rows_[k];
    const Shape &shape = desc.shape();
    if (static_cast<int64_t>(parts.size()) < count)
      parts.resize(static_cast<size_t>(count),
                   w_.zero({Shape(DimVector(shape.begin() + 1, shape.end())), desc.data_type()}));
    return w_.stacked(parts);
  }

  Writing &w_;
  ir::UserOp op_;
  const Registry &registry_;
  const LoopParts parts_;
  OpGraph graph_;
  std::optional<int64_t> turns_;
  bool isEndless_ = false;
  Value goesOn_; // null: it is known to go on
  Values states_;
  std::vector<Values> rows_;
};

/// Results keep their names: whoever reads the graph's tensors finds them.
void replace(ir::UserOp op, const Values &made, GraphBuilder &build) {
  const std::string name = ir::opName(op);
  for (auto [k, out] : llvm::enumerate(op.getOuts())) {
    Operation *maker = made[k].getDefiningOp();
    // What is an operand of the op, or serves several results, keeps its own.
    const bool isOwn =
        maker && op->isBeforeInBlock(maker) && llvm::count(made, made[k]) == 1 && maker->getNumResults() == 1;
    if (isOwn) {
      ir::OpLocation parts = ir::readLocation(op.getLoc());
      parts.name = k == 0 ? name : build.uniqueName(name + "/out" + std::to_string(k));
      parts.tensors = {ir::tensorName(out)};
      maker->setLoc(ir::makeLocation(op.getContext(), parts));
    }
    out.replaceAllUsesWith(made[k]);
  }
}

LogicalResult writeOut(ModuleOp module, const GraphTexts *texts) {
  const Registry &registry = registryOf(module.getContext());
  Block &block = graphBlock(module);
  const auto isControl = [](Operation &o) {
    auto op = dyn_cast<ir::UserOp>(&o);
    return op && controlKind(op.getOpType()) != ControlKind::kNone;
  };
  if (llvm::none_of(block, isControl)) return success();
  GraphBuilder build(module, registry);
  build.role = ir::Role::kForward;
  int64_t count = 0;
  for (auto at = llvm::find_if(block, isControl); at != block.end(); at = llvm::find_if(block, isControl)) {
    auto op = cast<ir::UserOp>(*at);
    Writing w(op, build, &count);
    if (!texts) w.refuse("nobody reads its graphs here");
    Operation *end = block.getTerminator()->getPrevNode(); // new ops are behind it
    const ControlKind kind = controlKind(op.getOpType());
    const Values made = kind == ControlKind::kIf      ? writtenOutIf(w, op, registry, *texts)
                        : kind == ControlKind::kParts ? writtenOutParts(w, op, registry, *texts)
                                                      : LoopWriting(w, op, registry, *texts).run();
    replace(op, made, build);
    block.getOperations().splice(op->getIterator(), block.getOperations(), std::next(end->getIterator()),
                                 block.getTerminator()->getIterator());
    op.erase();
    build.refresh();
  }
  return success();
}

} // namespace

#define GEN_PASS_DEF_WRITEOUTCONTROL
#include "Passes.h.inc"

namespace {

struct WriteOutControlPass : impl::WriteOutControlBase<WriteOutControlPass> {
  WriteOutControlPass() = default;
  explicit WriteOutControlPass(std::shared_ptr<const GraphTexts> texts) : texts(std::move(texts)) {}
  void runOnGraph() override {
    try {
      if (failed(writeOut(getOperation(), texts.get()))) signalPassFailure();
    } catch (const TooMuch &) {
      signalPassFailure();
    }
  }
  std::shared_ptr<const GraphTexts> texts; // shared: a pass can be cloned
};

} // namespace

std::unique_ptr<Pass> createWriteOutControl(std::shared_ptr<const GraphTexts> texts) {
  return std::make_unique<WriteOutControlPass>(std::move(texts));
}

} // namespace opc
