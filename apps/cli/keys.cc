// tacit keys: the keys that certificates are signed with.
#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "cli.h"
#include "experiment/signature.h"
#include "experiment/verify.h"

namespace tacit::cli {
namespace {

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
  termios before{};
  const bool hides = ::tcgetattr(tty, &before) == 0;
  if (hides) {
    termios quiet = before;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    ::tcsetattr(tty, TCSAFLUSH, &quiet);
  }
  say(question);
  std::string line;
  for (char c = 0; ::read(tty, &c, 1) == 1 && c != '\n';) line += c;
  if (hides) ::tcsetattr(tty, TCSAFLUSH, &before);
  say("\n");
  ::close(tty);
  return line;
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
    TACIT_TRY(passphrase, a.passphrase.Ask(a.name + ".pem"));
    if (a.passphrase.file.empty() && std::getenv("TACIT_PASSPHRASE_FILE") == nullptr) {
      TACIT_TRY(const std::string again, Prompt("The same again: ", a.name));
      if (again != *passphrase)
        return Fail(Code::kInvalidArgument, "the two passphrases differ; no key was made, try again");
    }
    if (passphrase->empty())
      return Fail(Code::kInvalidArgument, "the passphrase is empty; give one, or leave out --encrypt");
  }
  TACIT_TRY(const PrivateKey key, PrivateKey::New());
  TACIT_TRY(const KeyFiles files, WriteKeys(a.name, key, passphrase));
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
  TACIT_TRY(const std::string text, ReadWhole(from, "a file whose first line is the passphrase"));
  return text.substr(0, text.find_first_of("\r\n"));
}

void AddKeys(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(app, run, "keys", "keys to sign certificates with", "");
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
}

}  // namespace tacit::cli
