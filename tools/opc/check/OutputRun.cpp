// A run on generated inputs, and its comparison with what is locked.
// SPDX-License-Identifier: Apache-2.0
#include "OutputRun.h"

#include "NumberText.h"
#include "OutputFiles.h"
#include "Session.h"
#include "Sha256.h"
#include "TensorSpec.h"

#include <algorithm>
#include <cmath>

namespace opc::cli {

namespace {

constexpr int64_t kSamples = 64;
constexpr double kRoundingUp = 1.006; // what has three digits of it is not below the number itself

Result<HostTensor> generated(const user_op::TensorDesc &desc, const std::string &name, const NumericFacts &numerics) {
  OPC_ASSIGN_OR_RETURN(HostTensor tensor, HostTensor::createUninitialized(desc.data_type(), desc.shape()));
  const FillKey key{numerics.seed, stableHash(name)};
  if (IsFloatingDataType(desc.data_type()))
    fillUniform(&tensor, numerics.low, numerics.high, key);
  else
    fillUniform(&tensor, 0, 1, key);
  return tensor;
}

OutputValues valuesOf(const NamedOutput &output) {
  const HostTensor &t = output.tensor;
  OutputValues v;
  v.name = output.name;
  v.dtype = t.dtype();
  v.shape = t.shape();
  v.bits = sha256({static_cast<const char *>(t.data()), t.bytes()});
  const int64_t n = t.elemCount();
  for (int64_t i = 0; i < std::min(n, kSamples); ++i)
    v.samples.push_back(elementAt(t, n <= kSamples ? i : i * (n - 1) / (kSamples - 1)));
  if (!IsFloatingDataType(t.dtype())) {
    v.digest = v.bits;
    return v;
  }
  double sum = 0, squares = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = elementAt(t, i);
    v.nan += std::isnan(x);
    v.inf += std::isinf(x);
    if (!std::isfinite(x)) continue;
    v.min = finite ? std::min(v.min, x) : x;
    v.max = finite ? std::max(v.max, x) : x;
    sum += x;
    squares += x * x;
    ++finite;
  }
  if (!finite) return v;
  v.mean = sum / static_cast<double>(finite);
  double spread = 0;
  for (int64_t i = 0; i < n; ++i)
    if (const double x = elementAt(t, i); std::isfinite(x)) spread += (x - v.mean) * (x - v.mean);
  v.std = std::sqrt(spread / static_cast<double>(finite));
  v.l2 = std::sqrt(squares);
  return v;
}

/// Two outputs of one name, shape and type.
class OutputComparison {
public:
  OutputComparison(const OutputValues &locked, const OutputValues &now, OutputTolerance allowed)
      : locked_(locked), now_(now), tolerance_(allowed.tolerance), metrics_(std::move(allowed.metrics)) {}

  std::vector<GraphFinding> run() {
    if (now_.nan + now_.inf > locked_.nan + locked_.inf) {
      add("NONFINITE",
          countText(now_.nan, "NaN") + " and " + countText(now_.inf, "infinity") + " of " +
              countText(now_.shape.elem_cnt(), "value"),
          countText(locked_.nan + locked_.inf) + " not finite", countText(now_.nan + now_.inf) + " not finite");
      return std::move(findings_);
    }
    if (!IsFloatingDataType(now_.dtype)) {
      if (locked_.digest != now_.digest)
        add("NUMERIC_MISMATCH", "values differ" + firstDifference(), locked_.digest, now_.digest);
      return std::move(findings_);
    }
    if (!metrics_.empty()) {
      compareMetrics();
      return std::move(findings_);
    }
    compareSamples();
    if (findings_.empty()) compareStatistics();
    return std::move(findings_);
  }

private:
  void add(const char *rule, std::string message, std::string expected, std::string found, std::string help = "") {
    GraphFinding f;
    f.rule = rule;
    f.subject = ChangeSubject::kOutput;
    f.op = now_.name;
    f.message = std::move(message);
    f.expected = std::move(expected);
    f.found = std::move(found);
    f.help = std::move(help);
    findings_.push_back(std::move(f));
  }

  std::string firstDifference() const {
    for (size_t i = 0; i < std::min(locked_.samples.size(), now_.samples.size()); ++i)
      if (locked_.samples[i] != now_.samples[i])
        return ", first seen at " + indexText(now_.shape, indexOf(i)) + ": " + realText(locked_.samples[i]) + " -> " +
               realText(now_.samples[i]);
    return "";
  }

  int64_t indexOf(size_t sample) const {
    const int64_t n = now_.shape.elem_cnt(), i = static_cast<int64_t>(sample);
    return n <= kSamples ? i : i * (n - 1) / (kSamples - 1);
  }

  static HostTensor tensorOf(const std::vector<double> &values) {
    Result<HostTensor> t = HostTensor::create(kDouble, Shape{static_cast<int64_t>(values.size())});
    if (!t) return HostTensor();
    std::copy(values.begin(), values.end(), t->as<double>());
    return *std::move(t);
  }

  void compareSamples() {
    if (locked_.samples.size() != now_.samples.size()) {
      add("NUMERIC_MISMATCH", "the lock has another number of samples", std::to_string(locked_.samples.size()),
          std::to_string(now_.samples.size()));
      return;
    }
    const Comparison c = compareTensors(tensorOf(now_.samples), tensorOf(locked_.samples), tolerance_, true);
    if (c.passed()) return;
    const auto worst = static_cast<size_t>(c.worst);
    std::string message = countText(c.mismatches) + " of " + countText(c.count, "sample") +
                          " differ by more than rtol " + realText(tolerance_.rtol) + ", atol " +
                          realText(tolerance_.atol) + "; worst at " + indexText(now_.shape, indexOf(worst)) + ": " +
                          realText(locked_.samples[worst]) + " -> " + realText(now_.samples[worst]) +
                          "; largest differences " + roundedText(c.maxAbs, 3) + " absolute, " +
                          roundedText(c.maxRel, 3) + " relative";
    std::string help;
    if (c.passingRtol) help = "rtol " + roundedText(*c.passingRtol * kRoundingUp, 3) + " would pass";
    if (c.passingAtol)
      help += (help.empty() ? "" : ", or ") + ("atol " + roundedText(*c.passingAtol * kRoundingUp, 3)) +
              (help.empty() ? " would pass" : "");
    add("NUMERIC_MISMATCH", std::move(message), statisticsText(locked_), statisticsText(now_), std::move(help));
  }

  void compareMetrics() {
    if (locked_.samples.size() != now_.samples.size()) return;
    const HostTensor was = tensorOf(locked_.samples), is = tensorOf(now_.samples);
    for (const Metric &metric : metrics_) {
      const double value = metricValue(metric.kind, is, was, true, static_cast<int64_t>(metric.bound));
      if (!metricHolds(metric, value))
        add("NUMERIC_MISMATCH",
            metricText(metric) + " does not hold for " + countText(was.elemCount(), "sample") + ": " +
                roundedText(value, 6),
            metricText(metric), realText(value));
    }
  }

  static std::string statisticsText(const OutputValues &v) {
    return "min " + roundedText(v.min, 6) + ", max " + roundedText(v.max, 6) + ", mean " + roundedText(v.mean, 6) +
           ", std " + roundedText(v.std, 6) + ", l2 " + roundedText(v.l2, 6);
  }

  /// Values within their tolerance have statistics within these bounds (the norm's triangle inequality); statistics
  /// beyond them differ in values that are no samples.
  void compareStatistics() {
    const double n = static_cast<double>(std::max<int64_t>(1, now_.shape.elem_cnt()));
    const double rms = locked_.l2 / std::sqrt(n), slack = 1e-12 * (rms + std::abs(locked_.max) + std::abs(locked_.min));
    const double mean = tolerance_.atol + tolerance_.rtol * rms + slack;
    const struct {
      const char *name;
      double was, is, bound;
    } rows[] = {
        {"min", locked_.min, now_.min, tolerance_.atol + tolerance_.rtol * largest() + slack},
        {"max", locked_.max, now_.max, tolerance_.atol + tolerance_.rtol * largest() + slack},
        {"mean", locked_.mean, now_.mean, mean},
        {"std", locked_.std, now_.std, mean},
        {"l2", locked_.l2, now_.l2, mean * std::sqrt(n)},
    };
    for (const auto &row : rows) {
      if (std::abs(row.is - row.was) <= row.bound) continue;
      add("NUMERIC_MISMATCH",
          std::string(row.name) + " " + realText(row.was) + " -> " + realText(row.is) + ", at most " +
              roundedText(row.bound, 3) + " apart for rtol " + realText(tolerance_.rtol) + ", atol " +
              realText(tolerance_.atol),
          statisticsText(locked_), statisticsText(now_));
      return;
    }
  }
  double largest() const { return std::max(std::abs(locked_.min), std::abs(locked_.max)); }

  const OutputValues &locked_, &now_;
  const Tolerance tolerance_;
  const std::vector<Metric> metrics_;
  std::vector<GraphFinding> findings_;
};

} // namespace

Status runOutputs(std::string_view plan, const Registry &registry, int threads, NumericFacts *numerics) {
  SessionOptions options;
  options.threads = threads;
  options.seed = numerics->seed;
  options.ranks = 0;
  options.deterministic = true;
  OPC_ASSIGN_OR_RETURN(Session session, Session::load(plan, registry, options));
  for (const PortInfo &in : session.interface().inputs) {
    OPC_ASSIGN_OR_RETURN(HostTensor value, generated(in.desc, in.name, *numerics));
    OPC_RETURN_IF_ERROR(session.feed(in.name, value));
  }
  for (const VariableInfo &v : session.interface().variables) {
    if (v.hasInitializer) continue;
    OPC_ASSIGN_OR_RETURN(HostTensor value, generated(v.desc, v.name, *numerics));
    OPC_RETURN_IF_ERROR(session.setVariable(v.name, value));
  }
  OPC_RETURN_IF_ERROR(session.run());
  OPC_ASSIGN_OR_RETURN(const std::vector<NamedOutput> outputs, fetchAll(session));
  for (const NamedOutput &output : outputs) numerics->outputs.push_back(valuesOf(output));
  return Status::ok();
}

std::vector<GraphFinding> compareOutputs(const NumericFacts &locked, const NumericFacts &now,
                                         const ToleranceOf &tolerance) {
  std::vector<GraphFinding> findings;
  for (const OutputValues &is : now.outputs)
    for (const OutputValues &was : locked.outputs) {
      // Another type is a finding of the interface.
      if (was.name != is.name || was.dtype != is.dtype || was.shape != is.shape) continue;
      for (GraphFinding &f : OutputComparison(was, is, tolerance(is.name, is.dtype)).run())
        findings.push_back(std::move(f));
    }
  return findings;
}

} // namespace opc::cli
