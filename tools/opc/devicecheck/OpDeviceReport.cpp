// The results of opc verify --device in words, tables and JSON.
// SPDX-License-Identifier: Apache-2.0
#include "OpDeviceReport.h"

#include "NumberText.h"
#include "TextParts.h"
#include "TextTable.h"

#include <cstdlib>
#include <cxxabi.h>
#include <memory>

namespace opc::cli {

namespace {

constexpr size_t kShownFailures = 10;

/// "1.25", and nothing where there was nothing to access.
std::string ratioText(uint64_t value, uint64_t ideal) {
  return ideal ? roundedText(static_cast<double>(value) / static_cast<double>(ideal), 3) : "-";
}

std::string indented(const std::string &text, const std::string &by) {
  std::string out = by;
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) out += by;
  }
  if (out.empty() || out.back() != '\n') out += "\n";
  return out;
}

/// "exchange(float const*, float*, int)" for the name that nvcc gives it.
std::string readable(const std::string &kernel) {
  int error = 0;
  const std::unique_ptr<char, void (*)(void *)> name(abi::__cxa_demangle(kernel.c_str(), nullptr, nullptr, &error),
                                                     std::free);
  return error == 0 && name ? name.get() : kernel;
}

std::string failuresText(const OpDeviceCheck &check) {
  std::string text;
  for (size_t i = 0; i < check.failures.size() && i < kShownFailures; ++i) {
    const DeviceFailure &f = check.failures[i];
    text += "  case " + f.sample + (f.type.empty() ? "" : " in " + f.type) + ": " + f.kind + "\n" +
            indented(f.text, "    ");
  }
  if (check.failures.size() > kShownFailures)
    text += "  and " + countText(check.failures.size() - kShownFailures) + " more; --json lists them all\n";
  return text;
}

std::string countersText(const OpDeviceCheck &check, size_t width) {
  if (check.kernels.empty()) return "";
  constexpr size_t kIndent = 2;
  std::vector<std::vector<std::string>> rows = {
      {"KERNEL", "LAUNCHES", "INSTRUCTIONS", "LANES", "SECTORS", "WAVEFRONTS"}};
  for (const auto &[name, k] : check.kernels)
    rows.push_back({readable(name), countText(k.launches), countText(k.instructions),
                    ratioText(k.lanes, k.instructions), ratioText(k.sectors, k.idealSectors),
                    ratioText(k.wavefronts, k.idealWavefronts)});
  return indented(textTable(rows, width > kIndent ? width - kIndent : 0), "  ");
}

} // namespace

std::string deviceCheckText(const OpDeviceCheck &check, const std::string &device, size_t width) {
  std::string text = check.op;
  if (check.samples == 0 && check.withoutKernel.empty()) return text + "  not applicable: no case of it runs\n";
  if (check.samples == 0) return text + "  not applicable: no kernel for " + device + "\n";
  text += check.passed() ? "  as on the cpu: " : "  FAILED: ";
  if (!check.passed()) text += countText(check.failures.size(), "failure") + " in ";
  text += countText(check.samples, "sample");
  if (!check.types.empty()) text += " in " + joined(check.types, ", ");
  if (check.passed()) text += ", the largest difference is " + roundedText(check.largestError, 3);
  if (!check.withoutKernel.empty()) text += "; no kernel for " + joined(check.withoutKernel, ", ");
  return text + "\n" + failuresText(check) + countersText(check, width);
}

Json deviceCheckJson(const OpDeviceCheck &check) {
  Json failures = Json::array(), kernels = Json::array();
  for (const DeviceFailure &f : check.failures)
    failures.push_back({{"case", f.sample},
                        {"type", f.type.empty() ? Json(nullptr) : Json(f.type)},
                        {"kind", f.kind},
                        {"text", f.text}});
  for (const auto &[name, k] : check.kernels)
    kernels.push_back({{"kernel", name},
                       {"launches", k.launches},
                       {"instructions", k.instructions},
                       {"active_lanes", k.lanes},
                       {"sectors", k.sectors},
                       {"ideal_sectors", k.idealSectors},
                       {"wavefronts", k.wavefronts},
                       {"ideal_wavefronts", k.idealWavefronts}});
  return {{"op", check.op},
          {"samples", check.samples},
          {"types", check.types},
          {"without_kernel", check.withoutKernel},
          {"largest_difference", realJson(check.largestError)},
          {"failures", std::move(failures)},
          {"kernels", std::move(kernels)}};
}

} // namespace opc::cli
