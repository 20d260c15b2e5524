// One op of a graph on its way into ONNX nodes: what emitters read and make.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "OpInstance.h"

#include "onnx.pb.h"
#include "opc/PackedElements.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace opc::onnx_export {

/// A value of the model.
struct Wire {
  std::string name;
  DataType type = kInvalidDataType;
  Shape shape;
  int64_t rank() const { return shape.NumAxes(); }
  int64_t dim(int64_t axis) const { return shape.At(axis < 0 ? axis + rank() : axis); }
  bool isFloating() const { return IsFloatingDataType(type); }
};

/// An attribute of a node.
struct NodeAttr {
  enum class Kind { kInt, kReal, kText, kInts, kReals, kTexts, kGraph } kind;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<int64_t> integers;
  std::vector<float> reals;
  std::vector<std::string> texts;
  std::shared_ptr<const onnx::Graph> graph;
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  NodeAttr(T v) : kind(Kind::kInt), integer(static_cast<int64_t>(v)) {}
  NodeAttr(double v) : kind(Kind::kReal), real(v) {}
  NodeAttr(const char *v) : kind(Kind::kText), text(v) {}
  NodeAttr(std::vector<int64_t> v) : kind(Kind::kInts), integers(std::move(v)) {}
  NodeAttr(std::vector<float> v) : kind(Kind::kReals), reals(std::move(v)) {}
  NodeAttr(std::vector<std::string> v) : kind(Kind::kTexts), texts(std::move(v)) {}
  NodeAttr(std::shared_ptr<const onnx::Graph> v) : kind(Kind::kGraph), graph(std::move(v)) {}
};
using NodeAttrs = std::map<std::string, NodeAttr>;

/// Thrown by emitters: this op has no form.
struct NoForm {
  std::string reason;
};
/// Thrown by emitters: it has one from this operator set on.
struct NeedsOpset {
  int64_t version;
  std::string what;
};

/// In which types an emitter's nodes compute. `in()` casts to them, and `out()` back to the op's own.
enum class Types {
  kOwn,     // in any: they only move elements
  kNumbers, // bf16 in f32; 8 and 16 bits and bool in i32, u32 and u64 in i64: what runtimes have kernels for
  kWide,    // f16 in f32 as well, as opc's kernels do: of ops of several nodes
};

/// What all ops of a graph of the model share: its nodes, names and constants. A graph in a node sees the names and
/// constants of the one around it.
class Nodes {
public:
  explicit Nodes(onnx::Graph *graph, Nodes *outer = nullptr) : graph_(graph), outer_(outer) {}
  onnx::Graph &graph() { return *graph_; }
  /// A name that no value has yet.
  std::string fresh(const std::string &wanted);
  /// The value of a Constant node, or of an initializer where it is large; equal ones once.
  Wire constant(DataType type, const Shape &shape, std::string bytes);
  /// A constant whose elements are all the same, as one number of rank 0; nothing of any other value.
  std::optional<Wire> asNumber(const Wire &x);

private:
  const Wire *find(const std::pair<DataType, std::pair<std::vector<int64_t>, std::string>> &key) const;

  onnx::Graph *graph_;
  Nodes *outer_;
  std::set<std::string> taken_; // of the outermost
  std::map<std::pair<DataType, std::pair<std::vector<int64_t>, std::string>>, Wire> constants_;
};

/// The elements as their bytes, in `type`.
std::string elementBytes(DataType type, const std::vector<double> &values);

/// Describes a value that a graph takes or makes.
void describe(const Wire &wire, onnx::Value *value);

/// Who writes the graphs in ops.
class InnerGraphs {
public:
  virtual ~InnerGraphs() = default;
  /// Writes the ops of such a graph, which takes `inputs`, into `nodes`; what it makes. `op`: the one that has it.
  virtual std::vector<Wire> write(const GraphOp &op, const std::string &text, const std::vector<Wire> &inputs,
                                  Nodes &nodes) = 0;
};

class Emission {
public:
  /// `wires` has each tensor of the graph that is known so far, by its name; gets those that the op makes.
  Emission(Nodes &nodes, const GraphOp &op, const OpInstance &instance, std::map<std::string, Wire> &wires,
           std::map<std::string, std::string> &next, int64_t opset, InnerGraphs &inner)
      : op(op), instance(instance), opset(opset), nodes_(nodes), wires_(wires), next_(next), inner_(inner),
        first_(nodes.graph().node_size()) {}
  /// Of the same op: what is made goes into a graph in one of its nodes.
  Emission(Nodes &nodes, const Emission &outer)
      : op(outer.op), instance(outer.instance), opset(outer.opset), nodes_(nodes), wires_(outer.wires_),
        next_(outer.next_), inner_(outer.inner_), first_(0) {}

  const GraphOp &op;
  const OpInstance &instance;
  const int64_t opset;
  Types types = Types::kOwn;

  // What the op has ---------------------------------------------------------------------------------------------------
  bool has(const std::string &arg, int32_t index = 0) const { return instance.findInput(arg, index) >= 0; }
  int32_t count(const std::string &arg) const { return instance.wrapper().input_size(arg); }
  /// Of the argument, by its name, in the types that the emitter computes in.
  Wire in(const std::string &arg, int32_t index = 0);
  /// As the graph has it.
  Wire raw(const std::string &arg, int32_t index = 0) const;
  /// Of any kind of integer, as i64.
  Wire indices(const std::string &arg) { return cast(raw(arg), kInt64); }
  int64_t i(const std::string &name) const;
  double f(const std::string &name) const;
  bool b(const std::string &name) const { return instance.wrapper().attr<bool>(name); }
  const std::string &s(const std::string &name) const { return instance.wrapper().attr<std::string>(name); }
  std::vector<int64_t> ints(const std::string &name) const;
  const std::vector<std::string> &texts(const std::string &name) const {
    return instance.wrapper().attr<std::vector<std::string>>(name);
  }
  const std::vector<float> &reals(const std::string &name) const {
    return instance.wrapper().attr<std::vector<float>>(name);
  }
  DataType typeAttr(const std::string &name) const { return instance.wrapper().attr<DataType>(name); }
  bool wants(const std::string &arg, int32_t index = 0) const { return instance.findOutput(arg, index) >= 0; }
  const user_op::TensorDesc &made(const std::string &arg, int32_t index = 0) const;
  const user_op::TensorDesc &madeFirst() const { return instance.outputDescs().at(0); }

  // What is made of it ------------------------------------------------------------------------------------------------
  Wire node(const std::string &type, const std::vector<Wire> &inputs, const NodeAttrs &attrs, DataType made,
            const Shape &shape);
  /// Several outputs; only those with a valid type are asked for.
  std::vector<Wire> nodes(const std::string &type, const std::vector<Wire> &inputs, const NodeAttrs &attrs,
                          const std::vector<std::pair<DataType, Shape>> &made);
  Wire unary(const std::string &type, const Wire &x, const NodeAttrs &attrs = {}) {
    return node(type, {x}, attrs, x.type, x.shape);
  }
  /// Broadcasting, of one type.
  Wire binary(const std::string &type, const Wire &x, const Wire &y);
  Wire test(const std::string &type, const Wire &x, const Wire &y);
  Wire add(const Wire &x, const Wire &y) { return binary("Add", x, y); }
  Wire sub(const Wire &x, const Wire &y) { return binary("Sub", x, y); }
  Wire mul(const Wire &x, const Wire &y) { return binary("Mul", x, y); }
  Wire div(const Wire &x, const Wire &y) { return binary("Div", x, y); }
  Wire scaled(const Wire &x, double factor) { return factor == 1 ? x : mul(x, number(x, factor)); }
  Wire plus(const Wire &x, double addend) { return addend == 0 ? x : add(x, number(x, addend)); }
  Wire select(const Wire &condition, const Wire &x, const Wire &y);
  Wire negated(const Wire &condition) { return unary("Not", condition); }
  Wire cast(const Wire &x, DataType type);
  /// One number of x's type and rank 0.
  Wire number(const Wire &x, double value) { return constant(x.type, Shape(), {value}); }
  Wire constant(DataType type, const Shape &shape, const std::vector<double> &values);
  Wire integers(const std::vector<int64_t> &values, const Shape &shape);
  Wire integers(const std::vector<int64_t> &values);
  Wire filled(DataType type, const Shape &shape, double value) {
    return expand(constant(type, Shape(), {value}), shape);
  }
  Wire reshape(const Wire &x, const std::vector<int64_t> &dims);
  Wire reshape(const Wire &x, std::initializer_list<int64_t> dims) { return reshape(x, Shape(dims)); }
  Wire reshape(const Wire &x, const Shape &shape);
  Wire transpose(const Wire &x, const std::vector<int64_t> &perm);
  /// Matrices transposed: the last two dimensions.
  Wire swapped(const Wire &x);
  Wire expand(const Wire &x, const Shape &shape);
  Wire slice(const Wire &x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
  Wire concat(const std::vector<Wire> &parts, int64_t axis);
  Wire gather(const Wire &x, const Wire &indices, int64_t axis);
  Wire matmul(const Wire &a, const Wire &b);
  /// "ReduceSum", "ReduceMax", ...; without axes x itself.
  Wire reduce(const std::string &type, const Wire &x, const std::vector<int64_t> &axes, bool keepDims = true);
  Wire padded(const Wire &x, const std::vector<int64_t> &before, const std::vector<int64_t> &after, double value = 0,
              const char *mode = "constant");
  /// Sums over what broadcasting has added to `shape`.
  Wire summedTo(const Wire &x, const Shape &shape);
  /// The largest element of a type, and the smallest.
  static double lowest(DataType type) { return elementType(type).lowest; }

  /// The nodes that are made here.
  Nodes &nodesHere() { return nodes_; }
  /// What a graph of the op, the text in an attribute, makes of `inputs`: its nodes are made here.
  std::vector<Wire> inlined(const std::string &attr, const std::vector<Wire> &inputs) {
    return inner_.write(op, s(attr), inputs, nodes_);
  }

  void out(const std::string &arg, const Wire &value, int32_t index = 0);
  /// The op's first output.
  void out(const Wire &value);
  /// What a variable that the op writes holds after it.
  void next(const std::string &arg, const Wire &value);

  void need(int64_t version, const std::string &what) const {
    if (opset < version) throw NeedsOpset{version, what};
  }
  [[noreturn]] void refuse(const std::string &reason) const { throw NoForm{reason}; }
  /// Takes back what has been made, but for constants.
  void startAgain();
  /// Names nodes and checks that every output is there. The op's nodes, but for constants.
  std::vector<onnx::Node *> finish();

private:
  DataType computed(DataType type) const;
  void bind(int flat, const Wire &value);
  const std::string &nameOf(const Wire &x) const;

  Nodes &nodes_;
  std::map<std::string, Wire> &wires_;
  std::map<std::string, std::string> &next_; // by variable: what it holds after the step
  InnerGraphs &inner_;
  const int first_;                            // of the op's nodes
  int made_ = 0;                               // names
  std::set<int> bound_;                        // outputs that are there
  std::set<std::string> names_;                // theirs
  std::map<std::string, std::string> renamed_; // values that have become outputs
  std::map<std::string, Wire> casts_;
};

/// numpy's broadcasting.
Shape broadcast(const Shape &a, const Shape &b);

} // namespace opc::onnx_export
