// LIBSVM text, then what follows a loaded file: preprocessing and a split.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "data/load.h"
#include "data/partition.h"
#include "data/preprocess.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tacit::LoadOptions options;
  options.features = 64;                     // an index in the input must not size an allocation
  auto set = tacit::ParseLibsvm({reinterpret_cast<const char*>(data), size}, options);
  if (!set.ok()) return 0;
  tacit::PreprocessOptions pre;
  pre.row_norm = tacit::RowNorm::kClip;
  pre.intercept = true;
  if (tacit::Preprocess(pre, *set).ok())
    for (double norm : set->norm) TACIT_CHECK(norm <= set->row_bound);
  tacit::PartitionOptions split;
  split.split = tacit::Split::kDirichlet;
  split.clients = 3;
  (void)tacit::MakePartition(split, *std::move(set)).ok();
  return 0;
}
