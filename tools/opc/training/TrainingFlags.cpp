// The flags of opc grad that make a training graph, and what they mean.
// SPDX-License-Identifier: Apache-2.0
#include "TrainingFlags.h"

#include "Invocation.h"
#include "NamedValues.h"
#include "NearestNames.h"
#include "NumberText.h"
#include "OptionRanges.h"
#include "TextParts.h"
#include "opc/Op.h"

#include <algorithm>
#include <fnmatch.h>
#include <map>
#include <set>

namespace opc::cli {

namespace {

struct Optimizer {
  const char *name, *op;
  const char *decay; // the attribute that --weight-decay sets
};
// Weight decay as PyTorch's optimizers of these names have it: added to the gradient, or decoupled from it.
constexpr Optimizer kOptimizers[] = {{"sgd", "sgd_update", "l2"},
                                     {"momentum", "momentum_update", "l2"},
                                     {"adam", "adam_update", "l2"},
                                     {"adamw", "adam_update", "weight_decay"},
                                     {"lamb", "lamb_update", "weight_decay"},
                                     {"rmsprop", "rmsprop_update", "l2"},
                                     {"adagrad", "adagrad_update", "l2"},
                                     {"lars", "lars_update", "weight_decay"}};

/// An attribute that something else gives, whatever KEY=VALUE says.
struct GivenElsewhere {
  const char *attr, *by;
};
constexpr GivenElsewhere kGivenToUpdates[] = {{"learning_rate_val", "--lr"},
                                              {"bias_correction1_val", "beta1 and the step"},
                                              {"bias_correction2_val", "beta2 and the step"},
                                              {"train_step_val", "the step"}};
constexpr GivenElsewhere kGivenToSchedules[] = {{"learning_rate", "--lr"},
                                                {"decay_type", "TYPE"},
                                                {"warmup_type", "--warmup N[:FACTOR]"},
                                                {"warmup_batches", "--warmup N[:FACTOR]"},
                                                {"warmup_multiplier", "--warmup N[:FACTOR]"}};

/// A value of an attribute's type from text; lists are joined by '/'.
std::optional<AttrValue> attrFromText(AttrType type, const std::string &text) {
  const auto made = []<class T>(const std::optional<T> &v) -> std::optional<AttrValue> {
    if (!v) return std::nullopt;
    return AttrValue(*v);
  };
  const auto real = [](const std::string &part) -> std::optional<float> {
    const auto v = parseReal(part);
    return v ? std::optional(static_cast<float>(*v)) : std::nullopt;
  };
  const auto list = [&](auto parse) -> std::optional<AttrValue> {
    std::vector<typename decltype(parse(text))::value_type> values;
    for (const std::string &part : splitAt(text, '/')) {
      const auto v = parse(part);
      if (!v) return std::nullopt;
      values.push_back(*v);
    }
    return AttrValue(values);
  };
  switch (type) {
  case kAtBool:
    if (text == "true" || text == "1") return AttrValue(true);
    if (text == "false" || text == "0") return AttrValue(false);
    return std::nullopt;
  case kAtInt32: return made(parseInteger<int32_t>(text));
  case kAtInt64: return made(parseInteger<int64_t>(text));
  case kAtFloat: return made(real(text));
  case kAtDouble: return made(parseReal(text));
  case kAtListInt64: return list([](const std::string &part) { return parseInteger<int64_t>(part); });
  case kAtListFloat: return list(real);
  default: return std::nullopt;
  }
}

/// A colon announces what follows.
Status checkColon(const std::string &flag, const std::string &text) {
  if (text.empty() || text.back() != ':') return Status::ok();
  return usageError(flag + " " + text + ": nothing is behind the colon",
                    "KEY=VALUE,... follows it, or leave the colon out");
}

/// "KEY=VALUE,..." as attributes of an op.
template <size_t n>
Status readAttrs(const user_op::OpDef &op, const std::string &text, const std::string &flag,
                 const GivenElsewhere (&givenElsewhere)[n], std::map<std::string, AttrValue> *attrs) {
  if (text.empty()) return Status::ok();
  for (const std::string &part : splitAt(text, ',')) {
    const size_t equal = part.find('=');
    if (equal == std::string::npos)
      return usageError(flag + ": '" + part + "' is not KEY=VALUE",
                        "for example " + flag +
                            (flag == "--schedule" ? " step:step_size=30,gamma=0.5" : " adam:beta1=0.9,epsilon=1e-8"));
    const std::string key = part.substr(0, equal);
    const user_op::AttrDef *attr = op.findAttr(key);
    if (!attr) {
      const std::vector<std::string> names = namesOf(op.attrs);
      return usageError(flag + ": " + op.name + " has no attribute '" + key + "'",
                        didYouMean(key, names, "it has " + joined(names, ", ")));
    }
    for (const GivenElsewhere &g : givenElsewhere)
      if (attr->name == g.attr)
        return usageError(concat(flag, ": ", key, " would be ignored: it comes from ", g.by), "leave " + key + " out");
    const auto value = attrFromText(attr->type, part.substr(equal + 1));
    if (!value)
      return usageError(
          flag + ": " + key + " is " + attrTypeName(attr->type) + ", not '" + part.substr(equal + 1) + "'",
          attr->type == kAtListInt64 || attr->type == kAtListFloat ? "join the elements of a list by /" : "");
    (*attrs)[attr->name] = *value;
  }
  return Status::ok();
}

/// "NAME" or "NAME:REST".
std::pair<std::string, std::string> splitSpec(const std::string &text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

/// What the op's own rule has against the attributes, before there is a graph to blame. `text`: flag and value.
Status checkAttrs(const user_op::OpDef &op, std::map<std::string, AttrValue> attrs, const std::string &text) {
  if (!op.checkAttr) return Status::ok();
  user_op::OpConf conf;
  conf.name = conf.type = op.name;
  conf.attrs = std::move(attrs);
  for (const user_op::AttrDef &attr : op.attrs)
    if (!attr.defaultValue.empty()) conf.attrs.emplace(attr.name, attr.defaultValue);
  const Maybe<void> good = op.checkAttr(user_op::UserOpDefWrapper(op), user_op::UserOpConfWrapper(std::move(conf)));
  if (good.IsOk()) return Status::ok();
  return usageError(text + ": " + good.status().message(),
                    "KEY=VALUE behind a colon sets it; opc ops show " + op.name + " says what each is");
}

std::optional<LossScale> readLossScale(const std::string &text) {
  const auto factor = parseReal(text);
  if (!factor || !ranges::kLossScale.has(*factor)) return std::nullopt;
  return LossScale{false, *factor};
}

} // namespace

std::optional<TrainingFlags::Warmup> TrainingFlags::readWarmup(const std::string &text) {
  const auto [steps, factor] = splitSpec(text);
  const auto n = parseInteger<int64_t>(steps);
  const bool isBare = text.find(':') == std::string::npos;
  const auto from = isBare ? std::optional<double>(0) : parseReal(factor);
  if (!n || !ranges::kWarmup.has(static_cast<double>(*n)) || !from || !ranges::kWarmupFactor.has(*from))
    return std::nullopt;
  return Warmup{*n, *from};
}

bool TrainingFlags::readRecompute(const std::string &text) {
  const auto segments = parseInteger<uint32_t>(text);
  if (text.empty() || text == "!" || (segments && !ranges::kSegments.has(*segments))) return false;
  if (segments || text == "sqrt")
    recompute_.segments = segments ? int64_t{*segments} : -1;
  else
    recompute_.ops.push_back(text);
  return true;
}

std::vector<std::string> TrainingFlags::optimizers() {
  std::vector<std::string> names;
  for (const Optimizer &o : kOptimizers) names.emplace_back(o.name);
  return names;
}

std::vector<std::string> TrainingFlags::schedules(const user_op::OpDef &op) {
  std::set<std::string> names = {"constant"};
  for (const user_op::Case &c : op.cases)
    for (const auto &[name, value] : c.attrs())
      if (const auto *type = value.get<std::string>(); type && name == "decay_type" && !type->empty())
        names.insert(*type);
  return {names.begin(), names.end()};
}

std::vector<Option> TrainingFlags::options() {
  return {
      {"--optimizer", 0, "NAME[:KEY=VALUE,...]",
       "make a training step: sgd, momentum, adam, adamw, lamb, rmsprop, adagrad or lars, with attributes of its "
       "update op",
       &optimizer_, true},
      within({"--lr", 0, "X", "the learning rate", &rate_, true}, ranges::kRate),
      {"--schedule", 0, "TYPE[:KEY=VALUE,...]",
       "how the rate changes: cosine, step, multi_step, polynomial, ... with attributes of learning_rate_schedule",
       &schedule_},
      Option{"--warmup", 0, "N[:FACTOR]", "rise linearly from FACTOR (default 0) times the rate over N steps",
             into(&warmup_, readWarmup)}
          .taking("a number of steps from 1, and a factor from 0 to 1 behind a colon"),
      within({"--weight-decay", 0, "X", "decay the weights (adamw, lamb, lars: decoupled; else an L2 term)",
              &weightDecay_},
             ranges::kWeightDecay),
      {"--no-decay", 0, "GLOB", "variables that do not decay (repeatable)", &noDecay_},
      within({"--clip-norm", 0, "X", "scale the gradients down when their 2-norm exceeds X", &clip_},
             ranges::kClipNorm),
      Option{"--loss-scale", 0, "X|dynamic", "scale the loss during the backward pass; dynamic adapts it",
             into(&lossScale_, wordOr("dynamic", LossScale{true, 65536}, readLossScale))}
          .taking("a number above 0, or dynamic"),
      within({"--accumulate", 0, "K", "update once in K steps, with the mean of their gradients", &accumulate_},
             ranges::kAccumulate),
      Option{"--recompute", 0, "GLOB|sqrt|N",
             "forward ops to compute again in the backward pass (repeatable; !GLOB takes out): less memory. sqrt, or a "
             "number: keep what crosses the cheapest cuts into so many segments",
             TextReader{[this](const std::string &text) { return readRecompute(text); }, true}}
          .taking("a glob over op names, sqrt, or a number of segments from 2"),
      Option{"--memory", 0, "SIZE", "recompute just enough that a step's memory stays within SIZE (512M)", &memory_}
          .bytes("512M")};
}

Result<std::optional<TrainingConfig>> TrainingFlags::config(const Registry &registry) const {
  if (optimizer_.empty()) {
    for (const auto &[name, isGiven] : {std::pair("--lr", rate_.has_value()),
                                        {"--schedule", !schedule_.empty()},
                                        {"--warmup", warmup_.has_value()},
                                        {"--weight-decay", weightDecay_.has_value()},
                                        {"--clip-norm", clip_.has_value()},
                                        {"--loss-scale", lossScale_.has_value()},
                                        {"--accumulate", accumulate_.has_value()},
                                        {"--no-decay", !noDecay_.empty()}})
      if (isGiven) return usageError(std::string(name) + " is for training graphs", "add --optimizer NAME");
    return std::optional<TrainingConfig>();
  }
  OPC_RETURN_IF_ERROR(checkColon("--optimizer", optimizer_));
  OPC_RETURN_IF_ERROR(checkColon("--schedule", schedule_));
  const auto [name, keys] = splitSpec(optimizer_);
  const auto *optimizer = std::find_if(std::begin(kOptimizers), std::end(kOptimizers),
                                       [&name = name](const Optimizer &o) { return name == o.name; });
  if (optimizer == std::end(kOptimizers)) {
    const std::vector<std::string> names = namesOf(kOptimizers);
    return usageError("--optimizer takes NAME[:KEY=VALUE,...], and there is no optimizer '" + name + "'",
                      didYouMean(name, names, "there are " + joined(names, ", ")));
  }
  const user_op::OpDef *op = registry.findOp(optimizer->op);
  const user_op::OpDef *schedule = registry.findOp("learning_rate_schedule");
  if (!op || !schedule) return Status(StatusCode::kInternal, "OPC0901", "the update ops are not registered");
  TrainingConfig config;
  OptimizerGroup group;
  group.updateOp = optimizer->op;
  group.decayAttr = optimizer->decay;
  OPC_RETURN_IF_ERROR(readAttrs(*op, keys, "--optimizer", kGivenToUpdates, &group.attrs));
  OPC_RETURN_IF_ERROR(checkAttrs(*op, group.attrs, "--optimizer " + optimizer_));
  if (!rate_) return usageError("--optimizer needs a learning rate", "add --lr 0.001");
  group.learningRate = *rate_;
  if (weightDecay_ && group.attrs.count(group.decayAttr))
    return usageError(concat("--optimizer ", optimizer_, " and --weight-decay both give ", group.decayAttr),
                      "give one of them; --no-decay goes with --weight-decay");
  if (!noDecay_.empty() && !weightDecay_) return usageError("--no-decay needs --weight-decay", "add --weight-decay X");
  if (!schedule_.empty()) {
    const auto [type, rest] = splitSpec(schedule_);
    const std::vector<std::string> types = schedules(*schedule);
    if (std::find(types.begin(), types.end(), type) == types.end())
      return usageError("--schedule takes TYPE[:KEY=VALUE,...], and there is no type '" + type + "'",
                        didYouMean(type, types, "there are " + joined(types, ", ")));
    if (type != "constant") group.schedule["decay_type"] = AttrValue(type);
    OPC_RETURN_IF_ERROR(readAttrs(*schedule, rest, "--schedule", kGivenToSchedules, &group.schedule));
    auto attrs = group.schedule;
    attrs["learning_rate"] = AttrValue(group.learningRate);
    OPC_RETURN_IF_ERROR(checkAttrs(*schedule, std::move(attrs), "--schedule " + schedule_));
  }
  if (warmup_) {
    group.schedule["warmup_type"] = AttrValue(std::string("linear"));
    group.schedule["warmup_batches"] = AttrValue(warmup_->steps);
    group.schedule["warmup_multiplier"] = AttrValue(warmup_->factor);
  }
  group.weightDecay = weightDecay_.value_or(group.weightDecay);
  group.decayNever = noDecay_;
  group.clipNorm = clip_.value_or(group.clipNorm);
  config.lossScale = lossScale_.value_or(config.lossScale);
  config.accumulate = accumulate_.value_or(config.accumulate);
  config.groups.push_back(std::move(group));
  return std::optional<TrainingConfig>(std::move(config));
}

Status TrainingFlags::checkVariables(const Pipeline &pipeline) const {
  if (noDecay_.empty()) return Status::ok();
  std::vector<std::string> names;
  for (const GraphTensor &v : pipeline.facts().variables) names.push_back(v.name);
  for (const std::string &glob : noDecay_)
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string &name) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; }))
      return noSuchName("variable", glob, names, "--no-decay " + glob);
  return Status::ok();
}

Result<RecomputeConfig> TrainingFlags::recompute() const {
  if (recompute_.segments != 0 && !recompute_.ops.empty())
    return usageError("--recompute takes globs, or one sqrt or number; not both");
  if (!recompute_.empty() && memory_)
    return usageError("--recompute and --memory exclude each other", "--memory chooses what to recompute");
  return recompute_;
}

} // namespace opc::cli
