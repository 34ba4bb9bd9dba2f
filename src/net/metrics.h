#pragma once

// What a server, or a peer, tells whoever keeps it running: /health (200 and a word, or 503 with a sentence
// beside it) and, for Prometheus, /metrics. Counts alone, none of which depends on anybody's rows; over plain
// HTTP, so it listens on this machine only.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/result.h"

namespace tacit {

struct ServerCounts {
  std::atomic<std::uint64_t> round{0}, rounds{0};  // being asked for, from 1; planned
  std::atomic<std::uint64_t> clients{0}, seen{0};  // of the job; that have called since the start
  std::atomic<std::uint64_t> answers{0}, refused{0};  // answers taken and refused
  std::atomic<std::uint64_t> turned_away{0};  // calls without a right to be here
  std::atomic<std::uint64_t> late{0};  // answers that rounds ended without
  std::atomic<std::uint64_t> bytes_in{0}, bytes_out{0};  // of frames
  std::atomic<bool> over{false}, draining{false};
  std::atomic<bool> overdue{false};  // the round's deadline has passed with too few answers
  std::atomic<bool> unlisted{false};  // the list of revoked certificates cannot be read: nobody is let in
  std::atomic<bool> unkept{false};  // whose answers there are could not be written: none are taken
  std::atomic<std::int64_t> deadline{0};  // of the round, in ns of the steady clock; 0: none is asked for
};
// A word, and a sentence where it is not well.
struct Health {
  bool well = true;
  const char* word = "serving";  // over, draining, serving; unlisted, unkept, overdue
  std::string sentence = {};
};
Health HealthOf(const ServerCounts&);
std::string PrometheusText(const ServerCounts&);

// Of a peer on a graph, since it was started.
struct PeerCounts {
  std::atomic<std::uint64_t> round{0}, rounds{0};  // being heard, from 1; planned
  std::atomic<std::uint64_t> neighbours{0}, heard{0};  // of this peer; those with a note of this round
  std::atomic<std::uint64_t> sent{0}, received{0}, refused{0};  // notes
  std::atomic<std::uint64_t> turned_away{0};  // calls without a right to what they ask for
  std::atomic<std::uint64_t> bytes_in{0}, bytes_out{0};  // of notes
  std::atomic<bool> over{false};
};
Health HealthOf(const PeerCounts&);
std::string PrometheusText(const PeerCounts&);

// The same numbers from a page of this machine, by name without "tacit_".
Result<std::map<std::string, std::uint64_t>> ReadMetrics(const std::string& address);

class MetricsPage {
 public:
  // address: HOST:PORT of this machine; port 0: any that is free. The counts outlive the page. look: called
  // before they are read, by any thread; or none.
  static Result<std::unique_ptr<MetricsPage>> Start(const std::string& address, const ServerCounts&,
                                                    std::function<void()> look = {});
  static Result<std::unique_ptr<MetricsPage>> Start(const std::string& address, const PeerCounts&);
  virtual ~MetricsPage() = default;
  virtual int port() const = 0;
};

}  // namespace tacit
