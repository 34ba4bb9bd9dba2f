#include "data/catalogue.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "data/partition.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

// Sets TACIT_DATA for one test and puts the old value back.
class DataRoot {
 public:
  explicit DataRoot(const char* value) {
    if (const char* old = std::getenv("TACIT_DATA")) old_ = old;
    value ? setenv("TACIT_DATA", value, 1) : unsetenv("TACIT_DATA");
  }
  ~DataRoot() { old_ ? setenv("TACIT_DATA", old_->c_str(), 1) : unsetenv("TACIT_DATA"); }

 private:
  std::optional<std::string> old_;
};

class TempDir {
 public:
  TempDir() {
    std::string name = (fs::temp_directory_path() / "tacit-data-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~TempDir() { fs::remove_all(path); }
  fs::path Put(const std::string& name, const std::string& bytes) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << bytes;
    return path / name;
  }
  std::size_t Files() const {
    std::size_t n = 0;
    for (const auto& e : fs::recursive_directory_iterator(path)) n += e.is_regular_file();
    return n;
  }
  fs::path path;
};

TEST(Catalogue, IsSortedAndComplete) {
  const auto& sets = Catalogue();
  EXPECT_TRUE(std::is_sorted(sets.begin(), sets.end(), [](auto& a, auto& b) { return a.name < b.name; }));
  for (const KnownSet& s : sets) {
    SCOPED_TRACE(s.name);
    EXPECT_EQ(FindSet(s.name), &s);
    EXPECT_GT(s.features, 0u);
    EXPECT_GT(s.rows, 0u);
    EXPECT_FALSE(s.citation.empty());
    EXPECT_FALSE(s.licence.empty());
    for (const auto* files : {&s.train, &s.test})
      for (const KnownFile& f : *files) {
        EXPECT_EQ(f.sha256.size(), 64u);
        EXPECT_GT(f.bytes, 0u);
        EXPECT_TRUE(!f.urls.empty() || s.name == "cifar10");      // one archive upstream
        for (const std::string& url : f.urls) EXPECT_TRUE(url.starts_with("https://"));
      }
  }
  EXPECT_EQ(FindSet("nonesuch"), nullptr);
}

TEST(FindData, LooksUnderTacitDataOnly) {
  const TempDir dir;
  const DataRoot root(dir.path.c_str());
  dir.Put("x/a.bz2", "1");
  EXPECT_EQ(*FindData("x/a.bz2"), dir.path / "x/a.bz2");
  EXPECT_EQ(*FindData("x/a"), dir.path / "x/a.bz2");
  EXPECT_EQ(*FindData("x/a.gz"), dir.path / "x/a.bz2");
  for (const char* bad : {"", "/etc/passwd", "../x", "x/../../y"})
    EXPECT_EQ(FindData(bad).error().code, Code::kInvalidArgument) << bad;
  const auto missing = FindData("x/b");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find(dir.path.string()), std::string::npos);
}

TEST(LoadOptionsFor, AMissingSetNamesItselfThePlaceAndTheRemedy) {
  const TempDir dir;
  {
    const DataRoot root(dir.path.c_str());
    const auto o = LoadOptionsFor(*FindSet("a9a"), Part::kTrain);
    ASSERT_FALSE(o.ok());
    EXPECT_EQ(o.error().code, Code::kNotFound);
    for (const std::string& part :
         {std::string("a9a"), dir.path.string(), std::string("tacit data fetch a9a")})
      EXPECT_NE(o.error().message.find(part), std::string::npos) << o.error().message;
  }
  const DataRoot unset(nullptr);
  const auto o = LoadOptionsFor(*FindSet("a9a"), Part::kTrain);
  ASSERT_FALSE(o.ok());
  EXPECT_NE(o.error().message.find("TACIT_DATA is not set"), std::string::npos);
  EXPECT_EQ(LoadOptionsFor(*FindSet("a6a"), Part::kTest).error().code, Code::kUnsupported);
}

constexpr const char* kContent = "1 1:1\n-1 2:1\n";

KnownSet Local(const fs::path& source, const fs::path& expected_content) {
  KnownSet s;
  s.name = "local";
  s.features = 2;
  s.rows = 2;
  s.citation = "test";
  const auto hash = HashContent(expected_content, 1 << 20);
  s.train = {{.path = "local/local.bz2",
              .bytes = hash->bytes,
              .sha256 = hash->sha256,
              .urls = {"file://" + source.string()}}};
  return s;
}

TEST(Fetch, VerifiesThenMovesIntoPlaceUnderItsTrueSuffix) {
  const TempDir from, to;
  const fs::path file = from.Put("local", kContent);
  const KnownSet set = Local(file, file);
  std::size_t calls = 0;
  const auto done = Fetch(set, to.path, [&](auto, auto, auto) { return ++calls > 0; }, {.file_urls = true});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_GT(calls, 0u);
  EXPECT_TRUE(fs::exists(to.path / "local/local"));
  EXPECT_EQ(to.Files(), 1u);
  const DataRoot root(to.path.c_str());
  const auto options = LoadOptionsFor(set, Part::kTrain);
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(Load(*options)->rows(), 2u);
  const auto again = Fetch(set, to.path, {}, {.file_urls = true});
  ASSERT_TRUE(again.ok());
  EXPECT_NE(again->find("0 file(s) fetched and verified, 1 already there"), std::string::npos) << *again;
}

TEST(Fetch, AWrongChecksumKeepsNothing) {
  const TempDir from, to;
  const fs::path good = from.Put("good", kContent);
  for (const std::string bytes : {"1 1:1\n-1 2:2\n", "1 1:1\n", "\x1f\x8b\x08 damaged"}) {
    const auto done = Fetch(Local(from.Put("bad", bytes), good), to.path, {}, {.file_urls = true});
    ASSERT_FALSE(done.ok());
    EXPECT_NE(done.error().message.find("checksum"), std::string::npos) << done.error().message;
    EXPECT_EQ(to.Files(), 0u);
  }
  const auto large =
      Fetch(Local(from.Put("large", std::string(1 << 20, 'x')), good), to.path, {}, {.file_urls = true});
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.error().message.find("is larger than"), std::string::npos) << large.error().message;
  EXPECT_EQ(to.Files(), 0u);
}

TEST(Fetch, TriesTheNextAddress) {
  const TempDir from, to;
  const fs::path file = from.Put("local", kContent);
  KnownSet set = Local(file, file);
  set.train[0].urls.insert(set.train[0].urls.begin(), "file:///nonexistent/x");
  EXPECT_TRUE(Fetch(set, to.path, {}, {.file_urls = true}).ok());
}

TEST(Fetch, RefusesAnythingButHttpsAndSaysWhenThereIsNoNetwork) {
  const TempDir from, to;
  const fs::path file = from.Put("local", kContent);
  KnownSet set = Local(file, file);
  EXPECT_NE(Fetch(set, to.path).error().message.find("only https"), std::string::npos);
  set.train[0].urls = {"http://127.0.0.1:1/x"};
  EXPECT_NE(Fetch(set, to.path, {}, {.file_urls = true}).error().message.find("only https"),
            std::string::npos);
  set.train[0].urls = {"https://127.0.0.1:1/x"};                    // a port nobody listens on
  const auto refused = Fetch(set, to.path);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kIo);
  EXPECT_NE(refused.error().message.find("check the network"), std::string::npos) << refused.error().message;
  EXPECT_EQ(Fetch(*FindSet("cifar10"), to.path).error().code, Code::kUnsupported);  // no address of a file
  EXPECT_EQ(to.Files(), 0u);
}

TEST(Fetch, CanBeStopped) {
  const TempDir from, to;
  const fs::path file = from.Put("local", kContent);
  const auto stopped =
      Fetch(Local(file, file), to.path, [](auto, auto, auto) { return false; }, {.file_urls = true});
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, Code::kInterrupted);
  EXPECT_EQ(to.Files(), 0u);
}

// Sets that are not on this machine are skipped one by one; the test says so.
TEST(RealData, HasThePublishedShapesAndChecksums) {
  std::size_t seen = 0;
  for (const KnownSet& set : Catalogue()) {
    SCOPED_TRACE(set.name);
    for (const Part part : {Part::kTrain, Part::kTest}) {
      const auto& files = part == Part::kTrain ? set.train : set.test;
      if (files.empty()) continue;
      const std::size_t rows = part == Part::kTrain ? set.rows : set.test_rows;
      auto options = LoadOptionsFor(set, part);
      if (!options.ok()) {
        std::printf("skipped: %s\n", options.error().message.c_str());
        continue;
      }
      ++seen;
      if (files[0].bytes > 3000000) options->rows = 1000;  // the slow test reads them whole
      const auto data = Load(*options);
      ASSERT_TRUE(data.ok()) << data.error().message;
      EXPECT_EQ(data->rows(), options->rows ? options->rows : rows);
      EXPECT_EQ(data->features, set.features);
      if (files[0].bytes > 1000000) continue;
      for (const KnownFile& f : files) {
        const auto hash = HashContent(*FindData(f.path), f.bytes);
        ASSERT_TRUE(hash.ok()) << hash.error().message;
        EXPECT_EQ(hash->sha256, f.sha256);
        EXPECT_EQ(hash->bytes, f.bytes);
      }
    }
  }
  if (seen == 0) {
    std::printf("skipped: no known data set is under TACIT_DATA\n");
    GTEST_SKIP();
  }
}

std::size_t CountPositive(const Dataset& d) {
  return static_cast<std::size_t>(std::count(d.label.begin(), d.label.end(), 1.0));
}

TEST(RealData, BinaryLabelsAreCountedAsPublished) {
  const struct {
    const char* name;
    Part part;
    std::size_t positive;
  } kCases[] = {
      {"a6a", Part::kTrain, 2692},          {"a9a", Part::kTrain, 7841},
      {"mushrooms", Part::kTrain, 3916},    {"heart_scale", Part::kTrain, 120},
      {"heart_disease", Part::kTrain, 411},
  };
  bool any = false;
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    const KnownSet& set = *FindSet(c.name);
    const auto options = LoadOptionsFor(set, c.part);
    if (!options.ok()) {
      std::printf("skipped: %s\n", options.error().message.c_str());
      continue;
    }
    any = true;
    Dataset data = *Load(*options);
    PreprocessOptions o = PreprocessOptionsFor(set);
    o.row_norm = RowNorm::kUnit;
    ASSERT_TRUE(Preprocess(o, data).ok());
    EXPECT_EQ(CountPositive(data), c.positive);
    EXPECT_LE(*std::max_element(data.norm.begin(), data.norm.end()), 1.0);
  }
  if (!any) {
    std::printf("skipped: no known data set is under TACIT_DATA\n");
    GTEST_SKIP();
  }
}

TEST(RealData, HeartDiseaseSplitsByHospital) {
  const auto options = LoadOptionsFor(*FindSet("heart_disease"), Part::kTrain);
  if (!options.ok()) {
    std::printf("skipped: %s\n", options.error().message.c_str());
    GTEST_SKIP();
  }
  const auto p = MakePartition({.split = Split::kColumn}, *Load(*options));
  ASSERT_TRUE(p.ok());
  ASSERT_EQ(p->clients(), 4u);
  EXPECT_EQ(p->size(0), 303u);
  EXPECT_EQ(p->size(1), 294u);
  EXPECT_EQ(p->size(2), 123u);
  EXPECT_EQ(p->size(3), 200u);
}

TEST(RealData, FashionMnistIsFoundInItsSystemPackage) {
  const DataRoot unset(nullptr);
  const auto options = LoadOptionsFor(*FindSet("fashion_mnist"), Part::kTest);
  if (!options.ok()) {
    std::printf("skipped: Debian's package dataset-fashion-mnist is not installed\n");
    GTEST_SKIP();
  }
  const auto data = Load(*options);
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->rows(), 10000u);
  for (double c = 0; c < 10; ++c) EXPECT_EQ(std::count(data->label.begin(), data->label.end(), c), 1000);
}

}  // namespace
}  // namespace tacit
