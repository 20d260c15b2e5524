// How exact elementwise functions are: ours and oneDNN's beside each other, over a fixed sample of f32.
// SPDX-License-Identifier: Apache-2.0
#include "Benchmark.h"
#include "Graphs.h"

#include "DnnlHandle.h"
#include "Session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

namespace opc::bench {
namespace {

using dnnl::memory;

struct Function {
  const char *op, *in, *out;
  double (*exact)(double);
  std::optional<dnnl::algorithm> algorithm; // empty: oneDNN has none
  bool isDifference = false;                // of x / 2 and what is as large, far to the left
};
double geluOf(double x) { return 0.5 * x * std::erfc(-x * 0.70710678118654752440); }
double geluByTanh(double x) { return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); }
const Function kFunctions[] = {
    {"relu", "x", "y", [](double x) { return std::max(x, 0.0); }, dnnl::algorithm::eltwise_relu},
    {"exp", "x", "y", [](double x) { return std::exp(x); }, dnnl::algorithm::eltwise_exp},
    {"tanh", "x", "y", [](double x) { return std::tanh(x); }, dnnl::algorithm::eltwise_tanh},
    {"sigmoid", "x", "y", [](double x) { return 1 / (1 + std::exp(-x)); }, dnnl::algorithm::eltwise_logistic},
    {"erf", "x", "y", [](double x) { return std::erf(x); }, {}},
    {"gelu", "in", "out", geluOf, dnnl::algorithm::eltwise_gelu_erf, true},
    {"fast_gelu", "in", "out", geluByTanh, dnnl::algorithm::eltwise_gelu_tanh, true},
};

/// Numbers of both signs: half of them from 2^-20 to 80, as many in each octave, and half evenly in [-10, 10).
std::vector<float> sample() {
  constexpr size_t kPairs = 1 << 15;
  std::vector<float> x(2 * kPairs);
  const double octaves = std::log2(80.0) + 20;
  for (size_t i = 0; i < kPairs; ++i) {
    const double at = (static_cast<double>(i) + 0.5) / static_cast<double>(kPairs);
    x[2 * i] = static_cast<float>((i % 2 ? -1 : 1) * std::exp2(at * octaves - 20));
    x[2 * i + 1] = static_cast<float>(20 * at - 10);
  }
  return x;
}

/// In units of the last place of the exact number as an f32, or of a term that is larger (docs/numerics.md); of those
/// below the normal ones, of the smallest normal one.
double ulps(const std::vector<float> &x, const float *y, const Function &f) {
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = static_cast<double>(x[i]), want = f.exact(at), got = static_cast<double>(y[i]);
    if (std::isinf(static_cast<float>(want)) && std::isinf(y[i])) continue;
    const double largest = std::max({std::abs(want), f.isDifference ? std::abs(at) / 2 : 0, 0x1p-126});
    const int exponent = std::ilogb(largest);
    most = std::max(most, std::abs(got - want) / std::ldexp(1.0, exponent - 23));
  }
  return most;
}

double oursOf(const Function &f, const std::vector<float> &x) {
  const Registry registry = linkedRegistry();
  const std::string graph = input("x", {static_cast<int64_t>(x.size())}) + op("f", f.op, {{f.in, "x/out"}}, f.out) +
                            output(std::string("f/") + f.out + "_0");
  auto session = Session::load(planOf(registry, f.op, graph), registry, {});
  if (!session) return -1;
  std::memcpy(session->inputData("x"), x.data(), x.size() * sizeof(float));
  if (!session->run().isOk()) return -1;
  const auto made = session->fetch("y");
  return made ? ulps(x, static_cast<const float *>(made->data()), f) : -1;
}

double theirsOf(const Function &f, const std::vector<float> &x) {
  const memory::desc d({static_cast<int64_t>(x.size())}, memory::data_type::f32, memory::format_tag::a);
  const dnnl::eltwise_forward::primitive_desc pd({dnnl::prop_kind::forward_inference, *f.algorithm, d, 0.0f, 0.0f},
                                                 cpu::dnnlAttributes(), cpu::dnnlEngine());
  const memory from(d, cpu::dnnlEngine()), to(d, cpu::dnnlEngine()), scratch(pd.scratchpad_desc(), cpu::dnnlEngine());
  std::memcpy(from.get_data_handle(), x.data(), x.size() * sizeof(float));
  dnnl::stream stream(cpu::dnnlEngine());
  dnnl::eltwise_forward(pd).execute(stream, {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}, {DNNL_ARG_SCRATCHPAD, scratch}});
  stream.wait();
  return ulps(x, static_cast<const float *>(to.get_data_handle()), f);
}

} // namespace

std::vector<Benchmark> functionErrors() {
  std::vector<Benchmark> list;
  for (const Function &f : kFunctions) {
    const std::string name = std::string("error/") + f.op;
    list.push_back({{name}, [&f, name] {
                      const std::vector<float> x = sample();
                      return std::vector<Row>{
                          {name, oursOf(f, x), "ulp", f.algorithm ? theirsOf(f, x) : 0, f.algorithm ? "oneDNN" : ""}};
                    }});
  }
  return list;
}

} // namespace opc::bench
