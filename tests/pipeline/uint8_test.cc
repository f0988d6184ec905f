// Values of 8 bits go wherever numbers go.
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/definition/pipeline_def.h"
#include "millrace/pipeline/pipeline.h"
#include "tests/support/operator_chain.h"
#include "tests/support/temporary_folder.h"

namespace millrace::uint8_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Scalars, vectors of unlike lengths and pictures.
Dataset pixels() {
  return Dataset::rows(
      {{"x", std::vector<uint8_t>{0, 7, 128, 255}},
       {"tokens", std::vector<std::vector<uint8_t>>{{1, 2}, {}, {200, 255, 3}, {4}}},
       {"image", std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 7, 8, 251, 252, 253, 254, 255, 0, 1, 2}, Shape{2, 2}}});
}

std::vector<std::string> elements_of(const Dataset& dataset) {
  std::vector<std::string> elements;
  Pipeline pipeline = dataset.start({.threads = 2});
  while (true) {
    try {
      const std::optional<Batch> batch = pipeline.next();
      if (!batch) return elements;
      elements.push_back(test::print_element(batch->block(), 0));
    } catch (const ErrorException& error) {
      elements.push_back("error: " + error.error().to_string());
    }
  }
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const ErrorException& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

const std::vector<std::string> kAll{"x=0 tokens=[1,2] image=[[1,2],[3,4]]", "x=7 tokens=[] image=[[5,6],[7,8]]",
                                    "x=128 tokens=[200,255,3] image=[[251,252],[253,254]]",
                                    "x=255 tokens=[4] image=[[255,0],[1,2]]"};

TEST(Uint8, RowsAreElementsOfTheirType) {
  EXPECT_EQ(pixels().schema().to_string(), "x uint8 [], tokens uint8 [?], image uint8 [2,2]");
  EXPECT_EQ(elements_of(pixels()), kAll);
}

TEST(Uint8, CastsKeepWhatFitsAndRefuseTheRest) {
  const Dataset wide = Dataset::rows({{"i", std::vector<int64_t>{0, 255, 256, -1}},
                                      {"n", std::vector<int32_t>{255, 0, 1, 2}},
                                      {"f", std::vector<float>{254.75F, -0.5F, 3, 4}}});
  EXPECT_THAT(elements_of(wide.cast("i", DType::kUint8).cast("n", DType::kUint8).cast("f", DType::kUint8)),
              ElementsAre("i=0 n=255 f=254", "i=255 n=0 f=0",
                          HasSubstr("out_of_range: cast: feature 'i' has the value 256, which uint8 cannot hold")));
  for (const float beyond : {256.0F, -1.0F}) {
    EXPECT_THAT(elements_of(Dataset::rows({{"f", std::vector<float>{255.5F, beyond}}}).cast("f", DType::kUint8)),
                ElementsAre("f=255", HasSubstr("which uint8 cannot hold")));
  }
  EXPECT_EQ(elements_of(pixels().cast("image", DType::kFloat32).cast("x", DType::kInt64).cast("tokens", DType::kInt32)),
            kAll);
}

TEST(Uint8, ArithmeticKeepsTheLowest8Bits) {
  EXPECT_THAT(elements_of(pixels().select({"x"}).add("x", 3)), ElementsAre("x=3", "x=10", "x=131", "x=2"));
  EXPECT_THAT(elements_of(pixels().select({"x"}).multiply("x", 2)), ElementsAre("x=0", "x=14", "x=0", "x=254"));
  EXPECT_THAT(elements_of(pixels().select({"x"}).modulo("x", 100)), ElementsAre("x=0", "x=7", "x=28", "x=55"));
  EXPECT_THAT(elements_of(pixels().select({"x"}).modulo("x", 255)), ElementsAre("x=0", "x=7", "x=128", "x=0"));
  EXPECT_THAT(refusal([] { (void)pixels().add("x", -1); }), HasSubstr("k = -1 does not fit feature 'x' of type uint8"));
  EXPECT_THAT(refusal([] { (void)pixels().add("x", 0.5); }), HasSubstr("feature 'x' is uint8; k must be an integer"));
}

TEST(Uint8, AreIndicesAndWhatIsMadeOfThem) {
  EXPECT_THAT(
      elements_of(
          pixels().select({"tokens"}).take(2).one_hot("tokens", 3, {.dtype = DType::kUint8, .on_value = int64_t{255}})),
      ElementsAre("tokens=[[0,255,0],[0,0,255]]", "tokens=[]"));
  EXPECT_THAT(refusal([] { (void)pixels().one_hot("x", 3, {.dtype = DType::kUint8, .on_value = int64_t{256}}); }),
              HasSubstr("on_value is 256, which uint8 cannot hold"));
}

TEST(Uint8, AreBatchedPaddedPackedAndCut) {
  EXPECT_THAT(elements_of(pixels().select({"image"}).batch(2)),
              ElementsAre("image=[[[1,2],[3,4]],[[5,6],[7,8]]]", "image=[[[251,252],[253,254]],[[255,0],[1,2]]]"));
  for (const bool shuffles : {false, true}) {
    Dataset tokens = pixels().select({"tokens"});
    if (shuffles) tokens = tokens.shuffle(1);
    EXPECT_THAT(elements_of(tokens.padded_batch(2, {.value = int64_t{255}})),
                ElementsAre("tokens=[[1,2],[255,255]]", "tokens=[[200,255,3],[4,255,255]]"));
  }
  EXPECT_THAT(refusal([] { (void)pixels().padded_batch(2, {.value = int64_t{256}}); }),
              HasSubstr("value 256 does not fit feature 'x' of type uint8"));
  EXPECT_THAT(elements_of(pixels()
                              .select({"tokens"})
                              .pack(4, {.features = {"tokens"}, .values = {{"tokens", int64_t{9}}}})
                              .select({"tokens"})),
              ElementsAre("tokens=[1,2,4,9]", "tokens=[200,255,3,9]"));
  EXPECT_THAT(elements_of(pixels()
                              .select({"tokens"})
                              .skip(2)
                              .truncate({.features = {"tokens"}, .head = 1, .marker = {{"tokens", int64_t{77}}}})),
              ElementsAre("tokens=[200,77]", "tokens=[4]"));
}

TEST(Uint8, AreKeptInMemoryAndOnDisk) {
  EXPECT_EQ(elements_of(pixels().cache().repeat(2).skip(4)), kAll);
  const std::vector<std::string> images{"image=[[1,2],[3,4]]", "image=[[5,6],[7,8]]", "image=[[251,252],[253,254]]",
                                        "image=[[255,0],[1,2]]"};
  EXPECT_EQ(elements_of(pixels().select({"image"}).cache().repeat(2).skip(4)), images) << "packed rows";
  const test::TemporaryFolder folder;
  pixels().save(folder.path("saved"));
  EXPECT_EQ(Dataset::load(folder.path("saved")).schema().to_string(), pixels().schema().to_string());
  EXPECT_EQ(elements_of(Dataset::load(folder.path("saved"))), kAll);
  for (int run = 0; run < 2; ++run) EXPECT_EQ(elements_of(pixels().cache({.directory = folder.path("cache")})), kAll);
}

TEST(Uint8, AreWrittenInDefinitions) {
  const Dataset dataset = pixels().cast("x", DType::kInt32).cast("x", DType::kUint8).padded_batch(3);
  const std::string text = PipelineDef::of(dataset).to_text();
  EXPECT_THAT(text, HasSubstr("UINT8"));
  EXPECT_EQ(elements_of(PipelineDef::from_text(text).dataset()), elements_of(dataset));
}

TEST(Uint8, AreReadFromCsvButFromNoListOfAnExample) {
  for (const char* beyond : {"256,1", "-1,1"}) {
    const Dataset numbers = Dataset::rows({{"record", std::vector<std::string>{"255,", beyond}}});
    EXPECT_THAT(elements_of(numbers.parse_csv({{"a", DType::kUint8}, {"b", DType::kUint8, int64_t{9}}})),
                ElementsAre("a=255 b=9", HasSubstr("is no uint8")));
  }
  const Dataset lines = Dataset::rows({{"record", std::vector<std::string>{"1"}}});
  EXPECT_THAT(refusal([&] { (void)lines.parse_csv({{"a", DType::kUint8, int64_t{256}}}); }), HasSubstr("is no uint8"));
  EXPECT_THAT(refusal([&] { (void)lines.parse_example({fixed_len("a", {}, DType::kUint8)}); }),
              HasSubstr("records store int64, float32 or bytes"));
  EXPECT_THAT(refusal([&] { (void)lines.parse_example({fixed_len("a", {}, DType::kInt64).as(DType::kUint8)}); }),
              HasSubstr("uint8"));
}

}  // namespace
}  // namespace millrace::uint8_test
