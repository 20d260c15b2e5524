// Graph file -> opc dialect.
// SPDX-License-Identifier: Apache-2.0
#include "Importer.h"
#include "AttrBridge.h"
#include "AttrWire.h"
#include "Locations.h"
#include "NearestNames.h"
#include "UserOpBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <queue>
#include <unordered_map>

using namespace mlir;

namespace opc {
namespace {

using graph::OperatorConf;

std::string shortText(const google::protobuf::Message &m) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string s;
  printer.PrintToString(m, &s);
  while (!s.empty() && s.back() == ' ') s.pop_back();
  return s;
}

/// One op of the file, made uniform: what it reads and what it makes.
struct Node {
  const OperatorConf *conf = nullptr;
  user_op::OpConf user; // user ops, completed
  const user_op::OpDef *def = nullptr;
  std::vector<std::string> reads, makes;
  bool valid = false;
  bool isOrdered = false; // another op's ctrl_in_op_name names it
};

class Importer {
public:
  Importer(MLIRContext *ctx, const Registry &registry, const GraphFile &file, const ImportOptions &options,
           std::vector<Diagnostic> *diagnostics)
      : ctx_(ctx), registry_(registry), file_(file), options_(options), diagnostics_(diagnostics), builder_(ctx) {}

  OwningOpRef<ModuleOp> run() {
    collect();
    link();
    if (errors_ == 0) sort();
    if (errors_) return {};
    return build();
  }

private:
  void error(int op, SourceRange range, const char *code, std::string message, std::string help = "") {
    ++errors_;
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.help = std::move(help);
    d.range = std::move(range);
    if (d.range.file.empty()) d.range.file = file_.name;
    if (op >= 0) {
      const OperatorConf &conf = file_.job->net().op(op);
      if (conf.has_name()) d.subject = "op " + conf.name();
      if (conf.has_loc() && !conf.loc().empty())
        d.notes.push_back("python: " + conf.loc() + " (from OperatorConf.loc)");
    }
    diagnostics_->push_back(std::move(d));
  }
  void error(int op, const char *code, std::string message, std::string help = "") {
    error(op, file_.opRanges[static_cast<size_t>(op)], code, std::move(message), std::move(help));
  }

  // Each op by itself.
  void collect() {
    const auto &ops = file_.job->net().op();
    nodes_.resize(static_cast<size_t>(ops.size()));
    if (ops.empty()) {
      ++errors_;
      Diagnostic d;
      d.code = "OPC0103";
      d.message = "the graph has no op";
      d.range.file = file_.name;
      diagnostics_->push_back(d);
    }
    std::unordered_map<std::string, int> names;
    names.reserve(nodes_.size());
    for (int i = 0; i < ops.size(); ++i) {
      const OperatorConf &conf = ops[i];
      Node &node = nodes_[static_cast<size_t>(i)];
      node.conf = &conf;
      if (conf.name().empty()) {
        error(i, "OPC0105", "an op without a name", "add name: \"...\"");
        continue;
      }
      auto [first, fresh] = names.emplace(conf.name(), i);
      if (!fresh) {
        const SourceRange &r = file_.opRanges[static_cast<size_t>(first->second)];
        error(i, "OPC0106",
              "op name '" + conf.name() + "' is used twice" +
                  (r.known() ? "; first at line " + std::to_string(r.line) : ""),
              "op names are unique in a graph");
        continue;
      }
      node.valid = collectKind(i, &node);
    }
  }

  std::string out(const std::string &name) const { return name.empty() ? "out" : name; }

  bool require(int i, const std::string &value, const char *field) {
    if (!value.empty()) return true;
    error(i, "OPC0105", std::string("'") + field + "' is missing", std::string("add ") + field + ": \"OP/out_0\"");
    return false;
  }

  bool collectKind(int i, Node *node) {
    const OperatorConf &conf = *node->conf;
    switch (conf.op_type_case()) {
    case OperatorConf::kInputConf: node->makes = {conf.name() + "/" + out(conf.input_conf().out())}; return true;
    case OperatorConf::kVariableConf: node->makes = {conf.name() + "/" + out(conf.variable_conf().out())}; return true;
    case OperatorConf::kOutputConf:
      node->reads = {conf.output_conf().in()};
      return require(i, conf.output_conf().in(), "in");
    case OperatorConf::kReturnConf:
      node->reads = {conf.return_conf().in()};
      return require(i, conf.return_conf().in(), "in");
    case OperatorConf::kIdentityConf:
      if (!require(i, conf.identity_conf().in(), "in")) return false;
      node->user = {conf.name(),
                    "identity",
                    {{"in", {conf.identity_conf().in()}}},
                    {{"out", {conf.name() + "/" + out(conf.identity_conf().out())}}},
                    {}};
      return complete(i, node);
    case OperatorConf::kConstantLikeConf: {
      const auto &c = conf.constant_like_conf();
      if (!require(i, c.like(), "like")) return false;
      node->user = {
          conf.name(), "constant_like", {{"like", {c.like()}}}, {{"out", {conf.name() + "/" + out(c.out())}}}, {}};
      node->user.attrs["floating_value"] =
          AttrValue(c.has_float_operand() ? c.float_operand() : static_cast<double>(c.int_operand()));
      node->user.attrs["integer_value"] =
          AttrValue(c.has_int_operand() ? static_cast<int64_t>(c.int_operand()) : int64_t{0});
      node->user.attrs["is_floating_value"] = AttrValue(c.has_float_operand());
      return complete(i, node);
    }
    case OperatorConf::kUserConf: {
      const graph::UserOpConf &user = conf.user_conf();
      if (user.op_type_name().empty()) {
        error(i, "OPC0105", "user_conf without op_type_name",
              "add op_type_name: \"relu\", or another op (opc ops lists them)");
        return false;
      }
      bool good = true;
      auto duplicate = [&](const auto &entries, const char *what) {
        for (int a = 0; a < entries.size(); ++a)
          for (int b = a + 1; b < entries.size(); ++b)
            if (entries[a].key() == entries[b].key()) {
              error(i, "OPC0106", std::string(what) + " '" + entries[a].key() + "' is given twice",
                    "merge the entries: the argument's tensors go into one value");
              good = false;
            }
      };
      duplicate(user.input(), "input");
      duplicate(user.output(), "output");
      duplicate(user.attr(), "attribute");
      for (int a = 0; a < user.attr_size(); ++a)
        if (user.attr(a).value().value_case() == graph::AttrValue::VALUE_NOT_SET) {
          error(i, file_.attrRange(i, a), "OPC0205", "attribute '" + user.attr(a).key() + "' has no value",
                "write value { at_int32: 1 }, at_bool, at_string, ...");
          good = false;
        }
      if (!good) return false;
      node->user = wire::fromProto(conf.name(), user);
      return complete(i, node);
    }
    case OperatorConf::OP_TYPE_NOT_SET: break;
    }
    error(i, "OPC0109", "the op has no conf that opc knows",
          "opc reads input_conf, output_conf, return_conf, variable_conf, identity_conf, constant_like_conf and "
          "user_conf");
    return false;
  }

  bool complete(int i, Node *node) {
    node->def = registry_.findOp(node->user.type);
    if (!node->def) {
      const auto near = registry_.nearest(node->user.type);
      std::string help;
      for (const auto &n : near) help += (help.empty() ? "did you mean " : " or ") + n;
      if (!help.empty()) help += "? ";
      help += "loaded plugins: ";
      if (registry_.plugins().empty()) help += "none (--plugin LIB loads one)";
      for (const auto &p : registry_.plugins()) help += p.path + " ";
      error(i, "OPC0201", "unknown op type '" + node->user.type + "'", help);
      return false;
    }
    if (Status s = completeOpConf(*node->def, &node->user); !s.isOk()) {
      error(i, s.id().c_str(), s.message(), s.help());
      return false;
    }
    if (options_.floatsAs != kInvalidDataType)
      for (auto &a : node->user.attrs)
        if (const auto *dtype = a.second.get<DataType>(); dtype && IsFloatingDataType(*dtype))
          a.second = AttrValue(options_.floatsAs);
    for (const auto &b : node->user.inputs) node->reads.insert(node->reads.end(), b.tensors.begin(), b.tensors.end());
    for (const auto &b : node->user.outputs) node->makes.insert(node->makes.end(), b.tensors.begin(), b.tensors.end());
    return true;
  }

  /// OneFlow v0.3's names may carry hints, "op/out_0:S0" (an SBP hint) and "|n" (no boxing).
  static std::string withoutHints(std::string name) {
    if (name.size() > 2 && name.compare(name.size() - 2, 2, "|n") == 0) name.resize(name.size() - 2);
    const size_t colon = name.rfind(':');
    if (colon == std::string::npos || colon + 1 >= name.size()) return name;
    const std::string hint = name.substr(colon + 1);
    const bool split = hint[0] == 'S' && hint.size() > 1 &&
                       std::all_of(hint.begin() + 1, hint.end(), [](char c) { return c >= '0' && c <= '9'; });
    return split || hint == "B" || hint == "P" ? name.substr(0, colon) : name;
  }

  SourceRange readRange(int op, size_t flat) const {
    const OperatorConf &conf = *nodes_[static_cast<size_t>(op)].conf;
    if (conf.op_type_case() != OperatorConf::kUserConf) return file_.opRanges[static_cast<size_t>(op)];
    const std::string &wanted = nodes_[static_cast<size_t>(op)].reads[flat];
    for (int e = 0; e < conf.user_conf().input_size(); ++e)
      for (int t = 0; t < conf.user_conf().input(e).value().s_size(); ++t)
        if (conf.user_conf().input(e).value().s(t) == wanted) return file_.inputRange(op, e, t);
    return file_.opRanges[static_cast<size_t>(op)];
  }

  // Names to producers.
  void link() {
    producers_.reserve(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (size_t k = 0; k < nodes_[i].makes.size(); ++k) {
        auto [it, fresh] =
            producers_.emplace(nodes_[i].makes[k], std::make_pair(static_cast<int>(i), static_cast<int>(k)));
        if (!fresh)
          error(static_cast<int>(i), "OPC0106",
                "tensor '" + nodes_[i].makes[k] + "' is made twice; also by op " +
                    nodes_[static_cast<size_t>(it->second.first)].conf->name());
      }
    inputs_.resize(nodes_.size());
    linkControl();
    // An op that failed by itself makes nothing: readers of its tensors are not to blame.
    std::unordered_map<std::string, bool> failed;
    for (const Node &n : nodes_)
      if (!n.valid && n.conf) failed[n.conf->name()] = true;
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (size_t k = 0; k < nodes_[i].reads.size(); ++k) {
        const std::string &name = nodes_[i].reads[k];
        auto it = producers_.find(name);
        if (it == producers_.end()) it = producers_.find(withoutHints(name));
        if (it != producers_.end()) {
          inputs_[i].push_back(it->second);
          continue;
        }
        if (failed.count(name.substr(0, name.find('/')))) continue;
        unknownTensor(static_cast<int>(i), k, name);
      }
  }

  /// What ctrl_in_op_name names must exist. Only between ops that run does it order anything.
  void linkControl() {
    controls_.resize(nodes_.size());
    std::unordered_map<std::string_view, int> byName;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const OperatorConf &conf = *nodes_[i].conf;
      if (conf.ctrl_in_op_name_size() == 0) continue;
      if (byName.empty())
        for (size_t k = 0; k < nodes_.size(); ++k) byName.emplace(nodes_[k].conf->name(), static_cast<int>(k));
      for (const std::string &name : conf.ctrl_in_op_name()) {
        auto it = byName.find(name);
        if (it == byName.end()) {
          std::vector<std::string> all;
          for (const Node &n : nodes_) all.push_back(n.conf->name());
          const auto near = nodes_.size() <= 20000 ? nearestNames(name, all, 1) : std::vector<std::string>();
          error(static_cast<int>(i), "OPC0113", "ctrl_in_op_name names '" + name + "', and no op is called that",
                near.empty() ? "" : "did you mean '" + near[0] + "'?");
        } else if (nodes_[i].def && nodes_[static_cast<size_t>(it->second)].def) {
          controls_[i].push_back(it->second);
          nodes_[static_cast<size_t>(it->second)].isOrdered = true;
        }
      }
    }
  }

  void unknownTensor(int op, size_t flat, const std::string &name) {
    std::string help;
    // The op may exist and only the blob name be wrong: that is by far the commonest slip.
    const std::string opName = name.substr(0, name.find('/'));
    for (const Node &n : nodes_)
      if (n.valid && n.conf->name() == opName)
        help = n.makes.empty() ? "op " + opName + " makes no tensor" : "op " + opName + " makes '" + n.makes[0] + "'";
    if (help.empty() && nodes_.size() <= 20000) {
      std::vector<std::string> all;
      for (const auto &p : producers_) all.push_back(p.first);
      std::sort(all.begin(), all.end());
      const auto near = nearestNames(name, all, 1);
      if (!near.empty()) help = "did you mean '" + near[0] + "'?";
    }
    error(op, readRange(op, flat), "OPC0107", "no op makes the tensor '" + name + "'", help);
  }

  // Topological order, ties by name.
  void sort() {
    const size_t n = nodes_.size();
    // The beginnings of the names lie side by side: comparing through pointers misses the cache at every step.
    struct Key {
      std::array<char, 16> head{};
      uint32_t op = 0;
    };
    std::vector<Key> keys(n);
    for (uint32_t i = 0; i < n; ++i) {
      const std::string &name = nodes_[i].conf->name();
      std::memcpy(keys[i].head.data(), name.data(), std::min(name.size(), keys[i].head.size()));
      keys[i].op = i;
    }
    std::sort(keys.begin(), keys.end(), [&](const Key &a, const Key &b) {
      const int order = std::memcmp(a.head.data(), b.head.data(), a.head.size());
      return order != 0 ? order < 0 : nodes_[a.op].conf->name() < nodes_[b.op].conf->name();
    });
    std::vector<uint32_t> byName(n), rank(n);
    for (uint32_t r = 0; r < n; ++r) byName[r] = keys[r].op;
    for (uint32_t r = 0; r < n; ++r) rank[byName[r]] = r;
    std::vector<uint32_t> pending(n, 0);
    std::vector<std::vector<uint32_t>> readers(n);
    for (uint32_t i = 0; i < n; ++i)
      for (const auto &in : inputs_[i]) {
        readers[static_cast<size_t>(in.first)].push_back(i);
        ++pending[i];
      }
    for (uint32_t i = 0; i < n; ++i)
      for (int before : controls_[i]) {
        readers[static_cast<size_t>(before)].push_back(i);
        ++pending[i];
      }
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready; // by rank
    for (uint32_t i = 0; i < n; ++i)
      if (!pending[i]) ready.push(rank[i]);
    while (!ready.empty()) {
      const uint32_t i = byName[ready.top()];
      ready.pop();
      order_.push_back(i);
      for (uint32_t r : readers[i])
        if (--pending[r] == 0) ready.push(rank[r]);
    }
    if (order_.size() == n) return;
    // Walk backwards through ops that still wait: the walk must close.
    uint32_t at = 0;
    while (!pending[at]) ++at;
    std::vector<uint32_t> path;
    std::vector<bool> seen(n, false);
    while (!seen[at]) {
      seen[at] = true;
      path.push_back(at);
      std::vector<int> waitsFor = controls_[at];
      for (const auto &in : inputs_[at]) waitsFor.push_back(in.first);
      for (int before : waitsFor)
        if (pending[static_cast<size_t>(before)]) {
          at = static_cast<uint32_t>(before);
          break;
        }
    }
    std::string text = nodes_[at].conf->name();
    for (size_t k = path.size(); k-- > 0 && path[k] != at;) text += " -> " + nodes_[path[k]].conf->name();
    error(static_cast<int>(at), "OPC0108", "the ops form a cycle: " + text + " -> " + nodes_[at].conf->name(),
          "a graph is static and acyclic: break the cycle with a variable");
  }

  Location location(uint32_t i) {
    const Node &node = nodes_[i];
    const OperatorConf &conf = *node.conf;
    const SourceRange &r = file_.opRanges[i];
    ir::OpLocation l;
    l.name = conf.name();
    l.file = file_.name;
    l.line = r.line, l.column = r.column, l.endLine = r.endLine, l.endColumn = r.endColumn;
    l.pythonLoc = conf.loc();
    if (conf.has_trainable() || conf.has_device_tag() || conf.ctrl_in_op_name_size() || conf.has_scope_symbol_id() ||
        conf.has_pass_tag() || conf.has_logical_chain_id() || conf.has_order_in_logical_chain() ||
        conf.has_calculation_pass_name()) {
      OperatorConf rest = conf;
      rest.clear_op_type();
      rest.clear_name();
      rest.clear_loc();
      rest.DiscardUnknownFields();
      l.conf = shortText(rest);
    }
    size_t flat = 0;
    bool custom = false;
    for (const auto &b : node.user.outputs)
      for (size_t k = 0; k < b.tensors.size(); ++k)
        custom |= node.makes[flat++] != conf.name() + "/" + b.name + "_" + std::to_string(k);
    if (!node.def && !node.makes.empty()) custom = node.makes[0] != conf.name() + "/out";
    if (custom) l.tensors.assign(node.makes.begin(), node.makes.end());
    return ir::makeLocation(ctx_, l);
  }

  /// After an error the type is unresolved, so that the ops that read the value can still be built and checked.
  Type interfaceType(uint32_t i, const std::string &name, bool hasShape, const graph::ShapeProto &shape,
                     DataType dtype) {
    if (options_.floatsAs != kInvalidDataType && IsFloatingDataType(dtype)) dtype = options_.floatsAs;
    DimVector dims(shape.dim().begin(), shape.dim().end());
    auto given = options_.shapes.find(name);
    if (given != options_.shapes.end()) {
      dims.assign(given->second.begin(), given->second.end());
      hasShape = true;
    }
    if (!isTensorDataType(dtype)) {
      error(static_cast<int>(i), "OPC0204",
            "op " + name + ": the dtype " + dataTypeName(dtype) + " is not one that tensors may have");
      return ir::UnresolvedType::get(ctx_);
    }
    if (!hasShape) return ir::UnresolvedType::get(ctx_);
    if (static_cast<int64_t>(dims.size()) > kMaxRank) {
      error(static_cast<int>(i), "OPC0206",
            "op " + name + ": rank " + std::to_string(dims.size()) + "; the limit is " + std::to_string(kMaxRank));
      return ir::UnresolvedType::get(ctx_);
    }
    for (int64_t d : dims)
      if (d < -1) {
        error(static_cast<int>(i), "OPC0206",
              "op " + name + ": the shape " + Shape(dims).ToString() + " has a negative dimension",
              "-1 alone is allowed: a dimension that --shape or the input gives");
        return ir::UnresolvedType::get(ctx_);
      }
    user_op::TensorDesc desc(Shape(dims), dtype);
    if (std::find(dims.begin(), dims.end(), -1) == dims.end())
      if (auto bytes = tensorBytes(desc); !bytes) {
        error(static_cast<int>(i), "OPC0206", "op " + name + ": " + bytes.status().message());
        return ir::UnresolvedType::get(ctx_);
      }
    return ir::tensorType(ctx_, desc);
  }

  DataType defaultDtype() const { return static_cast<DataType>(file_.job->job_conf().default_data_type()); }

  OwningOpRef<ModuleOp> build() {
    OwningOpRef<ModuleOp> module = ModuleOp::create(builder_.getUnknownLoc());
    graph::Job rest;
    rest.CopyFrom(jobWithoutNet());
    if (std::string text = shortText(rest); !text.empty()) (*module)->setAttr("opc.job", builder_.getStringAttr(text));
    builder_.setInsertionPointToEnd(module->getBody());
    auto func = func::FuncOp::create(builder_, builder_.getUnknownLoc(), "graph", builder_.getFunctionType({}, {}));
    builder_.setInsertionPointToStart(func.addEntryBlock());
    results_.resize(nodes_.size());
    for (uint32_t i : order_) buildOp(i);
    func::ReturnOp::create(builder_, builder_.getUnknownLoc());
    if (errors_) return {};
    return module;
  }

  graph::Job jobWithoutNet() const {
    graph::Job job;
    if (file_.job->has_placement()) *job.mutable_placement() = file_.job->placement();
    if (file_.job->has_job_conf()) *job.mutable_job_conf() = file_.job->job_conf();
    if (file_.job->has_job_parallel_view_conf())
      *job.mutable_job_parallel_view_conf() = file_.job->job_parallel_view_conf();
    job.DiscardUnknownFields();
    return job;
  }

  Value operand(uint32_t i, size_t k) {
    const auto &[op, out] = inputs_[i][k];
    return results_[static_cast<size_t>(op)]->getResult(static_cast<unsigned>(out));
  }

  /// States that the file asks for: hints on input names and the job's job_parallel_view_conf; of operands, then of
  /// results, "" for none.
  void addHints(uint32_t i) {
    const Node &node = nodes_[i];
    SmallVector<std::string> hints(node.reads.size() + node.makes.size());
    bool any = false;
    for (size_t k = 0; k < node.reads.size(); ++k) {
      const std::string &name = node.reads[k];
      if (producers_.count(name)) continue;
      const std::string rest = withoutHints(name);
      if (rest.size() + 1 < name.size() && name[rest.size()] == ':') {
        hints[k] = name.substr(rest.size() + 1);
        if (const size_t bar = hints[k].find('|'); bar != std::string::npos) hints[k].resize(bar);
        any = true;
      }
    }
    auto fromView = [&](const std::string &bn, std::string states) {
      size_t flat = 0;
      for (const auto *list : {&node.user.inputs, &node.user.outputs})
        for (const auto &b : *list)
          for (size_t t = 0; t < b.tensors.size(); ++t, ++flat)
            if (bn == b.name + "_" + std::to_string(t)) {
              hints[flat] = std::move(states);
              any = true;
              return;
            }
    };
    if (viewHints_.empty() && file_.job->has_job_parallel_view_conf()) readViewHints();
    if (auto it = viewHints_.find(node.conf->name()); it != viewHints_.end())
      for (const auto &[bn, states] : it->second) fromView(bn, states);
    if (!any) return;
    results_[i]->setAttr(ir::kHintsAttr, builder_.getStrArrayAttr(SmallVector<StringRef>(hints.begin(), hints.end())));
  }

  static std::string stateText(const graph::SbpParallel &s) {
    if (s.has_split_parallel()) return "S(" + std::to_string(s.split_parallel().axis()) + ")";
    return s.has_partial_sum_parallel() ? "P" : s.has_broadcast_parallel() ? "B" : "";
  }
  void readViewHints() {
    const auto &view = file_.job->job_parallel_view_conf();
    for (const auto &op : view.op_name2sbp_signature_conf())
      for (const auto &e : op.value().bn_in_op2sbp_parallel())
        if (std::string s = stateText(e.value()); !s.empty()) viewHints_[op.key()].push_back({e.key(), s});
    for (const auto &op : view.op_name2nd_sbp_signature_conf())
      for (const auto &e : op.value().bn_in_op2nd_sbp()) {
        std::string text;
        for (const auto &s : e.value().sbp_parallel()) text += (text.empty() ? "" : ", ") + stateText(s);
        if (!text.empty())
          viewHints_[op.key()].push_back({e.key(), e.value().sbp_parallel_size() == 1 ? text : "[" + text + "]"});
      }
  }

  void buildOp(uint32_t i) {
    const Node &node = nodes_[i];
    const OperatorConf &conf = *node.conf;
    Location loc = location(i);
    switch (conf.op_type_case()) {
    case OperatorConf::kInputConf: {
      graph::InputOpConf rest = conf.input_conf();
      const auto &blob = conf.input_conf().blob_conf();
      Type type = interfaceType(i, conf.name(), blob.has_shape(), blob.shape(),
                                blob.has_data_type() ? static_cast<DataType>(blob.data_type()) : defaultDtype());
      rest.clear_out();
      rest.mutable_blob_conf()->clear_shape();
      // Without a shape the type cannot carry the dtype; the conf keeps it until a shape comes.
      if (!isa<ir::UnresolvedType>(type)) rest.mutable_blob_conf()->clear_data_type();
      if (rest.blob_conf().ByteSizeLong() == 0) rest.clear_blob_conf();
      rest.DiscardUnknownFields();
      results_[i] = ir::InputOp::create(builder_, loc, type, conf.name(), shortText(rest));
      return;
    }
    case OperatorConf::kVariableConf: {
      graph::VariableOpConf rest = conf.variable_conf();
      Type type =
          interfaceType(i, conf.name(), conf.variable_conf().has_shape(), conf.variable_conf().shape(),
                        conf.variable_conf().has_data_type() ? static_cast<DataType>(conf.variable_conf().data_type())
                                                             : defaultDtype());
      rest.clear_out();
      rest.clear_shape();
      if (!isa<ir::UnresolvedType>(type)) rest.clear_data_type();
      rest.DiscardUnknownFields();
      results_[i] = ir::VariableOp::create(builder_, loc, type, conf.name(), shortText(rest));
      std::string states;
      for (const std::string &s : conf.variable_conf().nd_sbp()) states += (states.empty() ? "" : ", ") + s;
      if (conf.variable_conf().nd_sbp_size() > 1) states = "[" + states + "]";
      if (conf.variable_conf().split_axis().has_value() && conf.variable_conf().split_axis().value() >= 0)
        states = "S(" + std::to_string(conf.variable_conf().split_axis().value()) + ")";
      if (!states.empty()) results_[i]->setAttr(ir::kHintsAttr, builder_.getStrArrayAttr({StringRef(states)}));
      return;
    }
    case OperatorConf::kOutputConf: {
      graph::OutputOpConf rest = conf.output_conf();
      rest.clear_in();
      rest.clear_blob_conf();
      rest.DiscardUnknownFields();
      results_[i] = ir::OutputOp::create(builder_, loc, operand(i, 0), conf.name(), shortText(rest));
      return;
    }
    case OperatorConf::kReturnConf:
      results_[i] = ir::OutputOp::create(builder_, loc, operand(i, 0), conf.name(), "");
      return;
    default: break;
    }
    SmallVector<Value> operands;
    for (size_t k = 0; k < node.reads.size(); ++k) operands.push_back(operand(i, k));
    SmallVector<Type> types(node.makes.size(), ir::UnresolvedType::get(ctx_));
    results_[i] = ir::UserOpBuilder(builder_, node.user, operands, types).make(loc);
    addHints(i);
    if (node.isOrdered) results_[i]->setAttr(ir::kOrderedAttr, builder_.getUnitAttr());
    if (!controls_[i].empty()) {
      SmallVector<StringRef> names;
      for (int before : controls_[i]) names.push_back(nodes_[static_cast<size_t>(before)].conf->name());
      results_[i]->setAttr(ir::kCtrlInAttr, builder_.getStrArrayAttr(names));
    }
  }

  MLIRContext *ctx_;
  const Registry &registry_;
  const GraphFile &file_;
  const ImportOptions &options_;
  std::vector<Diagnostic> *diagnostics_;
  OpBuilder builder_;
  size_t errors_ = 0;
  std::vector<Node> nodes_;
  std::unordered_map<std::string, std::pair<int, int>> producers_; // tensor -> op, flat output
  std::vector<std::vector<std::pair<int, int>>> inputs_;
  std::vector<std::vector<int>> controls_; // ops that must run before each
  std::vector<uint32_t> order_;
  std::vector<Operation *> results_;
  std::unordered_map<std::string, std::vector<std::pair<std::string, std::string>>> viewHints_; // op -> (bn, states)
};

} // namespace

OwningOpRef<ModuleOp> importGraph(MLIRContext *ctx, const Registry &registry, const GraphFile &file,
                                  const ImportOptions &options, std::vector<Diagnostic> *diagnostics) {
  return Importer(ctx, registry, file, options, diagnostics).run();
}

} // namespace opc
