// Reads CUDA_SIM. What is not known is an error, or a test would run with less than it asked for.
// SPDX-License-Identifier: Apache-2.0
#include "SimOptions.h"

#include "DriverFunctions.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace opc::gpusim::driver {
namespace {

template <class T> bool number(std::string_view text, uint64_t least, uint64_t most, T *value) {
  uint64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size() || v < least || v > most) return false;
  *value = static_cast<T>(v);
  return true;
}

/// "64M": bytes, or with K, M or G behind.
bool byteCount(std::string_view text, uint64_t *value) {
  unsigned shift = 0;
  if (!text.empty()) {
    const char last = text.back();
    shift = last == 'K' ? 10 : last == 'M' ? 20 : last == 'G' ? 30 : 0;
    if (shift) text.remove_suffix(1);
  }
  uint64_t v = 0;
  if (!number(text, 1, (uint64_t(1) << 40) >> shift, &v)) return false;
  *value = v << shift;
  return true;
}

template <class T>
bool oneOf(std::string_view text, std::initializer_list<std::pair<std::string_view, T>> words, T *value) {
  for (const auto &[word, meaning] : words)
    if (text == word) return *value = meaning, true;
  return false;
}

bool isFunction(std::string_view name) {
#define GPUSIM_NAME(symbol, known, parameters)                                                                         \
  if (name == known) return true;
  GPUSIM_FUNCTIONS(GPUSIM_NAME)
#undef GPUSIM_NAME
  return false;
}

/// Those of the stand-in for NCCL, whose codes are its own.
bool isNcclFunction(std::string_view name) {
  constexpr std::string_view kNames[] = {"ncclGetUniqueId",   "ncclCommInitRank", "ncclCommInitRankConfig",
                                         "ncclGroupStart",    "ncclGroupEnd",     "ncclSend",
                                         "ncclRecv",          "ncclAllReduce",    "ncclAllGather",
                                         "ncclReduceScatter", "ncclReduce",       "ncclBroadcast"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool isResult(uint64_t code) {
#define GPUSIM_CODE(name, cudaName, value, text)                                                                       \
  if (code == value) return value != 0;
  GPUSIM_RESULTS(GPUSIM_CODE)
#undef GPUSIM_CODE
  return false;
}

bool failure(std::string_view text, InjectedFailure *out) {
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  if (first == text.npos || second == text.npos) return false;
  uint64_t code = 0;
  out->function = text.substr(0, first);
  const bool isNccl = isNcclFunction(out->function);
  constexpr uint64_t kMostOfNccl = 6; // ncclRemoteError
  if ((!isNccl && !isFunction(out->function)) ||
      !number(text.substr(first + 1, second - first - 1), 1, UINT64_MAX, &out->call) ||
      !number(text.substr(second + 1), 1, isNccl ? kMostOfNccl : 999, &code) || (!isNccl && !isResult(code)))
    return false;
  out->code = static_cast<int>(code);
  return true;
}

bool skippedCall(std::string_view text, SkippedCall *out) {
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  if (first == text.npos) return false;
  out->function = text.substr(0, first);
  if (second != text.npos && !number(text.substr(second + 1), 1, UINT32_MAX, &out->stream)) return false;
  return isFunction(out->function) && number(text.substr(first + 1, second - first - 1), 1, UINT64_MAX, &out->call);
}

bool droppedWait(std::string_view text, DroppedWait *out) {
  const size_t colon = text.find(':');
  if (colon == text.npos || colon == 0) return false;
  out->function = text.substr(0, colon);
  return number(text.substr(colon + 1), 1, UINT64_MAX, &out->number);
}

bool alteredLaunch(std::string_view text, AlteredLaunch *out) {
  using Kind = AlteredLaunch::Kind;
  const size_t colon = text.find(':');
  if (colon == text.npos || colon == 0) return false;
  out->kernel = text.substr(0, colon);
  const std::string_view what = text.substr(colon + 1);
  if (what == "grid") return true;
  const size_t sign = what.find_first_of("+/");
  if (sign == what.npos) return false;
  out->kind = what[sign] == '+' ? Kind::kAdd : Kind::kSwap;
  return number(what.substr(0, sign), 0, UINT32_MAX, &out->offset) &&
         number(what.substr(sign + 1), 0, UINT32_MAX, &out->other);
}

/// For a key that may come several times. Null: taken. Otherwise `expected`, what it takes.
template <class T>
const char *add(std::string_view text, bool (*read)(std::string_view, T *), std::vector<T> *to, const char *expected) {
  T item;
  if (!read(text, &item)) return expected;
  to->push_back(item);
  return nullptr;
}

/// Null: taken. Otherwise what the key takes.
const char *set(std::string_view key, std::string_view value, SimOptions *o) {
  uint64_t v = 0;
  if (key == "seed") return number(value, 0, UINT64_MAX, &o->seed) ? nullptr : "a number from 0";
  if (key == "policy")
    return oneOf(value, {{"late", Policy::kLate}, {"eager", Policy::kEager}, {"random", Policy::kRandom}}, &o->policy)
               ? nullptr
               : "late, eager or random";
  if (key == "devices") return number(value, 0, 16, &o->devices) ? nullptr : "a number from 0 to 16";
  if (key == "peers")
    return oneOf(value, {{"all", Peers::kAll}, {"pairs", Peers::kPairs}, {"none", Peers::kNone}}, &o->peers)
               ? nullptr
               : "all, pairs or none";
  if (key == "cc") {
    if (!number(value, 0, 999, &v) || (v != 75 && v != 80 && v != 86 && v != 89 && v != 90))
      return "75, 80, 86, 89 or 90";
    o->computeCapability = static_cast<int>(v);
    return nullptr;
  }
  if (key == "memory") return byteCount(value, &o->memory) ? nullptr : "bytes of each device, at most 1024G (64M, 4G)";
  if (key == "driver")
    return number(value, 11000, 13999, &o->driver) ? nullptr : "a driver's version from 11000 to 13999 (13000 is 13.0)";
  if (key == "limit") return number(value, 1, UINT64_MAX, &o->limit) ? nullptr : "a number of instructions from 1";
  if (key == "blocks") return number(value, 1, 2147483647, &o->blocks) ? nullptr : "a number of blocks from 1";
  if (key == "findings") {
    if (value != "error" && value != "warn") return "error or warn";
    o->findingsAreErrors = value == "error";
    return nullptr;
  }
  if (key == "report") {
    o->report = value;
    if (const size_t at = value.find("%p"); at != value.npos) o->report.replace(at, 2, std::to_string(getpid()));
    return value.empty() ? "a file, or - for stderr" : nullptr;
  }
  if (key == "fail")
    return add(
        value, failure, &o->failures,
        "FUNCTION:CALL:CODE, as cuMemAlloc:3:2 (a function of the driver without _v2, or of NCCL; a call from 1; an "
        "error code)");
  if (key == "skip")
    return add(value, skippedCall, &o->skipped,
               "FUNCTION:CALL or FUNCTION:CALL:STREAM, as cuStreamWaitEvent:2:1 (a function of the driver without _v2, "
               "numbers from 1)");
  if (key == "drop")
    return add(value, droppedWait, &o->dropped, "FUNCTION:N, as my_kernel:2 (the second barrier or wait in its PTX)");
  if (key == "alter")
    return add(value, alteredLaunch, &o->altered,
               "KERNEL:grid, KERNEL:OFFSET+N or KERNEL:OFFSET/OFFSET, as my_kernel:8+4 (offsets of eight bytes of its "
               "parameters)");
  return "";
}

} // namespace

bool SimOptions::parse(const std::string &text, SimOptions *options, std::string *error) {
  *options = {};
  std::vector<std::string_view> seen;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const size_t equal = part.find('=');
    const std::string_view key = part.substr(0, equal), value = equal == part.npos ? "" : part.substr(equal + 1);
    const char *expected = equal == part.npos ? "" : set(key, value, options);
    if (expected && *expected == 0) {
      *error = "CUDA_SIM: '" + std::string(part) +
               "' is none of seed=, policy=, devices=, peers=, cc=, memory=, driver=, limit=, fail=, skip=, drop=, "
               "alter=, blocks=, findings=, report=";
      return false;
    }
    if (expected) {
      *error = "CUDA_SIM: " + std::string(key) + "= takes " + expected + ", and here is '" + std::string(value) + "'";
      return false;
    }
    if (key != "fail" && key != "skip" && key != "drop" && key != "alter" &&
        std::find(seen.begin(), seen.end(), key) != seen.end()) {
      *error = "CUDA_SIM: " + std::string(key) + "= is given twice";
      return false;
    }
    seen.push_back(key);
  }
  return true;
}

const char *policyName(Policy policy) {
  return policy == Policy::kLate ? "late" : policy == Policy::kEager ? "eager" : "random";
}

} // namespace opc::gpusim::driver
