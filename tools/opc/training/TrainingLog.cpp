// Metrics lines and curves.
// SPDX-License-Identifier: Apache-2.0
#include "TrainingLog.h"

#include "JsonOutput.h"
#include "NumberText.h"
#include "PrintableText.h"
#include "Session.h"
#include "WriteFailure.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fcntl.h>
#include <iterator>
#include <unistd.h>

namespace opc::cli {

namespace {
constexpr const char *kOwnNumbers[] = {"step", "steps", "epoch", "epochs", "steps_per_s", "seconds_left"};
}

std::string metricName(const std::string &output) {
  const bool isTaken =
      std::any_of(std::begin(kOwnNumbers), std::end(kOwnNumbers), [&output](const char *own) { return output == own; });
  return isTaken ? "output." + output : output;
}

std::string metricsLine(const StepMetrics &metrics) {
  Json line = {{"step", metrics.step}, {"epoch", metrics.epoch}};
  for (const auto &[name, value] : metrics.values) line[name] = realJson(value);
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

/// A line of the file; false for one that was cut off or is none.
bool parseLine(std::string_view text, StepMetrics *out) {
  const Json line = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer() || !line.contains("epoch") ||
      !line["epoch"].is_number_integer())
    return false;
  out->step = line["step"].get<int64_t>();
  out->epoch = line["epoch"].get<int64_t>();
  for (const auto &[key, value] : line.items()) {
    if (key == "step" || key == "epoch") continue;
    if (value.is_number())
      out->values.push_back({key, value.get<double>()});
    else if (value.is_string())
      out->values.push_back({key, parseReal(value.get<std::string>()).value_or(std::nan(""))});
  }
  return true;
}

} // namespace

MetricsFile::~MetricsFile() {
  if (fd_ < 0) return;
  (void)flush();
  ::close(fd_);
}

Status MetricsFile::open(const std::string &path, int64_t from, std::vector<StepMetrics> *earlier) {
  path_ = path;
  std::string kept;
  if (from > 0 && ::access(path.c_str(), F_OK) == 0) {
    OPC_ASSIGN_OR_RETURN(FileBytes bytes, FileBytes::open(path));
    std::string_view text = bytes.view();
    while (!text.empty()) {
      const size_t end = text.find('\n');
      if (end == std::string_view::npos) break; // cut off
      StepMetrics metrics;
      if (parseLine(text.substr(0, end), &metrics) && metrics.step <= from) {
        kept += std::string(text.substr(0, end)) + "\n";
        earlier->push_back(std::move(metrics));
      }
      text.remove_prefix(end + 1);
    }
  }
  OPC_RETURN_IF_ERROR(writeFileAtomically(path, kept));
  fd_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  return fd_ >= 0 ? Status::ok() : cannotWrite("write", path_, errno);
}

Status MetricsFile::write(const StepMetrics &metrics) {
  const std::string line = metricsLine(metrics) + "\n";
  // A run that lasts for weeks beside a disk that stays full: its memory is not the place for all of it.
  if (pending_.size() + line.size() <= kMostPending) pending_ += line;
  return pending_.size() < kPage && !isBehind_ ? Status::ok() : flush();
}

Status MetricsFile::flush() {
  isBehind_ = true;
  while (!pending_.empty()) {
    const ssize_t n = ::write(fd_, pending_.data(), pending_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) { // who reads a pipe may have enough
      pending_.clear();
      break;
    }
    if (n < 0) return cannotWrite("write", path_, errno);
    pending_.erase(0, static_cast<size_t>(n)); // a part of a line, too: its rest follows
  }
  isBehind_ = false;
  return Status::ok();
}

namespace {

struct Point {
  double x, y;
};

/// At most 2 * `columns` points: the extremes of each stretch, in order.
std::vector<Point> thinned(const std::vector<Point> &points, size_t columns) {
  if (points.size() <= 2 * columns) return points;
  std::vector<Point> out;
  for (size_t c = 0; c < columns; ++c) {
    const size_t begin = points.size() * c / columns, end = points.size() * (c + 1) / columns;
    const auto less = [](const Point &a, const Point &b) { return a.y < b.y; };
    const auto [low, high] = std::minmax_element(points.begin() + static_cast<ptrdiff_t>(begin),
                                                 points.begin() + static_cast<ptrdiff_t>(end), less);
    out.push_back(low < high ? *low : *high);
    if (low != high) out.push_back(low < high ? *high : *low);
  }
  return out;
}

std::string fixed(double value) {
  char buffer[64];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, 1);
  return std::string(buffer, r.ptr);
}

std::string escaped(const std::string &text) {
  std::string out;
  for (char c : printableName(text))
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

std::string textAt(double x, double y, const char *anchor, const std::string &text) {
  return "<text x=\"" + fixed(x) + "\" y=\"" + fixed(y) + "\" text-anchor=\"" + anchor + "\">" + escaped(text) +
         "</text>\n";
}

} // namespace

std::string metricsSvg(const std::string &title, const std::vector<StepMetrics> &metrics) {
  std::vector<std::pair<std::string, std::vector<Point>>> curves;
  for (const StepMetrics &m : metrics)
    for (const auto &[name, value] : m.values) {
      auto it = std::find_if(curves.begin(), curves.end(), [&name = name](const auto &c) { return c.first == name; });
      if (it == curves.end()) it = curves.insert(curves.end(), {name, {}});
      if (std::isfinite(value)) it->second.push_back({static_cast<double>(m.step), value});
    }
  constexpr double kWidth = 800, kPanel = 260, kLeft = 80, kRight = 20, kTop = 30, kPlot = 180;
  const double height = 30 + kPanel * static_cast<double>(std::max<size_t>(curves.size(), 1));
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"" + fixed(height) +
                    "\" viewBox=\"0 0 800 " + fixed(height) +
                    "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
                    "fill=\"white\"/>\n" +
                    textAt(kLeft, 20, "start", title);
  double top = 30;
  for (const auto &[name, points] : curves) {
    double low = INFINITY, high = -INFINITY;
    for (const Point &p : points) low = std::min(low, p.y), high = std::max(high, p.y);
    if (!(low < high)) low = std::isfinite(low) ? low - 0.5 : 0, high = low + 1;
    const double first = points.empty() ? 0 : points.front().x, last = points.empty() ? 1 : points.back().x;
    const double y0 = top + kTop, y1 = y0 + kPlot, span = std::max(last - first, 1.0);
    svg += "<g stroke=\"#888\" fill=\"none\"><rect x=\"" + fixed(kLeft) + "\" y=\"" + fixed(y0) + "\" width=\"" +
           fixed(kWidth - kLeft - kRight) + "\" height=\"" + fixed(kPlot) + "\"/></g>\n";
    svg += textAt(kLeft, y0 - 8, "start", name) + textAt(kLeft - 6, y0 + 10, "end", roundedText(high, 4)) +
           textAt(kLeft - 6, y1, "end", roundedText(low, 4)) + textAt(kLeft, y1 + 16, "start", realText(first)) +
           textAt(kWidth - kRight, y1 + 16, "end", "step " + realText(last));
    svg += "<polyline fill=\"none\" stroke=\"#1f6fb2\" stroke-width=\"1.5\" points=\"";
    for (const Point &p : thinned(points, 700))
      svg += fixed(kLeft + (p.x - first) / span * (kWidth - kLeft - kRight)) + "," +
             fixed(y1 - (p.y - low) / (high - low) * kPlot) + " ";
    svg += "\"/>\n";
    top += kPanel;
  }
  return svg + "</svg>\n";
}

} // namespace opc::cli
