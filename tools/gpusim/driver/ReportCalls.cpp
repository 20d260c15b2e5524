// What a program that brings the simulator asks of it: the report so far, and silence on stderr.
// SPDX-License-Identifier: Apache-2.0
#include "ApiCall.h"

#include <algorithm>
#include <cstring>

namespace opc::gpusim::driver {

extern "C" {

/// The JSON of report=FILE as it is now, without the counters of lines, of what has been executed. Returns its size;
/// copies at most `bytes` of it.
__attribute__((visibility("default"))) size_t opcGpusimReport(char *to, size_t bytes) {
  size_t size = 0;
  (void)api("opcGpusimReport", kNothing, [&](ApiCall &c) {
    const std::string text = c.driver.report.json(c.driver.options, false);
    size = text.size();
    if (to && bytes > 0) std::memcpy(to, text.data(), std::min(bytes, size));
    return kSuccess;
  });
  return size;
}

/// How many findings the report has.
__attribute__((visibility("default"))) size_t opcGpusimFindings() {
  size_t count = 0;
  (void)api("opcGpusimFindings", kNothing, [&](ApiCall &c) {
    count = c.driver.report.findings.size();
    return kSuccess;
  });
  return count;
}

/// How many of them are errors of the program: all, but with findings=warn those of the hardware.
__attribute__((visibility("default"))) size_t opcGpusimErrors() {
  size_t count = 0;
  (void)api("opcGpusimErrors", kNothing, [&](ApiCall &c) {
    count = c.driver.errors;
    return kSuccess;
  });
  return count;
}

/// Whether findings and refusals are printed; they are in the report in any case.
__attribute__((visibility("default"))) void opcGpusimPrint(int prints) {
  (void)api("opcGpusimPrint", kNothing, [&](ApiCall &c) {
    c.driver.prints = prints != 0;
    return kSuccess;
  });
}

} // extern "C"

} // namespace opc::gpusim::driver
