// First values of variables.
// SPDX-License-Identifier: Apache-2.0
#include "Initializers.h"

#include "opc/PackedElements.h"

#include <cmath>

namespace opc {
namespace {

Status unfit(const HostTensor &t, const std::string &why, const std::string &help = "") {
  return Status(StatusCode::kInvalidGraph, "OPC0615",
                "an initializer does not fit a variable of type " + t.desc().toString() + ": " + why)
      .withHelp(help);
}

Result<double> fan(graph::VarianceNorm norm, const std::string &format, const HostTensor &t) {
  const Shape &s = t.shape();
  if (s.NumAxes() < 2)
    return unfit(t, "fan-in and fan-out need at least two dimensions", "use random_normal_conf or constant_conf");
  double in = static_cast<double>(s.Count(1)), out = static_cast<double>(s.At(0));
  if (format == "channels_first")
    out *= static_cast<double>(s.Count(2));
  else if (format == "channels_last")
    out *= static_cast<double>(s.Count(1, s.NumAxes() - 1));
  else if (!format.empty())
    return unfit(t, "data_format '" + format + "'", "channels_first and channels_last exist");
  else if (s.NumAxes() != 2)
    return unfit(t, "without data_format it must be a matrix", "set data_format to channels_first or channels_last");
  return norm == graph::kAverage ? (in + out) / 2 : norm == graph::kFanOut ? out : in;
}

/// t[..., j, ...] = start + j * stride along `axis`.
template <class V> Status fillRange(HostTensor *t, V start, V stride, int64_t axis) {
  const int64_t rank = t->shape().NumAxes();
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return unfit(*t, "axis " + std::to_string(axis) + " of a range");
  OPC_ASSIGN_OR_RETURN(HostTensor line, HostTensor::create(t->dtype(), {1}));
  const int64_t outer = t->shape().Count(0, axis), extent = t->shape().At(axis), inner = t->shape().Count(axis + 1);
  const size_t size = GetSizeOfDataType(t->dtype());
  char *p = t->as<char>();
  for (int64_t j = 0; j < extent; ++j) {
    if constexpr (std::is_integral_v<V>) {
      const V v =
          static_cast<V>(static_cast<uint64_t>(start) + static_cast<uint64_t>(j) * static_cast<uint64_t>(stride));
      if (t->dtype() == kInt64 || t->dtype() == kUInt64)
        *line.as<int64_t>() = v; // a double would round it
      else
        fillConstant(&line, static_cast<double>(v));
    } else {
      fillConstant(&line, start + static_cast<double>(j) * stride);
    }
    for (int64_t i = 0; i < outer; ++i)
      for (int64_t k = 0; k < inner; ++k)
        std::memcpy(p + static_cast<size_t>((i * extent + j) * inner + k) * size, line.data(), size);
  }
  return Status::ok();
}

} // namespace

Status initializeTensor(const graph::InitializerConf &conf, HostTensor *t, FillKey key) {
  using Conf = graph::InitializerConf;
  const bool floating = holdsFractions(t->dtype());
  auto needsFloat = [&](const char *name) {
    return floating ? Status::ok()
                    : unfit(*t, std::string(name) + " draws real numbers", "use random_uniform_int_conf");
  };
  if (t->elemCount() == 0) return Status::ok();
  switch (conf.type_case()) {
  case Conf::kConstantConf: fillConstant(t, conf.constant_conf().value()); return Status::ok();
  case Conf::kConstantIntConf: {
    const int64_t v = conf.constant_int_conf().value();
    if (t->dtype() == kInt64 || t->dtype() == kUInt64)
      for (int64_t i = 0; i < t->elemCount(); ++i) t->as<int64_t>()[i] = v;
    else
      fillConstant(t, static_cast<double>(v));
    return Status::ok();
  }
  case Conf::kRandomUniformConf:
    OPC_RETURN_IF_ERROR(needsFloat("random_uniform"));
    if (conf.random_uniform_conf().min() > conf.random_uniform_conf().max())
      return unfit(*t, "min is greater than max");
    fillUniform(t, conf.random_uniform_conf().min(), conf.random_uniform_conf().max(), key);
    return Status::ok();
  case Conf::kRandomUniformIntConf:
    if (floating) return unfit(*t, "random_uniform_int draws integers", "use random_uniform_conf");
    if (conf.random_uniform_int_conf().min() > conf.random_uniform_int_conf().max())
      return unfit(*t, "min is greater than max");
    fillUniform(t, conf.random_uniform_int_conf().min(), conf.random_uniform_int_conf().max(), key);
    return Status::ok();
  case Conf::kRandomNormalConf:
    OPC_RETURN_IF_ERROR(needsFloat("random_normal"));
    fillNormal(t, conf.random_normal_conf().mean(), conf.random_normal_conf().std(), key);
    return Status::ok();
  case Conf::kTruncatedNormalConf:
    OPC_RETURN_IF_ERROR(needsFloat("truncated_normal"));
    fillTruncatedNormal(t, conf.truncated_normal_conf().mean(), conf.truncated_normal_conf().std(), key);
    return Status::ok();
  case Conf::kXavierConf: {
    OPC_RETURN_IF_ERROR(needsFloat("xavier"));
    OPC_ASSIGN_OR_RETURN(const double f, fan(conf.xavier_conf().variance_norm(), conf.xavier_conf().data_format(), *t));
    const double limit = std::sqrt(3.0 / f);
    fillUniform(t, -limit, limit, key);
    return Status::ok();
  }
  case Conf::kMsraConf: {
    OPC_RETURN_IF_ERROR(needsFloat("msra"));
    OPC_ASSIGN_OR_RETURN(const double f, fan(conf.msra_conf().variance_norm(), conf.msra_conf().data_format(), *t));
    fillNormal(t, 0, std::sqrt(2.0 / f), key);
    return Status::ok();
  }
  case Conf::kVarianceScalingConf: {
    OPC_RETURN_IF_ERROR(needsFloat("variance_scaling"));
    const auto &c = conf.variance_scaling_conf();
    OPC_ASSIGN_OR_RETURN(const double f, fan(c.variance_norm(), c.data_format(), *t));
    const double scale = static_cast<double>(c.scale()) / f;
    if (scale < 0) return unfit(*t, "scale is negative");
    if (c.distribution() == graph::kTruncatedNormal) // 0.8796...: the deviation of a normal cut at 2
      fillTruncatedNormal(t, 0, std::sqrt(scale) / 0.87962566103423978, key);
    else if (c.distribution() == graph::kRandomNormal)
      fillNormal(t, 0, std::sqrt(scale), key);
    else
      fillUniform(t, -std::sqrt(3 * scale), std::sqrt(3 * scale), key);
    return Status::ok();
  }
  case Conf::kRangeConf:
    return fillRange<double>(t, conf.range_conf().start(), conf.range_conf().stride(), conf.range_conf().axis());
  case Conf::kIntRangeConf:
    return fillRange<int64_t>(t, conf.int_range_conf().start(), conf.int_range_conf().stride(),
                              conf.int_range_conf().axis());
  case Conf::kEmptyConf: return Status::ok(); // tensors begin as zeros
  case Conf::TYPE_NOT_SET: break;
  }
  return unfit(*t, "it says nothing");
}

} // namespace opc
