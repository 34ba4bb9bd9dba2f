#pragma once

// For tests: TLS by hand. Glass stands between one client and the server with the keys of both, so that what
// they say is seen as it is after TLS is taken off; Shake is a caller who chooses what it offers.
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <csignal>

#include "net/ca.h"
#include "net/pem.h"
#include "net/test_proxy.h"

namespace tacit {

using TlsContext = Handle<SSL_CTX, &SSL_CTX_free>;
using Tls = Handle<SSL, &SSL_free>;

inline bool Carry(SSL_CTX* context, const Identity& id) {
  const auto certificate = pem::ParseCertificate(id.certificate);
  const auto key = pem::ParseKey(id.key);
  return SSL_CTX_use_certificate(context, certificate.get()) == 1 &&
         SSL_CTX_use_PrivateKey(context, key.get()) == 1;
}
inline int Dial(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  TACIT_CHECK(fd >= 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(static_cast<std::uint16_t>(port));
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0) return fd;
  ::close(fd);
  return -1;
}
inline int ListenAnywhere(int& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  TACIT_CHECK(fd >= 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  TACIT_CHECK(::bind(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0 && ::listen(fd, 64) == 0);
  TACIT_CHECK(::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size) == 0);
  port = ntohs(a.sin_port);
  return fd;
}
inline TlsContext ServerContextOf(const Identity& id, int lowest) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to whoever is gone
  TlsContext c(SSL_CTX_new(TLS_server_method()));
  SSL_CTX_set_security_level(c.get(), 0);
  SSL_CTX_set_min_proto_version(c.get(), lowest);
  TACIT_CHECK(Carry(c.get(), id));
  SSL_CTX_set_alpn_select_cb(
      c.get(),
      [](SSL*, const unsigned char** out, unsigned char* size, const unsigned char*, unsigned, void*) {
        *out = reinterpret_cast<const unsigned char*>("h2"), *size = 2;
        return SSL_TLSEXT_ERR_OK;
      },
      nullptr);
  return c;
}

struct Offered {
  const Identity* identity = nullptr;  // null: no certificate
  int lowest = TLS1_2_VERSION, highest = TLS1_3_VERSION;
  const char* ciphers = nullptr;  // of TLS 1.2 and before
  bool http2 = true;  // by ALPN
};
// The version of TLS in which the server has said something; 0: it has not.
inline int Shake(int port, const Offered& o) {
  const TlsContext c(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_security_level(c.get(), 0);
  SSL_CTX_set_min_proto_version(c.get(), o.lowest);
  SSL_CTX_set_max_proto_version(c.get(), o.highest);
  if (o.ciphers != nullptr) TACIT_CHECK(SSL_CTX_set_cipher_list(c.get(), o.ciphers) == 1);
  if (o.identity != nullptr) TACIT_CHECK(Carry(c.get(), *o.identity));
  static const unsigned char kHttp2[] = {2, 'h', '2'};
  if (o.http2) SSL_CTX_set_alpn_protos(c.get(), kHttp2, sizeof kHttp2);
  const int fd = Dial(port);
  const Tls tls(SSL_new(c.get()));
  SSL_set_fd(tls.get(), fd);
  char byte[64];
  const bool heard = SSL_connect(tls.get()) == 1 && SSL_read(tls.get(), byte, sizeof byte) > 0;
  const int version = SSL_version(tls.get());
  ::close(fd);
  ERR_clear_error();
  return heard ? version : 0;
}

// A server that speaks every TLS there is, and says hello: what a caller offers is refused elsewhere and not
// unsaid by the caller. highest: the newest version it speaks.
class TakesAnything {
 public:
  explicit TakesAnything(const Identity& id, int highest = TLS1_3_VERSION)
      : context_(ServerContextOf(id, TLS1_VERSION)) {
    SSL_CTX_set_max_proto_version(context_.get(), highest);
    SSL_CTX_set_cipher_list(context_.get(), "ALL:eNULL:aNULL@SECLEVEL=0");
    listener_ = ListenAnywhere(port_);
    thread_ = std::jthread([this] {
      for (int fd; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
        const Tls tls(SSL_new(context_.get()));
        SSL_set_fd(tls.get(), fd);
        ++calls_;
        if (SSL_accept(tls.get()) == 1) {
          ++shaken_;
          SSL_write(tls.get(), "hello", 5);
        }
        ::close(fd);
        ERR_clear_error();
      }
    });
  }
  ~TakesAnything() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  TakesAnything(const TakesAnything&) = delete;
  TakesAnything& operator=(const TakesAnything&) = delete;
  int port() const { return port_; }
  std::size_t calls() const { return calls_; }
  std::size_t shaken() const { return shaken_; }  // hands: with whom a version and a cipher were agreed

 private:
  const TlsContext context_;
  int port_ = 0, listener_ = -1;
  std::atomic<std::size_t> calls_ = 0, shaken_ = 0;
  std::jthread thread_;
};

class Glass {
 public:
  Glass(int server_port, const Identity& server, const Identity& client)
      : server_port_(server_port),
        accepts_(ServerContextOf(server, TLS1_2_VERSION)),
        calls_(SSL_CTX_new(TLS_client_method())) {
    TACIT_CHECK(Carry(calls_.get(), client));
    static const unsigned char kHttp2[] = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(calls_.get(), kHttp2, sizeof kHttp2);
    listener_ = ListenAnywhere(port_);
    thread_ = std::jthread([this] {
      std::list<std::jthread> each;
      for (;;) {
        const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (end_ || fd < 0) return;
        each.emplace_back([this, fd] { Between(fd); });
      }
    });
  }
  ~Glass() {
    end_ = true;
    ::close(Dial(port_));
    thread_.join();
    ::close(listener_);
  }
  Glass(const Glass&) = delete;
  Glass& operator=(const Glass&) = delete;
  int port() const { return port_; }
  std::string up() const { return Copy(up_); }  // all that the client said
  std::string down() const { return Copy(down_); }

 private:
  std::string Copy(const std::string& of) const {
    const std::lock_guard lock(mutex_);
    return of;
  }
  bool Move(SSL* from, SSL* to, std::string& kept) {
    char buffer[16 << 10];
    for (;;) {
      const int n = SSL_read(from, buffer, sizeof buffer);
      if (n <= 0) return SSL_get_error(from, n) == SSL_ERROR_WANT_READ;
      {
        const std::lock_guard lock(mutex_);
        kept.append(buffer, static_cast<std::size_t>(n));
      }
      for (int put; (put = SSL_write(to, buffer, n)) != n;) {
        const int why = SSL_get_error(to, put);
        if (end_ || (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)) return false;
        pollfd ready{SSL_get_fd(to), POLLOUT, 0};
        ::poll(&ready, 1, 100);
      }
    }
  }
  void Between(int client) {
    const int server = Dial(server_port_);
    const Tls a(SSL_new(accepts_.get())), b(SSL_new(calls_.get()));
    SSL_set_fd(a.get(), client), SSL_set_fd(b.get(), server);
    if (SSL_accept(a.get()) == 1 && SSL_connect(b.get()) == 1) {
      for (const int fd : {client, server}) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
      while (!end_ && Move(a.get(), b.get(), up_) && Move(b.get(), a.get(), down_)) {
        pollfd either[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
        ::poll(either, 2, 100);
      }
    }
    ERR_clear_error();
    ::close(client), ::close(server);
  }

  const int server_port_;
  const TlsContext accepts_, calls_;
  int port_ = 0, listener_ = -1;
  std::atomic<bool> end_ = false;
  mutable std::mutex mutex_;
  std::string up_, down_;
  std::jthread thread_;
};

}  // namespace tacit
