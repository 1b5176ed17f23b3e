// The connections of Peers: where a process listens, and how it reaches the others.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>

#include "rdma_engine/base/clock.h"
#include "rdma_engine/net/interfaces.h"
#include "xla_ffi/mpi/peers_parts.h"

namespace jaxina::mpi {
namespace {

constexpr char kTakesNoConnection[] = "takes no connection";

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kSystem, what + ": " + std::strerror(errno)); }

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Address address_of(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found)) {
    throw Error(ErrorCode::kInvalidArgument, host + " is not a numeric address: " + gai_strerror(error));
  }
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

int new_event() {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) fail("eventfd");
  return fd;
}

// Listens at the first of the ports at which nobody else does.
int listen_at(const std::string& host, const std::vector<std::uint16_t>& ports) {
  for (const std::uint16_t port : ports.empty() ? std::vector<std::uint16_t>{0} : ports) {
    const Address any = address_of(host, port);
    const int fd = socket(any.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) fail("socket");
    if (bind(fd, any.get(), any.length) == 0 && listen(fd, 1024) == 0) return fd;
    const int error = errno;
    close(fd);
    errno = error;
    if (error != EADDRINUSE) break;
  }
  fail("cannot listen at " + net::interface_of(host) +
       (ports.empty()
            ? ""
            : ", ports " + std::to_string(ports.front()) + "-" + std::to_string(ports.back()) + " (JAXINA_PORTS)"));
}

}  // namespace

Peers::Link::~Link() {
  if (fd >= 0) close(fd);
}

Peers::Peers(int rank, const std::string& host, const std::vector<std::uint16_t>& ports)
    : rank_(rank), wakeup_(new_event()), listener_(listen_at(host, ports)) {
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  if (getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) fail("getsockname");
  own_.host = host;
  own_.port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                                : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
  if (getrandom(&own_.secret, sizeof(own_.secret), 0) != sizeof(own_.secret)) fail("getrandom");
  thread_ = std::thread([this] { run(); });
}

Peers::~Peers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
  for (const Stranger& stranger : strangers_) close(stranger.fd);
}

void Peers::meet(std::vector<Endpoint> by_rank, Nanoseconds timeout, std::function<bool(int)> ended) {
  endpoints_ = std::move(by_rank);
  timeout_ = timeout;
  ended_ = std::move(ended);
}

Peers::Link* Peers::connected(int rank) {
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(rank);
  return found == links_.end() ? nullptr : found->second.get();
}

Peers::Link& Peers::reach(int rank) {
  const Nanoseconds deadline = now() + timeout_;
  std::unique_lock lock(mutex_);
  if (rank < 0 || static_cast<std::size_t>(rank) >= endpoints_.size()) {
    throw Error(ErrorCode::kInvalidArgument, "there is no " + process(rank));
  }
  while (!links_.contains(rank)) {
    if (rank_ < rank && !connecting_.contains(rank)) {
      connect_to(rank, deadline, lock);
    } else {
      wait_for_change(lock, rank, deadline, rank_ < rank ? kTakesNoConnection : "did not connect");
    }
  }
  return *links_.at(rank);
}

// `lock` holds mutex_, but not while this waits for the other process. Other threads must not connect meanwhile: of two
// connections, the other process might keep the one that this process closes.
void Peers::connect_to(int rank, Nanoseconds deadline, std::unique_lock<std::mutex>& lock) {
  connecting_.insert(rank);
  lock.unlock();
  std::unique_ptr<Link> link;
  std::exception_ptr failure;
  try {
    link = new_link(rank, deadline);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  connecting_.erase(rank);
  changed_.notify_all();  // if it failed, another thread may try
  if (failure) std::rethrow_exception(failure);
  adopt(rank, std::move(link));
}

// Connects to the process and says Hello.
std::unique_ptr<Peers::Link> Peers::new_link(int rank, Nanoseconds deadline) const {
  const Endpoint& theirs = endpoints_[static_cast<std::size_t>(rank)];
  const Address address = address_of(theirs.host, theirs.port);
  auto link = std::make_unique<Link>(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (link->fd < 0) fail("socket");
  int error = connect(link->fd, address.get(), address.length) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    while (!can_write(link->fd)) check_alive(rank, deadline, kTakesNoConnection);
    socklen_t length = sizeof(error);
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  }
  const Hello hello{Hello::kMagic, theirs.secret, static_cast<std::uint64_t>(rank_)};
  if (error == 0 && ::send(link->fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) error = errno ? errno : EIO;
  if (error == 0) return link;
  throw Error(ErrorCode::kWorkerLost, process(rank) + " takes no connection at " + theirs.host + ":" +
                                          std::to_string(theirs.port) + ": " + std::strerror(error));
}

// Makes this the link to the process. The caller must hold mutex_. If there is a link already, this one is closed.
void Peers::adopt(int rank, std::unique_ptr<Link> link) {
  if (links_.contains(rank)) return;
  const int on = 1;
  setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (notice_ && ::send(link->fd, notice_.get(), sizeof(Header), MSG_NOSIGNAL) != sizeof(Header)) {
    shutdown(link->fd, SHUT_RDWR);
  }
  links_[rank] = std::move(link);
  changed_.notify_all();
  wake();
}

void Peers::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wakeup_.get(), &one, sizeof(one));
}

}  // namespace jaxina::mpi
