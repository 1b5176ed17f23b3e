// The thread of Peers that accepts connections and receives messages.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "rdma_engine/aggregator/mismatch.h"
#include "xla_ffi/mpi/peers_parts.h"

namespace jaxina::mpi {
namespace {

constexpr std::size_t kMaxStrangers = 64;
constexpr std::size_t kPiece = 1 << 20;  // bytes read from one peer before the next gets its turn

}  // namespace

void Peers::run() {
  std::vector<pollfd> watched;
  std::vector<int> ranks;  // ranks[i] belongs to watched[i + 2]; the strangers follow
  while (true) {
    watched = {{wakeup_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
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
    for (const Stranger& stranger : strangers_) watched.push_back({stranger.fd, POLLIN, 0});
    poll(watched.data(), watched.size(), -1);
    std::uint64_t count;
    if (watched[0].revents != 0) [[maybe_unused]]
      const ssize_t got = read(wakeup_.get(), &count, sizeof(count));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (watched[i + 2].revents == 0) continue;
      Link* link;
      {
        const std::lock_guard lock(mutex_);
        link = links_.at(ranks[i]).get();
      }
      bool goes_on = false;
      try {
        goes_on = read_from(ranks[i], *link);
      } catch (const std::exception&) {  // no memory for a message that nobody waits for yet: the connection is lost
      }
      if (!goes_on) lose(*link);
    }
    std::size_t at = ranks.size() + 2;
    for (auto stranger = strangers_.begin(); stranger != strangers_.end(); ++at) {
      const auto one = stranger++;
      if (watched[at].revents == 0 || read_hello(*one)) continue;
      if (one->fd >= 0) close(one->fd);
      strangers_.erase(one);
    }
    if (watched[1].revents != 0) accept_one();
  }
}

void Peers::accept_one() {
  const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  // A process of the job says Hello as soon as it is connected. Who has been silent for longest is none.
  if (strangers_.size() == kMaxStrangers) {
    close(strangers_.front().fd);
    strangers_.pop_front();
  }
  strangers_.emplace_back(fd);
}

// Reads the Hello of a connection. If the Hello is right, the connection becomes a link, and the stranger has none any
// more. False if the stranger must be forgotten.
bool Peers::read_hello(Stranger& stranger) {
  std::vector<std::byte>& said = stranger.said;
  std::byte part[sizeof(Hello)];
  const ssize_t got = recv(stranger.fd, part, sizeof(Hello) - said.size(), 0);
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  said.insert(said.end(), part, part + got);
  if (said.size() < sizeof(Hello)) return true;
  Hello hello;
  std::memcpy(&hello, said.data(), sizeof(hello));
  if (hello.magic != Hello::kMagic || hello.secret != own_.secret || hello.rank >= static_cast<std::uint64_t>(rank_))
    return false;
  const std::lock_guard lock(mutex_);
  adopt(static_cast<int>(hello.rank), std::make_unique<Link>(std::exchange(stranger.fd, -1)));
  return false;
}

// Reads what has arrived, up to kPiece bytes. False if the connection has ended.
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
  if (!waiting.empty() && waiting.front()->check(link.header.name, link.header.bytes).ok()) {
    link.into = waiting.front();
    waiting.pop_front();
  } else {
    link.held.resize(link.header.bytes);
  }
}

void Peers::end_message(int rank, Link& link) {
  link.in_message = false;
  if (link.header.channel >= Header::kGaveUp) {
    take_notice(rank, link.header);
    return;
  }
  if (!link.into) {
    deliver(rank, link.header.channel, {link.header.name, link.header.run, std::exchange(link.held, {})});
    return;
  }
  const std::lock_guard lock(mutex_);
  link.into->done = true;
  link.into.reset();
  changed_.notify_all();
}

// Gives the message to the first receive that waits for it, or keeps it until one is posted.
void Peers::deliver(int from, std::uint64_t channel, Message message) {
  const std::lock_guard lock(mutex_);
  if (is_past(message.run)) return;
  const Key key{from, channel};
  auto& waiting = posted_[key];
  if (waiting.empty()) {
    arrived_[key].push_back(std::move(message));
  } else {
    complete(*waiting.front(), message);
    waiting.pop_front();
  }
  changed_.notify_all();
}

// Takes a notice: the other process has ended a run, or has failed in it.
void Peers::take_notice(int from, const Header& header) {
  const std::lock_guard lock(mutex_);
  Link& link = *links_.at(from);
  if (header.channel == Header::kEnded) {
    link.end(header.run, {ErrorCode::kMismatch,
                          process(from) + " has ended its run of this program without the message that this process " +
                              "waits for" + std::string(kRunTheSame) + ", and that all take the same branches"});
  } else if (!is_past(header.run)) {  // otherwise it follows from a failure of this process
    const bool unlike = static_cast<ErrorCode>(header.name) == ErrorCode::kMismatch;
    const Status gave_up{
        unlike ? ErrorCode::kMismatch : ErrorCode::kWorkerLost,
        process(from) + " has given up a program while it was needed for a message: its own error says why"};
    link.end(header.run, gave_up);
    // What it sends from now on belongs to later runs. So this process waits in vain, whichever run it is in.
    link.end(latest_, gave_up);
    for (auto of = arrived_.lower_bound({from, 0}); of != arrived_.end() && of->first.first == from; ++of) {
      std::erase_if(of->second, [&](const Message& message) { return message.run.until(header.run); });
    }
  }
  for (auto of = posted_.lower_bound({from, 0}); of != posted_.end() && of->first.first == from; ++of) {
    std::erase_if(of->second, [&](const std::shared_ptr<Receive>& receive) {
      receive->status = link.ending(receive->run);
      receive->done = !receive->status.ok();
      return receive->done;
    });
  }
  changed_.notify_all();
}

void Peers::forget(const Run& run) {
  const std::lock_guard lock(mutex_);
  past_[run.program] = run.number;
  for (auto& [key, messages] : arrived_) {
    std::erase_if(messages, [&](const Message& message) { return is_past(message.run); });
  }
  std::erase_if(arrived_, [](const auto& of) { return of.second.empty(); });
  for (auto& [key, receives] : posted_) {
    std::erase_if(receives, [&](const std::shared_ptr<Receive>& receive) {
      if (!is_past(receive->run)) return false;
      receive->status = forgotten();
      return receive->done = true;
    });
  }
  changed_.notify_all();
}

// The caller must hold mutex_.
bool Peers::is_past(const Run& run) const {
  const auto past = past_.find(run.program);
  return past != past_.end() && run.number <= past->second;
}

void Peers::Link::end(const Run& run, const Status& status) {
  Ending& last = endings[run.program];
  if (last.number <= run.number) last = {run.number, status};
}

Status Peers::Link::ending(const Run& run) const {
  const auto last = endings.find(run.program);
  return last != endings.end() && run.number <= last->second.number ? last->second.status : Status{};
}

void Peers::lose(Link& link) {
  const std::lock_guard lock(mutex_);
  link.lost = true;
  link.into.reset();
  changed_.notify_all();
}

}  // namespace jaxina::mpi
