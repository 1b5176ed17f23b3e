#include "rdma_engine/engine/trace_events.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <vector>

#include "rdma_engine/worker/worker.h"

namespace jaxina {
namespace {

using Kind = TraceEvent::Kind;

// Track numbers: the tracks of a group are consecutive. A pool has at most 65535 slots.
constexpr std::uint64_t kTracksPerGroup = 100'000;
constexpr std::uint64_t kThreadTrack = 1, kFirstSlotTrack = 2;

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::kLookAhead: return "look-ahead";
    case Phase::kFlags: return "flags";
    case Phase::kData: return "data";
  }
  return "pass";
}

const char* name_of(TraceEvent::Wait wait) {
  switch (wait) {
    case TraceEvent::Wait::kSocket: return "wait for packets";
    case TraceEvent::Wait::kResult: return "wait for other workers";
    case TraceEvent::Wait::kSlotLock: return "wait for a slot's lock";
  }
  return "wait";
}

const char* name_of(Kind instant) {
  switch (instant) {
    case Kind::kSent: return "sent";
    case Kind::kSentAgain: return "sent again";
    case Kind::kResult: return "result";
    case Kind::kStale: return "stale result";
    case Kind::kPending: return "pending";
    case Kind::kRejected: return "rejected";
    case Kind::kDropped: return "dropped";
    case Kind::kWait:
    case Kind::kCollective: break;
  }
  return "";
}

class Writer {
 public:
  Writer(std::uint32_t process, TraceText& text) : process_(process), text_(text) {}

  void process_name(const std::string& name) {
    metadata("process_name", 0, R"("name":")" + name + '"');
    metadata("process_sort_index", 0, R"("sort_index":)" + std::to_string(process_));
  }
  void group(std::uint64_t index, const Group& group, const Recorder& recorder);

 private:
  struct Open {
    TraceEvent begin;
    std::uint32_t transmissions;
  };

  // Writes one event: the part before `format`, then `format` with its values, then the closing brace.
  template <typename... Values>
  void line(const char* phase, std::uint64_t track, const char* format, Values... values) {
    if (!text_.events.empty()) text_.events += ",\n";
    append(R"({"ph":"%s","pid":%)" PRIu32 R"(,"tid":%)" PRIu64 ",", phase, process_, track);
    append(format, values...);
    text_.events += '}';
  }
  template <typename... Values>
  void append(const char* format, Values... values) {
    char room[512];
    const int size = std::snprintf(room, sizeof(room), format, values...);
    text_.events.append(room, static_cast<std::size_t>(size));
  }
  void metadata(const char* what, std::uint64_t track, const std::string& arguments) {
    line("M", track, R"("name":"%s","args":{)", what);
    text_.events.insert(text_.events.size() - 1, arguments + '}');
  }
  void instant(std::uint64_t track, const TraceEvent& event, const char* name) {
    line("i", track, R"("name":"%s","s":"t","ts":%s)", name, microseconds(event.time).text);
  }
  void slice(std::uint64_t track, const Open& pass, Nanoseconds end, bool finished);
  void collective(std::uint64_t group, const TraceEvent& event);

  // Exact text; a double would round it.
  struct Number {
    char text[32];
  };
  static Number microseconds(Nanoseconds t) {
    Number number;
    std::snprintf(number.text, sizeof(number.text), "%" PRId64 ".%03d", t / 1000, static_cast<int>(t % 1000));
    return number;
  }

  std::uint32_t process_;
  TraceText& text_;
};

void Writer::slice(std::uint64_t track, const Open& pass, Nanoseconds end, bool finished) {
  const TraceEvent& e = pass.begin;
  line("X", track,
       R"("name":"%s","ts":%s,"dur":%s,"args":{"chunk":%)" PRIu32 R"(,"epoch":%)" PRIu32 R"(,"collective":%)" PRIu64
       R"(,"transmissions":%)" PRIu32 R"(%s})",
       name_of(static_cast<Phase>(e.detail)), microseconds(e.time).text,
       microseconds(std::max<Nanoseconds>(0, end - e.time)).text, e.chunk, e.epoch, e.collective, pass.transmissions,
       finished ? "" : R"(,"unfinished":true)");
  ++text_.passes;
}

void Writer::collective(std::uint64_t group, const TraceEvent& event) {
  const std::uint64_t track = group * kTracksPerGroup + kThreadTrack;
  const auto edge = [&](const char* phase, Nanoseconds time) {
    line(phase, track,
         R"("name":"collective","cat":"collective","id2":{"local":"0x%)" PRIx64 R"("},"ts":%s,"args":{"group":%)" PRIu64
         R"(,"collective":%)" PRIu64 R"(,"elements":%)" PRIu64 "}",
         group << 40 | event.collective, microseconds(time).text, group, event.collective, event.elements);
  };
  edge("b", event.time);
  edge("e", event.end);
}

void Writer::group(std::uint64_t index, const Group& group, const Recorder& recorder) {
  const std::uint64_t base = index * kTracksPerGroup;
  std::string devices;
  for (const std::int64_t device : group) devices += (devices.empty() ? "" : " ") + std::to_string(device);
  const std::string prefix = index == 0 ? "" : "group " + std::to_string(index) + ", ";
  metadata("thread_name", base + kThreadTrack, R"("name":")" + prefix + "waits (devices " + devices + ")\"");
  std::vector<std::optional<Open>> open;
  std::vector<bool> named;
  Nanoseconds latest = 0;
  for (std::size_t i = 0; i < recorder.size(); ++i) {
    const TraceEvent& event = recorder[i];
    latest = std::max({latest, event.time, event.end});
    const std::uint64_t thread = base + kThreadTrack, slot = base + kFirstSlotTrack + event.slot;
    if (event.kind == Kind::kWait) {
      line("X", thread, R"("name":"%s","ts":%s,"dur":%s)", name_of(static_cast<TraceEvent::Wait>(event.detail)),
           microseconds(event.time).text, microseconds(event.end - event.time).text);
      continue;
    }
    if (event.kind == Kind::kCollective) {
      collective(index, event);
      continue;
    }
    if (event.kind == Kind::kRejected || event.kind == Kind::kDropped) {
      instant(thread, event, name_of(event.kind));
      continue;
    }
    if (event.slot >= open.size()) open.resize(event.slot + 1u), named.resize(event.slot + 1u);
    if (!named[event.slot]) {
      named[event.slot] = true;
      metadata("thread_name", slot, R"("name":")" + prefix + "slot " + std::to_string(event.slot) + '"');
    }
    instant(slot, event, name_of(event.kind));
    std::optional<Open>& pass = open[event.slot];
    // A pass may have a result but no beginning, because the recorder has overwritten it.
    if (event.kind == Kind::kSent) pass = Open{event, 1};
    if (event.kind == Kind::kSentAgain && pass) ++pass->transmissions;
    if (event.kind == Kind::kResult && pass) {
      slice(slot, *pass, event.time, true);
      pass.reset();
    }
  }
  for (const std::optional<Open>& pass : open) {
    if (pass) slice(base + kFirstSlotTrack + pass->begin.slot, *pass, latest, false);
  }
  text_.overwritten += recorder.overwritten();
}

}  // namespace

TraceText trace_text(std::uint32_t process, const std::string& name,
                     const std::map<Group, std::unique_ptr<Recorder>>& trace) {
  TraceText text;
  Writer writer(process, text);
  writer.process_name(name);
  std::uint64_t index = 0;
  for (const auto& [group, recorder] : trace) writer.group(index++, group, *recorder);
  return text;
}

}  // namespace jaxina
