// What a run's outputs are compared with.
// SPDX-License-Identifier: Apache-2.0
#include "Expectations.h"

#include "GraphInput.h"
#include "NumberText.h"

#include <algorithm>
#include <fnmatch.h>

namespace opc::cli {

namespace {
const std::string kEqual = "equal"; // of --nan
} // namespace

Status ToleranceFlags::parse(const std::vector<std::string> &texts, const std::string &flag) {
  for (const std::string &text : texts) {
    const size_t colon = text.rfind(':'); // names may hold colons, numbers do not
    const std::string number = colon == std::string::npos ? text : text.substr(colon + 1);
    const auto value = parseReal(number);
    if (!value || !(*value >= 0))
      return Status(StatusCode::kUsage, "OPC0003", flag + " takes a number that is not negative, not '" + text + "'")
          .withHelp(flag + " 1e-4, or " + flag + " NAME:1e-4");
    if (colon == std::string::npos)
      all_ = *value;
    else
      byName_[text.substr(0, colon)] = *value;
  }
  return Status::ok();
}

std::optional<double> ToleranceFlags::of(const std::string &name) const {
  auto it = byName_.find(name);
  return it != byName_.end() ? std::optional<double>(it->second) : all_;
}

std::vector<std::string> ToleranceFlags::names() const {
  std::vector<std::string> names;
  for (const auto &named : byName_) names.push_back(named.first);
  return names;
}

std::vector<Option> ExpectFlags::options() {
  return {
      {"--expect", 0, "NAME=SPEC", "compare an output (repeatable)", &specs_, true},
      {"--expects", 0, "FILE|DIR", "compare all outputs that the file has", &archive_, true},
      {"--rtol", 0, "[NAME:]X", "relative tolerance (defaults by dtype: opc run --help)", &rtol_, true},
      {"--atol", 0, "[NAME:]X", "absolute tolerance", &atol_, true},
      {"--metric", 0, "[NAME:]M",
       "compare by a metric instead: cos>=0.999, psnr>=40, max<=X, p99<=X, mean<=X, ulp<=4, topk=5 (repeatable: all "
       "must hold)",
       &metric_},
      Option{"--nan", 0, "", "whether NaN equals NaN (default fail)", &nan_}.oneOf({kEqual, "fail"}),
  };
}

Status ExpectFlags::parse(std::vector<ToleranceRule> rules) {
  OPC_RETURN_IF_ERROR(rtolFlags_.parse(rtol_, "--rtol"));
  OPC_RETURN_IF_ERROR(atolFlags_.parse(atol_, "--atol"));
  for (const std::string &text : metric_) {
    // "a:b/y:cos>=1": the metric is what follows the last ':'.
    const size_t colon = text.rfind(':');
    Result<Metric> metric = parseMetric(colon == std::string::npos ? text : text.substr(colon + 1));
    if (!metric) return Status(metric.status()).withContext("reading --metric " + text);
    (colon == std::string::npos ? metrics_ : namedMetrics_[text.substr(0, colon)]).push_back(*metric);
  }
  rules_ = std::move(rules);
  return Status::ok();
}

std::string ExpectFlags::howFlag() const {
  if (!rtol_.empty()) return "--rtol";
  if (!atol_.empty()) return "--atol";
  if (!metric_.empty()) return "--metric";
  return nan_.empty() ? "" : "--nan";
}

Status ExpectFlags::open() {
  OPC_ASSIGN_OR_RETURN(values_, NamedValues::open(specs_, archive_, "--expect"));
  return Status::ok();
}

Status ExpectFlags::checkNames(const std::vector<std::string> &outputs) const {
  auto check = [&](const std::vector<std::string> &names, const char *flag) {
    for (const std::string &name : names)
      if (std::find(outputs.begin(), outputs.end(), name) == outputs.end())
        return noSuchName("output", name, outputs, flag);
    return Status::ok();
  };
  OPC_RETURN_IF_ERROR(check(rtolFlags_.names(), "--rtol"));
  OPC_RETURN_IF_ERROR(check(atolFlags_.names(), "--atol"));
  std::vector<std::string> named;
  for (const auto &m : namedMetrics_) named.push_back(m.first);
  return check(named, "--metric");
}

Status ExpectFlags::checkRows(const std::string &name, const user_op::TensorDesc &desc) const {
  const DimVector &dims = desc.shape().dim_vec();
  const int64_t width = dims.empty() ? 1 : dims.back();
  for (const Metric &m : metricsOf(name, desc.data_type()))
    // All that there is, or more, would hold, whatever the values are; so does everything of an empty tensor.
    if (m.kind == Metric::Kind::kTopK && width > 0 && m.bound >= static_cast<double>(width))
      return Status(StatusCode::kUsage, "OPC0003",
                    "the metric " + metricText(m) + " of " + name + ": a row of " + desc.toString() + " has " +
                        countText(width, "value"))
          .withHelp("give fewer, or another metric for this output: --metric " + name + ":cos>=0.999");
  return Status::ok();
}

Result<std::vector<Expectation>> ExpectFlags::read(const Session &session, const ValueFlags &flags,
                                                   std::vector<std::string> *notes) const {
  std::vector<std::string> names;
  for (const PortInfo &p : session.interface().outputs) names.push_back(p.name);
  const NamedValues &expected = *values_;
  for (const std::string &name : expected.flagNames())
    if (std::find(names.begin(), names.end(), name) == names.end())
      return noSuchName("output", name, names, "--expect " + name + "=" + expected.origin(name));
  OPC_RETURN_IF_ERROR(checkNames(names));
  for (const std::string &key : expected.archiveKeys())
    if (std::find(names.begin(), names.end(), key) == names.end())
      notes->push_back(expected.archivePath() + ": no output of the graph is called " + key + "; skipped");
  std::vector<Expectation> list;
  for (const PortInfo &p : session.interface().outputs) {
    if (!expected.has(p.name)) {
      if (!expected.archivePath().empty())
        notes->push_back(expected.archivePath() + " has no " + p.name + "; that output is not compared");
      continue;
    }
    Result<HostTensor> tensor = expected.make({p.name, p.desc, flags.seed.value_or(0), flags.cast});
    if (!tensor) return Status(tensor.status()).withContext("reading what is expected of " + p.name);
    if (tensor->dtype() != p.desc.data_type()) {
      Status s = checkTensor(*tensor, user_op::TensorDesc(tensor->shape(), p.desc.data_type()),
                             "the expectation " + expected.origin(p.name) + " for " + p.name);
      return Status(s.code(), s.id(), s.message())
          .withHelp((s.help().empty() ? "" : s.help() + "; or ") + "let opc convert it: --cast");
    }
    OPC_RETURN_IF_ERROR(checkRows(p.name, p.desc));
    list.push_back({p.name, expected.origin(p.name), std::move(*tensor)});
  }
  if (list.empty() && !expected.archivePath().empty())
    return Status(StatusCode::kUsage, "OPC0005", expected.archivePath() + " holds none of the graph's outputs");
  return list;
}

Tolerance ExpectFlags::toleranceOf(const std::string &name, DataType type) const {
  return toleranceOf(name, type, defaultTolerance(type));
}

Tolerance ExpectFlags::toleranceOf(const std::string &name, DataType type, Tolerance standard) const {
  Tolerance t = standard;
  // opc.toml: the element type first, then the output, which is more special.
  for (const bool byType : {true, false})
    for (const ToleranceRule &r : rules_) {
      const bool isType = parseDataType(r.key) == type;
      if (byType ? !isType : isType || fnmatch(r.key.c_str(), name.c_str(), 0) != 0) continue;
      t.rtol = r.rtol.value_or(t.rtol);
      t.atol = r.atol.value_or(t.atol);
    }
  t.rtol = rtolFlags_.of(name).value_or(t.rtol);
  t.atol = atolFlags_.of(name).value_or(t.atol);
  return t;
}

bool ExpectFlags::nanEquals(const std::string &name, DataType type) const {
  if (!nan_.empty()) return nan_ == kEqual;
  std::optional<bool> ofType, ofName;
  for (const ToleranceRule &r : rules_)
    if (parseDataType(r.key) == type)
      ofType = r.nanEqual ? r.nanEqual : ofType;
    else if (fnmatch(r.key.c_str(), name.c_str(), 0) == 0)
      ofName = r.nanEqual ? r.nanEqual : ofName;
  return ofName.value_or(ofType.value_or(false));
}

std::vector<Metric> ExpectFlags::metricsOf(const std::string &name, DataType type) const {
  if (auto it = namedMetrics_.find(name); it != namedMetrics_.end()) return it->second;
  if (!metrics_.empty()) return metrics_;
  // A tolerance on the command line asks for that comparison, whatever the file says.
  if (rtolFlags_.of(name) || atolFlags_.of(name)) return {};
  std::vector<Metric> ofType, ofName;
  bool isBounded = false; // the output has a tolerance of its own, which is more special than what its type has
  for (const ToleranceRule &r : rules_) {
    const bool isOfType = parseDataType(r.key) == type;
    if (!isOfType && fnmatch(r.key.c_str(), name.c_str(), 0) != 0) continue;
    if (!r.metric.empty()) (isOfType ? ofType : ofName) = {*parseMetric(r.metric)};
    isBounded |= !isOfType && r.metric.empty() && (r.rtol || r.atol);
  }
  return ofName.empty() && !isBounded ? ofType : ofName;
}

bool ExpectFlags::compare(Invocation &invocation, const NamedOutput &output, const Expectation &expected,
                          Json *list) const {
  const HostTensor &got = output.tensor, &want = expected.tensor;
  const Tolerance tolerance = toleranceOf(output.name, got.dtype());
  const std::vector<Metric> metrics = metricsOf(output.name, got.dtype());
  const bool nanEqual = nanEquals(output.name, got.dtype());
  Json entry = {
      {"name", output.name}, {"expected", expected.origin}, {"rtol", tolerance.rtol}, {"atol", tolerance.atol}};
  if (got.shape() != want.shape()) {
    invocation.terminal().err(output.name + ": the shape differs: got " + typeText(got.dtype(), got.shape()) +
                              ", expected " + typeText(want.dtype(), want.shape()) + "\n");
    entry["passed"] = false;
    entry["reason"] = "shape";
    list->push_back(std::move(entry));
    return false;
  }
  const Comparison c = compareTensors(got, want, tolerance, nanEqual);
  bool passed = c.passed();
  std::string said;
  if (!metrics.empty()) {
    passed = true;
    Json values = Json::array();
    for (const Metric &m : metrics) {
      const double value = metricValue(m.kind, got, want, nanEqual, static_cast<int64_t>(m.bound));
      const bool holds = metricHolds(m, value);
      passed &= holds;
      values.push_back({{"metric", metricText(m)}, {"value", realJson(value)}, {"passed", holds}});
      said += (said.empty() ? "" : ", ") + metricText(m) + (holds ? " holds (" : " fails (") + realText(value) + ")";
    }
    entry["metrics"] = std::move(values);
  }
  entry["passed"] = passed;
  entry["values"] = c.count;
  entry["mismatches"] = c.mismatches;
  entry["max_abs"] = realJson(c.maxAbs);
  entry["max_rel"] = realJson(c.maxRel);
  if (!passed && c.worst >= 0) {
    entry["p99"] = realJson(metricValue(Metric::Kind::kP99, got, want, nanEqual));
    entry["mean_abs"] = realJson(metricValue(Metric::Kind::kMean, got, want, nanEqual));
    entry["cosine"] = realJson(metricValue(Metric::Kind::kCosine, got, want, nanEqual));
    entry["worst"] = {{"index", Json::parse(indexText(got.shape(), c.worst))},
                      {"got", elementText(got, c.worst)},
                      {"expected", elementText(want, c.worst)}};
    entry["passing_rtol"] = c.passingRtol ? Json(*c.passingRtol) : Json(nullptr);
    entry["passing_atol"] = c.passingAtol ? Json(*c.passingAtol) : Json(nullptr);
  }
  if (!passed) {
    if (!said.empty()) invocation.terminal().err(output.name + ": " + said + "\n");
    if (c.worst >= 0) invocation.terminal().err(mismatchText(output.name, got, want, c, tolerance, nanEqual));
  } else if (!said.empty()) {
    invocation.note(output.name + ": " + said);
  } else {
    invocation.note(output.name + ": all " + countText(static_cast<uint64_t>(c.count)) + " values as expected (rtol " +
                    realText(tolerance.rtol) + ", atol " + realText(tolerance.atol) + "; largest difference " +
                    roundedText(c.maxAbs, 3) + ")");
  }
  list->push_back(std::move(entry));
  return passed;
}

} // namespace opc::cli
