// Lock files as text: sections of records, each with a digest.
// SPDX-License-Identifier: Apache-2.0
#include "LockFile.h"
#include "LockRecords.h"
#include "Sha256.h"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace opc {
namespace {

using lock::Json;

constexpr size_t kLargestLock = size_t{256} << 20;
constexpr size_t kLargestRank = 32;
constexpr int kDeepest = 64;              // lists in lists
constexpr size_t kLongestAttribute = 120; // characters that are kept as they are
constexpr const char *kGraph = "graph";   // the key of the file's name

std::string recordLines(const std::vector<Json> &records) {
  std::string text;
  for (const Json &record : records) {
    if (!text.empty()) text += ",\n";
    text += record.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return text;
}

Status bad(const std::string &name, size_t line, const std::string &why) {
  const std::string where = line ? name + ":" + std::to_string(line) : name;
  return Status(StatusCode::kInvalidGraph, "OPC0120", where + ": not a lock file: " + why)
      .withHelp("if a merge left marks in it, take either side and run: opc check GRAPH --update");
}

size_t lineAt(std::string_view text, size_t byte) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size()));
  return 1 + static_cast<size_t>(std::count(text.begin(), end, '\n'));
}

/// The line of the first mark that a merge has left; 0 when there is none.
size_t conflictLine(std::string_view text) {
  for (size_t line = 1, at = 0; at < text.size(); ++line) {
    if (text.substr(at, 8) == "<<<<<<< " || text.substr(at, 8) == ">>>>>>> ") return line;
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
  }
  return 0;
}

Status notJson(const std::string &name, std::string_view text, size_t byte) {
  const size_t line = conflictLine(text);
  if (!line) return bad(name, lineAt(text, byte), "it is no JSON");
  return Status(StatusCode::kInvalidGraph, "OPC0120",
                name + ":" + std::to_string(line) + ": a merge has left its marks: both sides have changed this lock")
      .withHelp("take either side (git checkout --theirs " + name + "), then: opc check GRAPH --update");
}

/// A key of the document that is there twice, as after a merge that takes both sides: of the two JSON has one. Or lists
/// in lists without end: whoever copies them needs stack for each.
struct BadDocument : std::runtime_error {
  using std::runtime_error::runtime_error;
};
Json parsed(std::string_view text) {
  std::set<std::string> keys;
  return Json::parse(text, [&](int depth, Json::parse_event_t event, Json &value) {
    if (depth > kDeepest) throw BadDocument("lists and objects stand in each other deeper than any lock's");
    if (depth == 1 && event == Json::parse_event_t::key && !keys.insert(value.get<std::string>()).second)
      throw BadDocument("\"" + value.get<std::string>() + "\" is there twice");
    return true;
  });
}

/// Text without the prefix of nlohmann's messages: "[json.exception.type_error.302] ".
std::string reason(const std::exception &e) {
  const std::string text = e.what();
  const size_t end = text.rfind("] ", text.find(' '));
  return text.rfind("[json", 0) == 0 && end != std::string::npos ? text.substr(end + 2) : text;
}

void readHeader(const Json &document, Lock *lock) {
  lock->graph = document.value(kGraph, "");
  const Json target = document.value("target", Json::object());
  lock->target.device = target.value("device", "cpu");
  lock->target.mesh = target.value("mesh", "");
  const Json shapes = target.value("shapes", Json::object());
  for (const auto &shape : shapes.items()) {
    const Json &list = shape.value();
    if (!list.is_array() || list.size() > kLargestRank ||
        std::any_of(list.begin(), list.end(), [](const Json &d) { return !d.is_number_unsigned(); }))
      throw lock::BadRecord("the shape of " + shape.key() + " is none");
    lock->target.shapes[shape.key()] = list.get<std::vector<int64_t>>();
  }
}

constexpr const char *kDetailed = "detailed"; // Lock::detailed, by name

/// Which record a fault is in: its section and number.
void readSections(const Json &document, Lock *lock, std::string *where) {
  const Json digests = document.value("sections", Json::object());
  const auto detailed = document.value(kDetailed, std::vector<std::string>());
  for (const LockSection section : lockSections()) {
    const std::string name = lockSectionName(section);
    if (!document.contains(name)) continue;
    std::vector<Json> records;
    if (!document.at(name).is_array()) throw lock::BadRecord("section " + name + " is no list");
    for (const Json &record : document.at(name)) {
      *where = "record " + std::to_string(records.size() + 1) + " of section " + name + ": ";
      lock::addRecord(record, section, lock);
      records.push_back(record);
    }
    where->clear();
    lock->sections.insert(section);
    if (std::find(detailed.begin(), detailed.end(), name) != detailed.end()) lock->detailed.insert(section);
    lock->texts[section] = recordLines(records);
    if (digests.value(name, "") != digestOf(lock->texts[section])) lock->damaged.insert(section);
  }
  lock::joinSections(lock);
}

} // namespace

const std::vector<LockSection> &lockSections() {
  static const std::vector<LockSection> all = {LockSection::kInterface, LockSection::kOps,        LockSection::kTensors,
                                               LockSection::kConstants, LockSection::kSbp,        LockSection::kBoxing,
                                               LockSection::kGrad,      LockSection::kTasks,      LockSection::kCost,
                                               LockSection::kNumerics,  LockSection::kDiagnostics};
  return all;
}

const char *lockSectionName(LockSection section) {
  switch (section) {
  case LockSection::kInterface: return "interface";
  case LockSection::kOps: return "ops";
  case LockSection::kTensors: return "tensors";
  case LockSection::kConstants: return "constants";
  case LockSection::kSbp: return "sbp";
  case LockSection::kBoxing: return "boxing";
  case LockSection::kGrad: return "grad";
  case LockSection::kTasks: return "tasks";
  case LockSection::kCost: return "cost";
  case LockSection::kNumerics: return "numerics";
  case LockSection::kDiagnostics: break;
  }
  return "diagnostics";
}

std::string lockSectionText(const Lock &lock, LockSection section) {
  if (const auto kept = lock.texts.find(section); kept != lock.texts.end()) return kept->second;
  return recordLines(lock::recordsOf(lock, section));
}

std::string lockText(const Lock &lock) {
  Json digests = Json::object();
  std::string body;
  for (const LockSection section : lockSections()) {
    if (!lock.sections.count(section)) continue;
    const std::string text = lockSectionText(lock, section);
    digests[lockSectionName(section)] = digestOf(text);
    body += std::string(",\n\"") + lockSectionName(section) + "\":[" + (text.empty() ? "" : "\n") + text + "]";
  }
  Json target = {{"device", lock.target.device}};
  if (!lock.target.mesh.empty()) target["mesh"] = lock.target.mesh;
  for (const auto &shape : lock.target.shapes) target["shapes"][shape.first] = shape.second;
  Json head = {{"opc_lock", lock.version}, {kGraph, lock.graph}, {"target", std::move(target)}};
  for (const LockSection section : lock.detailed)
    if (lock.sections.count(section)) head[kDetailed].push_back(lockSectionName(section));
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();
  return text + ",\n\"sections\":" + digests.dump() + body + "}\n";
}

Result<Lock> readLock(std::string_view text, const std::string &name) {
  if (text.size() > kLargestLock) return bad(name, 0, "it has more than 256 MiB");
  Lock lock;
  std::string where;
  try {
    const Json document = parsed(text);
    if (!document.is_object() || !document.contains("opc_lock") || !document.at("opc_lock").is_number_integer())
      return bad(name, 1, "it does not begin with \"opc_lock\" and a version");
    lock.version = document.at("opc_lock").get<int>();
    if (lock.version > kLockVersion) return lock;
    if (lock.version < 1) return bad(name, 1, "there is no version " + std::to_string(lock.version));
    readHeader(document, &lock);
    readSections(document, &lock, &where);
  } catch (const Json::parse_error &e) {
    return notJson(name, text, e.byte);
  } catch (const std::exception &e) {
    return bad(name, 0, where + reason(e));
  }
  return lock;
}

std::string graphOfLock(std::string_view text) {
  if (text.size() > kLargestLock) return "";
  // The record that lockText() begins with, behind the marks of a merge, too.
  const size_t begin = text.find("{\"opc_lock\"");
  if (begin != std::string_view::npos) {
    std::string head(text.substr(begin, text.find('\n', begin) - begin));
    if (const size_t last = head.find_last_not_of(" \t\r"); head[last] == ',') head = head.substr(0, last) + "}";
    const Json record = Json::parse(head, nullptr, false);
    if (record.is_object() && record.contains(kGraph) && record.at(kGraph).is_string())
      return record.at(kGraph).get<std::string>();
  }
  const Result<Lock> lock = readLock(text, ""); // written by something else, in other lines
  return lock ? lock->graph : "";
}

void takeSections(const Lock &from, const std::set<LockSection> &sections, Lock *lock) {
  lock->version = from.version;
  lock->graph = from.graph;
  lock->target = from.target;
  for (const LockSection section : sections) {
    if (!from.sections.count(section)) continue;
    lock->sections.insert(section);
    lock->texts[section] = lockSectionText(from, section);
    if (from.detailed.count(section))
      lock->detailed.insert(section);
    else
      lock->detailed.erase(section);
  }
}

void shortenAttributes(GraphFacts *facts) {
  for (GraphOp &op : facts->ops)
    for (auto &attr : op.attrs) {
      const std::string text = lock::attrRecord(attr.second).dump(-1, ' ', false, Json::error_handler_t::replace);
      if (text.size() > kLongestAttribute)
        attr.second = AttrValue(RawAttr{attr.second.type(), "sha256:" + sha256(text)});
    }
}

bool saysDefaults(const GraphTensor &variable) {
  return lock::withoutDefaults(variable.initializer) != variable.initializer;
}

std::string digestOf(std::string_view bytes) { return sha256(bytes).substr(0, 16); }

namespace {
std::string besideGraph(const std::string &graph, const char *ending) {
  const size_t slash = graph.rfind('/'), dot = graph.rfind('.');
  const bool hasExtension = dot != std::string::npos && dot > (slash == std::string::npos ? 0 : slash + 1);
  return (hasExtension ? graph.substr(0, dot) : graph) + ending;
}
} // namespace

void namePieces(GraphFacts *facts) { lock::namePieces(facts); }

std::string lockPathOf(const std::string &graph) { return besideGraph(graph, ".opc.lock"); }
std::string inputsPathOf(const std::string &graph) { return besideGraph(graph, ".opc.inputs.npz"); }
std::string valuesPathOf(const std::string &graph) { return besideGraph(graph, ".opc.outputs.npz"); }

} // namespace opc
