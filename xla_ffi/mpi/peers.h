// Messages from process to process, for collectives that sum nothing: XLA's reshards, rolls, transposes and
// all-to-alls. Each pair of processes that talks has one TCP connection. It is made at the first message, by the lower
// rank.
//
// A message has a channel and a name. Messages of one sender and channel arrive in the order in which they were sent.
// The receiver says which name it expects; another name is an error. A message also belongs to a run of a program: what
// is left of a run that has ended reaches no other run. Any thread may call. One thread of Peers receives: into the
// caller's memory if a receive is posted already, otherwise into its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rdma_engine/base/time.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/net/udp_socket.h"

namespace jaxina::mpi {

// Where a process accepts connections. Whoever connects must send the secret, to be accepted as a process of the job.
struct Endpoint {
  std::string host;  // numeric
  std::uint16_t port = 0;
  std::uint64_t secret = 0;
};

struct Header;

// The `number`th run of a program.
struct Run {
  std::uint64_t program = 0, number = 0;
  bool operator==(const Run&) const = default;
  // Whether it is the other run, or an earlier one of the same program.
  bool until(const Run& other) const { return program == other.program && number <= other.number; }
};

// Identifies a message.
struct Call {
  std::uint64_t channel;
  std::uint64_t name;  // names the call in the program, see running_program.h
  Run run;
};

class Peers {
 public:
  // Listens at the first of the ports at which nobody else does; without ports, at one that the system chooses. Throws
  // Error.
  Peers(int rank, const std::string& host, const std::vector<std::uint16_t>& ports);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  const Endpoint& own() const { return own_; }
  // Must be called before anything is sent. `by_rank`: all processes' endpoints. `timeout`: for one message.
  // `ended(rank)` says whether a process is known to have ended.
  void meet(std::vector<Endpoint> by_rank, Nanoseconds timeout, std::function<bool(int)> ended);

  struct Receive;
  // Posts a receive for the next message of `from` on the call's channel. The memory must stay valid until wait()
  // returns or throws, or abandon() returns. Throws Error if there is no connection to be had.
  std::shared_ptr<Receive> post(int from, const Call& call, void* data, std::size_t bytes);
  // Waits for the message. Throws Error: kMismatch if its name or size is another one, kWorkerLost, kTimeout.
  void wait(const std::shared_ptr<Receive>& receive);
  // Gives the receive up, instead of wait(). When it returns, nothing writes into the memory any more.
  void abandon(const std::shared_ptr<Receive>& receive);
  // Sends a message, and returns once the memory may be used again. Throws Error: kWorkerLost, kTimeout, kSystem. If it
  // throws in the middle of the message, the connection is lost for both processes.
  void send(int to, const Call& call, const void* data, std::size_t bytes);
  // Tells other processes that this one sends no more messages of the run. Whoever waits for one, now or later, gets
  // kMismatch. Throws Error.
  void end(const std::vector<int>& ranks, const Run& run);
  // Tells the processes that are connected, and those that connect later, that this one has failed in the run with
  // `code`. Whoever waits for a message of the run, now or later, gets kMismatch if that is the code, otherwise
  // kWorkerLost. So does who waits in the run of another program meanwhile.
  void give_up(const std::vector<int>& ranks, const Run& run, ErrorCode code);
  // Drops the messages of the run, and of earlier ones of its program: those that have arrived, and those that will.
  // Whoever waits for one in this process, now or later, gets kShutDown.
  void forget(const Run& run);

 private:
  struct Link;
  struct Stranger {
    explicit Stranger(int of) : fd(of) {}
    int fd;
    std::vector<std::byte> said;
  };
  struct Message {
    std::uint64_t name;
    Run run;
    std::vector<std::byte> data;
  };
  using Key = std::pair<int, std::uint64_t>;

  void withdraw(const std::shared_ptr<Receive>& receive, std::unique_lock<std::mutex>& lock);
  Link& reach(int rank);
  Link* connected(int rank);  // nullptr if it is not connected
  void connect_to(int rank, Nanoseconds deadline, std::unique_lock<std::mutex>& lock);
  std::unique_ptr<Link> new_link(int rank, Nanoseconds deadline) const;
  void adopt(int rank, std::unique_ptr<Link> link);
  void wait_for_change(std::unique_lock<std::mutex>& lock, int rank, Nanoseconds deadline, const char* what);
  void check_alive(int rank, Nanoseconds deadline, const char* what) const;
  void complete(Receive& receive, const Message& message);
  void deliver(int from, std::uint64_t channel, Message message);
  void write_message(int to, Link& link, const Header& header, const void* data);
  Header notice(const Header& header);
  void take_notice(int from, const Header& header);
  bool is_past(const Run& run) const;

  void run();
  void accept_one();
  bool read_hello(Stranger& stranger);
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

  mutable std::mutex mutex_;  // guards the members from here to stopping_
  std::condition_variable changed_;
  std::map<int, std::unique_ptr<Link>> links_;
  std::set<int> connecting_;  // the processes to which a thread is connecting
  std::map<Key, std::deque<std::shared_ptr<Receive>>> posted_;
  std::map<Key, std::deque<Message>> arrived_;
  std::map<std::uint64_t, std::uint64_t> past_;  // the number of the last run to forget, by program
  Run latest_;                                   // the run of the latest receive
  std::unique_ptr<Header> notice_;               // the latest that this process has given
  bool stopping_ = false;

  net::FileDescriptor wakeup_;
  net::FileDescriptor listener_;
  // Connections that have not yet sent a whole Hello, the oldest first. Only thread_ uses it.
  std::list<Stranger> strangers_;
  std::thread thread_;
};

}  // namespace jaxina::mpi
