#include "examples/mlm/shard_statistics.h"

#include <cmath>
#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/examples/mlm/preparation_text.h"

namespace millrace::shard_statistics_test {
namespace {

using ::testing::HasSubstr;
using Counts = std::vector<int64_t>;

TEST(UnigramCrossEntropy, IsTheEntropyWhenBothTextsAreAlike) {
  EXPECT_DOUBLE_EQ(unigram_cross_entropy(Counts{5, 5, 5, 5}, Counts{1, 1, 1, 1}).value(), std::log(4.0));
  EXPECT_DOUBLE_EQ(unigram_cross_entropy(Counts{8, 4, 4}, Counts{2, 1, 1}).value(), 1.5 * std::log(2.0));
}

TEST(UnigramCrossEntropy, TokenThatIsNotInTheFirstTextCountsAsIfItWereThereOnce) {
  EXPECT_DOUBLE_EQ(unigram_cross_entropy(Counts{3, 0}, Counts{0, 7}).value(), std::log(4.0));
  EXPECT_DOUBLE_EQ(unigram_cross_entropy(Counts{0, 0}, Counts{3, 7}).value(), std::log(2.0));
}

TEST(UnigramCrossEntropy, EmptySecondTextHasNone) {
  EXPECT_EQ(unigram_cross_entropy(Counts{3, 1}, Counts{0, 0}), std::nullopt);
}

TEST(ShardStatistics, MissingFileIsNoneAndADamagedOneIsAnErrorThatNamesIt) {
  const test::TemporaryFolder folder;
  const auto error_of = [&] {
    try {
      (void)find_shard_statistics(folder.path());
      return Error{};
    } catch (const ErrorException& e) {
      return e.error();
    }
  };
  EXPECT_EQ(find_shard_statistics(folder.path()), std::nullopt);
  for (const char* text : {"{", "[]", "{\"vocabulary_size\": \"many\"}"}) {
    std::ofstream(folder.path("statistics.json")) << text;
    EXPECT_EQ(error_of().code, ErrorCode::kParse) << text;
    EXPECT_THAT(error_of().to_string(), HasSubstr(folder.path("statistics.json")));
  }
}

}  // namespace
}  // namespace millrace::shard_statistics_test
