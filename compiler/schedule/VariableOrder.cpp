// Orders of reads and writes of variables.
// SPDX-License-Identifier: Apache-2.0
#include "VariableOrder.h"
#include "AttrBridge.h"
#include "EmitStatus.h"
#include "Locations.h"
#include "MutableInputs.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace opc {
namespace {

class Orders {
public:
  explicit Orders(ArrayRef<Operation *> ops) : ops_(ops), next_(ops.size()) {}

  std::optional<std::vector<OpOrder>> run() {
    addDataAndControl();
    // What follows a write is asked of the data and control alone: the orders found here are added at the end.
    std::vector<OpOrder> found;
    for (auto &[variable, access] : access_)
      if (!access.writers.empty() && !readersFirst(variable, access, &found)) return std::nullopt;
    for (const auto &[before, after] : found) add(before, after);
    if (!orders_.empty() && !isAcyclic()) return std::nullopt;
    return std::move(orders_);
  }

private:
  struct Access {
    SmallVector<uint32_t> readers, writers; // ops; a writer is among the readers
  };

  void add(uint32_t before, uint32_t after) {
    orders_.push_back({before, after});
    next_[before].push_back(after);
  }

  /// The variable that a value is, or shows through views; null for other values.
  Value variableOf(Value v) const {
    auto it = shows_.find(v);
    if (it != shows_.end()) return it->second;
    return v.getDefiningOp<ir::VariableOp>() ? v : Value();
  }

  void addDataAndControl() {
    llvm::DenseMap<Operation *, uint32_t> index;
    llvm::StringMap<uint32_t> byName;
    bool control = false;
    for (uint32_t i = 0; i < ops_.size(); ++i) {
      Operation *op = ops_[i];
      index[op] = i;
      control |= op->hasAttr(ir::kCtrlInAttr);
      for (Value v : op->getOperands())
        if (auto it = index.find(v.getDefiningOp()); it != index.end()) next_[it->second].push_back(i);
      addAccess(op, i);
    }
    if (!control) return;
    for (uint32_t i = 0; i < ops_.size(); ++i) byName[ir::opName(ops_[i])] = i;
    for (uint32_t i = 0; i < ops_.size(); ++i)
      if (auto names = ops_[i]->getAttrOfType<ArrayAttr>(ir::kCtrlInAttr))
        for (Attribute name : names)
          if (auto it = byName.find(cast<StringAttr>(name).getValue()); it != byName.end()) add(it->second, i);
  }

  void addAccess(Operation *op, uint32_t i) {
    auto user = dyn_cast<ir::UserOp>(op);
    const user_op::OpDef *def = user ? user.def() : nullptr;
    if (user && !def) return;
    std::vector<bool> written;
    if (def && def->modifyInputs)
      if (auto instance = ir::toInstance(user, *def)) written = mutableInputs(*instance);
    for (auto [k, v] : llvm::enumerate(op->getOperands())) {
      Value variable = variableOf(v);
      if (!variable) continue;
      if (def && def->isView && k == 0 && op->getNumResults() == 1) shows_[op->getResult(0)] = variable;
      Access &access = access_[variable];
      if (access.readers.empty() || access.readers.back() != i) access.readers.push_back(i);
      if (k < written.size() && written[k] && (access.writers.empty() || access.writers.back() != i))
        access.writers.push_back(i);
    }
  }

  /// Everything that data and control put after op `from`.
  llvm::BitVector reachable(uint32_t from) const {
    llvm::BitVector seen(static_cast<unsigned>(ops_.size()));
    SmallVector<uint32_t> stack(next_[from].begin(), next_[from].end());
    while (!stack.empty()) {
      const uint32_t at = stack.pop_back_val();
      if (seen.test(at)) continue;
      seen.set(at);
      stack.append(next_[at].begin(), next_[at].end());
    }
    return seen;
  }

  bool readersFirst(Value variable, const Access &access, std::vector<OpOrder> *found) {
    // Most writers have nothing after them, and cost nothing.
    SmallVector<llvm::BitVector> after;
    for (uint32_t w : access.writers) after.push_back(next_[w].empty() ? llvm::BitVector() : reachable(w));
    auto follows = [&](size_t writer, uint32_t op) { return !after[writer].empty() && after[writer].test(op); };
    for (size_t a = 0; a < access.writers.size(); ++a)
      for (size_t b = a + 1; b < access.writers.size(); ++b)
        if (!follows(a, access.writers[b]) && !follows(b, access.writers[a]))
          return unordered(variable, access.writers[a], access.writers[b]);
    for (size_t w = 0; w < access.writers.size(); ++w)
      for (uint32_t reader : access.readers)
        if (reader != access.writers[w] && !follows(w, reader) && !llvm::is_contained(next_[reader], access.writers[w]))
          found->push_back({reader, access.writers[w]});
    return true;
  }

  bool unordered(Value variable, uint32_t a, uint32_t b) {
    const std::string first = ir::opName(ops_[a]), second = ir::opName(ops_[b]);
    emitStatus(ops_[b], Status(StatusCode::kInvalidGraph, "OPC0209",
                               "ops " + first + " and " + second + " both write variable '" +
                                   ir::opName(variable.getDefiningOp()) + "', and nothing says which goes first")
                            .withHelp("order them: give op " + second + " ctrl_in_op_name: \"" + first + "\""));
    return false;
  }

  bool isAcyclic() {
    std::vector<uint32_t> pending(ops_.size(), 0), ready;
    for (const auto &list : next_)
      for (uint32_t n : list) ++pending[n];
    for (uint32_t i = 0; i < ops_.size(); ++i)
      if (!pending[i]) ready.push_back(i);
    size_t done = 0;
    for (; done < ready.size(); ++done)
      for (uint32_t n : next_[ready[done]])
        if (--pending[n] == 0) ready.push_back(n);
    if (done == ops_.size()) return true;
    // Backwards from any op that waits: the walk closes, and is the cycle.
    std::vector<uint32_t> waitsFor(ops_.size(), 0);
    for (uint32_t i = 0; i < ops_.size(); ++i)
      if (pending[i])
        for (uint32_t n : next_[i])
          if (pending[n]) waitsFor[n] = i;
    uint32_t at = 0;
    while (!pending[at]) ++at;
    llvm::BitVector seen(static_cast<unsigned>(ops_.size()));
    while (!seen.test(at)) {
      seen.set(at);
      at = waitsFor[at];
    }
    std::string text = ir::opName(ops_[at]);
    uint32_t step = waitsFor[at];
    for (size_t shown = 0; step != at && shown < 20; ++shown, step = waitsFor[step])
      text = ir::opName(ops_[step]) + " -> " + text;
    text = ir::opName(ops_[at]) + " -> " + text;
    emitStatus(ops_[at], Status(StatusCode::kInvalidGraph, "OPC0209",
                                "no order lets every op read the value that its variables have at the start of the "
                                "step: " +
                                    text)
                             .withHelp("say which op is to see the new value: give it ctrl_in_op_name with the op that "
                                       "writes"));
    return false;
  }

  ArrayRef<Operation *> ops_;
  std::vector<SmallVector<uint32_t, 2>> next_; // ops that run after each
  std::vector<OpOrder> orders_;
  llvm::DenseMap<Value, Value> shows_; // a view of a variable -> the variable
  llvm::MapVector<Value, Access> access_;
};

} // namespace

std::optional<std::vector<OpOrder>> variableOrder(ArrayRef<Operation *> ops) { return Orders(ops).run(); }

} // namespace opc
