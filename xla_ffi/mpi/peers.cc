#include "xla_ffi/mpi/peers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>

#include "rdma_engine/base/clock.h"
#include "rdma_engine/base/narrow.h"

namespace jaxina::mpi {
namespace {

constexpr std::uint64_t kMagic = 0x6a61786970656572;  // another byte order reads another number, and is refused
constexpr std::size_t kMaxStrangers = 64;
constexpr Nanoseconds kLook = 200'000'000;  // how often who waits looks whether the other has ended
constexpr std::size_t kPiece = 1 << 20;     // read at once, so that all peers get their turn

struct Hello {
  std::uint64_t magic, secret, rank;
};
struct Header {
  std::uint64_t channel, bytes;
};

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::kSystem, what + ": " + std::strerror(errno));
}

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

std::string process(int rank) { return "process " + std::to_string(rank); }

}  // namespace

struct Peers::Receive {
  Key key;
  std::byte* data;
  std::size_t bytes;
  bool done = false;
  Status status;
};

struct Peers::Link {
  int fd = -1;
  bool lost = false;
  std::mutex sending;
  // The message that is arriving.
  Header header{};
  std::size_t header_read = 0;
  bool in_message = false;
  std::size_t read = 0;
  std::shared_ptr<Receive> into;  // else into `held`
  std::vector<std::byte> held;

  ~Link() {
    if (fd >= 0) close(fd);
  }
};

Peers::Peers(int rank, const std::string& host) : rank_(rank) {
  const Address any = address_of(host, 0);
  listener_ = socket(any.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  wakeup_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (listener_ < 0 || wakeup_ < 0) fail("socket");
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  if (bind(listener_, any.get(), any.length) != 0 || listen(listener_, 1024) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    fail("cannot listen at " + host);
  }
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
  for (const auto& [fd, said] : strangers_) close(fd);
  close(listener_);
  close(wakeup_);
}

void Peers::meet(std::vector<Endpoint> by_rank, Nanoseconds timeout, std::function<bool(int)> ended) {
  endpoints_ = std::move(by_rank);
  timeout_ = timeout;
  ended_ = std::move(ended);
}

std::shared_ptr<Peers::Receive> Peers::post(int from, std::uint64_t channel, void* data, std::size_t bytes) {
  auto receive = std::make_shared<Receive>();
  receive->key = {from, channel};
  receive->data = static_cast<std::byte*>(data);
  receive->bytes = bytes;
  if (from != rank_) reach(from);
  const std::lock_guard lock(mutex_);
  auto& early = arrived_[receive->key];
  if (early.empty()) {
    posted_[receive->key].push_back(receive);
    return receive;
  }
  const std::vector<std::byte> message = std::move(early.front());
  early.pop_front();
  receive->done = true;
  if (message.size() == bytes) {
    std::copy(message.begin(), message.end(), receive->data);
  } else {
    receive->status = {ErrorCode::kMismatch, process(from) + " sends " + std::to_string(message.size()) + " bytes where " +
                                                 std::to_string(bytes) +
                                                 " are expected: check that every process runs the same program"};
  }
  return receive;
}

void Peers::wait(const std::shared_ptr<Receive>& receive) {
  const Nanoseconds deadline = now() + timeout_;
  const int from = receive->key.first;
  std::unique_lock lock(mutex_);
  try {
    while (!receive->done) {
      const auto link = links_.find(from);
      if (link != links_.end() && link->second->lost) {
        throw Error(ErrorCode::kWorkerLost, process(from) + " ended while it was needed for a message");
      }
      if (changed_.wait_for(lock, std::chrono::nanoseconds(kLook)) == std::cv_status::timeout) {
        check_alive(from, deadline, "sent nothing");
      }
    }
  } catch (const Error&) {
    withdraw(receive, lock);
    throw;
  }
  if (!receive->status.ok()) throw Error(receive->status);
}

void Peers::abandon(const std::shared_ptr<Receive>& receive) {
  std::unique_lock lock(mutex_);
  withdraw(receive, lock);
}

// With mutex_ held, by `lock`. A message that is arriving in its memory is broken off, and the connection with it.
void Peers::withdraw(const std::shared_ptr<Receive>& receive, std::unique_lock<std::mutex>& lock) {
  auto& waiting = posted_[receive->key];
  waiting.erase(std::remove(waiting.begin(), waiting.end(), receive), waiting.end());
  const auto link = links_.find(receive->key.first);
  if (link == links_.end() || link->second->into != receive) return;
  shutdown(link->second->fd, SHUT_RDWR);
  changed_.wait(lock, [&] { return link->second->into != receive; });
}

void Peers::send(int to, std::uint64_t channel, const void* data, std::size_t bytes) {
  if (to == rank_) {
    const auto* first = static_cast<const std::byte*>(data);
    deliver(to, channel, {first, first + bytes});
    return;
  }
  Link& link = reach(to);
  const Nanoseconds deadline = now() + timeout_;
  Header header{channel, bytes};
  const std::lock_guard sending(link.sending);
  std::size_t sent = 0;
  while (sent < sizeof(header) + bytes) {
    iovec parts[2];
    int count = 0;
    if (sent < sizeof(header)) parts[count++] = {reinterpret_cast<std::byte*>(&header) + sent, sizeof(header) - sent};
    const std::size_t of_data = sent < sizeof(header) ? 0 : sent - sizeof(header);
    if (bytes > of_data) {
      parts[count++] = {const_cast<std::byte*>(static_cast<const std::byte*>(data)) + of_data, bytes - of_data};
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<std::size_t>(count);
    const ssize_t written = sendmsg(link.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written >= 0) {
      sent += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      pollfd room{link.fd, POLLOUT, 0};
      if (poll(&room, 1, narrow<int>(kLook / 1'000'000)) == 0) check_alive(to, deadline, "takes nothing");
    } else if (errno != EINTR) {
      throw Error(ErrorCode::kWorkerLost, process(to) + " ended while a message was sent to it: " + std::strerror(errno));
    }
  }
}

void Peers::check_alive(int rank, Nanoseconds deadline, const char* what) const {
  if (ended_ && ended_(rank)) throw Error(ErrorCode::kWorkerLost, process(rank) + " ended while it was needed for a message");
  if (now() >= deadline) {
    throw Error(ErrorCode::kTimeout, process(rank) + " " + what + " for " + std::to_string(timeout_ / 1'000'000'000) +
                                         " s: if it only computes long, raise JAXINA_TIMEOUT");
  }
}

Peers::Link& Peers::reach(int rank) {
  const Nanoseconds deadline = now() + timeout_;
  std::unique_lock lock(mutex_);
  if (rank < 0 || static_cast<std::size_t>(rank) >= endpoints_.size()) {
    throw Error(ErrorCode::kInvalidArgument, "there is no " + process(rank));
  }
  while (!links_.contains(rank)) {
    if (rank_ < rank) {
      lock.unlock();
      connect_to(rank, deadline);
      lock.lock();
    } else if (changed_.wait_for(lock, std::chrono::nanoseconds(kLook)) == std::cv_status::timeout) {
      check_alive(rank, deadline, "did not connect");
    }
  }
  return *links_.at(rank);
}

void Peers::connect_to(int rank, Nanoseconds deadline) {
  const Endpoint& theirs = endpoints_[static_cast<std::size_t>(rank)];
  const Address address = address_of(theirs.host, theirs.port);
  const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) fail("socket");
  int error = 0;
  if (connect(fd, address.get(), address.length) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      pollfd done{fd, POLLOUT, 0};
      poll(&done, 1, narrow<int>(std::max<Nanoseconds>(0, deadline - now()) / 1'000'000));
      socklen_t length = sizeof(error);
      if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    }
  }
  const Hello hello{kMagic, theirs.secret, static_cast<std::uint64_t>(rank_)};
  if (error == 0 && ::send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) error = errno ? errno : EIO;
  if (error != 0) {
    close(fd);
    throw Error(ErrorCode::kWorkerLost, process(rank) + " takes no connection at " + theirs.host + ":" +
                                            std::to_string(theirs.port) + ": " + std::strerror(error));
  }
  const std::lock_guard lock(mutex_);
  adopt(rank, fd);
}

// With mutex_ held. A second connection of a pair is not needed: two threads may have connected at once.
void Peers::adopt(int rank, int fd) {
  if (links_.contains(rank)) {
    close(fd);
    return;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  auto link = std::make_unique<Link>();
  link->fd = fd;
  links_[rank] = std::move(link);
  changed_.notify_all();
  wake();
}

void Peers::deliver(int from, std::uint64_t channel, std::vector<std::byte> message) {
  const std::lock_guard lock(mutex_);
  arrived_[{from, channel}].push_back(std::move(message));
  changed_.notify_all();
}

void Peers::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wakeup_, &one, sizeof(one));
}

// ---- the thread

void Peers::run() {
  std::vector<pollfd> watched;
  std::vector<int> ranks;  // of the watched, from the third on; -1: a stranger
  while (true) {
    watched = {{wakeup_, POLLIN, 0}, {listener_, POLLIN, 0}};
    ranks.clear();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      for (const auto& [rank, link] : links_) {
        if (link->lost) continue;
        watched.push_back({link->fd, POLLIN, 0});
        ranks.push_back(rank);
      }
    }
    for (const auto& [fd, said] : strangers_) {
      watched.push_back({fd, POLLIN, 0});
      ranks.push_back(-1);
    }
    poll(watched.data(), watched.size(), -1);
    std::uint64_t count;
    if (watched[0].revents != 0) [[maybe_unused]] const ssize_t got = read(wakeup_, &count, sizeof(count));
    if (watched[1].revents != 0) accept_one();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (watched[i + 2].revents == 0) continue;
      if (ranks[i] < 0) {
        if (!read_hello(watched[i + 2].fd)) {
          strangers_.erase(watched[i + 2].fd);
          close(watched[i + 2].fd);
        }
        continue;
      }
      Link* link;
      {
        const std::lock_guard lock(mutex_);
        link = links_.at(ranks[i]).get();
      }
      bool goes_on = false;
      try {
        goes_on = read_from(ranks[i], *link);
      } catch (const std::bad_alloc&) {  // for a message that nobody waits for yet
      }
      if (!goes_on) lose(*link);
    }
  }
}

void Peers::accept_one() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  if (strangers_.size() >= kMaxStrangers) {
    close(fd);
    return;
  }
  strangers_[fd];
}

// False if the connection is not one of the job's. One that is becomes a link.
bool Peers::read_hello(int fd) {
  std::vector<std::byte>& said = strangers_.at(fd);
  std::byte part[sizeof(Hello)];
  const ssize_t got = recv(fd, part, sizeof(Hello) - said.size(), 0);
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  said.insert(said.end(), part, part + got);
  if (said.size() < sizeof(Hello)) return true;
  Hello hello;
  std::memcpy(&hello, said.data(), sizeof(hello));
  if (hello.magic != kMagic || hello.secret != own_.secret || hello.rank >= static_cast<std::uint64_t>(rank_)) return false;
  strangers_.erase(fd);
  const std::lock_guard lock(mutex_);
  adopt(static_cast<int>(hello.rank), fd);
  return true;
}

// Takes what has arrived, up to a piece. False if the connection has ended.
bool Peers::read_from(int rank, Link& link) {
  std::size_t budget = kPiece;
  while (budget > 0) {
    std::byte* to;
    std::size_t room;
    if (!link.in_message) {
      to = reinterpret_cast<std::byte*>(&link.header) + link.header_read;
      room = sizeof(Header) - link.header_read;
    } else {
      to = (link.into ? link.into->data : link.held.data()) + link.read;
      room = static_cast<std::size_t>(link.header.bytes) - link.read;
    }
    if (room > 0) {
      const ssize_t got = recv(link.fd, to, std::min(room, budget), MSG_DONTWAIT);
      if (got == 0) return false;
      if (got < 0) return errno == EAGAIN || errno == EINTR;
      budget -= static_cast<std::size_t>(got);
      (link.in_message ? link.read : link.header_read) += static_cast<std::size_t>(got);
    }
    if (!link.in_message && link.header_read == sizeof(Header)) {
      begin_message(rank, link);
    } else if (link.in_message && link.read == link.header.bytes) {
      end_message(rank, link);
    }
  }
  return true;
}

void Peers::begin_message(int rank, Link& link) {
  const std::lock_guard lock(mutex_);
  link.in_message = true;
  link.header_read = link.read = 0;
  auto& waiting = posted_[{rank, link.header.channel}];
  if (!waiting.empty() && waiting.front()->bytes == link.header.bytes) {
    link.into = waiting.front();
    waiting.pop_front();
  } else {
    link.held.resize(link.header.bytes);
  }
}

void Peers::end_message(int rank, Link& link) {
  const std::lock_guard lock(mutex_);
  link.in_message = false;
  if (link.into) {
    link.into->done = true;
    link.into.reset();
  } else {
    const Key key{rank, link.header.channel};
    auto& waiting = posted_[key];
    if (waiting.empty()) {
      arrived_[key].push_back(std::move(link.held));
    } else {
      const std::shared_ptr<Receive> receive = waiting.front();
      waiting.pop_front();
      receive->done = true;
      if (receive->bytes == link.held.size()) {
        std::copy(link.held.begin(), link.held.end(), receive->data);
      } else {
        receive->status = {ErrorCode::kMismatch,
                           process(rank) + " sends " + std::to_string(link.held.size()) + " bytes where " +
                               std::to_string(receive->bytes) +
                               " are expected: check that every process runs the same program"};
      }
    }
    link.held = {};
  }
  changed_.notify_all();
}

void Peers::lose(Link& link) {
  const std::lock_guard lock(mutex_);
  link.lost = true;
  link.into.reset();
  changed_.notify_all();
}

}  // namespace jaxina::mpi
