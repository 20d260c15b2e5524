// The container of plans.
// SPDX-License-Identifier: Apache-2.0
#include "PlanFile.h"
#include "PlanGraphs.h"
#include "PlanNative.h"
#include "PlanRegions.h"
#include "PlanSplice.h"

#include "opc/Version.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace opc {
namespace {

// Offsets: 0 magic (8 bytes), 8 version (u32), 12 reserved (u32, 0), 16 payload length (u64), 24 checksum (u64).
constexpr char kMagic[8] = {'O', 'P', 'C', 'P', 'L', 'A', 'N', '\0'};
constexpr size_t kHeaderBytes = 32;

constexpr uint64_t kP1 = 0x9E3779B185EBCA87u, kP2 = 0xC2B2AE3D27D4EB4Fu, kP3 = 0x165667B19E3779F9u,
                   kP4 = 0x85EBCA77C2B2AE63u, kP5 = 0x27D4EB2F165667C5u;

uint64_t rotl(uint64_t x, int r) { return (x << r) | (x >> (64 - r)); }
template <class T> T loadLe(const char *p) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "opc's formats are little endian, and so are its machines");
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T> void storeLe(char *p, T v) { std::memcpy(p, &v, sizeof v); }
uint64_t round(uint64_t acc, uint64_t lane) { return rotl(acc + lane * kP2, 31) * kP1; }
uint64_t merge(uint64_t acc, uint64_t v) { return (acc ^ round(0, v)) * kP1 + kP4; }

Status invalid(const char *id, std::string message, std::string help) {
  return Status(StatusCode::kInvalidGraph, id, std::move(message)).withHelp(std::move(help));
}

} // namespace

namespace {

/// XXH64 of bytes that come in pieces.
class Checksum {
public:
  void add(std::string_view bytes) {
    size_ += bytes.size();
    if (waiting_ > 0) {
      const size_t n = std::min(bytes.size(), kStripe - waiting_);
      std::memcpy(wait_ + waiting_, bytes.data(), n);
      bytes.remove_prefix(n);
      if ((waiting_ += n) < kStripe) return;
      stripe({wait_, kStripe});
      waiting_ = 0;
    }
    for (; bytes.size() >= kStripe; bytes.remove_prefix(kStripe)) stripe(bytes.substr(0, kStripe));
    if (!bytes.empty()) std::memcpy(wait_, bytes.data(), waiting_ = bytes.size());
  }

  uint64_t value() const {
    uint64_t h = kP5;
    if (size_ >= kStripe) {
      h = rotl(v_[0], 1) + rotl(v_[1], 7) + rotl(v_[2], 12) + rotl(v_[3], 18);
      for (uint64_t lane : v_) h = merge(h, lane);
    }
    h += size_;
    const char *p = wait_, *end = wait_ + waiting_;
    for (; end - p >= 8; p += 8) h = rotl(h ^ round(0, loadLe<uint64_t>(p)), 27) * kP1 + kP4;
    if (end - p >= 4) {
      h = rotl(h ^ (loadLe<uint32_t>(p) * kP1), 23) * kP2 + kP3;
      p += 4;
    }
    for (; p != end; ++p) h = rotl(h ^ (static_cast<uint8_t>(*p) * kP5), 11) * kP1;
    h = (h ^ (h >> 33)) * kP2;
    h = (h ^ (h >> 29)) * kP3;
    return h ^ (h >> 32);
  }

private:
  static constexpr size_t kStripe = 32;
  void stripe(std::string_view bytes) {
    const char *p = bytes.begin();
    for (uint64_t &lane : v_) lane = round(lane, loadLe<uint64_t>(p)), p += 8;
  }

  uint64_t v_[4] = {kP1 + kP2, kP2, 0, 0 - kP1}, size_ = 0;
  char wait_[kStripe] = {};
  size_t waiting_ = 0;
};

uint64_t checksumOf(std::string_view bytes, ValuePages *pages) {
  Checksum sum;
  pages->forEach(bytes, [&](std::string_view piece) { return sum.add(piece), true; });
  return sum.value();
}

} // namespace

uint64_t planChecksum(std::string_view bytes) {
  Checksum sum;
  sum.add(bytes);
  return sum.value();
}

uint64_t planChecksum(const FilePieces &bytes) {
  Checksum sum;
  (void)bytes.write([&](std::string_view piece) {
    sum.add(piece);
    return Status::ok();
  });
  return sum.value();
}

namespace {

/// The oldest version that has all of a plan, and what of it came with that version.
class NeededVersion {
public:
  explicit NeededVersion(const plan::Plan &plan) { addPlan(plan); }
  uint32_t number() const { return number_; }
  const char *why() const { return why_; }

private:
  void add(bool has, uint32_t version, const char *what) {
    if (has && version > number_) number_ = version, why_ = what;
  }

  /// What came between two versions has the later one: only its readers all know it.
  void addPlan(const plan::Plan &plan) {
    for (const plan::Task &t : plan.task()) addTask(t);
    for (const plan::Tensor &t : plan.tensor()) add(t.bound_size() > 0 || t.extent_size() > 0, 2, "bounds of sizes");
    for (const plan::Register &r : plan.register_()) add(r.kind() == plan::Register::PREPARED, 7, "prepared tensors");
    for (const plan::Interface::Variable &v : plan.interface().variable()) add(v.has_data(), 3, "values of variables");
    add(plan.size_size() > 0, 2, "sizes in a range");
    add(plan.native_size() > 0, 4, "machine code");
    add(plan.interface().model_number_size() > 0, 6, "numbers of a model");
    for (const plan::Plan &part : plan.part()) addPlan(part);
  }

  void addTask(const plan::Task &t) {
    add(t.region(), 2, "regions");
    add(t.body_size() > 0, 2, "tasks of several ops");
    add(t.has_device(), 2, "devices of tasks");
    add(t.native_size() > 0, 4, "machine code");
    add(t.graph_size() > 0, 5, "graphs of tasks");
    add(t.graph_size() > 0 && t.op_type() == "batch_parts", 6, "batches in parts");
    for (const plan::Plan &graph : t.graph()) addPlan(graph);
  }

  uint32_t number_ = 1;
  const char *why_ = "tasks";
};

uint32_t versionOf(const plan::Plan &plan) { return NeededVersion(plan).number(); }

/// Room for the header, and the message.
std::string messageOf(const plan::Plan &plan) {
  std::string bytes(kHeaderBytes, '\0');
  const size_t size = plan.ByteSizeLong();
  bytes.reserve(kHeaderBytes + size); // a plan with weights is large: it is not moved as it grows
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    if (size <= static_cast<size_t>(std::numeric_limits<int>::max()))
      plan.SerializeWithCachedSizes(&coded); // which ByteSizeLong() has left
    else
      plan.SerializePartialToCodedStream(&coded); // says that it is no message
  }
  return bytes;
}

void writeHeader(uint32_t version, uint64_t length, uint64_t checksum, char *to) {
  std::memcpy(to, kMagic, sizeof kMagic);
  storeLe<uint32_t>(to + 8, version);
  storeLe<uint64_t>(to + 16, length);
  storeLe<uint64_t>(to + 24, checksum);
}

const plan::Interface::Variable &variableAt(const plan::Plan &plan, VariablePlace place) {
  return (place.part < 0 ? plan : plan.part(place.part)).interface().variable(place.index);
}

} // namespace

std::string encodePlan(const plan::Plan &plan) {
  std::string bytes = messageOf(plan);
  const std::string_view payload = std::string_view(bytes).substr(kHeaderBytes);
  writeHeader(versionOf(plan), payload.size(), planChecksum(payload), bytes.data());
  return bytes;
}

FilePieces encodePlan(const plan::Plan &plan, const OutsideValues &outside) {
  struct Text {
    std::string message; // without the values
    SplicedMessage spliced;
  };
  const auto text = std::make_shared<Text>();
  text->message = messageOf(plan);
  const auto valueAt = [&](VariablePlace place) {
    const auto found = outside.find(&variableAt(plan, place));
    return found == outside.end() ? nullptr : &found->second;
  };
  auto spliced = spliceValues(std::string_view(text->message).substr(kHeaderBytes),
                              [&](VariablePlace place, std::string_view) -> std::optional<std::string_view> {
                                const OutsideValue *value = valueAt(place);
                                return value ? std::optional(value->bytes) : std::nullopt;
                              });
  if (!spliced) throw std::logic_error("a plan's message is not as protobuf writes it");
  text->spliced = std::move(*spliced);
  FilePieces payload;
  for (const SplicedMessage::Piece &piece : text->spliced.pieces)
    payload.add(piece.bytes, piece.valueOf ? valueAt(*piece.valueOf)->pages : nullptr, text);
  std::string header(kHeaderBytes, '\0');
  writeHeader(versionOf(plan), payload.size(), planChecksum(payload), header.data());
  FilePieces file(std::move(header));
  file.add(payload);
  return file;
}

std::string planPayload(std::string_view bytes) { return std::string(bytes.substr(kHeaderBytes)); }

bool looksLikePlan(std::string_view bytes) {
  return bytes.size() >= sizeof kMagic && std::memcmp(bytes.data(), kMagic, sizeof kMagic) == 0;
}

namespace {

/// The message without large data of variables where it is as this program writes it, else whole. False: no message.
bool parse(std::string_view payload, const std::shared_ptr<ValuePages> &pages, plan::Plan *plan,
           OutsideValues *outside) {
  std::vector<std::pair<VariablePlace, std::string_view>> values;
  std::optional<SplicedMessage> message;
  if (outside)
    message = spliceValues(payload, [&](VariablePlace place, std::string_view data) -> std::optional<std::string_view> {
      if (data.size() < kLeastOutside) return std::nullopt;
      values.emplace_back(place, data);
      return std::string_view();
    });
  if (!message || values.empty()) return plan->ParsePartialFromArray(payload.data(), static_cast<int>(payload.size()));
  std::string rest;
  rest.reserve(static_cast<size_t>(message->size));
  for (const SplicedMessage::Piece &piece : message->pieces) rest += piece.bytes;
  if (!plan->ParsePartialFromString(rest)) return false;
  for (const auto &[place, data] : values) outside->emplace(&variableAt(*plan, place), OutsideValue{data, pages});
  return true;
}

Status decode(std::string_view bytes, const std::shared_ptr<ValuePages> &pages, plan::Plan *plan,
              OutsideValues *outside) {
  if (!looksLikePlan(bytes))
    return invalid("OPC0801", bytes.empty() ? "the plan is empty" : "not a plan: it does not begin with OPCPLAN",
                   "make a plan from a graph with: opc compile GRAPH -o FILE");
  if (bytes.size() < kHeaderBytes)
    return invalid("OPC0803",
                   "the plan is truncated: " + std::to_string(bytes.size()) + " bytes, the header alone has " +
                       std::to_string(kHeaderBytes),
                   "compile the graph again");
  const uint32_t version = loadLe<uint32_t>(bytes.data() + 8);
  if (version == 0 || version > kPlanVersion)
    return Status(StatusCode::kUnsupported, "OPC0802",
                  "the plan has format version " + std::to_string(version) +
                      ", and this opc (" OPC_VERSION_STRING ") reads version " + std::to_string(kPlanVersion) +
                      " and older ones: compile its graph again with `opc compile GRAPH -o PLAN`");
  if (loadLe<uint32_t>(bytes.data() + 12) != 0)
    return invalid("OPC0804", "the plan is damaged: its reserved header field is not zero", "compile the graph again");
  const uint64_t length = loadLe<uint64_t>(bytes.data() + 16);
  const std::string_view payload = bytes.substr(kHeaderBytes);
  if (length != payload.size())
    return invalid("OPC0803",
                   "the plan is " + std::string(payload.size() < length ? "truncated" : "followed by other bytes") +
                       ": its header announces " + std::to_string(length) + " bytes behind it, the file has " +
                       std::to_string(payload.size()) + " there",
                   "compile the graph again");
  if (checksumOf(payload, pages.get()) != loadLe<uint64_t>(bytes.data() + 24))
    return invalid("OPC0804", "the plan is damaged: its checksum does not match", "compile the graph again");
  if (length > static_cast<uint64_t>(INT32_MAX))
    return Status(StatusCode::kUnsupported, "OPC0806",
                  "the plan has " + std::to_string(length) + " bytes; protobuf reads at most 2 GiB")
        .withHelp("keep large constants in a weights file: make them variables");
  if (!parse(payload, pages, plan, outside))
    return invalid("OPC0805", "the plan's contents are not a valid protobuf message", "compile the graph again");
  if (const NeededVersion needed(*plan); needed.number() > version)
    return invalid("OPC0804",
                   "the plan is damaged: it says format version " + std::to_string(version) + " and has " +
                       needed.why() + ", which came with version " + std::to_string(needed.number()),
                   "compile the graph again");
  OPC_RETURN_IF_ERROR(checkPlanGraphs(*plan));
  OPC_RETURN_IF_ERROR(checkNativeCode(*plan));
  return resolveRegions(plan);
}

} // namespace

Status decodePlan(std::string_view bytes, plan::Plan *plan) {
  return decode(bytes, std::make_shared<ValuePages>(), plan, nullptr);
}

Status decodePlan(std::string_view bytes, const std::shared_ptr<ValuePages> &pages, plan::Plan *plan,
                  OutsideValues *outside) {
  return decode(bytes, pages ? pages : std::make_shared<ValuePages>(), plan, outside);
}

Result<plan::Plan> decodePlan(std::string_view bytes) {
  plan::Plan plan;
  if (Status status = decodePlan(bytes, &plan); !status.isOk()) return status;
  return plan;
}

} // namespace opc
