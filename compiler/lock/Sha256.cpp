// SHA-256 (FIPS 180-4).
// SPDX-License-Identifier: Apache-2.0
#include "Sha256.h"

#include <array>
#include <bit>
#include <cstdint>

namespace opc {
namespace {

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (section 4.2.2).
constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using Words = std::array<uint32_t, 8>;

void addBlock(const unsigned char *block, Words *state) {
  std::array<uint32_t, 64> w{};
  for (size_t i = 0; i < 16; ++i)
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 | uint32_t{block[4 * i + 2]} << 8 |
           block[4 * i + 3];
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  Words s = *state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    const uint32_t t1 =
        s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) + choice + kRounds[i] + w[i];
    const uint32_t t2 = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) + majority;
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (size_t i = 0; i < 8; ++i) (*state)[i] += s[i];
}

} // namespace

void sha256Digits(std::string_view bytes, char (&digits)[65]) noexcept {
  Words state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto *data = reinterpret_cast<const unsigned char *>(bytes.data());
  const size_t rest = bytes.size() % 64, whole = bytes.size() - rest;
  for (size_t i = 0; i < whole; i += 64) addBlock(data + i, &state);
  // The rest, a bit that is set, zeros, and the length in bits as 64 bits.
  std::array<unsigned char, 128> tail{};
  for (size_t i = 0; i < rest; ++i) tail[i] = data[whole + i];
  tail[rest] = 0x80;
  const size_t size = rest < 56 ? 64 : 128;
  for (size_t i = 0; i < 8; ++i) tail[size - 1 - i] = static_cast<unsigned char>(uint64_t{bytes.size()} * 8 >> 8 * i);
  for (size_t i = 0; i < size; i += 64) addBlock(tail.data() + i, &state);
  char *digit = digits;
  for (const uint32_t word : state)
    for (int shift = 28; shift >= 0; shift -= 4) *digit++ = "0123456789abcdef"[word >> shift & 15];
  *digit = 0;
}

std::string sha256(std::string_view bytes) {
  char digits[65];
  sha256Digits(bytes, digits);
  return digits;
}

} // namespace opc
