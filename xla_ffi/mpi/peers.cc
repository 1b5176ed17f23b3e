// The callers' side of Peers: connecting, sending, and waiting for messages. peers_receive.cc has the receiving thread.
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

#include "rdma_engine/aggregator/mismatch.h"
#include "rdma_engine/base/clock.h"
#include "rdma_engine/base/narrow.h"
#include "rdma_engine/net/interfaces.h"
#include "xla_ffi/mpi/peers_parts.h"

namespace jaxina::mpi {
namespace {

const std::string kAdvice{kRunTheSame};
constexpr Nanoseconds kLook = 200'000'000;  // how often a waiting thread checks whether the other process has ended

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

// Waits until the socket can be written to or has an error to report, for kLook at most. Returns whether it is so.
bool can_write(int fd) {
  pollfd one{fd, POLLOUT, 0};
  return poll(&one, 1, narrow<int>(kLook / 1'000'000)) > 0;
}

// Writes what the socket takes of a message, of which `sent` bytes are written. Returns how many bytes it was, or 0 if
// the socket takes nothing now.
std::size_t write_part(int to, int fd, const Header& header, const void* data, std::size_t sent) {
  const auto bytes = static_cast<std::size_t>(header.bytes);
  iovec parts[2];
  int count = 0;
  if (sent < sizeof(header)) {
    parts[count++] = {reinterpret_cast<std::byte*>(const_cast<Header*>(&header)) + sent, sizeof(header) - sent};
  }
  const std::size_t of_data = sent < sizeof(header) ? 0 : sent - sizeof(header);
  if (bytes > of_data) {
    parts[count++] = {const_cast<std::byte*>(static_cast<const std::byte*>(data)) + of_data, bytes - of_data};
  }
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<std::size_t>(count);
  const ssize_t written = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written >= 0) return static_cast<std::size_t>(written);
  if (errno == EAGAIN || errno == EINTR) return 0;
  throw Error(ErrorCode::kWorkerLost, "the connection to " + process(to) + " ended while a message was sent: " +
                                          std::strerror(errno) + "; see that process's output");
}

}  // namespace

Peers::Link::~Link() {
  if (fd >= 0) close(fd);
}

Status Peers::Receive::check(std::uint64_t its_name, std::size_t its_bytes) const {
  if (its_name != name) {
    return {ErrorCode::kMismatch,
            process(key.first) + " is in another program than this process, or at another call of it" + kAdvice};
  }
  if (its_bytes == bytes) return {};
  return {ErrorCode::kMismatch, process(key.first) + " sends " + std::to_string(its_bytes) + " bytes where " +
                                    std::to_string(bytes) + " are expected" + kAdvice};
}

Status Peers::Receive::ended() const {
  return {ErrorCode::kMismatch, process(key.first) +
                                    " has ended its run of this program without the message that this process " +
                                    "waits for" + kAdvice + ", and that all take the same branches"};
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

std::shared_ptr<Peers::Receive> Peers::post(int from, const Call& call, void* data, std::size_t bytes) {
  auto receive = std::make_shared<Receive>();
  receive->key = {from, call.channel};
  receive->name = call.name;
  receive->run = call.run;
  receive->data = static_cast<std::byte*>(data);
  receive->bytes = bytes;
  if (from != rank_) reach(from);
  const std::lock_guard lock(mutex_);
  auto& early = arrived_[receive->key];
  if (early.empty()) {
    const auto link = links_.find(from);
    receive->done = link != links_.end() && link->second->ended_run == call.run;
    if (receive->done) {
      receive->status = receive->ended();
    } else {
      posted_[receive->key].push_back(receive);
    }
    return receive;
  }
  const Message message = std::move(early.front());
  early.pop_front();
  complete(*receive, message);
  return receive;
}

// The caller must hold mutex_, or be the only one that knows the receive.
void Peers::complete(Receive& receive, const Message& message) {
  receive.done = true;
  receive.status = receive.check(message.name, message.data.size());
  if (receive.status.ok()) std::copy(message.data.begin(), message.data.end(), receive.data);
}

void Peers::wait(const std::shared_ptr<Receive>& receive) {
  const Nanoseconds deadline = now() + timeout_;
  const int from = receive->key.first;
  std::unique_lock lock(mutex_);
  try {
    while (!receive->done) {
      const auto link = links_.find(from);
      if (link != links_.end() && link->second->lost) {
        throw Error(ErrorCode::kWorkerLost, "the connection to " + process(from) +
                                                " ended while it was needed for a message; see that process's output");
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

// `lock` holds mutex_. If a message is just arriving in the receive's memory, this shuts the connection down and waits
// until the receiving thread has let go of the memory.
void Peers::withdraw(const std::shared_ptr<Receive>& receive, std::unique_lock<std::mutex>& lock) {
  auto& waiting = posted_[receive->key];
  waiting.erase(std::remove(waiting.begin(), waiting.end(), receive), waiting.end());
  const auto link = links_.find(receive->key.first);
  if (link == links_.end() || link->second->into != receive) return;
  shutdown(link->second->fd, SHUT_RDWR);
  changed_.wait(lock, [&] { return link->second->into != receive; });
}

void Peers::send(int to, const Call& call, const void* data, std::size_t bytes) {
  if (to == rank_) {
    const auto* first = static_cast<const std::byte*>(data);
    deliver(to, call.channel, {call.name, {first, first + bytes}});
    return;
  }
  write_message(to, reach(to), {call.channel, call.name, bytes}, data);
}

void Peers::write_message(int to, Link& link, const Header& header, const void* data) {
  const Nanoseconds deadline = now() + timeout_;
  const std::lock_guard sending(link.sending);
  std::size_t sent = 0;
  try {
    while (sent < sizeof(header) + header.bytes) {
      const std::size_t written = write_part(to, link.fd, header, data, sent);
      sent += written;
      if (written == 0 && !can_write(link.fd)) check_alive(to, deadline, "takes nothing");
    }
  } catch (const Error&) {
    // The rest never follows. If the connection went on, the receiver would take what comes next for the rest.
    if (sent > 0) shutdown(link.fd, SHUT_RDWR);
    throw;
  }
}

void Peers::end(const std::vector<int>& ranks, std::uint64_t run) {
  {
    const std::lock_guard lock(mutex_);
    ended_run_ = run;  // adopt() sends it first on each connection that is made later
  }
  for (const int rank : ranks) {
    if (Link* link = rank > rank_ ? &reach(rank) : connected(rank))
      write_message(rank, *link, {Header::kEnded, run, 0}, nullptr);
  }
}

void Peers::give_up(const std::vector<int>& ranks, ErrorCode code) {
  for (const int rank : ranks) {
    Link* link = connected(rank);
    if (link == nullptr) continue;
    try {
      write_message(rank, *link, {Header::kGaveUp, static_cast<std::uint64_t>(code), 0}, nullptr);
    } catch (const Error&) {  // the other process has ended or does not read: it has an error of its own already
    }
  }
}

Peers::Link* Peers::connected(int rank) {
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(rank);
  return found == links_.end() ? nullptr : found->second.get();
}

void Peers::check_alive(int rank, Nanoseconds deadline, const char* what) const {
  if (ended_ && ended_(rank))
    throw Error(ErrorCode::kWorkerLost, process(rank) + " ended while it was needed for a message");
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
  const Hello hello{Hello::kMagic, theirs.secret, static_cast<std::uint64_t>(rank_)};
  if (error == 0 && ::send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) error = errno ? errno : EIO;
  if (error != 0) {
    close(fd);
    throw Error(ErrorCode::kWorkerLost, process(rank) + " takes no connection at " + theirs.host + ":" +
                                            std::to_string(theirs.port) + ": " + std::strerror(error));
  }
  const std::lock_guard lock(mutex_);
  adopt(rank, fd);
}

// Makes the socket the link to this process. The caller must hold mutex_. If there is a link already, the socket is
// closed: two threads may have connected at the same time.
void Peers::adopt(int rank, int fd) {
  if (links_.contains(rank)) {
    close(fd);
    return;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  auto link = std::make_unique<Link>();
  link->fd = fd;
  const Header ended{Header::kEnded, ended_run_, 0};
  if (ended_run_ != 0 && ::send(fd, &ended, sizeof(ended), MSG_NOSIGNAL) != sizeof(ended)) shutdown(fd, SHUT_RDWR);
  links_[rank] = std::move(link);
  changed_.notify_all();
  wake();
}

void Peers::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wakeup_.get(), &one, sizeof(one));
}

}  // namespace jaxina::mpi
