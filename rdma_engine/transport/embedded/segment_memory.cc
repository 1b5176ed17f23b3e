// The memory of a segment: how it is created, attached and removed.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
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

// The unnamed segments of this process, so that its devices find them.
using PrivateKey = std::pair<std::uint32_t, std::uint64_t>;  // job, secret
struct PrivateSegments {
  std::mutex mutex;
  std::map<PrivateKey, std::weak_ptr<Segment>> segments;
};

PrivateSegments& private_segments() {
  static PrivateSegments instance;
  return instance;
}

struct flock lock_of(std::uint32_t worker) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = worker;
  lock.l_len = 1;
  return lock;
}

}  // namespace

// The segments of this process that have a file. A child of fork() inherits these files and their locks, so it would
// keep this process looking alive after its end. Therefore the child closes them at once (its mappings are gone
// already: MADV_DONTFORK). And only this process may remove the names.
struct SegmentFiles {
  std::mutex mutex;
  std::set<Segment*> segments;

  static SegmentFiles& instance() {
    static SegmentFiles* const files = [] {
      auto* made = new SegmentFiles;  // never destroyed: threads may still use it when static destructors run
      pthread_atfork([] { instance().mutex.lock(); }, [] { instance().mutex.unlock(); }, [] { instance().in_child(); });
      return made;
    }();
    return *files;
  }

 private:
  void in_child() {
    for (Segment* segment : segments) {
      if (segment->file_ >= 0) close(segment->file_);
      segment->file_ = -1;
      segment->name_.clear();
    }
    mutex.unlock();
  }
};

std::shared_ptr<Segment> Segment::open(const Membership& member, const EmbeddedConfig& config) {
  if (config.segment.empty()) {
    PrivateSegments& shared = private_segments();
    const std::lock_guard guard(shared.mutex);
    std::weak_ptr<Segment>& known = shared.segments[{member.job, member.secret}];
    if (std::shared_ptr<Segment> segment = known.lock()) return segment;
    std::shared_ptr<Segment> segment(new Segment(member.shape));
    segment->map_private();
    segment->initialize(member);
    known = segment;
    return segment;
  }
  std::shared_ptr<Segment> segment(new Segment(member.shape));
  if (member.worker == 0) {
    remove_orphaned_segments();
    segment->create_named(config.segment);
    segment->initialize(member);
  } else {
    segment->attach_named(member, config.segment);
  }
  return segment;
}

Segment::~Segment() {
  remove_name();
  if (base_ != nullptr) munmap(base_, size_);
  close_file();
}

void Segment::open_file(const std::string& name, int flags) {
  SegmentFiles& files = SegmentFiles::instance();
  const std::lock_guard guard(files.mutex);
  file_ = shm_open(("/" + name).c_str(), flags | O_RDWR | O_CLOEXEC, 0600);
  if (file_ >= 0) files.segments.insert(this);
}

void Segment::close_file() {
  if (file_ < 0) return;
  SegmentFiles& files = SegmentFiles::instance();
  const std::lock_guard guard(files.mutex);
  files.segments.erase(this);
  close(file_);
}

void Segment::hold_place(std::uint32_t worker) {
  if (file_ < 0) return;  // all workers are in this process
  struct flock lock = lock_of(worker);
  if (fcntl(file_, F_OFD_SETLK, &lock) != 0) fail("cannot lock this worker's place in shared memory");
}

bool Segment::is_alive(std::uint32_t worker) const {
  if (file_ < 0) return true;
  struct flock lock = lock_of(worker);
  return fcntl(file_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void Segment::map_private() {
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("cannot map " + std::to_string(size_) + " bytes for the slot pool");
  base_ = static_cast<std::byte*>(memory);
}

void Segment::create_named(const std::string& name) {
  open_file(name, O_CREAT | O_EXCL);
  if (file_ < 0) fail("cannot create shared memory " + name);
  name_ = name;
  flock(file_, LOCK_SH);
  // Reserve the memory now. Otherwise a full file system would kill the process when it first touches a page.
  const int error = posix_fallocate(file_, 0, static_cast<off_t>(size_));
  if (error != 0) {
    errno = error;
    fail("cannot reserve " + std::to_string(size_ / 1024) + " KiB in " + kDirectory,
         "Make room there, lower JAXINA_SLOTS, or use the udp aggregator");
  }
  map_file(file_, name.c_str());
}

void Segment::attach_named(const Membership& member, const std::string& name) {
  const Nanoseconds deadline = now() + static_cast<Nanoseconds>(member.join_timeout_s * 1e9);
  // The creator publishes the name before it creates the segment. So the segment may appear, and be filled, a little
  // later.
  while (true) {
    if (file_ < 0) open_file(name, 0);
    if (file_ < 0 && errno != ENOENT) fail("cannot open shared memory " + name);
    struct stat info;
    const bool sized = file_ >= 0 && fstat(file_, &info) == 0 && static_cast<std::size_t>(info.st_size) >= size_;
    if (sized && base_ == nullptr) {
      flock(file_, LOCK_SH);
      map_file(file_, name.c_str());
    }
    if (base_ != nullptr && header().ready.load(std::memory_order_acquire) == 1) break;
    if (now() > deadline) {
      throw Error(ErrorCode::kNeverJoined, "worker 0 did not create shared memory " + name + " within " +
                                               std::to_string(member.join_timeout_s) +
                                               " s: is it running on this host, with the same /dev/shm?");
    }
    if (const Status given_up = member.gives_up ? member.gives_up() : Status(); !given_up.ok()) throw Error(given_up);
    usleep(1000);
  }
  const SegmentHeader& h = header();
  if (h.secret != member.secret)
    throw Error(ErrorCode::kJobRejected, "shared memory " + name + " belongs to another job");
  if (h.shape != member.shape) {
    throw Error(ErrorCode::kMismatch,
                "this worker's number of workers, devices, slots or blocks differs from worker 0's");
  }
}

void Segment::map_file(int file, const char* name) {
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  if (memory == MAP_FAILED) fail(std::string("cannot map shared memory ") + name);
  base_ = static_cast<std::byte*>(memory);
  // A mapping keeps the open file and its locks, as a descriptor does: see SegmentFiles.
  if (madvise(memory, size_, MADV_DONTFORK) != 0)
    fail(std::string("cannot exclude shared memory ") + name + " from child processes");
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
    // The creator of a segment younger than this may not have locked it yet.
    constexpr time_t kYoung = 10;
    const bool old = fstat(file, &info) == 0 && time(nullptr) - info.st_mtime > kYoung;
    if (old && flock(file, LOCK_EX | LOCK_NB) == 0) shm_unlink(path.c_str());
    close(file);
  }
  closedir(directory);
}

}  // namespace jaxina::embedded
