#include "serve/gone_watch.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

#include "seekline/error.h"

namespace seekline::serve {

GoneWatch::GoneWatch() : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_;
  if (epoll_ < 0 || wake_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) != 0)
    throw Error(ErrorCode::kIo, "the system gives no epoll instance to watch connections with");
  thread_ = std::thread([this] { run(); });
}

GoneWatch::~GoneWatch() {
  const std::uint64_t one = 1;
  while (write(wake_, &one, sizeof one) < 0) {
  }
  thread_.join();
  close(epoll_);
  close(wake_);
}

void GoneWatch::add(int socket, std::function<void()> action) {
  const std::lock_guard lock(mutex_);
  actions_[socket] = std::move(action);
  epoll_event event{};
  event.events = EPOLLRDHUP | EPOLLONESHOT;
  event.data.fd = socket;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event) != 0) epoll_ctl(epoll_, EPOLL_CTL_MOD, socket, &event);
}

void GoneWatch::remove(int socket) {
  const std::lock_guard lock(mutex_);
  actions_.erase(socket);
  epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, nullptr);
}

void GoneWatch::run() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const int socket = events[static_cast<std::size_t>(i)].data.fd;
      if (socket == wake_) return;
      const std::lock_guard lock(mutex_);  // held while the action runs: remove() then waits for it
      const auto found = actions_.find(socket);
      if (found == actions_.end()) continue;
      const std::function<void()> action = std::move(found->second);
      actions_.erase(found);
      action();
    }
  }
}

}  // namespace seekline::serve
