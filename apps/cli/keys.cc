// tacit keys: the keys that certificates are signed with, and who is who between machines.
#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <span>

#include "cli.h"
#include "experiment/signature.h"
#include "experiment/verify.h"
#include "net/ca.h"
#include "privacy/mask_keys.h"

namespace tacit::cli {
namespace {

constexpr std::size_t kLongest = 1024;  // of a passphrase: as OpenSSL's own

volatile std::sig_atomic_t asked_to_stop = 0;  // by which signal

// While this lives a signal that ends a process ends a read instead, so that a terminal is put back first.
class Postponed {
 public:
  Postponed() {
    asked_to_stop = 0;
    struct sigaction note{};
    note.sa_handler = [](int signal) { asked_to_stop = signal; };
    sigemptyset(&note.sa_mask);  // and no SA_RESTART
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &note, &before_[i]);
  }
  ~Postponed() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
    if (asked_to_stop != 0) ::raise(asked_to_stop);
  }
  Postponed(const Postponed&) = delete;
  Postponed& operator=(const Postponed&) = delete;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
};

// A text that leaves nothing behind.
struct Wiped {
  explicit Wiped(std::string held) : text(std::move(held)) {}
  ~Wiped() { Wipe(std::as_writable_bytes(std::span(text))); }
  Wiped(const Wiped&) = delete;
  Wiped& operator=(const Wiped&) = delete;
  std::string text;
};

// A line from the terminal that is not shown while it is typed.
Result<std::string> Prompt(const std::string& question, const std::string& key) {
  const int tty = ::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (tty < 0)
    return Fail(
        Code::kInvalidArgument,
        "{}: needs its passphrase and there is no terminal to ask on; put it in a file and name that with "
        "--passphrase-file or TACIT_PASSPHRASE_FILE",
        key);
  const auto say = [&](const std::string& text) {
    static_cast<void>(!::write(tty, text.data(), text.size()));
  };
  const Postponed signals;
  termios before{};
  const bool hides = ::tcgetattr(tty, &before) == 0;
  if (hides) {
    termios quiet = before;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    ::tcsetattr(tty, TCSAFLUSH, &quiet);
  }
  say(question);
  std::string line;
  line.reserve(kLongest);  // which is not moved then
  for (char c = 0; ::read(tty, &c, 1) == 1 && c != '\n' && line.size() < kLongest;) line += c;
  if (hides) ::tcsetattr(tty, TCSAFLUSH, &before);
  say("\n");
  ::close(tty);
  if (asked_to_stop != 0) {
    Wipe(std::as_writable_bytes(std::span(line)));
    return Fail(Code::kInterrupted, "{}: no passphrase was given", key);
  }
  return line;
}

// A passphrase for a key that is made, asked for twice where it is typed.
Result<std::string> NewPassphrase(const PassphraseOptions& options, const std::string& key) {
  TACIT_TRY(std::string passphrase, options.Ask(key));
  if (options.file.empty() && std::getenv("TACIT_PASSPHRASE_FILE") == nullptr) {
    TACIT_TRY(std::string typed, Prompt("The same again: ", key));
    const Wiped again(std::move(typed));
    if (again.text != passphrase)
      return Fail(Code::kInvalidArgument, "the two passphrases differ; no key was made, try again");
  }
  if (passphrase.empty())
    return Fail(Code::kInvalidArgument, "the passphrase is empty; give one, or leave out --encrypt");
  return passphrase;
}

AskPassphrase Asking(const PassphraseOptions& options) {
  return [&options](const std::string& key) { return options.Ask(key); };
}

struct NewArguments {
  std::string name;
  bool encrypt = false;
  PassphraseOptions passphrase;
};

Result<int> New(const Common& common, const NewArguments& a) {
  TACIT_OK(common.ExpectNoSets("keys"));
  std::optional<std::string> passphrase;
  if (a.encrypt) {
    TACIT_TRY(passphrase, NewPassphrase(a.passphrase, a.name + ".pem"));
  }
  TACIT_TRY(const PrivateKey key, PrivateKey::New());
  const Result<KeyFiles> written = WriteKeys(a.name, key, passphrase);
  if (passphrase) Wipe(std::as_writable_bytes(std::span(*passphrase)));
  TACIT_TRY(const KeyFiles files, written);
  const std::string fingerprint = key.public_key().fingerprint();
  if (common.json)
    return PrintJson({{"private", files.secret.string()},
                      {"public", files.shared.string()},
                      {"fingerprint", fingerprint},
                      {"algorithm", "Ed25519"},
                      {"encrypted", a.encrypt}});
  fmt::print("private key  {}  (keep it to yourself{})\n", files.secret.string(),
             a.encrypt ? "; encrypted" : "");
  fmt::print("public key   {}  (for everyone who checks)\n", files.shared.string());
  fmt::print("fingerprint  {}\n", fingerprint);
  return 0;
}

Result<int> Show(const Common& common, const std::string& file) {
  TACIT_OK(common.ExpectNoSets("keys"));
  TACIT_TRY(const std::string pem, ReadWhole(file, "a public key; `tacit keys new NAME` makes a pair"));
  TACIT_TRY(const PublicKey key, PublicKey::Parse(pem, file));
  if (common.json)
    return PrintJson({{"public", file}, {"fingerprint", key.fingerprint()}, {"algorithm", "Ed25519"}});
  fmt::print("{}\n", key.fingerprint());
  return 0;
}

Result<int> MakeCa(const Common& common, NewAuthority a, bool encrypt, const PassphraseOptions& passphrase) {
  TACIT_OK(common.ExpectNoSets("keys"));
  if (encrypt) {
    TACIT_TRY(a.passphrase, NewPassphrase(passphrase, (a.folder / "ca.key").string()));
  }
  const Status made = MakeAuthority(a);
  if (a.passphrase) Wipe(std::as_writable_bytes(std::span(*a.passphrase)));
  if (!made.ok()) return made.error();
  const std::string ca = (a.folder / "ca.pem").string(), key = (a.folder / "ca.key").string(),
                    crl = (a.folder / "crl.pem").string();
  if (common.json)
    return PrintJson(
        {{"authority", ca}, {"key", key}, {"revocations", crl}, {"days", a.days}, {"encrypted", encrypt}});
  fmt::print("authority    {}  (for everyone who takes part)\n", ca);
  fmt::print("private key  {}  (keep it to yourself, and off the network{})\n", key,
             encrypt ? "; encrypted" : "");
  fmt::print("revoked      {}  (for everyone who takes part)\n", crl);
  return 0;
}

Result<int> Ask(const Common& common, const NewRequest& n) {
  TACIT_OK(common.ExpectNoSets("keys"));
  TACIT_TRY(const RequestFiles files, MakeRequest(n));
  if (common.json)
    return PrintJson({{"request", files.request.string()}, {"key", files.key.string()}, {"name", n.name}});
  fmt::print("request      {}  (for the authority)\n", files.request.string());
  fmt::print("private key  {}  (keep it to yourself)\n", files.key.string());
  return 0;
}

Result<int> MakeCertificate(const Common& common, const NewCertificate& n,
                            const PassphraseOptions& passphrase) {
  TACIT_OK(common.ExpectNoSets("keys"));
  if (n.name.empty() && n.request.empty())
    return Fail(Code::kInvalidArgument, "who is the certificate for? Give a NAME, or a --request file");
  TACIT_TRY(const IssuedFiles files, Issue(n, Asking(passphrase)));
  const char* party = Name(n.party);
  if (common.json)
    return PrintJson({{"certificate", files.certificate.string()},
                      {"key", files.key.empty() ? nlohmann::json() : nlohmann::json(files.key.string())},
                      {"serial", files.serial},
                      {"name", files.name},
                      {"party", party},
                      {"days", n.days}});
  fmt::print("certificate  {}  ({} {}, {} days)\n", files.certificate.string(), party, files.name, n.days);
  if (!files.key.empty())
    fmt::print("private key  {}  (for {} alone: hand it over safely)\n", files.key.string(), files.name);
  return 0;
}

Result<int> TakeBack(const Common& common, const std::string& authority, const std::string& name,
                     const PassphraseOptions& passphrase) {
  TACIT_OK(common.ExpectNoSets("keys"));
  TACIT_TRY(const std::size_t count, Revoke(authority, name, Asking(passphrase)));
  const std::string crl = (std::filesystem::path(authority) / "crl.pem").string();
  if (common.json) return PrintJson({{"name", name}, {"revoked", count}, {"revocations", crl}});
  fmt::print("{} certificate{} of {} revoked; everyone with --crl {} turns them away from now on\n", count,
             count == 1 ? "" : "s", name, crl);
  return 0;
}

void AddParties(CLI::App* verb, Invocation& run) {
  {
    CLI::App* sub = AddVerb(*verb, run, "ca", "make an authority that vouches for machines",
                            "  tacit keys ca ca                   ca/ca.pem, ca/ca.key, ca/crl.pem\n"
                            "  tacit keys ca ca --encrypt         asks for a passphrase of ca.key\n");
    auto passphrase = std::make_shared<PassphraseOptions>();
    auto encrypt = std::make_shared<bool>(false);
    auto a = std::make_shared<NewAuthority>();
    auto folder = std::make_shared<std::string>();
    sub->add_option("folder", *folder, "folder of the authority")->required()->type_name("DIR");
    sub->add_option("--name", a->name, "name in its certificate")->capture_default_str()->type_name("NAME");
    sub->add_option("--days", a->days, "how long it is valid")
        ->capture_default_str()
        ->check(CLI::Range(1, 36500));
    sub->add_flag("--encrypt", *encrypt, "protect ca.key with a passphrase, which issue and revoke ask for");
    passphrase->Add(sub);
    sub->callback([a, folder, encrypt, passphrase, &run] {
      a->folder = *folder;
      run.action = [a, encrypt, passphrase, &run] { return MakeCa(run.common, *a, *encrypt, *passphrase); };
    });
  }
  {
    CLI::App* sub = AddVerb(
        *verb, run, "request", "a private key, and a request for its certificate",
        "  tacit keys request north            north.key, which stays, and north.csr for the authority\n");
    auto n = std::make_shared<NewRequest>();
    auto out = std::make_shared<std::string>(".");
    sub->add_option("name", n->name, "this machine's name in every job")->required()->type_name("NAME");
    sub->add_option("--out", *out, "folder for the two files")->capture_default_str()->type_name("DIR");
    sub->callback([n, out, &run] {
      n->folder = *out;
      run.action = [n, &run] { return Ask(run.common, *n); };
    });
  }
  {
    CLI::App* sub =
        AddVerb(*verb, run, "issue", "a certificate for a client, a server or a peer",
                "  tacit keys issue --request north.csr --ca ca             north.pem\n"
                "  tacit keys issue north --ca ca                           north.pem and north.key\n"
                "  tacit keys issue coordinator --ca ca --host train.example.org --host 192.0.2.1\n"
                "  tacit keys issue north --ca ca --peer                    for `tacit peer`\n"
                "\nWith --host it is a server's. The name is the client's or peer's id in every job.\n");
    auto n = std::make_shared<NewCertificate>();
    auto authority = std::make_shared<std::string>(), request = std::make_shared<std::string>();
    auto out = std::make_shared<std::string>(".");
    sub->add_option("name", n->name, "who it is for; with --request: as it says")->type_name("NAME");
    sub->add_option("--request", *request,
                    "file of `tacit keys request`, whose key it is for; without: a new key")
        ->type_name("FILE.csr");
    sub->add_option("--ca", *authority, "folder of the authority")->required()->type_name("DIR");
    sub->add_option("--host", n->hosts, "a server's host name or address; may be repeated")
        ->type_name("HOST");
    auto peer = std::make_shared<bool>(false);
    sub->add_flag("--peer", *peer, "for a peer of a method without a server, wherever it is");
    sub->add_option("--out", *out, "folder for the two files")->capture_default_str()->type_name("DIR");
    sub->add_option("--days", n->days, "how long it is valid")
        ->capture_default_str()
        ->check(CLI::Range(1, 3650));
    auto passphrase = std::make_shared<PassphraseOptions>();
    passphrase->Add(sub);
    sub->callback([n, authority, request, out, peer, passphrase, &run] {
      n->authority = *authority;
      n->request = *request;
      n->folder = *out;
      n->party = *peer ? Party::kPeer : n->hosts.empty() ? Party::kClient : Party::kServer;
      if (*peer && !n->hosts.empty())
        throw CLI::ValidationError("--peer", "a peer's certificate is for its name; leave --host out");
      run.action = [n, passphrase, &run] { return MakeCertificate(run.common, *n, *passphrase); };
    });
  }
  {
    CLI::App* sub = AddVerb(*verb, run, "revoke", "turn away the certificates issued to a name so far",
                            "  tacit keys revoke north --ca ca\n");
    auto name = std::make_shared<std::string>(), authority = std::make_shared<std::string>();
    sub->add_option("name", *name, "whose certificates")->required()->type_name("NAME");
    sub->add_option("--ca", *authority, "folder of the authority")->required()->type_name("DIR");
    auto passphrase = std::make_shared<PassphraseOptions>();
    passphrase->Add(sub);
    sub->callback([name, authority, passphrase, &run] {
      run.action = [name, authority, passphrase, &run] {
        return TakeBack(run.common, *authority, *name, *passphrase);
      };
    });
  }
}

}  // namespace

void PassphraseOptions::Add(CLI::App* verb) {
  verb->add_option(
          "--passphrase-file", file,
          "file whose first line is the key's passphrase; default: the one TACIT_PASSPHRASE_FILE names, "
          "or a prompt")
      ->type_name("FILE");
}

Result<std::string> PassphraseOptions::Ask(const std::string& key) const {
  const char* named = std::getenv("TACIT_PASSPHRASE_FILE");
  const std::string from = !file.empty() ? file : named != nullptr ? named : "";
  if (from.empty()) return Prompt(fmt::format("Passphrase of {}: ", key), key);
  TACIT_TRY(std::string held, ReadWhole(from, "a file whose first line is the passphrase"));
  const Wiped file_text(std::move(held));
  return file_text.text.substr(0, file_text.text.find_first_of("\r\n"));
}

void AddKeys(CLI::App& app, Invocation& run) {
  CLI::App* verb =
      AddVerb(app, run, "keys", "keys to sign certificates with, and certificates of machines", "");
  verb->require_subcommand(1);
  {
    CLI::App* sub = AddVerb(*verb, run, "new", "make a pair of keys (Ed25519)",
                            "  tacit keys new me                  me.pem, for you alone, and me.pub.pem\n"
                            "  tacit keys new me --encrypt        asks for a passphrase\n"
                            "\nFiles that are there already are never overwritten.\n");
    auto a = std::make_shared<NewArguments>();
    sub->add_option("name", a->name, "the files are NAME.pem and NAME.pub.pem")
        ->required()
        ->type_name("NAME");
    sub->add_flag("--encrypt", a->encrypt, "protect the private key with a passphrase");
    a->passphrase.Add(sub);
    sub->callback([a, &run] { run.action = [a, &run] { return New(run.common, *a); }; });
  }
  {
    CLI::App* sub =
        AddVerb(*verb, run, "show", "the fingerprint of a public key", "  tacit keys show me.pub.pem\n");
    auto file = std::make_shared<std::string>();
    sub->add_option("file", *file, "public key")->required()->type_name("PUBLIC.pem");
    sub->callback([file, &run] { run.action = [file, &run] { return Show(run.common, *file); }; });
  }
  AddParties(verb, run);
}

}  // namespace tacit::cli
