// The parts of a connection between two processes, shared by peers.cc, peers_connect.cc and peers_receive.cc only.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "xla_ffi/mpi/peers.h"

namespace jaxina::mpi {

// The first bytes on a connection. A process with another byte order reads another magic number and refuses.
struct Hello {
  static constexpr std::uint64_t kMagic = 0x6a61786970656572;
  std::uint64_t magic, secret, rank;
};

// The first bytes of a message; `bytes` of data follow.
struct Header {
  // Channels of the two notices about a run, which have no data; no call has these channels. The name of kGaveUp is an
  // error code.
  static constexpr std::uint64_t kEnded = ~std::uint64_t{0}, kGaveUp = kEnded - 1;
  std::uint64_t channel, name, bytes;
  Run run;
};

struct Peers::Receive {
  Key key;
  std::uint64_t name;
  Run run;
  std::byte* data;
  std::size_t bytes;
  bool done = false;
  Status status;

  // Whether a message of this name and size is the expected one; otherwise the error.
  Status check(std::uint64_t its_name, std::size_t its_bytes) const;
};

struct Peers::Link {
  explicit Link(int of) : fd(of) {}
  int fd;
  bool lost = false;
  std::mutex sending;
  // The state of the message that is arriving.
  Header header{};
  std::size_t header_read = 0;
  bool in_message = false;
  std::size_t read = 0;
  std::shared_ptr<Receive> into;  // takes the data; if null, `held` does
  std::vector<std::byte> held;
  // Of each program the last run of which the other process sends no more messages, and the error of who waits for one.
  struct Ending {
    std::uint64_t number = 0;
    Status status;
  };
  std::map<std::uint64_t, Ending> endings;

  ~Link();
  void end(const Run& run, const Status& status);
  // The error of who waits for a message of the run that does not come; ok if it may come.
  Status ending(const Run& run) const;
};

// How often a waiting thread checks whether the other process has ended.
inline constexpr Nanoseconds kLook = 200'000'000;

// The error of who waits for a message of a run that this process has ended.
Status forgotten();

// Waits until the socket can be written to or has an error to report, for kLook at most. Returns whether it is so.
bool can_write(int fd);

inline std::string process(int rank) { return "process " + std::to_string(rank); }

}  // namespace jaxina::mpi
