#include "net/metrics.h"

#include <httplib.h>

#include <charconv>
#include <chrono>
#include <sstream>
#include <thread>

namespace tacit {

namespace {
std::uint64_t SecondsLeft(const ServerCounts& c) {
  using namespace std::chrono;
  const nanoseconds deadline(c.deadline.load()), now = steady_clock::now().time_since_epoch();
  return deadline <= now ? 0 : static_cast<std::uint64_t>(ceil<seconds>(deadline - now).count());
}
auto AddTo(std::string& out) {
  return [&out](const char* name, const char* kind, const char* help, std::uint64_t value) {
    out += fmt::format("# HELP tacit_{} {}\n# TYPE tacit_{} {}\ntacit_{} {}\n", name, help, name, kind, name,
                       value);
  };
}
}  // namespace

std::string PrometheusText(const ServerCounts& c) {
  std::string out;
  const auto add = AddTo(out);
  add("round", "gauge", "Round that is asked for.", c.round);
  add("rounds_planned", "gauge", "Rounds of the job.", c.rounds);
  add("clients", "gauge", "Clients of the job.", c.clients);
  add("clients_seen", "gauge", "Clients that have called since the start.", c.seen);
  add("answers_total", "counter", "Answers taken.", c.answers);
  add("answers_refused_total", "counter", "Answers refused.", c.refused);
  add("answers_missing_total", "counter", "Answers that rounds ended without.", c.late);
  add("calls_turned_away_total", "counter", "Calls without a right to be here.", c.turned_away);
  add("bytes_received_total", "counter", "Bytes of answers taken.", c.bytes_in);
  add("bytes_sent_total", "counter", "Bytes of broadcasts sent.", c.bytes_out);
  add("job_over", "gauge", "1 once the result is durable.", c.over ? 1 : 0);
  add("draining", "gauge", "1 while the server is about to stop.", c.draining ? 1 : 0);
  add("round_overdue", "gauge", "1 while a round waits for answers beyond its deadline.", c.overdue ? 1 : 0);
  add("round_deadline_seconds_left", "gauge",
      "Seconds until the deadline of what is asked for; 0 when it has passed or nothing is.", SecondsLeft(c));
  add("revocations_unreadable", "gauge", "1 while nobody is let in for want of the list.",
      c.unlisted ? 1 : 0);
  add("answers_not_kept", "gauge", "1 while no answers are taken for want of a place to note them.",
      c.unkept ? 1 : 0);
  return out;
}

Health HealthOf(const ServerCounts& c) {
  if (c.over) return {.word = "over"};
  if (c.draining) return {.word = "draining"};
  if (c.unlisted)
    return {false, "unlisted",
            "The list of revoked certificates (--crl) cannot be read, and nobody is let in until it can; put "
            "it back."};
  if (c.unkept)
    return {false, "unkept",
            "The file that says whose answers there are cannot be written, and none are taken until it can; "
            "make room on its disk."};
  if (c.overdue)
    return {false, "overdue",
            fmt::format("Round {} waits for more answers though its deadline has passed; see which clients "
                        "are missing.",
                        c.round.load())};
  return {};
}

Health HealthOf(const PeerCounts& c) { return {.word = c.over ? "over" : "serving"}; }
std::string PrometheusText(const PeerCounts& c) {
  std::string out;
  const auto add = AddTo(out);
  add("round", "gauge", "Round whose notes are heard.", c.round);
  add("rounds_planned", "gauge", "Rounds of the job.", c.rounds);
  add("neighbours", "gauge", "Neighbours of this peer.", c.neighbours);
  add("neighbours_heard", "gauge", "Neighbours whose note of this round is here.", c.heard);
  add("notes_sent_total", "counter", "Notes given to neighbours.", c.sent);
  add("notes_received_total", "counter", "Notes of neighbours taken.", c.received);
  add("notes_refused_total", "counter", "Notes of neighbours refused.", c.refused);
  add("calls_turned_away_total", "counter", "Calls without a right to what they ask for.", c.turned_away);
  add("bytes_received_total", "counter", "Bytes of notes taken.", c.bytes_in);
  add("bytes_sent_total", "counter", "Bytes of notes sent.", c.bytes_out);
  add("job_over", "gauge", "1 once the result is durable.", c.over ? 1 : 0);
  return out;
}

namespace {

// Host and port; port −1: it is none of this machine.
std::pair<std::string, int> Local(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  int port = -1;
  if (colon != std::string::npos)
    std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  if (port > 65535 || (host != "127.0.0.1" && host != "localhost" && host != "::1")) port = -1;
  return {std::move(host), port};
}

class Page final : public MetricsPage {
 public:
  template <class Counts>
  Status Listen(const std::string& address, const Counts& counts, std::function<void()> look) {
    const auto [host, port] = Local(address);
    if (port < 0)
      return Fail(
          Code::kInvalidArgument,
          "--metrics {}: must be a port of this machine, e.g. 127.0.0.1:9090; what is further away asks "
          "through a proxy",
          address);
    http_.new_task_queue = [] { return new httplib::ThreadPool(4); };
    http_.set_read_timeout(2);
    look_ = std::move(look);
    http_.Get("/health", [this, &counts](const httplib::Request&, httplib::Response& r) {
      if (look_) look_();
      const Health health = HealthOf(counts);
      r.status = health.well ? 200 : 503;
      r.set_content(health.well ? fmt::format("{}\n", health.word)
                                : fmt::format("{}\n{}\n", health.word, health.sentence),
                    "text/plain");
    });
    http_.Get("/metrics", [this, &counts](const httplib::Request&, httplib::Response& r) {
      if (look_) look_();
      r.set_content(PrometheusText(counts), "text/plain; version=0.0.4");
    });
    port_ = port == 0 ? http_.bind_to_any_port(host) : http_.bind_to_port(host, port) ? port : -1;
    if (port_ <= 0) return Fail(Code::kIo, "--metrics {}: cannot be listened at; is the port free?", address);
    thread_ = std::jthread([this] { http_.listen_after_bind(); });
    while (!http_.is_running()) std::this_thread::yield();      // stop() before that would be lost
    return Ok{};
  }
  ~Page() override { http_.stop(); }
  int port() const override { return port_; }

 private:
  std::function<void()> look_;
  httplib::Server http_;
  int port_ = -1;
  std::jthread thread_;
};

}  // namespace

Result<std::map<std::string, std::uint64_t>> ReadMetrics(const std::string& address) {
  const auto [host, port] = Local(address);
  if (port <= 0)
    return Fail(Code::kInvalidArgument,
                "--server {}: must be the --metrics of a `tacit serve` on this machine, e.g. 127.0.0.1:9090",
                address);
  httplib::Client http(host, port);
  http.set_connection_timeout(5);
  http.set_read_timeout(5);
  const auto page = http.Get("/metrics");
  if (!page || page->status != 200)
    return Fail(Code::kIo, "{}: does not answer; is `tacit serve … --metrics {}` running on this machine?",
                address, address);
  std::map<std::string, std::uint64_t> out;
  std::istringstream lines(page->body);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kOurs = "tacit_";
    const std::size_t space = line.find(' ');
    std::uint64_t value = 0;
    if (!line.starts_with(kOurs) || space == std::string::npos) continue;
    if (std::from_chars(line.data() + space + 1, line.data() + line.size(), value).ec != std::errc{})
      continue;
    out[line.substr(kOurs.size(), space - kOurs.size())] = value;
  }
  return out;
}

namespace {
template <class Counts>
Result<std::unique_ptr<MetricsPage>> StartPage(const std::string& address, const Counts& counts,
                                               std::function<void()> look) {
  auto page = std::make_unique<Page>();
  TACIT_OK(page->Listen(address, counts, std::move(look)));
  return Result<std::unique_ptr<MetricsPage>>(std::move(page));
}
}  // namespace

Result<std::unique_ptr<MetricsPage>> MetricsPage::Start(const std::string& address,
                                                        const ServerCounts& counts,
                                                        std::function<void()> look) {
  return StartPage(address, counts, std::move(look));
}
Result<std::unique_ptr<MetricsPage>> MetricsPage::Start(const std::string& address,
                                                        const PeerCounts& counts) {
  return StartPage(address, counts, {});
}

}  // namespace tacit
