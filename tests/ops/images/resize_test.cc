#include "millrace/ops/images/resize.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/images/resize_kernel.h"
#include "millrace/ops/sources/range.h"
#include "tests/ops/file_source_cases.h"
#include "tests/support/image_blocks.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/operator_chain.h"

namespace millrace::resize_test {
namespace {

using test::Chain;
using test::counted_image;
using test::FaultyRange;
using test::image_block;
using test::TestImage;
using test::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kAny = kVaries;

ResizeMethod method_of(const std::string& name) {
  if (name == "nearest") return ResizeMethod::kNearest;
  if (name == "bilinear") return ResizeMethod::kBilinear;
  return name == "bicubic" ? ResizeMethod::kBicubic : ResizeMethod::kArea;
}

DType dtype_of(const std::string& name) {
  return name == "uint8" ? DType::kUint8 : name == "int32" ? DType::kInt32 : DType::kFloat32;
}

// tests/data/operators/resize.jsonl: sizes up, down, odd and not square, all dtypes and methods, images and batches.
TEST(Resize, GivesWhatTensorFlowGives) {
  BufferPool pool;
  size_t cases = 0;
  double worst = 0;
  for (const nlohmann::json& one : test::operator_cases("resize.jsonl")) {
    const Shape shape = one.at("shape").get<Shape>();
    SCOPED_TRACE(one.at("method").dump() + one.at("antialias").dump() + one.at("shape").dump() + one.at("size").dump() +
                 one.at("dtype").dump());
    const ResizeOptions options{.height = one.at("size")[0],
                                .width = one.at("size")[1],
                                .method = method_of(one.at("method")),
                                .antialias = one.at("antialias")};
    const TestImage image{shape, one.at("image")};
    // Declared as it is, and as one of any size.
    for (const Shape& declared : {shape, Shape(shape.size(), kAny)}) {
      const Block block = image_block(pool, dtype_of(one.at("dtype")), declared, {image});
      const Block resized = ResizeOperator(block.schema(), options).apply(block, pool);
      ASSERT_TRUE(resized.errors().empty()) << resized.errors()[0].error->message;
      ASSERT_EQ(resized.column(0).dtype(), dtype_of(one.at("gives")));
      Shape expected_shape = shape;
      expected_shape[shape.size() - 3] = *options.height;
      expected_shape[shape.size() - 2] = *options.width;
      ASSERT_EQ(resized.column(0).shape(0), expected_shape);
      const std::vector<double> values = values_of(resized, 0);
      const std::vector<double> expected = one.at("values");
      ASSERT_EQ(values.size(), expected.size());
      double most = 0;
      for (const double value : image.values) most = std::max(most, std::abs(value));
      for (size_t i = 0; i < values.size(); ++i) {
        if (options.method == ResizeMethod::kNearest) {
          const bool is_whole = one.at("gives") != "float32";
          ASSERT_EQ(values[i], is_whole ? expected[i] : static_cast<double>(static_cast<float>(expected[i]))) << i;
        } else {
          ASSERT_NEAR(values[i], expected[i], 1e-6 * most) << i;
          worst = std::max(worst, std::abs(values[i] - expected[i]) / most);
        }
      }
    }
    ++cases;
  }
  EXPECT_EQ(cases, 132U);
  RecordProperty("worst", std::to_string(worst));
}

// The cases of TensorFlow, rounded here.
TEST(Resize, KeepsTheDtypeRoundedAndCutWhereThatIsAskedFor) {
  BufferPool pool;
  size_t cut = 0;
  for (const nlohmann::json& one : test::operator_cases("resize.jsonl")) {
    SCOPED_TRACE(one.at("method").dump() + one.at("shape").dump() + one.at("size").dump() + one.at("dtype").dump());
    ResizeOptions options{.height = one.at("size")[0],
                          .width = one.at("size")[1],
                          .method = method_of(one.at("method")),
                          .antialias = one.at("antialias")};
    const TestImage image{one.at("shape").get<Shape>(), one.at("image")};
    const DType dtype = dtype_of(one.at("dtype"));
    const Block block = image_block(pool, dtype, image.shape, {image});
    std::vector<double> expected = values_of(ResizeOperator(block.schema(), options).apply(block, pool), 0);
    options.keep_dtype = true;
    const ResizeOperator keeps(block.schema(), options);
    EXPECT_EQ((*keeps.schema())[0].dtype, dtype);
    for (double& value : expected) {
      if (dtype == DType::kFloat32) continue;
      value = std::nearbyint(value);
      if (dtype != DType::kUint8) continue;
      cut += value < 0 || value > 255 ? 1 : 0;
      value = std::clamp(value, 0.0, 255.0);
    }
    EXPECT_EQ(values_of(keeps.apply(block, pool), 0), expected);
  }
  EXPECT_GT(cut, 0U);
  const auto kept = [&](DType dtype, const TestImage& image, const ResizeOptions& options) {
    const Block block = image_block(pool, dtype, image.shape, {image});
    return values_of(ResizeOperator(block.schema(), options).apply(block, pool), 0);
  };
  // Halves become even; so 1.5, 2.5, 3.5.
  EXPECT_THAT(kept(DType::kUint8, {{1, 6, 1}, {1, 2, 2, 3, 3, 4}}, {.height = 1, .width = 3, .keep_dtype = true}),
              ElementsAre(2, 2, 4));
  EXPECT_THAT(kept(DType::kInt32, {{1, 6, 1}, {-1, -2, -2, -3, 0, 1}}, {.height = 1, .width = 3, .keep_dtype = true}),
              ElementsAre(-2, -2, 0));
  // A float cannot hold the largest int32; above it the next one is 2^31.
  const double most = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(kept(DType::kInt32, {{1, 2, 1}, {most, most}}, {.height = 1, .width = 1, .keep_dtype = true}),
              ElementsAre(most));
  // Of a batch each image by itself.
  EXPECT_THAT(kept(DType::kUint8, {{2, 1, 2, 1}, {1, 4, 9, 8}}, {.height = 1, .width = 1, .keep_dtype = true}),
              ElementsAre(2, 8));
}

// Weighted sums in double by the axes.
std::vector<double> slowly_resized(const TestImage& image, const ResizeOptions& options) {
  BufferPool pool;
  const ResizeAxis rows(pool, options.method, options.antialias, image.shape[0], *options.height);
  const ResizeAxis columns(pool, options.method, options.antialias, image.shape[1], *options.width);
  std::vector<double> resized;
  for (size_t y = 0; y < rows.size(); ++y) {
    for (size_t x = 0; x < columns.size(); ++x) {
      for (int64_t c = 0; c < image.shape[2]; ++c) {
        double sum = 0;
        for (size_t i = rows.first(y); i < rows.first(y + 1); ++i) {
          for (size_t k = columns.first(x); k < columns.first(x + 1); ++k) {
            const int64_t pixel = int64_t{rows.pixel(i)} * image.shape[1] + int64_t{columns.pixel(k)};
            sum += static_cast<double>(rows.weights()[i]) * static_cast<double>(columns.weights()[k]) *
                   image.values[static_cast<size_t>(pixel * image.shape[2] + c)];
          }
        }
        resized.push_back(sum);
      }
    }
  }
  return resized;
}

// Every number of channels and width of a row has other ends of vectors.
TEST(Resize, AnyNumberOfChannelsAndColumnsGivesTheSameWithAllInstructions) {
  BufferPool pool;
  std::vector<std::vector<double>> first;  // what the first instruction set gave
  bool is_first = true;
  test::for_each_instruction_set([&] {
    test::Dice dice(3);
    size_t cases = 0;
    for (int64_t channels = 1; channels <= 9; ++channels) {
      for (const DType dtype : {DType::kUint8, DType::kInt32, DType::kFloat32}) {
        for (const ResizeMethod method : {ResizeMethod::kBilinear, ResizeMethod::kBicubic, ResizeMethod::kArea}) {
          for (const bool antialias : {false, true}) {
            const auto side = [&] { return 1 + static_cast<int64_t>(dice.below(23)); };
            const Shape shape{side(), side(), channels};
            const ResizeOptions options{.height = side(), .width = side(), .method = method, .antialias = antialias};
            SCOPED_TRACE(to_string(shape) + text_of_fields(options, Effect::kStream, false));
            const TestImage image = counted_image(shape);
            const Block block = image_block(pool, dtype, {kAny, kAny, channels}, {image});
            const std::vector<double> values = values_of(ResizeOperator(block.schema(), options).apply(block, pool), 0);
            if (!is_first) {
              ASSERT_EQ(values, first[cases++]);
              continue;
            }
            first.push_back(values);
            const std::vector<double> expected = slowly_resized(image, options);
            ASSERT_EQ(values.size(), expected.size());
            for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 1e-3) << i;
          }
        }
      }
    }
    is_first = false;
  });
}

TEST(Resize, TheShorterOrTheLongerSideIsGivenAndTheRatioStays) {
  BufferPool pool;
  const auto shape_by = [&](const Shape& shape, const ResizeOptions& options) {
    const Block block = image_block(pool, DType::kUint8, {kAny, kAny, kAny}, {counted_image(shape)});
    const Shape resized = ResizeOperator(block.schema(), options).apply(block, pool).column(0).shape(0);
    // The same where the size is known beforehand.
    const Block known = image_block(pool, DType::kUint8, shape, {counted_image(shape)});
    EXPECT_EQ((*ResizeOperator(known.schema(), options).schema())[0].shape, resized);
    return resized;
  };
  const auto shape_of = [&](const Shape& shape, int64_t side) { return shape_by(shape, {.shorter_side = side}); };
  EXPECT_EQ(shape_of({4, 4, 3}, 7), (Shape{7, 7, 3}));
  // int(7 * 5 / 3) = int(11.67)
  EXPECT_EQ(shape_of({3, 5, 1}, 7), (Shape{7, 11, 1}));
  EXPECT_EQ(shape_of({5, 3, 1}, 7), (Shape{11, 7, 1}));
  EXPECT_EQ(shape_of({1, 40, 2}, 1), (Shape{1, 40, 2}));
  EXPECT_EQ(shape_of({30, 20, 2}, 2), (Shape{3, 2, 2}));
  EXPECT_EQ(shape_by({4, 4, 3}, {.longer_side = 7}), (Shape{7, 7, 3}));
  // int(7 * 3 / 5) = int(4.2)
  EXPECT_EQ(shape_by({3, 5, 1}, {.longer_side = 7}), (Shape{4, 7, 1}));
  EXPECT_EQ(shape_by({5, 3, 1}, {.longer_side = 7}), (Shape{7, 4, 1}));
  EXPECT_EQ(shape_by({1, 40, 2}, {.longer_side = 20}), (Shape{1, 20, 2}));
  EXPECT_EQ(shape_by({40, 1, 2}, {.longer_side = 20}), (Shape{20, 1, 2}));
}

TEST(Resize, ImagesOfUnlikeSizesAreResizedOneByOneAndBatchesAsTheirRows) {
  BufferPool pool;
  const std::vector<TestImage> images{counted_image({5, 4, 2}), counted_image({2, 9, 2}), counted_image({2, 9, 2}),
                                      counted_image({5, 4, 2})};
  const Block block = image_block(pool, DType::kUint8, {kAny, kAny, 2}, images);
  const ResizeOptions options{.height = 3, .width = 5};
  const ResizeOperator resize(block.schema(), options);
  EXPECT_EQ((*resize.schema())[0].shape, (Shape{3, 5, 2}));
  EXPECT_EQ((*resize.schema())[0].dtype, DType::kFloat32);
  const Block all = resize.apply(block, pool);
  for (size_t i = 0; i < images.size(); ++i) {
    const Block alone = image_block(pool, DType::kUint8, {kAny, kAny, 2}, {images[i]});
    EXPECT_EQ(values_of(resize.apply(alone, pool), 0), values_of(all, i));
  }
  TestImage batch{{3, 2, 9, 2}, {}};
  std::vector<double> expected;
  for (double first = 0; first < 3; ++first) {
    TestImage row = counted_image({2, 9, 2});
    for (double& value : row.values) value += first;
    batch.values.insert(batch.values.end(), row.values.begin(), row.values.end());
    const std::vector<double> values =
        values_of(resize.apply(image_block(pool, DType::kUint8, {kAny, kAny, 2}, {row}), pool), 0);
    expected.insert(expected.end(), values.begin(), values.end());
  }
  const Block batches = image_block(pool, DType::kUint8, {kAny, kAny, kAny, 2}, {batch});
  EXPECT_EQ(values_of(ResizeOperator(batches.schema(), options).apply(batches, pool), 0), expected);
}

TEST(Resize, RowsThatAreNotNeededAreNotTouched) {
  BufferPool pool;
  // The centres of 2 pixels in 6 are those of pixels 1 and 4.
  TestImage image = counted_image({6, 1, 1});
  for (const size_t y : {0, 2, 3, 5}) image.values[y] = std::numeric_limits<double>::quiet_NaN();
  const Block block = image_block(pool, DType::kFloat32, {6, 1, 1}, {image});
  EXPECT_THAT(values_of(ResizeOperator(block.schema(), {.height = 2, .width = 1}).apply(block, pool), 0),
              ElementsAre(1, 4));
}

Chain images_of(const Chain& input, const Shape& declared, const Shape& shape) {
  return input.then<MapRowsOperator>(
      RowFunction{.name = "image",
                  .writes = {{.name = "image", .dtype = DType::kInt32, .shape = declared}},
                  .function =
                      [shape](const RowView&, RowWriter& out) {
                        int32_t i = 0;
                        for (int32_t& pixel : out.make<int32_t>("image", shape)) pixel = i++;
                      },
                  .keep_others = false});
}

TEST(Resize, ErrorsPassAndImagesThatCannotBeAreErrors) {
  const ResizeOptions one{.height = 1, .width = 1};
  const Chain faulty = Chain::source<FaultyRange>(3, std::vector<int64_t>{1});
  EXPECT_THAT(images_of(faulty, {1, 2, 1}, {1, 2, 1}).then<ResizeOperator>(one).elements(),
              ElementsAre("image=[[[0.5]]]", "error: parse: at 1", "image=[[[0.5]]]"));
  EXPECT_THAT(
      images_of(faulty, {kAny, kAny, 1}, {1, 2, 1}).then<ResizeOperator>(ResizeOptions{.shorter_side = 1}).elements(),
      ElementsAre("image=[[[0],[1]]]", "error: parse: at 1", "image=[[[0],[1]]]"));
  const Chain empty = Chain::source<RangeOperator>(0, 1, 1, "x");
  for (const Shape& shape : {Shape{0, 2, 1}, Shape{2, 0, 1}, Shape{0, 0, 3}}) {
    for (const ResizeOptions& options : {one, ResizeOptions{.shorter_side = 1}}) {
      EXPECT_THAT(images_of(empty, {kAny, kAny, kAny}, shape).then<ResizeOperator>(options).elements(),
                  ElementsAre(HasSubstr("error: wrong_shape: resize: 'image' has shape " + to_string(shape) +
                                        ", and an image without pixels has no other size")));
    }
  }
  EXPECT_THAT(images_of(empty, {kAny, kAny, kAny}, {2, 3, 0}).then<ResizeOperator>(one).elements(),
              ElementsAre("image=[[[]]]"));
  EXPECT_THAT(images_of(empty, {kAny, kAny, 1}, {1, 1000, 1})
                  .then<ResizeOperator>(ResizeOptions{.shorter_side = 100})
                  .elements(),
              ElementsAre(HasSubstr("'image' has shape [1,1000,1], and the longer side would have 100000 pixels")));
  EXPECT_THAT(
      images_of(Chain::source<RangeOperator>(0, 0, 1, "x"), {1, 2, 1}, {1, 2, 1}).then<ResizeOperator>(one).elements(),
      IsEmpty());
  const Chain batches = images_of(Chain::source<RangeOperator>(0, 2, 1, "x").then<BatchOperator>(2, BatchOptions{}),
                                  {2, 2, 2}, {2, 2, 2});
  EXPECT_THAT(batches.then<ResizeOperator>(one).elements()[0],
              HasSubstr("'image' has shape [2,2,2], and batches are [rows,height,width,channels]"));
}

TEST(Resize, BadOptionsAreRefused) {
  const auto why = [](const ResizeOptions& options, DType dtype = DType::kUint8,
                      const Shape& shape = {kAny, kAny, 3}) -> std::string {
    try {
      const ResizeOperator made(std::make_shared<const Schema>(std::vector<FeatureSpec>{{"image", dtype, shape}}),
                                options);
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(why({.height = 65536, .width = 1}), "accepted");
  EXPECT_THAT(why({}), HasSubstr("resize: give height and width, or shorter_side, or longer_side"));
  for (const ResizeOptions& options :
       {ResizeOptions{.height = 3}, ResizeOptions{.height = 3, .width = 3, .shorter_side = 3},
        ResizeOptions{.height = 3, .shorter_side = 3}, ResizeOptions{.shorter_side = 3, .longer_side = 3}}) {
    EXPECT_THAT(why(options), HasSubstr("give height and width, or"));
  }
  EXPECT_THAT(why({.height = 0, .width = 3}), HasSubstr("height is 0, must be from 1 to 65536"));
  EXPECT_THAT(why({.height = 3, .width = 65537}), HasSubstr("width is 65537"));
  EXPECT_THAT(why({.shorter_side = -1}), HasSubstr("shorter_side is -1"));
  EXPECT_THAT(why({.longer_side = 65537}), HasSubstr("longer_side is 65537"));
  EXPECT_THAT(why({.feature = "x", .shorter_side = 1}), HasSubstr("'x'"));
  EXPECT_THAT(why({.shorter_side = 1}, DType::kInt64), HasSubstr("'image' is int64 [?,?,3], needs uint8"));
  EXPECT_THAT(why({.shorter_side = 1}, DType::kUint8, {2, 2}), HasSubstr("'image' is uint8 [2,2]"));
  EXPECT_THAT(why({.shorter_side = 1}, DType::kUint8, {kAny, kRagged, 2}), HasSubstr("needs uint8"));
  EXPECT_THAT(why({.shorter_side = 100}, DType::kUint8, {1, 1000, 3}), HasSubstr("longer side would have 100000"));
}

}  // namespace
}  // namespace millrace::resize_test
