// Point-to-point messages between processes of one host, without which NCCL does not load the plug-in. NCCL sends
// through them whatever it does not give to CollNet. Each stream is a Unix socket, a message is its size and its bytes.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>

#include "common.h"

namespace collnet {
namespace {

struct Message {
  struct Stream* stream;
  char* data;
  size_t room;
  uint64_t size;     // goes in front of the data; of a message to receive, known when these 8 bytes came
  size_t moved = 0;  // of the 8 bytes and the data

  bool Done() const { return moved >= sizeof(size) && moved == sizeof(size) + size; }
};

struct Stream {
  int fd;
  bool sends;
  std::deque<Message*> queue;

  Result Progress() {
    for (; !queue.empty(); queue.pop_front()) {
      Message& message = *queue.front();
      while (!message.Done()) {
        const bool header = message.moved < sizeof(message.size);
        const size_t begin = header ? message.moved : message.moved - sizeof(message.size);
        char* at = (header ? reinterpret_cast<char*>(&message.size) : message.data) + begin;
        const size_t left = (header ? sizeof(message.size) : message.size) - begin;
        const ssize_t moved =
            sends ? ::send(fd, at, left, MSG_DONTWAIT | MSG_NOSIGNAL) : recv(fd, at, left, MSG_DONTWAIT);
        if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return kSuccess;
        if (moved <= 0) return kSystemError;
        message.moved += moved;
        if (message.moved == sizeof(message.size) && message.size > message.room) return kInternalError;
      }
    }
    return kSuccess;
  }

  Result Post(void* data, size_t size, void** request) {
    auto* message = new Message{this, static_cast<char*>(data), size, size};
    queue.push_back(message);
    *request = message;
    return Progress();
  }
};

sockaddr_un Address(const std::string& name, socklen_t* length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // a zero byte before the name: no file is made, and none is left behind
  memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof(address.sun_path) - 1));
  *length = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  return address;
}

Result NetInit(void** context, uint64_t, void*, Logger log, void*) {
  *context = nullptr;
  g_log = log;
  counters()->net_inits++;
  return kSuccess;
}

Result NetListen(void*, int, void* handle, void** listener) {
  const std::string name = UniqueName("net");
  socklen_t length;
  const sockaddr_un address = Address(name, &length);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return kSystemError;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0 || listen(fd, 64) != 0) {
    close(fd);
    return kSystemError;
  }
  snprintf(static_cast<char*>(handle), kHandleBytes, "%s", name.c_str());
  *listener = new int(fd);
  return kSuccess;
}

Result NetConnect(void*, int, void* handle, void** stream, void**) {
  *stream = nullptr;  // NCCL calls again
  socklen_t length;
  const sockaddr_un address = Address(static_cast<const char*>(handle), &length);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return kSystemError;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    const bool later = errno == EAGAIN;
    close(fd);
    return later ? kSuccess : kSystemError;
  }
  *stream = new Stream{fd, true, {}};
  return kSuccess;
}

Result NetAccept(void* listener, void** stream, void**) {
  const int fd = accept4(*static_cast<int*>(listener), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  *stream = fd >= 0 ? new Stream{fd, false, {}} : nullptr;  // without one, NCCL calls again
  return fd >= 0 || errno == EAGAIN || errno == EINTR ? kSuccess : kSystemError;
}

Result NetSend(void* stream, void* data, size_t size, int, void*, void*, void** request) {
  counters()->sends++;
  counters()->send_bytes += size;
  return static_cast<Stream*>(stream)->Post(data, size, request);
}

Result NetReceive(void* stream, int n, void** data, size_t* sizes, int*, void**, void**, void** request) {
  return n == 1 ? static_cast<Stream*>(stream)->Post(data[0], sizes[0], request) : kInternalError;
}

Result NetFlush(void*, int, void**, int*, void**, void** request) {
  *request = nullptr;
  return kSuccess;
}

Result NetTest(void* request, int* done, int* size) {
  auto* message = static_cast<Message*>(request);
  const Result result = message->Done() ? kSuccess : message->stream->Progress();
  *done = message->Done() ? 1 : 0;
  if (*done == 0) return result;
  if (size != nullptr) *size = static_cast<int>(message->size);
  delete message;
  return kSuccess;
}

Result NetClose(void* stream) {
  close(static_cast<Stream*>(stream)->fd);
  delete static_cast<Stream*>(stream);
  return kSuccess;
}

Result NetCloseListen(void* listener) {
  close(*static_cast<int*>(listener));
  delete static_cast<int*>(listener);
  return kSuccess;
}

}  // namespace
}  // namespace collnet

extern "C" __attribute__((visibility("default"))) const collnet::Net ncclNetPlugin_v11;
const collnet::Net ncclNetPlugin_v11 = {"jaxina",
                                        collnet::NetInit,
                                        collnet::Devices,
                                        collnet::GetProperties,
                                        collnet::NetListen,
                                        collnet::NetConnect,
                                        collnet::NetAccept,
                                        collnet::RegisterMemory,
                                        collnet::RegisterDmabuf,
                                        collnet::DeregisterMemory,
                                        collnet::NetSend,
                                        collnet::NetReceive,
                                        collnet::NetFlush,
                                        collnet::NetTest,
                                        collnet::NetClose,
                                        collnet::NetClose,
                                        collnet::NetCloseListen,
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        collnet::Finalize,
                                        nullptr};
