#include "data/row_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/check.h"

namespace tacit {
namespace {

std::size_t PageSize() {
  static const std::size_t size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

MappedRows::~MappedRows() {
  if (bytes_ != 0) ::munmap(const_cast<double*>(base_), bytes_);
}

void MappedRows::Drop(std::size_t first, std::size_t count) const {
  const std::size_t page = PageSize();
  const std::size_t begin = first * sizeof(double) / page * page;
  const std::size_t end = std::min(bytes_, (first + count) * sizeof(double));
  if (begin >= end) return;
  // A hint: neighbours that share a page read it again, and a refusal costs memory, not correctness.
  (void)::madvise(reinterpret_cast<char*>(const_cast<double*>(base_)) + begin, end - begin, MADV_DONTNEED);
}

std::filesystem::path DefaultScratch() {
  const char* dir = std::getenv("TMPDIR");
  return dir != nullptr && *dir != '\0' ? dir : "/var/tmp";
}

Result<RowWriter> RowWriter::Open(const std::filesystem::path& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) {      // not every file system has files without a name
    std::string name = (folder / "tacit-rows-XXXXXX").string();
    fd = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd >= 0) ::unlink(name.c_str());
  }
  if (fd < 0)
    return Fail(Code::kIo, "{}: no scratch file can be made there ({}); set data.scratch to a folder on disk",
                folder.string(), std::strerror(errno));
  return RowWriter(fd, folder);
}

RowWriter::RowWriter(RowWriter&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      folder_(std::move(other.folder_)),
      kept_(std::move(other.kept_)),
      values_(other.values_) {}

RowWriter::~RowWriter() {
  if (fd_ >= 0) ::close(fd_);
}

Status RowWriter::Write(const double* values, std::size_t count) {
  const char* bytes = reinterpret_cast<const char*>(values);
  std::size_t left = count * sizeof(double);
  while (left > 0) {
    const ssize_t n = ::write(fd_, bytes, left);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return Fail(Code::kIo, "{}: rows cannot be written there ({}); set data.scratch to a folder with room",
                  folder_.string(), std::strerror(errno));
    bytes += n;
    left -= static_cast<std::size_t>(n);
  }
  values_ += count;
  return Ok{};
}

void RowWriter::KeepShape(const Dataset& from) {
  kept_.name = from.name;
  kept_.features = from.features;
  kept_.group_name = from.group_name;
  kept_.person_bound = from.person_bound;
  kept_.records_per_person = from.records_per_person;
  kept_.row_bound = from.row_bound;
}

void RowWriter::Keep(const Dataset& from, std::size_t i) {
  kept_.label.push_back(from.label[i]);
  if (!from.norm.empty()) kept_.norm.push_back(from.norm[i]);
  if (!from.group.empty()) kept_.group.push_back(from.group[i]);
  if (!from.person.empty()) kept_.person.push_back(from.person[i]);
}

Status RowWriter::Append(const Dataset& batch) {
  TACIT_CHECK(kept_.rows() == 0 || kept_.features == batch.features);
  KeepShape(batch);
  Vec dense(batch.sparse() ? batch.features : 0);
  for (std::size_t i = 0; i < batch.rows(); ++i) {
    Keep(batch, i);
    if (!batch.sparse()) continue;
    std::fill(dense.begin(), dense.end(), 0.0);
    const Row r = batch.row(i);
    for (std::size_t k = 0; r.index != nullptr && k < r.size; ++k) dense[r.index[k]] = r.value[k];
    TACIT_OK(Write(dense.data(), dense.size()));
  }
  return batch.sparse() ? Status(Ok{}) : Write(batch.dense(), batch.rows() * batch.features);
}

Status RowWriter::AppendRows(const Dataset& from, const std::vector<std::size_t>& pick) {
  TACIT_CHECK(!from.sparse() && from.mapped != nullptr);
  constexpr std::size_t kResident = std::size_t{1} << 24;      // bytes between two drops
  KeepShape(from);
  std::size_t since = 0;
  for (const std::size_t i : pick) {
    Keep(from, i);
    TACIT_OK(Write(from.row(i).value, from.features));
    // Reading one page may map its neighbours too.
    since += std::max<std::size_t>(from.features * sizeof(double), std::size_t{1} << 16);
    if (since < kResident) continue;
    from.mapped->Drop(0, from.rows() * from.features);
    since = 0;
  }
  from.mapped->Drop(0, from.rows() * from.features);
  return Ok{};
}

Result<Dataset> RowWriter::Finish() {
  const std::size_t bytes = values_ * sizeof(double);
  TACIT_CHECK(values_ == kept_.rows() * kept_.features);
  void* base = nullptr;
  if (bytes != 0) {
    base = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd_, 0);
    if (base == MAP_FAILED)
      return Fail(Code::kIo, "{}: the scratch file cannot be mapped ({}); load fewer rows with data.rows",
                  folder_.string(), std::strerror(errno));
  }
  kept_.mapped = std::make_shared<const MappedRows>(static_cast<const double*>(base), bytes, folder_);
  return std::move(kept_);
}

const double* MappedData(const MappedRows& rows) { return rows.data(); }

void Shard::Forget(std::size_t first, std::size_t count) const {
  if (contiguous()) return data_->mapped->Drop((begin_ + first) * features(), count * features());
  for (std::size_t i = first; i < first + count; ++i) data_->mapped->Drop(At(i) * features(), features());
}

}  // namespace tacit
