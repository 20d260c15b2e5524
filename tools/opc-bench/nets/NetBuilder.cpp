// Rules -> signatures on a mesh, tensors -> kinds, and the tape.
// SPDX-License-Identifier: Apache-2.0
#include "NetBuilder.h"

#include "TextParts.h"

#include <algorithm>

namespace opc::bench {
namespace {

/// One way to cut an op on one mesh dimension.
struct Cut {
  std::vector<SbpParallel> inputs, outputs;
  bool split = false;    // the work is divided
  bool exchange = false; // the op communicates inside
};

std::vector<std::string> terms(std::string side) {
  std::erase(side, ' ');
  return side.empty() ? std::vector<std::string>() : splitAt(side, ',');
}

std::vector<Cut> cutsOf(const Rule &rule) {
  const size_t arrow = rule.terms.find("->");
  const std::vector<std::string> in = terms(rule.terms.substr(0, arrow)), out = terms(rule.terms.substr(arrow + 2));
  std::string factors;
  for (const auto &side : {in, out})
    for (const std::string &t : side)
      for (char c : t)
        if (c != '.' && c != '_' && factors.find(c) == std::string::npos) factors += c;
  const auto broadcast = SbpParallel::broadcast(), partial = SbpParallel::partialSum();
  std::vector<Cut> cuts;
  for (char f : factors) {
    Cut cut;
    cut.split = true;
    bool legal = true;
    auto state = [&](const std::string &t, bool output) {
      const size_t at = t.find(f);
      if (at != std::string::npos) return SbpParallel::split(static_cast<int64_t>(at));
      if (!output) return broadcast;
      if (rule.composites.find(f) != std::string::npos) {
        cut.exchange = true;
        return broadcast;
      }
      legal &= rule.sums.find(f) != std::string::npos;
      return partial;
    };
    for (const std::string &t : in) cut.inputs.push_back(state(t, false));
    for (const std::string &t : out) cut.outputs.push_back(state(t, true));
    if (legal) cuts.push_back(std::move(cut));
  }
  for (const std::vector<int> &group : rule.linear) {
    Cut cut;
    cut.inputs.assign(in.size(), broadcast);
    for (int i : group) cut.inputs[static_cast<size_t>(i)] = partial;
    cut.outputs.assign(out.size(), partial);
    cuts.push_back(std::move(cut));
  }
  Cut whole;
  whole.inputs.assign(in.size(), broadcast);
  whole.outputs.assign(out.size(), broadcast);
  cuts.push_back(std::move(whole));
  return cuts;
}

std::string keyOf(const Shape &shape, DataType type) { return shape.ToString() + std::to_string(type); }

} // namespace

Cluster clusterOf(std::vector<int64_t> mesh) {
  Cluster c;
  c.mesh = std::move(mesh);
  for (size_t i = 0; i < c.mesh.size(); ++i)
    c.links.dims.push_back(i + 1 == c.mesh.size() ? Link{3e-6, 200e9} : Link{10e-6, 25e9});
  c.links.between = {10e-6, 25e9};
  return c;
}

const std::vector<NdSbp> &NetBuilder::statesOf(const Shape &shape, DataType type) {
  auto [at, fresh] = states_.try_emplace(keyOf(shape, type));
  if (fresh) at->second = legalStates(shape, type, cluster_.mesh);
  return at->second;
}

uint32_t NetBuilder::tensorKind(const Shape &shape, DataType type) {
  auto [at, fresh] = tensorKinds_.try_emplace(keyOf(shape, type), static_cast<uint32_t>(problem_.tensorKinds.size()));
  if (fresh) {
    planner::TensorKind kind;
    const std::vector<NdSbp> &states = statesOf(shape, type);
    kind.states = static_cast<uint32_t>(states.size());
    kind.boxing = boxingMatrix(shape, type, states, Placement::dense(cluster_.mesh), cluster_.links);
    for (const NdSbp &s : states)
      kind.bytes.push_back(static_cast<uint64_t>(localShape(shape, s, cluster_.mesh, 0).elem_cnt()) *
                           GetSizeOfDataType(type));
    problem_.tensorKinds.push_back(std::move(kind));
  }
  return at->second;
}

TensorId NetBuilder::newTensor(const Shape &shape, DataType type, double held) {
  planner::Tensor t;
  t.kind = tensorKind(shape, type);
  t.held = held;
  problem_.tensors.push_back(t);
  shapes_.push_back(shape);
  types_.push_back(type);
  return static_cast<TensorId>(problem_.tensors.size() - 1);
}

/// Fed or initialised: any state but partial sums, at no cost.
TensorId NetBuilder::source(const Shape &shape, DataType type, double held) {
  const std::string key = "source" + keyOf(shape, type);
  auto [at, fresh] = opKinds_.try_emplace(key, static_cast<uint32_t>(problem_.opKinds.size()));
  if (fresh) {
    planner::OpKind kind;
    const std::vector<NdSbp> &states = statesOf(shape, type);
    for (uint32_t s = 0; s < states.size(); ++s)
      if (!hasPartial(states[s])) kind.signatures.push_back({{}, {s}, 0});
    problem_.opKinds.push_back(std::move(kind));
  }
  const TensorId t = newTensor(shape, type, held);
  problem_.ops.push_back({at->second, {}, {t}});
  return t;
}

TensorId NetBuilder::input(Shape shape, bool integer) { return source(shape, integer ? kInt64 : kFloat, 0); }

TensorId NetBuilder::variable(Shape shape) {
  variables_.push_back(source(shape, kFloat, 1));
  return variables_.back();
}

uint32_t NetBuilder::opKind(const Rule &rule, const std::vector<Shape> &in, const std::vector<DataType> &inTypes,
                            const std::vector<Shape> &out, bool pinFirst) {
  std::string key =
      rule.terms + "|" + rule.sums + "|" + rule.composites + "|" + std::to_string(rule.flops) + (pinFirst ? "!" : "");
  for (const auto &g : rule.linear) key += "/" + joined(g, ",");
  for (size_t i = 0; i < in.size(); ++i) key += keyOf(in[i], inTypes[i]);
  for (const Shape &s : out) key += ">" + s.ToString();
  auto [at, fresh] = opKinds_.try_emplace(key, static_cast<uint32_t>(problem_.opKinds.size()));
  if (!fresh) return at->second;

  const std::vector<Cut> cuts = cutsOf(rule);
  planner::OpKind kind;
  if (pinFirst) {
    kind.pinned.assign(in.size(), false);
    kind.pinned[0] = true;
  }
  // Every choice of a cut for each mesh dimension, the last one fastest.
  std::vector<size_t> choice(cluster_.mesh.size(), 0);
  for (bool more = true; more;) {
    planner::OpKind::Signature signature;
    double divided = 1, bytes = 0, exchange = 0;
    bool legal = true;
    for (size_t m = 0; m < choice.size(); ++m) {
      const Cut &cut = cuts[choice[m]];
      if (cut.split) divided *= static_cast<double>(cluster_.mesh[m]);
      const double p = static_cast<double>(cluster_.mesh[m]);
      if (cut.exchange)
        exchange += 3 * 2 * (p - 1) * cluster_.links.dims[m].latency +
                    2 * (p - 1) / p * rule.exchanged / cluster_.links.dims[m].bandwidth;
    }
    auto add = [&](const Shape &shape, DataType type, bool output, size_t index) {
      NdSbp state;
      for (size_t m : choice) state.push_back((output ? cuts[m].outputs : cuts[m].inputs)[index]);
      const std::vector<NdSbp> &states = statesOf(shape, type);
      const auto found = std::find(states.begin(), states.end(), state);
      legal &= found != states.end();
      if (!legal) return;
      (output ? signature.outputs : signature.inputs).push_back(static_cast<uint32_t>(found - states.begin()));
      bytes += static_cast<double>(localShape(shape, state, cluster_.mesh, 0).elem_cnt()) *
               static_cast<double>(GetSizeOfDataType(type));
    };
    for (size_t i = 0; i < in.size() && legal; ++i) add(in[i], inTypes[i], false, i);
    for (size_t i = 0; i < out.size() && legal; ++i) add(out[i], kFloat, true, i);
    if (legal) {
      signature.seconds =
          std::max(rule.flops / divided / cluster_.flops, bytes / cluster_.memoryBandwidth) + 2e-6 + exchange;
      kind.signatures.push_back(std::move(signature));
    }
    more = false;
    for (size_t m = choice.size(); m-- > 0 && !more;) {
      more = ++choice[m] < cuts.size();
      if (!more) choice[m] = 0;
    }
  }
  problem_.opKinds.push_back(std::move(kind));
  return at->second;
}

std::vector<TensorId> NetBuilder::op(const Rule &rule, const std::vector<TensorId> &inputs,
                                     const std::vector<Shape> &outputs, bool pinFirst) {
  std::vector<Shape> in;
  std::vector<DataType> types;
  for (TensorId t : inputs) {
    in.push_back(shapes_[t]);
    types.push_back(types_[t]);
  }
  planner::Op op;
  op.kind = opKind(rule, in, types, outputs, pinFirst);
  op.inputs = inputs;
  for (const Shape &s : outputs) op.outputs.push_back(newTensor(s, kFloat, 0));
  problem_.ops.push_back(op);
  return op.outputs;
}

void NetBuilder::onBackward(std::vector<TensorId> outputs,
                            std::function<void(const std::vector<TensorId> &)> backward) {
  tape_.push_back({std::move(outputs), std::move(backward)});
}

void NetBuilder::addGradient(TensorId of, TensorId gradient) {
  auto [at, fresh] = gradients_.try_emplace(of, gradient);
  if (fresh) return;
  const std::string axes = std::string("abcdefg").substr(0, static_cast<size_t>(shapes_[of].NumAxes()));
  at->second = op({axes + "," + axes + "->" + axes, "", "", {{0, 1}}}, {at->second, gradient}, {shapes_[of]})[0];
}

planner::Problem NetBuilder::finish(TensorId loss) {
  const size_t forward = problem_.ops.size(), activations = problem_.tensors.size();
  addGradient(loss, input(shapes_[loss]));
  for (size_t i = tape_.size(); i-- > 0;) {
    std::vector<TensorId> gradients;
    bool any = false;
    for (TensorId t : tape_[i].outputs) {
      const auto at = gradients_.find(t);
      gradients.push_back(at == gradients_.end() ? kNoTensor : at->second);
      any |= at != gradients_.end();
    }
    if (any) tape_[i].backward(gradients);
  }
  for (size_t o = forward; o < problem_.ops.size(); ++o) // what the backward pass reads is kept until then
    for (uint32_t t : problem_.ops[o].inputs)
      if (t < activations) problem_.tensors[t].held = 1;
  const TensorId rate = input(Shape{});
  for (TensorId v : variables_) {
    const auto at = gradients_.find(v);
    if (at == gradients_.end()) continue;
    problem_.tensors[at->second].discount = cluster_.gradientDiscount;
    const std::string axes = std::string("abcdefg").substr(0, static_cast<size_t>(shapes_[v].NumAxes()));
    op({axes + "," + axes + ",_->", "", "", {}}, {v, at->second, rate}, {}, true);
  }
  return std::move(problem_);
}

} // namespace opc::bench
