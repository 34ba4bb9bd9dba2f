#include "rows.h"

namespace tacit::python {
namespace {

template <class T> std::span<const T> Of(const List<T>& a) { return {a.data(), a.size()}; }

}  // namespace

void Rows::SetDense(Matrix x) {
  x_ = std::move(x);
  view_.rows = x_.shape(0);
  view_.features = x_.shape(1);
  view_.value = {x_.data(), x_.size()};
}

void Rows::SetSparse(List<double> value, List<std::int32_t> column, List<std::int64_t> begin,
                     std::size_t features) {
  value_ = std::move(value);
  column_ = std::move(column);
  begin_ = std::move(begin);
  view_.rows = begin_.size() - std::min<std::size_t>(1, begin_.size());
  view_.features = features;
  view_.value = Of(value_);
  view_.column = Of(column_);
  view_.row_begin = Of(begin_);
}

void Rows::SetLabels(List<double> y) {
  label_ = std::move(y);
  view_.label = Of(label_);
}

void Rows::SetClients(List<std::uint32_t> group, std::vector<std::string> names) {
  group_ = std::move(group);
  view_.group = Of(group_);
  view_.group_name = std::move(names);
}

void Rows::SetPersons(List<std::uint32_t> person) {
  person_ = std::move(person);
  view_.person = Of(person_);
}

}  // namespace tacit::python
