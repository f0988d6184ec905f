#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/plan/plan.h"
#include "tests/support/temporary_folder.h"

namespace millrace::certain_cardinality_test {
namespace {

// Endless inputs that six choices end.
Dataset six_chosen() {
  return Dataset::choose_from_datasets({Dataset::range(0, 3).repeat(), Dataset::range(10, 13).repeat()},
                                       Dataset::range(0, 2).repeat(3));
}

std::vector<int64_t> values(const Dataset& dataset) {
  std::vector<int64_t> all;
  Pipeline pipeline = dataset.start();
  while (const auto element = pipeline.next()) all.push_back(element->values<int64_t>("value")[0]);
  return all;
}

std::string certain(const Dataset& dataset) { return certain_cardinality(*dataset.plan()).to_string(); }

TEST(CertainCardinality, IsInfiniteOnlyWhereNothingEndsIt) {
  const Dataset finite = Dataset::range(0, 3);
  const Dataset endless = finite.repeat();
  EXPECT_EQ(six_chosen().cardinality().to_string(), "infinite");
  EXPECT_EQ(certain(six_chosen()), "unknown");
  EXPECT_EQ(certain(six_chosen().repeat()), "infinite");
  EXPECT_EQ(six_chosen().take(10).cardinality().to_string(), "10");
  EXPECT_EQ(certain(six_chosen().take(10)), "unknown");
  EXPECT_EQ(certain(Dataset::choose_from_datasets({endless, endless}, Dataset::range(0, 2).repeat())), "infinite");
  EXPECT_EQ(certain(Dataset::choose_from_datasets({endless, finite}, Dataset::range(0, 2).repeat())), "unknown");
  EXPECT_EQ(certain(Dataset::sample_from_datasets({endless, finite}, {})), "infinite");
  EXPECT_EQ(certain(Dataset::sample_from_datasets({endless, finite}, {.stop_on_empty = true})), "unknown");
  EXPECT_EQ(certain(Dataset::sample_from_datasets({endless, endless}, {.stop_on_empty = true})), "infinite");
  EXPECT_EQ(certain(Dataset::sample_from_datasets({endless, finite}, {.weights = {0, 1}, .stop_on_empty = true})), "3");
  EXPECT_EQ(certain(Dataset::sample_from_datasets({endless, finite}, {.weights = {1, 0}, .stop_on_empty = true})),
            "infinite");
  EXPECT_EQ(certain(finite.batch(2)), "2");
}

TEST(CertainCardinality, WhatEndsIsSavedKeptAndChecked) {
  const test::TemporaryFolder folder;
  const std::vector<int64_t> six{0, 10, 1, 11, 2, 12};
  EXPECT_EQ(six_chosen().save(folder.path("saved")).elements, 6);
  EXPECT_EQ(six_chosen().check({.elements = 0}).elements, 6);
  // More are promised than there are, and what was kept is used nevertheless.
  static std::atomic<int> num_calls;
  const Dataset counted = six_chosen().take(10).map(
      RowFunction{.name = "counted", .writes = {}, .function = [](const RowView&, RowWriter&) { ++num_calls; }});
  for (const Dataset& kept :
       {counted.snapshot(folder.path("snapshot")), counted.cache({.directory = folder.path("cache")})}) {
    num_calls = 0;
    EXPECT_EQ(values(kept), six);
    EXPECT_EQ(values(kept), six);
    EXPECT_EQ(num_calls, 6);
  }
  EXPECT_THROW((void)six_chosen().repeat().save(folder.path("endless")), ErrorException);
  EXPECT_THROW((void)six_chosen().repeat().check({.elements = 0}), ErrorException);
  EXPECT_THROW((void)six_chosen().repeat().snapshot(folder.path("endless")), ErrorException);
}

}  // namespace
}  // namespace millrace::certain_cardinality_test
