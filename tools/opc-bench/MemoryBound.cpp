// What is bound by memory, beside the least bytes that it has to move: updates of many variables, chains of ops.
// SPDX-License-Identifier: Apache-2.0
#include "Benchmark.h"
#include "Graphs.h"
#include "Session.h"
#include "TextParts.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>

namespace opc::bench {
namespace {

using Dims = std::vector<int64_t>;

int64_t count(const Dims &dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// --- updates ---------------------------------------------------------------------------------------------------------

/// ResNet-50: 53 convolutions, each with a normalization, and one product.
std::vector<Dims> convolutional() {
  std::vector<Dims> list;
  const auto convolution = [&](int64_t out, int64_t in, int64_t size) {
    list.insert(list.end(), {{out, in, size, size}, {out}, {out}});
  };
  convolution(64, 3, 7);
  int64_t channels = 64;
  for (const auto &[blocks, width] : {std::pair<int, int64_t>{3, 64}, {4, 128}, {6, 256}, {3, 512}})
    for (int b = 0; b < blocks; ++b) {
      convolution(width, channels, 1);
      convolution(width, width, 3);
      convolution(4 * width, width, 1);
      if (b == 0) convolution(4 * width, channels, 1);
      channels = 4 * width;
    }
  list.insert(list.end(), {{1000, channels}, {1000}});
  return list;
}

/// Ten layers of an encoder: attention, two normalizations, two products.
std::vector<Dims> encoder() {
  std::vector<Dims> list;
  for (int layer = 0; layer < 10; ++layer) {
    for (int product = 0; product < 4; ++product) list.insert(list.end(), {{512, 512}, {512}});
    list.insert(list.end(), {{512}, {512}, {512}, {512}, {512, 2048}, {2048}, {2048, 512}, {512}});
  }
  return list;
}

std::string constantVariable(const std::string &name, const Dims &dims, const char *value) {
  return concat("op { name: \"", name, "\" variable_conf { out: \"out\" shape { ",
                joined(dims, " ", [](int64_t d) { return concat("dim: ", d); }),
                " } data_type: kFloat initializer { constant_conf { value: ", value, " } } } }\n");
}

/// Adam on all of them beside a loop that reads and writes what Adam has to, in one array of each kind.
std::vector<Row> adam(const std::vector<Dims> &tensors, int threads, const std::string &name) {
  std::string graph;
  int64_t total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string n = std::to_string(i);
    graph += input("g" + n, tensors[i]);
    for (const char *kind : {"p", "m", "v"}) graph += constantVariable(kind + n, tensors[i], "0.01");
    graph += op("u" + n, "adam_update",
                {{"model", "p" + n + "/out"},
                 {"model_diff", "g" + n + "/out"},
                 {"m", "m" + n + "/out"},
                 {"v", "v" + n + "/out"}},
                "",
                attr("learning_rate_val", "at_float: 0.001") + attr("bias_correction1_val", "at_float: 0.5") +
                    attr("bias_correction2_val", "at_float: 0.5"));
    total += count(tensors[i]);
  }
  graph += output("p1/out");
  return compare(
      name, graph, threads, "traffic",
      [&]() -> std::function<void()> {
        struct Arrays {
          std::vector<float> p, m, v, g;
        };
        const auto n = static_cast<size_t>(total);
        auto all = std::make_shared<Arrays>(Arrays{std::vector<float>(n, 0.1f), std::vector<float>(n, 0.1f),
                                                   std::vector<float>(n, 0.1f), std::vector<float>(n, 0.1f)});
        return [all, threads, total] {
          inParallel(threads, total, [&](int64_t begin, int64_t end) {
            float *p = all->p.data(), *m = all->m.data(), *v = all->v.data();
            const float *g = all->g.data();
#pragma clang loop vectorize(assume_safety)
            for (int64_t i = begin; i < end; ++i) {
              m[i] = m[i] + 0.5f * g[i];
              v[i] = v[i] + 0.25f * g[i];
              p[i] = p[i] - 0.5f * m[i];
            }
          });
        };
      },
      9);
}

// --- chains ----------------------------------------------------------------------------------------------------------

struct Step {
  const char *type, *in, *out;
  const char *attrs = "";
};
constexpr Step kUnary[] = {{"relu", "x", "y"},    {"exp", "x", "y"},      {"tanh", "x", "y"},   {"erf", "x", "y"},
                           {"sigmoid", "x", "y"}, {"negative", "x", "y"}, {"abs", "x", "y"},    {"square", "x", "y"},
                           {"sqrt", "x", "y"},    {"floor", "x", "y"},    {"silu", "in", "out"}};
constexpr const char *kBinary[] = {"broadcast_add", "broadcast_mul", "broadcast_sub", "broadcast_maximum"};

struct Chain {
  std::string graph;
  std::vector<Dims> reads;
  std::vector<std::string> alone; // each op as a graph of its own, of kInCache elements
  int ops = 0;
};
constexpr int64_t kRows = 4096, kColumns = 4096, kInCache = 1 << 14;

/// A chain of `ops` ops on f32 [4096, 4096]: functions, arithmetic with an earlier result, another input, a row or a
/// column of one, and casts to f16 or i32 and back.
Chain randomChain(unsigned seed, int ops) {
  std::mt19937 random(seed);
  const auto pick = [&](uint32_t n) { return random() % n; };
  Chain c;
  const auto addInput = [&](const Dims &dims) {
    const std::string name = concat("i", c.reads.size());
    c.graph += input(name, dims);
    c.reads.push_back(dims);
    return name + "/out";
  };
  std::string last = addInput({kRows, kColumns}), other = last;
  const std::string small = input("x", {kInCache}) + input("z", {kInCache});
  for (int full = 1; c.ops < ops;) {
    const std::string name = concat("f", c.ops);
    const uint32_t kind = pick(10);
    if (kind < 6) {
      const Step &s = kUnary[pick(std::size(kUnary))];
      c.graph += op(name, s.type, {{s.in, last}}, s.out);
      c.alone.push_back(small + op("f", s.type, {{s.in, "x/out"}}, s.out) + output(concat("f/", s.out, "_0")));
      other = std::exchange(last, concat(name, "/", s.out, "_0"));
      ++c.ops;
    } else if (kind < 9) {
      const char *type = kBinary[pick(std::size(kBinary))];
      std::string operand = other;
      if (const uint32_t from = pick(4); from == 0 && full < 4) {
        operand = addInput({kRows, kColumns});
        ++full;
      } else if (from == 1) {
        operand = addInput({kColumns});
      } else if (from == 2) {
        operand = addInput({kRows, 1});
      }
      c.graph += op(name, type, {{"x", last}, {"y", operand}}, "z");
      c.alone.push_back(small + op("f", type, {{"x", "x/out"}, {"y", "z/out"}}, "z") + output("f/z_0"));
      other = std::exchange(last, name + "/z_0");
      ++c.ops;
    } else {
      const char *type = pick(2) ? "kFloat16" : "kInt32";
      const auto cast = [](const std::string &n, const std::string &from, const char *to) {
        return op(n, "cast", {{"in", from}}, "out", attr("dtype", concat("at_data_type: ", to)));
      };
      c.graph += cast(name, last, type) + cast(name + "b", name + "/out_0", "kFloat");
      c.alone.push_back(small + cast("f", "x/out", type) + cast("b", "f/out_0", "kFloat") + output("b/out_0"));
      other = std::exchange(last, name + "b/out_0");
      c.ops += 2;
    }
  }
  c.graph += output(last);
  return c;
}

/// The graph beside itself with a task for every op.
std::vector<Row> besideUnfused(const std::string &graph, int threads, const std::string &name) {
  struct Peer {
    Registry registry = linkedRegistry();
    std::optional<Session> session;
  };
  return compare(
      name, graph, threads, "unfused",
      [&]() -> std::function<void()> {
        auto peer = std::make_shared<Peer>();
        SessionOptions options;
        options.threads = threads;
        auto session = Session::load(planOf(peer->registry, name, graph, /*regions=*/false), peer->registry, options);
        if (!session) return [] {};
        for (const PortInfo &p : session->interface().inputs) // a run wants them given
          std::fill_n(static_cast<float *>(session->inputData(p.name)), p.desc.shape().elem_cnt(), 0.1f);
        peer->session.emplace(std::move(*session));
        return [peer] { (void)peer->session->run(); };
      },
      3);
}

/// The chain beside the larger of two limits: a loop over as many streams of as many bytes, and what its ops take in
/// the cache, one after the other.
std::vector<Row> chain(unsigned seed, int ops, int threads, const std::string &name) {
  const Chain c = randomChain(seed, ops);
  std::vector<Row> rows = compare(
      name, c.graph, threads, "copy",
      [&]() -> std::function<void()> {
        struct Arrays {
          std::vector<std::vector<float>> from;
          std::vector<float> to;
        };
        auto all = std::make_shared<Arrays>();
        for (const Dims &d : c.reads)
          if (count(d) == kRows * kColumns) all->from.emplace_back(static_cast<size_t>(count(d)), 1.0f);
        all->to.resize(static_cast<size_t>(kRows * kColumns));
        return [all, threads] {
          inParallel(threads, kRows * kColumns, [&](int64_t begin, int64_t end) {
            float *to = all->to.data();
            const size_t n = all->from.size();
            const float *a = all->from[0].data(), *b = all->from[n > 1 ? 1 : 0].data(),
                        *d = all->from[n > 2 ? 2 : 0].data(), *e = all->from[n > 3 ? 3 : 0].data();
            if (n == 1)
              for (int64_t i = begin; i < end; ++i) to[i] = a[i] + 1.0f;
            else if (n == 2)
              for (int64_t i = begin; i < end; ++i) to[i] = a[i] + b[i];
            else if (n == 3)
              for (int64_t i = begin; i < end; ++i) to[i] = a[i] + b[i] + d[i];
            else
              for (int64_t i = begin; i < end; ++i) to[i] = a[i] + b[i] + d[i] + e[i];
          });
        };
      },
      9);
  if (rows.empty()) return rows;
  double inCache = 0;
  std::map<std::string, double> known;
  for (const std::string &graph : c.alone) {
    auto [it, isNew] = known.emplace(graph, 0.0);
    if (isNew) {
      const std::vector<Row> row = compare(name, graph, 1, "", [] { return [] {}; }, 3);
      if (row.empty()) return {};
      it->second = row[0].value;
    }
    inCache += it->second;
  }
  inCache *= static_cast<double>(kRows * kColumns) / static_cast<double>(kInCache) / threads;
  if (inCache > rows[0].reference) {
    rows[0].reference = inCache;
    rows[0].referenceName = "in cache";
  }
  const std::vector<Row> unfused = besideUnfused(c.graph, threads, name + "_unfused");
  rows.insert(rows.end(), unfused.begin(), unfused.end());
  return rows;
}

} // namespace

std::vector<Benchmark> memoryBound() {
  std::vector<Benchmark> list;
  const auto add = [&](const std::string &name, std::function<std::vector<Row>(int, const std::string &)> run) {
    for (int threads : {1, 2}) {
      const std::string row = "memory/" + name + "_t" + std::to_string(threads);
      list.push_back({{row}, [=] { return run(threads, row); }});
    }
  };
  add("adam_resnet50", [](int t, const std::string &row) { return adam(convolutional(), t, row); });
  add("adam_encoder", [](int t, const std::string &row) { return adam(encoder(), t, row); });
  for (unsigned seed = 0; seed < 10; ++seed) {
    const int ops = 3 + static_cast<int>(seed) * 3;
    for (int threads : {1, 2}) {
      const std::string row = concat("memory/chain_", seed, "_of_", ops, "_t", threads);
      list.push_back({{row, row + "_unfused"}, [=] { return chain(seed, ops, threads, row); }});
    }
  }
  return list;
}

} // namespace opc::bench
