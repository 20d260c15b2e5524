// Files that people write about their machines: settings (TOML) and clusters (JSON).
// SPDX-License-Identifier: Apache-2.0
#include "FuzzTargets.h"

#include "Cluster.h"
#include "Config.h"
#include "PrintableText.h"

#include <chrono>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace opc::fuzz {

namespace {

/// Neither reader has work for a second with the few kilobytes that the fuzzer gives: what takes longer looks through
/// what it has for each thing that comes.
class Deadline {
public:
  explicit Deadline(const char *target) : target_(target), start_(std::chrono::steady_clock::now()) {}
  ~Deadline() {
    if (std::chrono::steady_clock::now() - start_ > std::chrono::seconds(5)) violated(target_, "took five seconds");
  }

private:
  const char *target_;
  std::chrono::steady_clock::time_point start_;
};

} // namespace

void fuzzSettings(std::string_view bytes) {
  const Deadline deadline("settings");
  const int fd = memfd_create("fuzz", 0);
  if (fd < 0 || ::fchmod(fd, 0600) != 0 ||
      ::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    violated("settings", "no file can be made");
  const Result<cli::Config> config = cli::Config::load("", "/proc/self/fd/" + std::to_string(fd));
  ::close(fd);
  if (!config) return expectProperError("settings", config.status());
  for (const cli::ConfigValue &v : config->values())
    if (!v.key || v.origin.empty() || (v.values.empty() && v.key->kind != cli::ConfigKey::Kind::kList))
      violated("settings", "a setting without a value or an origin");
  for (const cli::ToleranceRule &r : config->tolerances())
    if ((r.rtol && !(*r.rtol >= 0)) || (r.atol && !(*r.atol >= 0))) violated("settings", "a tolerance below zero");
}

void fuzzCluster(std::string_view bytes) {
  const Deadline deadline("cluster");
  const Result<simulate::ClusterDescription> cluster = simulate::parseCluster(bytes, "fuzz.json");
  if (!cluster) return expectProperError("cluster", cluster.status());
  if (printableName(cluster->name) != cluster->name) violated("cluster", "a name that a terminal obeys");
  // What was understood can be written, and says the same when it is read again.
  const std::string text = simulate::clusterText(*cluster);
  const Result<simulate::ClusterDescription> again = simulate::parseCluster(text, "fuzz.json");
  if (!again) violated("cluster", "what was written cannot be read: " + again.status().toString());
  if (simulate::clusterText(*again) != text) violated("cluster", "it is another one after it was written and read");
}

} // namespace opc::fuzz
