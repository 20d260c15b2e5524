// Kernels given as text, run on a small device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Machine.h"

#include <catch2/catch.hpp>
#include <cstring>

namespace opc::gpusim::test {

inline const std::string kHead = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// A device with one module.
struct Device {
  Memory memory{uint64_t(1) << 28};
  std::shared_ptr<const Module> module;
  std::unique_ptr<LoadedModule> loaded;
  std::vector<char> params;
  Launch launch;

  explicit Device(const std::string &ptx) {
    std::string error;
    module = Module::parse(ptx, &error);
    INFO(error);
    REQUIRE(module);
    loaded = LoadedModule::load(module, memory, &error);
    INFO(error);
    REQUIRE(loaded);
    launch.module = loaded.get();
    launch.kernel = module->kernels().front().name;
  }
  template <class T> uint64_t buffer(const std::vector<T> &values) {
    uint64_t at = memory.allocate(values.size() * sizeof(T));
    REQUIRE(at);
    memory.write(at, values.data(), values.size() * sizeof(T));
    return at;
  }
  template <class T> std::vector<T> read(uint64_t address, size_t count) {
    std::vector<T> values(count);
    REQUIRE(memory.read(values.data(), address, count * sizeof(T)));
    return values;
  }
  template <class T> Device &arg(T value) {
    size_t at = (params.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    params.resize(at + sizeof(T));
    std::memcpy(params.data() + at, &value, sizeof(T));
    return *this;
  }
  Outcome run(Dim3 grid, Dim3 block, uint64_t seed = 0) {
    launch.grid = grid, launch.block = block, launch.seed = seed, launch.params = params.data();
    return gpusim::run(memory, launch);
  }
};

inline std::string texts(const Outcome &o) {
  std::string all;
  for (const Finding &f : o.findings) all += f.text() + "\n";
  return all;
}

} // namespace opc::gpusim::test
