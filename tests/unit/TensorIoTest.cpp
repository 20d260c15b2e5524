// Archives, raw files, atomic writing, generated contents.
// SPDX-License-Identifier: Apache-2.0
#include "TensorIo.h"
#include "FileBytes.h"
#include "MappedTensor.h"
#include "TensorFill.h"
#include "opc/Philox.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <unistd.h>

namespace {

using namespace opc;
namespace fs = std::filesystem;

/// A directory that goes away with the test.
struct Scratch {
  Scratch() {
    static std::random_device random;
    path = fs::temp_directory_path() / ("opc_tensorio_" + std::to_string(random()));
    fs::create_directories(path);
  }
  ~Scratch() { fs::remove_all(path); }
  std::string operator/(const std::string &name) const { return (path / name).string(); }
  fs::path path;
};

std::string contents(const std::string &path) {
  Result<FileBytes> f = FileBytes::open(path);
  REQUIRE(f.isOk());
  return std::string(f->view());
}
void put(const std::string &path, const std::string &bytes) { REQUIRE(writeFileAtomically(path, bytes).isOk()); }
HostTensor iota(DataType type, Shape shape) {
  Result<HostTensor> t = HostTensor::create(type, std::move(shape));
  REQUIRE(t.isOk());
  fillIota(&*t);
  return std::move(*t);
}
bool equal(const HostTensor &a, const HostTensor &b) {
  return a.desc() == b.desc() && (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}
std::string openId(const std::string &path) {
  auto a = openTensorArchive(path);
  if (!a) return a.status().id();
  for (const TensorEntry &e : (*a)->entries())
    if (Result<HostTensor> t = (*a)->read(e.key); !t) return t.status().id();
  return "ok";
}

// numpy.savez_compressed(a=float32 [[0,1,2],[3,4,5]], big=200 int64 zeros).
const std::string kDeflated(
    "\x50\x4b\x03\x04\x14\x00\x00\x00\x08\x00\x00\x00\x21\x00\x4f\xe9\x00\x2a\x55\x00\x00\x00\x98\x00\x00\x00\x05\x00"
    "\x14\x00\x61\x2e\x6e\x70\x79\x01\x00\x10\x00\x98\x00\x00\x00\x00\x00\x00\x00\x55\x00\x00\x00\x00\x00\x00\x00\x9b"
    "\xec\x17\xea\x1b\x10\xc9\xc8\x50\xc6\x50\xad\x9e\x92\x5a\x9c\x5c\xa4\x6e\xa5\xa0\x6e\x93\x66\xa2\xae\xa3\xa0\x9e"
    "\x96\x5f\x54\x52\x94\x98\x17\x9f\x5f\x94\x92\x0a\x12\x77\x4b\xcc\x29\x4e\x05\x8a\x17\x67\x24\x16\xa4\x02\xf9\x1a"
    "\x46\x3a\x0a\xc6\x9a\x3a\x0a\xb5\x0a\x64\x03\x2e\x06\x30\x68\xb0\x07\x12\x0e\x40\x04\xc4\x0d\x40\xbc\xc0\x01\x00"
    "\x50\x4b\x03\x04\x14\x00\x00\x00\x08\x00\x00\x00\x21\x00\x03\xf3\x47\x6d\x53\x00\x00\x00\xc0\x06\x00\x00\x07\x00"
    "\x14\x00\x62\x69\x67\x2e\x6e\x70\x79\x01\x00\x10\x00\xc0\x06\x00\x00\x00\x00\x00\x00\x53\x00\x00\x00\x00\x00\x00"
    "\x00\x9b\xec\x17\xea\x1b\x10\xc9\xc8\x50\xc6\x50\xad\x9e\x92\x5a\x9c\x5c\xa4\x6e\xa5\xa0\x6e\x93\x69\xa1\xae\xa3"
    "\xa0\x9e\x96\x5f\x54\x52\x94\x98\x17\x9f\x5f\x94\x92\x0a\x12\x77\x4b\xcc\x29\x4e\x05\x8a\x17\x67\x24\x16\xa4\x02"
    "\xf9\x1a\x46\x06\x06\x3a\x9a\x3a\x0a\xb5\x0a\x64\x03\x2e\x86\x51\x30\x0a\x46\xc1\x28\x18\x05\xa3\x80\x0c\x00\x00"
    "\x50\x4b\x01\x02\x14\x03\x14\x00\x00\x00\x08\x00\x00\x00\x21\x00\x4f\xe9\x00\x2a\x55\x00\x00\x00\x98\x00\x00\x00"
    "\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x01\x00\x00\x00\x00\x61\x2e\x6e\x70\x79\x50\x4b\x01\x02\x14"
    "\x03\x14\x00\x00\x00\x08\x00\x00\x00\x21\x00\x03\xf3\x47\x6d\x53\x00\x00\x00\xc0\x06\x00\x00\x07\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x80\x01\x8c\x00\x00\x00\x62\x69\x67\x2e\x6e\x70\x79\x50\x4b\x05\x06\x00\x00\x00\x00"
    "\x02\x00\x02\x00\x68\x00\x00\x00\x18\x01\x00\x00\x00\x00",
    406);
// A stored member "d" = int16 [7, 8], written to a pipe: sizes only in data descriptor and directory.
const std::string kDescriptor(
    "\x50\x4b\x03\x04\x14\x00\x08\x00\x00\x00\x00\x00\x21\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00"
    "\x00\x00\x64\x2e\x6e\x70\x79\x93\x4e\x55\x4d\x50\x59\x01\x00\x76\x00\x7b\x27\x64\x65\x73\x63\x72\x27\x3a\x20\x27"
    "\x3c\x69\x32\x27\x2c\x20\x27\x66\x6f\x72\x74\x72\x61\x6e\x5f\x6f\x72\x64\x65\x72\x27\x3a\x20\x46\x61\x6c\x73\x65"
    "\x2c\x20\x27\x73\x68\x61\x70\x65\x27\x3a\x20\x28\x32\x2c\x29\x2c\x20\x7d\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20"
    "\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20"
    "\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x0a\x07\x00\x08\x00\x50"
    "\x4b\x07\x08\xcb\x85\x01\xe5\x84\x00\x00\x00\x84\x00\x00\x00\x50\x4b\x01\x02\x14\x03\x14\x00\x08\x00\x00\x00\x00"
    "\x00\x21\x00\xcb\x85\x01\xe5\x84\x00\x00\x00\x84\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80"
    "\x01\x00\x00\x00\x00\x64\x2e\x6e\x70\x79\x50\x4b\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00\x33\x00\x00\x00\xb7\x00"
    "\x00\x00\x00\x00",
    256);

TEST_CASE("npz made by numpy is read: deflated, and with data descriptors", "[tensorio]") {
  Scratch s;
  put(s / "w.npz", kDeflated);
  auto a = openTensorArchive(s / "w.npz");
  REQUIRE(a.isOk());
  REQUIRE((*a)->entries().size() == 2);
  CHECK(equal(*(*a)->read("a"), iota(kFloat, Shape{2, 3})));
  CHECK((*a)->read("big")->desc().toString() == "i64[200]");
  const Status missing = (*a)->read("bigg").status();
  CHECK(missing.id() == "OPC0705");
  CHECK(missing.help().find("'big'") != std::string::npos);
  put(s / "d.npz", kDescriptor);
  Result<HostTensor> d = readTensor(s / "d.npz:d");
  REQUIRE(d.isOk());
  CHECK(d->as<int16_t>()[1] == 8);
}

TEST_CASE("damaged archives are errors, whatever byte it is", "[tensorio]") {
  Scratch s;
  const std::string path = s / "w.npz";
  for (const std::string &good : {kDeflated, kDescriptor}) {
    for (size_t n = 0; n < good.size(); ++n) {
      put(path, good.substr(0, n));
      REQUIRE(openId(path) != "ok");
    }
    for (size_t i = 0; i < good.size(); ++i)
      for (int mask : {0x01, 0x80, 0xff}) {
        std::string damaged = good;
        damaged[i] = static_cast<char>(damaged[i] ^ mask);
        put(path, damaged);
        (void)openId(path); // dates and attributes may change; nothing may crash
      }
  }
  const HostTensor t = iota(kFloat, Shape{2});
  REQUIRE(writeNpz(path, {{"a1", &t}, {"a2", &t}}).isOk());
  std::string twice = contents(path);
  for (size_t at = 0; (at = twice.find("a2.npy", at)) != std::string::npos;) twice.replace(at, 6, "a1.npy");
  put(path, twice);
  CHECK(openId(path) == "OPC0710");
  // A member that claims a million times its packed size.
  std::string bomb = kDeflated;
  const size_t central = bomb.rfind("PK\x01\x02");
  bomb.replace(central + 24, 4, std::string("\xff\xff\xff\x7f"));
  put(path, bomb);
  CHECK(openId(path) == "OPC0708");
}

TEST_CASE("npz and safetensors are written the same every time and come back", "[tensorio]") {
  Scratch s;
  const HostTensor a = iota(kFloat, Shape{3, 5}), b = iota(kInt8, Shape{}), c = iota(kBFloat16, Shape{0, 4});
  for (const char *name : {"x.npz", "x.safetensors"}) {
    const bool npz = std::string(name) == "x.npz";
    auto write = npz ? writeNpz : writeSafetensors;
    REQUIRE(write(s / name, {{"w/a", &a}, {"b", &b}, {"c", &c}}).isOk());
    const std::string first = contents(s / name);
    REQUIRE(write(s / name, {{"c", &c}, {"b", &b}, {"w/a", &a}}).isOk());
    CHECK(contents(s / name) == first);
    auto archive = openTensorArchive(s / name);
    REQUIRE(archive.isOk());
    REQUIRE((*archive)->entries().size() == 3);
    CHECK((*archive)->entries()[0].key == "b");
    TensorReadOptions options;
    options.voidType = kBFloat16;
    CHECK(equal(*(*archive)->read("w/a"), a));
    CHECK(equal(*(*archive)->read("b"), b));
    CHECK(equal(*(*archive)->read("c", options), c));
    CHECK(write(s / name, {{"b", &b}, {"b", &a}}).id() == "OPC0710");
    CHECK(contents(s / name) == first); // the failed write left the old file
    for (size_t n = 0; n < first.size(); ++n) {
      put(s / "cut", first.substr(0, n));
      auto cut = npz ? openNpz(s / "cut") : openSafetensors(s / "cut");
      REQUIRE_FALSE(cut.isOk());
    }
  }
}

std::string safetensors(const std::string &json, const std::string &data) {
  const uint64_t n = json.size();
  return std::string(reinterpret_cast<const char *>(&n), 8) + json + data;
}

TEST_CASE("safetensors headers are checked", "[tensorio]") {
  Scratch s;
  const std::string path = s / "x.safetensors";
  auto id = [&](const std::string &json, const std::string &data) {
    put(path, safetensors(json, data));
    return openId(path);
  };
  const std::string eight(8, '\0');
  CHECK(id(R"({"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", eight) == "ok");
  CHECK(id(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   )", eight) == "ok");
  CHECK(id("{}", "") == "ok");
  CHECK(id(R"({"x":{"dtype":"F4","shape":[15],"data_offsets":[0,8]}})", eight) == "ok"); // two in a byte
  CHECK(id(R"({"x":{"dtype":"F4","shape":[8],"data_offsets":[0,8]}})", eight) == "OPC0701");
  CHECK(id(R"({"x":{"dtype":"F6_E3M2","shape":[8],"data_offsets":[0,8]}})", eight) == "OPC0709");
  CHECK(
      id(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}})",
         eight) == "OPC0710");
  for (
      const char *bad :
      {R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
       R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
       R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
       R"({"x":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", R"({"x":{"dtype":"F32","shape":[2]}})",
       R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})", R"([1,2])", R"({"x":1})",
       R"({"x":{"dtype":{"a":1}}})", R"({"x":)", R"({"x":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})",
       R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"}) {
    INFO(bad);
    CHECK(id(bad, eight) == "OPC0701");
  }
  CHECK(id(R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", eight) == "OPC0702");
  CHECK(id(R"({"x":{"dtype":"U8","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", eight) == "OPC0708");
  put(path, std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10));
  CHECK(openId(path) == "OPC0701");
}

TEST_CASE("a sharded checkpoint reads its shards and no other file", "[tensorio]") {
  Scratch s;
  const HostTensor a = iota(kFloat, Shape{2}), b = iota(kFloat, Shape{3});
  REQUIRE(writeSafetensors(s / "m-1.safetensors", {{"a", &a}}).isOk());
  REQUIRE(writeSafetensors(s / "m-2.safetensors", {{"b", &b}}).isOk());
  put(s / "m.safetensors.index.json", R"({"metadata":{},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  auto archive = openTensorArchive(s / "m.safetensors.index.json");
  REQUIRE(archive.isOk());
  CHECK(equal(*(*archive)->read("b"), b));
  for (const char *bad :
       {R"({"weight_map":{"a":"../m-1.safetensors"}})", R"({"weight_map":{"a":"/etc/passwd"}})",
        R"({"weight_map":{"a":"m-2.safetensors"}})", R"({"weight_map":{"a":1}})", R"({})", R"(nonsense)"}) {
    put(s / "m.safetensors.index.json", bad);
    CHECK(openId(s / "m.safetensors.index.json") == "OPC0701");
  }
}

TEST_CASE("directories, raw files and specifications", "[tensorio]") {
  Scratch s;
  const HostTensor a = iota(kInt32, Shape{2, 2});
  fs::create_directories(s / "d/relu0");
  REQUIRE(writeNpy(s / "d/relu0/out_0.npy", a).isOk());
  REQUIRE(writeNpy(s / "d/x:y.npy", a).isOk());
  auto directory = openTensorArchive(s / "d");
  REQUIRE(directory.isOk());
  CHECK((*directory)->contains("relu0/out_0"));
  CHECK(equal(*readTensor(s / "d:relu0/out_0"), a));
  CHECK(equal(*readTensor(s / "d/x:y.npy"), a));
  CHECK(equal(*readTensor(s / "d:x:y"), a));
  CHECK(readTensor(s / "none.npy").status().id() == "OPC0706");
  CHECK(readTensor(s / "none.npz:k").status().code() == StatusCode::kUsage);
  REQUIRE(writeRaw(s / "r.bin", a).isOk());
  CHECK(equal(*readRaw(s / "r.bin", kInt32, Shape{2, 2}), a));
  CHECK(readRaw(s / "r.bin", kInt32, Shape{2, 3}).status().id() == "OPC0702");
  put(s / "text", "hello");
  CHECK(openId(s / "text") == "OPC0701");
  put(s / "empty", "");
  CHECK(openId(s / "empty") == "OPC0701");
}

TEST_CASE("writing is all or nothing", "[tensorio]") {
  Scratch s;
  {
    AtomicFile f;
    REQUIRE(f.open(s / "x").isOk());
    REQUIRE(f.write("half", 4).isOk());
    CHECK(fs::is_empty(s.path)); // not even now: whatever kills the process leaves nothing
  } // no commit
  CHECK(fs::is_empty(s.path));
  CHECK(writeFileAtomically(s / "no/such/x", "a").id() == "OPC0707");
  CHECK(writeFileAtomically(s.path.string(), "a").id() == "OPC0707");
  put(s / "x", "one");
  put(s / "x", "two");
  CHECK(contents(s / "x") == "two");
  {
    AtomicFile f;
    REQUIRE(f.open(s / "x").isOk());
    REQUIRE(f.write("three", 5).isOk());
    CHECK(contents(s / "x") == "two");
    REQUIRE(f.commitDurably().isOk());
    CHECK(contents(s / "x") == "three");
  }
  CHECK(std::distance(fs::directory_iterator(s.path), fs::directory_iterator()) == 1);
}

TEST_CASE("A pipe that nobody reads any more takes what is written, but for what has to last", "[tensorio]") {
  std::signal(SIGPIPE, SIG_IGN); // as programs of opc do
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const std::string path = "/dev/fd/" + std::to_string(ends[1]);
  AtomicFile file, checkpoint;
  REQUIRE(file.open(path).isOk());
  REQUIRE(checkpoint.open(path).isOk());
  ::close(ends[0]);
  for (int i = 0; i < 2; ++i) CHECK(file.write("text", 4).isOk());
  CHECK(file.commit().isOk());
  CHECK(checkpoint.write("text", 4).isOk());
  CHECK(checkpoint.commitDurably().id() == "OPC0707");
  ::close(ends[1]);
}

TEST_CASE("an address tells the file that is mapped there", "[tensorio]") {
  Scratch s;
  put(s / "x", "one");
  CHECK(mappedFileAt(&s) == nullptr);
  const char *at = nullptr;
  {
    Result<FileBytes> a = FileBytes::open(s / "x");
    REQUIRE(a);
    FileBytes moved = std::move(*a);
    at = moved.view().data();
    REQUIRE(mappedFileAt(at + 2));
    CHECK(mappedFileAt(at + 2) == s / "x");
    CHECK(mappedFileAt(at + 3) == nullptr);
  }
  CHECK(mappedFileAt(at) == nullptr);
}

TEST_CASE("a tensor over the limit of this process is not read", "[tensorio]") {
  Scratch s;
  Result<HostTensor> t = HostTensor::create(kFloat, Shape{1000});
  REQUIRE(t);
  REQUIRE(writeNpz(s / "a.npz", {{"a", &*t}}).isOk());
  REQUIRE(writeNpy(s / "a.npy", *t).isOk());
  limitTensorReads(3999);
  const Result<HostTensor> archived = readTensor(s / "a.npz"), plain = readTensor(s / "a.npy");
  const Result<MappedTensor> mapped = MappedTensor::open(s / "a.npy");
  limitTensorReads(UINT64_MAX);
  CHECK(archived.status().id() == "OPC0708");
  CHECK(plain.status().id() == "OPC0708");
  CHECK(mapped.isOk()); // in place
}

TEST_CASE("Philox4x32-10 gives the published vectors", "[philox]") {
  // kat_vectors of Random123, the library of the paper.
  CHECK(Philox::generate({0, 0, 0, 0}, {0, 0}) == Philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(Philox::generate({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        Philox::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(Philox::generate({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Philox::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("fills have the distributions they promise", "[tensorio]") {
  const FillKey key{7, stableHash("w")};
  Result<HostTensor> t = HostTensor::create(kFloat, Shape{200000});
  auto moments = [&](double *mean, double *deviation, double *lowest, double *highest) {
    double sum = 0, squares = 0;
    *lowest = INFINITY, *highest = -INFINITY;
    for (int64_t i = 0; i < t->elemCount(); ++i) {
      const double v = t->as<float>()[i];
      sum += v, squares += v * v;
      *lowest = std::min(*lowest, v), *highest = std::max(*highest, v);
    }
    *mean = sum / static_cast<double>(t->elemCount());
    *deviation = std::sqrt(squares / static_cast<double>(t->elemCount()) - *mean * *mean);
  };
  double mean, deviation, lowest, highest;
  fillUniform(&*t, -2, 3, key);
  moments(&mean, &deviation, &lowest, &highest);
  CHECK(mean == Approx(0.5).margin(0.02));
  CHECK(deviation == Approx(5 / std::sqrt(12.0)).epsilon(0.01));
  CHECK((lowest >= -2 && lowest < -1.99 && highest < 3 && highest > 2.99));
  fillNormal(&*t, 1, 2, key);
  moments(&mean, &deviation, &lowest, &highest);
  CHECK(mean == Approx(1).margin(0.03));
  CHECK(deviation == Approx(2).epsilon(0.01));
  CHECK(highest > 7);
  fillTruncatedNormal(&*t, 1, 2, key);
  moments(&mean, &deviation, &lowest, &highest);
  CHECK(mean == Approx(1).margin(0.03));
  CHECK(deviation == Approx(2 * 0.87962566103423978).epsilon(0.01));
  CHECK((lowest > -3 && highest < 5));
  // The transform's own sine, cosine and logarithm against libm's.
  Result<HostTensor> d = HostTensor::create(kDouble, Shape{2000});
  fillNormal(&*d, 0, 1, key);
  for (int64_t i = 0; i < 2000; i += 2) {
    const Philox::Block b = Philox::at(key.seed, key.stream, static_cast<uint64_t>(i / 2));
    const double r = std::sqrt(-2 * std::log(1 - Philox::unitDouble(b[0], b[1]))),
                 a = 2 * M_PI * Philox::unitDouble(b[2], b[3]);
    REQUIRE(d->as<double>()[i] == Approx(r * std::cos(a)).margin(1e-12));
    REQUIRE(d->as<double>()[i + 1] == Approx(r * std::sin(a)).margin(1e-12));
  }
}

TEST_CASE("integer fills reach both ends, and the whole range", "[tensorio]") {
  Result<HostTensor> t = HostTensor::create(kInt8, Shape{5000});
  fillUniform(&*t, -2, 3, {1, 2});
  std::set<int> seen(t->as<int8_t>(), t->as<int8_t>() + 5000);
  CHECK(seen == std::set<int>{-2, -1, 0, 1, 2, 3});
  Result<HostTensor> wide = HostTensor::create(kInt64, Shape{64});
  fillUniform(&*wide, -9.3e18, 9.3e18, {1, 2});
  CHECK(std::set<int64_t>(wide->as<int64_t>(), wide->as<int64_t>() + 64).size() == 64);
  fillConstant(&*t, 1e9);
  CHECK(t->as<int8_t>()[0] == 127);
  Result<HostTensor> u = HostTensor::create(kUInt8, Shape{300});
  fillIota(&*u);
  CHECK(u->as<uint8_t>()[299] == 43);
}

TEST_CASE("tensors that cannot be are errors", "[tensorio]") {
  CHECK(HostTensor::create(kOFRecord, Shape{1}).status().id() == "OPC0709");
  CHECK(HostTensor::create(kFloat, Shape{-1}).status().id() == "OPC0708");
  CHECK(HostTensor::create(kFloat, Shape{int64_t{1} << 40, int64_t{1} << 40}).status().id() == "OPC0708");
  CHECK(HostTensor::create(kFloat, Shape(DimVector(21, 1))).status().id() == "OPC0708");
  Result<HostTensor> t = HostTensor::create(kFloat, Shape{0, int64_t{1} << 62, 8});
  REQUIRE(t.isOk());
  CHECK(t->bytes() == 0);
  CHECK(checkTensor(*t, user_op::TensorDesc(Shape{1}, kFloat), "input 'x'").id() == "OPC0704");
  CHECK(checkTensor(*t, user_op::TensorDesc(Shape{1}, kDouble), "input 'x'").id() == "OPC0703");
}

} // namespace
