// Records of a lock file: from facts to JSON and back, a section at a time.
// SPDX-License-Identifier: Apache-2.0
#include "LockRecords.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

namespace opc::lock {
namespace {

/// The place of every op and tensor in topological order, ties by name: what the file's order is made of.
class GraphOrder {
public:
  explicit GraphOrder(const GraphFacts &facts) {
    for (const auto *ports : {&facts.inputs, &facts.variables})
      for (const GraphTensor &t : *ports) placeTensor(t.name, t.tensor);
    sortOps(facts.ops);
    for (const GraphTensor &t : facts.outputs) place_.try_emplace(t.name, place_.size());
  }

  const std::vector<const GraphOp *> &ops() const { return ops_; }
  size_t of(const std::string &name) const {
    const auto found = place_.find(name);
    return found == place_.end() ? SIZE_MAX : found->second;
  }

private:
  void placeTensor(const std::string &op, const std::string &tensor) {
    const size_t place = place_.size();
    place_.try_emplace(op, place);
    place_.try_emplace(tensor, place);
  }

  void sortOps(const std::vector<GraphOp> &ops) {
    std::map<std::string, size_t> maker;
    for (size_t i = 0; i < ops.size(); ++i)
      for (const GraphTensor &out : ops[i].outputs) maker.try_emplace(out.tensor, i);
    std::vector<size_t> waiting(ops.size(), 0);
    std::vector<std::vector<size_t>> readers(ops.size());
    for (size_t i = 0; i < ops.size(); ++i)
      for (const auto &in : ops[i].inputs)
        if (const auto m = maker.find(in.tensor); m != maker.end() && m->second != i) {
          ++waiting[i];
          readers[m->second].push_back(i);
        }
    std::set<std::pair<std::string, size_t>> ready;
    for (size_t i = 0; i < ops.size(); ++i)
      if (!waiting[i]) ready.insert({ops[i].name, i});
    while (!ready.empty()) {
      const size_t i = ready.begin()->second;
      ready.erase(ready.begin());
      ops_.push_back(&ops[i]);
      place_.try_emplace(ops[i].name, place_.size());
      for (const GraphTensor &out : ops[i].outputs) place_.try_emplace(out.tensor, place_.size());
      for (const size_t reader : readers[i])
        if (--waiting[reader] == 0) ready.insert({ops[reader].name, reader});
    }
  }

  std::vector<const GraphOp *> ops_;
  std::map<std::string, size_t> place_;
};

/// "0-3,6".
std::string ranksRecord(const std::vector<uint32_t> &ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::vector<Json> interfaceRecords(const Lock &lock) {
  const GraphFacts &facts = lock.facts;
  std::vector<Json> records;
  for (const GraphTensor &t : facts.inputs) {
    records.push_back({{"in", t.name}, {"type", typeRecord(t.dtype, t.shape)}, {"tensor", t.tensor}});
    if (const auto declared = lock.declared.find(t.name); declared != lock.declared.end())
      records.back()["declared"] = declared->second;
  }
  for (const GraphTensor &t : facts.outputs)
    records.push_back({{"out", t.name}, {"type", typeRecord(t.dtype, t.shape)}, {"tensor", t.tensor}});
  for (const GraphTensor &t : facts.variables) {
    Json record = {{"var", t.name}, {"type", typeRecord(t.dtype, t.shape)}, {"tensor", t.tensor}};
    if (const std::string initial = initialText(t); !initial.empty()) record["init"] = initial;
    if (!t.trainable) record["trainable"] = false;
    records.push_back(std::move(record));
  }
  return records;
}

void addPort(const Json &record, Lock *lock) {
  GraphFacts *facts = &lock->facts;
  GraphTensor t;
  const std::string kind = record.begin().key();
  t.name = record.begin().value().get<std::string>();
  readType(record.at("type").get<std::string>(), &t.dtype, &t.shape);
  t.tensor = record.at("tensor").get<std::string>();
  readInitial(record.value("init", ""), &t);
  t.trainable = kind == "var" && record.value("trainable", true);
  if (kind == "in" && record.contains("declared")) lock->declared[t.name] = record.at("declared").get<std::string>();
  if (kind == "in")
    facts->inputs.push_back(std::move(t));
  else if (kind == "out")
    facts->outputs.push_back(std::move(t));
  else if (kind == "var")
    facts->variables.push_back(std::move(t));
  else
    throw BadRecord("a record of the interface begins with in, out or var, and not with '" + kind + "'");
}

Json opRecord(const GraphOp &op) {
  Json record = {{"op", op.name}, {"type", op.type}};
  if (op.role != "forward") record["role"] = op.role;
  if (!op.gradientOf.empty()) record["gradient_of"] = op.gradientOf;
  if (!op.device.empty()) record["device"] = op.device;
  if (!op.after.empty()) record["after"] = std::set<std::string>(op.after.begin(), op.after.end());
  Json attrs = Json::object(), in = Json::object(), out = Json::object();
  for (const auto &a : op.attrs) attrs[a.first] = attrRecord(a.second);
  for (const GraphOperand &i : op.inputs) in[i.slot.text()] = i.tensor;
  for (const GraphTensor &o : op.outputs) out[o.name] = o.tensor;
  if (!attrs.empty()) record["attrs"] = std::move(attrs);
  if (!in.empty()) record["in"] = std::move(in);
  if (!out.empty()) record["out"] = std::move(out);
  return record;
}

/// "in_0".
GraphSlot slotOf(const std::string &text) {
  const size_t mark = std::min(text.rfind('_'), text.size());
  GraphSlot slot{text.substr(0, mark), -1};
  const char *const first = text.data() + std::min(mark + 1, text.size()), *const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, slot.index);
  if (error != std::errc() || end != last || slot.text() != text)
    throw BadRecord("'" + text + "' is no argument with the number of a tensor");
  return slot;
}

GraphOp opOf(const Json &record) {
  GraphOp op;
  op.name = record.at("op").get<std::string>();
  op.type = record.at("type").get<std::string>();
  op.role = record.value("role", "forward");
  op.gradientOf = record.value("gradient_of", "");
  op.device = record.value("device", "");
  op.after = record.value("after", std::vector<std::string>());
  const Json attrs = record.value("attrs", Json::object()), in = record.value("in", Json::object()),
             out = record.value("out", Json::object());
  for (const auto &a : attrs.items()) op.attrs[a.key()] = attrOf(a.value());
  for (const auto &i : in.items()) op.inputs.push_back({slotOf(i.key()), i.value().get<std::string>()});
  for (const auto &o : out.items()) {
    GraphTensor t;
    t.name = o.key();
    t.slot = slotOf(o.key());
    t.tensor = o.value().get<std::string>();
    op.outputs.push_back(std::move(t));
  }
  return op;
}

std::vector<Json> opRecords(const GraphFacts &facts, bool forward) {
  std::vector<Json> records;
  const GraphOrder order(facts);
  for (const GraphOp *op : order.ops())
    if ((op->role == "forward") == forward) records.push_back(opRecord(*op));
  return records;
}

/// Sorted by name: what reads a constant, and so its place, is no matter of its own.
std::vector<Json> constantRecords(const std::vector<GraphOp> &constants) {
  std::map<std::string, const GraphOp *> byName;
  for (const GraphOp &op : constants) byName.emplace(op.name, &op);
  std::vector<Json> records;
  for (const auto &[name, op] : byName) {
    records.push_back(opRecord(*op));
    records.back()["tensor"] = typeRecord(op->outputs.at(0).dtype, op->outputs.at(0).shape);
  }
  return records;
}

GraphOp constantOf(const Json &record) {
  GraphOp op = opOf(record);
  if (op.outputs.size() != 1) throw BadRecord("a constant has one tensor");
  op.isValue = true;
  readType(record.at("tensor").get<std::string>(), &op.outputs[0].dtype, &op.outputs[0].shape);
  return op;
}

std::vector<Json> tensorRecords(const GraphFacts &facts) {
  std::vector<Json> records;
  const GraphOrder order(facts);
  for (const GraphOp *op : order.ops())
    for (const GraphTensor &t : op->outputs) {
      records.push_back({{"tensor", t.tensor}, {"type", typeRecord(t.dtype, t.shape)}});
      if (const auto piece = facts.pieces.find(t.tensor); piece != facts.pieces.end())
        records.back()["pieces"] = piece->second;
    }
  return records;
}

std::vector<Json> gradRecords(const GraphFacts &facts) {
  std::vector<Json> records;
  for (const GraphGradient &g : facts.gradients) {
    Json record = {{"of", g.name}, {"tensor", g.tensor}};
    if (!g.gradient.empty()) record["gradient"] = g.gradient;
    if (!g.output.empty()) record["out"] = g.output;
    records.push_back(std::move(record));
  }
  for (Json &op : opRecords(facts, false)) records.push_back(std::move(op));
  return records;
}

void addGradient(const Json &record, GraphFacts *facts) {
  if (record.contains("op")) {
    facts->ops.push_back(opOf(record));
    return;
  }
  GraphGradient g;
  g.name = record.at("of").get<std::string>();
  g.tensor = record.at("tensor").get<std::string>();
  g.gradient = record.value("gradient", "");
  g.output = record.value("out", "");
  facts->gradients.push_back(std::move(g));
}

std::vector<Json> stateRecords(const GraphFacts &facts) {
  std::vector<Json> records;
  for (const Placement &p : facts.mesh.placements) records.push_back({{"mesh", p.dims}, {"ranks", p.ranks}});
  const GraphOrder order(facts);
  std::vector<const MeshFacts::Op *> ops;
  for (const MeshFacts::Op &op : facts.mesh.ops) ops.push_back(&op);
  std::stable_sort(ops.begin(), ops.end(), [&](const auto *a, const auto *b) {
    return std::make_pair(order.of(a->name), a->name) < std::make_pair(order.of(b->name), b->name);
  });
  for (const MeshFacts::Op *op : ops)
    records.push_back({{"op", op->name}, {"type", op->type}, {"sbp", op->signature}, {"on", op->placement}});
  return records;
}

void addState(const Json &record, GraphFacts *facts) {
  if (record.contains("mesh")) {
    facts->mesh.placements.push_back(
        {record.at("mesh").get<std::vector<int64_t>>(), record.at("ranks").get<std::vector<int64_t>>()});
    return;
  }
  facts->mesh.ops.push_back({record.at("op").get<std::string>(), record.at("type").get<std::string>(),
                             record.at("sbp").get<std::string>(), record.at("on").get<uint32_t>()});
}

std::vector<Json> boxingRecords(const GraphFacts &facts) {
  const GraphOrder order(facts);
  std::vector<std::pair<size_t, Json>> placed;
  for (const MeshFacts::Transition &t : facts.mesh.transitions) {
    Json record = {{"tensors", t.tensors}, {"kind", t.kind},   {"sbp", t.from + "->" + t.to},
                   {"dim", t.meshDim},     {"bytes", t.bytes}, {"channel", t.channel},
                   {"on", t.source},       {"to", t.target}};
    placed.push_back({t.tensors.empty() ? SIZE_MAX : order.of(t.tensors[0]), std::move(record)});
  }
  std::stable_sort(placed.begin(), placed.end(), [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first < b.first : a.second.dump() < b.second.dump();
  });
  std::vector<Json> records;
  for (auto &p : placed) records.push_back(std::move(p.second));
  return records;
}

void addTransition(const Json &record, GraphFacts *facts) {
  MeshFacts::Transition t;
  t.tensors = record.at("tensors").get<std::vector<std::string>>();
  t.kind = record.at("kind").get<std::string>();
  const auto states = record.at("sbp").get<std::string>();
  const size_t arrow = states.find("->");
  if (arrow == std::string::npos) throw BadRecord("'" + states + "' is no transition between states");
  t.from = states.substr(0, arrow);
  t.to = states.substr(arrow + 2);
  t.meshDim = record.at("dim").get<int32_t>();
  t.bytes = record.at("bytes").get<int64_t>();
  t.channel = record.at("channel").get<uint32_t>();
  t.source = record.at("on").get<uint32_t>();
  t.target = record.at("to").get<uint32_t>();
  facts->mesh.transitions.push_back(std::move(t));
}

std::vector<Json> taskRecords(const Lock &lock) {
  const GraphFacts &facts = lock.facts;
  const GraphOrder order(facts);
  std::vector<const GraphTask *> tasks;
  for (const GraphTask &t : facts.tasks) tasks.push_back(&t);
  std::stable_sort(tasks.begin(), tasks.end(), [&](const auto *a, const auto *b) {
    const size_t x = order.of(a->op), y = order.of(b->op);
    return x != y ? x < y : std::tie(a->op, a->kernel, a->stream) < std::tie(b->op, b->kernel, b->stream);
  });
  std::vector<Json> records;
  if (!lock.schedule.empty()) {
    Json schedule = {{"schedule", lock.schedule}};
    if (!lock.ir.empty()) schedule["ir"] = lock.ir;
    records.push_back(std::move(schedule));
  }
  for (const GraphTask *t : tasks) {
    Json record = {{"op", t->op}, {"kernel", t->kernel}};
    if (t->stream) record["stream"] = t->stream;
    if (t->library && !t->library->empty()) record["from"] = *t->library;
    if (t->priority) record["priority"] = t->priority;
    records.push_back(std::move(record));
  }
  return records;
}

/// Of operators in Python earlier builds wrote the file or folder that had the definition.
std::string libraryOf(const Json &task) {
  const std::string from = task.value("from", "");
  return from.ends_with(".ops.pbtxt") || from.starts_with("python:") ? kPythonLibrary : from;
}

std::vector<Json> costRecords(const GraphFacts &facts) {
  const CostFacts &c = facts.costs;
  Json peak = Json::object();
  for (const PartFacts &p : facts.parts) peak[ranksRecord(p.ranks)] = p.arenaBytes;
  Json record = {{"flops", c.flops},
                 {"bytes", c.bytes},
                 {"comm_bytes", c.commBytes},
                 {"peak_bytes", c.peakBytes},
                 {"persistent_bytes", c.persistentBytes},
                 {"tasks", c.tasks},
                 {"peak_by_rank", std::move(peak)}};
  return std::vector<Json>(1, record);
}

void addCosts(const Json &record, GraphFacts *facts) {
  CostFacts &c = facts->costs;
  c.flops = record.at("flops").get<double>();
  c.bytes = record.at("bytes").get<double>();
  c.commBytes = record.at("comm_bytes").get<int64_t>();
  c.peakBytes = record.at("peak_bytes").get<uint64_t>();
  c.persistentBytes = record.at("persistent_bytes").get<uint64_t>();
  c.tasks = record.at("tasks").get<uint64_t>();
}

Json statistic(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}
double statisticOf(const Json &record) {
  if (!record.is_string()) return record.get<double>();
  const auto text = record.get<std::string>();
  return text == "nan" ? std::nan("") : text == "-inf" ? -HUGE_VAL : HUGE_VAL;
}

std::vector<Json> numericRecords(const NumericFacts &facts) {
  Json inputs = {{"seed", facts.seed}, {"low", facts.low}, {"high", facts.high}};
  if (!facts.inputsFile.empty()) inputs["inputs"] = facts.inputsFile;
  if (!facts.valuesFile.empty()) inputs["outputs"] = facts.valuesFile;
  std::vector<Json> records(1, inputs);
  for (const OutputValues &o : facts.outputs) {
    Json record = {{o.isInside ? "tensor" : "out", o.name}, {"type", typeRecord(o.dtype, o.shape)}};
    if (!o.digest.empty()) {
      record["sha256"] = o.digest;
    } else {
      record["stats"] = {{"min", statistic(o.min)},
                         {"max", statistic(o.max)},
                         {"mean", statistic(o.mean)},
                         {"std", statistic(o.std)},
                         {"l2", statistic(o.l2)},
                         {"nan", o.nan},
                         {"inf", o.inf}};
    }
    Json samples = Json::array();
    for (const double s : o.samples) samples.push_back(statistic(s));
    record["samples"] = std::move(samples);
    records.push_back(std::move(record));
  }
  return records;
}

void addValues(const Json &record, NumericFacts *facts) {
  if (record.contains("seed")) {
    facts->seed = record.at("seed").get<uint64_t>();
    facts->low = record.at("low").get<double>();
    facts->high = record.at("high").get<double>();
    facts->inputsFile = record.value("inputs", "");
    facts->valuesFile = record.value("outputs", "");
    return;
  }
  OutputValues o;
  o.isInside = record.contains("tensor");
  o.name = record.at(o.isInside ? "tensor" : "out").get<std::string>();
  readType(record.at("type").get<std::string>(), &o.dtype, &o.shape);
  o.digest = record.value("sha256", "");
  if (record.contains("stats")) {
    const Json &s = record.at("stats");
    o.min = statisticOf(s.at("min"));
    o.max = statisticOf(s.at("max"));
    o.mean = statisticOf(s.at("mean"));
    o.std = statisticOf(s.at("std"));
    o.l2 = statisticOf(s.at("l2"));
    o.nan = s.at("nan").get<int64_t>();
    o.inf = s.at("inf").get<int64_t>();
  }
  for (const Json &s : record.at("samples")) o.samples.push_back(statisticOf(s));
  facts->outputs.push_back(std::move(o));
}

} // namespace

static constexpr std::string_view kValues = "values sha256:";

std::string initialText(const GraphTensor &variable) {
  return variable.digest.empty() ? withoutDefaults(variable.initializer) : std::string(kValues) + variable.digest;
}

void readInitial(const std::string &text, GraphTensor *variable) {
  if (text.compare(0, kValues.size(), kValues) == 0)
    variable->digest = text.substr(kValues.size());
  else
    variable->initializer = text;
}

std::vector<Json> recordsOf(const Lock &lock, LockSection section) {
  switch (section) {
  case LockSection::kInterface: return interfaceRecords(lock);
  case LockSection::kOps: return opRecords(lock.facts, true);
  case LockSection::kTensors: return tensorRecords(lock.facts);
  case LockSection::kConstants: return constantRecords(lock.constants);
  case LockSection::kSbp: return stateRecords(lock.facts);
  case LockSection::kBoxing: return boxingRecords(lock.facts);
  case LockSection::kGrad: return gradRecords(lock.facts);
  case LockSection::kTasks: return taskRecords(lock);
  case LockSection::kCost: return costRecords(lock.facts);
  case LockSection::kNumerics: return numericRecords(lock.numerics);
  case LockSection::kDiagnostics: break;
  }
  std::vector<Json> records;
  for (const LockedWarning &w : lock.warnings) records.push_back({{"rule", w.code}, {"subject", w.subject}});
  return records;
}

void addRecord(const Json &record, LockSection section, Lock *lock) {
  if (!record.is_object() || record.empty()) throw BadRecord("a record is an object");
  switch (section) {
  case LockSection::kInterface: return addPort(record, lock);
  case LockSection::kOps: lock->facts.ops.push_back(opOf(record)); return;
  case LockSection::kTensors:
    lock->tensorTypes[record.at("tensor").get<std::string>()] = record.at("type");
    if (record.contains("pieces"))
      lock->facts.pieces[record.at("tensor").get<std::string>()] = record.at("pieces").get<std::string>();
    return;
  case LockSection::kConstants: lock->constants.push_back(constantOf(record)); return;
  case LockSection::kSbp: return addState(record, &lock->facts);
  case LockSection::kBoxing: return addTransition(record, &lock->facts);
  case LockSection::kGrad: return addGradient(record, &lock->facts);
  case LockSection::kTasks:
    if (record.contains("schedule")) {
      lock->schedule = record.at("schedule").get<std::string>();
      lock->ir = record.value("ir", "");
      return;
    }
    lock->facts.tasks.push_back({record.at("op").get<std::string>(), record.at("kernel").get<std::string>(),
                                 record.value("stream", uint32_t{0}), libraryOf(record),
                                 record.value("priority", int32_t{0})});
    return;
  case LockSection::kCost: return addCosts(record, &lock->facts);
  case LockSection::kNumerics: return addValues(record, &lock->numerics);
  case LockSection::kDiagnostics: break;
  }
  lock->warnings.push_back({record.at("rule").get<std::string>(), record.at("subject").get<std::string>()});
}

void namePieces(GraphFacts *facts) {
  for (const GraphOp &op : facts->ops)
    for (const GraphTensor &t : op.outputs) {
      std::map<std::string, std::vector<uint32_t>> ranks;
      bool isWhole = true;
      for (const PartFacts &part : facts->parts)
        if (const auto piece = part.pieces.find(t.tensor); piece != part.pieces.end()) {
          isWhole &= piece->second == t.shape;
          std::vector<uint32_t> &list = ranks[typeRecord(t.dtype, piece->second)];
          list.insert(list.end(), part.ranks.begin(), part.ranks.end());
        }
      if (isWhole) continue;
      std::string &text = facts->pieces[t.tensor];
      for (auto &[type, list] : ranks) {
        std::sort(list.begin(), list.end());
        text += (text.empty() ? "" : ", ") + type + " on " + ranksRecord(list);
      }
    }
}

void joinSections(Lock *lock) {
  for (GraphOp &op : lock->facts.ops) {
    lock->facts.isDifferentiated |= op.role == "backward";
    for (GraphTensor &t : op.outputs)
      if (const auto found = lock->tensorTypes.find(t.tensor); found != lock->tensorTypes.end())
        readType(found->second, &t.dtype, &t.shape);
  }
}

} // namespace opc::lock
