#pragma once

// A web page of stored runs: their list, live curves, budgets and certificates, and a privacy calculator. It
// shows what src/view reads, which is what may be released, and changes nothing.
//
// On a loopback address anybody on this machine may look; a request must name that address as its host, so
// that no other page in the same browser can read this one under a name of its own. On any other address a
// token is required, once: it is kept in a cookie that scripts cannot read.
//
// What one visitor may take is bounded: 32 streams of news and 2 calculations at a time, beyond which the
// answer is 503, 2 s of silence in a request, and no work for the pages of other sites.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"

namespace tacit {

struct BoardOptions {
  std::vector<std::filesystem::path> roots = {};  // of runs
  std::string host = "127.0.0.1";
  int port = 8474;                           // 0: any that is free
  std::optional<std::string> token = std::nullopt;          // asked for where it is set
  bool oracle = false;  // figures that a simulation's oracle read off private data, too
  std::filesystem::path certificate = {}, key = {};  // PEM files; with them the page is served over TLS
};

bool IsLoopback(const std::string& host);
Result<std::string> NewToken();  // 128 random bits

class Board {
 public:
  // Listens; nothing is answered before Serve. An error if the address cannot be had.
  static Result<std::unique_ptr<Board>> Open(BoardOptions);
  ~Board();
  int port() const;
  // Of the page, without the token; of a board on all addresses, by the name of this machine.
  std::string url() const;
  void Serve();  // until Stop
  void Stop();  // from any thread

 private:
  class Impl;
  explicit Board(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tacit
