// Sessions whose products of f32 may be less exact, on GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc {

/// While it lives, sessions that its thread loads may round the factors of products of f32 (convolutions among them) to
/// TF32, of 11 significant bits, for the matrix units of GPUs from compute capability 8.0 on (docs/gpu.md); nothing
/// else changes. A plan whose device has no such units is refused (OPC0630). The innermost one counts; with `isAllowed`
/// false, and without any, such products are exact.
class AllowTf32 {
public:
  explicit AllowTf32(bool isAllowed = true);
  AllowTf32(const AllowTf32 &) = delete;
  AllowTf32 &operator=(const AllowTf32 &) = delete;
  ~AllowTf32();

private:
  bool before_;
};

} // namespace opc
