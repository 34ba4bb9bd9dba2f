// tacit board: a web page of runs.
#include <csignal>
#include <fstream>
#include <memory>
#include <thread>

#include "board/board.h"
#include "cli.h"

namespace tacit::cli {
namespace {

struct BoardArguments {
  std::vector<std::string> roots;
  std::string listen = "127.0.0.1:8474", token_file, certificate, key;
  bool oracle = false;
};

// "127.0.0.1:8474", "[::1]:0", "8474", "localhost"
Status ParseListen(const std::string& text, BoardOptions& o) {
  std::string host = text, port;
  if (text.find_first_not_of("0123456789") == std::string::npos) {
    host.clear(), port = text;
  } else if (const std::size_t colon = text.rfind(':');
             colon != std::string::npos && (text.find(':') == colon || text.find(']') + 1 == colon)) {
    host = text.substr(0, colon), port = text.substr(colon + 1);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (!host.empty()) o.host = host;
  if (port.empty()) return Ok{};
  const unsigned long number = std::strtoul(port.c_str(), nullptr, 10);
  if (port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos || number > 65535)
    return Fail(Code::kInvalidArgument,
                "--listen {}: give an address like 127.0.0.1:8474, the port up to 65535", text);
  o.port = static_cast<int>(number);
  return Ok{};
}

Result<int> Show(const Common& common, const BoardArguments& a) {
  TACIT_OK(common.ExpectNoSets("board"));
  BoardOptions o;
  o.oracle = a.oracle;
  o.roots.assign(a.roots.begin(), a.roots.end());
  if (o.roots.empty()) o.roots.emplace_back("runs");
  for (const auto& root : o.roots) {
    std::error_code ignored;
    if (!a.roots.empty() && !std::filesystem::is_directory(root, ignored))
      return Fail(Code::kNotFound, "{}: no such folder; give folders with runs, or none for runs/",
                  root.string());
  }
  TACIT_OK(ParseListen(a.listen, o));
  o.certificate = a.certificate;
  o.key = a.key;
  if (!a.token_file.empty()) {
    std::ifstream in(a.token_file);
    std::string token;
    if (!in || !std::getline(in, token))
      return Fail(Code::kNotFound, "{}: holds no token; put one of at least 16 characters in its first line",
                  a.token_file);
    o.token = token;
  } else if (!IsLoopback(o.host)) {
    TACIT_TRY(o.token, NewToken());
  }
  const bool made = o.token && a.token_file.empty();
  const std::string token = made ? *o.token : "";
  const bool open = !IsLoopback(o.host) && o.certificate.empty();
  TACIT_TRY(const std::unique_ptr<Board> board, Board::Open(std::move(o)));
  const std::string where = board->url() + (made ? "?token=" + token : "");
  if (common.json)
    PrintJson({{"url", where}, {"port", board->port()}});
  else
    fmt::print("The board is at {}\nCtrl-C ends it.\n", where);
  std::fflush(stdout);
  if (open && !common.quiet)
    Warn(
        "without --certificate and --key the token and all pages travel unencrypted; use them, or a proxy "
        "that does, on a network that others share");
  const std::atomic<bool>& interrupted = InterruptFlag();
  static std::atomic<bool> ended = false;
  std::signal(SIGTERM, [](int) { ended = true; });
  std::thread serve([&] { board->Serve(); });
  while (!interrupted && !ended) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  board->Stop();
  serve.join();
  return 0;
}

}  // namespace

void AddBoard(CLI::App& app, Invocation& run) {
  CLI::App* verb =
      AddVerb(app, run, "board", "a web page of runs: live curves, budgets, a privacy calculator",
              "  tacit board                                     the runs in runs/, on this machine\n"
              "  tacit board /data/runs other/runs --listen 9000\n"
              "  tacit board --listen 0.0.0.0:8474 --certificate board.pem --key board.key\n");
  auto a = std::make_shared<BoardArguments>();
  verb->add_option("folders", a->roots, "folders of runs; runs/ unless given")->type_name("DIR");
  verb->add_option("--listen", a->listen,
                   "address and port; beyond this machine a token is asked for, which is made and printed")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  verb->add_option("--token-file", a->token_file, "the token to ask for, in the first line of a file")
      ->type_name("FILE");
  verb->add_flag("--oracle", a->oracle,
                 "also figures of simulations that an oracle read off private data, which no ε covers");
  verb->add_option("--certificate", a->certificate, "serve over TLS with this certificate")
      ->type_name("FILE.pem");
  verb->add_option("--key", a->key, "and its private key")->type_name("FILE.pem");
  verb->callback([a, &run] { run.action = [a, &run] { return Show(run.common, *a); }; });
}

}  // namespace tacit::cli
