// Cosine and ratio of signal to noise, tensor by tensor.
// SPDX-License-Identifier: Apache-2.0
#include "QuantizationReport.h"

#include "NumberText.h"
#include "TextTable.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace opc::cli {

namespace {

constexpr float kNegligible = 1e-5F;

/// The largest absolute value that is finite.
float largestOf(const float *values, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; ++i)
    if (std::isfinite(values[i])) most = std::max(most, std::abs(values[i]));
  return most;
}

} // namespace

Result<float> TensorCopies::largestInput(const ObservedTask &task, TaskData &data) {
  float most = 0;
  for (size_t i = 0; i < task.inputs.size(); ++i) {
    const ObservedTensor &t = task.inputs[i];
    if (t.desc.data_type() != kFloat) continue;
    const auto [known, isNew] = largest_.try_emplace(t.name, 0.0F);
    if (isNew) {
      OPC_ASSIGN_OR_RETURN(const void *bytes, data.input(i));
      known->second = largestOf(static_cast<const float *>(bytes), t.desc.shape().elem_cnt());
    }
    most = std::max(most, known->second);
  }
  return most;
}

Status TensorCopies::after(const ObservedTask &task, int64_t, TaskData &data) {
  for (size_t i = 0; i < task.outputs.size(); ++i) {
    const ObservedTensor &t = task.outputs[i];
    if (t.desc.data_type() != kFloat || copies_.count(t.name)) continue;
    const auto count = static_cast<size_t>(t.desc.shape().elem_cnt());
    if (used_ + count * sizeof(float) > limit_) {
      leftOut_.insert(t.name);
      continue;
    }
    OPC_ASSIGN_OR_RETURN(const void *bytes, data.output(i));
    const auto *from = static_cast<const float *>(bytes);
    const float largest = largest_[t.name] = largestOf(from, t.desc.shape().elem_cnt());
    OPC_ASSIGN_OR_RETURN(const float read, largestInput(task, data));
    const bool isFinite = std::all_of(from, from + count, [](float x) { return std::isfinite(x); });
    copies_[t.name] = {task.name, task.type, std::vector<float>(from, from + count),
                       isFinite && largest < read * kNegligible};
    used_ += count * sizeof(float);
  }
  return Status::ok();
}

namespace {

/// Elements that are the same infinity are no noise; NaN always is.
void measure(const std::vector<float> &expected, const std::vector<float> &made, TensorAccuracy *a) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double product = 0, left = 0, right = 0, noise = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double x = static_cast<double>(expected[i]), y = static_cast<double>(made[i]);
    if (std::isinf(x) && x == y) continue;
    product += x * y;
    left += x * x;
    right += y * y;
    noise += (x - y) * (x - y);
  }
  a->cosine = 1, a->snr = kInfinity;
  if (!std::isfinite(noise)) {
    a->cosine = 0, a->snr = -kInfinity;
    return;
  }
  if (noise <= 0) return;
  if (left > 0 || right > 0) a->cosine = left > 0 && right > 0 ? product / std::sqrt(left) / std::sqrt(right) : 0;
  a->snr = left > 0 ? 10 * std::log10(left / noise) : -kInfinity;
}

} // namespace

QuantizationAccuracy accuracyOf(const TensorCopies &expected, const TensorCopies &made,
                                const std::map<std::string, std::string> &names,
                                const std::set<std::string> &quantizedOps) {
  const auto nameOf = [&](const std::string &tensor) -> const std::string & {
    const auto it = names.find(tensor);
    return it == names.end() ? tensor : it->second;
  };
  QuantizationAccuracy result;
  for (const std::string &tensor : expected.leftOut()) result.leftOut += made.sees(nameOf(tensor));
  for (const auto &[name, e] : expected.copies()) {
    const auto it = made.copies().find(nameOf(name));
    if (it == made.copies().end()) {
      result.leftOut += made.sees(nameOf(name));
      continue;
    }
    if (it->second.values.size() != e.values.size()) continue;
    TensorAccuracy a{name, e.op, e.type, quantizedOps.count(e.op) != 0, e.isNegligible && it->second.isNegligible};
    measure(e.values, it->second.values, &a);
    result.tensors.push_back(std::move(a));
  }
  std::stable_sort(result.tensors.begin(), result.tensors.end(), [](const auto &a, const auto &b) {
    return std::pair(a.isNegligible, a.snr) < std::pair(b.isNegligible, b.snr);
  });
  return result;
}

Json accuracyJson(const TensorAccuracy &a) {
  return {{"tensor", a.tensor},
          {"op", a.op},
          {"type", a.type},
          {"quantized", a.isQuantized},
          {"negligible", a.isNegligible},
          {"cosine", realJson(a.cosine)},
          {"snr_db", realJson(a.snr)}};
}

/// What of a quantised op is in fewer bits, and how they are meant.
static std::string reducedText(QuantizeMode mode) {
  switch (mode) {
  case QuantizeMode::kStatic: return "u8 data, i8 weight";
  case QuantizeMode::kWeights: return "i8 weight";
  case QuantizeMode::kBlocks: return "4-bit weight";
  case QuantizeMode::kBfloat16: return "bf16 weight";
  }
  return "";
}

std::string accuracyTable(const std::vector<TensorAccuracy> &list, QuantizeMode mode, size_t count) {
  const auto number = [](double value, const char *format) {
    char text[32];
    std::snprintf(text, sizeof text, format, value);
    return std::string(text);
  };
  std::vector<std::vector<std::string>> rows = {{"tensor", "op", "cosine", "SNR (dB)", "quantised"}};
  for (size_t i = 0; i < std::min(count, list.size()); ++i) {
    const TensorAccuracy &a = list[i];
    if (a.isNegligible) break;
    const bool isEqual = a.snr > 0 && std::isinf(a.snr);
    rows.push_back({a.tensor, a.type, number(a.cosine, "%.6f"), isEqual ? "equal" : number(a.snr, "%.1f"),
                    a.isQuantized ? reducedText(mode) : ""});
  }
  return textTable(rows, outTableWidth());
}

} // namespace opc::cli
