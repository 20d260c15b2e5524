// One node of an ONNX model on its way into opc's ops: what converters read and make.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxDraft.h"

#include "onnx.pb.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace opc::onnx {

struct OpForm;

/// A value that must be known while importing and is not.
struct Undecided {
  Term term;
  std::string what; // "input 1 (shape) of Reshape"
};

/// What converters of nodes with graphs in their attributes need of the importer.
class GraphInliner {
public:
  virtual ~GraphInliner() = default;
  /// The outputs of `graph` on `inputs`; names of the graph around it are seen.
  virtual std::vector<Term> inlined(const Graph &graph, const std::vector<Term> &inputs) = 0;
  /// The same of a graph that perhaps does not fit its inputs. Then it is null, and what does not fit is in `fault`,
  /// one line.
  virtual std::optional<std::vector<Term>> tried(const Graph &graph, std::string *fault) = 0;
  /// The same of a graph that is to be one of an op: values that must be known do not fit.
  virtual std::optional<std::vector<Term>> triedInOp(const Graph &graph, const std::vector<Term> &inputs,
                                                     std::string *fault) = 0;
  /// Whether an If, and a Loop or Scan, may become an op with a graph. Else it is written out.
  virtual bool mayKeepBranches() const = 0;
  virtual bool mayKeepTurns() const = 0;
};

/// Conversions throw Refusal and Undecided; the importer catches them with the node's place.
class Conversion {
public:
  Conversion(GraphDraft &draft, const Node &node, int64_t version, std::vector<Term> inputs,
             const std::map<std::string, const Attribute *> &attributes, GraphInliner *inliner)
      : draft(draft), node(node), version(version), inputs_(std::move(inputs)), attributes_(attributes),
        inliner_(inliner), results_(static_cast<size_t>(node.output_size())) {}

  GraphDraft &draft;
  const Node &node;
  const int64_t version; // of the operator set

  // What the node has -------------------------------------------------------------------------------------------------
  size_t inputCount() const { return inputs_.size(); }
  bool has(size_t index) const { return index < inputs_.size() && inputs_[index]; }
  /// A tensor that must be there.
  Term in(size_t index) const;
  /// Null where it is left out.
  Term maybe(size_t index) const { return has(index) ? in(index) : nullptr; }
  /// Of any kind.
  Term any(size_t index) const;
  /// All of a variadic input.
  std::vector<Term> all() const;
  bool wants(int index) const { return index < node.output_size() && !node.output(index).empty(); }

  bool hasAttr(const std::string &name) const {
    asked_.insert(name);
    return attributes_.count(name) != 0;
  }
  int64_t i(const std::string &name, int64_t otherwise) const;
  int64_t required(const std::string &name) const;
  double f(const std::string &name, double otherwise) const;
  std::string s(const std::string &name, const std::string &otherwise) const;
  std::optional<std::vector<int64_t>> ints(const std::string &name) const;
  std::vector<int64_t> ints(const std::string &name, std::vector<int64_t> otherwise) const;
  std::vector<double> floats(const std::string &name) const;
  const Attribute *attr(const std::string &name, Attribute::Kind kind) const;
  /// Refuse an op before the operator set in which it has come; inputs, outputs, values of attributes and, after the
  /// conversion, attributes that it does not have.
  void checkVersion(const std::string &domain) const;
  void checkInputs(const std::string &domain) const;
  void checkOutputs(const std::string &domain) const;
  void checkValues(const std::string &domain) const;
  void checkAttributes(const std::string &domain) const;
  /// Refuses input `input` of another type than these.
  void checkType(size_t input, const std::vector<DataType> &types) const;
  /// Refuses input `input` of another shape; `what` have it.
  void checkShape(size_t input, const Shape &shape, const std::string &what) const;
  /// Refuses input `input` where it has more than broadcasts to `shape`.
  void checkStretches(size_t input, const Shape &shape) const;
  /// Refuses axes that a tensor of `rank` does not have, and the same one twice.
  void checkAxes(const std::vector<int64_t> &axes, int64_t rank) const;
  /// An integer that is 0 or 1: checkValues has seen to it.
  bool flag(const std::string &name, bool otherwise) const { return i(name, otherwise) != 0; }
  GraphInliner &inliner() const { return *inliner_; }

  /// The elements of a value that must be known, whatever their type.
  std::vector<int64_t> knownInts(const Term &term, const std::string &what) const;
  std::vector<double> knownFloats(const Term &term, const std::string &what) const;
  /// The same of a value on which nothing relies yet (GraphDraft::rely).
  static std::vector<double> peeked(const Term &known);
  std::vector<int64_t> knownInts(size_t input) const { return knownInts(in(input), inputText(input)); }
  std::vector<double> knownFloats(size_t input) const { return knownFloats(in(input), inputText(input)); }
  /// The same of a tensor that must have one element.
  int64_t knownInt(size_t input) const;
  double knownFloat(size_t input) const;
  /// Attribute `name` in versions below `since`, from there on input `input`; nothing where it is left out.
  std::optional<std::vector<int64_t>> axes(const std::string &name, int64_t since, size_t input) const;

  // What is made of it ------------------------------------------------------------------------------------------------
  Term op(const std::string &type, const std::vector<Term> &inputs, const Attrs &attrs = {}) {
    return draft.add(type, inputs, attrs)[0];
  }
  std::vector<Term> ops(const std::string &type, const std::vector<Term> &inputs, const Attrs &attrs = {},
                        const std::map<std::string, int32_t> &outputs = {}) {
    return draft.add(type, inputs, attrs, outputs);
  }
  Term constant(DataType type, const Shape &shape, const std::vector<double> &values) const;
  Term constant(const std::vector<int64_t> &values, const Shape &shape, DataType type = kInt64) const;
  /// One number of rank 0, of any type.
  Term scalar(DataType type, double value) const { return constant(type, Shape(), {value}); }
  Term reshape(const Term &x, const DimVector &dims);
  Term transpose(const Term &x, const std::vector<int64_t> &perm);
  /// `from` becomes the last axis, the others keep their order; and back.
  Term toLast(const Term &x, int64_t from);
  Term fromLast(const Term &x, int64_t to);
  Term slice(const Term &x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
  Term cast(const Term &x, DataType type) { return x->type() == type ? x : op("cast", {x}, {{"dtype", type}}); }
  Term scaled(const Term &x, double factor); // of floats
  Term plus(const Term &x, double addend);   // of floats
  Term expand(const Term &x, const Shape &shape);
  /// Rows `indices` of `table`. Where they lead out of it the node is refused, or its run has an error that names
  /// `input`, which they are made of.
  Term rows(const Term &table, const Term &indices, size_t input);
  /// Refuses known indices, those of input `input`, outside [0, limit); those of the run the op itself refuses.
  void checkPlaces(const Term &indices, int64_t limit, size_t input) const;
  /// `values`, which must be in [0, limit), as i64; else as rows() has it.
  Term within(const Term &values, int64_t limit, size_t input);

  void out(int index, const Term &term);
  void out(const Term &term) { out(0, term); }
  std::vector<Term> take() { return std::move(results_); }
  const std::vector<Term> &results() const { return results_; }
  /// Another value for an input, before the node is converted.
  void replace(size_t input, const Term &term) { inputs_[input] = term; }
  /// `whole` along `axis` as far as `count`, i64[1], says: cut where that is known, else bounded.
  Term cut(const Term &whole, int64_t axis, const Term &count);
  /// After take(): the outputs are made anew.
  void again() { results_.assign(static_cast<size_t>(node.output_size()), nullptr); }

  // What is wrong with it ---------------------------------------------------------------------------------------------
  /// The node is not valid.
  [[noreturn]] void invalid(const std::string &message, const std::string &help = "") const;
  /// Valid, and not possible with opc.
  [[noreturn]] void unsupported(const std::string &message, const std::string &help = "") const;
  /// Axis `axis` of `rank`, counted from the front.
  int64_t axisOf(int64_t axis, int64_t rank) const;
  std::vector<int64_t> axesOf(std::vector<int64_t> axes, int64_t rank) const;
  std::string inputText(size_t index) const;
  /// opc's element type for ONNX's number.
  DataType elementTypeOf(int64_t number) const;

private:
  void checkOne(size_t input) const;
  /// Refuses an attribute that other operator sets have.
  void checkSet(const OpForm &form, const std::string &attribute) const;
  std::vector<Term> inputs_;
  const std::map<std::string, const Attribute *> &attributes_;
  mutable std::set<std::string> asked_; // attributes that the converter knows
  GraphInliner *inliner_;
  std::vector<Term> results_;
};

/// What is wrong with a node that has such an output, of an op with `most`.
std::string tooManyOutputs(const Node &node, int output, size_t most);

/// Inputs and outputs of several values.
Shape broadcastShape(const Conversion &c, const std::vector<Shape> &shapes);

/// A converter of one op, of all its versions.
struct Converter {
  std::string domain, op;
  std::vector<int64_t> versions; // of the operator set, in which the op has come and changed
  std::function<void(Conversion &)> convert;
  std::string to;   // the ops of opc that it uses
  std::string note; // what of the op it refuses; may be empty
};

class ConverterTable {
public:
  /// All that opc has.
  static const ConverterTable &get();
  const Converter *find(const std::string &domain, const std::string &op) const;
  std::vector<const Converter *> list() const;

  void add(const std::string &op, std::function<void(Conversion &)> convert, const std::string &to,
           const std::string &note = "", const std::string &domain = "");

private:
  std::map<std::pair<std::string, std::string>, Converter> converters_;
};

} // namespace opc::onnx
