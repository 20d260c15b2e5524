// oneDNN's engine, and one prepared execution of a primitive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/StagedKernel.h"

#include <dnnl.hpp>
#include <exception>
#include <mutex>
#include <unordered_map>

namespace opc::cpu {

using user_op::Scratch;

/// The CPU engine, shared by all primitives of the process.
const dnnl::engine &dnnlEngine();

/// Attributes that make a primitive take its scratchpad as an argument: the library's own is one per creating thread.
dnnl::primitive_attr dnnlAttributes();

/// A primitive with its arguments. Several may execute at once on several threads; one may not.
class DnnlExecution {
public:
  DnnlExecution() = default;
  /// The scratchpad is allocated here, when `pd` asks for one.
  template <class PrimitiveDesc, class Primitive>
  DnnlExecution(const PrimitiveDesc &pd, const Primitive &primitive) : primitive_(primitive), stream_(dnnlEngine()) {
    const dnnl::memory::desc scratch = pd.scratchpad_desc();
    if (scratch.get_size() == 0) return;
    scratchpad_ = Scratch<char>(static_cast<int64_t>(scratch.get_size()));
    bind(DNNL_ARG_SCRATCHPAD, scratch, scratchpad_.get());
  }
  void bind(int arg, const dnnl::memory::desc &desc, const void *data) {
    args_.insert_or_assign(arg, dnnl::memory(desc, dnnlEngine(), const_cast<void *>(data)));
  }
  /// Moves a bound argument to another address.
  void rebind(int arg, const void *data) { args_.at(arg).set_data_handle(const_cast<void *>(data)); }
  void execute() {
    primitive_.execute(stream_, args_);
    stream_.wait();
  }

private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::unordered_map<int, dnnl::memory> args_;
  Scratch<char> scratchpad_;
};

/// Copies `data` from one layout to another, at once.
void dnnlReorder(const dnnl::memory::desc &from, const void *data, const dnnl::memory::desc &to, void *into);
/// The same into memory of its own.
Scratch<char> dnnlReordered(const dnnl::memory::desc &from, const void *data, const dnnl::memory::desc &to);

/// The first exception of a parallel loop: bodies may not throw, so they run through guard().
class FirstException {
public:
  template <class F> void guard(F &&f) {
    try {
      f();
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!first_) first_ = std::current_exception();
    }
  }
  void rethrow() {
    if (first_) std::rethrow_exception(first_);
  }

private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

} // namespace opc::cpu
