// Every sample case of every built-in op, in every element type it names: it runs, and the outputs have the same bytes
// on 1, 2 and 5 threads.
// SPDX-License-Identifier: Apache-2.0
#include "OpCall.h"
#include "opc/Convert.h"
#include "opc/Dispatch.h"

#include <catch2/catch.hpp>

using namespace opc;
using namespace opc::test;

namespace {

template <class T> TestTensor drawn(const Shape &shape, double lo, double hi, uint32_t seed) {
  std::vector<T> v;
  for (float u : noise(shape.elem_cnt(), seed)) {
    const double x = lo + (hi - lo) * (static_cast<double>(u) + 1) / 2;
    if constexpr (isShortFloat<T>)
      v.push_back(T(static_cast<float>(x)));
    else if constexpr (isNarrowInteger<T>)
      v.push_back(convertElement<T>(x));
    else if constexpr (std::is_same_v<T, bool>)
      v.push_back(u > 0);
    else if constexpr (std::is_integral_v<T>)
      v.push_back(static_cast<T>(std::max(x, std::is_unsigned_v<T> ? 0.0 : lo)));
    else
      v.push_back(static_cast<T>(x));
  }
  return tensorOf<T>(shape, v);
}
TestTensor draw(DataType type, const Shape &shape, double lo, double hi, uint32_t seed) {
  return visit(type, [&](auto tag) { return drawn<typename decltype(tag)::type>(shape, lo, hi, seed); });
}

} // namespace

TEST_CASE("sample cases run, alike on any number of threads", "[cases]") {
  size_t instances = 0;
  for (const user_op::OpDef *op : registry().ops())
    for (const user_op::Case &c : op->cases) {
      std::vector<DataType> types = c.types();
      if (types.empty()) types = {kFloat, kDouble, kFloat16};
      for (DataType type : types) {
        OpCall call{op->name, {}, c.attrs(), {}};
        uint32_t seed = 1;
        bool varies = false;
        for (const user_op::CaseInput &in : c.inputs()) {
          varies |= in.type == kInvalidDataType;
          call.inputs.push_back(
              {in.arg, draw(in.type == kInvalidDataType ? type : in.type, in.shape, in.lo, in.hi, seed += 7)});
        }
        call.outputs = c.outputs();
        const Status first = tryOp(call).status();
        // The op does not take the guessed type, or has no kernel for it.
        if ((first.id() == "OPC0411" || first.id() == "OPC0204") && c.types().empty()) continue;
        INFO(op->name << " " << c.name() << " " << dataTypeName(type) << ": " << first.toString());
        REQUIRE(first.isOk());
        run(call);
        ++instances;
        if (!varies) break;
      }
    }
  CHECK(instances > 200);
}
