// Matrix instructions: mma.sync with its documented fragments, ldmatrix, and wmma with fragments of our own.
// SPDX-License-Identifier: Apache-2.0
#include "Access.h"
#include "Decoder.h"
#include "Scheduler.h"
#include "SmallFloats.h"

#include <algorithm>
#include <cstdio>

namespace opc::gpusim {

namespace {

enum class Element : uint8_t { kHalf, kBfloat, kTfloat, kS8, kU8, kS32, kF32, kF64 };

uint32_t bytesOf(Element e) {
  switch (e) {
  case Element::kHalf:
  case Element::kBfloat: return 2;
  case Element::kS8:
  case Element::kU8: return 1;
  case Element::kF64: return 8;
  default: return 4;
  }
}
Element elementOf(const Decoder &d, Type t) {
  switch (t) {
  case Type::kF16: return Element::kHalf;
  case Type::kBf16: return Element::kBfloat;
  case Type::kTf32: return Element::kTfloat;
  case Type::kS8: return Element::kS8;
  case Type::kU8: return Element::kU8;
  case Type::kS32: return Element::kS32;
  case Type::kF32: return Element::kF32;
  case Type::kF64: return Element::kF64;
  default: d.unsupported("matrices of this type");
  }
}
/// Exact for all types but f64, whose own bits these are.
double valueOf(Element e, uint64_t bits) {
  switch (e) {
  case Element::kHalf: return halfToFloat(uint16_t(bits));
  case Element::kBfloat: return bfloatToFloat(uint16_t(bits));
  case Element::kTfloat: return get<float>(bits & 0xffffe000); // hardware ignores the other bits
  case Element::kS8: return int8_t(bits);
  case Element::kU8: return uint8_t(bits);
  case Element::kS32: return int32_t(uint32_t(bits));
  case Element::kF32: return get<float>(bits);
  default: return get<double>(bits);
  }
}
uint64_t bitsOf(Element e, double v) {
  switch (e) {
  case Element::kHalf: return floatToHalf(float(v));
  case Element::kBfloat: return floatToBfloat(float(v));
  case Element::kS32: return uint32_t(int64_t(v));
  case Element::kF64: return put<double>(v);
  default: return put<float>(float(v));
  }
}

/// A product of at most 32 x 32 x 32.
struct Product {
  double a[32][32], b[32][32], c[32][32]; // a[m][k], b[k][n]
};

/// Floats are summed as floats, in the order of k; the order within hardware is not documented.
void multiply(Product &p, uint32_t m, uint32_t n, uint32_t k, Element a, Element d) {
  bool single = d == Element::kF32 || d == Element::kHalf;
  for (uint32_t i = 0; i < m; ++i) {
    if (single) {
      float row[32];
      for (uint32_t j = 0; j < n; ++j) row[j] = float(p.c[i][j]);
      for (uint32_t l = 0; l < k; ++l) {
        float f = float(p.a[i][l]);
        for (uint32_t j = 0; j < n; ++j) row[j] = __builtin_fmaf(f, float(p.b[l][j]), row[j]);
      }
      for (uint32_t j = 0; j < n; ++j) p.c[i][j] = row[j];
      continue;
    }
    for (uint32_t l = 0; l < k; ++l)
      for (uint32_t j = 0; j < n; ++j) p.c[i][j] = __builtin_fma(p.a[i][l], p.b[l][j], p.c[i][j]);
  }
}

// --- mma.sync: register r of a fragment of A holds, from column 4 * per * (r / 2) on, row lane / 4 (+ 8 for odd r)
// ------

/// size: m, vector: n, value: k, detail: element of a, flags: element of b | element of d << 4, list: d, a, b, c.
struct MmaShape {
  uint32_t m, n, k;
  Element a, b, d;
  uint32_t registersA() const { return m * k * bytesOf(a) / 128 / (bytesOf(a) == 8 ? 2 : 1); }
  uint32_t registersB() const { return k * n * bytesOf(b) / 128 / (bytesOf(b) == 8 ? 2 : 1); }
  uint32_t registersC() const { return m * n * bytesOf(d) / 128 / (bytesOf(d) == 8 ? 2 : 1); }
};
MmaShape shapeOf(const Code &c) {
  return {c.size, c.vector, uint32_t(c.value), Element(c.detail), Element(c.flags & 15), Element(c.flags >> 4)};
}

Step mma(Lanes &x, const Code &c) {
  if (x.warp.live != ~0u) {
    x.find(std::countr_zero(x.active), "mask", kCudaLaunchFailed, "mma needs all 32 lanes of the warp");
    return Step::kReselect;
  }
  if (!converged(x)) return Step::kReselect;
  static thread_local Product p;
  MmaShape s = shapeOf(c);
  const int32_t *slots = &x.program->slots[c.list];
  uint32_t nd = s.registersC(), na = s.registersA(), nb = s.registersB();
  uint32_t perA = std::max(1u, 4 / bytesOf(s.a)), perC = std::max(1u, 4 / bytesOf(s.d)), bitsA = bytesOf(s.a) * 8 & 63,
           bitsD = bytesOf(s.d) * 8 & 63;
  for (uint32_t r = 0; r < na; ++r) {
    const uint64_t *v = x.source(slots[nd + r]);
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t e = 0; e < perA; ++e) {
        uint32_t block = s.m == 16 ? r >> 1 : r, row = (lane >> 2) + (s.m == 16 && (r & 1) ? 8 : 0);
        p.a[row][(lane & 3) * perA + e + block * 4 * perA] = valueOf(s.a, v[lane] >> (e * bitsA));
      }
  }
  for (uint32_t r = 0; r < nb; ++r) {
    const uint64_t *v = x.source(slots[nd + na + r]);
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t e = 0; e < perA; ++e)
        p.b[(lane & 3) * perA + e + r * 4 * perA][lane >> 2] = valueOf(s.b, v[lane] >> (e * bitsA));
  }
  // c and d: two neighbours a row, rows lane / 4 and 8 below.
  auto element = [&](uint32_t lane, uint32_t i) -> double & {
    return p.c[(lane >> 2) + (i >= 2 ? 8 : 0)][(lane & 3) * 2 + (i & 1)];
  };
  for (uint32_t r = 0; r < nd; ++r) {
    const uint64_t *v = x.source(slots[nd + na + nb + r]);
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t e = 0; e < perC; ++e) element(lane, r * perC + e) = valueOf(s.d, v[lane] >> (e * bitsD));
  }
  multiply(p, s.m, s.n, s.k, s.a, s.d);
  for (uint32_t r = 0; r < nd; ++r) {
    uint64_t *v = x.destination(slots[r]);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint64_t bits = 0;
      for (uint32_t e = 0; e < perC; ++e) bits |= bitsOf(s.d, element(lane, r * perC + e)) << (e * bitsD);
      v[lane] = bits;
    }
  }
  return Step::kNext;
}

bool shapeNamed(const Decoder &d, uint32_t *m, uint32_t *n, uint32_t *k) {
  for (uint32_t i = 0; i < d.modifiers(); ++i) {
    unsigned a, b, e;
    if (std::sscanf(std::string(d.modifier(i)).c_str(), "m%un%uk%u", &a, &b, &e) == 3)
      return *m = a, *n = b, *k = e, true;
  }
  return false;
}

Handler decodeMma(Decoder &d, Code &c) {
  uint32_t m = 0, n = 0, k = 0;
  if (!shapeNamed(d, &m, &n, &k) || !d.has("row") || !d.has("col") || d.has("sp") || d.hasPrefix("sp::") ||
      d.hasPrefix("block_scale"))
    d.unsupported("only dense row by column products are known");
  Element result = elementOf(d, d.type(0)), a = elementOf(d, d.type(1)), b = elementOf(d, d.type(2));
  if (elementOf(d, d.type(3)) != result) d.unsupported("another type of the sum than of the result");
  bool integer = a == Element::kS8 || a == Element::kU8;
  bool known = (m == 16 && n == 8 && bytesOf(a) == 2 && (k == 8 || k == 16)) ||
               (m == 16 && n == 8 && a == Element::kTfloat && (k == 4 || k == 8)) ||
               (m == 16 && n == 8 && integer && (k == 16 || k == 32)) || (m == 8 && n == 8 && integer && k == 16) ||
               (m == 8 && n == 8 && a == Element::kF64 && k == 4) ||
               (m == 16 && n == 8 && a == Element::kF64 && (k == 4 || k == 8 || k == 16));
  if (!known || d.has("satfinite")) d.unsupported("this shape");
  if (a == Element::kF64 && m == 16) d.unsupported("this shape");
  c.size = uint8_t(m), c.vector = uint8_t(n), c.value = k, c.detail = uint8_t(a),
  c.flags = uint8_t(uint8_t(b) | uint8_t(result) << 4);
  MmaShape s = shapeOf(c);
  c.list = uint32_t(d.program().slots.size());
  Type f = result == Element::kF64 ? Type::kF64 : Type::kB32;
  uint32_t nd = d.appendList(0, f, true), na = d.appendList(1, f, false), nb = d.appendList(2, f, false),
           nc = d.appendList(3, result == Element::kF32 ? Type::kF32 : f, false);
  if (nd != s.registersC() || na != s.registersA() || nb != s.registersB() || nc != nd)
    d.unsupported("fragments of this length");
  return mma;
}

// --- ldmatrix
// ---------------------------------------------------------------------------------------------------------

/// flags: 1 transposed; listed: matrices.
Step loadMatrix(Lanes &x, const Code &c) {
  if (x.warp.live != ~0u) {
    x.find(std::countr_zero(x.active), "mask", kCudaLaunchFailed, "ldmatrix needs all 32 lanes of the warp");
    return Step::kReselect;
  }
  if (!converged(x)) return Step::kReselect;
  const uint64_t *base = x.source(c.a);
  uint16_t rows[4][8][8];
  for (uint32_t i = 0; i < c.listed; ++i) {
    uint64_t addresses[8];
    for (uint32_t row = 0; row < 8; ++row) {
      int lane = int(i * 8 + row);
      Want want;
      want.space = c.space, want.size = 16;
      want.address = base[lane] + uint64_t(c.value);
      if (c.space == Space::kShared) want.address = uint32_t(want.address);
      const std::byte *from = reach(x, lane, want);
      if (!from) return Step::kReselect;
      addresses[row] = want.address;
      std::memcpy(rows[i][row], from, 16);
    }
    countShared(x.count(), addresses, 8, 16);
  }
  for (uint32_t i = 0; i < c.listed; ++i) {
    uint64_t *d = x.destination(x.program->slots[c.list + i]);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint32_t r = lane >> 2, k = (lane & 3) * 2;
      d[lane] = c.flags & 1 ? rows[i][k][r] | uint32_t(rows[i][k + 1][r]) << 16
                            : rows[i][r][k] | uint32_t(rows[i][r][k + 1]) << 16;
    }
  }
  return Step::kNext;
}

Handler decodeLoadMatrix(Decoder &d, Code &c) {
  if (!d.has("m8n8") || !d.has("b16")) d.unsupported("only 8 x 8 matrices of 16 bits are known");
  d.address(1, c, spaceOf(d));
  d.list(0, c, Type::kB32, true);
  c.flags = d.has("trans");
  if (c.listed != (d.has("x4") ? 4u : d.has("x2") ? 2u : 1u)) d.unsupported("a vector of this length");
  return loadMatrix;
}

// --- wmma: which lane holds what is nobody's business; here slot s of lane l holds element (l * slots + s) modulo all
// ----

/// Elements of a fragment: rows x columns.
struct Fragment {
  uint32_t rows, columns;
  Element element;
};
Fragment fragmentOf(const Decoder &d, char which, Element e) {
  uint32_t m = 0, n = 0, k = 0;
  if (!shapeNamed(d, &m, &n, &k)) d.unsupported("no shape");
  if (m > 32 || n > 32 || k > 32) d.unsupported("this shape");
  return which == 'a' ? Fragment{m, k, e} : which == 'b' ? Fragment{k, n, e} : Fragment{m, n, e};
}
uint32_t perRegister(Element e) { return bytesOf(e) < 4 ? 4 / bytesOf(e) : 1; }

/// size: rows, vector: columns, detail: element, flags: 1 stored by columns 2 store, b: stride, target: default stride.
Step moveFragment(Lanes &x, const Code &c) {
  if (x.warp.live != ~0u) {
    x.find(std::countr_zero(x.active), "mask", kCudaLaunchFailed, "wmma needs all 32 lanes of the warp");
    return Step::kReselect;
  }
  if (!converged(x)) return Step::kReselect;
  Element element = Element(c.detail);
  uint32_t bytes = bytesOf(element), per = perRegister(element), total = uint32_t(c.size) * c.vector,
           slots = c.listed * per;
  const uint64_t *base = x.source(c.a), *stride = c.b == Code::kNoSlot ? nullptr : x.source(c.b);
  bool isStore = c.flags & 2;
  std::vector<uint64_t> sectors;
  LineCount &count = x.count();
  for (uint32_t lane = 0; lane < 32; ++lane) {
    uint64_t step = stride ? uint32_t(stride[lane]) : c.target;
    for (uint32_t r = 0; r < c.listed; ++r) {
      int32_t slot = x.program->slots[c.list + r];
      uint64_t bits = isStore ? x.source(slot)[lane] : 0;
      for (uint32_t e = 0; e < per; ++e) {
        uint32_t linear = lane * slots + r * per + e;
        if (isStore && linear >= total) continue;
        linear %= total;
        uint32_t row = linear / c.vector, column = linear % c.vector;
        Want want;
        want.space = c.space, want.size = bytes, want.use = isStore ? Use::kWrite : Use::kRead;
        want.address =
            base[lane] + uint64_t(c.value) + (c.flags & 1 ? column * step + row : row * step + column) * bytes;
        if (c.space == Space::kShared) want.address = uint32_t(want.address);
        std::byte *at = reach(x, int(lane), want);
        if (!at) return Step::kReselect;
        if (want.space == Space::kGlobal) sectors.push_back(want.address >> 5);
        if (isStore) {
          uint64_t v = bits >> (e * bytes * 8 & 63);
          std::memcpy(at, &v, bytes);
        } else {
          uint64_t v = 0;
          std::memcpy(&v, at, bytes);
          bits |= v << (e * bytes * 8 & 63);
        }
      }
      if (!isStore) x.destination(slot)[lane] = bits;
    }
  }
  std::sort(sectors.begin(), sectors.end());
  count.requests += !sectors.empty();
  count.sectors += uint64_t(std::unique(sectors.begin(), sectors.end()) - sectors.begin());
  if (!sectors.empty())
    count.idealSectors += (total * bytes + 31) / 32, (isStore ? count.bytesWritten : count.bytesRead) += total * bytes;
  return Step::kNext;
}

/// list: d, a, b, c; size m, vector n, value k; detail a, flags as in mma; target: registers of each, 8 bits each.
Step wmmaProduct(Lanes &x, const Code &c) {
  if (!converged(x)) return Step::kReselect;
  static thread_local Product p;
  MmaShape s = shapeOf(c);
  const int32_t *slots = &x.program->slots[c.list];
  uint32_t n[4];
  for (int i = 0; i < 4; ++i) n[i] = c.target >> (8 * i) & 255;
  auto load = [&](const int32_t *from, uint32_t registers, Element element, uint32_t rows, uint32_t columns,
                  double (*into)[32]) {
    uint32_t per = perRegister(element), all = registers * per, bits = bytesOf(element) * 8 & 63;
    for (uint32_t r = 0; r < registers; ++r) {
      const uint64_t *v = x.source(from[r]);
      for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t e = 0; e < per; ++e)
          if (uint32_t linear = lane * all + r * per + e; linear < rows * columns)
            into[linear / columns][linear % columns] = valueOf(element, v[lane] >> (e * bits));
    }
  };
  Element sum = Element(c.d);
  load(slots + n[0], n[1], s.a, s.m, s.k, p.a);
  load(slots + n[0] + n[1], n[2], s.a, s.k, s.n, p.b);
  load(slots + n[0] + n[1] + n[2], n[3], sum, s.m, s.n, p.c);
  multiply(p, s.m, s.n, s.k, s.a, s.d);
  uint32_t per = perRegister(s.d), all = n[0] * per, bits = bytesOf(s.d) * 8 & 63;
  for (uint32_t r = 0; r < n[0]; ++r) {
    uint64_t *v = x.destination(slots[r]);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint64_t packed = 0;
      for (uint32_t e = 0; e < per; ++e)
        if (uint32_t linear = lane * all + r * per + e; linear < s.m * s.n)
          packed |= bitsOf(s.d, p.c[linear / s.n][linear % s.n]) << (e * bits);
      v[lane] = packed;
    }
  }
  return Step::kNext;
}

Handler decodeWmmaMove(Decoder &d, Code &c, bool isStore) {
  char which = d.has("a") ? 'a' : d.has("b") ? 'b' : 'c';
  Element element = elementOf(d, d.type());
  Fragment f = fragmentOf(d, which, element);
  bool columns = d.has("col");
  d.address(isStore ? 0 : 1, c, spaceOf(d));
  d.list(isStore ? 1 : 0, c, element == Element::kF32 ? Type::kF32 : Type::kB32, !isStore);
  if (d.operands() > 2) c.b = d.source(2, Type::kU32);
  c.target = columns ? f.rows : f.columns;
  c.size = uint8_t(f.rows), c.vector = uint8_t(f.columns), c.detail = uint8_t(element),
  c.flags = uint8_t(columns | isStore << 1);
  if (c.listed * perRegister(element) * 32 < f.rows * f.columns) d.unsupported("a fragment of this length");
  return moveFragment;
}

Handler decodeWmma(Decoder &d, Code &c) {
  if (d.has("load")) return decodeWmmaMove(d, c, false);
  if (d.has("store")) return decodeWmmaMove(d, c, true);
  uint32_t m = 0, n = 0, k = 0;
  if (!d.has("mma") || !shapeNamed(d, &m, &n, &k) || m > 32 || n > 32 || k > 32) d.unsupported("this shape");
  if (d.has("satfinite") || d.hasPrefix("b1") || d.has("s4") || d.has("u4")) d.unsupported("this type");
  // Halves: d and c are named; all others: d, a, b, c.
  bool named = d.type(2) != Type::kNone;
  Element result = elementOf(d, d.type(0)), sum = elementOf(d, d.type(named ? 3 : 1)),
          a = named ? elementOf(d, d.type(1)) : Element::kHalf;
  c.size = uint8_t(m), c.vector = uint8_t(n), c.value = k, c.detail = uint8_t(a),
  c.flags = uint8_t(uint8_t(a) | uint8_t(result) << 4), c.d = int32_t(sum);
  c.list = uint32_t(d.program().slots.size());
  for (uint32_t i = 0; i < 4; ++i) c.target |= d.appendList(i, Type::kB32, i == 0) << (8 * i);
  return wmmaProduct;
}

} // namespace

void addMatrices(DecodeTable &t) {
  t["mma"] = decodeMma;
  t["ldmatrix"] = decodeLoadMatrix;
  t["wmma"] = decodeWmma;
}

} // namespace opc::gpusim
