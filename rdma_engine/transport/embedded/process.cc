#include "rdma_engine/transport/embedded/process.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

namespace jaxina::embedded {
namespace {

struct ProcessStat {
  char state;
  std::uint64_t start_time;
};

// Fields 3 and 22 of /proc/PID/stat; the second field is the name in parentheses and may hold anything.
std::optional<ProcessStat> read_stat(std::int32_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return std::nullopt;
  char text[1024];
  const std::size_t length = std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  text[length] = '\0';
  const char* field = std::strrchr(text, ')');
  if (field == nullptr) return std::nullopt;
  ProcessStat result{};
  unsigned long long start = 0;
  const int read = std::sscanf(field + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                               &result.state, &start);
  if (read != 2) return std::nullopt;
  result.start_time = start;
  return result;
}

std::uint64_t pid_namespace() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace

ProcessIdentity this_process() {
  const std::int32_t pid = getpid();
  const std::optional<ProcessStat> stat = read_stat(pid);
  return {pid, stat ? stat->start_time : 0, pid_namespace()};
}

bool is_alive(const ProcessIdentity& process) {
  if (process.pid_namespace != pid_namespace()) return true;  // its number means nothing here
  if (process.pid == getpid()) return true;
  if (kill(process.pid, 0) != 0 && errno == ESRCH) return false;
  const std::optional<ProcessStat> stat = read_stat(process.pid);
  if (!stat) return true;  // /proc is not readable: do not accuse
  return stat->start_time == process.start_time && stat->state != 'Z' && stat->state != 'X';
}

}  // namespace jaxina::embedded
