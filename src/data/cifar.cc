#include <algorithm>

#include "data/parse.h"

namespace tacit {
namespace internal {
namespace {

constexpr std::size_t kPixels = 3 * 32 * 32;

}  // namespace

Result<Dataset> ReadCifar(Input& in, const LoadOptions& o) {
  if (o.features != 0 && o.features != kPixels)
    return Fail(Code::kInvalidArgument,
                "data.features = {}: CIFAR-10 has {}; correct data.features or leave it out", o.features,
                kPixels);
  Dataset data;
  data.features = kPixels;
  Batches batches(o);
  std::vector<char> record(1 + kPixels);
  std::size_t seen = 0;
  while (!batches.full()) {
    TACIT_TRY(const std::size_t n, in.Read(record));
    if (n == 0) break;
    if (n != record.size())
      return Fail(Code::kMalformed, "{}: ends within record {}, and records have {} bytes; fetch it again",
                  in.name(), seen, record.size());
    if (seen++ < o.skip) continue;
    const std::size_t at = data.value.size();
    data.value.resize(at + kPixels);
    for (std::size_t j = 0; j < kPixels; ++j) data.value[at + j] = static_cast<unsigned char>(record[1 + j]);
    data.label.push_back(static_cast<unsigned char>(record[0]));
    TACIT_OK(batches.Kept(data));
  }
  TACIT_OK(CheckCount(o, in.name(), seen, batches.kept()));
  TACIT_OK(batches.Finish(data));
  return data;
}

}  // namespace internal

Result<Dataset> ParseCifar(std::string_view bytes, const LoadOptions& options, std::string name) {
  Input in(FromMemory(bytes), std::move(name));
  return internal::ReadCifar(in, options);
}

}  // namespace tacit
