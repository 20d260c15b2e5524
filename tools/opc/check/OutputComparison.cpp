// What a graph gives now beside what its lock says that it gave.
// SPDX-License-Identifier: Apache-2.0
#include "OutputComparison.h"

#include "NumberText.h"
#include "OutputRun.h"
#include "TensorSpec.h"

#include <algorithm>
#include <cmath>

namespace opc::cli {

namespace {

constexpr double kRoundingUp = 1.006; // what has three digits of it is not below the number itself

/// Two outputs of one name, shape and type.
class OutputComparison {
public:
  OutputComparison(const OutputValues &locked, const OutputValues &now, OutputTolerance allowed, OutputPair whole)
      : locked_(locked), now_(now), whole_(whole), tolerance_(allowed.tolerance), metrics_(std::move(allowed.metrics)),
        nanEqual_(allowed.nanEqual) {}

  std::vector<GraphFinding> run() {
    if (now_.nan + now_.inf > locked_.nan + locked_.inf) {
      add("NONFINITE",
          countText(now_.nan, "NaN") + " and " + countText(now_.inf) + (now_.inf == 1 ? " infinity" : " infinities") +
              " of " + countText(now_.shape.elem_cnt(), "value"),
          countText(locked_.nan + locked_.inf) + " not finite", countText(now_.nan + now_.inf) + " not finite");
      return std::move(findings_);
    }
    if (!IsFloatingDataType(now_.dtype)) {
      if (locked_.digest != now_.digest)
        add("NUMERIC_MISMATCH", "values differ" + firstDifference(), locked_.digest, now_.digest);
      return std::move(findings_);
    }
    if (now_.nan && !nanEqual_) {
      add("NUMERIC_MISMATCH",
          countText(now_.nan, "NaN") + " of " + countText(now_.shape.elem_cnt(), "value") + ", which equal nothing",
          countText(locked_.nan, "NaN"), countText(now_.nan, "NaN"),
          "where they are meant, in opc.toml, [tolerance]: \"" + now_.name + "\" = { nan = \"equal\" }");
      return std::move(findings_);
    }
    if (now_.nan != locked_.nan)
      add("NUMERIC_MISMATCH", countText(locked_.nan, "NaN") + " -> " + countText(now_.nan),
          countText(locked_.nan, "NaN"), countText(now_.nan, "NaN"));
    if (!isWhole() && locked_.samples.size() != now_.samples.size()) {
      add("NUMERIC_MISMATCH", "the lock has another number of samples", std::to_string(locked_.samples.size()),
          std::to_string(now_.samples.size()));
      return std::move(findings_);
    }
    const HostTensor wasSamples = samplesOf(locked_), isSamples = samplesOf(now_);
    const HostTensor &was = isWhole() ? *whole_.was : wasSamples, &is = isWhole() ? *whole_.is : isSamples;
    if (metrics_.empty())
      compareValues(was, is);
    else
      compareMetrics(was, is);
    if (metrics_.empty() && findings_.empty() && !isWhole()) compareStatistics();
    return std::move(findings_);
  }

private:
  void add(const char *rule, std::string message, std::string expected, std::string found, std::string help = "") {
    GraphFinding f;
    f.rule = rule;
    f.subject = now_.isInside ? ChangeSubject::kTensor : ChangeSubject::kOutput;
    (now_.isInside ? f.tensor : f.op) = now_.name;
    f.message = std::move(message);
    f.expected = std::move(expected);
    f.found = std::move(found);
    f.help = std::move(help);
    findings_.push_back(std::move(f));
  }

  std::string firstDifference() const {
    for (size_t i = 0; i < std::min(locked_.samples.size(), now_.samples.size()); ++i)
      if (locked_.samples[i] != now_.samples[i])
        return ", first seen at " +
               indexText(now_.shape, indexOfSample(now_.shape.elem_cnt(), static_cast<int64_t>(i))) + ": " +
               realText(locked_.samples[i]) + " -> " + realText(now_.samples[i]);
    return "";
  }

  /// In the output's own type, whose last place counts, and of its shape where they are all that it has.
  static HostTensor samplesOf(const OutputValues &v) {
    const auto count = static_cast<int64_t>(v.samples.size());
    Result<HostTensor> t = HostTensor::create(kDouble, v.shape.elem_cnt() == count ? v.shape : Shape{count});
    if (!t) return HostTensor();
    std::copy(v.samples.begin(), v.samples.end(), t->as<double>());
    Result<HostTensor> own = castTensor(*t, v.dtype);
    return own ? *std::move(own) : *std::move(t); // a lock may say what its type does not hold
  }

  bool isWhole() const { return whole_.was && whole_.is; }
  int64_t placeOf(int64_t i) const { return isWhole() ? i : indexOfSample(now_.shape.elem_cnt(), i); }
  const char *noun() const { return isWhole() ? "value" : "sample"; }

  void compareValues(const HostTensor &was, const HostTensor &is) {
    const Comparison c = compareTensors(is, was, tolerance_, nanEqual_);
    if (c.passed()) return;
    const double share = 100.0 * static_cast<double>(c.mismatches) / static_cast<double>(std::max<int64_t>(c.count, 1));
    std::string message =
        countText(c.mismatches) + " of " + countText(c.count, noun()) + " (" + roundedText(share, 3) +
        " %) differ by more than rtol " + realText(tolerance_.rtol) + ", atol " + realText(tolerance_.atol) +
        "; worst at " + indexText(now_.shape, placeOf(c.worst)) + ": " + realText(elementAt(was, c.worst)) + " -> " +
        realText(elementAt(is, c.worst)) + "; largest differences " + roundedText(c.maxAbs, 3) + " absolute, " +
        roundedText(c.maxRel, 3) + " relative; 99th percentile " +
        roundedText(metricValue(Metric::Kind::kP99, is, was, nanEqual_), 3) + cosineText(is, was, nanEqual_, 6);
    std::string help;
    if (c.passingRtol) help = "rtol " + roundedText(*c.passingRtol * kRoundingUp, 3) + " would pass";
    if (c.passingAtol)
      help += (help.empty() ? "" : ", or ") + ("atol " + roundedText(*c.passingAtol * kRoundingUp, 3)) +
              (help.empty() ? " would pass" : "");
    add("NUMERIC_MISMATCH", std::move(message), statisticsText(locked_), statisticsText(now_), std::move(help));
  }

  void compareMetrics(const HostTensor &was, const HostTensor &is) {
    const int64_t width = is.shape().NumAxes() ? is.shape().dim_vec().back() : 1;
    for (const Metric &metric : metrics_) {
      if (metric.kind == Metric::Kind::kTopK && is.elemCount() > 0 && metric.bound >= static_cast<double>(width)) {
        // All that there is, or more, would hold, whatever the values are.
        add("NUMERIC_MISMATCH", metricText(metric) + " cannot be asked: a row has " + countText(width, noun()),
            metricText(metric), countText(width, noun()), "give a smaller number, or another metric for this output");
        continue;
      }
      const double value = metricValue(metric.kind, is, was, nanEqual_, static_cast<int64_t>(metric.bound));
      if (!metricHolds(metric, value))
        add("NUMERIC_MISMATCH",
            metricText(metric) + " does not hold for " + countText(was.elemCount(), noun()) + ": " +
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
      if (row.is == row.was || std::abs(row.is - row.was) <= row.bound) continue; // both may be infinite
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
  const OutputPair whole_;
  const Tolerance tolerance_;
  const std::vector<Metric> metrics_;
  const bool nanEqual_;
  std::vector<GraphFinding> findings_;
};

} // namespace

std::vector<GraphFinding> compareOutputs(const NumericFacts &locked, const NumericFacts &now,
                                         const ToleranceOf &tolerance, bool isOtherDevice, const WholeOutputs &whole) {
  std::vector<GraphFinding> findings;
  for (const OutputValues &is : now.outputs)
    for (const OutputValues &was : locked.outputs) {
      // Another type is a finding of the interface.
      if (was.name != is.name || was.isInside != is.isInside || was.dtype != is.dtype || was.shape != is.shape)
        continue;
      for (GraphFinding &f :
           OutputComparison(was, is, tolerance(is.name, is.dtype, isOtherDevice), whole(is.name)).run())
        findings.push_back(std::move(f));
    }
  return findings;
}

} // namespace opc::cli
