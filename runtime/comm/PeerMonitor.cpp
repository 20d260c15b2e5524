// Who of a job of processes is alive: sockets between rank 0 and the others, which the system closes when a process
// dies.
// SPDX-License-Identifier: Apache-2.0
#include "PeerMonitor.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <random>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace opc::runtime {
namespace {

using Clock = std::chrono::steady_clock;
int64_t milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch()).count();
}

/// What precedes each message's text.
struct Frame {
  char type = 0; // 'P' are you there, 'p' yes, 'E' a rank is gone, 'F' a rank has failed, 'B' goodbye
  int32_t rank = 0;
  uint32_t length = 0;
};
constexpr uint32_t kLongestText = 1 << 16;
constexpr size_t kAddresses = 8;

/// The same number where one loopback interface is shared: one boot, one network namespace.
uint64_t hostIdentity() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  char link[128];
  const ssize_t n = readlink("/proc/self/ns/net", link, sizeof link);
  if (n > 0) text.append(link, static_cast<size_t>(n));
  return std::hash<std::string>()(text);
}

bool connectWithin(int socket, uint32_t address, uint16_t port, int timeoutMs) {
  sockaddr_in to{};
  to.sin_family = AF_INET, to.sin_addr.s_addr = address, to.sin_port = port;
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  if (::connect(socket, reinterpret_cast<sockaddr *>(&to), sizeof to) != 0) {
    if (errno != EINPROGRESS) return false;
    pollfd p{socket, POLLOUT, 0};
    int error = 0;
    socklen_t length = sizeof error;
    if (poll(&p, 1, timeoutMs) != 1 || getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0)
      return false;
  }
  return true;
}

bool receiveExactly(int socket, void *data, size_t bytes, int timeoutMs) {
  for (size_t done = 0; done < bytes;) {
    pollfd p{socket, POLLIN, 0};
    if (poll(&p, 1, timeoutMs) != 1) return false;
    const ssize_t n = recv(socket, static_cast<char *>(data) + done, bytes - done, 0);
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

/// What each rank tells the others at the start.
struct Card {
  uint64_t host = 0, cookie = 0;
  uint32_t addresses[kAddresses] = {};
  uint16_t port = 0, count = 0;
  int32_t process = 0;
  char hostName[64] = {};
};

/// What a rank says first when it connects to rank 0.
struct Hello {
  uint64_t cookie = 0;
  int64_t rank = 0;
};

/// A descriptor that is closed at the end of its scope unless it is released.
struct Descriptor {
  explicit Descriptor(int fd) : fd(fd) {}
  Descriptor(const Descriptor &) = delete;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  int release() { return std::exchange(fd, -1); }
  int fd;
};

/// Rank 0's ear, on a port that the card tells; the card's port stays 0 when there is none.
int listenAs(int64_t ranks, Card *card) {
  card->cookie = (static_cast<uint64_t>(std::random_device()()) << 32) | std::random_device()();
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET, any.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof any;
  if (listener >= 0 && bind(listener, reinterpret_cast<sockaddr *>(&any), sizeof any) == 0 &&
      listen(listener, static_cast<int>(std::min<int64_t>(ranks, 4096))) == 0 &&
      getsockname(listener, reinterpret_cast<sockaddr *>(&any), &length) == 0)
    card->port = any.sin_port;
  if (ifaddrs *all = nullptr; getifaddrs(&all) == 0) {
    for (ifaddrs *i = all; i; i = i->ifa_next)
      if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) &&
          !(i->ifa_flags & IFF_LOOPBACK) && card->count < kAddresses)
        card->addresses[card->count++] = reinterpret_cast<sockaddr_in *>(i->ifa_addr)->sin_addr.s_addr;
    freeifaddrs(all);
  }
  return listener;
}

/// A connection to rank 0; -1 when none of its addresses answers.
int reach(const Card &center, uint64_t host, int64_t rank) {
  std::vector<uint32_t> addresses(center.addresses, center.addresses + std::min<size_t>(center.count, kAddresses));
  if (center.host == host) addresses.insert(addresses.begin(), htonl(INADDR_LOOPBACK));
  for (const uint32_t a : addresses) {
    Descriptor s(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Hello hello{center.cookie, rank};
    if (s.fd >= 0 && center.port && connectWithin(s.fd, a, center.port, 3000) &&
        ::send(s.fd, &hello, sizeof hello, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof hello))
      return s.release();
  }
  return -1;
}

/// The connections of all other ranks, by rank; those who do not come stay -1. A stranger who connects and says nothing
/// costs a second; the ranks come at once.
std::vector<int> acceptAll(int listener, uint64_t cookie, int64_t ranks) {
  std::vector<int> sockets(static_cast<size_t>(ranks), -1);
  const int64_t deadline = milliseconds() + 10000;
  for (int64_t missing = ranks - 1; missing > 0;) {
    pollfd p{listener, POLLIN, 0};
    const int64_t left = deadline - milliseconds();
    if (left <= 0 || poll(&p, 1, static_cast<int>(left)) != 1) break;
    Descriptor s(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    Hello hello;
    if (s.fd < 0 || !receiveExactly(s.fd, &hello, sizeof hello, 1000) || hello.cookie != cookie || hello.rank <= 0 ||
        hello.rank >= ranks || sockets[static_cast<size_t>(hello.rank)] >= 0)
      continue;
    fcntl(s.fd, F_SETFL, fcntl(s.fd, F_GETFL) | O_NONBLOCK);
    sockets[static_cast<size_t>(hello.rank)] = s.release();
    --missing;
  }
  return sockets;
}

} // namespace

PeerMonitor::PeerMonitor(int64_t rank, int64_t size, PeerMonitorOptions options)
    : rank_(rank), size_(size), options_(std::move(options)), peers_(rank == 0 ? static_cast<size_t>(size) : 1),
      left_(static_cast<size_t>(size)), heard_(peers_.size()) {}

Result<std::unique_ptr<PeerMonitor>> PeerMonitor::create(int64_t rank, int64_t size, const Gather &gather,
                                                         PeerMonitorOptions options) {
  std::unique_ptr<PeerMonitor> m(new PeerMonitor(rank, size, std::move(options)));
  if (pipe2(m->wake_, O_CLOEXEC | O_NONBLOCK) != 0)
    return Status(StatusCode::kExecution, "OPC0724", "peer monitor: no pipe: " + std::string(std::strerror(errno)));
  OPC_RETURN_IF_ERROR(m->connect(gather));
  for (auto &h : m->heard_) h = milliseconds();
  m->thread_ = std::thread([p = m.get()] { p->watch(); });
  return m;
}

Status PeerMonitor::connect(const Gather &gather) {
  Card mine;
  mine.host = hostIdentity(), mine.process = getpid();
  gethostname(mine.hostName, sizeof mine.hostName - 1);
  const Descriptor listener(rank_ == 0 ? listenAs(size_, &mine) : -1);
  std::vector<Card> cards(static_cast<size_t>(size_));
  OPC_RETURN_IF_ERROR(gather(&mine, sizeof mine, cards.data()));
  for (int64_t r = 0; r < size_; ++r) {
    Card &card = cards[static_cast<size_t>(r)];
    card.hostName[sizeof card.hostName - 1] = 0;
    names_.push_back("rank " + std::to_string(r) + " (process " + std::to_string(card.process) + " on " +
                     card.hostName + ")");
  }
  char ok = 1;
  if (rank_ != 0) {
    peers_[0].socket = reach(cards[0], mine.host, rank_);
    ok = peers_[0].socket >= 0;
  } else if (mine.port == 0) {
    ok = 0;
  } else {
    const std::vector<int> sockets = acceptAll(listener.fd, mine.cookie, size_);
    for (size_t r = 1; r < sockets.size(); ++r) {
      peers_[r].socket = sockets[r];
      ok = ok && sockets[r] >= 0;
    }
  }
  for (Peer &p : peers_) {
    const int yes = 1;
    if (p.socket >= 0) setsockopt(p.socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
  std::vector<char> all(static_cast<size_t>(size_));
  OPC_RETURN_IF_ERROR(gather(&ok, 1, all.data()));
  if (std::find(all.begin(), all.end(), 0) != all.end())
    return Status(StatusCode::kExecution, "OPC0724", "peer monitor: some rank cannot reach rank 0 by TCP");
  return Status::ok();
}

PeerMonitor::~PeerMonitor() {
  sayGoodbye();
  stopping_ = true;
  noteTermination(); // wakes the thread
  if (thread_.joinable()) thread_.join();
  for (const Peer &p : peers_)
    if (p.socket >= 0) close(p.socket);
  for (const int end : wake_)
    if (end >= 0) close(end);
}

std::string PeerMonitor::nameOf(int64_t rank) const { return names_[static_cast<size_t>(rank)]; }

void PeerMonitor::noteTermination() {
  const int saved = errno;
  const char t = 'T';
  [[maybe_unused]] const ssize_t n = write(wake_[1], &t, 1);
  errno = saved;
}

void PeerMonitor::announceFailure(const std::string &reason) {
  if (ended_.exchange(true)) return; // they know already
  sendToOthers('F', rank_, nameOf(rank_) + " has failed: " + reason, -1);
}

void PeerMonitor::sayGoodbye() {
  if (goodbye_.exchange(true) || !thread_.joinable()) return;
  sendToOthers('B', rank_, "", -1);
}

std::string PeerMonitor::silentRanks() const {
  std::string s;
  std::lock_guard<std::mutex> guard(sending_);
  const int64_t now = milliseconds(), limit = 3 * options_.ping.count();
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].socket < 0 || hasLeft(rankOf(i)) || now - heard_[i] < limit) continue;
    s += (s.empty() ? "" : ", ") + nameOf(rankOf(i)) + " has not answered for " +
         std::to_string((now - heard_[i]) / 1000) + " s";
  }
  return s;
}

void PeerMonitor::send(size_t peer, char type, int64_t rank, const std::string &text) {
  if (peers_[peer].socket < 0) return;
  const Frame frame{type, static_cast<int32_t>(rank), std::min(static_cast<uint32_t>(text.size()), kLongestText)};
  std::string bytes(reinterpret_cast<const char *>(&frame), sizeof frame);
  bytes.append(text, 0, frame.length);
  // Small, and the sockets are empty: what does not fit goes to nobody who still reads.
  [[maybe_unused]] const ssize_t n =
      ::send(peers_[peer].socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void PeerMonitor::sendToOthers(char type, int64_t rank, const std::string &text, int64_t except) {
  std::lock_guard<std::mutex> guard(sending_);
  for (size_t i = 0; i < peers_.size(); ++i)
    if (rankOf(i) != except && rankOf(i) != rank_) send(i, type, rank, text);
}

void PeerMonitor::end(RankReport::Kind kind, int64_t rank, const std::string &reason) {
  if (ended_.exchange(true)) return;
  if (options_.onEnd) options_.onEnd({kind, rank, "OPC0721", reason});
}

void PeerMonitor::handle(size_t peer, char type, int64_t rank, const std::string &text) {
  heard_[peer] = milliseconds();
  switch (type) {
  case 'P': {
    std::lock_guard<std::mutex> guard(sending_);
    send(peer, 'p', rank_, "");
    return;
  }
  case 'B':
    if (rank >= 0 && rank < size_) left_[static_cast<size_t>(rank)] = true;
    if (rank_ == 0) sendToOthers('B', rank, "", rank);
    return;
  case 'E':
  case 'F':
    if (rank_ == 0) sendToOthers(type, rank, text, rank);
    end(type == 'F' ? RankReport::Kind::kFailed : RankReport::Kind::kGone, rank, text);
    return;
  default: return;
  }
}

void PeerMonitor::readFrom(size_t peer) {
  Peer &p = peers_[peer];
  char buffer[4096];
  const ssize_t n = recv(p.socket, buffer, sizeof buffer, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) {
    p.received.append(buffer, static_cast<size_t>(n));
    for (Frame f; p.received.size() >= sizeof f;) {
      std::memcpy(&f, p.received.data(), sizeof f);
      if (f.length > kLongestText) f.length = 0;
      if (p.received.size() < sizeof f + f.length) break;
      const std::string text = p.received.substr(sizeof f, f.length);
      p.received.erase(0, sizeof f + f.length);
      handle(peer, f.type, f.rank, text);
    }
    return;
  }
  // The system has closed it.
  {
    std::lock_guard<std::mutex> guard(sending_);
    close(p.socket);
    p.socket = -1;
  }
  const int64_t rank = rankOf(peer);
  if (hasLeft(rank) || goodbye_) return;
  const std::string reason = nameOf(rank) + " is gone: it was killed, has crashed, or its machine cannot be reached";
  if (rank_ == 0) sendToOthers('E', rank, reason, rank);
  end(RankReport::Kind::kGone, rank, reason);
}

void PeerMonitor::watch() {
  int64_t nextPing = milliseconds() + options_.ping.count(), termination = 0;
  std::vector<pollfd> fds;
  std::vector<size_t> of;
  while (!stopping_) {
    fds.assign(1, {wake_[0], POLLIN, 0});
    of.assign(1, 0);
    for (size_t i = 0; i < peers_.size(); ++i)
      if (peers_[i].socket >= 0) fds.push_back({peers_[i].socket, POLLIN, 0}), of.push_back(i);
    const int64_t now = milliseconds();
    int64_t wait = rank_ == 0 ? nextPing - now : 60000;
    if (termination) wait = std::min(wait, termination + options_.grace.count() - now);
    poll(fds.data(), fds.size(), static_cast<int>(std::max<int64_t>(wait, 0)));
    if (stopping_) return;
    if (fds[0].revents) {
      char drain[64];
      while (read(wake_[0], drain, sizeof drain) > 0) {
      }
      if (!termination) termination = milliseconds();
    }
    for (size_t i = 1; i < fds.size(); ++i)
      if (fds[i].revents) readFrom(of[i]);
    if (termination && milliseconds() - termination >= options_.grace.count()) {
      end(RankReport::Kind::kGone, rank_, "this process was asked to end (SIGTERM)");
      termination = 0;
    }
    if (rank_ == 0 && milliseconds() >= nextPing) {
      sendToOthers('P', 0, "", -1);
      nextPing = milliseconds() + options_.ping.count();
    }
  }
}

} // namespace opc::runtime
