// A memory plan as SVG: addresses over tasks.
// SPDX-License-Identifier: Apache-2.0
#include "GraphDrawing.h"

#include "CompileReport.h"
#include "Markup.h"
#include "NumberText.h"
#include "TextParts.h"

#include <algorithm>

namespace opc::cli {

namespace {

constexpr double kWidth = 960, kHeight = 480, kLeft = 90, kTop = 40, kBottom = 30;

constexpr const char *kStyle =
    "<style>\n"
    ".md{background:#fff;font:12px ui-monospace,monospace}.md text{fill:#1b1f24}.md rect{stroke:#fff;stroke-width:.5}\n"
    ".md .activation{fill:#54aeff}.md .workspace{fill:#d4a72c}.md .input{fill:#4ac26b}.md .variable{fill:#a475f9}\n"
    ".md .constant{fill:#8c959f}.md .graph{fill:#0a3069}.md .p{stroke:#cf222e;stroke-dasharray:4}\n"
    "@media(prefers-color-scheme:dark){.md{background:#0d1117}.md text{fill:#e6edf3}.md rect{stroke:#0d1117}\n"
    ".md .graph{fill:#b6e3ff}}\n"
    "</style>\n";

/// For all tasks: variables, constants, inputs, and what graphs in ops take.
bool stays(const MemoryFacts::Slot &s) { return s.kind != "activation" && s.kind != "workspace"; }

std::string number(double value) { return roundedText(value, 6); }

} // namespace

std::string memorySvg(const MemoryFacts &memory, const std::string &title) {
  uint32_t tasks = 1;
  for (const MemoryFacts::Slot &s : memory.slots)
    if (!stays(s)) tasks = std::max(tasks, s.lastTask + 1);
  const double bytes = static_cast<double>(std::max<uint64_t>(memory.arenaBytes, 1));
  const auto x = [&](double task) { return kLeft + task / tasks * (kWidth - kLeft - 10); };
  const auto y = [&](double address) { return kTop + (1 - address / bytes) * (kHeight - kTop - kBottom); };
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"md\" width=\"" + number(kWidth) +
                    "\" height=\"" + number(kHeight) + "\" viewBox=\"0 0 " + number(kWidth) + " " + number(kHeight) +
                    "\" role=\"img\">\n<title>" + markupText(title) + "</title>\n" + kStyle;
  out += "<text x=\"" + number(kLeft) + "\" y=\"24\">peak " + bytesText(memory.arenaBytes) + ": activations " +
         bytesText(memory.activationBytes) + (hasGraphSlots(memory) ? ", graphs in ops" : "") +
         ", variables, constants and inputs " + bytesText(memory.persistentBytes) + "</text>\n";
  for (const MemoryFacts::Slot &s : memory.slots) {
    const double first = stays(s) ? 0 : s.firstTask, last = stays(s) ? tasks : s.lastTask + 1.0;
    const double low = static_cast<double>(s.offset), high = low + static_cast<double>(s.bytes);
    out += "<rect class=\"" + markupText(s.kind) + "\" x=\"" + number(x(first)) + "\" y=\"" + number(y(high)) +
           "\" width=\"" + number(x(last) - x(first)) + "\" height=\"" + number(y(low) - y(high)) + "\"><title>" +
           markupText(concat(s.name, ": ", s.kind, ", ", bytesText(s.bytes), " at ", s.offset)) +
           (stays(s) ? "" : concat(", tasks ", s.firstTask, " to ", s.lastTask)) + "</title></rect>\n";
  }
  out += "<path class=\"p\" d=\"M" + number(kLeft) + " " + number(kTop) + "H" + number(kWidth - 10) + "\"/>\n";
  out += "<text x=\"4\" y=\"" + number(kTop + 4) + "\">" + bytesText(memory.arenaBytes) + "</text>\n";
  out += "<text x=\"4\" y=\"" + number(kHeight - kBottom) + "\">0 B</text>\n";
  out += "<text x=\"" + number(kLeft) + "\" y=\"" + number(kHeight - 8) + "\">task 0</text>\n";
  out += "<text x=\"" + number(kWidth - 90) + "\" y=\"" + number(kHeight - 8) + "\">task " + std::to_string(tasks - 1) +
         "</text>\n";
  return out + "</svg>\n";
}

} // namespace opc::cli
