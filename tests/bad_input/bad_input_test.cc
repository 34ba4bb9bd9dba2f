// Every row of cases.toml: the program is started on bad input and must say what is wrong, in words, with the
// documented exit code, on the terminal and as JSON.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "core/result.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string Slurp(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string Unhex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

json ToJson(const toml::node& node) {
  if (const auto* b = node.as_boolean()) return b->get();
  if (const auto* i = node.as_integer()) return i->get();
  if (const auto* d = node.as_floating_point()) return d->get();
  if (const auto* s = node.as_string()) return s->get();
  json list = json::array();
  if (const auto* a = node.as_array())
    for (const toml::node& item : *a) list.push_back(ToJson(item));
  return list;
}

struct Outcome {
  int code;
  std::string out, err;
};

Outcome Start(const fs::path& home, const std::vector<std::string>& arguments) {
  const char* named = std::getenv("TACIT_PROGRAM");
  const std::string program = named != nullptr ? named : "";
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("NO_COLOR", "1", 1);
    ::unsetenv("TACIT_DATA");
    ::unsetenv("TACIT_PASSPHRASE_FILE");
    ::setsid();  // no terminal to ask for a passphrase on
    if (::chdir(home.c_str()) != 0 || std::freopen("stdout.txt", "w", stdout) == nullptr ||
        std::freopen("stderr.txt", "w", stderr) == nullptr)
      ::_exit(127);
    std::vector<char*> argv = {const_cast<char*>(program.c_str())};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), Slurp(home / "stdout.txt"),
          Slurp(home / "stderr.txt")};
}

// What every case starts from: the files of [files], a signed run in run/, two pairs of keys.
class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(std::getenv("TACIT_PROGRAM"), nullptr) << "set TACIT_PROGRAM to the built program";
    root_ = fs::temp_directory_path() / fmt::format("tacit_bad_input_{}", ::getpid());
    fs::remove_all(root_);
    base_ = root_ / "base";
    fs::create_directories(base_);
    table_ = toml::parse_file(TACIT_CASES);
    WriteFiles(*table_["files"].as_table(), base_);
    for (const std::vector<std::string>& step :
         {std::vector<std::string>{"keys", "new", "me"},
          {"keys", "new", "other"},
          {"train", "small.toml", "--quiet", "--sign", "me.pem", "--set", "experiment.name=run"}}) {
      const Outcome o = Start(base_, step);
      ASSERT_EQ(o.code, 0) << o.err;
    }
    fs::path run;  // the ledger of all runs is beside it
    for (const auto& entry : fs::directory_iterator(base_ / "runs"))
      if (entry.is_directory()) run = entry.path();
    fs::rename(run, base_ / "run");
  }
  void TearDown() override { fs::remove_all(root_); }

  static void WriteFiles(const toml::table& files, const fs::path& home) {
    for (const auto& [name, text] : files)
      std::ofstream(home / name.str(), std::ios::binary) << text.as_string()->get();
  }
  // The changes that a case makes before its command.
  static void Prepare(const toml::table& c, const fs::path& home) {
    if (const auto* files = c["files"].as_table()) WriteFiles(*files, home);
    if (const auto* hex = c["hex"].as_table())
      for (const auto& [name, text] : *hex)
        std::ofstream(home / name.str(), std::ios::binary) << Unhex(text.as_string()->get());
    if (const auto* repeat = c["repeat"].as_table())  // a text so many times: { file = ["text", 1000] }
      for (const auto& [name, what] : *repeat) {
        std::ofstream out(home / name.str(), std::ios::binary);
        for (std::int64_t i = what.as_array()->at(1).as_integer()->get(); i > 0; --i)
          out << what.as_array()->at(0).as_string()->get();
      }
    if (const auto* folders = c["folders"].as_array())
      for (const auto& name : *folders) {
        fs::remove_all(home / name.as_string()->get());
        fs::create_directories(home / name.as_string()->get());
      }
    if (const auto* cut = c["cut"].as_table())  // to so many bytes
      for (const auto& [name, size] : *cut)
        fs::resize_file(home / name.str(), static_cast<std::uintmax_t>(size.as_integer()->get()));
    if (const auto* gone = c["without"].as_array())
      for (const auto& name : *gone) fs::remove(home / name.as_string()->get());
    if (const auto* modes = c["mode"].as_table())
      for (const auto& [name, mode] : *modes)
        fs::permissions(home / name.str(), static_cast<fs::perms>(mode.as_integer()->get()));
    if (const auto* edits = c["edit"].as_table())  // of the certificate, by JSON pointer
      Edit(home / "run" / "certificate.json", [&](json& j) {
        for (const auto& [pointer, value] : *edits)
          j[json::json_pointer(std::string(pointer.str()))] = ToJson(value);
      });
    if (const auto* fields = c["erase"].as_array())
      Edit(home / "run" / "certificate.json", [&](json& j) {
        for (const auto& field : *fields) {
          const json::json_pointer at(field.as_string()->get());
          ASSERT_TRUE(j.contains(at));
          j[at.parent_pointer()].erase(at.back());
        }
      });
  }
  template <class F>
  static void Edit(const fs::path& file, F change) {
    json j = json::parse(Slurp(file));
    change(j);
    std::ofstream(file, std::ios::binary) << j.dump(2) << "\n";
  }

  fs::path root_, base_;
  toml::table table_;
};

TEST_F(BadInput, IsNamedWithItsRemedy) {
  const toml::array& cases = *table_["case"].as_array();
  EXPECT_GE(cases.size(), 100u);
  std::size_t number = 0;
  for (const toml::node& node : cases) {
    const toml::table& c = *node.as_table();
    SCOPED_TRACE(fmt::format("{} (cases.toml:{})", c["why"].value_or(""), node.source().begin.line));
    if (c["needs_user"].value_or(false) && ::geteuid() == 0) continue;  // root may read everything
    const fs::path home = root_ / fmt::format("{}", number++);
    fs::copy(base_, home, fs::copy_options::recursive);
    Prepare(c, home);
    std::vector<std::string> arguments;
    for (const auto& a : *c["run"].as_array()) arguments.push_back(a.as_string()->get());
    const int code = c["code"].value_or(-1);
    const Outcome plain = Start(home, arguments);
    EXPECT_EQ(plain.code, code) << plain.err;
    for (const auto& part : *c["says"].as_array())
      EXPECT_TRUE(std::regex_search(plain.err, std::regex(part.as_string()->get())))
          << part.as_string()->get() << " is not in\n"
          << plain.err;
    EXPECT_EQ(plain.err.find("broken invariant"), std::string::npos) << plain.err;

    arguments.emplace_back("--json");
    const Outcome as_json = Start(home, arguments);
    EXPECT_EQ(as_json.code, code) << as_json.out << as_json.err;
    const json document = json::parse(as_json.out, nullptr, false);
    EXPECT_TRUE(document.is_object() && document.contains("error")) << as_json.out;
    if (document.is_object() && document.contains("error")) {
      EXPECT_EQ(document["error"]["code"], code);
      EXPECT_TRUE(document["error"]["message"].is_string());
    }
    fs::permissions(home, fs::perms::owner_all, fs::perm_options::add);
    fs::remove_all(home);
  }
}

}  // namespace
}  // namespace tacit
