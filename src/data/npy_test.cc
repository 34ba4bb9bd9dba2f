#include "data/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>

namespace tacit {
namespace {

std::filesystem::path Place(const char* name) {
  return std::filesystem::temp_directory_path() / fmt::format("tacit_npy_{}_{}", ::getpid(), name);
}

// A file as NumPy writes it, with this header text and payload.
std::string File(std::string header, const std::string& payload) {
  std::string s("\x93NUMPY\x01\x00", 8);
  s += static_cast<char>(header.size() & 0xff);
  s += static_cast<char>(header.size() >> 8);
  return s + header + payload;
}

TEST(Npy, WhatIsWrittenIsReadBack) {
  const struct {
    const char* why;
    std::vector<std::size_t> shape;
    Vec values;
  } kCases[] = {
      {"vector", {3}, {1.5, -0.0, 1e-300}},
      {"matrix", {2, 3}, {1, 2, 3, 4, 5, 6}},
      {"empty", {0}, {}},
      {"empty with a side", {4, 0}, {}},
      {"scalar", {}, {7}},
      {"not finite", {2}, {INFINITY, -INFINITY}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const auto file = Place("round_trip");
    ASSERT_TRUE(WriteNpy(file, c.shape, c.values).ok());
    const auto back = ReadNpy(file);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->shape, c.shape);
    EXPECT_EQ(back->values, c.values);
    EXPECT_FALSE(std::filesystem::exists(file.string() + ".part"));
    std::filesystem::remove(file);
  }
}

TEST(Npy, ThePayloadIsAlignedAsNumPyDoes) {
  const auto file = Place("aligned");
  ASSERT_TRUE(WriteNpy(file, {1}, Vec{1.0}).ok());
  EXPECT_EQ(std::filesystem::file_size(file) % 64, 8u);
  std::filesystem::remove(file);
}

TEST(Npy, NumPysOwnHeaderIsRead) {
  const std::string payload(16, '\0');
  const char* kHeaders[] = {
      "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }      \n",
      "{\"shape\": (2, 1), 'fortran_order': False, 'descr': '<f8'}\n",
      "{'descr': '<f8', 'fortran_order': True, 'shape': (2,), }\n",       // one side: both orders agree
  };
  for (const char* header : kHeaders) {
    const auto array = ParseNpy(File(header, payload), "x");
    ASSERT_TRUE(array.ok()) << array.error().message;
    EXPECT_EQ(array->values, Vec(2));
  }
}

TEST(Npy, MalformedFilesAreRefused) {
  const std::string good = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", sixteen(16, '\0');
  const struct {
    const char* why;
    std::string bytes;
    const char* message;
  } kCases[] = {
      {"empty", "", "does not start like one"},
      {"another file", "PK\x03\x04 something else", "does not start like one"},
      {"version 2", std::string("\x93NUMPY\x02\x00\x00\x00", 10), "does not start like one"},
      {"cut in the header", File(good, "").substr(0, 30), "ends within its header"},
      {"cut in the payload", File(good, sixteen.substr(1)), "not what its shape says"},
      {"too long", File(good, sixteen + "x"), "not what its shape says"},
      {"floats", File("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", sixteen),
       "type \"<f4\""},
      {"big-endian", File("{'descr': '>f8', 'fortran_order': False, 'shape': (2,), }\n", sixteen), "type"},
      {"Fortran order", File("{'descr': '<f8', 'fortran_order': True, 'shape': (1, 2), }\n", sixteen),
       "Fortran"},
      {"no shape", File("{'descr': '<f8', 'fortran_order': False}\n", sixteen), "cannot be read"},
      {"a key twice",
       File("{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (2,)}\n", sixteen),
       "cannot be read"},
      {"negative side", File("{'descr': '<f8', 'fortran_order': False, 'shape': (-2,), }\n", sixteen),
       "cannot be read"},
      {"a side beyond all memory",
       File("{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999999999999,), }\n", sixteen),
       "cannot be read"},
      {"sides that overflow together",
       File("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296), }\n",
            sixteen),
       "not what its shape says"},
      {"an object, not an array",
       File("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,)}\n", sixteen), "cannot be read"},
      {"something after the dict", File(good + "x", sixteen), "cannot be read"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const auto array = ParseNpy(c.bytes, "model.npy");
    ASSERT_FALSE(array.ok());
    EXPECT_EQ(array.error().code, Code::kMalformed);
    EXPECT_NE(array.error().message.find(c.message), std::string::npos) << array.error().message;
    EXPECT_EQ(array.error().message.find("model.npy"), 0u);
  }
}

TEST(Npy, AnyCutOfAGoodFileIsRefused) {
  const std::string whole =
      File("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", std::string(16, '\1'));
  ASSERT_TRUE(ParseNpy(whole, "x").ok());
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(ParseNpy(whole.substr(0, n), "x").ok()) << n;
}

TEST(Npy, AMissingFileSaysSo) {
  const auto array = ReadNpy("/nonexistent/model.npy");
  ASSERT_FALSE(array.ok());
  EXPECT_EQ(array.error().code, Code::kNotFound);
}

TEST(Npy, AFolderThatCannotBeWrittenSaysSo) {
  EXPECT_EQ(WriteNpy("/nonexistent/model.npy", {1}, Vec{1.0}).error().code, Code::kIo);
}

}  // namespace
}  // namespace tacit
