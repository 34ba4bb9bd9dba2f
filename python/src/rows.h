#pragma once

#include <nanobind/ndarray.h>

#include <optional>

#include "data/memory.h"
#include "module.h"

namespace tacit::python {

template <class T> using List = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Arrays of Python that a run may read; they are kept alive and never copied here.
class Rows {
 public:
  void SetDense(Matrix x);
  void SetSparse(List<double> value, List<std::int32_t> column, List<std::int64_t> begin,
                 std::size_t features);
  void SetLabels(List<double> y);
  void SetClients(List<std::uint32_t> group, std::vector<std::string> names);
  void SetPersons(List<std::uint32_t> person);
  const MemoryRows& view() const { return view_; }

 private:
  Matrix x_;
  List<double> value_, label_;
  List<std::int32_t> column_;
  List<std::int64_t> begin_;
  List<std::uint32_t> group_, person_;
  MemoryRows view_;
};

}  // namespace tacit::python
