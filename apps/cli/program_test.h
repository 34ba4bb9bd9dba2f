#pragma once

// Starts the built program as a person or a script does, in a folder of its own.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/result.h"

namespace tacit {

namespace fs = std::filesystem;
using nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out, err;
};

inline std::string Slurp(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class CliTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* program = std::getenv("TACIT_PROGRAM");
    ASSERT_NE(program, nullptr) << "set TACIT_PROGRAM to the built program";
    program_ = program;
    home_ = fs::temp_directory_path() / fmt::format("tacit_cli_{}", ::getpid());
    fs::remove_all(home_);
    fs::create_directories(home_);
  }
  void TearDown() override { fs::remove_all(home_); }

  pid_t Start(const std::vector<std::string>& arguments) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::setenv("NO_COLOR", "1", 1);
    ::unsetenv("TACIT_DATA");
    if (::chdir(home_.c_str()) != 0 || std::freopen("stdout.txt", "w", stdout) == nullptr ||
        std::freopen("stderr.txt", "w", stderr) == nullptr)
      ::_exit(127);
    std::vector<char*> argv = {program_.data()};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    ::execv(program_.c_str(), argv.data());
    ::_exit(127);
  }
  Outcome Wait(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), Slurp(home_ / "stdout.txt"),
            Slurp(home_ / "stderr.txt")};
  }
  Outcome Run(const std::vector<std::string>& arguments) { return Wait(Start(arguments)); }
  json RunJson(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const Outcome o = Run(arguments);
    EXPECT_EQ(o.code, 0) << o.out << o.err;
    json document = json::parse(o.out, nullptr, false);
    EXPECT_FALSE(document.is_discarded()) << o.out;
    return document;
  }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(home_ / name, std::ios::binary) << text;
    return name;
  }
  // A run of a blink: 400 made-up rows at 5 clients.
  std::string Small(const std::string& more = "") {
    return Write("small.toml",
                 "data = { source = \"synthetic-logistic\", rows = 400, features = 12, clients = 5, row_norm "
                 "= \"clip\" }\n"
                 "model = { name = \"logistic\", l2 = 0.1, penalty = \"box\", radius = 5 }\n"
                 "privacy = { epsilon = 4, delta = 1e-5, noise = \"replayable\" }\n"
                 "algorithm = { rounds = 30, scaling = \"times_n\" }\n" +
                     more);
  }

  std::string program_;
  fs::path home_;
};

}  // namespace tacit
