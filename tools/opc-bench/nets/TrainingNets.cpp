// Forward ops with their gradients on NetBuilder's tape, and the nets made of them.
// SPDX-License-Identifier: Apache-2.0
#include "TrainingNets.h"

#include <string>

namespace opc::bench {
namespace {

using Gradients = std::vector<TensorId>;

std::string axes(size_t rank) { return std::string("abcdefg").substr(0, rank); }

class Net {
public:
  explicit Net(const Cluster &cluster) : b(cluster) {}
  NetBuilder b;

  const Shape &shape(TensorId t) const { return b.shape(t); }
  TensorId one(const Rule &rule, const std::vector<TensorId> &in, const Shape &out) { return b.op(rule, in, {out})[0]; }

  /// C = A B for terms like "bse", "ef", "bsf": what is not in the result is summed.
  TensorId product(const std::string &a, const std::string &w, const std::string &c, TensorId x, TensorId y,
                   const Shape &out) {
    const TensorId z = rawProduct(a, w, c, x, y, out);
    b.onBackward({z}, [=, this](const Gradients &g) {
      b.addGradient(x, rawProduct(c, w, a, g[0], y, shape(x)));
      b.addGradient(y, rawProduct(a, c, w, x, g[0], shape(y)));
    });
    return z;
  }
  TensorId linear(TensorId x, int64_t width) {
    const Shape in = shape(x);
    const int64_t last = in.At(in.NumAxes() - 1);
    Shape out = in;
    out.Set(in.NumAxes() - 1, width);
    const std::string lead = axes(static_cast<size_t>(in.NumAxes() - 1));
    const TensorId w = b.variable(Shape{last, width}), bias = b.variable(Shape{width});
    const TensorId y = product(lead + "x", "xy", lead + "y", x, w, out);
    return addBias(lead + "y", y, bias);
  }
  TensorId addBias(const std::string &term, TensorId x, TensorId bias) {
    const std::string channel = term.substr(term.size() - 1), sums = term.substr(0, term.size() - 1);
    const TensorId y = one({term + "," + channel + "->" + term, "", "", {{0, 1}}}, {x, bias}, shape(x));
    b.onBackward({y}, [=, this](const Gradients &g) {
      b.addGradient(x, g[0]);
      b.addGradient(bias, one({term + "->" + channel, sums, "", {{0}}}, {g[0]}, shape(bias)));
    });
    return y;
  }
  /// Any elementwise function that is not linear; its gradient is linear in the outer one.
  TensorId nonlinear(TensorId x) {
    const std::string t = axes(static_cast<size_t>(shape(x).NumAxes()));
    const TensorId y = one({t + "->" + t}, {x}, shape(x));
    b.onBackward({y}, [=, this](const Gradients &g) {
      b.addGradient(x, one({t + "," + t + "->" + t, "", "", {{1}}}, {x, g[0]}, shape(x)));
    });
    return y;
  }
  TensorId add(TensorId x, TensorId y) {
    const std::string t = axes(static_cast<size_t>(shape(x).NumAxes()));
    const TensorId z = one({t + "," + t + "->" + t, "", "", {{0, 1}}}, {x, y}, shape(x));
    b.onBackward({z}, [=, this](const Gradients &g) {
      b.addGradient(x, g[0]);
      b.addGradient(y, g[0]);
    });
    return z;
  }
  /// A linear op of one input with a transposed gradient: scaling, dropout's mask, reshape of heads, pooling of
  /// averages.
  TensorId mapped(const std::string &from, const std::string &to, const std::string &sums, TensorId x,
                  const Shape &out) {
    const TensorId y = one({from + "->" + to, sums, "", {{0}}}, {x}, out);
    b.onBackward({y}, [=, this](const Gradients &g) {
      b.addGradient(x, one({to + "->" + from, "", "", {{0}}}, {g[0]}, shape(x)));
    });
    return y;
  }
  TensorId layerNorm(TensorId x) {
    const Shape s = shape(x);
    const std::string lead = axes(static_cast<size_t>(s.NumAxes() - 1));
    Shape rows = s;
    rows.mut_dim_vec().pop_back();
    const Shape channels{s.At(s.NumAxes() - 1)};
    const TensorId gamma = b.variable(channels), beta = b.variable(channels);
    const std::vector<TensorId> y =
        b.op({lead + ".,.,.->" + lead + "." + "," + lead + "," + lead}, {x, gamma, beta}, {s, rows, rows});
    b.onBackward({y[0]}, [=, this](const Gradients &g) {
      const std::string in = lead + ".," + lead + "." + "," + lead + "," + lead;
      b.addGradient(x, one({in + ",.->" + lead + ".", "", "", {{1}}}, {x, g[0], y[1], y[2], gamma}, s));
      const std::vector<TensorId> d =
          b.op({in + "->.,.", lead, "", {{1}}}, {x, g[0], y[1], y[2]}, {channels, channels});
      b.addGradient(gamma, d[0]);
      b.addGradient(beta, d[1]);
    });
    return y[0];
  }
  /// Logits [.., v] against labels [..]: the vocabulary may be split, the op then exchanges maxima and sums itself.
  TensorId crossEntropy(TensorId logits, TensorId labels) {
    const Shape s = shape(logits);
    const size_t rank = static_cast<size_t>(s.NumAxes());
    const std::string lead = axes(rank - 1);
    Shape rows = s;
    rows.mut_dim_vec().pop_back();
    const double bytes = 3 * 4 * static_cast<double>(rows.elem_cnt());
    const std::vector<TensorId> y =
        b.op({lead + "v," + lead + "->" + lead + "," + lead, "", "v", {}, 0, bytes}, {logits, labels}, {rows, rows});
    b.onBackward({y[0]}, [=, this](const Gradients &g) {
      b.addGradient(logits, one({lead + "v," + lead + "," + lead + "," + lead + "->" + lead + "v", "", "", {{3}}},
                                {logits, labels, y[1], g[0]}, s));
    });
    return y[0];
  }
  TensorId mean(TensorId x) {
    const std::string t = axes(static_cast<size_t>(shape(x).NumAxes()));
    return mapped(t, "_", t, x, Shape{});
  }

  TensorId conv(TensorId x, int64_t out, int64_t kernel, int64_t stride) {
    const Shape in = shape(x);
    const int64_t n = in.At(0), c = in.At(1), h = in.At(2) / stride;
    const TensorId w = b.variable(Shape{out, c, kernel, kernel});
    const Shape result{n, out, h, h}, filter = shape(w);
    const double flops = 2.0 * static_cast<double>(n * out * h * h) * static_cast<double>(c * kernel * kernel);
    const TensorId y = one({"nc..,oc..->no..", "c", "", {{0}, {1}}, flops}, {x, w}, result);
    b.onBackward({y}, [=, this](const Gradients &g) {
      b.addGradient(x, one({"no..,oc..->nc..", "o", "", {{0}, {1}}, flops}, {g[0], w}, in));
      b.addGradient(w, one({"nc..,no..->oc..", "n", "", {{0}, {1}}, flops}, {x, g[0]}, filter));
    });
    return y;
  }
  /// Batch normalisation with statistics over all devices, then relu.
  TensorId norm(TensorId x, bool relu = true) {
    const Shape s = shape(x), channels{s.At(1)};
    const TensorId gamma = b.variable(channels), beta = b.variable(channels);
    const double bytes = 8 * static_cast<double>(s.At(1));
    const std::vector<TensorId> y =
        b.op({"nc..,c,c->nc..,c,c", "", "n", {}, 0, bytes}, {x, gamma, beta}, {s, channels, channels});
    b.onBackward({y[0]}, [=, this](const Gradients &g) {
      const std::vector<TensorId> d = b.op({"nc..,nc..,c,c,c->nc..,c,c", "", "n", {}, 0, bytes},
                                           {x, g[0], gamma, y[1], y[2]}, {s, channels, channels});
      b.addGradient(x, d[0]);
      b.addGradient(gamma, d[1]);
      b.addGradient(beta, d[2]);
    });
    return relu ? nonlinear(y[0]) : y[0];
  }
  TensorId maxPool(TensorId x, int64_t stride) {
    const Shape in = shape(x);
    const Shape out{in.At(0), in.At(1), in.At(2) / stride, in.At(3) / stride};
    const TensorId y = one({"nc..->nc.."}, {x}, out);
    b.onBackward({y}, [=, this](const Gradients &g) {
      b.addGradient(x, one({"nc..,nc..,nc..->nc..", "", "", {{2}}}, {x, y, g[0]}, in));
    });
    return y;
  }
  TensorId concat(const std::vector<TensorId> &parts) {
    Shape out = shape(parts[0]);
    int64_t channels = 0;
    std::string in;
    std::vector<int> group;
    for (TensorId p : parts) {
      channels += shape(p).At(1);
      in += in.empty() ? "n..." : ",n...";
      group.push_back(static_cast<int>(group.size()));
    }
    out.Set(1, channels);
    const TensorId y = one({in + "->n...", "", "", {group}}, parts, out);
    b.onBackward({y}, [=, this](const Gradients &g) {
      for (TensorId p : parts) b.addGradient(p, one({"n...->n...", "", "", {{0}}}, {g[0]}, shape(p)));
    });
    return y;
  }
  TensorId convNorm(TensorId x, int64_t out, int64_t kernel, int64_t stride = 1, bool relu = true) {
    return norm(conv(x, out, kernel, stride), relu);
  }
  /// Mean over the image, a classifier, the loss.
  planner::Problem classify(TensorId x, int64_t classes) {
    const Shape s = shape(x);
    const TensorId pooled = mapped("nc..", "nc", "", x, Shape{s.At(0), s.At(1)});
    const TensorId labels = b.input(Shape{s.At(0)}, true);
    return b.finish(mean(crossEntropy(linear(pooled, classes), labels)));
  }

private:
  TensorId rawProduct(const std::string &a, const std::string &w, const std::string &c, TensorId x, TensorId y,
                      const Shape &out) {
    double flops = 2;
    std::string seen, sums;
    auto take = [&](const std::string &term, const Shape &s) {
      for (size_t i = 0; i < term.size(); ++i) {
        if (seen.find(term[i]) != std::string::npos) continue;
        seen += term[i];
        flops *= static_cast<double>(s.At(static_cast<int64_t>(i)));
        if (c.find(term[i]) == std::string::npos) sums += term[i];
      }
    };
    take(a, shape(x));
    take(w, shape(y));
    return one({a + "," + w + "->" + c, sums, "", {{0}, {1}}, flops}, {x, y}, out);
  }
};

} // namespace

planner::Problem gpt(const Cluster &cluster, int layers, const GptShape &g) {
  Net n(cluster);
  const Shape hidden{g.batch, g.sequence, g.hidden};
  const Shape heads{g.batch, g.heads, g.sequence, g.hidden / g.heads};
  const Shape scores{g.batch, g.heads, g.sequence, g.sequence};
  const TensorId ids = n.b.input(Shape{g.batch, g.sequence}, true),
                 labels = n.b.input(Shape{g.batch, g.sequence}, true);
  const TensorId table = n.b.variable(Shape{g.vocabulary, g.hidden});
  const TensorId positions = n.b.variable(Shape{g.sequence, g.hidden});
  const TensorId embedded = n.one({"ve,bs->bse", "v", "", {{0}}}, {table, ids}, hidden);
  n.b.onBackward({embedded}, [&](const Gradients &d) {
    n.b.addGradient(table, n.one({"bs,bse->ve", "bs", "", {{1}}}, {ids, d[0]}, n.shape(table)));
  });
  TensorId x = n.one({"bse,se->bse", "", "", {{0, 1}}}, {embedded, positions}, hidden);
  n.b.onBackward({x}, [&, x](const Gradients &d) {
    n.b.addGradient(embedded, d[0]);
    n.b.addGradient(positions, n.one({"bse->se", "b", "", {{0}}}, {d[0]}, n.shape(positions)));
  });
  for (int layer = 0; layer < layers; ++layer) {
    const TensorId y = n.layerNorm(x);
    TensorId part[3];
    for (TensorId &p : part) p = n.mapped("bsh", "bhs.", "", n.linear(y, g.hidden), heads);
    TensorId s = n.product("bhsd", "bhtd", "bhst", part[0], part[1], scores);
    s = n.mapped("bhst", "bhst", "", s, scores);                // 1 / sqrt(d)
    const TensorId masked = n.one({"bhst->bhst"}, {s}, scores); // the causal mask
    n.b.onBackward({masked}, [&, s](const Gradients &d) {
      n.b.addGradient(s, n.one({"bhst->bhst", "", "", {{0}}}, {d[0]}, scores));
    });
    const TensorId p = n.one({"bhs.->bhs."}, {masked}, scores);
    n.b.onBackward({p}, [&, p, masked](const Gradients &d) {
      n.b.addGradient(masked, n.one({"bhs.,bhs.->bhs.", "", "", {{1}}}, {p, d[0]}, scores));
    });
    const TensorId context = n.product("bhst", "bhtd", "bhsd", p, part[2], heads);
    x = n.add(x, n.linear(n.mapped("bhs.", "bsh", "", context, hidden), g.hidden));
    x = n.add(x, n.linear(n.nonlinear(n.linear(n.layerNorm(x), 4 * g.hidden)), g.hidden));
  }
  x = n.layerNorm(x);
  const TensorId logits = n.product("bse", "ve", "bsv", x, table, Shape{g.batch, g.sequence, g.vocabulary});
  return n.b.finish(n.mean(n.crossEntropy(logits, labels)));
}

planner::Problem resnet(const Cluster &cluster, const std::vector<int> &blocks, int64_t batch) {
  Net n(cluster);
  TensorId x = n.maxPool(n.convNorm(n.b.input(Shape{batch, 3, 224, 224}), 64, 7, 2), 2);
  int64_t width = 64;
  for (size_t stage = 0; stage < blocks.size(); ++stage, width *= 2)
    for (int block = 0; block < blocks[stage]; ++block) {
      const int64_t stride = block == 0 && stage > 0 ? 2 : 1;
      TensorId y = n.convNorm(x, width, 1);
      y = n.convNorm(y, width, 3, stride);
      y = n.convNorm(y, 4 * width, 1, 1, false);
      const TensorId side = block == 0 ? n.convNorm(x, 4 * width, 1, stride, false) : x;
      x = n.nonlinear(n.add(y, side));
    }
  return n.classify(x, 1000);
}

planner::Problem inception(const Cluster &cluster, int modules, int64_t batch) {
  Net n(cluster);
  TensorId x = n.maxPool(n.convNorm(n.b.input(Shape{batch, 3, 224, 224}), 64, 7, 2), 2);
  x = n.maxPool(n.convNorm(n.convNorm(x, 64, 1), 192, 3), 2);
  for (int m = 0; m < modules; ++m) {
    if (m == 2 || m == 7) x = n.maxPool(x, 2);
    const int64_t w = 64 + 16 * (m % 5) + 32 * (m / 5); // no two neighbours are alike
    x = n.concat({n.convNorm(x, w, 1), n.convNorm(n.convNorm(x, w, 1), 2 * w, 3),
                  n.convNorm(n.convNorm(x, w / 4, 1), w / 2, 5), n.convNorm(n.maxPool(x, 1), w / 2, 1)});
  }
  return n.classify(x, 1000);
}

planner::Problem diamonds(const Cluster &cluster, int count, int64_t rows, int64_t width) {
  Net n(cluster);
  TensorId x = n.b.input(Shape{rows, width}), skipped = x;
  for (int i = 0; i < count; ++i) {
    TensorId y = n.add(n.nonlinear(n.linear(x, width)), n.linear(x, width));
    if (i % 2 == 1) y = n.add(y, n.nonlinear(x));
    if (i % 3 == 2) y = n.add(y, skipped);
    if (i % 3 == 0) skipped = x;
    x = y;
  }
  return n.b.finish(n.mean(n.nonlinear(x)));
}

planner::Problem mlp(const Cluster &cluster, int layers, int64_t rows, int64_t width) {
  Net n(cluster);
  TensorId x = n.b.input(Shape{rows, width});
  for (int i = 0; i < layers; ++i) x = n.nonlinear(n.linear(x, width));
  return n.b.finish(n.mean(x));
}

} // namespace opc::bench
