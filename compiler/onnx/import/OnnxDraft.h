// A graph of opc's ops while it is made from an ONNX model: what is known of each value, and what computes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FoldOp.h"
#include "GraphFile.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace opc::onnx {

/// A value where kernels can read it, and back.
OpTensor elementsOf(const StoredTensor &value);
StoredTensor storedOf(OpTensor tensor);

struct Operand;
/// A value of the model; null where an optional one is left out.
using Term = std::shared_ptr<const Operand>;

struct Operand {
  /// kNothing: an optional without a value.
  enum class Kind { kTensor, kList, kNothing };
  Kind kind = Kind::kTensor;
  user_op::TensorDesc desc;
  std::optional<StoredTensor> value; // known while importing
  bool isFixed = false;              // never another one: not the first value of a variable
  int op = -1, output = 0;           // who computes it; -1: a constant, or not a tensor
  std::vector<Term> list;            // kList

  const Shape &shape() const { return desc.shape(); }
  int64_t rank() const { return desc.shape().NumAxes(); }
  int64_t dim(int64_t axis) const { return desc.shape().At(axis < 0 ? axis + rank() : axis); }
  DataType type() const { return desc.data_type(); }
  bool isFloating() const { return IsFloatingDataType(desc.data_type()); }
};

/// What a real value stands for: (integers - zero) * scale. Scales and zero points are one number, or a vector along
/// `axis`.
struct Quantized {
  Term real, integers, scale, zero; // zero may be null
  int64_t axis = 0;
  bool isSum = false; // of products, in 32 bits
};

/// A value of which only the run knows how much there is: along `axis` as much as `count`, i64[1], says. It has room
/// for the most that there can be.
struct Bounded {
  Term value, count;
  int64_t axis = 0;
  int64_t least = 0; // that the count is known to be
};

using Attrs = std::map<std::string, AttrValue>;

/// What cannot be imported: thrown by a conversion, caught where its node is known. Never leaves this folder.
struct Refusal {
  std::string code, message, help;
};

/// Where a model has the node that an op is of.
struct NodePlace {
  std::string model, node; // "net.onnx", `node 17 "/layer1/conv"`; empty of an op that is of no node
  std::string text() const { return node.empty() ? "" : model + ": " + node; }
  std::string file() const; // of the model, without its folder
};

class GraphDraft {
public:
  explicit GraphDraft(const Registry &registry) : registry_(registry) {}

  const Registry &registry() const { return registry_; }
  /// Where the ops that follow come from, and what they are called.
  void enterNode(NodePlace place, std::string name);

  /// While it lives the names of the node's ops end with that of a part.
  class Part {
  public:
    Part(GraphDraft *draft, const std::string &name);
    ~Part();
    Part(const Part &) = delete;
    Part &operator=(const Part &) = delete;

  private:
    GraphDraft *draft_;
    std::string whole_;
  };

  /// While it lives other nodes are entered; then the ops are of this one again.
  class Visit {
  public:
    explicit Visit(GraphDraft *draft) : draft_(draft), place_(draft->places_.back()), name_(draft->names_.back()) {}
    ~Visit();
    Visit(const Visit &) = delete;
    Visit &operator=(const Visit &) = delete;

  private:
    GraphDraft *draft_;
    NodePlace place_;
    std::string name_;
  };

  Term input(const std::string &name, const user_op::TensorDesc &desc);
  Term variable(const std::string &name, StoredTensor value, bool trainable);
  /// The same value where it is no parameter: as a variable that is not trained, if `term` is a trained one. Where
  /// others read that as a parameter it stays, too.
  Term untrained(const Term &term);
  static Term constant(StoredTensor value);
  /// What a graph within an op takes: known when that runs, in every turn another value.
  Term parameter(const user_op::TensorDesc &desc);

  /// All outputs of an op on tensors in the order of its arguments; a variadic one takes the rest. Its rules are run;
  /// where all operands are known so is the result, as far as it is small. Throws Refusal.
  std::vector<Term> add(const std::string &type, const std::vector<Term> &inputs, const Attrs &attrs,
                        const std::map<std::string, int32_t> &outputs = {});
  /// The names of graph inputs on which a value depends.
  std::vector<std::string> inputsOf(const Term &term) const;
  /// Whether a value depends on a parameter.
  bool isOfParameter(const Term &term) const;

  /// Ops from now on have this number and higher ones.
  size_t mark() const { return ops_.size(); }
  /// What `results` need of the graph outside of the ops from `first` on, and is not in the list yet, is added to it.
  void addCaptures(size_t first, const std::vector<Term> &results, std::vector<Term> *captures) const;
  /// The ops from `first` on that `results` need, as the text of a graph file of its own with these inputs.
  std::string graphOf(size_t first, const std::vector<Term> &inputs, const std::vector<Term> &results) const;
  bool hasOps(size_t first, const std::vector<Term> &results) const;

  /// Remembers which branch of an `If` is in the graph in the place of the node.
  void noteBranch(bool isThen) {
    branches_.push_back(places_.back().text() + (isThen ? ": then_branch" : ": else_branch"));
  }
  const std::vector<std::string> &branches() const { return branches_; }

  /// The name of a value: its tensor's, where nothing else has it.
  void name(const Term &term, const std::string &name);

  /// Remembers what a real value stands for, for the nodes that read it.
  void note(const Quantized &quantized) { quantized_[quantized.real.get()] = quantized; }
  /// Null when it is not known to stand for integers.
  const Quantized *quantized(const Term &real) const {
    const auto at = quantized_.find(real.get());
    return at == quantized_.end() ? nullptr : &at->second;
  }

  /// Remembers that a tensor of i8 or u8 is one of `type` in the model, which is only stored: DequantizeLinear and Cast
  /// read its bytes, all others whole().
  void markNarrow(const Term &term, DataType type) { narrow_[term.get()] = type; }
  bool isNarrow(const Term &term) const { return narrow_.count(term.get()); }
  /// In the type that it has in the model.
  Term whole(const Term &term);
  DataType typeInModel(const Operand &value) const {
    const auto at = narrow_.find(&value);
    return at == narrow_.end() ? value.type() : at->second;
  }

  /// The op that computes a value of the run; nothing for what no op does.
  struct MadeBy {
    const std::string &type;
    const std::map<std::string, AttrValue> &attrs;
    const std::vector<Term> &inputs;
  };
  std::optional<MadeBy> madeBy(const Term &term) const {
    const DraftOp *op = term->op < 0 ? nullptr : &ops_[static_cast<size_t>(term->op)];
    if (!op || op->kind != OpKind::kUser || term->output > 0) return std::nullopt;
    return MadeBy{op->conf.type, op->conf.attrs, op->inputs};
  }

  /// Remembers that an initializer is a constant: whoever reads it makes it part of ops.
  void fix(const Term &constant, const std::string &name) { fixed_[constant.get()] = name; }
  /// Notes the initializers that `term` is, where they are constants: the node reads it.
  void noteRead(const Term &term);
  /// Notes those on which its value depends: it decides how the node computes, and another one would come too late.
  void rely(const Term &term);

  void bind(const Bounded &bounded) {
    bounds_[bounded.value.get()] = bounded;
    rooms_[bounded.count.get()] = {bounded.count, bounded.value->dim(bounded.axis)};
  }
  /// The most that a count of a bounded value can be.
  std::optional<int64_t> roomOf(const Term &count) const {
    const auto at = rooms_.find(count.get());
    return at == rooms_.end() ? std::nullopt : std::optional<int64_t>(at->second.second);
  }
  /// Null when the value has a size that is known.
  const Bounded *bounded(const Term &value) const {
    const auto at = bounds_.find(value.get());
    return at == bounds_.end() ? nullptr : &at->second;
  }
  /// While it lives ops may read bounded values; else that is refused, because the room behind them would count.
  class BoundsAllowed {
  public:
    explicit BoundsAllowed(GraphDraft *draft) : draft_(draft), before_(draft->readsBounds_) {
      draft->readsBounds_ = true;
    }
    ~BoundsAllowed() { draft_->readsBounds_ = before_; }
    BoundsAllowed(const BoundsAllowed &) = delete;
    BoundsAllowed &operator=(const BoundsAllowed &) = delete;

  private:
    GraphDraft *draft_;
    bool before_;
  };

  /// Whether more nodes and ops were asked for than an import makes: functions, loops and sequences multiply.
  bool isFull() const { return made_ > kMostOps; }
  static constexpr size_t kMostOps = 1'000'000;

  /// Takes over which initializers are parts of ops.
  void addNumbers(const GraphDraft &other) { numbers_.insert(other.numbers_.begin(), other.numbers_.end()); }
  /// The ops that the outputs need, all inputs, and the outputs by name.
  void write(const std::vector<std::pair<std::string, Term>> &outputs, GraphFile *file);

private:
  enum class OpKind { kInput, kVariable, kParameter, kUser };
  struct DraftOp {
    OpKind kind;
    user_op::OpConf conf; // its arguments: how many tensors each has
    std::vector<Term> inputs;
    std::vector<user_op::TensorDesc> outputs;
    std::vector<std::string> tensors; // names of the outputs; empty: by the op's name
    std::optional<StoredTensor> value;
    bool trainable = false;
    size_t place = 0;
    int trainedOne = -1;     // of what is read as no parameter: the variable that is trained,
    std::string beside = {}; // and its own name, where that is needed, too
  };
  struct Number {
    StoredTensor value;
    NodePlace reader;
  };
  static std::string nameOf(const DraftOp &op, bool isTrainedToo);
  class Writer;
  friend class SizeMerge; // OnnxSizes.cpp
  /// By op: whether the outputs need it. All inputs are.
  std::vector<bool> needed(const std::vector<std::pair<std::string, Term>> &outputs) const;
  std::vector<size_t> neededFrom(size_t first, const std::vector<Term> &results) const;
  bool isOutside(size_t first, const Term &term) const;
  void dependencies(const Term &term, const std::function<void(const DraftOp &)> &visit) const;

  bool fold(const OpInstance &instance, const std::vector<Term> &inputs, std::vector<Term> *results) const;
  const Registry &registry_;
  size_t made_ = 0;
  std::unordered_map<const Operand *, Quantized> quantized_;
  std::unordered_map<const Operand *, Bounded> bounds_;
  std::unordered_map<const Operand *, std::pair<Term, int64_t>> rooms_; // by the count
  std::map<const Operand *, DataType> narrow_;
  bool readsBounds_ = false;
  std::vector<DraftOp> ops_;
  std::unordered_map<int, Term> untrained_; // by the trained variable's op
  std::unordered_set<std::string> sources_; // names of inputs and variables
  std::vector<NodePlace> places_ = {NodePlace()};
  std::vector<std::string> names_ = {""};
  std::vector<std::string> branches_;
  std::unordered_map<const Operand *, std::string> fixed_;
  std::map<std::string, Number> numbers_; // values of initializers that are in ops
};

} // namespace opc::onnx
