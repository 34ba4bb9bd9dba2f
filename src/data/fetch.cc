#include <curl/curl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "data/bytes.h"
#include "data/catalogue.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

struct Transfer {
  std::FILE* file;
  std::uint64_t done = 0, most = 0;
  std::string_view name;
  const FetchProgress* progress;
  bool stopped = false, too_large = false, disk = false;
};

std::size_t Write(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& t = *static_cast<Transfer*>(user);
  const std::size_t n = size * count;
  t.too_large = n > t.most - t.done;
  if (t.too_large) return 0;
  t.disk = std::fwrite(bytes, 1, n, t.file) != n;
  if (t.disk) return 0;
  t.done += n;
  return n;
}

int OnProgress(void* user, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
  auto& t = *static_cast<Transfer*>(user);
  if (*t.progress)
    t.stopped = !(*t.progress)(t.name, static_cast<std::uint64_t>(now), static_cast<std::uint64_t>(total));
  return t.stopped ? 1 : 0;
}

// One address into one open file.
Status Download(const std::string& url, Transfer& t, const FetchOptions& options) {
  if (!url.starts_with("https://") && !(options.file_urls && url.starts_with("file://")))
    return Fail(Code::kInvalidArgument, "{}: only https addresses are fetched", url);
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);  // once, thread-safe by C++ statics
  std::unique_ptr<CURL, void (*)(CURL*)> curl(ready == CURLE_OK ? curl_easy_init() : nullptr,
                                              &curl_easy_cleanup);
  if (!curl) return Fail(Code::kInternal, "libcurl could not be started");
  CURL* c = curl.get();
  curl_easy_setopt(c, CURLOPT_URL, url.c_str());
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, options.file_urls ? "https,file" : "https");
  curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "https");
  curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(c, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 20L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 100L);  // bytes a second …
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 60L);  // … for a minute: give up
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, &Write);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &t);
  curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, &OnProgress);
  curl_easy_setopt(c, CURLOPT_XFERINFODATA, &t);
  curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  const CURLcode code = curl_easy_perform(c);
  if (t.stopped)
    return Fail(Code::kInterrupted, "the fetch of {} was stopped; nothing was kept of it", t.name);
  if (t.disk)
    return Fail(Code::kIo, "{}: cannot be written ({}); make room on the disk", t.name, std::strerror(errno));
  if (t.too_large)
    return Fail(Code::kMalformed, "{}: is larger than {} can be; nothing was kept", url, t.name);
  if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
      code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_OPERATION_TIMEDOUT)
    return Fail(Code::kIo, "{}: {}; check the network, or put the file under TACIT_DATA by hand", url,
                curl_easy_strerror(code));
  if (code != CURLE_OK) {
    long status = 0;
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    return Fail(Code::kIo, "{}: {}{}; put the file under TACIT_DATA by hand", url, curl_easy_strerror(code),
                status >= 400 ? fmt::format(" (status {})", status) : std::string());
  }
  return Ok{};
}

// Removes the file unless it was moved away.
struct Partial {
  fs::path path;
  ~Partial() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

Status Verify(const KnownFile& f, const std::string& url, const fs::path& got) {
  auto hash = HashContent(got, f.bytes);
  // A content that is too long or cannot be unpacked is a wrong content.
  if (!hash.ok() || hash->sha256 != f.sha256)
    return Fail(Code::kMalformed,
                "{}: the checksum of what came is {} and not {}; nothing was kept: try again later", url,
                hash.ok() ? hash->sha256 : "not computable", f.sha256);
  return Ok{};
}

Status FetchFrom(const KnownFile& f, const std::string& url, const fs::path& dir,
                 const FetchProgress& progress, const FetchOptions& options) {
  const fs::path target = dir / f.path;
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error)
    return Fail(Code::kIo, "{}: cannot be created ({}); choose another directory",
                target.parent_path().string(), error.message());
  std::string name = (target.parent_path() / ("." + target.filename().string() + ".XXXXXX")).string();
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0)
    return Fail(Code::kIo, "{}: cannot be written to ({}); choose another directory",
                target.parent_path().string(), std::strerror(errno));
  const Partial partial{name};
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(fdopen(descriptor, "wb"), &std::fclose);
  TACIT_CHECK(file != nullptr);
  // A packed file can be a little larger than its content, not more.
  Transfer t{
      .file = file.get(), .most = f.bytes + f.bytes / 8 + (1 << 16), .name = f.path, .progress = &progress};
  TACIT_OK(Download(url, t, options));
  if (std::fflush(file.get()) != 0 || fsync(descriptor) != 0)
    return Fail(Code::kIo, "{}: cannot be written ({}); make room on the disk", f.path, std::strerror(errno));
  TACIT_OK(Verify(f, url, name));

  // The suffix says how it is packed, whatever the address was.
  std::array<char, 16> first{};
  TACIT_TRY(auto source, FromFile(name));
  TACIT_TRY(const std::size_t n, source->Read(first));
  fs::path final = target;
  const auto suffix = target.extension();
  if (suffix == ".gz" || suffix == ".bz2" || suffix == ".xz") final.replace_extension();
  final += SuffixOf({first.data(), n});
  fs::permissions(
      name, fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read | fs::perms::others_read,
      error);
  fs::rename(name, final, error);
  if (error) return Fail(Code::kIo, "{}: cannot be moved into place ({})", final.string(), error.message());
  return Ok{};
}

// Whether a good copy is already there, packed in any way.
bool Present(const KnownFile& f, const fs::path& dir) {
  fs::path bare = dir / f.path;
  const auto suffix = bare.extension();
  if (suffix == ".gz" || suffix == ".bz2" || suffix == ".xz") bare.replace_extension();
  for (const char* other : {"", ".gz", ".bz2", ".xz"}) {
    fs::path candidate = bare;
    candidate += other;
    std::error_code ignored;
    if (!fs::is_regular_file(candidate, ignored)) continue;
    if (const auto hash = HashContent(candidate, f.bytes); hash.ok() && hash->sha256 == f.sha256) return true;
  }
  return false;
}

}  // namespace

Result<ContentHash> HashContent(const fs::path& file, std::uint64_t most_bytes) {
  TACIT_TRY(auto raw, FromFile(file));
  TACIT_TRY(auto source, Unpacked(std::move(raw), file.string()));
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> md(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  if (!md || EVP_DigestInit_ex(md.get(), EVP_sha256(), nullptr) != 1)
    return Fail(Code::kInternal, "SHA-256 is not available from OpenSSL");
  ContentHash out;
  std::vector<char> block(1 << 17);
  for (;;) {
    TACIT_TRY(const std::size_t n, source->Read(block));
    if (n == 0) break;
    out.bytes += n;
    if (out.bytes > most_bytes)
      return Fail(Code::kMalformed, "{}: unpacks to more than {} bytes; it is not the expected file",
                  file.string(), most_bytes);
    if (EVP_DigestUpdate(md.get(), block.data(), n) != 1) return Fail(Code::kInternal, "SHA-256 failed");
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_DigestFinal_ex(md.get(), digest.data(), &size) != 1) return Fail(Code::kInternal, "SHA-256 failed");
  for (unsigned i = 0; i < size; ++i) out.sha256 += fmt::format("{:02x}", digest[i]);
  return out;
}

Result<std::string> Fetch(const KnownSet& set, const fs::path& dir, const FetchProgress& progress,
                          const FetchOptions& options) {
  if (set.train.empty()) return Fail(Code::kUnsupported, "{}: cannot be fetched: {}", set.name, set.note);
  std::size_t fetched = 0, present = 0;
  for (const auto* files : {&set.train, &set.test})
    for (const KnownFile& f : *files) {
      if (Present(f, dir)) {
        ++present;
        continue;
      }
      Status last = Fail(Code::kUnsupported,
                         "{}: no address is known for {}; put it under TACIT_DATA by hand", set.name, f.path);
      for (const std::string& url : f.urls) {
        last = FetchFrom(f, url, dir, progress, options);
        if (last.ok() || last.error().code == Code::kInterrupted) break;
      }
      if (!last.ok()) return last.error();
      ++fetched;
    }
  return fmt::format("{}: {} file(s) fetched and verified, {} already there, in {}", set.name, fetched,
                     present, dir.string());
}

}  // namespace tacit
