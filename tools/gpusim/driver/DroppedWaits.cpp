// Works on the text, which has what the parser keeps: the mutant goes the way of all other PTX.
// SPDX-License-Identifier: Apache-2.0
#include "DroppedWaits.h"

#include <cctype>
#include <map>
#include <span>

namespace opc::gpusim::driver {
namespace {

bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '.'; }

bool isSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

/// bar.sync, bar.arrive, bar.warp.sync, barrier.sync, cp.async.wait_group and such; not bar.red, whose result is used.
bool isWait(std::string_view word) {
  return word.starts_with("bar.sync") || word.starts_with("bar.arrive") || word.starts_with("bar.warp.sync") ||
         word.starts_with("barrier.sync") || word.starts_with("barrier.arrive") ||
         word.starts_with("barrier.cta.sync") || word.starts_with("barrier.cta.arrive") ||
         word.starts_with("cp.async.wait_");
}

/// A place behind comments and quoted text that begins at `at`, or `at`.
size_t behindText(std::string_view ptx, size_t at) {
  size_t end = std::string_view::npos;
  if (ptx.substr(at, 2) == "//")
    end = ptx.find('\n', at);
  else if (ptx.substr(at, 2) == "/*")
    end = ptx.find("*/", at + 2);
  else if (ptx[at] == '"')
    end = ptx.find('"', at + 1);
  else
    return at;
  return end == std::string_view::npos ? ptx.size() : end + 1;
}

/// The bodies of these functions, braces included, in one pass over the text; what is not in it has none.
std::map<std::string_view, std::string_view> bodiesOf(std::string_view ptx, const std::vector<DroppedWait> &dropped) {
  std::map<std::string_view, std::string_view> bodies;
  for (const DroppedWait &d : dropped)
    if (ptx.find(d.function) != ptx.npos) bodies[d.function];
  int depth = 0;
  size_t begin = 0;
  auto named = bodies.end();
  for (size_t at = 0; !bodies.empty() && at < ptx.size();) {
    if (const size_t next = behindText(ptx, at); next != at) {
      at = next;
      continue;
    }
    size_t end = at;
    while (end < ptx.size() && isWord(ptx[end])) ++end;
    if (end != at) {
      if (depth == 0 && named == bodies.end()) named = bodies.find(ptx.substr(at, end - at));
      at = end;
      continue;
    }
    const bool isDeclaration = depth == 0 && ptx[at] == ';';
    if (ptx[at] == '{' && depth++ == 0) begin = at;
    const bool isEnd = ptx[at] == '}' && --depth == 0;
    if (isEnd && named != bodies.end()) named->second = ptx.substr(begin, at + 1 - begin);
    if (isEnd || isDeclaration) named = bodies.end();
    ++at;
  }
  return bodies;
}

/// The n-th wait of a body, from its predicate to its semicolon; the number of waits where there are fewer.
std::string_view waitOf(std::string_view body, uint64_t n, uint64_t *found) {
  *found = 0;
  for (size_t at = 0; at < body.size();) {
    if (const size_t next = behindText(body, at); next != at) {
      at = next;
      continue;
    }
    size_t end = at;
    while (end < body.size() && isWord(body[end])) ++end;
    if (end == at) {
      ++at;
      continue;
    }
    if (isWait(body.substr(at, end - at)) && ++*found == n) {
      size_t begin = at;
      while (isSpace(body[begin - 1])) --begin;
      size_t guard = begin; // @%p1, @!%p1
      while (isWord(body[guard - 1]) || body[guard - 1] == '%' || body[guard - 1] == '!') --guard;
      if (body[guard - 1] == '@') at = guard - 1;
      return body.substr(at, body.find(';', end) + 1 - at);
    }
    at = end;
  }
  return {};
}

} // namespace

bool dropWaits(std::string_view ptx, const std::vector<DroppedWait> &dropped, std::string *result, std::string *error) {
  *result = ptx;
  const std::map<std::string_view, std::string_view> bodies = bodiesOf(ptx, dropped);
  for (const DroppedWait &d : dropped) {
    const auto body = bodies.find(d.function);
    if (body == bodies.end() || body->second.empty()) continue;
    uint64_t found = 0;
    const std::string_view wait = waitOf(body->second, d.number, &found);
    if (wait.empty()) {
      *error = "drop= of CUDA_SIM: " + d.function + " has " + std::to_string(found) +
               " barriers and waits, and number " + std::to_string(d.number) + " is to be dropped";
      return false;
    }
    for (char &c : std::span(result->data() + (wait.data() - ptx.data()), wait.size()))
      if (c != '\n') c = ' ';
  }
  return true;
}

} // namespace opc::gpusim::driver
