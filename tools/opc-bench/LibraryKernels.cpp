// Kernels through the whole of opc beside the same library called directly, by turns in one process.
//
// The direct call is oneDNN's primitive in the layout it asks for, with constant weights packed beforehand and its
// arguments bound: the least that the library can take. `+reorders` counts the reorders of a channels_first image, too.
// SPDX-License-Identifier: Apache-2.0
#include "Benchmark.h"
#include "Graphs.h"

#include "DnnlHandle.h"
#include "Session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <unordered_map>

extern "C" void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
extern "C" int omp_get_thread_num(void);
extern "C" int omp_get_num_threads(void);

namespace opc::bench {
namespace {

using cpu::dnnlAttributes;
using cpu::dnnlEngine;
using dnnl::memory;
using Dims = std::vector<int64_t>;
using Tag = memory::format_tag;
constexpr auto kF32 = memory::data_type::f32;

/// One or several primitives, run in order on memory of their own.
class Direct {
public:
  memory make(const memory::desc &d) {
    memory m(d, dnnlEngine());
    auto *p = static_cast<float *>(m.get_data_handle());
    for (size_t i = 0; i < d.get_size() / sizeof(float); ++i) p[i] = static_cast<float>(i % 13) * 0.01f - 0.05f;
    return m;
  }
  template <class PrimitiveDesc, class Primitive>
  void add(const PrimitiveDesc &pd, const Primitive &p, std::unordered_map<int, memory> args) {
    args.insert({DNNL_ARG_SCRATCHPAD, memory(pd.scratchpad_desc(), dnnlEngine())});
    steps_.push_back({p, std::move(args)});
  }
  void reorder(const memory &from, const memory &to) {
    const dnnl::reorder::primitive_desc pd(dnnlEngine(), from.get_desc(), dnnlEngine(), to.get_desc(),
                                           dnnlAttributes());
    add(pd, dnnl::reorder(pd), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }
  void run() {
    for (auto &[primitive, args] : steps_) primitive.execute(stream_, args);
    stream_.wait();
  }

private:
  std::vector<std::pair<dnnl::primitive, std::unordered_map<int, memory>>> steps_;
  dnnl::stream stream_{dnnlEngine()};
};
/// compare() with oneDNN's primitives: `add` puts them together.
template <class Add>
std::vector<Row> compareDirect(const std::string &name, const std::string &graph, int threads, const std::string &peer,
                               const Add &add) {
  return compare(name, graph, threads, peer, [&]() -> std::function<void()> {
    auto direct = std::make_shared<Direct>();
    add(*direct);
    return [direct] { direct->run(); };
  });
}

// --- matrix products -------------------------------------------------------------------------------------------------
struct Product {
  const char *name;
  int64_t m, n, k;
  bool constant;
};

std::vector<Row> product(const Product &p, int threads, const std::string &name) {
  const std::string graph = input("a", {p.m, p.k}) + (p.constant ? variable("b", {p.k, p.n}) : input("b", {p.k, p.n})) +
                            op("mm", "matmul", {{"a", "a/out"}, {"b", "b/out"}}, "out") + output("mm/out_0");
  return compareDirect(name, graph, threads, "oneDNN", [&](Direct &d) {
    const memory::desc a({p.m, p.k}, kF32, Tag::ab), b({p.k, p.n}, kF32, p.constant ? Tag::any : Tag::ab),
        c({p.m, p.n}, kF32, Tag::ab);
    const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a, b, c), dnnlAttributes(), dnnlEngine());
    d.add(pd, dnnl::matmul(pd),
          {{DNNL_ARG_SRC, d.make(a)}, {DNNL_ARG_WEIGHTS, d.make(pd.weights_desc())}, {DNNL_ARG_DST, d.make(c)}});
  });
}

// --- convolutions ----------------------------------------------------------------------------------------------------
struct Convolution {
  const char *name;
  int64_t channels, filters, size, kernel, stride, groups;
};

std::vector<Row> convolution(const Convolution &c, int threads, const std::string &name, bool withReorders) {
  const int64_t pad = c.kernel / 2, out = (c.size + 2 * pad - c.kernel) / c.stride + 1, own = c.channels / c.groups;
  const auto pair = [](int64_t v) {
    return "at_list_int32 { val: " + std::to_string(v) + " val: " + std::to_string(v) + " }";
  };
  const std::string graph =
      (withReorders ? input("x", {1, c.channels, c.size, c.size}) : input("x", {1, c.size, c.size, c.channels})) +
      variable("w",
               withReorders ? Dims{c.filters, own, c.kernel, c.kernel} : Dims{c.filters, c.kernel, c.kernel, own}) +
      op("conv", "conv2d", {{"in", "x/out"}, {"weight", "w/out"}}, "out",
         attr("strides", pair(c.stride)) + attr("padding_before", pair(pad)) +
             attr("groups", "at_int32: " + std::to_string(c.groups)) +
             attr("data_format", withReorders ? "at_string: \"channels_first\"" : "at_string: \"channels_last\"")) +
      output("conv/out_0");
  return compareDirect(name, graph, threads, withReorders ? "+reorders" : "oneDNN", [&](Direct &d) {
    const memory::dims in{1, c.channels, c.size, c.size}, to{1, c.filters, out, out};
    const memory::dims weight = c.groups > 1 ? memory::dims{c.groups, c.filters / c.groups, own, c.kernel, c.kernel}
                                             : memory::dims{c.filters, own, c.kernel, c.kernel};
    const dnnl::convolution_forward::primitive_desc pd(
        {dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, memory::desc(in, kF32, Tag::any),
         memory::desc(weight, kF32, Tag::any), memory::desc(to, kF32, Tag::any), memory::dims{c.stride, c.stride},
         memory::dims{0, 0}, memory::dims{pad, pad}, memory::dims{pad, pad}},
        dnnlAttributes(), dnnlEngine());
    const memory x = d.make(pd.src_desc()), y = d.make(pd.dst_desc());
    if (withReorders && pd.src_desc() != memory::desc(in, kF32, Tag::nchw))
      d.reorder(d.make(memory::desc(in, kF32, Tag::nchw)), x);
    d.add(pd, dnnl::convolution_forward(pd),
          {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, d.make(pd.weights_desc())}, {DNNL_ARG_DST, y}});
    if (withReorders && pd.dst_desc() != memory::desc(to, kF32, Tag::nchw))
      d.reorder(y, d.make(memory::desc(to, kF32, Tag::nchw)));
  });
}

// --- rows ------------------------------------------------------------------------------------------------------------
std::vector<Row> softmax(int64_t rows, int64_t columns, int threads, const std::string &name) {
  const std::string graph =
      input("x", {rows, columns}) + op("s", "softmax", {{"in", "x/out"}}, "out") + output("s/out_0");
  return compareDirect(name, graph, threads, "oneDNN", [&](Direct &d) {
    const memory::desc x({rows, columns}, kF32, Tag::ab);
    const dnnl::softmax_forward::primitive_desc pd({dnnl::prop_kind::forward_inference, x, 1}, dnnlAttributes(),
                                                   dnnlEngine());
    d.add(pd, dnnl::softmax_forward(pd), {{DNNL_ARG_SRC, d.make(x)}, {DNNL_ARG_DST, d.make(x)}});
  });
}

std::vector<Row> layerNorm(int64_t rows, int64_t columns, int threads, const std::string &name) {
  const std::string graph =
      input("x", {rows, columns}) + variable("g", {columns}) + variable("b", {columns}) +
      op("n", "layer_norm", {{"x", "x/out"}, {"gamma", "g/out"}, {"beta", "b/out"}}, "y mean inv_variance",
         attr("center", "at_bool: true") + attr("scale", "at_bool: true") + attr("begin_norm_axis", "at_int64: 1") +
             attr("begin_params_axis", "at_int64: 1") + attr("epsilon", "at_double: 1e-5")) +
      output("n/y_0");
  return compareDirect(name, graph, threads, "oneDNN", [&](Direct &d) {
    const memory::desc x({rows, columns}, kF32, Tag::ab), p({columns}, kF32, Tag::a), s({rows}, kF32, Tag::a);
    const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
    const dnnl::layer_normalization_forward::primitive_desc pd({dnnl::prop_kind::forward_training, x, s, 1e-5f, flags},
                                                               dnnlAttributes(), dnnlEngine());
    d.add(pd, dnnl::layer_normalization_forward(pd),
          {{DNNL_ARG_SRC, d.make(x)},
           {DNNL_ARG_DST, d.make(x)},
           {DNNL_ARG_SCALE, d.make(p)},
           {DNNL_ARG_SHIFT, d.make(p)},
           {DNNL_ARG_MEAN, d.make(s)},
           {DNNL_ARG_VARIANCE, d.make(s)}});
  });
}

/// softmax(q k^T * scale) v for `heads` heads: three ops, or the one that computes all of it.
std::vector<Row> attention(int64_t heads, int64_t length, int64_t width, bool fused, int threads,
                           const std::string &name) {
  const Dims one{heads, length, width};
  const std::string inputs = input("q", one) + input("k", one) + input("v", one);
  const std::string graph =
      fused ? inputs +
                  op("o", "scaled_dot_product_attention", {{"query", "q/out"}, {"key", "k/out"}, {"value", "v/out"}},
                     "out log_sum", attr("scale", "at_double: 0.125")) +
                  output("o/out_0")
            : inputs +
                  op("s", "batch_matmul", {{"a", "q/out"}, {"b", "k/out"}}, "out",
                     attr("transpose_b", "at_bool: true") + attr("alpha", "at_double: 0.125")) +
                  op("p", "softmax", {{"in", "s/out_0"}}, "out") +
                  op("o", "batch_matmul", {{"a", "p/out_0"}, {"b", "v/out"}}, "out") + output("o/out_0");
  return compareDirect(name, graph, threads, "oneDNN", [&](Direct &d) {
    const memory::desc q({heads, length, width}, kF32, Tag::abc), kt({heads, width, length}, kF32, Tag::acb),
        s({heads, length, length}, kF32, Tag::abc);
    dnnl::primitive_attr scaled = dnnlAttributes();
    scaled.set_output_scales(0, {0.125f});
    const dnnl::matmul::primitive_desc first(dnnl::matmul::desc(q, kt, s), scaled, dnnlEngine()),
        second(dnnl::matmul::desc(s, q, q), dnnlAttributes(), dnnlEngine());
    const dnnl::softmax_forward::primitive_desc middle({dnnl::prop_kind::forward_inference, s, 2}, dnnlAttributes(),
                                                       dnnlEngine());
    const memory scores = d.make(s);
    d.add(first, dnnl::matmul(first),
          {{DNNL_ARG_SRC, d.make(q)}, {DNNL_ARG_WEIGHTS, d.make(kt)}, {DNNL_ARG_DST, scores}});
    d.add(middle, dnnl::softmax_forward(middle), {{DNNL_ARG_SRC, scores}, {DNNL_ARG_DST, scores}});
    d.add(second, dnnl::matmul(second),
          {{DNNL_ARG_SRC, scores}, {DNNL_ARG_WEIGHTS, d.make(q)}, {DNNL_ARG_DST, d.make(q)}});
  });
}

/// An elementwise function beside oneDNN's; beside another one of oneDNN's where that has none, as `peer` says.
struct Function {
  const char *op, *in, *out;
  dnnl::algorithm algorithm;
  const char *peer = "oneDNN";
};

std::vector<Row> elementwise(const Function &f, int64_t count, int threads, const std::string &name) {
  const std::string graph =
      input("x", {count}) + op("f", f.op, {{f.in, "x/out"}}, f.out) + output(std::string("f/") + f.out + "_0");
  return compareDirect(name, graph, threads, f.peer, [&](Direct &d) {
    const memory::desc x({count}, kF32, Tag::a);
    const dnnl::eltwise_forward::primitive_desc pd({dnnl::prop_kind::forward_inference, f.algorithm, x, 0.0f, 0.0f},
                                                   dnnlAttributes(), dnnlEngine());
    d.add(pd, dnnl::eltwise_forward(pd), {{DNNL_ARG_SRC, d.make(x)}, {DNNL_ARG_DST, d.make(x)}});
  });
}

/// A copy of f32 numbers.
std::function<void()> copyOf(int64_t count, int threads) {
  struct Arrays {
    std::vector<float> from, to;
  };
  const auto n = static_cast<size_t>(count);
  auto arrays = std::make_shared<Arrays>(Arrays{std::vector<float>(n, 1.0f), std::vector<float>(n)});
  return [arrays, threads] {
    GOMP_parallel(
        [](void *p) {
          auto &s = *static_cast<Arrays *>(p);
          const size_t size = s.to.size(), t = static_cast<size_t>(omp_get_thread_num()),
                       of = static_cast<size_t>(omp_get_num_threads());
          const size_t begin = size * t / of, end = size * (t + 1) / of;
          const float *from = s.from.data();
          float *to = s.to.data();
          for (size_t i = begin; i < end; ++i) to[i] = from[i] + 1.0f; // no call that chooses its own stores
        },
        arrays.get(), static_cast<unsigned>(threads), 0);
  };
}

/// The STREAM triad's loop.
std::function<void()> triadOf(int64_t count, int threads) {
  struct Arrays {
    std::vector<float> a, b, c;
    int threads;
  };
  const auto n = static_cast<size_t>(count);
  auto arrays = std::make_shared<Arrays>(
      Arrays{std::vector<float>(n, 1.0f), std::vector<float>(n, 2.0f), std::vector<float>(n), threads});
  return [arrays] {
    GOMP_parallel(
        [](void *p) {
          auto &s = *static_cast<Arrays *>(p);
          const size_t size = s.c.size(), t = static_cast<size_t>(omp_get_thread_num()),
                       of = static_cast<size_t>(s.threads);
          const float *a = s.a.data(), *b = s.b.data();
          float *c = s.c.data();
          for (size_t i = size * t / of; i < size * (t + 1) / of; ++i) c[i] = a[i] + 0.5f * b[i];
        },
        arrays.get(), static_cast<unsigned>(arrays->threads), 0);
  };
}

/// x + y beside the STREAM triad's loop over as many bytes.
std::vector<Row> triad(int64_t count, int threads, const std::string &name) {
  const std::string graph = input("x", {count}) + input("z", {count}) +
                            op("s", "broadcast_add", {{"x", "x/out"}, {"y", "z/out"}}, "z") + output("s/z_0");
  return compare(name, graph, threads, "triad", [&] { return triadOf(count, threads); });
}

/// Six functions one after the other beside a copy of as many bytes as they have to read and write.
std::vector<Row> chainOfSix(int64_t count, int threads, const std::string &name) {
  std::string graph = input("x", {count}), last = "x/out";
  for (const char *f : {"relu", "square", "negative", "abs", "sqrt", "square_relu"}) {
    graph += op(std::string("f_") + f, f, {{"x", last}}, "y");
    last = std::string("f_") + f + "/y_0";
  }
  return compare(name, graph + output(last), threads, "copy", [&] { return copyOf(count, threads); });
}

/// Ops over rows of f32[16384, 1024], alone or with others around them, beside the loop that reads and writes as much.
constexpr int64_t kRows = 16384, kColumns = 1024;

std::vector<Row> softmaxRows(int threads, const std::string &name) {
  const std::string graph =
      input("x", {kRows, kColumns}) + op("s", "softmax", {{"in", "x/out"}}, "out") + output("s/out_0");
  return compare(name, graph, threads, "copy", [&] { return copyOf(kRows * kColumns, threads); });
}

std::vector<Row> softmaxChain(int threads, const std::string &name) {
  const std::string graph = input("x", {kRows, kColumns}) + input("mask", {kColumns}) +
                            op("add", "broadcast_add", {{"x", "x/out"}, {"y", "mask/out"}}, "z") +
                            op("act", "silu", {{"in", "add/z_0"}}, "out") +
                            op("s", "softmax", {{"in", "act/out_0"}}, "out") +
                            op("root", "sqrt", {{"x", "s/out_0"}}, "y") + output("root/y_0");
  return compare(name, graph, threads, "copy", [&] { return copyOf(kRows * kColumns, threads); });
}

/// layer_norm of a sum, and an activation of it.
std::vector<Row> residualLayerNorm(bool activates, int threads, const std::string &name) {
  const std::string norm =
      input("x", {kRows, kColumns}) + input("r", {kRows, kColumns}) + variable("g", {kColumns}) +
      variable("b", {kColumns}) + op("add", "broadcast_add", {{"x", "x/out"}, {"y", "r/out"}}, "z") +
      op("n", "layer_norm", {{"x", "add/z_0"}, {"gamma", "g/out"}, {"beta", "b/out"}}, "y mean inv_variance",
         attr("center", "at_bool: true") + attr("scale", "at_bool: true") + attr("begin_norm_axis", "at_int64: 1") +
             attr("begin_params_axis", "at_int64: 1") + attr("epsilon", "at_double: 1e-5"));
  const std::string graph =
      norm + (activates ? op("act", "silu", {{"in", "n/y_0"}}, "out") + output("act/out_0") : output("n/y_0"));
  return compare(name, graph, threads, "triad", [&] { return triadOf(kRows * kColumns, threads); });
}

/// A loop that reads one or two f32 tensors of these rows and adds up what it finds.
std::function<void()> readsOf(bool two, int threads) {
  struct Arrays {
    std::vector<float> a, b, sums;
  };
  const auto n = static_cast<size_t>(kRows * kColumns);
  auto all = std::make_shared<Arrays>(
      Arrays{std::vector<float>(n, 1.0f), std::vector<float>(two ? n : 0, 2.0f), std::vector<float>(kRows)});
  return [all, two, threads] {
    inParallel(threads, kRows, [&](int64_t begin, int64_t end) {
      const float *a = all->a.data(), *b = two ? all->b.data() : a;
      float sums[64] = {};
      for (int64_t i = begin * kColumns; i < end * kColumns; i += 64)
        for (int64_t k = 0; k < 64; ++k) sums[k] += a[i + k] * b[i + k];
      for (float sum : sums) all->sums[static_cast<size_t>(begin)] += sum;
    });
  };
}

/// The gradients of gamma and beta.
std::vector<Row> normParameters(int threads, const std::string &name) {
  const std::string graph =
      input("dy", {kRows, kColumns}) + input("x", {kRows, kColumns}) + input("m", {kRows}) + input("v", {kRows}) +
      op("g", "layer_norm_param_grad", {{"dy", "dy/out"}, {"x", "x/out"}, {"mean", "m/out"}, {"inv_variance", "v/out"}},
         "gamma_diff beta_diff", attr("begin_params_axis", "at_int64: 1")) +
      output("g/gamma_diff_0") + output("g/beta_diff_0", "beta");
  return compare(name, graph, threads, "reads", [&] { return readsOf(true, threads); });
}

/// The gradient of a bias.
std::vector<Row> columnSums(int threads, const std::string &name) {
  const std::string graph = input("x", {kRows, kColumns}) +
                            op("s", "reduce_sum", {{"input_tensor", "x/out"}}, "output_tensor",
                               attr("axis", "at_list_int32 { val: 0 }") + attr("keepdims", "at_bool: false")) +
                            output("s/output_tensor_0");
  return compare(name, graph, threads, "reads", [&] { return readsOf(false, threads); });
}

/// The gradient of relu, which products read, and of the bias before it.
std::vector<Row> biasGradient(int threads, const std::string &name) {
  const std::string graph = input("dy", {kRows, kColumns}) + input("made", {kRows, kColumns}) +
                            op("r", "relu_grad", {{"dy", "dy/out"}, {"y", "made/out"}}, "dx") +
                            op("s", "reduce_sum", {{"input_tensor", "r/dx_0"}}, "output_tensor",
                               attr("axis", "at_list_int32 { val: 0 }") + attr("keepdims", "at_bool: false")) +
                            output("r/dx_0") + output("s/output_tensor_0", "db");
  return compare(name, graph, threads, "triad", [&] { return triadOf(kRows * kColumns, threads); });
}

/// Forward and backward; the probabilities are nowhere in memory.
std::vector<Row> crossEntropy(int threads, const std::string &name) {
  const std::string graph =
      input("x", {kRows, kColumns}) + input("class", {kRows}) + input("dy", {kRows}) +
      op("label", "cast", {{"in", "class/out"}}, "out", attr("dtype", "at_data_type: kInt32")) +
      op("l", "sparse_softmax_cross_entropy", {{"prediction", "x/out"}, {"label", "label/out_0"}}, "prob out") +
      op("d", "sparse_softmax_cross_entropy_grad", {{"label", "label/out_0"}, {"dy", "dy/out"}, {"prob", "l/prob_0"}},
         "prediction_diff") +
      output("l/out_0") + output("d/prediction_diff_0", "dx");
  return compare(name, graph, threads, "copy", [&] { return copyOf(kRows * kColumns, threads); });
}

} // namespace

std::vector<Benchmark> libraryKernels() {
  static const Product products[] = {{"64", 64, 64, 64, false},
                                     {"256", 256, 256, 256, true},
                                     {"1024", 1024, 1024, 1024, true},
                                     {"2048", 2048, 2048, 2048, true},
                                     {"1024_b_varies", 1024, 1024, 1024, false},
                                     {"1x4096x4096", 1, 4096, 4096, true},
                                     {"8x4096x4096", 8, 4096, 4096, true},
                                     {"32x4096x4096", 32, 4096, 4096, true},
                                     {"128x512x512", 128, 512, 512, true},
                                     {"128x2048x512", 128, 2048, 512, true},
                                     {"128x512x2048", 128, 512, 2048, true}};
  static const Convolution convolutions[] = {
      {"7x7s2_3-64@224", 3, 64, 224, 7, 2, 1},   {"3x3_64-64@56", 64, 64, 56, 3, 1, 1},
      {"1x1_256-64@56", 256, 64, 56, 1, 1, 1},   {"1x1s2_256-512@56", 256, 512, 56, 1, 2, 1},
      {"3x3_256-256@14", 256, 256, 14, 3, 1, 1}, {"1x1_1024-256@14", 1024, 256, 14, 1, 1, 1},
      {"3x3_512-512@7", 512, 512, 7, 3, 1, 1},   {"dw3x3_128@56", 128, 128, 56, 3, 1, 128},
      {"dw3x3s2_96@112", 96, 96, 112, 3, 2, 96}, {"1x1_16-96@112", 16, 96, 112, 1, 1, 1}};
  std::vector<Benchmark> list;
  const auto add = [&](const std::string &name, std::function<std::vector<Row>(int, const std::string &)> run) {
    for (int threads : {1, 2}) {
      const std::string row = "kernel/" + name + "_t" + std::to_string(threads);
      list.push_back({{row}, [=] { return run(threads, row); }});
    }
  };
  for (const Product &p : products)
    add("matmul_" + std::string(p.name), [&p](int t, const std::string &row) { return product(p, t, row); });
  for (const Convolution &c : convolutions) {
    add("conv_" + std::string(c.name), [&c](int t, const std::string &row) { return convolution(c, t, row, false); });
    add("conv_" + std::string(c.name) + "_nchw",
        [&c](int t, const std::string &row) { return convolution(c, t, row, true); });
  }
  for (const auto &[rows, columns] : {std::pair<int64_t, int64_t>{64, 512}, {1024, 128}, {4096, 4096}})
    add("softmax_" + std::to_string(rows) + "x" + std::to_string(columns),
        [rows = rows, columns = columns](int t, const std::string &row) { return softmax(rows, columns, t, row); });
  for (const auto &[rows, columns] : {std::pair<int64_t, int64_t>{128, 512}, {4096, 1024}})
    add("layer_norm_" + std::to_string(rows) + "x" + std::to_string(columns),
        [rows = rows, columns = columns](int t, const std::string &row) { return layerNorm(rows, columns, t, row); });
  for (int64_t heads : {8, 96})
    for (bool fused : {false, true})
      add((fused ? "sdpa_" : "attention_") + std::to_string(heads) + "x128x64",
          [=](int t, const std::string &row) { return attention(heads, 128, 64, fused, t, row); });
  static const Function functions[] = {{"relu", "x", "y", dnnl::algorithm::eltwise_relu},
                                       {"exp", "x", "y", dnnl::algorithm::eltwise_exp},
                                       {"tanh", "x", "y", dnnl::algorithm::eltwise_tanh},
                                       {"sigmoid", "x", "y", dnnl::algorithm::eltwise_logistic},
                                       {"gelu", "in", "out", dnnl::algorithm::eltwise_gelu_erf},
                                       {"erf", "x", "y", dnnl::algorithm::eltwise_gelu_erf, "its gelu"},
                                       {"fast_gelu", "in", "out", dnnl::algorithm::eltwise_gelu_tanh}};
  for (const Function &f : functions)
    for (const auto &[suffix, count] : {std::pair<const char *, int64_t>{"64K", 1 << 16}, {"16M", 1 << 24}})
      add(std::string(f.op) + "_" + suffix,
          [&f, count = count](int t, const std::string &row) { return elementwise(f, count, t, row); });
  for (const auto &[suffix, count] : {std::pair<const char *, int64_t>{"64K", 1 << 16}, {"16M", 1 << 24}})
    add(std::string("chain_of_six_") + suffix,
        [count = count](int t, const std::string &row) { return chainOfSix(count, t, row); });
  add("softmax_chain_16M", softmaxChain);
  add("softmax_16M", softmaxRows);
  for (bool activates : {false, true})
    add(activates ? "residual_layer_norm_silu_16M" : "residual_layer_norm_16M",
        [=](int t, const std::string &row) { return residualLayerNorm(activates, t, row); });
  add("cross_entropy_16M", crossEntropy);
  add("layer_norm_param_grad_16M", normParameters);
  add("column_sums_16M", columnSums);
  add("bias_gradient_16M", biasGradient);
  add("add_16M", [](int t, const std::string &row) { return triad(int64_t{1} << 24, t, row); });
  return list;
}

} // namespace opc::bench
