#include <cstddef>
#include <cstdint>
#include <string_view>

#include "algorithms/topology.h"

// The first byte says how many vertices there are; the rest is a file of edges. What is read has only these.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t vertices = data[0];
  const auto graph =
      tacit::ParseEdges({reinterpret_cast<const char*>(data) + 1, size - 1}, "graph.txt", vertices);
  if (!graph.ok()) {
    TACIT_CHECK(!graph.error().message.empty());
    return 0;
  }
  for (std::uint32_t v = 0; v < vertices; ++v)
    for (const std::uint32_t w : graph->of(v)) TACIT_CHECK(w < vertices && w != v);
  (void)tacit::CheckConnected(*graph, "the graph", "add edges").ok();
  return 0;
}
