// Rows from NumPy's arrays and from CIFAR-10's records.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zip.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "data/load.h"
#include "data/npy.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

template <class T, class A = std::allocator<T>>
std::string Bytes(const std::vector<T, A>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// An array as numpy.save writes it.
std::string Npy(const std::string& type, const std::string& shape, const std::string& payload,
                bool fortran = false, int version = 1) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", type,
                                   fortran ? "True" : "False", shape);
  const std::size_t digits = version == 1 ? 2 : 4;
  while ((8 + digits + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string out("\x93NUMPY", 6);
  out += static_cast<char>(version);
  out += '\0';
  for (std::size_t i = 0; i < digits; ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return out + header + payload;
}

struct Entry {
  std::string name, bytes;
  bool packed = false;
};
// An archive as numpy.savez writes it, or numpy.savez_compressed.
std::string Npz(const std::vector<Entry>& members) {
  const fs::path file = fs::temp_directory_path() / fmt::format("tacit_npz_{}.npz", ::getpid());
  fs::remove(file);
  zip_t* zip = zip_open(file.c_str(), ZIP_CREATE, nullptr);
  for (const Entry& m : members) {
    zip_source_t* s = zip_source_buffer(zip, m.bytes.data(), m.bytes.size(), 0);
    const zip_int64_t at = zip_file_add(zip, (m.name + ".npy").c_str(), s, 0);
    zip_set_file_compression(zip, static_cast<zip_uint64_t>(at), m.packed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  }
  zip_close(zip);
  std::ifstream in(file, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  fs::remove(file);
  return bytes;
}

TEST(NpyRows, EveryTypeOfNumber) {
  const struct {
    const char* type;
    std::string payload;
    LineVec values;
  } kCases[] = {
      {"<f8", Bytes<double>({1.5, -2, 1e300, 0}), {1.5, -2, 1e300, 0}},
      {"<f4", Bytes<float>({1.5f, -2, 0.1f, 0}), {1.5, -2, 0.1f, 0}},
      {"<f2", Bytes<std::uint16_t>({0x3c00, 0xc000, 0x0001, 0x7bff}), {1, -2, 0x1p-24, 65504}},
      {"|i1", Bytes<std::int8_t>({-128, 127, 0, 1}), {-128, 127, 0, 1}},
      {"|u1", Bytes<std::uint8_t>({255, 127, 0, 1}), {255, 127, 0, 1}},
      {"|b1", Bytes<std::uint8_t>({1, 0, 0, 1}), {1, 0, 0, 1}},
      {"<i2", Bytes<std::int16_t>({-32768, 1, 2, 3}), {-32768, 1, 2, 3}},
      {"<u2", Bytes<std::uint16_t>({65535, 1, 2, 3}), {65535, 1, 2, 3}},
      {"<i4", Bytes<std::int32_t>({-2147483647, 1, 2, 3}), {-2147483647, 1, 2, 3}},
      {"<u4", Bytes<std::uint32_t>({4294967295u, 1, 2, 3}), {4294967295.0, 1, 2, 3}},
      {"<i8", Bytes<std::int64_t>({-5, 1, 2, 1ll << 60}), {-5, 1, 2, 0x1p60}},
      {"<u8", Bytes<std::uint64_t>({5, 1, 2, 1ull << 63}), {5, 1, 2, 0x1p63}},
  };
  for (const auto& c : kCases)
    for (const int version : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} version {}", c.type, version));
      const auto set = ParseNpyRows(Npy(c.type, "(2, 2)", c.payload, false, version),
                                    Npy("|u1", "(2,)", Bytes<std::uint8_t>({3, 4})));
      ASSERT_TRUE(set.ok()) << set.error().message;
      EXPECT_EQ(set->value, c.values);
      EXPECT_EQ(set->label, (Vec{3, 4}));
      EXPECT_EQ(set->features, 2u);
    }
}

TEST(NpyRows, FortranOrderIsTheSameArray) {
  // a[i][j][k] = 100 i + 10 j + k of shape (2, 3, 2)
  LineVec c_order;
  Vec f_order;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 2; ++k) c_order.push_back(100 * i + 10 * j + k);
  for (int k = 0; k < 2; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) f_order.push_back(100 * i + 10 * j + k);
  const std::string y = Npy("<f8", "(2,)", Bytes<double>({1, -1}));
  const auto c = ParseNpyRows(Npy("<f8", "(2, 3, 2)", Bytes(c_order)), y);
  const auto f = ParseNpyRows(Npy("<f8", "(2, 3, 2)", Bytes(f_order), true), y);
  ASSERT_TRUE(c.ok() && f.ok());
  EXPECT_EQ(c->features, 6u);
  EXPECT_EQ(c->value, c_order);
  EXPECT_EQ(f->value, c_order);
}

TEST(NpyRows, WithoutAFileOfLabelsAColumnIsTheLabel) {
  const std::string x = Npy("<f8", "(2, 3)", Bytes<double>({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(ParseNpyRows(x, "")->label, (Vec{3, 6}));
  LoadOptions o;
  o.array.label = "0";
  EXPECT_EQ(ParseNpyRows(x, "", o)->label, (Vec{1, 4}));
  EXPECT_EQ(ParseNpyRows(x, "", o)->value, (LineVec{2, 3, 5, 6}));
  o.array.label = "3";
  EXPECT_FALSE(ParseNpyRows(x, "", o).ok());
}

TEST(NpyRows, NanIsMissingAndInfinityAnError) {
  const std::string y = Npy("<f8", "(1,)", Bytes<double>({1}));
  LoadOptions o;
  o.array.missing = 7;
  EXPECT_EQ(ParseNpyRows(Npy("<f8", "(1, 2)", Bytes<double>({NAN, 2})), y, o)->value, (LineVec{7, 2}));
  EXPECT_FALSE(ParseNpyRows(Npy("<f8", "(1, 2)", Bytes<double>({INFINITY, 2})), y, o).ok());
  EXPECT_FALSE(
      ParseNpyRows(Npy("<f8", "(1, 1)", Bytes<double>({2})), Npy("<f8", "(1,)", Bytes<double>({NAN})), o)
          .ok());
}

TEST(NpyRows, MalformedArraysAreRefused) {
  const std::string good = Npy("<f8", "(2, 2)", Bytes<double>({1, 2, 3, 4}));
  const std::string y = Npy("|u1", "(2,)", Bytes<std::uint8_t>({3, 4}));
  const struct {
    const char* why;
    std::string x, y;
    const char* message;
  } kCases[] = {
      {"empty", "", y, "is not a NumPy array"},
      {"version 4", Npy("<f8", "(2, 2)", "", false, 4), y, "is not a NumPy array"},
      {"big-endian", Npy(">f8", "(2, 2)", std::string(32, '\0')), y, "type \">f8\""},
      {"text", Npy("<U5", "(2,)", std::string(40, '\0')), y, "type \"<U5\""},
      {"objects", Npy("|O", "(2,)", std::string(40, '\0')), y, "type \"|O\""},
      {"cut", good.substr(0, good.size() - 1), y, "ends within row 1 of 2"},
      {"cut in Fortran order", Npy("<f8", "(2, 2)", std::string(31, '\0'), true), y, "ends within row"},
      {"too long", good + "x", y, "goes on after"},
      {"labels too few", good, Npy("|u1", "(1,)", "\1"), "belong together"},
      {"labels too wide", good, Npy("|u1", "(2, 2)", "\1\1\1\1"), "one is needed"},
      {"no rows", Npy("<f8", "(0, 2)", ""), Npy("<f8", "(0,)", ""), "has no rows"},
      {"a number", Npy("<f8", "()", std::string(8, '\0')), y, "single number"},
      {"a huge claim", Npy("<f8", "(100000000000, 2)", Bytes<double>({1, 2})),
       Npy("|u1", "(100000000000,)", "\1"), "ends within row 1"},
      {"a huge row", Npy("<u4", "(4, 644444444)", "\1"), Npy("|u1", "(4,)", "\1\1\1\1"),
       "ends within row 0 of 4"},
      {"a huge claim in Fortran order", Npy("<f8", "(100000000000, 2)", Bytes<double>({1, 2}), true), y,
       "ends within row"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const auto set = ParseNpyRows(c.x, c.y);
    ASSERT_FALSE(set.ok());
    EXPECT_NE(set.error().message.find(c.message), std::string::npos) << set.error().message;
  }
}

TEST(Npz, MembersByName) {
  for (const bool packed : {false, true}) {
    const std::string zip = Npz({{"features", Npy("<f4", "(3, 2)", Bytes<float>({1, 2, 3, 4, 5, 6})), packed},
                                 {"target", Npy("<i8", "(3,)", Bytes<std::int64_t>({0, 1, 2})), packed},
                                 {"who", Npy("<i4", "(3, 1)", Bytes<std::int32_t>({7, 9, 7})), packed},
                                 {"site", Npy("|u1", "(3,)", Bytes<std::uint8_t>({2, 2, 5})), packed}});
    LoadOptions o;
    o.array.features = "features";
    o.array.label = "target";
    o.array.person = "who";
    o.array.group = "site";
    const auto set = ParseNpz(zip, o);
    ASSERT_TRUE(set.ok()) << set.error().message;
    EXPECT_EQ(set->value, (LineVec{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(set->label, (Vec{0, 1, 2}));
    EXPECT_EQ(set->person, (std::vector<std::uint32_t>{0, 1, 0}));
    EXPECT_EQ(set->group, (std::vector<std::uint32_t>{0, 0, 1}));
    EXPECT_EQ(set->group_name, (std::vector<std::string>{"2", "5"}));
    o.rows = 1;
    o.skip = 1;
    EXPECT_EQ(ParseNpz(zip, o)->value, (LineVec{3, 4}));
    const auto missing = ParseNpz(zip);
    ASSERT_FALSE(missing.ok());
    EXPECT_NE(missing.error().message.find("data.array = 'x'"), std::string::npos) << missing.error().message;
  }
}

TEST(Npz, AnyCutOrFlipIsRefusedOrReadsAsManyRows) {
  const std::string zip = Npz({{"x", Npy("<f8", "(2, 2)", Bytes<double>({1, 2, 3, 4})), true},
                               {"y", Npy("<f8", "(2,)", Bytes<double>({1, 2})), false}});
  ASSERT_TRUE(ParseNpz(zip).ok());
  for (std::size_t n = 0; n < zip.size(); ++n) EXPECT_FALSE(ParseNpz(zip.substr(0, n)).ok()) << n;
  for (std::size_t n = 0; n < zip.size(); ++n) {
    std::string flipped = zip;
    flipped[n] = static_cast<char>(flipped[n] ^ 0x10);
    const auto set = ParseNpz(flipped);      // what the checksum does not cover may change, no more
    EXPECT_TRUE(!set.ok() || set->rows() == 2u) << n;
  }
}

TEST(Load, NumPyFilesAreKnownByTheirContentAndName) {
  const fs::path dir = fs::temp_directory_path() / fmt::format("tacit_arrays_{}", ::getpid());
  fs::create_directories(dir);
  const auto put = [&](const char* name, const std::string& bytes) {
    std::ofstream(dir / name, std::ios::binary) << bytes;
    return dir / name;
  };
  const std::string x = Npy("<f8", "(2, 2)", Bytes<double>({1, 2, 3, 4})),
                    y = Npy("<f8", "(2,)", Bytes<double>({5, 6}));
  LoadOptions o;
  o.file = put("x.npy", x);
  EXPECT_EQ(Load(o)->features, 1u);
  o.labels = put("y.npy", y);
  EXPECT_EQ(Load(o)->label, (Vec{5, 6}));
  LoadOptions z;
  z.file = put("both.npz", Npz({{"x", x}, {"y", y}}));
  EXPECT_EQ(Load(z)->value, (LineVec{1, 2, 3, 4}));
  z.file = put("broken.npz", "PK\3\4 nothing");
  EXPECT_FALSE(Load(z).ok());
  fs::remove_all(dir);
}

std::string Records(std::size_t n) {
  std::string bytes;
  for (std::size_t i = 0; i < n; ++i) {
    bytes += static_cast<char>(i % 10);
    for (std::size_t j = 0; j < 3072; ++j) bytes += static_cast<char>((i + j) % 256);
  }
  return bytes;
}

TEST(Cifar, RecordsOfOneLabelAndThreePlanes) {
  const auto set = ParseCifar(Records(3));
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->label, (Vec{0, 1, 2}));
  EXPECT_EQ(set->features, 3072u);
  EXPECT_EQ(set->value[2 * 3072 + 255], 1.0);          // unsigned: (2 + 255) mod 256
  EXPECT_EQ(set->value[2 * 3072 + 200], 202.0);
  const auto cut = ParseCifar(Records(3).substr(0, 2 * 3073 + 1));
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.error().message.find("within record 2"), std::string::npos);
  EXPECT_FALSE(ParseCifar("").ok());
}

TEST(Cifar, SeveralFilesAreOne) {
  const fs::path dir = fs::temp_directory_path() / fmt::format("tacit_cifar_{}", ::getpid());
  fs::create_directories(dir);
  LoadOptions o;
  o.format = Format::kCifar;
  o.file = dir / "data_batch_1.bin";
  o.more = {dir / "data_batch_2.bin"};
  const std::string all = Records(5);
  std::ofstream(o.file, std::ios::binary) << all.substr(0, 2 * 3073);
  std::ofstream(o.more[0], std::ios::binary) << all.substr(2 * 3073);
  EXPECT_EQ(Load(o)->label, (Vec{0, 1, 2, 3, 4}));
  o.skip = 1;
  o.rows = 3;
  EXPECT_EQ(Load(o)->label, (Vec{1, 2, 3}));
  fs::remove_all(dir);
}

TEST(Batches, AreTheWholeInPieces) {
  std::string csv, svm;
  for (int i = 0; i < 10; ++i) {
    csv += fmt::format("{},{},{}\n", i, -i, i % 2);
    svm += fmt::format("{} {}:{}\n", i % 2, i % 3 + 1, i + 1);
  }
  const std::string x = Npy("<f8", "(10, 1)", Bytes<double>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  const auto check = [&](const char* why, auto parse) {
    SCOPED_TRACE(why);
    LoadOptions o;
    o.features = std::string_view(why) == "libsvm" ? 3 : 0;
    o.skip = 1;
    o.rows = 8;
    const Dataset whole = *parse(o);
    LineVec value;
    Vec label;
    std::vector<std::size_t> sizes;
    o.batch = 3;
    o.sink = [&](Dataset&& d) -> Status {
      EXPECT_EQ(d.features, whole.features);
      EXPECT_EQ(d.sparse(), whole.sparse());
      value.insert(value.end(), d.value.begin(), d.value.end());
      label.insert(label.end(), d.label.begin(), d.label.end());
      sizes.push_back(d.rows());
      return Ok{};
    };
    const auto rest = parse(o);
    ASSERT_TRUE(rest.ok()) << rest.error().message;
    EXPECT_EQ(rest->rows(), 0u);
    EXPECT_EQ(sizes, (std::vector<std::size_t>{3, 3, 2}));
    EXPECT_EQ(value, whole.value);
    EXPECT_EQ(label, whole.label);
  };
  check("csv", [&](const LoadOptions& o) { return ParseCsv(csv, o); });
  check("libsvm", [&](const LoadOptions& o) { return ParseLibsvm(svm, o); });
  check("npy",
        [&](const LoadOptions& o) { return ParseNpyRows(x, Npy("<f8", "(10,)", std::string(80, '\0')), o); });
  check("cifar", [&](const LoadOptions& o) { return ParseCifar(Records(10), o); });
}

}  // namespace
}  // namespace tacit
