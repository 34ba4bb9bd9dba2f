#include "net/wire_log.h"

#include <fmt/core.h>
#include <grpc/support/log.h>

#include <chrono>
#include <mutex>
#include <optional>

namespace tacit {
namespace {

using std::chrono::steady_clock;

struct Sink {
  std::mutex mutex;
  std::function<void(const std::string&)> log;
  std::optional<steady_clock::time_point> last;
  std::size_t left_out = 0;
};
Sink& TheSink() {
  static Sink* const sink = new Sink;  // gRPC's threads may outlive everything that is destroyed
  return *sink;
}

void Take(gpr_log_func_args* line) {
  Sink& sink = TheSink();
  const std::lock_guard lock(sink.mutex);
  if (!sink.log) return;
  const auto now = steady_clock::now();
  if (sink.last && now - *sink.last < std::chrono::seconds(1)) {
    ++sink.left_out;
    return;
  }
  sink.last = now;
  sink.log(
      fmt::format("gRPC: {}{}", line->message,
                  sink.left_out == 0 ? "" : fmt::format(" ({} lines before it left out)", sink.left_out)));
  sink.left_out = 0;
}

}  // namespace

WireLog::WireLog(std::function<void(const std::string&)> log) {
  Sink& sink = TheSink();
  const std::lock_guard lock(sink.mutex);
  sink.log = std::move(log);
  sink.last.reset();
  sink.left_out = 0;
  gpr_set_log_function(&Take);
}

WireLog::~WireLog() {
  Sink& sink = TheSink();
  const std::lock_guard lock(sink.mutex);
  sink.log = nullptr;
}

}  // namespace tacit
