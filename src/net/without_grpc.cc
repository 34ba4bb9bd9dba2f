// What there is of the wire in a build without gRPC: a sentence.
#include "net/join.h"
#include "net/peers.h"
#include "net/server.h"
#include "net/wire_log.h"

namespace tacit {
namespace {
Error Missing() {
  return Fail(Code::kUnsupported,
              "this tacit was built without gRPC; install libgrpc++-dev and protobuf-compiler-grpc "
              "(scripts/setup), configure again and build");
}
}  // namespace

Result<std::unique_ptr<FederationServer>> FederationServer::Start(const Job&, std::string,
                                                                  const ServeOptions&) {
  return Missing();
}
Result<Offer> ReadOffer(const JoinOptions&) { return Missing(); }
Result<Joined> Join(const JoinOptions&) { return Missing(); }
Result<Joined> TakePeersPart(const PeerSettings&) { return Missing(); }
WireLog::WireLog(std::function<void(const std::string&)>) {}
WireLog::~WireLog() = default;

}  // namespace tacit
