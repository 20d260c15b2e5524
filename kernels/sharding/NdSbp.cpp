// A tensor's state on a mesh, and the piece that a device holds.
// SPDX-License-Identifier: Apache-2.0
#include "NdSbp.h"

#include <algorithm>

namespace opc {

std::string toString(const NdSbp &states) {
  if (states.size() == 1) return states[0].toString();
  std::string text = "[";
  for (size_t i = 0; i < states.size(); ++i) text += (i ? ", " : "") + states[i].toString();
  return text + "]";
}

std::optional<NdSbp> parseNdSbp(const std::string &text) {
  std::string t;
  for (char c : text)
    if (c != ' ') t += c;
  if (t.size() >= 2 && t.front() == '[' && t.back() == ']') t = t.substr(1, t.size() - 2);
  NdSbp states;
  for (size_t at = 0; at <= t.size();) {
    const size_t end = std::min(t.find(',', at), t.size());
    const std::string s = t.substr(at, end - at);
    if (s == "B") {
      states.push_back(SbpParallel::broadcast());
    } else if (s == "P") {
      states.push_back(SbpParallel::partialSum());
    } else {
      std::string digits;
      if (s.size() >= 4 && s.compare(0, 2, "S(") == 0 && s.back() == ')')
        digits = s.substr(2, s.size() - 3);
      else if (s.size() >= 2 && s[0] == 'S')
        digits = s.substr(1);
      if (digits.empty() || digits.size() > 2 || digits.find_first_not_of("0123456789") != std::string::npos)
        return std::nullopt;
      states.push_back(SbpParallel::split(std::stoll(digits)));
    }
    at = end + 1;
  }
  return states;
}

int64_t Box::elements() const {
  int64_t n = 1;
  for (int64_t s : size) n *= s;
  return n;
}

Box intersect(const Box &a, const Box &b) {
  Box r;
  for (size_t i = 0; i < a.begin.size(); ++i) {
    const int64_t begin = std::max(a.begin[i], b.begin[i]);
    const int64_t end = std::min(a.begin[i] + a.size[i], b.begin[i] + b.size[i]);
    r.begin.push_back(begin);
    r.size.push_back(std::max<int64_t>(0, end - begin));
  }
  return r;
}

Box localBox(const Shape &logical, const NdSbp &states, const std::vector<int64_t> &dims, int64_t position) {
  Box box;
  for (int64_t d : logical) {
    box.begin.push_back(0);
    box.size.push_back(d);
  }
  int64_t stride = 1;
  for (int64_t d : dims) stride *= d;
  for (size_t m = 0; m < dims.size(); ++m) {
    stride /= dims[m];
    if (!states[m].has_split_parallel()) continue;
    const int64_t part = position / stride % dims[m];
    const auto axis = static_cast<size_t>(states[m].axis());
    const int64_t q = box.size[axis] / dims[m], r = box.size[axis] % dims[m];
    box.begin[axis] += part * q + std::min(part, r);
    box.size[axis] = q + (part < r ? 1 : 0);
  }
  return box;
}

Shape localShape(const Shape &logical, const NdSbp &states, const std::vector<int64_t> &dims, int64_t position) {
  const Box box = localBox(logical, states, dims, position);
  Shape shape = logical;
  for (size_t a = 0; a < box.size.size(); ++a) shape.Set(static_cast<int64_t>(a), box.size[a]);
  return shape;
}

bool isLegal(const Shape &shape, DataType type, const NdSbp &states, const std::vector<int64_t> &dims,
             bool noEmptyPart) {
  if (states.size() != dims.size()) return false;
  std::vector<int64_t> smallest(shape.begin(), shape.end()); // the last piece is never larger than another
  for (size_t m = 0; m < dims.size(); ++m) {
    if (states[m].kind() == SbpParallel::kUnset) return false;
    // What is only moved and converted is added by nobody.
    if (states[m].has_partial_sum_parallel() && !IsFloatingDataType(type) && !IsIntegralDataType(type)) return false;
    if (!states[m].has_split_parallel()) continue;
    const int64_t axis = states[m].axis();
    if (axis < 0 || axis >= shape.NumAxes()) return false;
    int64_t &size = smallest[static_cast<size_t>(axis)];
    if (noEmptyPart && size < dims[m]) return false;
    size /= dims[m];
  }
  return true;
}

std::vector<NdSbp> legalStates(const Shape &shape, DataType type, const std::vector<int64_t> &dims) {
  std::vector<SbpParallel> one;
  for (int64_t a = 0; a < shape.NumAxes(); ++a) one.push_back(SbpParallel::split(a));
  one.push_back(SbpParallel::broadcast());
  one.push_back(SbpParallel::partialSum());
  std::vector<NdSbp> found;
  std::vector<size_t> at(dims.size(), 0);
  for (;;) {
    NdSbp states;
    for (size_t i : at) states.push_back(one[i]);
    if (isLegal(shape, type, states, dims, true)) found.push_back(std::move(states));
    size_t m = dims.size();
    while (m > 0 && ++at[m - 1] == one.size()) at[--m] = 0;
    if (m == 0) return found;
  }
}

bool hasPartial(const NdSbp &states) {
  return std::any_of(states.begin(), states.end(), [](const SbpParallel &s) { return s.has_partial_sum_parallel(); });
}
bool isBroadcast(const NdSbp &states) {
  return std::all_of(states.begin(), states.end(), [](const SbpParallel &s) { return s.has_broadcast_parallel(); });
}
NdSbp broadcastStates(size_t meshRank) { return NdSbp(meshRank, SbpParallel::broadcast()); }

} // namespace opc
