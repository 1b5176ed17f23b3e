// How the programs of two guests and of their switch tell each other connection ends: one line of text over TCP.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>

#include "rdma_engine/errors.h"
#include "rdma_engine/messages/connection_end.h"

namespace jaxina::guest {

inline constexpr char kSwitchHost[] = "10.9.0.254";
inline constexpr std::uint16_t kTellPort = 9000;
inline constexpr std::uint32_t kGuests = 2;

[[noreturn]] inline void fail(const std::string& what) {
  throw Error(ErrorCode::kSystem, what + ": " + std::strerror(errno));
}

inline sockaddr_in switch_address() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kTellPort);
  inet_pton(AF_INET, kSwitchHost, &address.sin_addr);
  return address;
}

inline std::string text_of(const roce::ConnectionEnd& end) {
  std::ostringstream text;
  text << end.address << ' ' << end.udp_port << ' ' << end.mtu << ' ' << end.qpns.at(0) << ' ' << end.qpns.at(1) << ' '
       << end.psn << ' ' << end.rkey << ' ' << end.memory << '\n';
  return text.str();
}

inline roce::ConnectionEnd end_in(std::istream& text) {
  roce::ConnectionEnd end;
  end.qpns.resize(2);
  text >> end.address >> end.udp_port >> end.mtu >> end.qpns[0] >> end.qpns[1] >> end.psn >> end.rkey >> end.memory;
  if (!text) throw Error(ErrorCode::kSystem, "a line that is no connection end");
  return end;
}

inline void send_text(int fd, const std::string& text) {
  if (send(fd, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) fail("send");
}

inline std::string receive_line(int fd) {
  std::string line;
  for (char next; recv(fd, &next, 1, MSG_WAITALL) == 1 && next != '\n';) line += next;
  return line;
}

// Connects to the switch's program, which may not be there yet.
inline int connect_to_switch() {
  const sockaddr_in address = switch_address();
  for (int attempt = 0; attempt < 300; ++attempt) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
    close(fd);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  fail("connect");
}

}  // namespace jaxina::guest
