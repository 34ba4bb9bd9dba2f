#pragma once

// A checkpoint: what a stopped run goes on from, bit for bit. Little-endian:
//   magic "TCTCKPT1" | SHA-256 of the resolved config | the run's figures | server, broadcast and clients,
//   or notes and peers, each as its State() in order | SHA-256 of all before
// It holds clients' private state, so the file is its owner's alone, stays in the run folder, and is removed
// when the run is done; nothing but the run itself can read it here.
//
// A run lets values out (trace, progress, model) only after a checkpoint that contains them is durable. So a
// round that a crash undoes was seen by nobody, and making it again costs nothing twice.
#include <cstring>
#include <filesystem>
#include <span>
#include <vector>

#include "algorithms/network.h"
#include "core/sha256.h"
#include "experiment/files.h"
#include "runtime/answers.h"

namespace tacit {

struct Standing {
  std::uint64_t rounds_done = 0, bytes_up = 0, bytes_down = 0;
  Answers answers = {};                     // of all rounds so far
  std::uint64_t trace_bytes = 0;            // of trace.jsonl that belong to these rounds
  std::uint64_t replay_seed = 0;            // of replayable noise; 0 for entropy
  double seconds = 0;
  bool finished = false;                    // every round is made and Finish was called
  std::string held;                         // trace lines that leave with this checkpoint
  std::vector<MuSquared> spent;             // per client
  std::vector<std::uint64_t> left;          // PlannedReleases::left(), where the run has a plan
};

class Checkpoint {
 public:
  // clients: those that remember, or what a server knows of those elsewhere; none where there is nothing.
  template <Coordinated A, class Client = typename A::Client>
  static Status Save(const std::filesystem::path& file, const Sha256::Digest& config, const Standing& at,
                     typename A::Server& server, typename A::Down& down,
                     std::span<std::type_identity_t<Client>> clients) {
    TACIT_TRY(Writer out, Writer::Create(file));
    out.Header(config, at);
    out.PutAll(server.State());
    out.PutAll(down.Fields());
    if constexpr (Resumable<Client>)
      for (Client& c : clients) out.PutAll(c.State());
    return out.Commit();
  }

  // Into a server and clients as the run's config makes them; accounts: how many pay; planned: numbers in
  // Standing::left. kNotFound: there is none.
  template <Coordinated A, class Client = typename A::Client>
  static Result<Standing> Load(const std::filesystem::path& file, const Sha256::Digest& config,
                               std::size_t accounts, std::size_t planned, typename A::Server& server,
                               typename A::Down& down, std::span<std::type_identity_t<Client>> clients) {
    TACIT_TRY(const std::string bytes, ReadWhole(file));
    return Parse<A, Client>(bytes, file.string(), config, accounts, planned, server, down, clients);
  }
  template <Coordinated A, class Client = typename A::Client>
  static Result<Standing> Parse(std::string_view bytes, const std::string& name, const Sha256::Digest& config,
                                std::size_t accounts, std::size_t planned, typename A::Server& server,
                                typename A::Down& down, std::span<std::type_identity_t<Client>> clients) {
    Reader in;
    TACIT_TRY(Standing at, in.Open(bytes, name, config, accounts, planned));
    bool ok = in.GetAll(server.State()) && in.GetAll(down.Fields());
    if constexpr (Resumable<Client>)
      for (std::size_t i = 0; ok && i < clients.size(); ++i) ok = in.GetAll(clients[i].State());
    if (!ok || !in.rest.empty()) return NotOfThis(name);
    return at;
  }

  // A client's State(), kept to go back to; empty: of one that does not.
  template <class Client>
  class Past {
   public:
    void Keep(Client& client) {
      if constexpr (GoesBack<Client>) state_ = client.State();
    }
    void Return(Client& client) const {
      if constexpr (GoesBack<Client>) client.State() = state_;
    }

   private:
    friend class Checkpoint;
    template <class... T> static std::tuple<T...> Values(const std::tuple<T&...>&);
    static auto Kept() {
      if constexpr (GoesBack<Client>)
        return decltype(Values(std::declval<Client&>().State()))();
      else
        return std::tuple<>();
    }
    auto All() {
      return std::apply([](auto&... v) { return std::tie(v...); }, state_);
    }
    decltype(Kept()) state_;
  };

  // One client alone, in a process of its own; Standing::held is the answer that leaves with this checkpoint.
  // before: its state before that answer. sealed: what it sealed for a masked sum, or null.
  template <class Client>
  static Status SaveClient(const std::filesystem::path& file, const Sha256::Digest& config,
                           const Standing& at, Client& client, Past<Client>& before,
                           const Masked* sealed = nullptr) {
    TACIT_TRY(Writer out, Writer::Create(file));
    out.Header(config, at);
    if constexpr (Resumable<Client>) out.PutAll(client.State());
    if constexpr (GoesBack<Client>) out.PutAll(before.All());
    if (sealed != nullptr) out.Put(static_cast<std::uint32_t>(sealed->bits_)), out.Put(sealed->value_);
    return out.Commit();
  }
  template <class Client>
  static Result<Standing> LoadClient(const std::filesystem::path& file, const Sha256::Digest& config,
                                     std::size_t planned, Client& client, Past<Client>& before,
                                     Masked* sealed = nullptr) {
    TACIT_TRY(const std::string bytes, ReadWhole(file));
    return ParseClient(bytes, file.string(), config, planned, client, before, sealed);
  }
  template <class Client>
  static Result<Standing> ParseClient(std::string_view bytes, const std::string& file,
                                      const Sha256::Digest& config, std::size_t planned, Client& client,
                                      Past<Client>& before, Masked* sealed = nullptr) {
    Reader in;
    TACIT_TRY(Standing at, in.Open(bytes, file, config, 1, planned));
    bool ok = true;
    if constexpr (Resumable<Client>) ok = in.GetAll(client.State());
    if constexpr (GoesBack<Client>) {
      before.Keep(client);  // of the same lengths
      ok = ok && in.GetAll(before.All());
    }
    if (sealed != nullptr) {
      std::uint32_t bits = 0;
      ok = ok && in.Get(bits) && bits >= 8 && bits <= 64 && bits % 8 == 0 && in.Get(sealed->value_);
      sealed->bits_ = bits;
      sealed->covered_ = false;
    }
    if (!ok || !in.rest.empty()) return NotOfThis(file);
    return at;
  }

  // Without a server: the last note of every peer, and the peers, or the one that has a process of its own.
  template <Networked A>
  static Status SaveNetwork(const std::filesystem::path& file, const Sha256::Digest& config,
                            const Standing& at, std::vector<typename A::Note>& notes,
                            std::span<typename A::Peer> peers) {
    TACIT_TRY(Writer out, Writer::Create(file));
    out.Header(config, at);
    for (typename A::Note& n : notes) out.PutAll(n.Fields());
    for (typename A::Peer& p : peers) out.PutAll(p.State());
    return out.Commit();
  }
  template <Networked A>
  static Result<Standing> LoadNetwork(const std::filesystem::path& file, const Sha256::Digest& config,
                                      std::vector<typename A::Note>& notes,
                                      std::span<typename A::Peer> peers) {
    TACIT_TRY(const std::string bytes, ReadWhole(file));
    Reader in;
    TACIT_TRY(Standing at, in.Open(bytes, file.string(), config, peers.size(), 0));
    const auto lengths = peers.front().lengths();  // notes of all peers have the same
    bool ok = true;
    for (std::size_t k = 0; ok && k < notes.size(); ++k) {
      notes[k] = {};
      ok = in.GetAll(notes[k].Fields()) && (FaultOf(notes[k], lengths) == Fault::kNone ||
                                            FaultOf(notes[k], lengths) == Fault::kAbsent);  // no note yet
    }
    for (std::size_t k = 0; ok && k < peers.size(); ++k) ok = in.GetAll(peers[k].State());
    if (!ok || !in.rest.empty()) return NotOfThis(file.string());
    return at;
  }

 private:
  static Error NotOfThis(const std::string& name) {
    return Fail(Code::kMalformed,
                "{}: does not hold the state of this algorithm; it was written by another version: start "
                "again with `tacit train`",
                name);
  }
  struct Writer {
    AtomicFile file;
    Sha256 hash;
    Status status = Ok{};

    static Result<Writer> Create(const std::filesystem::path&);
    void Header(const Sha256::Digest& config, const Standing&);
    void Bytes(const void* data, std::size_t size);
    Status Commit();
    template <class... T> void PutAll(const std::tuple<T&...>& state) {
      std::apply([&](const T&... v) { (Put(v), ...); }, state);
    }
    template <class T> requires std::is_arithmetic_v<T> void Put(const T& v) { Bytes(&v, sizeof v); }
    template <class T> void Put(const std::vector<T>& v) {
      Put(static_cast<std::uint64_t>(v.size()));
      Bytes(v.data(), v.size() * sizeof(T));
    }
    void Put(const Encoded& e) { Put(e.data); }
    template <class T> void Put(const Public<T>& v) { Put(*v); }
    template <class T> void Put(const Released<T>& v) { Put(v.value_); }
    template <class T> void Put(const Private<T>& v) { Put(v.value_); }
  };

  struct Reader {
    std::string_view rest;

    Result<Standing> Open(std::string_view bytes, const std::string& name, const Sha256::Digest& config,
                          std::size_t clients, std::size_t planned);
    template <class... T> bool GetAll(const std::tuple<T&...>& state) {
      return std::apply([&](T&... v) { return (Get(v) && ...); }, state);
    }
    template <class T> requires std::is_arithmetic_v<T> bool Get(T& v) {
      if (rest.size() < sizeof v) return false;
      std::memcpy(&v, rest.data(), sizeof v);
      rest.remove_prefix(sizeof v);
      return true;
    }
    // A vector that has its size already keeps it: code may index by it.
    template <class T> bool Get(std::vector<T>& v) {
      std::uint64_t n = 0;
      if (!Get(n) || n > rest.size() / sizeof(T) || (!v.empty() && n != v.size())) return false;
      v.resize(static_cast<std::size_t>(n));
      if (n != 0) std::memcpy(v.data(), rest.data(), v.size() * sizeof(T));
      rest.remove_prefix(v.size() * sizeof(T));
      return true;
    }
    bool Get(Encoded& e) { return Get(e.data); }
    template <class T> bool Get(Public<T>& v) { return Get(v.Mutable()); }
    template <class T> bool Get(Released<T>& v) { return Get(v.value_); }
    template <class T> bool Get(Private<T>& v) { return Get(v.value_); }
  };
};

}  // namespace tacit
