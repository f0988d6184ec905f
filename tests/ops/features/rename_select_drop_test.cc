#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/ops/batch/batch.h"
#include "millrace/ops/features/drop.h"
#include "millrace/ops/features/rename.h"
#include "millrace/ops/features/select.h"
#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace::rename_select_drop_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Names = std::vector<std::string>;
using Renames = std::map<std::string, std::string>;

Chain three_features() {
  return Chain::source<RowsOperator>(
      std::vector<MemoryFeature>{{"x", std::vector<int64_t>{1, 2}},
                                 {"name", std::vector<std::string>{"a", "b"}},
                                 {"tokens", std::vector<std::vector<int64_t>>{{7}, {}}}});
}

template <typename Op, typename Argument>
std::string refusal(const Argument& argument) {
  try {
    (void)three_features().then<Op>(argument);
  } catch (const ErrorException& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

TEST(RenameTest, FeaturesKeepTheirPlacesUnderOtherNames) {
  const Chain renamed = three_features().then<RenameOperator>(Renames{{"x", "y"}, {"tokens", "input_ids"}});
  EXPECT_THAT(renamed.elements(), ElementsAre("y=1 name=a input_ids=[7]", "y=2 name=b input_ids=[]"));
}

TEST(RenameTest, TwoFeaturesCanExchangeTheirNames) {
  EXPECT_THAT(three_features().then<RenameOperator>(Renames{{"x", "name"}, {"name", "x"}}).elements(),
              ElementsAre("name=1 x=a tokens=[7]", "name=2 x=b tokens=[]"));
}

TEST(RenameTest, UnknownFeaturesAndNamesThatAreTakenAreRefused) {
  EXPECT_THAT(refusal<RenameOperator>(Renames{{"z", "y"}}), HasSubstr("'z'"));
  EXPECT_THAT(refusal<RenameOperator>(Renames{{"x", "name"}}), HasSubstr("'name'"));
  EXPECT_THAT(refusal<RenameOperator>(Renames{{"x", "y"}, {"name", "y"}}), HasSubstr("'y'"));
  EXPECT_NE(refusal<RenameOperator>(Renames{{"x", ""}}), "accepted");
}

TEST(SelectTest, TheNamedFeaturesComeInTheOrderOfTheirNames) {
  EXPECT_THAT(three_features().then<SelectOperator>(Names{"tokens", "x"}).elements(),
              ElementsAre("tokens=[7] x=1", "tokens=[] x=2"));
}

TEST(SelectTest, UnknownRepeatedAndNoFeaturesAreRefused) {
  EXPECT_THAT(refusal<SelectOperator>(Names{"x", "z"}), HasSubstr("'z'"));
  EXPECT_THAT(refusal<SelectOperator>(Names{"x", "x"}), HasSubstr("'x'"));
  EXPECT_THAT(refusal<SelectOperator>(Names{}), HasSubstr("select: name at least one feature"));
}

TEST(DropTest, TheOthersKeepTheirOrder) {
  EXPECT_THAT(three_features().then<DropOperator>(Names{"name"}).elements(),
              ElementsAre("x=1 tokens=[7]", "x=2 tokens=[]"));
  EXPECT_THAT(three_features().then<DropOperator>(Names{"tokens", "x"}).elements(), ElementsAre("name=a", "name=b"));
}

TEST(DropTest, UnknownFeaturesAndDroppingAllAreRefused) {
  EXPECT_THAT(refusal<DropOperator>(Names{"z"}), HasSubstr("'z'"));
  EXPECT_THAT(refusal<DropOperator>(Names{"x", "name", "tokens"}), HasSubstr("drop: no feature remains"));
}

TEST(SelectTest, ValuesAreNotCopiedAndThoseLeftOutAreReleased) {
  BufferPool pool;
  const auto schema =
      std::make_shared<const Schema>(std::vector<FeatureSpec>{{"x", DType::kInt64, {4}}, {"y", DType::kInt64, {4}}});
  const Block block(schema, {Column::fixed(pool, DType::kInt64, {4}, 3), Column::fixed(pool, DType::kInt64, {4}, 3)},
                    3);
  const std::byte* y = block.column("y").data(0);
  const Block selected = SelectOperator(schema, {"y"}).apply(block, pool);
  const Block dropped = DropOperator(schema, {"x"}).apply(block, pool);
  const Block renamed = RenameOperator(schema, {{"y", "z"}}).apply(block, pool);
  EXPECT_EQ(selected.column("y").data(0), y);
  EXPECT_EQ(dropped.column("y").data(0), y);
  EXPECT_EQ(renamed.column("z").data(0), y);
  EXPECT_EQ(selected.byte_size(), block.byte_size() / 2);
  EXPECT_EQ(dropped.byte_size(), block.byte_size() / 2);
}

TEST(SelectTest, ErrorsEmptyInputsBatchesAndEpochsPass) {
  const Chain faulty = Chain::source<FaultyRange>(3, std::vector<int64_t>{1})
                           .then<RenameOperator>(Renames{{"x", "y"}})
                           .then<SelectOperator>(Names{"y"})
                           .then<RepeatOperator>(2)
                           .then<DropOperator>(Names{});
  EXPECT_THAT(faulty.elements(), ElementsAre("y=0", "error: parse: at 1", "y=2", "y=0", "error: parse: at 1", "y=2"));
  EXPECT_THAT(faulty.run().epochs, ElementsAre(0, 0, 0, 1, 1, 1));
  const Chain batches = Chain::source<RangeOperator>(0, 3, 1, "x")
                            .then<BatchOperator>(2, BatchOptions{})
                            .then<RenameOperator>(Renames{{"x", "y"}});
  EXPECT_THAT(batches.elements(), ElementsAre("y=[0,1]", "y=[2]"));
  EXPECT_THAT(batches.run().rows, ElementsAre(2, 1));
  EXPECT_THAT(Chain::source<RangeOperator>(0, 0, 1, "x").then<SelectOperator>(Names{"x"}).elements(), IsEmpty());
  EXPECT_EQ(faulty.cardinality(), Cardinality::known(6));
}

}  // namespace
}  // namespace millrace::rename_select_drop_test
