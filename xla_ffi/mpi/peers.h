// Messages from process to process, for what sums nothing: XLA's reshards, rolls, transposes and all-to-alls. One TCP
// connection for each pair that talks, made when it first does: the lower rank connects.
//
// A message has a channel; those of one sender and channel arrive in the order in which they were sent. It also has a
// name, which the receiver must expect. Whoever calls may be any thread. A thread of its own receives, into the
// caller's memory where a receive is posted already, else into its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rdma_engine/base/time.h"
#include "rdma_engine/errors.h"

namespace jaxina::mpi {

// Where a process takes connections, and what one must know to be taken for a process of the job.
struct Endpoint {
  std::string host;  // numeric
  std::uint16_t port = 0;
  std::uint64_t secret = 0;
};

struct Header;

struct Call {
  std::uint64_t channel;
  std::uint64_t name;  // of what the processes do: see running_program.h
  std::uint64_t run;   // of the program
};

class Peers {
 public:
  // Listens at a free port of the numeric address. Throws Error(kSystem).
  Peers(int rank, const std::string& host);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  const Endpoint& own() const { return own_; }
  // Before anything is sent. `ended(rank)` says whether a process is known to have ended.
  void meet(std::vector<Endpoint> by_rank, Nanoseconds timeout, std::function<bool(int)> ended);

  struct Receive;
  // The memory must stay until wait() returns or throws.
  std::shared_ptr<Receive> post(int from, const Call& call, void* data, std::size_t bytes);
  // Throws Error: kMismatch for a message of another name or size, kWorkerLost, kTimeout.
  void wait(const std::shared_ptr<Receive>& receive);
  // Instead of wait(): nobody writes into the memory any more.
  void abandon(const std::shared_ptr<Receive>& receive);
  // Returns once the memory may be used again. Throws Error: kWorkerLost, kTimeout, kSystem.
  void send(int to, const Call& call, const void* data, std::size_t bytes);
  // Tells other processes that this one sends no more messages of a run: who waits for one gets kMismatch. Throws
  // Error.
  void end(const std::vector<int>& ranks, std::uint64_t run);
  // Tells those that it is connected to that it has failed with the code: who waits for a message of it gets kMismatch,
  // too, or kWorkerLost.
  void give_up(const std::vector<int>& ranks, ErrorCode code);

 private:
  struct Link;
  struct Message {
    std::uint64_t name;
    std::vector<std::byte> data;
  };
  using Key = std::pair<int, std::uint64_t>;

  void withdraw(const std::shared_ptr<Receive>& receive, std::unique_lock<std::mutex>& lock);
  Link& reach(int rank);
  Link* connected(int rank);  // null: it is not
  void connect_to(int rank, Nanoseconds deadline);
  void adopt(int rank, int fd);
  void check_alive(int rank, Nanoseconds deadline, const char* what) const;
  void complete(Receive& receive, const Message& message);
  void deliver(int from, std::uint64_t channel, Message message);
  void write_message(int to, Link& link, const Header& header, const void* data);
  void take_notice(int from, const Header& header);

  void run();
  void accept_one();
  bool read_hello(int fd);
  bool read_from(int rank, Link& link);
  void begin_message(int rank, Link& link);
  void end_message(int rank, Link& link);
  void lose(Link& link);
  void wake() const;

  const int rank_;
  Endpoint own_;
  std::vector<Endpoint> endpoints_;
  Nanoseconds timeout_ = 0;
  std::function<bool(int)> ended_;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::map<int, std::unique_ptr<Link>> links_;
  std::map<Key, std::deque<std::shared_ptr<Receive>>> posted_;
  std::map<Key, std::deque<Message>> arrived_;
  std::uint64_t ended_run_ = 0;  // this process's last; 0: none
  bool stopping_ = false;

  int listener_ = -1;
  int wakeup_ = -1;
  std::map<int, std::vector<std::byte>> strangers_;  // connections that have not said who they are; the thread's own
  std::thread thread_;
};

}  // namespace jaxina::mpi
