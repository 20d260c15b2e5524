// Reading and writing cluster files: strict JSON, every field checked, errors with the field's place.
// SPDX-License-Identifier: Apache-2.0
#include "Cluster.h"

#include "PrintableText.h"
#include "opc/ElementTypes.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace opc::simulate {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxBytes = 4 << 20;
constexpr size_t kMaxDepth = 8;
constexpr size_t kMaxLevels = 16;
constexpr size_t kMaxKeys = 4096; // of one object; "ops" has one for each operator that was measured
// No number of a machine is outside, and nothing inside overflows.
constexpr double kSmallest = 1e-15, kLargest = 1e24;
constexpr int64_t kMaxDevices = int64_t{1} << 24;

std::string lineOf(std::string_view text, size_t byte) {
  const size_t end = std::min(byte, text.size());
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  return std::to_string(line);
}

class Reader {
public:
  Reader(std::string_view text, const std::string &name) : text_(text), file_(name) {}

  Result<ClusterDescription> read() {
    Json root;
    OPC_RETURN_IF_ERROR(parse(&root));
    OPC_RETURN_IF_ERROR(object(root, "", {"schema", "name", "device", "host", "levels", "axes", "ops"},
                               {"schema", "device", "levels"}));
    if (!root["schema"].is_number_integer() || root["schema"] != 1)
      return bad("OPC0742", "/schema", "must be 1, which is the only version there is");
    if (root.contains("name")) OPC_RETURN_IF_ERROR(string(root["name"], "/name", &c_.name));
    if (c_.name.empty()) c_.name = file_;
    OPC_RETURN_IF_ERROR(device(root["device"]));
    if (root.contains("host")) OPC_RETURN_IF_ERROR(host(root["host"]));
    OPC_RETURN_IF_ERROR(levels(root["levels"]));
    if (root.contains("axes")) OPC_RETURN_IF_ERROR(axes(root["axes"]));
    if (root.contains("ops")) OPC_RETURN_IF_ERROR(ops(root["ops"]));
    return std::move(c_);
  }

private:
  Status bad(const char *id, const std::string &field, const std::string &message, const std::string &help = "") const {
    return Status(StatusCode::kInvalidGraph, id,
                  file_ + ": " + (field.empty() ? "the document" : printableName(field)) + ": " +
                      printableName(message))
        .withHelp(help.empty() ? "docs/simulation.md describes cluster files" : help);
  }

  Status parse(Json *root) {
    if (text_.size() > kMaxBytes)
      return bad("OPC0740", "", "is larger than a cluster file can be (" + std::to_string(text_.size()) + " bytes)");
    // The parser keeps the last of two equal keys; which one was meant is not ours to guess.
    std::vector<std::set<std::string>> keys;
    std::string twice;
    bool deep = false, wide = false;
    const Json::parser_callback_t watch = [&](int depth, Json::parse_event_t event, Json &value) {
      if (static_cast<size_t>(depth) > kMaxDepth) deep = true;
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
      if (event == Json::parse_event_t::key && !keys.empty()) {
        if (!keys.back().insert(value.get<std::string>()).second && twice.empty()) twice = value.get<std::string>();
        wide |= keys.back().size() > kMaxKeys;
      }
      // What is not wanted is not kept: to add to an object is to look through it.
      return !deep && !wide;
    };
    try {
      *root = Json::parse(text_.begin(), text_.end(), watch);
    } catch (const Json::parse_error &e) {
      const size_t byte = e.byte > 0 ? e.byte - 1 : 0;
      return Status(
                 StatusCode::kInvalidGraph, "OPC0740",
                 file_ + ":" + lineOf(text_, byte) + ": this is not JSON: " +
                     (byte >= text_.size() ? "it ends too early" : "unexpected text at byte " + std::to_string(byte)))
          .withHelp("docs/simulation.md describes cluster files");
    } catch (const std::exception &) { // numbers beyond double
      return bad("OPC0742", "", "has a number that no machine can have");
    }
    if (deep) return bad("OPC0740", "", "is nested deeper than a cluster file is");
    if (wide) return bad("OPC0740", "", "has an object with more than " + std::to_string(kMaxKeys) + " fields");
    if (!twice.empty()) return bad("OPC0741", "", "has the field '" + twice + "' twice in one object");
    return Status::ok();
  }

  Status object(const Json &j, const std::string &at, const std::vector<std::string> &known,
                const std::vector<std::string> &needed) const {
    if (!j.is_object()) return bad("OPC0741", at, "must be an object, it is " + kindOf(j));
    for (const auto &[key, value] : j.items())
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        std::string all;
        for (const std::string &k : known) all += (all.empty() ? "" : ", ") + k;
        return bad("OPC0741", at + "/" + key, "there is no such field", "the fields here are " + all);
      }
    for (const std::string &key : needed)
      if (!j.contains(key)) return bad("OPC0741", at + "/" + key, "is missing");
    return Status::ok();
  }
  static std::string kindOf(const Json &j) {
    const std::string name = j.type_name();
    return (name == "object" || name == "array" ? "an " : "a ") + name;
  }
  Status string(const Json &j, const std::string &at, std::string *out) const {
    if (!j.is_string()) return bad("OPC0741", at, "must be a text, it is " + kindOf(j));
    *out = printableName(j.get<std::string>());
    if (out->size() > 200 || std::any_of(out->begin(), out->end(), [](char c) { return static_cast<uint8_t>(c) < 32; }))
      return bad("OPC0742", at, "must be at most 200 characters without control characters");
    return Status::ok();
  }
  Status number(const Json &j, const std::string &at, double least, double most, double *out) const {
    if (!j.is_number()) return bad("OPC0741", at, "must be a number, it is " + kindOf(j));
    *out = j.get<double>();
    if (!std::isfinite(*out) || *out < least || *out > most)
      return bad("OPC0742", at,
                 "is " + j.dump() + ", it must be " + (least > 0 ? "above 0" : "0 or more") +
                     (most < kLargest ? " and at most " + Json(most).dump() : ""));
    return Status::ok();
  }
  Status positive(const Json &j, const std::string &at, double *out) const {
    return number(j, at, kSmallest, kLargest, out);
  }
  Status count(const Json &j, const std::string &at, int64_t *out) const {
    if (!j.is_number_integer()) return bad("OPC0741", at, "must be a whole number, it is " + j.dump().substr(0, 40));
    double value = 0;
    OPC_RETURN_IF_ERROR(number(j, at, 1, static_cast<double>(kMaxDevices), &value));
    *out = static_cast<int64_t>(value);
    return Status::ok();
  }

  Status device(const Json &j) {
    OPC_RETURN_IF_ERROR(object(j, "/device",
                               {"flops", "efficiency", "memory_bandwidth", "memory_bytes", "task_overhead"},
                               {"flops", "memory_bandwidth", "memory_bytes"}));
    const Json &flops = j["flops"];
    std::vector<std::string> names;
    for (DataType type : dataTypes<types::Numbers>()) names.push_back(dataTypeName(type));
    OPC_RETURN_IF_ERROR(object(flops, "/device/flops", names, {"f32"}));
    for (DataType type : dataTypes<types::Numbers>())
      if (const std::string name = dataTypeName(type); flops.contains(name))
        OPC_RETURN_IF_ERROR(positive(flops[name], "/device/flops/" + name, &c_.flops[type]));
    if (j.contains("efficiency")) {
      const Json &e = j["efficiency"];
      OPC_RETURN_IF_ERROR(object(e, "/device/efficiency", {"peak", "half_width"}, {}));
      if (e.contains("peak"))
        OPC_RETURN_IF_ERROR(number(e["peak"], "/device/efficiency/peak", kSmallest, 1, &c_.efficiency.peak));
      if (e.contains("half_width"))
        OPC_RETURN_IF_ERROR(number(e["half_width"], "/device/efficiency/half_width", 0, 1e9, &c_.efficiency.halfWidth));
    }
    OPC_RETURN_IF_ERROR(positive(j["memory_bandwidth"], "/device/memory_bandwidth", &c_.memoryBandwidth));
    double bytes = 0;
    OPC_RETURN_IF_ERROR(number(j["memory_bytes"], "/device/memory_bytes", 1, 1e18, &bytes));
    c_.memoryBytes = static_cast<uint64_t>(bytes);
    if (j.contains("task_overhead"))
      OPC_RETURN_IF_ERROR(number(j["task_overhead"], "/device/task_overhead", 0, 1e3, &c_.taskOverhead));
    return Status::ok();
  }

  Status host(const Json &j) {
    OPC_RETURN_IF_ERROR(object(j, "/host", {"devices", "cores"}, {"devices"}));
    OPC_RETURN_IF_ERROR(count(j["devices"], "/host/devices", &c_.devicesPerHost));
    if (j.contains("cores")) OPC_RETURN_IF_ERROR(number(j["cores"], "/host/cores", kSmallest, 1e6, &c_.coresPerHost));
    return Status::ok();
  }

  Status link(const Json &j, const std::string &at, Link *out) const {
    OPC_RETURN_IF_ERROR(number(j["latency"], at + "/latency", 0, 1e3, &out->latency));
    return positive(j["bandwidth"], at + "/bandwidth", &out->bandwidth);
  }

  Status levels(const Json &j) {
    if (!j.is_array() || j.empty()) return bad("OPC0741", "/levels", "must be a list of at least one level");
    if (j.size() > kMaxLevels)
      return bad("OPC0742", "/levels", "has more than " + std::to_string(kMaxLevels) + " levels");
    for (size_t i = 0; i < j.size(); ++i) {
      const std::string at = "/levels/" + std::to_string(i);
      OPC_RETURN_IF_ERROR(object(j[i], at, {"name", "devices", "latency", "bandwidth", "shared_by", "collectives"},
                                 {"name", "devices", "latency", "bandwidth"}));
      NetworkLevel level;
      OPC_RETURN_IF_ERROR(string(j[i]["name"], at + "/name", &level.name));
      OPC_RETURN_IF_ERROR(count(j[i]["devices"], at + "/devices", &level.devices));
      OPC_RETURN_IF_ERROR(link(j[i], at, &level.link));
      if (j[i].contains("shared_by")) OPC_RETURN_IF_ERROR(count(j[i]["shared_by"], at + "/shared_by", &level.sharedBy));
      if (j[i].contains("collectives")) OPC_RETURN_IF_ERROR(collectives(j[i]["collectives"], at, &level));
      for (const NetworkLevel &before : c_.levels)
        if (before.name == level.name) return bad("OPC0743", at + "/name", "is also the name of another level");
      if (!c_.levels.empty() &&
          (level.devices <= c_.levels.back().devices || level.devices % c_.levels.back().devices != 0))
        return bad("OPC0743", at + "/devices",
                   "is " + std::to_string(level.devices) + ", it must be a multiple of the level before, which has " +
                       std::to_string(c_.levels.back().devices));
      c_.levels.push_back(std::move(level));
    }
    return Status::ok();
  }

  Status collectives(const Json &j, const std::string &level, NetworkLevel *out) const {
    const std::string at = level + "/collectives";
    std::vector<std::string> names;
    for (int k = 0; k <= static_cast<int>(BoxingKind::kExchange); ++k)
      names.push_back(boxingKindName(static_cast<BoxingKind>(k)));
    OPC_RETURN_IF_ERROR(object(j, at, names, {}));
    for (const auto &[kind, value] : j.items()) {
      OPC_RETURN_IF_ERROR(object(value, at + "/" + kind, {"latency", "bandwidth"}, {"latency", "bandwidth"}));
      OPC_RETURN_IF_ERROR(link(value, at + "/" + kind, &out->collectives[*parseBoxingKind(kind)]));
    }
    return Status::ok();
  }

  Status axes(const Json &j) {
    if (!j.is_array()) return bad("OPC0741", "/axes", "must be a list of names of levels");
    for (size_t i = 0; i < j.size(); ++i) {
      const std::string at = "/axes/" + std::to_string(i);
      std::string name;
      OPC_RETURN_IF_ERROR(string(j[i], at, &name));
      if (std::none_of(c_.levels.begin(), c_.levels.end(), [&](const NetworkLevel &l) { return l.name == name; }))
        return bad("OPC0743", at, "there is no level '" + name + "'");
      c_.axes.push_back(name);
    }
    return Status::ok();
  }

  Status ops(const Json &j) {
    if (!j.is_object()) return bad("OPC0741", "/ops", "must be an object, it is " + kindOf(j));
    for (const auto &[name, value] : j.items()) {
      const std::string at = "/ops/" + name.substr(0, 200);
      OPC_RETURN_IF_ERROR(object(value, at, {"overhead", "factor"}, {"overhead", "factor"}));
      MeasuredOp &op = c_.ops[printableName(name)];
      OPC_RETURN_IF_ERROR(number(value["overhead"], at + "/overhead", 0, 1e3, &op.overhead));
      OPC_RETURN_IF_ERROR(number(value["factor"], at + "/factor", 0, 1e9, &op.factor));
    }
    return Status::ok();
  }

  std::string_view text_;
  std::string file_;
  ClusterDescription c_;
};

} // namespace

Result<ClusterDescription> parseCluster(std::string_view text, const std::string &name) {
  return Reader(text, name).read();
}

std::string clusterText(const ClusterDescription &c) {
  Json flops = Json::object();
  for (DataType type : dataTypes<types::Numbers>())
    if (const auto it = c.flops.find(type); it != c.flops.end()) flops[dataTypeName(type)] = it->second;
  Json levels = Json::array();
  for (const NetworkLevel &l : c.levels) {
    Json level = {
        {"name", l.name}, {"devices", l.devices}, {"latency", l.link.latency}, {"bandwidth", l.link.bandwidth}};
    if (l.sharedBy != 1) level["shared_by"] = l.sharedBy;
    for (const auto &[kind, link] : l.collectives)
      level["collectives"][boxingKindName(kind)] = {{"latency", link.latency}, {"bandwidth", link.bandwidth}};
    levels.push_back(std::move(level));
  }
  Json root = {{"schema", 1},
               {"name", c.name},
               {"device",
                {{"flops", std::move(flops)},
                 {"efficiency", {{"peak", c.efficiency.peak}, {"half_width", c.efficiency.halfWidth}}},
                 {"memory_bandwidth", c.memoryBandwidth},
                 {"memory_bytes", c.memoryBytes},
                 {"task_overhead", c.taskOverhead}}},
               {"host", {{"devices", c.devicesPerHost}}},
               {"levels", std::move(levels)}};
  if (c.coresPerHost > 0) root["host"]["cores"] = c.coresPerHost;
  if (!c.axes.empty()) root["axes"] = c.axes;
  for (const auto &[name, op] : c.ops) root["ops"][name] = {{"overhead", op.overhead}, {"factor", op.factor}};
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace opc::simulate
