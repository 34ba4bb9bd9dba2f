#include "data/row_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "data/partition.h"
#include "data/preprocess.h"
#include "data/synthetic.h"

namespace tacit {
namespace {

Dataset Kept(const Dataset& d, std::size_t batch) {
  auto writer = RowWriter::Open(testing::TempDir());
  EXPECT_TRUE(writer.ok());
  for (std::size_t at = 0; at < d.rows(); at += batch) {
    std::vector<std::size_t> rows;
    for (std::size_t i = at; i < std::min(d.rows(), at + batch); ++i) rows.push_back(i);
    EXPECT_TRUE(writer->Append(Select(d, rows)).ok());
  }
  auto kept = writer->Finish();
  EXPECT_TRUE(kept.ok());
  return *std::move(kept);
}

void ExpectSame(const Dataset& a, const Dataset& b) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.features, b.features);
  EXPECT_EQ(a.label, b.label);
  EXPECT_EQ(a.norm, b.norm);
  EXPECT_EQ(a.group, b.group);
  EXPECT_EQ(a.person, b.person);
  EXPECT_EQ(a.group_name, b.group_name);
  EXPECT_EQ(a.row_bound, b.row_bound);
  for (std::size_t i = 0; i < a.rows(); ++i) {
    Vec x(a.features), y(b.features);
    for (const auto& [d, out] : {std::pair(&a, &x), std::pair(&b, &y)}) {
      const Row r = d->row(i);
      for (std::size_t k = 0; k < r.size; ++k) (*out)[r.index != nullptr ? r.index[k] : k] = r.value[k];
    }
    EXPECT_EQ(x, y) << i;
  }
}

Dataset Example(double density) {
  Dataset d = *MakeSynthetic({.rows = 500, .features = 37, .density = density, .clients = 5});
  PreprocessOptions o;
  o.row_norm = RowNorm::kClip;
  EXPECT_TRUE(Preprocess(o, d).ok());
  for (std::uint32_t i = 0; i < d.rows(); ++i) d.person.push_back(i / 3);
  return d;
}

TEST(RowStore, WhatWasAppendedIsThereAlsoAfterItWasDropped) {
  for (const double density : {1.0, 0.2}) {
    const Dataset d = Example(density), kept = Kept(d, 64);
    EXPECT_FALSE(kept.sparse());
    EXPECT_TRUE(kept.value.empty());
    ExpectSame(d, kept);
    const Shard all(kept, 0, kept.rows());
    all.Done(0, kept.rows());
    all.Done(7, 1);
    all.Done(kept.rows() - 1, 1);
    const std::vector<std::uint32_t> pick = {3, 499, 3};
    all.Pick(pick).Done(0, 3);
    ExpectSame(d, kept);
  }
}

TEST(RowStore, EverySplitIsThatOfRowsInMemory) {
  Dataset d = Example(1.0);
  for (const PersonBound bound : {PersonBound::kNone, PersonBound::kSum})
    for (const Split split : {Split::kBlocks, Split::kIid, Split::kByLabel, Split::kDirichlet}) {
      d.person_bound = bound;
      const PartitionOptions o{.split = split, .clients = 7};
      const auto memory = MakePartition(o, d), disk = MakePartition(o, Kept(d, 100));
      ASSERT_TRUE(memory.ok() && disk.ok());
      EXPECT_EQ(memory->begin, disk->begin);
      ASSERT_TRUE(disk->data.mapped != nullptr);
      ExpectSame(memory->data, disk->data);
    }
}

TEST(RowStore, ThreadsMayReadWhatOthersDrop) {
  const Dataset d = Example(1.0), kept = Kept(d, 500);
  const Shard all(kept, 0, kept.rows());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        for (std::size_t i = 0; i < kept.rows(); i += 11) wrong += *all.row(i).value != *d.row(i).value;
        all.Done(0, kept.rows());
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(RowStore, AFolderThatCannotBeWrittenSaysSo) {
  const auto writer = RowWriter::Open("/nonexistent");
  ASSERT_FALSE(writer.ok());
  EXPECT_NE(writer.error().message.find("data.scratch"), std::string::npos);
}

TEST(RowStore, LeavesNoFileBehind) {
  const std::filesystem::path dir =
      std::filesystem::path(testing::TempDir()) / fmt::format("tacit-store-{}", ::getpid());
  std::filesystem::create_directories(dir);
  {
    auto writer = RowWriter::Open(dir);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->Append(Example(1.0)).ok());
    const auto kept = writer->Finish();
    ASSERT_TRUE(kept.ok());
    EXPECT_TRUE(std::filesystem::is_empty(dir));      // not even while it is in use
  }
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace tacit
