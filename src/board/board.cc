#include "board/board.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "board/calculator.h"
#include "board/pages.h"
#include "board/trace_cache.h"
#include "view/downsample.h"
#include "view/run_file.h"
#include "view/runs.h"

namespace tacit {
namespace {

using httplib::Request, httplib::Response;
using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::size_t kShortestToken = 16;
// An open page holds a thread for its stream of news; what else is asked always has threads of its own.
constexpr int kMostListeners = 32;
constexpr std::size_t kThreads = 96, kMostWaiting = 64;
constexpr int kMostCalculations = 2;
constexpr std::time_t kPatience = 2;  // seconds that a request may pause, or a connection be without one
constexpr std::size_t kLargestText = std::size_t{4} << 20;  // of a config or a certificate

std::string Dump(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

void Answer(Response& out, int status, const json& body) {
  out.status = status;
  out.set_content(Dump(body), "application/json");
}
void Refuse(Response& out, int status, const Error& e) {
  Answer(out, status, {{"error", {{"code", static_cast<int>(e.code)}, {"message", e.message}}}});
}

// In a time that does not depend on where they differ.
bool Same(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// The value of a cookie, among "a=1; b=2".
std::string CookieOf(const Request& in, const std::string& cookie) {
  const std::string all = in.get_header_value("Cookie"), name = cookie + "=";
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find(';', at), all.size());
    while (at < end && all[at] == ' ') ++at;
    if (all.compare(at, name.size(), name) == 0) return all.substr(at + name.size(), end - at - name.size());
    at = end + 1;
  }
  return "";
}

// "localhost:8474" → "localhost", "[::1]:8474" → "::1"
std::string HostOf(std::string host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.rfind(':'));
}

// An error without the path it begins with: where things lie on this machine is nobody's business.
Error Within(const std::filesystem::path& folder, Error e, const std::string& instead = "") {
  const std::string path = folder.string();
  if (!e.message.starts_with(path)) return e;
  const bool inside = e.message.size() > path.size() && e.message[path.size()] == '/';
  e.message.replace(0, path.size() + (inside ? 1 : 0), instead);
  return e;
}

// Come back in a moment.
void Busy(Response& out, const char* what) {
  out.set_header("Retry-After", "2");
  Refuse(out, 503, Fail(Code::kIo, "{}; try again in a moment", what));
}

// One of few places, for as long as it lives.
class Place {
 public:
  Place(std::atomic<int>& taken, int most) : taken_(taken), have_(++taken <= most) {
    if (!have_) --taken_;
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if (have_) --taken_;
  }
  bool have() const { return have_; }

 private:
  std::atomic<int>& taken_;
  bool have_;
};

// Threads that take connections in turn. While too many wait, no more are accepted: they stay with the
// operating system, and do not use up the files that this process may have open.
class Workers : public httplib::TaskQueue {
 public:
  Workers() {
    for (std::size_t k = 0; k < kThreads; ++k) threads_.emplace_back([this] { Work(); });
  }
  void enqueue(std::function<void()> job) override {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return jobs_.size() < kMostWaiting; });
    jobs_.push_back(std::move(job));
    some_.notify_one();
  }
  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    some_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

 private:
  void Work() {
    for (;;) {
      std::function<void()> job;
      {
        std::unique_lock lock(mutex_);
        some_.wait(lock, [this] { return ended_ || !jobs_.empty(); });
        if (jobs_.empty()) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      room_.notify_one();
      job();
    }
  }

  std::mutex mutex_;
  std::condition_variable some_, room_;
  std::deque<std::function<void()>> jobs_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

// Of all runs at one time, as the page is told: the text of each by its id.
struct Snapshot {
  std::uint64_t version = 0;
  std::map<std::string, std::string> runs;
  std::map<std::string, std::filesystem::path> folders;
  std::map<std::string, std::set<std::string>> hidden;  // columns that are not shown
};

}  // namespace

bool IsLoopback(const std::string& host) {
  in_addr address{};  // a name like 127.example.org is no address
  return host == "localhost" || host == "::1" ||
         (inet_pton(AF_INET, host.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

Result<std::string> NewToken() {
  std::array<unsigned char, 16> bits{};
  if (RAND_bytes(bits.data(), static_cast<int>(bits.size())) != 1)
    return Fail(Code::kIo, "the operating system's generator gave no random bits for a token");
  std::string token;
  for (const unsigned char b : bits) token += fmt::format("{:02x}", b);
  return token;
}

class Board::Impl {
 public:
  explicit Impl(BoardOptions o) : options_(std::move(o)) {}

  Status Open() {
    if (options_.certificate.empty())
      server_ = std::make_unique<httplib::Server>();
    else
      server_ = std::make_unique<httplib::SSLServer>(options_.certificate.c_str(), options_.key.c_str());
    if (!server_->is_valid())
      return Fail(Code::kInvalidArgument,
                  "{}, {}: no certificate with its key; give both as PEM files, the key without a passphrase",
                  options_.certificate.string(), options_.key.string());
    server_->new_task_queue = [] { return new Workers; };
    server_->set_payload_max_length(4096);
    server_->set_read_timeout(kPatience);
    server_->set_keep_alive_timeout(kPatience);
    server_->set_default_headers({{"Content-Security-Policy",
                                   "default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
                                   "'self'; img-src 'self' data:; "
                                   "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
                                  {"X-Content-Type-Options", "nosniff"},
                                  {"Referrer-Policy", "no-referrer"},
                                  {"Cross-Origin-Resource-Policy", "same-origin"},
                                  {"Cache-Control", "no-store"}});
    Routes();
    const std::string host = options_.host == "localhost" ? "127.0.0.1" : options_.host;
    const bool bound = options_.port == 0 ? (port_ = server_->bind_to_any_port(host)) > 0
                                          : server_->bind_to_port(host, port_ = options_.port);
    if (!bound)
      return Fail(
          Code::kIo,
          "{}:{}: cannot listen there: it is in use, forbidden, or no address of this machine; choose "
          "another with --listen",
          options_.host, options_.port);
    return Ok{};
  }

  void Serve() {
    std::thread watch([this] { Watch(); });
    server_->listen_after_bind();
    stopping_ = true;
    wake_.notify_all();
    watch.join();
  }

  void Stop() {
    stopping_ = true;
    news_.notify_all();
    wake_.notify_all();
    server_->stop();
  }

  int port() const { return port_; }
  std::string url() const {
    std::string host = options_.host;
    // All of this machine's addresses are none that a browser elsewhere could open.
    if (std::array<char, 256> name{};
        (host == "0.0.0.0" || host == "::") && ::gethostname(name.data(), name.size() - 1) == 0)
      host = name.data();
    if (host.find(':') != std::string::npos) host = "[" + host + "]";
    return fmt::format("{}://{}:{}/", options_.certificate.empty() ? "http" : "https", host, port_);
  }

 private:
  // Browsers keep cookies by host and not by port: two boards of one host have two names.
  std::string Cookie() const { return fmt::format("tacit_board_{}", port_); }

  void Routes() {
    server_->set_pre_routing_handler([this](const Request& in, Response& out) { return Admit(in, out); });
    const auto page = [this](const char* path, std::string_view text, const char* type) {
      server_->Get(path, [text, type](const Request&, Response& out) {
        out.set_content(text.data(), text.size(), type);
      });
    };
    const WebPages pages = BuiltPages();
    page("/", pages.index, "text/html; charset=utf-8");
    page("/app.js", pages.script, "text/javascript; charset=utf-8");
    page("/app.css", pages.style, "text/css; charset=utf-8");
    server_->Post("/login", [this](const Request& in, Response& out) {
      if (options_.token && !Same(in.get_param_value("token"), *options_.token))
        return Login(out, "This is not the token.");
      Enter(out);
    });
    server_->Get("/api/runs", [this](const Request&, Response& out) {
      const Status listed = List();
      if (!listed.ok()) return Refuse(out, 500, listed.error());
      std::string all;
      for (const auto& [id, text] : Now()->runs) all += (all.empty() ? "" : ",") + text;
      out.set_content("[" + all + "]", "application/json");
    });
    server_->Get("/api/events", [this](const Request&, Response& out) { News(out); });
    server_->Get("/api/run", [this](const Request& in, Response& out) {
      if (const auto run = Find(in, out)) Detail(*run, out);
    });
    server_->Get("/api/trace", [this](const Request& in, Response& out) {
      if (const auto run = Find(in, out)) Curves(in, *run, out);
    });
    server_->Get("/api/calculate", [this](const Request& in, Response& out) {
      const Place place(calculations_, kMostCalculations);
      if (!place.have()) return Busy(out, "other calculations are going on");
      const auto answer =
          Calculate([&](const char* name) { return in.has_param(name) ? in.get_param_value(name) : ""; });
      if (!answer.ok()) return Refuse(out, 400, answer.error());
      Answer(out, 200, *answer);
    });
    server_->set_error_handler([](const Request& in, Response& out) {
      if (out.body.empty())
        Refuse(out, out.status, Fail(Code::kNotFound, "{}: no such page", in.path.substr(0, 200)));
    });
    server_->set_exception_handler([](const Request&, Response& out, const std::exception_ptr&) {
      Refuse(out, 500, Fail(Code::kInternal, "the request could not be answered"));
    });
  }

  // ---- Who may look.

  httplib::Server::HandlerResponse Admit(const Request& in, Response& out) {
    using enum httplib::Server::HandlerResponse;
    // Another site's page cannot read an answer, but could make us work for it. Browsers say whose page asks;
    // another port of the same machine is another site's too.
    const std::string site = in.get_header_value("Sec-Fetch-Site");
    if (in.path.starts_with("/api/") && (site == "cross-site" || site == "same-site")) {
      Refuse(out, 403, Fail(Code::kInvalidArgument, "the page of another site asks; open {} itself", url()));
      return Handled;
    }
    if (!options_.token) {
      const std::string host = HostOf(in.get_header_value("Host"));
      if (!IsLoopback(host) && host != options_.host) {
        Refuse(out, 403,
               Fail(Code::kInvalidArgument, "this page is {}; the request names another host", url()));
        return Handled;
      }
      return Unhandled;
    }
    if (in.path == "/login" && in.method == "POST") return Unhandled;
    if (in.path == "/app.css") return Unhandled;
    if (Same(CookieOf(in, Cookie()), *options_.token)) return Unhandled;
    if (in.path == "/" && Same(in.get_param_value("token"), *options_.token)) {
      Enter(out);
      return Handled;
    }
    if (in.path == "/")
      Login(out, in.has_param("token") ? "This is not the token." : "");
    else
      Refuse(out, 401,
             Fail(Code::kInvalidArgument, "the token is missing or wrong; open {} and give it", url()));
    return Handled;
  }

  void Enter(Response& out) const {
    if (options_.token)
      out.set_header("Set-Cookie",
                     fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict{}", Cookie(), *options_.token,
                                 options_.certificate.empty() ? "" : "; Secure"));
    out.set_redirect("/", 303);
  }

  static void Login(Response& out, const char* message) {
    constexpr std::string_view kMark = "<!--message-->";
    std::string text(BuiltPages().login);
    if (const std::size_t at = text.find(kMark); at != text.npos) text.replace(at, kMark.size(), message);
    out.status = 401;
    out.set_content(text, "text/html; charset=utf-8");
  }

  // ---- What there is.

  std::shared_ptr<const Snapshot> Now() {
    const std::lock_guard lock(mutex_);
    return now_;
  }

  // Reads the runs again; whoever waits is told if something is new.
  Status List() {
    const std::lock_guard only(listing_);
    auto next = std::make_shared<Snapshot>();
    for (std::size_t k = 0; k < options_.roots.size(); ++k) {
      std::error_code ignored;
      if (!std::filesystem::exists(options_.roots[k], ignored)) continue;  // the first run will make it
      const auto runs = ListRuns({options_.roots[k]});
      if (!runs.ok()) return Within(options_.roots[k], runs.error(), fmt::format("folder {}", k));
      for (const RunSummary& r : *runs) {
        const std::string id = fmt::format("{}/{}", k, r.name);
        json j = ToJson(r);
        j.erase("folder");
        if (!r.problem.empty())
          j["problem"] = Within(r.folder, Fail(Code::kMalformed, "{}", r.problem)).message;
        j["id"] = id;
        if (!options_.oracle)  // read off private data: may not be released
          for (const std::string& metric : r.oracle) j["metrics"].erase(metric);
        next->hidden[id] = options_.oracle ? std::set<std::string>() : r.oracle;
        next->runs[id] = Dump(j);
        next->folders[id] = r.folder;
      }
    }
    const std::lock_guard lock(mutex_);
    if (now_->version > 0 && now_->runs == next->runs) return Ok{};
    next->version = now_->version + 1;
    now_ = std::move(next);
    news_.notify_all();
    return Ok{};
  }

  // Looks again and again while somebody listens, and takes a tenth of a processor at most.
  void Watch() {
    while (!stopping_) {
      const auto begin = std::chrono::steady_clock::now();
      if (listeners_ > 0) (void)List();
      const auto took = std::chrono::steady_clock::now() - begin;
      std::unique_lock lock(mutex_);
      const auto rest = std::max<std::chrono::nanoseconds>(milliseconds(500), 9 * took);
      wake_.wait_for(lock, rest, [&] { return stopping_.load(); });
    }
  }

  // A stream of events: "all" first and whenever runs come or go, else "changed" with those that did.
  void News(Response& out) {
    // Held by what answers, and so given back however the connection ends.
    const auto place = std::make_shared<Place>(listeners_, kMostListeners);
    if (!place->have()) return Busy(out, "too many pages are open on this board");
    (void)List();
    auto sent = std::make_shared<std::shared_ptr<const Snapshot>>();
    out.set_chunked_content_provider(
        "text/event-stream", [this, sent, place](std::size_t, httplib::DataSink& sink) {
          std::shared_ptr<const Snapshot> now;
          {
            std::unique_lock lock(mutex_);
            const std::uint64_t known = *sent ? (*sent)->version : 0;
            const auto news = [&] { return stopping_ || now_->version != known; };
            // A page that was closed gives its place back soon, though there is nothing to tell it.
            for (int k = 0; k < 10 && !news_.wait_for(lock, std::chrono::seconds(1), news); ++k) {
              lock.unlock();
              if (sink.is_writable && !sink.is_writable()) return false;
              lock.lock();
            }
            now = now_;
          }
          if (stopping_) return false;
          std::string text = ": still here\n\n";
          if (!*sent || (*sent)->version != now->version) text = Event(*sent ? sent->get() : nullptr, *now);
          *sent = now;
          return sink.write(text.data(), text.size());
        });
  }

  static std::string Event(const Snapshot* before, const Snapshot& now) {
    bool same = before != nullptr && before->runs.size() == now.runs.size();
    std::string changed, all;
    for (const auto& [id, text] : now.runs) {
      all += (all.empty() ? "" : ",") + text;
      if (before == nullptr) continue;
      const auto old = before->runs.find(id);
      if (old == before->runs.end())
        same = false;
      else if (old->second != text)
        changed += (changed.empty() ? "" : ",") + text;
    }
    return same ? fmt::format("event: changed\ndata: [{}]\n\n", changed)
                : fmt::format("event: all\ndata: [{}]\n\n", all);
  }

  // The run that is asked for: one of those listed, so no path from a request is ever opened.
  struct Listed {
    std::filesystem::path folder;
    std::string text;  // as the page is told
    std::set<std::string> hidden;
  };
  std::optional<Listed> Find(const Request& in, Response& out) {
    const std::string id = in.get_param_value("run");
    for (int turn = 0; turn < 2; ++turn) {
      const auto now = Now();
      if (const auto found = now->folders.find(id); found != now->folders.end())
        return Listed{found->second, now->runs.at(id), now->hidden.at(id)};
      if (turn == 0) (void)List();
    }
    Refuse(out, 404, Fail(Code::kNotFound, "{}: no such run", id.substr(0, 200)));
    return std::nullopt;
  }

  void Detail(const Listed& listed, Response& out) {
    const std::filesystem::path& folder = listed.folder;
    const auto trace = traces_.Get(folder);
    const auto text = [&](const char* name) {
      const auto read = ReadRunFile(folder, name, kLargestText);
      return read.ok() ? *read : std::string();
    };
    json columns = json::array();
    if (trace.ok())
      for (const std::string& name : (*trace)->names)
        if (name != "round" && !listed.hidden.contains(name)) columns.push_back(name);
    Answer(out, 200,
           {{"run", json::parse(listed.text)},
            {"columns", columns},
            {"config", text("config.toml")},
            {"certificate", text("certificate.txt")}});
  }

  void Curves(const Request& in, const Listed& listed, Response& out) {
    const auto read = traces_.Get(listed.folder);
    if (!read.ok()) return Refuse(out, 500, Within(listed.folder, read.error()));
    const Trace& trace = **read;
    const std::string across = in.get_param_value("x"), up = in.get_param_value("y");
    std::size_t points = 2000;
    if (in.has_param("points")) {
      points = static_cast<std::size_t>(std::strtoul(in.get_param_value("points").c_str(), nullptr, 10));
      points = std::clamp<std::size_t>(points, 4, 20000);
    }
    std::vector<double> bytes;
    const auto column = [&](const std::string& name) {
      return listed.hidden.contains(name) ? nullptr : trace.column(name);
    };
    const std::vector<double>* x = column(across);
    if (across == "bytes") {
      const std::vector<double>*a = trace.column("bytes_up"), *b = trace.column("bytes_down");
      if (a != nullptr && b != nullptr) {
        bytes = *a;
        for (std::size_t k = 0; k < bytes.size(); ++k) bytes[k] += (*b)[k];
        x = &bytes;
      }
    }
    json lines = json::object();
    std::vector<double> xs, ys;
    for (std::size_t at = 0; at <= up.size() && x != nullptr;) {
      const std::size_t end = std::min(up.find(',', at), up.size());
      const std::string name = up.substr(at, end - at);
      if (const std::vector<double>* y = column(name)) {
        Downsample(*x, *y, points, xs, ys);
        const auto infinite = [](const std::vector<double>& of) {
          return std::count_if(of.begin(), of.end(), [](double v) { return std::isinf(v); });
        };
        lines[name] = {{"x", xs}, {"y", ys}, {"infinite", infinite(*x) + infinite(*y)}};
      }
      at = end + 1;
    }
    Answer(out, 200, {{"rows", trace.rows()}, {"lines", lines}});
  }

  BoardOptions options_;
  std::unique_ptr<httplib::Server> server_;
  int port_ = 0;
  TraceCache traces_{16};
  std::mutex mutex_, listing_;
  std::condition_variable news_, wake_;
  std::shared_ptr<const Snapshot> now_ = std::make_shared<Snapshot>();
  std::atomic<bool> stopping_ = false;
  std::atomic<int> listeners_ = 0, calculations_ = 0;
};

Board::Board(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Board::~Board() = default;

Result<std::unique_ptr<Board>> Board::Open(BoardOptions o) {
  if (!o.token && !IsLoopback(o.host))
    return Fail(Code::kInvalidArgument, "{}: can be reached from elsewhere, which needs a token", o.host);
  if (o.token && o.token->size() < kShortestToken)
    return Fail(Code::kInvalidArgument,
                "the token has {} characters; give one of at least {}, or none, and one is made",
                o.token->size(), kShortestToken);
  if (o.token && o.token->find_first_not_of(
                     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != std::string::npos)
    return Fail(Code::kInvalidArgument, "the token may hold letters, digits, - and _ only");
  if (o.certificate.empty() != o.key.empty())
    return Fail(Code::kInvalidArgument, "--certificate and --key go together: give both or none");
  auto impl = std::make_unique<Impl>(std::move(o));
  TACIT_OK(impl->Open());
  return std::unique_ptr<Board>(new Board(std::move(impl)));
}

int Board::port() const { return impl_->port(); }
std::string Board::url() const { return impl_->url(); }
void Board::Serve() { impl_->Serve(); }
void Board::Stop() { impl_->Stop(); }

}  // namespace tacit
