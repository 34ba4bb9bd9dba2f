#include "data/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "data/row_store.h"

namespace tacit {
namespace {

using Order = std::vector<std::size_t>;

// Parts of the partition's randomness, told apart by the round of the stream.
enum : std::uint32_t { kShuffleAll = 0, kShuffleClass = 1, kShares = 2 };

Stream StreamFor(const PartitionOptions& o, std::size_t who, std::uint32_t part) {
  return Stream({.seed = o.seed,
                 .purpose = Purpose::kPartition,
                 .who = static_cast<std::uint32_t>(who),
                 .round = part});
}

void Shuffle(Order& order, Stream stream) {              // Fisher–Yates
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.Below(i)]);
}

// log of a Gamma(alpha, 1) variate: Marsaglia & Tsang (2000) for alpha + 1, then × U^(1/alpha). In
// logarithms, because for small alpha the variate itself underflows.
double LogGamma(double alpha, Stream& stream) {
  const double d = alpha + 1 - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = stream.Normal();
    const double cube = 1 + c * x;
    if (cube <= 0) continue;
    const double v = cube * cube * cube;
    const double u = 1 - stream.Uniform();               // (0, 1]
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v))
      return std::log(d * v) + std::log(1 - stream.Uniform()) / alpha;
  }
}

Vec DirichletShares(std::size_t clients, double alpha, Stream stream) {
  Vec p(clients);
  for (double& v : p) v = LogGamma(alpha, stream);
  const double top = *std::max_element(p.begin(), p.end());
  for (double& v : p) v = std::exp(v - top);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& v : p) v /= sum;
  return p;
}

std::vector<Order> Dirichlet(const PartitionOptions& o, const std::vector<double>& label) {
  Order sorted(label.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](std::size_t a, std::size_t b) { return label[a] < label[b]; });
  std::vector<Order> held(o.clients);
  std::size_t number = 0;
  for (std::size_t from = 0; from < sorted.size(); ++number) {
    std::size_t to = from;
    while (to < sorted.size() && label[sorted[to]] == label[sorted[from]]) ++to;
    Order rows(sorted.begin() + static_cast<std::ptrdiff_t>(from),
               sorted.begin() + static_cast<std::ptrdiff_t>(to));
    Shuffle(rows, StreamFor(o, number, kShuffleClass));
    const Vec share = DirichletShares(o.clients, o.alpha, StreamFor(o, number, kShares));
    double sum = 0;
    std::size_t next = 0;
    for (std::size_t c = 0; c < o.clients; ++c) {
      sum += share[c];
      const double cut = std::round(std::min(sum, 1.0) * static_cast<double>(rows.size()));
      const std::size_t stop =
          c + 1 == o.clients ? rows.size() : std::min(rows.size(), static_cast<std::size_t>(cut));
      for (; next < stop; ++next) held[c].push_back(rows[next]);
    }
    from = to;
  }
  const auto fewer = [](const Order& a, const Order& b) { return a.size() < b.size(); };
  for (Order& mine : held) {
    if (!mine.empty()) continue;
    Order& most = *std::max_element(held.begin(), held.end(), fewer);
    mine.push_back(most.back());
    most.pop_back();
  }
  return held;
}

Status Check(const PartitionOptions& o, const Dataset& d, std::size_t rows, const char* what) {
  if (o.split == Split::kColumn) {
    if (d.group.empty())
      return Fail(
          Code::kInvalidArgument,
          "data.split = column: the data set has no group column; name one with data.group_column or choose "
          "another split");
    return Ok{};
  }
  if (o.clients == 0) return Fail(Code::kInvalidArgument, "data.clients = 0: at least one client is needed");
  if (o.clients > rows)
    return Fail(Code::kInvalidArgument,
                "data.clients = {}: the data set has {} {}, and every client needs one; lower data.clients",
                o.clients, rows, what);
  if (o.rows_per_client > rows / o.clients)
    return Fail(Code::kInvalidArgument,
                "data.rows_per_client = {}: {} clients can have at most {} each of {} rows; lower "
                "data.rows_per_client or data.clients",
                o.rows_per_client, o.clients, rows / o.clients, rows);
  if (o.split == Split::kDirichlet) {
    if (!(o.alpha >= 1e-3 && o.alpha <= 1e6))
      return Fail(Code::kInvalidArgument, "data.alpha = {}: must be between 0.001 and 1e6", o.alpha);
    if (o.rows_per_client != 0)
      return Fail(Code::kInvalidArgument,
                  "data.rows_per_client = {}: a Dirichlet split has random sizes; leave it at 0",
                  o.rows_per_client);
  }
  if (o.split == Split::kMixed && (o.rows_per_client == 0 || o.uniform > o.rows_per_client))
    return Fail(Code::kInvalidArgument,
                "data.uniform = {}, data.rows_per_client = {}: with data.split = mixed a client has so many "
                "rows, and so many of them of all classes; set both",
                o.uniform, o.rows_per_client);
  if (o.split == Split::kDirichlet || o.split == Split::kByLabel || o.split == Split::kMixed)
    for (const double y : d.label)
      if (std::isnan(y))
        return Fail(Code::kMalformed,
                    "a label is NaN and has no place in an order; preprocess before the split");
  return Ok{};
}

Result<std::vector<Order>> ByColumn(const PartitionOptions& o, const Dataset& d) {
  std::vector<Order> held(d.group_name.size());
  for (std::size_t i = 0; i < d.rows(); ++i) {
    TACIT_CHECK(d.group[i] < held.size());
    held[d.group[i]].push_back(i);
  }
  for (std::size_t c = 0; c < held.size(); ++c) {
    if (held[c].empty())
      return Fail(Code::kInvalidArgument, "group '{}' has no rows; remove it from the group names",
                  d.group_name[c]);
    if (o.rows_per_client == 0) continue;
    if (held[c].size() < o.rows_per_client)
      return Fail(Code::kInvalidArgument, "data.rows_per_client = {}: group '{}' has {} rows; lower it",
                  o.rows_per_client, d.group_name[c], held[c].size());
    held[c].resize(o.rows_per_client);
  }
  return held;
}

// The first rows of a shuffle go round; then every client takes of its class, in the same order.
Result<std::vector<Order>> Mixed(const PartitionOptions& o, const std::vector<double>& label) {
  Order order(label.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  Shuffle(order, StreamFor(o, 0, kShuffleAll));
  std::vector<Order> held(o.clients);
  for (std::size_t i = 0; i < o.clients * o.uniform; ++i) held[i / o.uniform].push_back(order[i]);
  std::map<double, Order> of_class;
  for (const double y : label) of_class[y];
  for (std::size_t i = o.clients * o.uniform; i < order.size(); ++i)
    of_class[label[order[i]]].push_back(order[i]);
  const std::size_t each = o.rows_per_client - o.uniform;
  for (std::size_t c = 0; c < o.clients; ++c) {
    const auto mine = std::next(of_class.begin(), static_cast<std::ptrdiff_t>(c % of_class.size()));
    const std::size_t from = c / of_class.size() * each;
    if (from + each > mine->second.size())
      return Fail(Code::kInvalidArgument,
                  "data.rows_per_client = {}: client {} finds fewer than {} rows of its class left; lower it",
                  o.rows_per_client, c, each);
    held[c].insert(held[c].end(), mine->second.begin() + static_cast<std::ptrdiff_t>(from),
                   mine->second.begin() + static_cast<std::ptrdiff_t>(from + each));
  }
  return held;
}

// Blocks of the rows in this order.
std::vector<std::size_t> Blocks(const PartitionOptions& o, std::size_t rows) {
  std::vector<std::size_t> begin{0};
  for (std::size_t c = 0; c < o.clients; ++c) {
    const std::size_t size =
        o.rows_per_client ? o.rows_per_client : rows / o.clients + (c < rows % o.clients ? 1 : 0);
    begin.push_back(begin.back() + size);
  }
  return begin;
}

// The one value of all entries, NaN if there are several (or NaN is among them).
double OneValue(const Row& row) {
  if (row.size == 0) return 0;
  for (std::size_t k = 1; k < row.size; ++k)
    if (row.value[k] != row.value[0]) return std::numeric_limits<double>::quiet_NaN();
  return row.value[0];
}

// Numbers the pairs of neighbours, the frequent ones first, and writes the rows as tokens. Returns how many
// pairs are frequent.
std::size_t Pair(const Dataset& d, std::size_t begin, std::size_t end, Columns& out) {
  constexpr std::uint32_t kFrequent = 16;      // rows from which a list of its own pays
  const auto key = [&](std::uint64_t k) {
    return static_cast<std::uint64_t>(d.column[k]) << 32 | d.column[k + 1];
  };
  const auto each_pair = [&](auto f) {
    for (std::size_t i = begin; i < end; ++i)
      for (std::uint64_t k = d.row_begin[i]; k + 2 <= d.row_begin[i + 1]; k += 2) f(key(k));
  };
  std::unordered_map<std::uint64_t, std::uint32_t> count, number;
  each_pair([&](std::uint64_t pair) { ++count[pair]; });
  if (count.size() > (d.row_begin[end] - d.row_begin[begin]) / 8) return 0;      // a table would not pay
  const auto take = [&](bool frequent) {
    each_pair([&](std::uint64_t pair) {
      if ((count[pair] >= kFrequent) != frequent) return;
      if (!number.emplace(pair, static_cast<std::uint32_t>(out.first.size())).second) return;
      out.first.push_back(static_cast<std::uint32_t>(pair >> 32));
      out.second.push_back(static_cast<std::uint32_t>(pair));
    });
    return out.first.size();
  };
  const std::size_t listed = take(true);
  take(false);
  const auto nothing = static_cast<std::uint32_t>(d.features);
  out.token_begin.push_back(0);
  for (std::size_t i = begin; i < end; i += 4) {
    std::uint64_t longest = 0;
    for (std::size_t r = i; r < std::min(i + 4, end); ++r)
      longest = std::max(longest, d.row_begin[r + 1] - d.row_begin[r]);
    for (std::uint64_t k = 0; k < longest; k += 2)
      for (std::size_t r = i; r < i + 4; ++r) {
        const std::uint64_t size = r < end ? d.row_begin[r + 1] - d.row_begin[r] : 0;
        const std::uint64_t at = size == 0 ? 0 : d.row_begin[r] + k;
        out.token.push_back(k >= size       ? nothing
                            : k + 1 == size ? d.column[at]
                                            : nothing + 1 + number[key(at)]);
      }
    out.token_begin.push_back(static_cast<std::uint32_t>(out.token.size()));
  }
  return listed;
}

Columns ColumnsOf(const Dataset& d, std::size_t begin, std::size_t end) {
  const std::uint64_t from = d.row_begin[begin], to = d.row_begin[end];
  Columns out;
  if (to - from < d.features || to - from >= std::uint64_t{1} << 30 || d.features >= std::uint64_t{1} << 30)
    return out;
  bool one_valued = true;
  for (std::size_t i = begin; i < end; ++i) one_valued = one_valued && !std::isnan(d.row_value[i]);
  for (std::uint64_t k = from; k < to; ++k)
    if (!std::isfinite(d.value[k])) return out;
  const std::size_t listed = one_valued ? Pair(d, begin, end, out) : 0;
  // f(list, row, entry) for every member of every list.
  const auto each = [&](auto f) {
    for (std::size_t i = begin; i < end; ++i)
      for (std::uint64_t k = d.row_begin[i], size = d.row_begin[i + 1] - k, n = 0; n < size; ++n) {
        if (listed != 0 && n % 2 == 0 && n + 1 < size) {
          const std::size_t q = (i - begin) / 4, lane = (i - begin) % 4;
          const std::uint32_t token = out.token[out.token_begin[q] + n / 2 * 4 + lane];
          if (token > d.features && token - d.features - 1 < listed) {
            f(token - 1, i - begin, k + n);
            ++n;
            continue;
          }
        }
        f(d.column[k + n], i - begin, k + n);
      }
  };
  std::vector<std::uint32_t> count(d.features + listed, 0);
  each([&](std::size_t list, std::size_t, std::uint64_t) { ++count[list]; });
  out.list_begin.push_back(0);
  for (const std::uint32_t c : count) out.list_begin.push_back(out.list_begin.back() + (c + 3) / 4 * 4);
  std::vector<std::uint32_t> next(out.list_begin.begin(), out.list_begin.end() - 1);
  out.row.resize(out.list_begin.back(), static_cast<std::uint32_t>(end - begin));
  if (!one_valued) out.value.resize(out.list_begin.back(), 0.0);
  each([&](std::size_t list, std::size_t row, std::uint64_t k) {
    const std::uint32_t at = next[list]++;
    out.row[at] = static_cast<std::uint32_t>(row);
    if (!one_valued) out.value[at] = d.value[k];
  });
  return out;
}

void WriteTiles(const Dataset& d, std::size_t begin, std::size_t rows, double* tiles) {
  for (std::size_t l = 0; l < rows; ++l) {
    const std::size_t i = begin + l, lane = l % Tiles::kRows;
    double* tile = tiles + l / Tiles::kRows * Tiles::SizeOfOne(d.features);
    const auto put = [&](std::size_t k, double v) { tile[k * Tiles::kRows + lane] = v; };
    put(0, d.label[i]);
    put(1, d.norm.reach()[i]);
    for (std::size_t j = 0; j < d.features; ++j) put(2 + j, d.row(i).value[j]);
  }
}

void MakeTiles(Partition& p) {
  constexpr std::size_t kMost = (std::size_t{64} << 20) / sizeof(double);
  const Dataset& d = p.data;
  // A person's sum is made of slices, which have none.
  if (d.maker || d.mapped || !Tiles::Fit(d.features) || d.norm.size() != d.rows() ||
      d.person_bound == PersonBound::kSum)
    return;
  std::vector<std::size_t> begin;
  std::size_t end = 0;
  for (std::size_t c = 0; c < p.clients(); ++c) {
    begin.push_back(end);
    end += Tiles::Count(p.size(c)) * Tiles::SizeOfOne(d.features);
  }
  if (end > kMost) return;
  p.tiles.assign(end, 0.0);
  for (std::size_t c = 0; c < p.clients(); ++c)
    WriteTiles(d, p.begin[c], p.size(c), p.tiles.data() + begin[c]);
  p.tiles_begin = std::move(begin);
}

void LayOut(Partition& p) {
  Dataset& d = p.data;
  if (!d.sparse()) return MakeTiles(p);
  d.row_value.resize(d.rows());
  for (std::size_t i = 0; i < d.rows(); ++i) d.row_value[i] = OneValue(d.row(i));
  for (std::size_t c = 0; c < p.clients(); ++c) p.columns.push_back(ColumnsOf(d, p.begin[c], p.begin[c + 1]));
}

// Rows of one person together, persons in the order of their first row.
void GatherPersons(const Dataset& d, Order& rows) {
  std::unordered_map<std::uint32_t, std::size_t> place;
  for (const std::size_t i : rows) place.emplace(d.person[i], place.size());
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
    return place.at(d.person[a]) < place.at(d.person[b]);
  });
}

Status CheckWhole(const Dataset& d) {
  std::unordered_map<std::uint32_t, std::uint32_t> home;
  for (std::size_t i = 0; i < d.rows(); ++i)
    if (home.emplace(d.person[i], d.group[i]).first->second != d.group[i])
      return Fail(
          Code::kInvalidArgument,
          "data.split = column: somebody has rows in two groups, which privacy.person_bound = \"sum\" "
          "does not cover; use \"records\", or put every person's rows in one group");
  return Ok{};
}

// Who holds which of the things with these labels; for kColumn, rows.
Result<std::vector<Order>> Deal(const PartitionOptions& o, const Dataset& d,
                                const std::vector<double>& label) {
  if (o.split == Split::kColumn) return ByColumn(o, d);
  if (o.split == Split::kDirichlet) return Dirichlet(o, label);
  if (o.split == Split::kMixed) return Mixed(o, label);
  const std::vector<std::size_t> begin = Blocks(o, label.size());
  Order order(label.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (o.split == Split::kIid) Shuffle(order, StreamFor(o, 0, kShuffleAll));
  order.resize(begin.back());  // before the sort, or the last label would be left out
  if (o.split == Split::kByLabel)
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return label[a] < label[b]; });
  std::vector<Order> held;
  for (std::size_t c = 0; c + 1 < begin.size(); ++c)
    held.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin[c]),
                      order.begin() + static_cast<std::ptrdiff_t>(begin[c + 1]));
  return held;
}

}  // namespace

LineVec TilesOf(const Dataset& d, std::size_t begin, std::size_t rows) {
  TACIT_CHECK(!d.sparse() && Tiles::Fit(d.features) && d.norm.size() == d.rows());
  LineVec tiles(Tiles::Count(rows) * Tiles::SizeOfOne(d.features), 0.0);
  WriteTiles(d, begin, rows, tiles.data());
  return tiles;
}

Dataset Select(const Dataset& d, const std::vector<std::size_t>& order) {
  Dataset out;
  out.name = d.name;
  out.features = d.features;
  out.group_name = d.group_name;
  out.person_bound = d.person_bound;
  out.records_per_person = d.records_per_person;
  out.lower = d.lower;
  out.upper = d.upper;
  out.row_bound = d.row_bound;
  std::size_t entries = 0;
  for (const std::size_t i : order) entries += d.row(i).size;
  out.value.reserve(entries);
  if (d.sparse()) {
    out.column.reserve(entries);
    out.row_begin.reserve(order.size() + 1);
    out.row_begin.push_back(0);
  }
  for (const std::size_t i : order) {
    const Row r = d.row(i);
    out.value.insert(out.value.end(), r.value, r.value + r.size);
    if (d.sparse()) {
      out.column.insert(out.column.end(), r.index, r.index + r.size);
      out.row_begin.push_back(out.value.size());
    }
    out.label.push_back(d.label[i]);
    if (!d.group.empty()) out.group.push_back(d.group[i]);
    if (!d.person.empty()) out.person.push_back(d.person[i]);
    if (!d.norm.empty()) out.norm.push_back(d.norm[i]);
  }
  return out;
}

void PersonLimit::Apply(Dataset& d) {
  TACIT_CHECK(d.person.size() == d.rows());
  Order kept;
  for (std::size_t i = 0; i < d.rows(); ++i) {
    if (d.person[i] >= seen_.size()) seen_.resize(std::size_t{d.person[i]} + 1);
    if (seen_[d.person[i]]++ < most_) kept.push_back(i);
  }
  if (kept.size() < d.rows()) d = Select(d, kept);
}

Result<Partition> MakePartition(const PartitionOptions& o, Dataset d) {
  const bool persons = d.person_bound != PersonBound::kNone;
  std::vector<Order> whose;            // the rows of each person, by first row
  std::vector<double> label;
  if (persons) {
    TACIT_CHECK(d.person.size() == d.rows());
    if (o.rows_per_client != 0)
      return Fail(
          Code::kInvalidArgument,
          "data.rows_per_client = {}: would cut a person's rows; with privacy.unit = \"person\" leave "
          "it at 0",
          o.rows_per_client);
    std::unordered_map<std::uint32_t, std::size_t> place;
    for (std::size_t i = 0; i < d.rows(); ++i) {
      const auto [at, fresh] = place.emplace(d.person[i], whose.size());
      if (fresh) {
        whose.emplace_back();
        label.push_back(d.label[i]);
      }
      whose[at->second].push_back(i);
    }
  }
  TACIT_OK(Check(o, d, persons ? whose.size() : d.rows(), persons ? "persons" : "rows"));
  if (d.person_bound == PersonBound::kSum && o.split == Split::kColumn) TACIT_OK(CheckWhole(d));
  TACIT_TRY(std::vector<Order> held, Deal(o, d, persons ? label : d.label));
  Partition out;
  out.begin.push_back(0);
  Order order;
  order.reserve(d.rows());
  for (Order& mine : held) {
    if (persons && o.split != Split::kColumn) {
      for (const std::size_t p : mine) order.insert(order.end(), whose[p].begin(), whose[p].end());
    } else {
      if (persons) GatherPersons(d, mine);
      order.insert(order.end(), mine.begin(), mine.end());
    }
    out.begin.push_back(order.size());
  }
  bool as_it_is = order.size() == d.rows();
  for (std::size_t i = 0; as_it_is && i < order.size(); ++i) as_it_is = order[i] == i;
  if (!as_it_is && d.mapped) {
    TACIT_TRY(RowWriter writer, RowWriter::Open(d.mapped->folder()));
    TACIT_OK(writer.AppendRows(d, order));
    TACIT_TRY(out.data, writer.Finish());
    return out;
  }
  if (!as_it_is && d.maker) {      // all but the rows, and then the rows by their numbers
    const auto maker = std::exchange(d.maker, nullptr)->Reordered(order);
    const std::size_t features = std::exchange(d.features, 0);
    out.data = Select(d, order);
    out.data.maker = maker;
    out.data.features = features;
    return out;
  }
  out.data = as_it_is ? std::move(d) : Select(d, order);
  LayOut(out);
  return out;
}

}  // namespace tacit
