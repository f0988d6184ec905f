#include "millrace/trainer/step/distributor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::distributor_test {
namespace {

std::vector<int64_t> sizes(int64_t rows, int replicas) {
  std::vector<int32_t> values(static_cast<size_t>(rows) * 2);
  const BatchView batch({{"x", std::span<const int32_t>(values), {rows, 2}}});
  std::vector<int64_t> result;
  const int32_t* next = values.data();
  for (const BatchView& view : Distributor(replicas).split(batch)) {
    EXPECT_EQ(view.feature("x").values<int32_t>().data(), next);  // in order, no copy
    EXPECT_EQ(view.first_row(), (next - values.data()) / 2);
    next += view.rows() * 2;
    result.push_back(view.rows());
  }
  return result;
}

TEST(Distributor, SplitsIntoContiguousViewsThatDifferByAtMostOneRow) {
  EXPECT_THAT(sizes(64, 8), testing::ElementsAre(8, 8, 8, 8, 8, 8, 8, 8));
  EXPECT_THAT(sizes(63, 8), testing::ElementsAre(8, 8, 8, 8, 8, 8, 8, 7));
  EXPECT_THAT(sizes(9, 8), testing::ElementsAre(2, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(sizes(7, 8), testing::ElementsAre(1, 1, 1, 1, 1, 1, 1, 0));
  EXPECT_THAT(sizes(1, 8), testing::ElementsAre(1, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(sizes(5, 3), testing::ElementsAre(2, 2, 1));
  EXPECT_THAT(sizes(5, 1), testing::ElementsAre(5));
  EXPECT_THROW(Distributor(0), ErrorException);
}

}  // namespace
}  // namespace millrace::distributor_test
