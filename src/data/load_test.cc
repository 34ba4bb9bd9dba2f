#include "data/load.h"

#include <bzlib.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>

#include "core/rng.h"
#include "data/bytes.h"

namespace tacit {
namespace {

constexpr std::uint64_t kSeeds = 2000;      // random cases, the same every time

namespace fs = std::filesystem;
using namespace std::string_literals;

class TempDir {
 public:
  TempDir() {
    std::string name = (fs::temp_directory_path() / "tacit-load-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempDir() { fs::remove_all(path_); }
  fs::path Put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  fs::path path_;
};

std::string Gzip(const std::string& in) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(in.size() + 1000, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  z.avail_in = static_cast<uInt>(in.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string Bzip2(std::string in) {
  std::string out(in.size() + 1000, '\0');
  unsigned size = static_cast<unsigned>(out.size());
  BZ2_bzBuffToBuffCompress(out.data(), &size, in.data(), static_cast<unsigned>(in.size()), 9, 0, 0);
  out.resize(size);
  return out;
}

std::string Xz(const std::string& in) {
  std::string out(in.size() + 1000, '\0');
  std::size_t size = 0;
  lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(in.data()),
                          in.size(), reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size());
  out.resize(size);
  return out;
}

std::string Be32(std::uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
          static_cast<char>(v)};
}
std::string IdxImages(std::uint32_t n, std::uint32_t h, std::uint32_t w, const std::string& pixels) {
  return "\0\0\x08\x03"s + Be32(n) + Be32(h) + Be32(w) + pixels;
}
std::string IdxLabels(std::uint32_t n, const std::string& labels) {
  return "\0\0\x08\x01"s + Be32(n) + labels;
}

template <class T>
std::string MessageOf(const Result<T>& r) {
  return r.ok() ? "no error" : r.error().message;
}

bool SameRows(const Dataset& a, const Dataset& b) {
  return a.features == b.features && a.value == b.value && a.column == b.column &&
         a.row_begin == b.row_begin && a.label == b.label && a.group == b.group;
}

const char* const kText = "+1 1:0.5 3:-2e-1 # a comment\r\n\n   \n# only a comment\n-1\t2:1 \n3 4:1e-400\n";

TEST(Libsvm, ReadsWhatTheFormatAllows) {
  const auto d = ParseLibsvm(kText);
  ASSERT_TRUE(d.ok()) << d.error().message;
  EXPECT_EQ(d->rows(), 3u);
  EXPECT_EQ(d->features, 4u);
  EXPECT_TRUE(d->sparse());
  EXPECT_EQ(d->label, (Vec{1, -1, 3}));
  EXPECT_EQ(d->value, (LineVec{0.5, -0.2, 1, 0}));              // 1e-400 is below the smallest double
  EXPECT_EQ(d->column, (std::vector<std::uint32_t>{0, 2, 1, 3}));
  EXPECT_EQ(d->row_begin, (std::vector<std::uint64_t>{0, 2, 3, 4}));
}

TEST(Libsvm, ARowMayHaveNoFeatures) {
  const auto d = ParseLibsvm("1\n-1 2:1\n1");
  ASSERT_TRUE(d.ok());
  EXPECT_EQ(d->rows(), 3u);
  EXPECT_EQ(d->row(0).size, 0u);
  EXPECT_EQ(d->row(2).size, 0u);
}

TEST(Libsvm, RowsSkipAndFeaturesChoose) {
  const auto d = ParseLibsvm("1 1:1\n2 1:2\n3 1:3\n4 1:4\n", {.features = 9, .rows = 2, .skip = 1});
  ASSERT_TRUE(d.ok());
  EXPECT_EQ(d->label, (Vec{2, 3}));
  EXPECT_EQ(d->features, 9u);
}

TEST(Libsvm, RefusesWhatIsMalformedAndSaysWhereAndWhatToDo) {
  const struct {
    const char* why;
    std::string text;
    LoadOptions options;
    const char* expected;
  } kCases[] = {
      {"empty", "", {}, "t: has no rows"},
      {"only comments", "# x\n\n", {}, "t: has no rows"},
      {"label is a word", "1 1:1\nabc 1:1\n", {}, "t: line 2: the label is not a number"},
      {"label is absent", "1:1 2:1\n", {}, "the label is missing"},
      {"several labels", "1,2 1:1\n", {}, "the label is a list"},
      {"label NaN", "nan 1:1\n", {}, "the label is not finite"},
      {"two signs", "+-1 1:1\n", {}, "the label is not a number"},
      {"index zero", "1 0:1\n", {}, "line 1: a feature index is 0; indices start at 1"},
      {"negative index", "1 -3:1\n", {}, "a feature index is not a whole number"},
      {"fractional index", "1 1.5:1\n", {}, "a feature index is not a whole number"},
      {"index of 30 digits",
       "1 111111111111111111111111111111:1\n",
       {},
       "a feature index is above 1073741824"},
      {"index beyond any model", "1 4294967295:1\n", {}, "a feature index is above 1073741824"},
      {"descending", "1 2:1 1:1\n", {}, "do not ascend"},
      {"twice the same", "1 2:1 2:1\n", {}, "do not ascend"},
      {"no colon", "1 7\n", {}, "has no ':'"},
      {"value absent", "1 7: 8:1\n", {}, "a value is missing after ':'"},
      {"value at the end absent", "1 7:", {}, "a value is missing after ':'"},
      {"value is a word", "1 7:x\n", {}, "a value is not a number"},
      {"value with a tail", "1 7:1x\n", {}, "a value is not a number"},
      {"hexadecimal", "1 7:0x10\n", {}, "a value is not a number"},
      {"NaN", "1 7:nan\n", {}, "values must be finite"},
      {"infinity", "1 7:-inf\n", {}, "values must be finite"},
      {"overflow", "1 7:1e999\n", {}, "values must be finite"},
      {"overflow of any type", "1 7:1e999999\n", {}, "values must be finite"},
      {"ranking data", "1 qid:3 1:1\n", {}, "qid: token (ranking data)"},
      {"NUL bytes", "1 1:1\n\0\0\0"s, {}, "line 2: the label is not a number"},
      {"index above features", "1 5:1\n", {.features = 4}, "above data.features = 4"},
      {"more rows than there are", "1 1:1\n", {.rows = 2}, "rows = 2: t has 1 rows"},
      {"all rows skipped", "1 1:1\n", {.skip = 3}, "skip = 3 passes over all 1 rows"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const auto d = ParseLibsvm(c.text, c.options, "t");
    ASSERT_FALSE(d.ok());
    EXPECT_NE(d.error().message.find(c.expected), std::string::npos) << d.error().message;
  }
}

TEST(Libsvm, AMessageNeverRepeatsTheRow) {
  for (const std::string text : {"1 7:s3cret\n", "s3cret 1:1\n", "1 s3cret:1\n", "1 s3cret\n"})
    EXPECT_EQ(MessageOf(ParseLibsvm(text)).find("s3cret"), std::string::npos);
}

TEST(Csv, ReadsHeaderQuotesGroupsAndMissingFields) {
  LoadOptions o;
  o.csv = {.header = true, .label = "y", .group = "site", .drop = {"id"}, .missing = -7};
  const auto d = ParseCsv(
      "\xef\xbb\xbfid,a,\"b, with \"\"comma\"\"\",y,site\r\n"
      "x1,1.5,?,1,\"north\n\"\r\n"
      "\r\n"
      "x2, +2 ,,0,south\r\n"
      "x3,\"3\",4,1,\"north\n\"",
      o);
  ASSERT_TRUE(d.ok()) << d.error().message;
  EXPECT_FALSE(d->sparse());
  EXPECT_EQ(d->features, 2u);
  EXPECT_EQ(d->value, (LineVec{1.5, -7, 2, -7, 3, 4}));
  EXPECT_EQ(d->label, (Vec{1, 0, 1}));
  EXPECT_EQ(d->group, (std::vector<std::uint32_t>{0, 1, 0}));
  EXPECT_EQ(d->group_name, (std::vector<std::string>{"north\n", "south"}));
}

TEST(Csv, ColumnsByNumberAndOtherSeparators) {
  LoadOptions o;
  o.csv = {.label = "0", .drop = {"2"}, .separator = ';'};
  const auto d = ParseCsv("1;2;3;4\n5;6;7;8\n", o);
  ASSERT_TRUE(d.ok()) << d.error().message;
  EXPECT_EQ(d->value, (LineVec{2, 4, 6, 8}));
  EXPECT_EQ(d->label, (Vec{1, 5}));
  const auto last = ParseCsv("1,2,3\n4,5,6\n7,8,9\n", {.rows = 1, .skip = 1});
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->value, (LineVec{4, 5}));
  EXPECT_EQ(last->label, (Vec{6}));
}

TEST(Csv, RefusesWhatIsMalformedAndSaysWhereAndWhatToDo) {
  const auto with = [](CsvLayout csv, std::size_t features = 0) {
    LoadOptions o;
    o.csv = std::move(csv);
    o.features = features;
    return o;
  };
  const struct {
    const char* why;
    std::string text;
    LoadOptions options;
    const char* expected;
  } kCases[] = {
      {"empty", "", {}, "t: has no rows"},
      {"header only", "a,b\n", with({.header = true}), "t: has no rows"},
      {"ragged", "1,2\n1,2,3\n", {}, "t: line 2: 3 fields where the first line has 2"},
      {"open quote", "1,\"2\n3,4\n", {}, "line 1: a quote is opened and never closed"},
      {"text after a quote", "1,\"2\"x\n", {}, "text follows a closing quote"},
      {"one column only", "1\n2\n", {}, "no column is left for the features"},
      {"a word", "1,2\nred,2\n", {}, "line 2, column 0: the value is not a number; drop the column"},
      {"a header not announced", "a,b\n1,2\n", {}, "data.header = true"},
      {"a named column", "u,v\nred,2\n", with({.header = true}), "line 2, column 0 ('u')"},
      {"NaN", "nan,2\n", {}, "values must be finite"},
      {"infinite", "1e999,2\n", {}, "values must be finite"},
      {"label missing", "1,?\n", {}, "column 1: the label is missing"},
      {"label a word", "1,yes\n", {}, "the label is not a number; encode labels"},
      {"label infinite", "1,inf\n", {}, "the label is not finite"},
      {"group missing", "1,2,\n", with({.label = "0", .group = "2"}), "the group is missing"},
      {"no such name", "a,b\n1,2\n", with({.header = true, .label = "z"}),
       "data.label_column = 'z': t has no such column"},
      {"a name without header", "1,2\n", with({.label = "z"}),
       "give a 0-based number, or data.header = true"},
      {"no such number", "1,2\n", with({.label = "2"}), "data.label_column = 2: t has columns 0 to 1"},
      {"label is group", "1,2\n", with({.label = "1", .group = "1"}), "is also the label"},
      {"label dropped", "1,2\n", with({.drop = {"1"}}), "is the label, the group or the person column"},
      {"wrong features", "1,2\n", with({}, 5), "features = 5: t has 1 feature columns"},
      {"quote as separator", "1,2\n", with({.separator = '"'}), "data.separator"},
      {"missing not finite", "1,2\n", with({.missing = 1.0 / 0.0}), "data.missing"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const auto d = ParseCsv(c.text, c.options, "t");
    ASSERT_FALSE(d.ok());
    EXPECT_NE(d.error().message.find(c.expected), std::string::npos) << d.error().message;
  }
}

TEST(Idx, ReadsImagesAndLabels) {
  const auto d = ParseIdx(IdxImages(3, 1, 2, "\x00\xff\x01\x02\x03\x04"s), IdxLabels(3, "\x07\x00\x09"s));
  ASSERT_TRUE(d.ok()) << d.error().message;
  EXPECT_EQ(d->features, 2u);
  EXPECT_EQ(d->value, (LineVec{0, 255, 1, 2, 3, 4}));
  EXPECT_EQ(d->label, (Vec{7, 0, 9}));
  const auto middle = ParseIdx(IdxImages(3, 1, 2, "\x00\xff\x01\x02\x03\x04"s), IdxLabels(3, "\x07\x00\x09"s),
                               {.features = 2, .rows = 1, .skip = 1});
  ASSERT_TRUE(middle.ok());
  EXPECT_EQ(middle->value, (LineVec{1, 2}));
}

TEST(Idx, RefusesWhatIsMalformedAndSaysWhereAndWhatToDo) {
  const std::string x = IdxImages(2, 1, 2, "abcd"), y = IdxLabels(2, "ab");
  const struct {
    const char* why;
    std::string images, labels;
    LoadOptions options;
    const char* expected;
  } kCases[] = {
      {"empty", "", y, {}, "x: ends within its IDX header"},
      {"not IDX", "hello, world", y, {}, "does not start with an IDX magic number"},
      {"floats", "\0\0\x0d\x03"s + x.substr(4), y, {}, "IDX element type 0x0d"},
      {"swapped", y, x, {}, "images and labels are not swapped"},
      {"labels with two dimensions", x, x, {}, "labels have 1"},
      {"header cut", x.substr(0, 9), y, {}, "ends within its IDX header"},
      {"images cut", x.substr(0, x.size() - 1), y, {}, "x: ends within item 2 of the 2"},
      {"labels cut", x, y.substr(0, y.size() - 1), {}, "y: ends within item 2 of the 2"},
      {"images go on", x + "z", y, {}, "x: goes on after the 2 items"},
      {"labels go on", x, y + "z", {}, "y: goes on after the 2 items"},
      {"counts differ", x, IdxLabels(1, "a"), {}, "x has 2 images and y has 1 labels"},
      {"a shape that would fill the memory",
       IdxImages(4000000000u, 60000, 60000, ""),
       IdxLabels(4000000000u, ""),
       {},
       "the IDX header states no features, or more than"},
      {"a count that would fill the memory",
       IdxImages(4000000000u, 1, 2, "ab"),
       IdxLabels(4000000000u, "a"),
       {},
       "x: ends within item 2 of the 4000000000"},
      {"no features", IdxImages(2, 0, 2, ""), y, {}, "states no features"},
      {"no rows", IdxImages(0, 1, 2, ""), IdxLabels(0, ""), {}, "has no rows"},
      {"wrong features", x, y, {.features = 3}, "features = 3: x has 2"},
      {"too many rows", x, y, {.rows = 3}, "rows = 3: x has 2 rows"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const auto d = ParseIdx(c.images, c.labels, c.options, "x", "y");
    ASSERT_FALSE(d.ok());
    EXPECT_NE(d.error().message.find(c.expected), std::string::npos) << d.error().message;
  }
}

TEST(Load, UnpacksByContentWhateverTheName) {
  const TempDir dir;
  const Dataset plain = *ParseLibsvm(kText);
  const std::string half(kText, 30), rest(kText + 30);
  const struct {
    const char* why;
    std::string name, bytes;
  } kCases[] = {
      {"plain", "a", kText},
      {"plain under a packed name", "b.gz", kText},
      {"gzip", "c.gz", Gzip(kText)},
      {"gzip without suffix", "d", Gzip(kText)},
      {"two gzip members", "e.gz", Gzip(half) + Gzip(rest)},
      {"bzip2", "f.bz2", Bzip2(kText)},
      {"bzip2 under another name", "g.xz", Bzip2(kText)},
      {"two bzip2 streams", "h.bz2", Bzip2(half) + Bzip2(rest)},
      {"xz", "i.xz", Xz(kText)},
      {"two xz streams", "j", Xz(half) + Xz(rest)},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const auto d = Load({.file = dir.Put(c.name, c.bytes)});
    ASSERT_TRUE(d.ok()) << d.error().message;
    EXPECT_TRUE(SameRows(*d, plain));
  }
}

TEST(Load, ATruncatedOrDamagedPackedFileIsAnError) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += fmt::format("{} {}:{}\n", i % 2, i % 50 + 1, i * 0.37);
  for (const auto& [kind, packed] :
       {std::pair{"gzip", Gzip(text)}, {"bzip2", Bzip2(text)}, {"xz", Xz(text)}}) {
    SCOPED_TRACE(kind);
    for (const std::size_t keep : {packed.size() - 1, packed.size() / 2, std::size_t{11}}) {
      const auto d = Load({.file = dir.Put("t", packed.substr(0, keep))});
      ASSERT_FALSE(d.ok());
      EXPECT_EQ(d.error().code, Code::kMalformed);
      EXPECT_NE(d.error().message.find(kind), std::string::npos) << d.error().message;
    }
    std::string damaged = packed;
    damaged[packed.size() / 2] = static_cast<char>(damaged[packed.size() / 2] ^ 0x40);
    EXPECT_FALSE(Load({.file = dir.Put("t", damaged)}).ok());
    EXPECT_FALSE(Load({.file = dir.Put("t", packed + "tail")}).ok());
  }
}

TEST(Load, FindsTheFormatFromContentAndName) {
  const TempDir dir;
  EXPECT_TRUE(Load({.file = dir.Put("a", "1 1:1\n")})->sparse());
  EXPECT_FALSE(Load({.file = dir.Put("b.data", "1,2\n")})->sparse());
  EXPECT_FALSE(Load({.file = dir.Put("c.tsv", "1\t2\n")})->sparse());
  EXPECT_TRUE(Load({.file = dir.Put("d", "# a, comment: with, commas\n1 1:1\n")})->sparse());
  dir.Put("z-labels-idx1-ubyte.gz", Gzip(IdxLabels(1, "a")));
  const auto images = Load({.file = dir.Put("z-images-idx3-ubyte.gz", Gzip(IdxImages(1, 2, 2, "abcd")))});
  ASSERT_TRUE(images.ok()) << images.error().message;
  EXPECT_EQ(images->features, 4u);
  EXPECT_EQ(images->label, (Vec{'a'}));
}

TEST(Load, SeveralFilesAreOneGroupEach) {
  const TempDir dir;
  const auto d =
      Load({.file = dir.Put("a.csv", "1,2,0\n3,4,1\n"), .more = {dir.Put("b.csv.gz", Gzip("5,?,1\n"))}});
  ASSERT_TRUE(d.ok()) << d.error().message;
  EXPECT_EQ(d->value, (LineVec{1, 2, 3, 4, 5, 0}));
  EXPECT_EQ(d->group, (std::vector<std::uint32_t>{0, 0, 1}));
  EXPECT_EQ(d->group_name, (std::vector<std::string>{"a.csv", "b.csv"}));
  const auto s = Load({.file = dir.Put("a", "1 3:1\n"), .more = {dir.Put("b", "1 5:1\n2\n")}});
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->features, 5u);
  EXPECT_EQ(s->row_begin, (std::vector<std::uint64_t>{0, 1, 2, 2}));
  EXPECT_FALSE(Load({.file = dir.Put("a.csv", "1,2\n"), .more = {dir.Put("b.csv", "1,2,3\n")}}).ok());
  EXPECT_FALSE(
      Load({.file = dir.Put("a.csv", "1,2\n"), .more = {dir.Put("b.csv", "1,2\n")}, .rows = 1}).ok());
}

TEST(Load, SaysWhatIsWrongWithAPath) {
  const TempDir dir;
  EXPECT_EQ(Load({}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Load({.file = "/nonexistent/x"}).error().code, Code::kNotFound);
  EXPECT_NE(MessageOf(Load({.file = fs::temp_directory_path()})).find("is a directory"), std::string::npos);
  EXPECT_NE(MessageOf(Load({.file = dir.Put("only-images", IdxImages(1, 1, 1, "a"))})).find("no such file"),
            std::string::npos);
  EXPECT_NE(MessageOf(Load({.file = dir.Put("pixels", IdxImages(1, 1, 1, "a"))})).find("needs its labels"),
            std::string::npos);
}

TEST(Parsers, SurviveAnyBytes) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Stream stream({.seed = seed, .purpose = Purpose::kTest});
    static constexpr std::string_view kAlphabet = "01 9:,-+.eE\n\r\t\"?#naif\0\x08\x01\x03\xff";
    std::string text = stream.Below(3) == 0 ? std::string("1 1:2 3:4\n") : std::string();
    for (std::uint64_t n = stream.Below(200); n > 0; --n) text += kAlphabet[stream.Below(kAlphabet.size())];
    const std::string head = "\0\0\x08"s;
    for (const auto& d :
         {ParseLibsvm(text), ParseCsv(text), ParseIdx(text, text),
          ParseIdx(head + "\x02" + Be32(2) + Be32(2) + text, head + "\x01" + Be32(2) + text)}) {
      if (!d.ok()) continue;
      ASSERT_TRUE(d->rows() > 0);
      ASSERT_TRUE(d->sparse() ? d->row_begin.back() == d->value.size()
                              : d->value.size() == d->rows() * d->features);
      for (const std::uint32_t c : d->column) ASSERT_TRUE(c < d->features);
      for (const double v : d->value) ASSERT_TRUE(std::isfinite(v));
    }
    for (const std::string& magic :
         {"\x1f\x8b\x08"s, "BZh9\x31\x41\x59\x26\x53\x59"s, "\xfd\x37\x7a\x58\x5a\0"s}) {
      const std::string bytes = magic + text;
      Input input(*Unpacked(FromMemory(bytes), "t"), "t");
      std::string_view line;
      for (;;) {
        const auto more = input.Line(line);
        if (!more.ok() || !*more) break;
      }
    }
  }
}

}  // namespace
}  // namespace tacit
