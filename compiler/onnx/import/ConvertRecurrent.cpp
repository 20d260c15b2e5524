// ONNX's recurrent layers: opc has them as ops with the same arguments.
// SPDX-License-Identifier: Apache-2.0
#include "GateNames.h"
#include "OnnxConverters.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace opc::onnx {
namespace {

/// ONNX's readers take the names of functions in any case.
bool isSame(const std::string &a, const std::string &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// The numbers that functions take; models may have more of them, which say nothing.
std::vector<float> first(const std::vector<double> &given, size_t taken) {
  return std::vector<float>(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(std::min(taken, given.size())));
}

Attrs attributesOf(Conversion &c) {
  const double clip = c.f("clip", 0);
  if (!(clip >= 0)) c.invalid("attribute 'clip' is " + std::to_string(clip) + ", and must be 0 (none) or positive");
  Attrs attrs = {{"direction", c.s("direction", "forward")},
                 {"batch_first", c.flag("layout", false)},
                 {"clip", std::isinf(clip) ? 0 : clip}};
  std::vector<std::string> names;
  if (const Attribute *a = c.attr("activations", Attribute::STRINGS))
    names.assign(a->strings().begin(), a->strings().end());
  size_t alphas = 0, betas = 0;
  for (std::string &name : names)
    for (const GateName &g : kGateNames)
      if (isSame(name, g.name)) {
        name = g.name;
        alphas += g.hasAlpha;
        betas += g.hasBeta;
      }
  attrs.insert({"activations", names});
  attrs.insert({"activation_alpha", first(c.floats("activation_alpha"), alphas)});
  attrs.insert({"activation_beta", first(c.floats("activation_beta"), betas)});
  return attrs;
}

void convert(Conversion &c, const char *op, size_t inputs, const Attrs &own) {
  Attrs attrs = attributesOf(c);
  attrs.insert(own.begin(), own.end());
  if (c.has(4)) c.checkType(4, {kInt32});
  std::vector<Term> given;
  for (size_t k = 0; k < inputs; ++k) given.push_back(k < 3 ? c.in(k) : c.maybe(k));
  const int64_t hidden = given[2]->rank() == 3 ? given[2]->dim(2) : -1;
  if (hidden >= 0 && c.i("hidden_size", hidden) != hidden)
    c.invalid("attribute 'hidden_size' is " + std::to_string(c.i("hidden_size", hidden)) + ", and R is " +
              given[2]->shape().ToString());
  const std::vector<Term> made = c.ops(op, given, attrs);
  for (size_t k = 0; k < made.size(); ++k)
    if (c.wants(static_cast<int>(k))) c.out(static_cast<int>(k), made[k]);
}

void convertRnn(Conversion &c) { convert(c, "rnn", 6, {}); }
void convertGru(Conversion &c) {
  convert(c, "gru", 6, {{"linear_before_reset", c.flag("linear_before_reset", false)}});
}
void convertLstm(Conversion &c) { convert(c, "lstm", 8, {{"input_forget", c.flag("input_forget", false)}}); }

} // namespace

void addRecurrent(ConverterTable *t) {
  t->add("RNN", convertRnn, "rnn");
  t->add("GRU", convertGru, "gru");
  t->add("LSTM", convertLstm, "lstm");
}

} // namespace opc::onnx
