#pragma once

// For tests.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace tacit {

// A socket with this name, or -1: nobody else may have it now.
inline int BoundTo(const sockaddr* name, socklen_t length) {
  const int s = ::socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0) return -1;
  const int yes = 1;
  ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes,
               sizeof yes);  // as servers do: calls that ended do not count
  if (::bind(s, name, length) == 0) return s;
  ::close(s);
  return -1;
}

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

    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const std::string text = "tacit-test-port-" + std::to_string(port);
    std::copy(text.begin(), text.end(), name.sun_path + 1);  // a zero first: no file
    const int claim = BoundTo(reinterpret_cast<const sockaddr*>(&name),
                              static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size()));
    if (claim < 0) continue;

    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<in_port_t>(port));
    const int listener = BoundTo(reinterpret_cast<const sockaddr*>(&at), sizeof at);
    if (listener >= 0) {
      ::close(listener);
      return port;  // and the claim stays open
    }
    ::close(claim);
  }
  ADD_FAILURE() << "no port from " << kFirst << " to " << kFirst + kPorts - 1 << " is free";
  return 0;
}

}  // namespace tacit
