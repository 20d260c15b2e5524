// TensorSpec: how a tensor is given on the command line (docs/cli.md, "Tensors on the command line").
//
//   SPEC  = "@" FILE [":" KEY]                         a tensor file
//         | [TYPE "[" DIMS "]" ":"] VALUE
//   VALUE = "@" FILE                                   raw little-endian elements (needs TYPE)
//         | NUMBER {"," NUMBER}                        one number fills the tensor
//         | "zeros" | "ones" | "iota" | "rand" ["(" LO "," HI ")"] | "randn" ["(" MEAN "," STDDEV ")"]
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Session.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

struct TensorSpec {
  enum class Kind { kFile, kRaw, kNumbers, kZeros, kOnes, kIota, kUniform, kNormal };
  Kind kind = Kind::kNumbers;
  std::string path;                    // kFile: PATH[:KEY]; kRaw: PATH
  std::vector<std::string> numbers;    // as written: an i64 does not fit a double
  std::optional<double> first, second; // LO and HI, MEAN and STDDEV
  std::optional<user_op::TensorDesc> desc;
};

/// Parses SPEC without touching any file. Errors: OPC0003.
Result<TensorSpec> parseTensorSpec(const std::string &text);

/// "NAME=SPEC" at the first '='. Errors: OPC0003. `flag` is named in them.
Result<std::pair<std::string, std::string>> splitNamed(const std::string &text, const std::string &flag);

/// "32,784" as dimensions; each at least `least`. Errors: OPC0003.
Result<Shape> parseDims(const std::string &text, int64_t least = 0);

struct SpecContext {
  std::string name;                            // of the tensor: the stream of generated numbers, and for errors
  std::optional<user_op::TensorDesc> expected; // what the graph wants, when it says so
  uint64_t seed = 0;
  bool cast = false; // convert the dtype where it differs from the expected one
};

/// The tensor that a spec describes. The result's dtype and shape are the spec's own where it has them, else the
/// expected ones; checkTensor() is the caller's. `file` is that of the spec, when it is open already. Errors: OPC0003,
/// and those of reading files.
Result<HostTensor> makeTensor(const TensorSpec &spec, const SpecContext &context, const TensorFile *file = nullptr);

/// The tensor in another element type: floats round to nearest, integers from floats truncate; values that do not fit
/// the new type are an error (OPC0703).
Result<HostTensor> castTensor(const HostTensor &tensor, DataType type);

/// The same for a part of a tensor: `count` elements, the first of which is element `first`. Errors: OPC0703.
Status castElements(DataType from, const void *elements, int64_t first, int64_t count, DataType to, void *out);

/// Element `index` as a double (64-bit integers may round).
double elementAt(const HostTensor &tensor, int64_t index);
/// Element `index` as text that reads back as the same value.
std::string elementText(const HostTensor &tensor, int64_t index);

} // namespace opc::cli
