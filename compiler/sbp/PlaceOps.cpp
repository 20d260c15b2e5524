// Which ranks each op runs on, and by how many micro-batches a stage's backward ops follow its forward ops.
#include "GraphStates.h"
#include "Locations.h"
#include "PipelineStages.h"
#include "Schedule.h"

#include <algorithm>
#include <fnmatch.h>

using namespace mlir;

namespace opc {
namespace {

constexpr uint32_t kWorld = 0;

class Placer {
public:
  Placer(ModuleOp module, const MeshRequest &request) : module_(module), request_(request) {}

  LogicalResult run() {
    std::vector<Placement> placements = {Placement::dense(request_.dims)};
    std::vector<bool> named(request_.stages.size(), false);
    for (const StagePlacement &s : request_.stages) {
      std::vector<int64_t> sorted = s.placement.ranks;
      std::sort(sorted.begin(), sorted.end());
      if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
        return emitError(module_.getLoc(), "OPC0313: a stage names rank ")
               << *std::adjacent_find(sorted.begin(), sorted.end()) << " twice";
      placements.push_back(s.placement);
    }
    writePlacements(module_, placements);
    if (request_.stages.empty()) return success();
    Block &block = graphBlock(module_);
    for (Operation &op : block)
      if (ir::isTask(&op)) place_[&op] = ofTask(&op, &named);
    for (size_t s = 0; s < named.size(); ++s)
      if (!named[s]) {
        std::string globs;
        for (const std::string &g : request_.stages[s].ops) globs += (globs.empty() ? "" : ",") + g;
        auto error = emitError(module_.getLoc(), "OPC0313: stage '") << globs << "' names no op of the graph";
        error.attachNote() << "help: opc show GRAPH --what ops lists them";
        return error;
      }
    Builder b(module_.getContext());
    for (Operation &op : block) {
      const uint32_t p = isa<ir::OutputOp>(op) ? place_.lookup(op.getOperand(0).getDefiningOp())
                         : ir::isTask(&op)     ? place_[&op]
                                               : ofSource(&op);
      if (!ir::isTask(&op)) place_[&op] = p;
      if (p) op.setAttr(ir::kPlacementAttr, b.getI32IntegerAttr(static_cast<int32_t>(p)));
    }
    return success();
  }

private:
  /// The stage that names the op; else the last one of those that it reads from.
  uint32_t ofTask(Operation *op, std::vector<bool> *named) {
    const std::string name = ir::opName(op);
    for (size_t s = 0; s < request_.stages.size(); ++s)
      for (const std::string &glob : request_.stages[s].ops)
        if (glob == name || fnmatch(glob.c_str(), name.c_str(), 0) == 0) {
          (*named)[s] = true;
          return static_cast<uint32_t>(s + 1);
        }
    uint32_t last = kWorld;
    bool mixed = false;
    for (Value v : op->getOperands()) {
      const uint32_t p = place_.lookup(v.getDefiningOp());
      mixed |= last != kWorld && p != kWorld && p != last;
      last = std::max(last, p);
    }
    // What needs something of several stages and belongs to none (a norm over all gradients) is everybody's.
    return mixed ? kWorld : last;
  }

  /// Variables and inputs live with their readers.
  uint32_t ofSource(Operation *op) {
    uint32_t found = kWorld;
    bool first = true;
    for (Operation *reader : op->getUsers()) {
      const uint32_t p = isa<ir::OutputOp>(reader) ? kWorld : place_.lookup(reader);
      if (!first && p != found) {
        // A tied variable lives where it is updated.
        return isa<ir::VariableOp>(op) ? writerOf(op, found) : kWorld;
      }
      found = p;
      first = false;
    }
    return found;
  }
  uint32_t writerOf(Operation *op, uint32_t otherwise) {
    Operation *last = nullptr;
    for (Operation *reader : op->getUsers())
      if (reader->getNumOperands() && reader->getOperand(0) == op->getResult(0) &&
          (!last || last->isBeforeInBlock(reader)))
        last = reader;
    return last ? place_.lookup(last) : otherwise;
  }

  ModuleOp module_;
  const MeshRequest &request_;
  llvm::DenseMap<Operation *, uint32_t> place_;
};

} // namespace

LogicalResult placeOps(ModuleOp module, const MeshRequest &request) { return Placer(module, request).run(); }

void assignLags(ModuleOp module, const MeshRequest &request) {
  const int64_t stages = static_cast<int64_t>(request.stages.size());
  if (request.microBatches <= 1 || stages < 2) return;
  Builder b(module.getContext());
  struct Pace {
    bool backward = false; // depends on a later stage
    int64_t lag = 0;
  };
  llvm::DenseMap<Operation *, Pace> paces;
  // Of stages 1 to n, the i-th's backward ops are n - i micro-batches behind its forward ops; of the world as many as
  // those of the first.
  auto lagAt = [&](uint32_t placement) { return stages - std::max<int64_t>(1, placement); };
  auto set = [&](Operation *op, StringRef name, int64_t lag) {
    if (lag) op->setAttr(name, b.getI64IntegerAttr(lag));
  };
  for (Operation &op : graphBlock(module)) {
    if (!ir::isTask(&op)) continue;
    auto boxing = dyn_cast<ir::BoxingOp>(&op);
    const uint32_t own = boxing ? static_cast<uint32_t>(boxing.getTarget()) : placementOf(&op);
    Pace pace;
    int64_t sourceLag = 0;
    for (Value v : op.getOperands()) {
      Operation *producer = v.getDefiningOp();
      const Pace p = paces.lookup(producer);
      const uint32_t from = boxing ? static_cast<uint32_t>(boxing.getSource()) : placementOf(producer);
      const bool later = from > own && own != kWorld;
      pace.backward |= p.backward || later || (own == kWorld && from != kWorld);
      sourceLag = std::max(sourceLag, p.lag);
      if (from == own || own == kWorld || from == kWorld) pace.lag = std::max(pace.lag, p.lag);
    }
    if (pace.backward) pace.lag = std::max(pace.lag, lagAt(own));
    paces[&op] = pace;
    set(&op, ir::kLagAttr, pace.lag);
    if (boxing && boxing.getSource() != boxing.getTarget()) set(&op, ir::kSourceLagAttr, sourceLag);
  }
}

} // namespace opc
