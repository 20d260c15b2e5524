// kExchange: who sends which piece to whom when a tensor goes from one split to another, perhaps on other devices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Boxing.h"

namespace opc {

/// The pieces of an exchange. The devices that hold the same piece are its holders. A wanter, a device that needs a
/// part of a piece and does not hold it, takes it from the nearest holders: on one placement those that agree with it
/// in the most leading mesh coordinates; on different placements all are equally near. Several are served in turn:
/// wanters in mesh order are spread over the holders in mesh order, so that each holder sends about as many elements.
class BoxingExchange {
public:
  /// `op` must outlive this.
  explicit BoxingExchange(const BoxingOp &op);
  std::vector<BoxingTransfer> sends(int64_t rank) const;
  std::vector<BoxingTransfer> receives(int64_t rank) const;

private:
  struct Delivery {
    int64_t wanter = 0, holder = 0; // positions in the target and in the source
    Box box;
  };
  std::vector<Delivery> deliveries(int64_t sourcePosition) const;

  const BoxingOp &op_;
  bool onePlacement_;
  std::vector<Box> wanted_; // by position in the target
};

} // namespace opc
