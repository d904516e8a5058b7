#include "core/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "seekline/error.h"

namespace seekline {
namespace {

// One mapping that the SIGBUS handler knows. Guards form a list that only grows and whose entries are reused,
// so that the handler can walk it at any moment without a lock. An entry is live while `end` is not 0.
struct Guard {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::array<char, 512> sentence{};
  Guard* next = nullptr;
};

std::atomic<Guard*> guards{nullptr};
std::mutex guards_mutex;
struct sigaction previous_action;

void end_process_if_ours(std::uintptr_t address) {
  for (const Guard* g = guards.load(std::memory_order_acquire); g != nullptr; g = g->next) {
    const std::uintptr_t end = g->end.load(std::memory_order_acquire);
    if (end == 0 || address < g->begin.load(std::memory_order_relaxed) || address >= end) continue;
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, g->sentence.data(), std::strlen(g->sentence.data()));
    ::_exit(static_cast<int>(ErrorCode::kIo));
  }
}

// Async-signal-safe: atomics, write and _exit only.
void on_sigbus(int signal, siginfo_t* info, void* context) {
  end_process_if_ours(reinterpret_cast<std::uintptr_t>(info->si_addr));
  if ((previous_action.sa_flags & SA_SIGINFO) != 0)
    return previous_action.sa_sigaction(signal, info, context);
  if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN)
    return previous_action.sa_handler(signal);
  // Back to the default action; the faulting instruction runs again and meets it.
  struct sigaction fallback {};
  fallback.sa_handler = SIG_DFL;
  ::sigaction(SIGBUS, &fallback, nullptr);
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    if (::sigaction(SIGBUS, &action, &previous_action) != 0)
      throw Error(ErrorCode::kIo,
                  fmt::format("cannot watch mapped files (sigaction: {})", std::strerror(errno)));
  });
}

Guard* enter_guard(const std::filesystem::path& path, const void* data, std::size_t bytes) {
  install_handler();
  const std::lock_guard lock(guards_mutex);
  Guard* guard = guards.load(std::memory_order_relaxed);
  while (guard != nullptr && guard->end.load(std::memory_order_relaxed) != 0) guard = guard->next;
  const bool fresh = guard == nullptr;
  if (fresh) guard = new Guard;
  const std::string sentence = fmt::format(
      "seekline: {}: the file was cut short, or its disk failed, while it was in use; start again with "
      "the whole file and leave it alone meanwhile\n",
      path.string());
  const std::size_t kept = std::min(sentence.size(), guard->sentence.size() - 1);
  std::memcpy(guard->sentence.data(), sentence.data(), kept);
  guard->sentence[kept] = '\0';
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  guard->begin.store(begin, std::memory_order_relaxed);
  guard->end.store(begin + bytes, std::memory_order_release);
  if (fresh) {
    guard->next = guards.load(std::memory_order_relaxed);
    guards.store(guard, std::memory_order_release);
  }
  return guard;
}

std::int64_t page_bytes() {
  static const std::int64_t bytes = ::sysconf(_SC_PAGESIZE);
  return bytes;
}

// The whole pages that hold some bytes.
struct Pages {
  std::uint8_t* begin;
  std::int64_t count;

  std::int64_t bytes() const { return count * page_bytes(); }
};

Pages pages_of(const std::uint8_t* data, std::int64_t bytes) {
  const auto before = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data) %
                                                static_cast<std::uintptr_t>(page_bytes()));
  return {const_cast<std::uint8_t*>(data) - before, (before + bytes + page_bytes() - 1) / page_bytes()};
}

// Advice only: a kernel that refuses it changes nothing but speed.
void advise(const std::uint8_t* data, std::int64_t bytes, int advice) {
  if (bytes <= 0) return;
  const Pages pages = pages_of(data, bytes);
  ::madvise(pages.begin, static_cast<std::size_t>(pages.bytes()), advice);
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const ErrorCode code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
    throw Error(code, fmt::format("{}: cannot be opened ({})", path.string(), std::strerror(errno)));
  }
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  const bool regular = known && S_ISREG(status.st_mode);
  void* data = nullptr;
  int failure = known ? 0 : errno;
  if (regular && status.st_size > 0) {
    data = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) failure = errno;
  }
  MappedFile file;
  file.path_ = path;
  file.fd_ = fd;
  if (failure != 0)
    throw Error(ErrorCode::kIo,
                fmt::format("{}: cannot be mapped ({})", path.string(), std::strerror(failure)));
  if (!regular) throw Error(ErrorCode::kIo, fmt::format("{}: is not a regular file", path.string()));
  if (data == nullptr) return file;
  file.data_ = static_cast<const std::uint8_t*>(data);
  file.bytes_ = status.st_size;
  file.guard_ = enter_guard(path, data, static_cast<std::size_t>(status.st_size));
  return file;
}

void MappedFile::release() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (data_ == nullptr) return;
  {
    const std::lock_guard lock(guards_mutex);
    static_cast<Guard*>(guard_)->end.store(0, std::memory_order_release);
  }
  ::munmap(const_cast<std::uint8_t*>(data_), static_cast<std::size_t>(bytes_));
  data_ = nullptr;
  bytes_ = 0;
}

MappedFile::~MappedFile() { release(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      fd_(std::exchange(other.fd_, -1)),
      guard_(std::exchange(other.guard_, nullptr)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  release();
  path_ = std::move(other.path_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  fd_ = std::exchange(other.fd_, -1);
  guard_ = std::exchange(other.guard_, nullptr);
  return *this;
}

void MappedFile::forget(const std::uint8_t* data, std::int64_t bytes) const {
  if (bytes <= 0) return;
  map_dont_need(data, bytes);  // first here: the system's cache keeps what is mapped
  const Pages pages = pages_of(data, bytes);
  ::posix_fadvise(fd_, pages.begin - data_, pages.bytes(), POSIX_FADV_DONTNEED);
}

void forget_written(int fd) {
  ::fdatasync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

bool map_is_resident(const std::uint8_t* data, std::int64_t bytes) {
  constexpr std::int64_t kAtOnce = 256;
  const Pages pages = pages_of(data, bytes);
  std::array<unsigned char, kAtOnce> resident;
  for (std::int64_t at = 0; at < pages.count; at += kAtOnce) {
    const Pages part{pages.begin + at * page_bytes(), std::min(pages.count - at, kAtOnce)};
    if (::mincore(part.begin, static_cast<std::size_t>(part.bytes()), resident.data()) != 0) return true;
    if (std::any_of(resident.data(), resident.data() + part.count,
                    [](unsigned char page) { return (page & 1) != 0; }))
      return true;
  }
  return false;
}

void map_will_need(const std::uint8_t* data, std::int64_t bytes) { advise(data, bytes, MADV_WILLNEED); }
void map_huge_pages(const std::uint8_t* data, std::int64_t bytes) {
  constexpr std::uintptr_t kHuge = std::uintptr_t{2} << 20;
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (at + kHuge - 1) / kHuge * kHuge;
  const std::uintptr_t end = (at + static_cast<std::uintptr_t>(bytes)) / kHuge * kHuge;
  if (begin >= end) return;
  advise(data + (begin - at), static_cast<std::int64_t>(end - begin), MADV_HUGEPAGE);
  // A fault reads its own huge page and no more. Where several threads read one file, the kernel's reading
  // ahead takes them for one that jumps, and fills the beginning of many a huge page with small ones.
  advise(data + (begin - at), static_cast<std::int64_t>(end - begin), MADV_RANDOM);
}
void map_random_access(const std::uint8_t* data, std::int64_t bytes) {
  advise(data, bytes, MADV_NOHUGEPAGE);
  advise(data, bytes, MADV_RANDOM);
}
void map_dont_need(const std::uint8_t* data, std::int64_t bytes) { advise(data, bytes, MADV_DONTNEED); }

}  // namespace seekline
