#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/ranks.h"

// What one process of a simulation gets from another: bytes as they come, taken for every kind of thing that
// is in a parcel, in an order that they choose, or refused.
namespace {

using namespace tacit;

const std::uint8_t* bytes = nullptr;
std::size_t count = 0;

const RankWire kWire = {
    .abi = kRankWireAbi,
    .version = "fuzz",
    .start =
        [](const std::atomic<bool>*, std::uint32_t* rank, std::uint32_t* size, std::uint32_t* here) {
          *rank = 0, *size = 2, *here = 2;
          return 0;
        },
    .send = [](std::uint32_t, const void*, std::size_t) { return 0; },
    .receive =
        [](std::uint32_t* from, RankWire::Room room, void* into) {
          *from = 1;
          void* to = room(into, count);
          if (count != 0) std::memcpy(to, bytes, count);
          return 0;
        },
    .begin_send = [](std::uint32_t, const void*, std::size_t) { return 0; },
    .finish_sends = [] { return 0; },
    .last_error = [] { return "nothing"; },
    .stop = [] {},
    .abort = [](int) {},
};

template <class T>
bool Take(Parcel& p) {
  T v{};
  return p.Get(v);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::atomic<bool> ending = false;
  static const auto ranks = *Ranks::Start(kWire, ending);
  const std::size_t order = size == 0 ? 0 : data[0] % 8;
  if (size < order) return 0;
  bytes = data + order, count = size - order;
  auto got = ranks->ReceiveAny();
  if (!got.ok()) {
    TACIT_CHECK(!got.error().message.empty());
    return 0;
  }
  Parcel& p = got->parcel;
  bool sound = true;
  for (std::size_t k = 0; sound && k < order; ++k) switch (data[k] / 8 % 10) {
      case 0: sound = Take<std::uint32_t>(p); break;
      case 1: sound = Take<std::string>(p); break;
      case 2: sound = Take<std::vector<double>>(p); break;
      case 3: sound = Take<Public<std::vector<std::uint8_t>>>(p); break;
      case 4: sound = Take<Released<Vec>>(p); break;
      case 5: sound = Take<Private<Vec>>(p); break;
      case 6: sound = Take<std::vector<Released<Vec>>>(p); break;
      case 7: sound = Take<EntrustedSum>(p); break;
      case 8: sound = Take<MaskedTotal>(p); break;
      default: {
        Status s = Ok{};
        if (!GetStatus(p, s)) return 0;  // refused for what it says, too
      }
    }
  TACIT_CHECK(sound || !p.done());
  return 0;
}
