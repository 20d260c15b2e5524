// One self-contained page.
// SPDX-License-Identifier: Apache-2.0
#include "HtmlPage.h"

#include "Markup.h"
#include "Sha256.h"
#include "TextParts.h"

namespace opc::cli {

namespace {

/// Base64 of the bytes that hexadecimal digits say.
std::string base64OfHex(const std::string &hex) {
  static const char *const kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto bit = [&](size_t i) {
    const size_t digit = i / 4;
    if (digit >= hex.size()) return 0;
    const char c = hex[digit];
    return ((c <= '9' ? c - '0' : c - 'a' + 10) >> (3 - i % 4)) & 1;
  };
  std::string out;
  for (size_t i = 0; i < hex.size() * 4; i += 6) {
    int value = 0;
    for (size_t k = 0; k < 6; ++k) value = value * 2 + bit(i + k);
    out += kDigits[value];
  }
  while (out.size() % 4) out += '=';
  return out;
}

/// The document within an element: it can end neither that nor the page.
std::string embedded(const Json &data) {
  std::string out;
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace)) c == '<' ? out += "\\u003c" : out += c;
  return out;
}

/// What the page may do is said first: nothing is loaded, and no script runs but its own, whatever a name looks like.
std::string head(const std::string &script) {
  return "<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         "style-src 'unsafe-inline'; script-src 'sha256-" +
         base64OfHex(sha256(script)) + "'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n";
}

} // namespace

HtmlPage::HtmlPage(const std::string &title, const std::string &summary, Json data)
    : title_(title), summary_(summary), data_(std::move(data)) {}

void HtmlPage::add(const std::string &id, const std::string &label, const std::string &body) {
  parts_.push_back({id, label, body});
}

std::string HtmlPage::text() const {
  const std::string script(kPageScript);
  std::string out = "<!doctype html>\n<html lang=\"en\">\n<head>\n" + head(script);
  out += "<title>" + markupText(title_) + "</title>\n<style>\n" + std::string(kPageStyle) +
         "</style>\n</head>\n<body>\n<h1>" + markupText(title_) + "</h1>\n<p class=\"dim\">" + markupText(summary_) +
         "</p>\n<div role=\"tablist\" aria-label=\"parts\" hidden>";
  for (const Part &p : parts_)
    out += "<button role=\"tab\" type=\"button\" id=\"tab-" + p.id + "\" aria-controls=\"" + p.id + "\">" +
           markupText(p.label) + "</button>";
  out += "</div>\n";
  for (const Part &p : parts_)
    out += "<section role=\"tabpanel\" id=\"" + p.id + "\" aria-labelledby=\"tab-" + p.id + "\">\n<h2>" +
           markupText(p.label) + "</h2>\n" +
           (p.body.empty() ? "<noscript><p>The page's script draws this.</p></noscript>\n" : p.body) + "</section>\n";
  return out + "<script type=\"application/json\" id=\"data\">" + embedded(data_) + "</script>\n<script>" + script +
         "</script>\n</body>\n</html>\n";
}

std::string htmlTable(const std::vector<std::string> &heads, const std::vector<std::vector<std::string>> &rows) {
  std::string out = "<table><thead><tr>";
  for (const std::string &h : heads) out += "<th scope=\"col\">" + markupText(h) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const auto &row : rows) {
    out += "<tr>";
    for (const std::string &c : row) out += "<td>" + markupText(c) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

std::string htmlLines(const std::string &text) {
  std::string out = "<pre tabindex=\"0\">";
  for (const std::string &line : splitAt(text, '\n')) out += markupText(line) + "\n";
  while (out.back() == '\n') out.pop_back();
  return out + "</pre>\n";
}

} // namespace opc::cli
