#include "rdma_engine/transport/verbs/completions.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace jaxina::verbs {

Completions::Completions(const Device& device, std::size_t entries)
    : channel_(checked(ibv_create_comp_channel(device.context.get()), "ibv_create_comp_channel")),
      wakeup_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      queue_(checked(ibv_create_cq(device.context.get(), static_cast<int>(entries), nullptr, channel_.get(), 0),
                     "ibv_create_cq")) {
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
}

void Completions::acknowledge_events() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_.get(), &queue, &context) == 0) {
    ibv_ack_cq_events(queue, 1);
    notified_ = false;
  }
}

void Completions::wait(Nanoseconds timeout) {
  // An event is raised only for completions after the request. So return at once, and the caller polls again for
  // earlier ones.
  if (!notified_) {
    notified_ = true;
    ibv_req_notify_cq(queue_.get(), 0);
    return;
  }
  pollfd waits[2] = {{channel_->fd, POLLIN, 0}, {wakeup_.get(), POLLIN, 0}};
  const timespec limit = {static_cast<time_t>(timeout / 1'000'000'000), static_cast<long>(timeout % 1'000'000'000)};
  if (ppoll(waits, 2, &limit, nullptr) <= 0) return;
  if (waits[0].revents != 0) acknowledge_events();
  if (waits[1].revents != 0) {
    std::uint64_t count;
    [[maybe_unused]] const ssize_t taken = read(wakeup_.get(), &count, sizeof(count));
  }
}

void Completions::interrupt() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wakeup_.get(), &one, sizeof(one));
}

}  // namespace jaxina::verbs
