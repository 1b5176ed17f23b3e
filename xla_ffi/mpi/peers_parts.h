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
  std::uint64_t channel, name, bytes;
};

struct Peers::Receive {
  Key key;
  std::uint64_t name;
  std::byte* data;
  std::size_t bytes;
  bool done = false;
  Status status;

  // What is wrong with a message that comes for it.
  Status check(std::uint64_t its_name, std::size_t its_bytes) const;
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

  ~Link();
};

inline std::string process(int rank) { return "process " + std::to_string(rank); }

}  // namespace jaxina::mpi
