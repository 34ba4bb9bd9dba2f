#pragma once

// For tests.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace tacit {

// A port of this machine that nobody listens at now and no other test is given while this process lives.
//
// Ports the kernel picks for calls (from 32768 up) are left out: one of them could be somebody's end of a
// call by the time a server wants it. A name in the kernel's table of local sockets, which ends with the
// process, says that a port is taken.
inline int FreePort() {
  constexpr int kFirst = 20000, kPorts = 12000;
  static int next = static_cast<int>(::getpid()) * 61 % kPorts;
  for (int tried = 0; tried < kPorts; ++tried) {
    const int port = kFirst + next;
    next = (next + 1) % kPorts;

    const int claim = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const std::string text = "tacit-test-port-" + std::to_string(port);
    std::copy(text.begin(), text.end(), name.sun_path + 1);  // a zero first: no file
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    if (claim < 0 || ::bind(claim, reinterpret_cast<sockaddr*>(&name), length) != 0) {
      ::close(claim);
      continue;
    }
    const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes,
                 sizeof yes);  // as servers do: calls that ended do not count
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(static_cast<in_port_t>(port));
    const bool free = ::bind(s, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0;
    ::close(s);
    if (free) return port;  // and the claim stays open
    ::close(claim);
  }
  ADD_FAILURE() << "no port from " << kFirst << " to " << kFirst + kPorts - 1 << " is free";
  return 0;
}

}  // namespace tacit
