// One self-contained page.
// SPDX-License-Identifier: Apache-2.0
#include "HtmlPage.h"

#include "Markup.h"

namespace opc::cli {

namespace {

// What the page may do is said first: nothing is loaded, whatever a name in it looks like.
constexpr const char *kHead =
    "<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n";

constexpr const char *kStyle = R"(<style>
:root{color-scheme:light dark;--line:#d0d7de;--soft:#f6f8fa;--link:#0969da}
@media(prefers-color-scheme:dark){:root{--line:#30363d;--soft:#161b22;--link:#4493f8}}
body{font:14px system-ui,sans-serif;margin:16px;background:Canvas;color:CanvasText}
section{scroll-margin-top:140px}
h1{font-size:18px;margin:0 0 4px}h2{font-size:15px}p{margin:4px 0 12px}
[role=tablist]{border-bottom:1px solid var(--line);margin-bottom:12px}
[role=tab]{font:inherit;background:none;color:inherit;border:0;border-bottom:3px solid transparent;padding:8px 14px;cursor:pointer}
[role=tab][aria-selected=true]{border-color:var(--link);font-weight:600}
:focus-visible{outline:2px solid var(--link);outline-offset:2px}
table{border-collapse:collapse;font:13px ui-monospace,monospace}th,td{text-align:left;padding:3px 12px 3px 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
td:first-child{overflow-wrap:normal}
.scroll{overflow:auto;max-height:85vh;border:1px solid var(--line)}
.search{font:inherit;padding:4px 8px;margin-bottom:8px;width:24em;max-width:100%}
pre{font:13px ui-monospace,monospace;overflow:auto;background:var(--soft);padding:10px}
@media print{[role=tablist],.search{display:none}section[hidden]{display:block!important}.scroll{max-height:none}}
</style>
)";

constexpr const char *kScript = R"(<script>
"use strict";
const tabs = [...document.querySelectorAll("[role=tab]")];
function select(tab, focus) {
  for (const t of tabs) {
    const on = t === tab;
    t.setAttribute("aria-selected", on);
    t.tabIndex = on ? 0 : -1;
    document.getElementById(t.getAttribute("aria-controls")).hidden = !on;
  }
  if (focus) tab.focus();
}
tabs.forEach((tab, i) => {
  tab.addEventListener("click", () => select(tab, false));
  tab.addEventListener("keydown", e => {
    const to = {ArrowRight: i + 1, ArrowLeft: i - 1 + tabs.length, Home: 0, End: tabs.length - 1}[e.key];
    if (to === undefined) return;
    e.preventDefault();
    select(tabs[to % tabs.length], true);
  });
});
for (const search of document.querySelectorAll(".search"))
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    for (const row of search.parentElement.querySelectorAll("tbody tr"))
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
document.querySelector("[role=tablist]").hidden = false;
const named = () => tabs.find(t => "#" + t.getAttribute("aria-controls") === location.hash);
if (tabs.length) select(named() || tabs[0], false);
addEventListener("hashchange", () => { if (named()) select(named(), false); });
document.documentElement.dataset.ready = "yes";
</script>
)";

} // namespace

HtmlPage::HtmlPage(const std::string &title, const std::string &summary) : title_(title), summary_(summary) {}

void HtmlPage::add(const std::string &id, const std::string &label, const std::string &body) {
  parts_.push_back({id, label, body});
}

std::string HtmlPage::text() const {
  std::string out = "<!doctype html>\n<html lang=\"en\">\n<head>\n";
  out += kHead;
  out += "<title>" + markupText(title_) + "</title>\n" + kStyle + "</head>\n<body>\n<h1>" + markupText(title_) +
         "</h1>\n<p>" + markupText(summary_) + "</p>\n<div role=\"tablist\" aria-label=\"parts\" hidden>";
  for (const Part &p : parts_)
    out += "<button role=\"tab\" id=\"tab-" + p.id + "\" aria-controls=\"" + p.id + "\">" + markupText(p.label) +
           "</button>";
  out += "</div>\n";
  for (const Part &p : parts_)
    out += "<section role=\"tabpanel\" id=\"" + p.id + "\" aria-labelledby=\"tab-" + p.id + "\">\n<h2>" +
           markupText(p.label) + "</h2>\n" + p.body + "</section>\n";
  return out + kScript + "</body>\n</html>\n";
}

} // namespace opc::cli
