// Tests the messages from process to process when something is in their way: each must arrive as it was sent, or both
// sides must get an error. Other tests send them between real processes.
#include "xla_ffi/mpi/peers.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "rdma_engine/base/clock.h"

namespace jaxina::mpi {
namespace {

constexpr Nanoseconds kShort = 300'000'000, kLong = 20'000'000'000;
const std::string kHost = "127.0.0.1";
constexpr Run kRun{1, 1}, kNextRun{1, 2}, kOfAnother{2, 1}, kOfMarks{3, 1};

// A socket that listens at kHost. The test decides what becomes of those that connect.
class Listener {
 public:
  explicit Listener(int backlog) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(socket_.get(), backlog), 0);
    EXPECT_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }
  std::uint16_t port() const { return port_; }
  int accept() const { return ::accept(socket_.get(), nullptr, nullptr); }
  // Takes those that have connected, at least one, and returns how many they are.
  int waiting() const {
    pollfd more{socket_.get(), POLLIN, 0};
    int count = 0;
    do {
      close(accept());
      ++count;
    } while (poll(&more, 1, 0) > 0);
    return count;
  }

 private:
  net::FileDescriptor socket_;
  std::uint16_t port_ = 0;
};

int connected_to(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

// The network between the processes 0 and 1. It carries nothing until open() is called. Then it carries everything,
// what was sent before included, until process 0 closes the connection.
class Network {
 public:
  explicit Network(std::uint16_t to) : listener_(1), to_(to) {}
  ~Network() { thread_.join(); }
  std::uint16_t port() const { return listener_.port(); }
  void open() {
    thread_ = std::thread([this] {
      const net::FileDescriptor from(listener_.accept()), onward(connected_to(to_));
      std::vector<char> part(1 << 20);
      for (ssize_t got = 1; got > 0;) {
        got = read(from.get(), part.data(), part.size());
        for (ssize_t sent = 0; sent < got;) {
          const ssize_t written =
              ::send(onward.get(), part.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
          if (written <= 0) return;
          sent += written;
        }
      }
    });
  }

 private:
  Listener listener_;
  std::uint16_t to_;
  std::thread thread_;
};

// Returns the error that `call` throws, or an ok status.
template <typename Call>
Status error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

TEST(Peers, AMessageThatBreaksOffIsAnErrorOnBothSides) {
  constexpr std::size_t kBytes = std::size_t{16} << 20;  // more than the sockets hold
  const std::vector<char> first(kBytes, 1), next(kBytes, 2);
  std::vector<char> got(kBytes, 0);
  Peers receiver(1, kHost, {});
  Network network(receiver.own().port);
  Peers sender(0, kHost, {});
  receiver.meet({sender.own(), receiver.own()}, kLong, nullptr);
  sender.meet({sender.own(), {kHost, network.port(), receiver.own().secret}}, kShort, nullptr);

  EXPECT_EQ(error_of([&] { sender.send(1, {1, 1, kRun}, first.data(), kBytes); }).code, ErrorCode::kTimeout);
  network.open();
  sender.give_up({0, 1}, kRun, ErrorCode::kTimeout);
  EXPECT_EQ(error_of([&] { sender.send(1, {1, 2, kNextRun}, next.data(), kBytes); }).code, ErrorCode::kWorkerLost);
  const Status error = error_of([&] { receiver.wait(receiver.post(0, {1, 1, kRun}, got.data(), kBytes)); });
  EXPECT_EQ(error.code, ErrorCode::kWorkerLost) << error.text();
}

// Each process keeps the first Hello that it sees of the other. Of two connections, the two might keep different ones.
TEST(Peers, ThreadsThatSendTheFirstMessagesShareOneConnection) {
  for (int round = 0; round < 20; ++round) {
    const Listener other(8);
    Peers peers(0, kHost, {});
    peers.meet({peers.own(), {kHost, other.port(), 1}}, kLong, nullptr);
    std::barrier together(2);
    const auto send = [&](std::uint64_t channel) {
      together.arrive_and_wait();
      peers.send(1, {channel, 1, kRun}, &channel, sizeof(channel));
    };
    std::thread one(send, 1), two(send, 2);
    one.join();
    two.join();
    ASSERT_EQ(other.waiting(), 1) << "round " << round;
  }
}

// A host that drops what would connect: it has no room for another connection.
class FullHost {
 public:
  FullHost() : listener_(0), only_(connected_to(listener_.port())) {}
  std::uint16_t port() const { return listener_.port(); }

 private:
  Listener listener_;
  net::FileDescriptor only_;
};

TEST(Peers, AHostThatTakesNoConnectionIsATimeout) {
  const FullHost other;
  Peers peers(0, kHost, {});
  peers.meet({peers.own(), {kHost, other.port(), 1}}, kShort, nullptr);
  const Status error = error_of([&] { peers.send(1, {1, 1, kRun}, nullptr, 0); });
  EXPECT_EQ(error.code, ErrorCode::kTimeout) << error.text();
}

TEST(Peers, ASignalDoesNotEndAConnectionThatIsBeingMade) {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  const FullHost other;
  Peers peers(0, kHost, {});
  peers.meet({peers.own(), {kHost, other.port(), 1}}, kShort, nullptr);
  std::atomic<bool> done = false;
  Status error;
  std::thread sender([&] {
    error = error_of([&] { peers.send(1, {1, 1, kRun}, nullptr, 0); });
    done = true;
  });
  while (!done) {
    pthread_kill(sender.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  sender.join();
  EXPECT_EQ(error.code, ErrorCode::kTimeout) << error.text();
}

TEST(Peers, AProcessThatEndsBeforeItTakesTheConnectionIsLost) {
  const FullHost other;
  Peers peers(0, kHost, {});
  peers.meet({peers.own(), {kHost, other.port(), 1}}, kLong, [](int rank) { return rank == 1; });
  const auto start = now();
  const Status error = error_of([&] { peers.send(1, {1, 1, kRun}, nullptr, 0); });
  EXPECT_EQ(error.code, ErrorCode::kWorkerLost) << error.text();
  EXPECT_LT(now() - start, kLong / 4);
}

// Asking takes Python's GIL. Whoever holds that may wait for a thread that needs the messages.
TEST(Peers, OthersSendAndReceiveWhileOneAsksWhetherAProcessHasEnded) {
  const Listener other(8);
  Peers peers(0, kHost, {});
  std::future<void> to_itself;
  peers.meet({peers.own(), {kHost, other.port(), 1}}, kLong, [&](int) {
    to_itself = std::async(std::launch::async, [&] { peers.send(0, {1, 1, kRun}, nullptr, 0); });
    EXPECT_EQ(to_itself.wait_for(std::chrono::nanoseconds(kLong)), std::future_status::ready);
    return true;
  });
  const Status error = error_of([&] { peers.wait(peers.post(1, {1, 1, kRun}, nullptr, 0)); });
  EXPECT_EQ(error.code, ErrorCode::kWorkerLost) << error.text();
}

// Two processes. The first sends, and the second receives.
class Pair {
 public:
  Pair() {
    for (Peers* one : {&sender, &receiver}) one->meet({sender.own(), receiver.own()}, kLong, nullptr);
  }
  void send(const Run& run, std::uint64_t name, char what) { sender.send(1, {1, name, run}, &what, 1); }
  // Receives what send() sends. Returns it, or the error.
  std::variant<char, ErrorCode> get(const Run& run, std::uint64_t name) {
    char got = 0;
    const Status error = error_of([&] { receiver.wait(receiver.post(0, {1, name, run}, &got, 1)); });
    if (error.ok()) return got;
    EXPECT_EQ(got, 0) << error.text();
    return error.code;
  }
  // Calls `action`, and returns when the receiver has taken all that the sender has sent. The receiver is then in
  // `run`.
  void until_taken(const Run& run, const std::function<void()>& action) {
    constexpr Call kMark{2, 1, kOfMarks};
    sender.send(1, {3, 1, kOfMarks}, nullptr, 0);  // connects them
    receiver.wait(receiver.post(0, {3, 1, kOfMarks}, nullptr, 0));
    const auto mark = receiver.post(0, kMark, nullptr, 0);
    receiver.abandon(receiver.post(0, {3, 1, run}, nullptr, 0));
    action();
    sender.send(1, kMark, nullptr, 0);
    receiver.wait(mark);
  }

  Peers sender{0, kHost, {}}, receiver{1, kHost, {}};
};

using Got = std::variant<char, ErrorCode>;

TEST(Peers, AReceiveThatIsPostedAfterAFailureFails) {
  for (const auto& [code, expected] : {std::pair(ErrorCode::kTimeout, ErrorCode::kWorkerLost),
                                       std::pair(ErrorCode::kMismatch, ErrorCode::kMismatch)}) {
    Pair pair;
    const auto start = now();
    pair.until_taken(kRun, [&] {
      pair.sender.give_up({0, 1}, kRun, code);
      pair.send(kNextRun, 2, 'n');
    });
    EXPECT_EQ(pair.get(kRun, 1), Got(expected));
    EXPECT_LT(now() - start, kLong / 4);
    pair.receiver.forget(kRun);
    EXPECT_EQ(pair.get(kNextRun, 2), Got('n'));
  }
}

// They are in different programs, and the receiver is still to find that out.
TEST(Peers, AFailureInAnotherProgramFailsTheRunThatWaits) {
  Pair pair;
  pair.until_taken(kRun, [&] { pair.sender.give_up({0, 1}, {7, 1}, ErrorCode::kMismatch); });
  EXPECT_EQ(pair.get(kRun, 1), Got(ErrorCode::kMismatch));
}

TEST(Peers, AFailureIsToldToWhoIsConnectedLater) {
  Pair pair;
  pair.sender.give_up({0, 1}, kRun, ErrorCode::kSystem);
  pair.sender.send(1, {2, 1, kOfMarks}, nullptr, 0);
  EXPECT_EQ(pair.get(kRun, 1), Got(ErrorCode::kWorkerLost));
}

TEST(Peers, AFailureThatFollowsFromAnEarlierOneHereIsNoneOfTheNextRun) {
  Pair pair;
  pair.until_taken(kNextRun, [&] {
    pair.receiver.forget(kRun);
    pair.sender.give_up({0, 1}, kRun, ErrorCode::kWorkerLost);
  });
  pair.send(kNextRun, 2, 'n');
  EXPECT_EQ(pair.get(kNextRun, 2), Got('n'));
}

TEST(Peers, WhatIsLeftOfARunReachesNoOtherRun) {
  for (const bool late : {false, true}) {
    Pair pair;
    if (late) pair.receiver.forget(kRun);
    pair.until_taken(kRun, [&] { pair.send(kRun, 1, 'o'); });
    if (!late) pair.receiver.forget(kRun);
    pair.send(kNextRun, 2, 'n');
    EXPECT_EQ(pair.get(kNextRun, 2), Got('n'));
  }
}

// The receiver comes to its first run after the sender's has failed. What the sender sent in it may be of other data.
TEST(Peers, WhatWasSentInARunThatFailedIsNotReceived) {
  Pair pair;
  pair.until_taken(kOfAnother, [&] {
    pair.send(kRun, 1, 'o');
    pair.sender.give_up({0, 1}, kRun, ErrorCode::kSystem);
  });
  EXPECT_EQ(pair.get(kRun, 1), Got(ErrorCode::kWorkerLost));
}

TEST(Peers, ToForgetARunEndsItsWaits) {
  Peers peers(0, kHost, {});
  peers.meet({peers.own()}, kLong, nullptr);
  const auto receive = peers.post(0, {1, 1, kRun}, nullptr, 0);
  const auto of_the_next = peers.post(0, {2, 1, kNextRun}, nullptr, 0);
  std::thread forgets([&] { peers.forget(kRun); });
  EXPECT_EQ(error_of([&] { peers.wait(receive); }).code, ErrorCode::kShutDown);
  forgets.join();
  EXPECT_EQ(error_of([&] { peers.wait(peers.post(0, {1, 2, kRun}, nullptr, 0)); }).code, ErrorCode::kShutDown);
  peers.send(0, {2, 1, kNextRun}, nullptr, 0);
  peers.wait(of_the_next);
}

TEST(Peers, AWaitThatFailsForAnyReasonEndsTheReceive) {
  Peers peers(0, kHost, {});
  peers.meet({peers.own()}, kLong, [](int) -> bool { throw std::runtime_error("Python is ending"); });
  char memory = 'a';
  const auto receive = peers.post(0, {1, 1, kRun}, &memory, 1);
  EXPECT_THROW(peers.wait(receive), std::runtime_error);
  peers.send(0, {1, 1, kRun}, "b", 1);
  EXPECT_EQ(memory, 'a');
}

}  // namespace
}  // namespace jaxina::mpi
