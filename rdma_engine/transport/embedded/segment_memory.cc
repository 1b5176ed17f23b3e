// Where a segment's memory comes from and when it goes.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "rdma_engine/transport/embedded/segment.h"

namespace jaxina::embedded {
namespace {

constexpr char kDirectory[] = "/dev/shm";
constexpr char kPrefix[] = "jaxina-";

[[noreturn]] void fail(const std::string& what, const std::string& remedy = "") {
  const std::string reason = std::strerror(errno);
  throw Error(ErrorCode::kSharedMemory, what + ": " + reason + (remedy.empty() ? "" : ". " + remedy));
}

// The unnamed segments of this process, so that its devices find each other.
using PrivateKey = std::pair<std::uint32_t, std::uint64_t>;  // job, secret
struct PrivateSegments {
  std::mutex mutex;
  std::map<PrivateKey, std::weak_ptr<Segment>> segments;
};

PrivateSegments& private_segments() {
  static PrivateSegments instance;
  return instance;
}

}  // namespace

std::shared_ptr<Segment> Segment::open(const EndpointConfig& config) {
  if (config.segment.empty()) {
    PrivateSegments& shared = private_segments();
    const std::lock_guard guard(shared.mutex);
    std::weak_ptr<Segment>& known = shared.segments[{config.job, config.secret}];
    if (std::shared_ptr<Segment> segment = known.lock()) return segment;
    std::shared_ptr<Segment> segment(new Segment(config));
    segment->map_private();
    segment->initialize(config);
    known = segment;
    return segment;
  }
  std::shared_ptr<Segment> segment(new Segment(config));
  if (config.worker == 0) {
    remove_orphaned_segments();
    segment->create_named(config);
    segment->initialize(config);
  } else {
    segment->attach_named(config);
  }
  return segment;
}

Segment::~Segment() {
  remove_name();
  if (base_ != nullptr) munmap(base_, size_);
  if (file_ >= 0) close(file_);
}

void Segment::map_private() {
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("cannot map " + std::to_string(size_) + " bytes for the slot pool");
  base_ = static_cast<std::byte*>(memory);
}

void Segment::create_named(const EndpointConfig& config) {
  file_ = shm_open(("/" + config.segment).c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file_ < 0) fail("cannot create shared memory " + config.segment);
  name_ = config.segment;
  flock(file_, LOCK_SH);
  // Reserved now: a full file system would otherwise kill the process at the first touch of a page.
  const int error = posix_fallocate(file_, 0, static_cast<off_t>(size_));
  if (error != 0) {
    errno = error;
    fail("cannot reserve " + std::to_string(size_ / 1024) + " KiB in " + kDirectory,
         "Make room there, lower JAXINA_SLOTS, or use the udp aggregator");
  }
  map_file(file_, config.segment.c_str());
}

void Segment::attach_named(const EndpointConfig& config) {
  const Nanoseconds deadline = now() + static_cast<Nanoseconds>(config.join_timeout_s * 1e9);
  const std::string path = "/" + config.segment;
  // The creator publishes the name before it has made the segment, so it may take a moment to appear and to fill.
  while (true) {
    if (file_ < 0) file_ = shm_open(path.c_str(), O_RDWR | O_CLOEXEC, 0);
    if (file_ < 0 && errno != ENOENT) fail("cannot open shared memory " + config.segment);
    struct stat info;
    const bool sized = file_ >= 0 && fstat(file_, &info) == 0 && static_cast<std::size_t>(info.st_size) >= size_;
    if (sized && base_ == nullptr) {
      flock(file_, LOCK_SH);
      map_file(file_, config.segment.c_str());
    }
    if (base_ != nullptr && header().ready.load(std::memory_order_acquire) == 1) break;
    if (now() > deadline) {
      throw Error(ErrorCode::kNeverJoined, "worker 0 did not create shared memory " + config.segment + " within " +
                                               std::to_string(config.join_timeout_s) +
                                               " s: is it running on this host, with the same /dev/shm?");
    }
    usleep(1000);
  }
  const SegmentHeader& h = header();
  if (h.secret != config.secret) throw Error(ErrorCode::kJobRejected, "shared memory " + config.segment + " belongs to another job");
  if (h.workers != config.workers || h.slots != config.slots || h.block_size != config.block_size ||
      h.blocks_per_chunk != config.blocks_per_chunk) {
    throw Error(ErrorCode::kMismatch, "this worker's number of workers, slots or blocks differs from worker 0's");
  }
}

void Segment::map_file(int file, const char* name) {
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  if (memory == MAP_FAILED) fail(std::string("cannot map shared memory ") + name);
  base_ = static_cast<std::byte*>(memory);
}

void Segment::remove_name() {
  if (name_.empty()) return;
  shm_unlink(("/" + name_).c_str());
  name_.clear();
}

void remove_orphaned_segments() {
  DIR* directory = opendir(kDirectory);
  if (directory == nullptr) return;
  while (const dirent* item = readdir(directory)) {
    if (std::strncmp(item->d_name, kPrefix, sizeof(kPrefix) - 1) != 0) continue;
    const std::string path = std::string("/") + item->d_name;
    const int file = shm_open(path.c_str(), O_RDWR | O_CLOEXEC, 0);
    if (file < 0) continue;
    struct stat info;
    // A segment younger than this may be one whose creator has not locked it yet.
    constexpr time_t kYoung = 10;
    const bool old = fstat(file, &info) == 0 && time(nullptr) - info.st_mtime > kYoung;
    if (old && flock(file, LOCK_EX | LOCK_NB) == 0) shm_unlink(path.c_str());
    close(file);
  }
  closedir(directory);
}

}  // namespace jaxina::embedded
