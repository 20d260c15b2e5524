// Each op of a graph file by itself.
// SPDX-License-Identifier: Apache-2.0
#include "GraphNodes.h"

#include "AttrWire.h"
#include "ModelNumber.h"
#include "NearestNames.h"
#include "OpSuggestions.h"
#include "PluginOverrides.h"
#include "TextParts.h"
#include "UnknownNamespace.h"

#include <algorithm>
#include <cmath>
#include <fnmatch.h>
#include <set>
#include <string_view>
#include <unordered_set>

namespace opc {
namespace {

using graph::OperatorConf;

std::string blob(const std::string &name) { return name.empty() ? "out" : name; }

/// So many keys are compared with each other sooner than they are put into a set.
constexpr int kFew = 8;
constexpr char kNanHelp[] =
    "every number that it meets becomes nan; an op without inputs (constant) makes nan where it "
    "is meant";

bool holdsNan(const graph::AttrValue &value) {
  const auto isNan = [](double v) { return std::isnan(v); };
  const auto &list = value.at_list_float().val();
  return isNan(value.at_float()) || isNan(value.at_double()) || std::any_of(list.begin(), list.end(), isNan);
}

class NodeReader {
public:
  explicit NodeReader(GraphNodes *graph) : graph_(*graph) {}

  void run() {
    const auto &ops = graph_.file.job->net().op();
    graph_.nodes.resize(static_cast<size_t>(ops.size()));
    if (ops.empty()) graph_.error(SourceRange(), "OPC0103", "the graph has no op");
    const auto &numbers = graph_.file.job->net().model_number();
    if (const Status s = checkModelNumbers({numbers.begin(), numbers.end()}, "OPC0105"); !s)
      graph_.error(SourceRange(), "OPC0105", s.message(), "write the graph anew from its model");
    readPlacement();
    std::unordered_map<std::string_view, int> names;
    names.reserve(graph_.nodes.size());
    for (int i = 0; i < ops.size(); ++i) {
      const OperatorConf &conf = ops[i];
      Node &node = graph_.nodes[static_cast<size_t>(i)];
      node.conf = &conf;
      if (conf.name().empty()) {
        graph_.error(i, "OPC0105", "an op without a name", "add name: \"...\"");
        continue;
      }
      auto [first, fresh] = names.emplace(conf.name(), i);
      if (!fresh) {
        const SourceRange &r = graph_.file.opRanges[static_cast<size_t>(first->second)];
        graph_.error(i, "OPC0106",
                     "op name '" + conf.name() + "' is used twice" +
                         (r.known() ? "; first at line " + std::to_string(r.line) : ""),
                     "op names are unique in a graph");
        continue;
      }
      node.isOnCpu = isPlaced(conf);
      node.valid = (node.isOnCpu || checkDevice(i, conf)) && read(i, &node);
    }
    for (const std::string &glob : graph_.options.onCpu)
      if (!placed_.count(glob))
        graph_.error(SourceRange(), "OPC0005", "--place: no op and no type of an op is called '" + glob + "'",
                     didYouMean(glob, namesToPlace(), "opc show GRAPH --what ops lists the ops"));
    // Tags divide a graph that has both: where all say the same, the command says where it runs.
    if (graph_.options.isForGpu && isForBoth_[0] && isForBoth_[1])
      for (Node &node : graph_.nodes) node.isOnCpu |= node.conf->has_user_conf() && isCpuTag(tagOf(*node.conf));
    if (elsewhere_.count)
      graph_.warn(elsewhere_.first, "OPC0413",
                  counted(elsewhere_.count, "op") + " ask" + (elsewhere_.count == 1 ? "s" : "") + " for the device " +
                      tagOf(ops[elsewhere_.first]) + ", this one first; all run on the cpu",
                  "device_tag: \"cpu\" says so");
  }

private:
  std::vector<std::string> namesToPlace() const {
    std::set<std::string> names;
    for (const Node &node : graph_.nodes) {
      if (node.conf->has_user_conf()) names.insert({node.conf->name(), node.conf->user_conf().op_type_name()});
      if (names.size() > 20000) break;
    }
    return {names.begin(), names.end()};
  }

  /// Whether --place has put the op on the CPU.
  bool isPlaced(const OperatorConf &conf) {
    bool is = false;
    for (const std::string &glob : graph_.options.onCpu)
      if (fnmatch(glob.c_str(), conf.name().c_str(), 0) == 0 ||
          (conf.has_user_conf() && fnmatch(glob.c_str(), conf.user_conf().op_type_name().c_str(), 0) == 0)) {
        placed_.insert(glob);
        is = true;
      }
    return is;
  }

  /// What the job's placement says of ops that have no tag.
  void readPlacement() {
    for (const graph::PlacementGroup &group : graph_.file.job->placement().placement_group())
      for (const std::string &op : group.op_set().op_name()) placement_[op] = group.parallel_conf().device_tag();
  }
  /// "" where nobody says.
  const std::string &tagOf(const OperatorConf &conf) const {
    static const std::string kNone, kInvalid = OperatorConf().device_tag(); // its default
    const auto placed = placement_.find(conf.name());
    const std::string &tag = conf.has_device_tag() || placed == placement_.end() ? conf.device_tag() : placed->second;
    return tag == kInvalid ? kNone : tag;
  }
  static bool isCpuTag(const std::string &tag) { return tag == DeviceTag(DeviceType::kCPU); }

  /// On the CPU an op that asks for another device is worth a word, and so is a device that nobody knows.
  bool checkDevice(int i, const OperatorConf &conf) {
    const std::string &tag = tagOf(conf);
    if (tag.empty()) return true;
    isForBoth_[isCpuTag(tag)] |= conf.has_user_conf();
    if (isCpuTag(tag)) return true;
    if (tag == "gpu" || tag == "cuda") {
      if (!graph_.options.isForGpu && elsewhere_.count++ == 0) elsewhere_.first = i;
      return true;
    }
    graph_.error(i, "OPC0413", "device_tag '" + tag + "' is no device", "device_tag is cpu or gpu");
    return false;
  }

  bool require(int i, const std::string &value, const char *field) {
    if (!value.empty()) return true;
    graph_.error(i, "OPC0105", std::string("'") + field + "' is missing",
                 std::string("add ") + field + ": \"OP/out_0\"");
    return false;
  }

  /// A graph of its own is never f32 because nobody has said so; a job may say it for all.
  bool requireType(int i, bool isSaid) {
    if (isSaid || graph_.file.job->job_conf().has_default_data_type()) return true;
    graph_.error(i, "OPC0105", "'data_type' is missing: nothing says what numbers " + node(i).conf->name() + " holds",
                 "add data_type: kFloat, or another element type");
    return false;
  }
  const Node &node(int i) const { return graph_.nodes[static_cast<size_t>(i)]; }

  bool read(int i, Node *node) {
    const OperatorConf &conf = *node->conf;
    auto tensor = [&](const std::string &out) { return conf.name() + "/" + blob(out); };
    switch (conf.op_type_case()) {
    case OperatorConf::kInputConf:
      node->makes = {tensor(conf.input_conf().out())};
      return requireType(i, conf.input_conf().blob_conf().has_data_type());
    case OperatorConf::kVariableConf:
      node->makes = {tensor(conf.variable_conf().out())};
      return requireType(i, conf.variable_conf().has_data_type());
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
                    {{"out", {tensor(conf.identity_conf().out())}}},
                    {}};
      return complete(i, node);
    case OperatorConf::kConstantLikeConf: return readConstantLike(i, node, tensor(conf.constant_like_conf().out()));
    case OperatorConf::kUserConf:
      if (!check(i, conf.user_conf())) return false;
      node->user = wire::fromProto(conf.name(), conf.user_conf());
      return complete(i, node);
    case OperatorConf::OP_TYPE_NOT_SET: break;
    }
    graph_.error(i, "OPC0109", "the op has no conf that opc knows",
                 "opc reads input_conf, output_conf, return_conf, variable_conf, identity_conf, constant_like_conf and "
                 "user_conf");
    return false;
  }

  bool readConstantLike(int i, Node *node, std::string out) {
    const auto &c = node->conf->constant_like_conf();
    if (!require(i, c.like(), "like")) return false;
    if (std::isnan(c.float_operand())) {
      graph_.error(i, "OPC0205", "float_operand is nan", kNanHelp);
      return false;
    }
    node->user = {node->conf->name(), "constant_like", {{"like", {c.like()}}}, {{"out", {std::move(out)}}}, {}};
    node->user.attrs["floating_value"] =
        AttrValue(c.has_float_operand() ? c.float_operand() : static_cast<double>(c.int_operand()));
    node->user.attrs["integer_value"] =
        AttrValue(c.has_int_operand() ? static_cast<int64_t>(c.int_operand()) : int64_t{0});
    node->user.attrs["is_floating_value"] = AttrValue(c.has_float_operand());
    return complete(i, node);
  }

  /// What the message allows and no op can have.
  bool check(int i, const graph::UserOpConf &user) {
    if (user.op_type_name().empty()) {
      graph_.error(i, "OPC0105", "user_conf without op_type_name",
                   "add op_type_name: \"relu\", or another op (opc ops lists them)");
      return false;
    }
    bool good = true;
    auto duplicate = [&](const auto &entries, const char *what) {
      std::unordered_set<std::string_view> keys;
      for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
        const auto isSame = [&](const auto &other) { return other.key() == entry->key(); };
        const bool isFirst =
            entries.size() <= kFew ? std::none_of(entries.begin(), entry, isSame) : keys.insert(entry->key()).second;
        if (!isFirst) {
          graph_.error(i, "OPC0106", std::string(what) + " '" + entry->key() + "' is given twice",
                       "merge the entries: the argument's tensors go into one value");
          good = false;
        }
      }
    };
    duplicate(user.input(), "input");
    duplicate(user.output(), "output");
    duplicate(user.attr(), "attribute");
    for (int a = 0; a < user.attr_size(); ++a)
      if (user.attr(a).value().value_case() == graph::AttrValue::VALUE_NOT_SET) {
        graph_.error(graph_.file.attrRange(i, a), "OPC0205", "attribute '" + user.attr(a).key() + "' has no value",
                     "write value { at_int32: 1 }, at_bool, at_string, ...", i);
        good = false;
      } else if (user.input_size() > 0 && holdsNan(user.attr(a).value())) {
        graph_.error(graph_.file.attrRange(i, a), "OPC0205", "attribute '" + user.attr(a).key() + "' is nan", kNanHelp,
                     i);
        good = false;
      }
    return good;
  }

  bool complete(int i, Node *node) {
    node->def = findGraphOp(graph_.registry, node->user.type);
    if (!node->def) {
      unknownType(i, node->user.type);
      return false;
    }
    if (Status s = completeOpConf(*node->def, &node->user); !s.isOk()) {
      graph_.error(i, s.id().c_str(), s.message(), s.help());
      return false;
    }
    if (graph_.options.floatsAs != kInvalidDataType)
      for (auto &a : node->user.attrs) {
        if (const auto *dtype = a.second.get<DataType>(); dtype && IsFloatingDataType(*dtype))
          a.second = AttrValue(graph_.options.floatsAs);
        if (const auto *list = a.second.get<std::vector<DataType>>()) {
          std::vector<DataType> types = *list;
          std::replace_if(types.begin(), types.end(), IsFloatingDataType, graph_.options.floatsAs);
          a.second = AttrValue(types);
        }
      }
    for (const auto &b : node->user.inputs) node->reads.insert(node->reads.end(), b.tensors.begin(), b.tensors.end());
    for (const auto &b : node->user.outputs) node->makes.insert(node->makes.end(), b.tensors.begin(), b.tensors.end());
    return true;
  }

  void unknownType(int i, const std::string &type) {
    if (!graph_.explains()) return graph_.error(i, "OPC0201", "unknown op type '" + type + "'");
    std::string help = suggestOps(graph_.registry, type);
    if (!help.empty()) help += help.back() == '?' ? " " : "; ";
    help += loadedText(graph_.registry.plugins()) + hintOfNamespace(type);
    graph_.error(i, "OPC0201", "unknown op type '" + type + "'", help);
  }

  GraphNodes &graph_;
  struct {
    size_t count = 0;
    int first = 0;
  } elsewhere_;                                            // ops for other devices
  bool isForBoth_[2] = {};                                 // whether ops ask for a GPU, for the CPU
  std::unordered_map<std::string, std::string> placement_; // device_tag, by op
  std::set<std::string> placed_;                           // globs of --place that fit an op
};

} // namespace

void GraphNodes::error(SourceRange range, const char *code, std::string message, std::string help, int op) {
  ++errors_;
  report(Severity::kError, std::move(range), code, std::move(message), std::move(help), op);
}

void GraphNodes::report(Severity severity, SourceRange range, const char *code, std::string message, std::string help,
                        int op) {
  Diagnostic d;
  d.severity = severity;
  d.code = code;
  d.message = std::move(message);
  d.help = std::move(help);
  d.range = std::move(range);
  if (d.range.file.empty()) d.range.file = file.name;
  if (op >= 0) {
    const OperatorConf &conf = file.job->net().op(op);
    if (conf.has_name()) d.subject = "op " + conf.name();
    if (conf.has_loc() && !conf.loc().empty()) d.notePython(conf.loc());
  }
  diagnostics_->push_back(std::move(d));
}

void readNodes(GraphNodes *graph) { NodeReader(graph).run(); }

} // namespace opc
