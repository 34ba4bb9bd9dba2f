#include "wire/frame.h"

#include <libdeflate.h>

#include "core/check.h"

namespace tacit {
namespace {
constexpr char kMagic[4] = {'T', 'C', 'T', '1'};
}

std::uint32_t Crc32(std::span<const std::byte> bytes) {
  return libdeflate_crc32(0, bytes.data(), bytes.size());
}

void Codec::Seal(std::vector<std::byte>& out) {
  const std::uint32_t crc = Crc32(std::span<const std::byte>(out).subspan(kFrameHeader));
  const std::uint64_t length = out.size() - kFrameHeader;
  std::memcpy(out.data(), kMagic, 4);
  std::memcpy(out.data() + 4, &crc, 4);
  std::memcpy(out.data() + 8, &length, 8);
}

Result<std::span<const std::byte>> Codec::Open(std::span<const std::byte> frame) {
  if (frame.size() < kFrameHeader || std::memcmp(frame.data(), kMagic, 4) != 0)
    return Fail(Code::kMalformed, "frame: {} bytes that do not start with a TCT1 header", frame.size());
  std::uint32_t crc = 0;
  std::uint64_t length = 0;
  std::memcpy(&crc, frame.data() + 4, 4);
  std::memcpy(&length, frame.data() + 8, 8);
  const auto payload = frame.subspan(kFrameHeader);
  if (length != payload.size())
    return Fail(Code::kMalformed, "frame: announces {} bytes and has {}; it was cut or joined on the way",
                length, payload.size());
  if (crc != Crc32(payload))
    return Fail(Code::kMalformed, "frame: checksum mismatch; it was changed on the way");
  return payload;
}

std::vector<std::byte> Codec::Encode(const Entrusted& e, const ServerTrust&) {
  TACIT_CHECK(e.given_);
  Vec value;
  Form(e.value_, value);
  Scale(e.factor_, value);  // as the sum would
  std::vector<std::byte> out(kFrameHeader);
  out.reserve(kFrameHeader + sizeof(std::uint64_t) + value.size() * sizeof(double));
  Put(out, value);
  Seal(out);
  return out;
}

Result<Private<Vec>> Codec::DecodeEntrusted(std::span<const std::byte> frame) {
  TACIT_TRY(std::span<const std::byte> rest, Open(frame));
  Vec value;
  if (!Get(rest, value) || !rest.empty())
    return Fail(Code::kMalformed,
                "frame: the payload is not one vector; sender and receiver must run the "
                "same version");
  return Private<Vec>(std::move(value));
}

void Codec::Put(std::vector<std::byte>& out, const Masked& m) {
  TACIT_CHECK(m.covered_ || m.value_.empty());
  const std::size_t width = m.bits_ / 8;
  Put(out, static_cast<std::uint32_t>(m.bits_));
  Put(out, static_cast<std::uint64_t>(m.value_.size()));
  for (const std::uint64_t v : m.value_) Append(out, &v, width);  // the low bytes come first
}

bool Codec::Get(std::span<const std::byte>& in, Masked& m) {
  std::uint32_t bits = 0;
  std::uint64_t n = 0;
  if (!Get(in, bits) || !Get(in, n) || bits == 0 || bits > 64 || bits % 8 != 0) return false;
  const std::size_t width = bits / 8;
  if (n > in.size() / width) return false;
  m.bits_ = bits;
  m.covered_ = true;
  m.value_.assign(static_cast<std::size_t>(n), 0);
  for (std::size_t j = 0; j < m.value_.size(); ++j) std::memcpy(&m.value_[j], in.data() + j * width, width);
  in = in.subspan(m.value_.size() * width);
  return true;
}

}  // namespace tacit
