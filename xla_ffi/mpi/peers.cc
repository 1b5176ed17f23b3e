// The callers' side of Peers: sending, and waiting for messages. peers_connect.cc makes the connections, and
// peers_receive.cc has the receiving thread.
#include "xla_ffi/mpi/peers.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>

#include "rdma_engine/aggregator/mismatch.h"
#include "rdma_engine/base/clock.h"
#include "rdma_engine/base/narrow.h"
#include "xla_ffi/mpi/peers_parts.h"

namespace jaxina::mpi {
namespace {

const std::string kAdvice{kRunTheSame};

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

Status forgotten() { return {ErrorCode::kShutDown, "this process has ended the run that needs a message"}; }

bool can_write(int fd) {
  pollfd one{fd, POLLOUT, 0};
  return poll(&one, 1, narrow<int>(kLook / 1'000'000)) > 0;
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

std::shared_ptr<Peers::Receive> Peers::post(int from, const Call& call, void* data, std::size_t bytes) {
  auto receive = std::make_shared<Receive>();
  receive->key = {from, call.channel};
  receive->name = call.name;
  receive->run = call.run;
  receive->data = static_cast<std::byte*>(data);
  receive->bytes = bytes;
  if (from != rank_) reach(from);
  const std::lock_guard lock(mutex_);
  latest_ = call.run;
  auto& early = arrived_[receive->key];
  if (early.empty() || early.front().run != call.run) {  // what has arrived is for a later run, if the sender failed
    if (const auto link = links_.find(from); link != links_.end()) receive->status = link->second->ending(call.run);
    if (is_past(call.run)) receive->status = forgotten();
    receive->done = !receive->status.ok();
    if (receive->done) return receive;
  }
  if (early.empty()) {
    posted_[receive->key].push_back(receive);
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
      wait_for_change(lock, from, deadline, "sent nothing");
    }
  } catch (...) {
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
    deliver(to, call.channel, {call.name, call.run, {first, first + bytes}});
    return;
  }
  write_message(to, reach(to), {call.channel, call.name, bytes, call.run}, data);
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

// Returns the notice. From now on adopt() sends it first on each connection that is made.
Header Peers::notice(const Header& header) {
  const std::lock_guard lock(mutex_);
  notice_ = std::make_unique<Header>(header);
  return header;
}

void Peers::end(const std::vector<int>& ranks, const Run& run) {
  const Header header = notice({Header::kEnded, 0, 0, run});
  for (const int rank : ranks) {
    if (Link* link = rank > rank_ ? &reach(rank) : connected(rank)) write_message(rank, *link, header, nullptr);
  }
}

void Peers::give_up(const std::vector<int>& ranks, const Run& run, ErrorCode code) {
  const Header header = notice({Header::kGaveUp, static_cast<std::uint64_t>(code), 0, run});
  for (const int rank : ranks) {
    Link* link = connected(rank);
    if (link == nullptr) continue;
    try {
      write_message(rank, *link, header, nullptr);
    } catch (const Error&) {  // the other process has ended or does not read: it has an error of its own already
    }
  }
}

// `lock` holds mutex_, but not while this asks whether the process has ended: that takes Python's GIL, whose holder may
// wait for a thread that needs mutex_.
void Peers::wait_for_change(std::unique_lock<std::mutex>& lock, int rank, Nanoseconds deadline, const char* what) {
  if (changed_.wait_for(lock, std::chrono::nanoseconds(kLook)) != std::cv_status::timeout) return;
  lock.unlock();
  std::exception_ptr failure;
  try {
    check_alive(rank, deadline, what);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  if (failure) std::rethrow_exception(failure);
}

void Peers::check_alive(int rank, Nanoseconds deadline, const char* what) const {
  if (ended_ && ended_(rank))
    throw Error(ErrorCode::kWorkerLost, process(rank) + " ended while it was needed for a message");
  if (now() >= deadline) {
    throw Error(ErrorCode::kTimeout, process(rank) + " " + what + " for " + std::to_string(timeout_ / 1'000'000'000) +
                                         " s: if it only computes long, raise JAXINA_TIMEOUT");
  }
}

}  // namespace jaxina::mpi
