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

Status TensorCopies::after(const ObservedTask &task, int64_t, TaskData &data) {
  for (size_t i = 0; i < task.outputs.size(); ++i) {
    const ObservedTensor &t = task.outputs[i];
    if (t.desc.data_type() != kFloat || copies_.count(t.name)) continue;
    const auto count = static_cast<size_t>(t.desc.shape().elem_cnt());
    if (used_ + count * sizeof(float) > limit_) {
      ++leftOut_;
      continue;
    }
    OPC_ASSIGN_OR_RETURN(const void *bytes, data.output(i));
    const auto *from = static_cast<const float *>(bytes);
    copies_[t.name] = {task.name, task.type, std::vector<float>(from, from + count)};
    used_ += count * sizeof(float);
  }
  return Status::ok();
}

std::vector<TensorAccuracy> accuracies(const TensorCopies &expected, const TensorCopies &made,
                                       const std::set<std::string> &quantizedOps) {
  std::vector<TensorAccuracy> list;
  for (const auto &[name, e] : expected.copies()) {
    const auto it = made.copies().find(name);
    if (it == made.copies().end() || it->second.values.size() != e.values.size()) continue;
    double product = 0, left = 0, right = 0, noise = 0;
    for (size_t i = 0; i < e.values.size(); ++i) {
      const double x = static_cast<double>(e.values[i]), y = static_cast<double>(it->second.values[i]);
      product += x * y;
      left += x * x;
      right += y * y;
      noise += (x - y) * (x - y);
    }
    TensorAccuracy a{name, e.op, e.type, quantizedOps.count(e.op) != 0, 1, std::numeric_limits<double>::infinity()};
    if (left > 0 || right > 0) a.cosine = left > 0 && right > 0 ? product / std::sqrt(left) / std::sqrt(right) : 0;
    if (noise > 0) a.snr = left > 0 ? 10 * std::log10(left / noise) : -std::numeric_limits<double>::infinity();
    list.push_back(std::move(a));
  }
  std::stable_sort(list.begin(), list.end(), [](const auto &a, const auto &b) { return a.snr < b.snr; });
  return list;
}

Json accuracyJson(const TensorAccuracy &a) {
  return {{"tensor", a.tensor},
          {"op", a.op},
          {"type", a.type},
          {"quantized", a.isQuantized},
          {"cosine", realJson(a.cosine)},
          {"snr_db", realJson(a.snr)}};
}

std::string accuracyTable(const std::vector<TensorAccuracy> &list, size_t count) {
  const auto number = [](double value, const char *format) {
    char text[32];
    std::snprintf(text, sizeof text, format, value);
    return std::string(text);
  };
  std::vector<std::vector<std::string>> rows = {{"tensor", "op", "cosine", "SNR (dB)", "integers"}};
  for (size_t i = 0; i < std::min(count, list.size()); ++i) {
    const TensorAccuracy &a = list[i];
    rows.push_back({a.tensor, a.type, number(a.cosine, "%.6f"), std::isfinite(a.snr) ? number(a.snr, "%.1f") : "equal",
                    a.isQuantized ? "yes" : ""});
  }
  return textTable(rows, outTableWidth());
}

} // namespace opc::cli
