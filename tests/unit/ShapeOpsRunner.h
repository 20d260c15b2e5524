// Runs one built-in op for the tests of the shape, index, reduce, source and type operators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"
#include "Parallel.h"

#include <catch2/catch.hpp>
#include <cstring>

namespace opc::shapetest {

/// A tensor by type, shape and bytes.
struct Value {
  user_op::TensorDesc desc;
  std::vector<char> bytes;
  template <class T> std::vector<T> as() const {
    REQUIRE(desc.data_type() == GetDataType<T>::value);
    std::vector<T> v(bytes.size() / sizeof(T));
    if constexpr (std::is_same_v<T, bool>)
      for (size_t i = 0; i < v.size(); ++i) v[i] = bytes[i] != 0;
    else if (!v.empty())
      std::memcpy(v.data(), bytes.data(), bytes.size());
    return v;
  }
  const Shape &shape() const { return desc.shape(); }
};

template <class T> Value value(Shape shape, const std::vector<T> &v) {
  REQUIRE(static_cast<int64_t>(v.size()) == shape.elem_cnt());
  Value out{user_op::TensorDesc(std::move(shape), GetDataType<T>::value), std::vector<char>(v.size() * sizeof(T))};
  for (size_t i = 0; i < v.size(); ++i) {
    const T x = v[i];
    std::memcpy(out.bytes.data() + i * sizeof(T), &x, sizeof(T));
  }
  return out;
}
/// 0, 1, 2, ... of a type.
template <class T> Value iota(Shape shape) {
  std::vector<T> v(static_cast<size_t>(shape.elem_cnt()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(i);
  return value<T>(shape, v);
}
/// Pseudo-random f32 in [-1, 1), the same everywhere.
inline std::vector<float> noise(int64_t n, uint32_t seed = 1) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float &x : v) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<float>(seed >> 8) / 8388608.0f - 1;
  }
  return v;
}

/// An op, its inputs (an argument that occurs n times has n tensors) and attributes.
struct Call {
  std::string op;
  std::vector<std::pair<std::string, Value>> inputs;
  std::map<std::string, AttrValue> attrs;
  std::vector<std::pair<std::string, int>> outputs; // variadic outputs: argument and count
};

inline const Registry &registry() {
  static const Registry r = [] {
    Registry made;
    const Status s = made.addLinked();
    INFO(s.toString());
    REQUIRE(s.isOk());
    return made;
  }();
  return r;
}

/// Runs `runs` times on `threads` threads; the outputs of the last run.
inline Status runOnce(const Call &call, int threads, std::vector<Value> *outputs, int runs = 1) {
  const user_op::OpDef *def = registry().findOp(call.op);
  REQUIRE(def);
  user_op::OpConf conf;
  conf.name = "t";
  conf.type = call.op;
  for (const auto &[arg, tensor] : call.inputs) {
    user_op::ArgBinding *binding = nullptr;
    for (auto &b : conf.inputs)
      if (b.name == arg) binding = &b;
    if (!binding) binding = &conf.inputs.emplace_back(user_op::ArgBinding{arg, {}});
    binding->tensors.push_back(arg + std::to_string(binding->tensors.size()));
  }
  for (const auto &[arg, count] : call.outputs) {
    user_op::ArgBinding b{arg, {}};
    for (int i = 0; i < count; ++i) b.tensors.push_back("t/" + arg + "_" + std::to_string(i));
    conf.outputs.push_back(std::move(b));
  }
  conf.attrs = call.attrs;
  OPC_RETURN_IF_ERROR(completeOpConf(*def, &conf));
  OpInstance op(*def, conf);
  std::vector<std::vector<char>> storage;
  std::map<std::string, int> seen;
  for (size_t i = 0; i < op.inputArgs().size(); ++i) {
    const auto &[arg, index] = op.inputArgs()[i];
    int at = 0;
    for (const auto &[name, tensor] : call.inputs)
      if (def->findInput(name) && def->findInput(name)->name == arg && at++ == index) {
        op.inputDescs()[i] = tensor.desc;
        storage.push_back(tensor.bytes);
      }
  }
  OPC_RETURN_IF_ERROR(op.infer());
  for (const auto &d : op.outputDescs()) storage.emplace_back(static_cast<size_t>(*tensorBytes(d)), char(0x5a));
  std::vector<void *> data;
  for (auto &s : storage) data.push_back(s.data());
  auto kernel = op.selectKernel(registry(), DeviceType::kCPU);
  if (!kernel) return kernel.status();
  const auto tmp = op.tmpSize(**kernel);
  if (!tmp) return tmp.status();
  std::vector<double> workspace(static_cast<size_t>(*tmp) / sizeof(double) + 1);
  DeviceCtx ctx(DeviceType::kCPU, threads, cpu::parallelFor);
  auto task = KernelTask::create(op, **kernel, &ctx, data, std::vector<bool>(op.inputDescs().size(), false),
                                 workspace.data(), *tmp);
  if (!task) return task.status();
  for (int i = 0; i < runs; ++i) OPC_RETURN_IF_ERROR((*task)->run(&ctx));
  outputs->clear();
  for (size_t i = 0; i < op.outputDescs().size(); ++i)
    outputs->push_back({op.outputDescs()[i], storage[op.inputDescs().size() + i]});
  return Status::ok();
}

/// Runs on 1, 2 and 5 threads, requires success and the same bytes each time.
inline std::vector<Value> run(const Call &call) {
  std::vector<Value> first;
  for (int threads : {1, 2, 5}) {
    std::vector<Value> outputs;
    const Status s = runOnce(call, threads, &outputs);
    INFO(call.op << " on " << threads << " threads: " << s.toString());
    REQUIRE(s.isOk());
    if (threads == 1) {
      first = std::move(outputs);
      continue;
    }
    for (size_t i = 0; i < first.size(); ++i) {
      const bool equalBytes = outputs[i].bytes == first[i].bytes;
      REQUIRE(equalBytes);
    }
  }
  return first;
}
template <class T> std::vector<T> runAs(const Call &call) { return run(call)[0].as<T>(); }
/// Requires an error; its text.
inline std::string failure(const Call &call) {
  std::vector<Value> outputs;
  const Status s = runOnce(call, 1, &outputs);
  REQUIRE_FALSE(s.isOk());
  return s.toString();
}

} // namespace opc::shapetest
