// ld, st, and copies from global to shared memory that land later.
// SPDX-License-Identifier: Apache-2.0
#include "Access.h"
#include "Decoder.h"

#include <algorithm>

namespace opc::gpusim {

namespace {

enum : uint8_t { kStrong = 1, kSigned = 2 };
constexpr uint8_t kOfFrame = 0x80; // Code::detail: the address is relative to the frame

uint64_t addressOf(const Lanes &x, const Code &c, const uint64_t *base, int lane) {
  uint64_t at = base[lane] + uint64_t(c.value);
  if (c.detail & kOfFrame) at += x.frame->localBase;
  return c.space == Space::kShared || c.space == Space::kLocal ? uint32_t(at) : at;
}

/// Addresses of lanes by what they turned out to be in, for the counters.
struct Requests {
  uint64_t global[32], shared[32];
  uint32_t globals = 0, shareds = 0;
  void add(Space space, uint64_t address) {
    if (space == Space::kGlobal)
      global[globals++] = address;
    else if (space == Space::kShared)
      shared[shareds++] = address;
  }
  void count(LineCount &count, uint32_t size, bool write) const {
    countGlobal(count, global, globals, size, write);
    countShared(count, shared, shareds, size);
  }
};

uint64_t loadElement(const std::byte *from, const Code &c) {
  uint64_t v = 0;
  switch (c.size) {
  case 1: std::memcpy(&v, from, 1); break;
  case 2: std::memcpy(&v, from, 2); break;
  case 4: std::memcpy(&v, from, 4); break;
  default: std::memcpy(&v, from, 8);
  }
  if (!(c.flags & kSigned) || c.size == 8) return v;
  int shift = 64 - c.size * 8;
  return uint64_t(int64_t(v << shift) >> shift);
}

Step load(Lanes &x, const Code &c) {
  const uint64_t *base = x.source(c.a);
  uint32_t bytes = uint32_t(c.size) * c.vector;
  Requests requests;
  uint64_t results[8][32];
  int last = -1, alike = 0;
  Want want;
  for (uint32_t m = x.active; m; m &= m - 1) {
    int lane = std::countr_zero(m);
    uint64_t address = addressOf(x, c, base, lane);
    // Where many lanes read one place, two of them are readers enough.
    alike = last >= 0 && address == addressOf(x, c, base, last) && want.space != Space::kLocal ? alike + 1 : 0;
    if (alike > 1) {
      for (uint32_t i = 0; i < c.vector; ++i) results[i][lane] = results[i][last];
      if (c.space != Space::kConst) requests.add(want.space, want.address);
      continue;
    }
    last = lane;
    want = Want{};
    want.space = c.space == Space::kConst ? Space::kGlobal : c.space;
    want.address = address, want.size = bytes, want.strong = c.flags & kStrong;
    const std::byte *from = reach(x, lane, want);
    if (!from) return Step::kReselect;
    if (c.space != Space::kConst) requests.add(want.space, want.address);
    for (uint32_t i = 0; i < c.vector; ++i) results[i][lane] = loadElement(from + i * c.size, c);
  }
  for (uint32_t i = 0; i < c.vector; ++i) {
    uint64_t *d = x.destination(x.program->slots[c.list + i]);
    each(x.active, [&](int lane) { d[lane] = results[i][lane]; });
  }
  requests.count(x.count(), bytes, false);
  return Step::kNext;
}

Step store(Lanes &x, const Code &c) {
  const uint64_t *base = x.source(c.a);
  uint32_t bytes = uint32_t(c.size) * c.vector;
  Requests requests;
  const uint64_t *values[8];
  for (uint32_t i = 0; i < c.vector; ++i) values[i] = x.source(x.program->slots[c.list + i]);
  for (uint32_t m = x.active; m; m &= m - 1) {
    int lane = std::countr_zero(m);
    std::byte element[64];
    for (uint32_t i = 0; i < c.vector; ++i) std::memcpy(element + i * c.size, &values[i][lane], c.size);
    Want want;
    want.space = c.space, want.use = Use::kWrite;
    want.address = addressOf(x, c, base, lane), want.size = bytes, want.strong = c.flags & kStrong,
    want.value = element;
    std::byte *to = reach(x, lane, want);
    if (!to) return Step::kReselect;
    requests.add(want.space, want.address);
    std::memcpy(to, element, bytes);
  }
  requests.count(x.count(), bytes, true);
  return Step::kNext;
}

/// Parameters of a kernel, the same for all lanes.
Step loadParameter(Lanes &x, const Code &c) {
  Want want;
  want.space = Space::kParam, want.address = uint64_t(c.value), want.size = uint32_t(c.size) * c.vector;
  const std::byte *from = reach(x, std::countr_zero(x.active), want);
  if (!from) return Step::kReselect;
  for (uint32_t i = 0; i < c.vector; ++i) {
    uint64_t v = loadElement(from + i * c.size, c);
    uint64_t *d = x.destination(x.program->slots[c.list + i]);
    each(x.active, [&](int lane) { d[lane] = v; });
  }
  return Step::kNext;
}

void shape(Decoder &d, Code &c, uint32_t address, uint32_t values, bool isLoad) {
  Type t = d.type();
  c.size = uint8_t(sizeOf(t));
  if (c.size == 0 || c.size > 8) d.unsupported("elements of this size");
  c.flags = uint8_t((d.has("volatile") || d.has("relaxed") || d.has("acquire") || d.has("release") ? kStrong : 0) |
                    (t == Type::kS8 || t == Type::kS16 || t == Type::kS32 ? kSigned : 0));
  Space space = spaceOf(d);
  d.address(address, c, space);
  if (c.space == Space::kParam && d.operand(address).symbol < 0 && !d.function().kernel) c.space = Space::kLocal;
  d.list(values, c, t, isLoad);
  c.vector = uint8_t(c.listed);
  bool power = c.vector == 1 || c.vector == 2 || c.vector == 4 || c.vector == 8;
  if (!power || uint32_t(c.vector) * c.size > 32) d.unsupported("a vector of this length");
}

Handler ld(Decoder &d, Code &c) {
  shape(d, c, 1, 0, true);
  return c.space == Space::kParam && d.operand(1).slot < 0 ? loadParameter : load;
}
Handler st(Decoder &d, Code &c) {
  shape(d, c, 0, 1, false);
  if (c.space == Space::kConst) d.unsupported("constant memory is not written");
  return store;
}

// --- cp.async
// ---------------------------------------------------------------------------------------------------------

/// c.a and c.value: where to, in shared memory; list: source's slot, offset in target; d: bytes of the source, if
/// given.
Step copyAsync(Lanes &x, const Code &c) {
  const uint64_t *to = x.source(c.a), *from = x.source(c.b);
  const uint64_t *valid = c.d == Code::kNoSlot ? nullptr : x.source(c.d);
  uint32_t ignored = c.pa < 0 ? 0 : c.paNegated ? ~x.predicate(c.pa) : x.predicate(c.pa);
  Requests read, written;
  for (uint32_t m = x.active; m; m &= m - 1) {
    int lane = std::countr_zero(m);
    PendingCopy copy{};
    copy.lane = uint8_t(lane), copy.size = c.size, copy.group = x.warp.copyGroup[lane];
    uint32_t take = ignored >> lane & 1 ? 0
                    : valid             ? uint32_t(std::min<uint64_t>(uint32_t(valid[lane]), c.size))
                                        : c.size;
    // A whole source is one access; a shorter one is read in powers of two.
    for (uint32_t at = 0; at < take;) {
      uint32_t size = take - at >= 16 ? 16 : std::bit_floor(take - at);
      Want want;
      want.space = Space::kGlobal, want.address = from[lane] + uint64_t(int64_t(int32_t(c.list))) + at,
      want.size = size;
      const std::byte *source = reach(x, lane, want);
      if (!source) return Step::kReselect;
      std::memcpy(copy.bytes + at, source, size);
      if (at == 0) read.add(Space::kGlobal, want.address);
      at += size;
    }
    Want want;
    want.space = Space::kShared, want.use = Use::kWrite, want.size = c.size;
    want.address = uint32_t(to[lane] + uint64_t(c.value));
    if (!reach(x, lane, want)) return Step::kReselect; // a write from now on
    written.add(Space::kShared, want.address);
    copy.offset = uint32_t(want.address);
    markShared(x, copy.offset, c.size, 2);
    x.warp.copies.push_back(copy);
  }
  read.count(x.count(), c.size, false);
  written.count(x.count(), c.size, true);
  return Step::kNext;
}
Step commitCopies(Lanes &x, const Code &) {
  each(x.active, [&](int lane) { ++x.warp.copyGroup[lane]; });
  return Step::kNext;
}
/// c.value: so many of the youngest groups may go on. -1: not even the open one.
Step waitCopies(Lanes &x, const Code &c) {
  auto &copies = x.warp.copies;
  auto lands = [&](const PendingCopy &p) {
    if (!(x.active >> p.lane & 1)) return false;
    if (c.value < 0) return true;
    return int64_t(p.group) + c.value < int64_t(x.warp.copyGroup[p.lane]);
  };
  for (const PendingCopy &p : copies) {
    if (!lands(p)) continue;
    std::memcpy(x.block.shared.data() + p.offset, p.bytes, p.size);
    markShared(x, p.offset, p.size, 1);
    stampShared(x, p.lane, p.offset, p.size);
  }
  std::erase_if(copies, lands);
  return Step::kNext;
}

Handler cp(Decoder &d, Code &c) {
  if (!d.has("async") || d.has("bulk") || d.hasPrefix("mbarrier") || d.has("reduce"))
    d.unsupported("only cp.async without mbarrier or bulk is known");
  if (d.has("commit_group")) return commitCopies;
  if (d.has("wait_all")) return c.value = -1, waitCopies;
  if (d.has("wait_group")) return c.value = d.immediate(0), waitCopies;
  d.address(1, c, Space::kGlobal);
  c.b = c.a, c.list = uint32_t(c.value);
  d.address(0, c, Space::kShared);
  int64_t size = d.immediate(2);
  if (size != 4 && size != 8 && size != 16) d.unsupported("copies of this size");
  c.size = uint8_t(size);
  for (uint32_t n = 3; n < d.operands(); ++n) {
    if (d.operand(n).kind == Operand::kPredicate)
      d.predicateSource(n, c);
    else if (n == 3)
      c.d = d.source(3, Type::kU32);
  }
  return copyAsync;
}

} // namespace

void addAccesses(DecodeTable &t) {
  t["ld"] = t["ldu"] = ld;
  t["st"] = st;
  t["cp"] = cp;
}

} // namespace opc::gpusim
