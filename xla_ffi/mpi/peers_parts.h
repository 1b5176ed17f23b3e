// What a connection between two processes is made of; for peers.cc and peers_receive.cc alone.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "xla_ffi/mpi/peers.h"

namespace jaxina::mpi {

// What a connection begins with. Another byte order reads another magic number, and is refused.
struct Hello {
  static constexpr std::uint64_t kMagic = 0x6a61786970656572;
  std::uint64_t magic, secret, rank;
};

// What a message begins with.
struct Header {
  // Channels that no call has, for messages without data. Their name is a run's, or an error code.
  static constexpr std::uint64_t kEnded = ~std::uint64_t{0}, kGaveUp = kEnded - 1;
  std::uint64_t channel, name, bytes;
};

struct Peers::Receive {
  Key key;
  std::uint64_t name, run;
  std::byte* data;
  std::size_t bytes;
  bool done = false;
  Status status;

  // What is wrong with a message that comes for it.
  Status check(std::uint64_t its_name, std::size_t its_bytes) const;
  // What is wrong if its sender has ended the run.
  Status ended() const;
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
  std::uint64_t ended_run = 0;  // the other process's last that it told of; 0: none

  ~Link();
};

inline std::string process(int rank) { return "process " + std::to_string(rank); }

}  // namespace jaxina::mpi
