// oneDNN's engine, attributes and one-off reorders.
// SPDX-License-Identifier: Apache-2.0
#include "DnnlHandle.h"

namespace opc::cpu {

const dnnl::engine &dnnlEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr dnnlAttributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

void dnnlReorder(const dnnl::memory::desc &from, const void *data, const dnnl::memory::desc &to, void *into) {
  dnnl::reorder::primitive_desc pd(dnnlEngine(), from, dnnlEngine(), to, dnnlAttributes());
  DnnlExecution reorder(pd, dnnl::reorder(pd));
  reorder.bind(DNNL_ARG_FROM, from, data);
  reorder.bind(DNNL_ARG_TO, to, into);
  reorder.execute();
}

Scratch<char> dnnlReordered(const dnnl::memory::desc &from, const void *data, const dnnl::memory::desc &to) {
  Scratch<char> result(static_cast<int64_t>(to.get_size()));
  dnnlReorder(from, data, to, result.get());
  return result;
}

} // namespace opc::cpu
