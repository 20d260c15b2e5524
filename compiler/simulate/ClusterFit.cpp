// Least squares of relative errors with two unknowns, none of them negative.
// SPDX-License-Identifier: Apache-2.0
#include "ClusterFit.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace opc::simulate {
namespace {

struct Sample {
  double x = 0, y = 0, seconds = 0; // seconds = a x + b y
};

double squaredError(const std::vector<Sample> &samples, double a, double b) {
  double sum = 0;
  for (const Sample &s : samples) sum += std::pow((a * s.x + b * s.y) / s.seconds - 1, 2);
  return sum;
}

/// (a, b), both at least 0.
std::pair<double, double> fit(const std::vector<Sample> &samples) {
  double xx = 0, xy = 0, yy = 0, x1 = 0, y1 = 0;
  for (const Sample &s : samples) {
    const double x = s.x / s.seconds, y = s.y / s.seconds;
    xx += x * x, xy += x * y, yy += y * y, x1 += x, y1 += y;
  }
  std::vector<std::pair<double, double>> candidates = {{xx > 0 ? x1 / xx : 0, 0}, {0, yy > 0 ? y1 / yy : 0}};
  const double det = xx * yy - xy * xy;
  if (det > 1e-12 * xx * yy) {
    const std::pair<double, double> both = {(yy * x1 - xy * y1) / det, (xx * y1 - xy * x1) / det};
    if (both.first >= 0 && both.second >= 0) return both;
  }
  return squaredError(samples, candidates[0].first, 0) < squaredError(samples, 0, candidates[1].second) ? candidates[0]
                                                                                                        : candidates[1];
}

} // namespace

Result<ClusterDescription> fitCluster(const MachineSamples &m) {
  ClusterDescription c;
  c.name = m.name;
  c.memoryBandwidth = m.copyBandwidth;
  c.memoryBytes = m.memoryBytes;
  c.taskOverhead = m.taskOverhead;
  c.devicesPerHost = m.ranks;
  c.coresPerHost = m.cores;

  // seconds / flops = 1 / rate + (halfWidth / rate) / width
  std::vector<Sample> products;
  for (const OpSample &s : m.products) {
    const double elements = s.cost.bytes / static_cast<double>(GetSizeOfDataType(s.type));
    if (s.cost.flops > 0 && s.seconds > 0) products.push_back({s.cost.flops, elements, s.seconds});
  }
  if (products.empty() || !(m.copyBandwidth > 0))
    return Status(StatusCode::kUnsupported, "OPC0748", "there are no measured products to fit a rate to");
  const auto [perOperation, perElement] = fit(products);
  if (perOperation <= 0)
    return Status(StatusCode::kUnsupported, "OPC0748", "the measured products get no slower with their size");
  c.flops[kFloat] = 1 / perOperation;
  c.efficiency = {1, perElement / perOperation};

  std::map<std::string, std::vector<Sample>> byType;
  for (const OpSample &s : m.ops)
    if (s.seconds > 0) byType[s.op].push_back({1, opSeconds(c, s.op, s.cost, s.type) - c.taskOverhead, s.seconds});
  for (const auto &[op, samples] : byType) {
    const auto [overhead, factor] = fit(samples);
    // One size says nothing about what grows with it: what is above the overhead of any task grows.
    const bool oneSize = std::all_of(samples.begin(), samples.end(), [&](const Sample &s) {
      return std::abs(s.y - samples[0].y) <= 0.05 * samples[0].y;
    });
    if (oneSize && samples[0].y > 0) {
      double mean = 0;
      for (const Sample &s : samples) mean += s.seconds / static_cast<double>(samples.size());
      const double base = std::min(c.taskOverhead, mean);
      c.ops[op] = {base, (mean - base) / samples[0].y};
    } else {
      c.ops[op] = {overhead, factor};
    }
  }

  NetworkLevel level;
  level.name = "host";
  level.devices = 4096;
  level.link = {5e-6, m.copyBandwidth};
  std::map<BoxingKind, std::vector<Sample>> byKind;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const StepSample &s : m.steps) {
    const auto unit = [&](Link link) { return boxingSeconds(s.op, MeshLinks{{link}, link}); };
    if (s.seconds > 0) byKind[s.op.step.kind].push_back({unit({1, kInfinity}), unit({0, 1}), s.seconds});
  }
  for (const auto &[kind, samples] : byKind) {
    const auto [latency, perByte] = fit(samples);
    level.collectives[kind] = {latency, perByte > 0 ? 1 / perByte : m.copyBandwidth};
  }
  // What was not measured, exchanges for example, is like an all-to-all; the planner asks for no kind.
  for (BoxingKind kind : {BoxingKind::kAllReduce, BoxingKind::kAllToAll})
    if (const auto found = level.collectives.find(kind); found != level.collectives.end()) level.link = found->second;
  c.levels.push_back(std::move(level));
  return c;
}

} // namespace opc::simulate
