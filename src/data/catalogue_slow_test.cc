// The large known sets, whole: counts per class and checksums of every file.
#include <gtest/gtest.h>

#include <algorithm>

#include "data/catalogue.h"

namespace tacit {
namespace {

TEST(RealData, LargeSetsWhole) {
  bool any = false;
  for (const KnownSet& set : Catalogue())
    for (const Part part : {Part::kTrain, Part::kTest}) {
      SCOPED_TRACE(set.name);
      const auto options = LoadOptionsFor(set, part);
      if (!options.ok()) {
        std::printf("skipped: %s\n", options.error().message.c_str());
        continue;
      }
      any = true;
      for (const KnownFile& f : part == Part::kTrain ? set.train : set.test)
        EXPECT_EQ(HashContent(*FindData(f.path), f.bytes)->sha256, f.sha256);
      Dataset data = *Load(*options);
      EXPECT_EQ(data.rows(), part == Part::kTrain ? set.rows : set.test_rows);
      PreprocessOptions o = PreprocessOptionsFor(set);
      o.row_norm = RowNorm::kUnit;
      ASSERT_TRUE(Preprocess(o, data).ok());
      EXPECT_LE(*std::max_element(data.norm.begin(), data.norm.end()), 1.0);
      const auto count = [&](double y) { return std::count(data.label.begin(), data.label.end(), y); };
      const std::pair<const char*, int> kPositive[] = {{"ijcnn1", 4853}, {"w8a", 1479}, {"phishing", 6157}};
      for (const auto& [name, positive] : kPositive)
        EXPECT_TRUE(part == Part::kTest || set.name != name || count(1.0) == positive);
      EXPECT_TRUE(set.name != "cifar10" || part == Part::kTrain || count(0.0) == 1000);
      if (set.name == "mnist" && part == Part::kTrain) {
        EXPECT_EQ(count(0.0), 5923);
        EXPECT_EQ(count(9.0), 5949);
      }
    }
  if (!any) {
    std::printf("TACIT_SKIPPED: no known data set is under TACIT_DATA\n");
    GTEST_SKIP();
  }
}

}  // namespace
}  // namespace tacit
