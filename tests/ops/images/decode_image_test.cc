#include "millrace/ops/images/decode_image.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/formats/error.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/run/cut_blocks.h"
#include "tests/support/encoded_pictures.h"
#include "tests/support/operator_chain.h"

namespace millrace::decode_image_test {
namespace {

using test::drawn_picture;
using test::Picture;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Each picture an element, with its number beside it.
Block pictures(const std::vector<std::string>& encoded, BufferPool& pool) {
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{
      {.name = "image", .dtype = DType::kBytes, .shape = {}}, {.name = "i", .dtype = DType::kInt64, .shape = {}}});
  ColumnBuilder image(pool, (*schema)[0]);
  Column number = Column::fixed(pool, DType::kInt64, {}, encoded.size());
  for (size_t i = 0; i < encoded.size(); ++i) {
    image.append_view(image.store(encoded[i]));
    number.mutable_values<int64_t>(i)[0] = static_cast<int64_t>(i);
  }
  return {schema, {image.finish(), number}, encoded.size()};
}

class DecodeImage : public ::testing::Test {
 protected:
  Block decoded(const std::vector<std::string>& encoded, const DecodeImageOptions& options = {}) {
    const Block block = pictures(encoded, pool_);
    return DecodeImageOperator(block.schema(), "image", options).apply(block, pool_);
  }
  static std::vector<uint8_t> pixels(const Block& block, size_t element = 0) {
    const std::span<const uint8_t> values = block.column(0).values<uint8_t>(element);
    return {values.begin(), values.end()};
  }
  static std::string error(const Block& block, size_t element = 0) {
    const auto error = block.error_at(element);
    return error == nullptr ? "none" : error->to_string();
  }
  static std::string refusal(const DecodeImageOptions& options, DType dtype = DType::kBytes, const Shape& shape = {}) {
    try {
      const DecodeImageOperator made(std::make_shared<const Schema>(std::vector<FeatureSpec>{{"image", dtype, shape}}),
                                     "image", options);
      return made.schema()->to_string();
    } catch (const ErrorException& refused) {
      EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
      return refused.what();
    }
  }
  BufferPool pool_;
};

TEST_F(DecodeImage, GivesPicturesOfUnlikeSizesAndFormats) {
  const Picture small = drawn_picture(5, 7, 3);
  const Picture grey = drawn_picture(9, 4, 1);
  const Picture large = drawn_picture(40, 30, 3);
  const Block made = decoded({written_png(small), written_png(grey), written_jpeg(large, {.quality = 100})});
  EXPECT_EQ(made.schema()->to_string(), "image uint8 [?,?,3], i int64 []");
  EXPECT_EQ(made.column(0).shape(0), (Shape{5, 7, 3}));
  EXPECT_EQ(pixels(made, 0), small.pixels);
  EXPECT_EQ(made.column(0).shape(1), (Shape{9, 4, 3}));
  const std::vector<uint8_t> of_grey = pixels(made, 1);
  for (size_t i = 0; i < grey.pixels.size(); ++i) {
    for (size_t c = 0; c < 3; ++c) ASSERT_EQ(of_grey[3 * i + c], grey.pixels[i]);
  }
  EXPECT_EQ(made.column(0).shape(2), (Shape{40, 30, 3}));
  const std::vector<uint8_t> of_jpeg = pixels(made, 2);
  double sum = 0;
  for (size_t i = 0; i < of_jpeg.size(); ++i) sum += std::abs(int{of_jpeg[i]} - int{large.pixels[i]});
  EXPECT_LT(sum / static_cast<double>(of_jpeg.size()), 2);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(made.column(1).values<int64_t>(static_cast<size_t>(i))[0], i);
}

TEST_F(DecodeImage, GivesTheChannelsAskedFor) {
  const Picture picture = drawn_picture(6, 5, 4);
  const std::string png = written_png(picture);
  EXPECT_EQ(decoded({png}, {.channels = 4}).schema()->to_string(), "image uint8 [?,?,4], i int64 []");
  EXPECT_EQ(pixels(decoded({png}, {.channels = 4})), picture.pixels);
  const Block as_stored = decoded({png, written_png(drawn_picture(2, 2, 1))}, {.channels = 0});
  EXPECT_EQ(as_stored.schema()->to_string(), "image uint8 [?,?,?], i int64 []");
  EXPECT_EQ(as_stored.column(0).shape(0), (Shape{6, 5, 4}));
  EXPECT_EQ(as_stored.column(0).shape(1), (Shape{2, 2, 1}));
  const std::vector<uint8_t> without = pixels(decoded({png}));
  const std::vector<uint8_t> over_black = pixels(decoded({png}, {.background = {{0, 0, 0}}}));
  for (size_t i = 0; i < 30; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      ASSERT_EQ(without[3 * i + c], picture.pixels[4 * i + c]);
      ASSERT_NEAR(over_black[3 * i + c], picture.pixels[4 * i + c] * picture.pixels[4 * i + 3] / 255.0, 1);
    }
  }
}

TEST_F(DecodeImage, ErrorsNameFeatureAndCauseAndTheRestGoesOn) {
  const Picture picture = drawn_picture(20, 30, 3);
  const std::string jpeg = written_jpeg(picture);
  Block block = pictures({jpeg, jpeg.substr(0, jpeg.size() / 2), "GIF89a and so on", "", jpeg, jpeg}, pool_);
  block.add_error(5, std::make_shared<const Error>(Error{.code = ErrorCode::kPayloadCrc, .message = "from before"}));
  const Block made = DecodeImageOperator(block.schema(), "image").apply(block, pool_);
  EXPECT_EQ(error(made, 0), "none");
  EXPECT_THAT(error(made, 1), AllOf(HasSubstr("truncated: feature 'image': "), HasSubstr("(stage decode_image)")));
  EXPECT_THAT(error(made, 2), HasSubstr("GIF"));
  EXPECT_THAT(error(made, 3), HasSubstr("feature 'image'"));
  EXPECT_EQ(pixels(made, 4), pixels(made, 0));
  EXPECT_EQ(error(made, 5), "payload_crc: from before");
}

TEST_F(DecodeImage, OfAnotherSizeThanTheDeclaredOneIsAnError) {
  const Block made = decoded({written_png(drawn_picture(4, 6, 1)), written_png(drawn_picture(6, 4, 1))},
                             {.channels = 1, .size = {{4, 6}}});
  EXPECT_EQ(made.schema()->to_string(), "image uint8 [4,6,1], i int64 []");
  EXPECT_EQ(error(made, 0), "none");
  EXPECT_THAT(error(made, 1), HasSubstr("wrong_shape: feature 'image': has 6 x 4 pixels, expected 4 x 6"));
}

TEST_F(DecodeImage, APictureBeyondTheLimitIsRefusedBeforeItsPixelsTakeMemory) {
  const std::string bomb = test::with_png_size(written_png(drawn_picture(4, 6, 1)), 30'000, 30'000);
  EXPECT_THAT(error(decoded({bomb})), AllOf(HasSubstr("out_of_range"), HasSubstr("30000")));
  EXPECT_LT(pool_.peak_bytes_in_use(), 1 << 20);
  EXPECT_THAT(error(decoded({written_png(drawn_picture(4, 6, 1))}, {.max_pixels = 23})), HasSubstr("out_of_range"));
  EXPECT_EQ(error(decoded({written_png(drawn_picture(4, 6, 1))}, {.max_pixels = 24})), "none");
}

TEST_F(DecodeImage, IsScaledDownAsFarAsTheLeastSideAllows) {
  const std::string jpeg = written_jpeg(drawn_picture(100, 61, 3));
  const auto shape = [&](int64_t least_side) { return decoded({jpeg}, {.least_side = least_side}).column(0).shape(0); };
  EXPECT_EQ(shape(0), (Shape{100, 61, 3}));
  EXPECT_EQ(shape(32), (Shape{100, 61, 3}));
  EXPECT_EQ(shape(31), (Shape{50, 31, 3}));
  EXPECT_EQ(shape(17), (Shape{50, 31, 3}));
  EXPECT_EQ(shape(16), (Shape{25, 16, 3}));
  EXPECT_EQ(shape(1), (Shape{13, 8, 3}));
  EXPECT_EQ(decoded({written_png(drawn_picture(100, 61, 3))}, {.least_side = 8}).column(0).shape(0),
            (Shape{100, 61, 3}));
}

// As the same pictures cropped after they were decoded.
TEST_F(DecodeImage, DecodesNoMoreThanWhatIsKept) {
  const std::vector<std::string> encoded{written_jpeg(drawn_picture(50, 70, 3), {.horizontal_sampling = 2}),
                                         written_png(drawn_picture(40, 41, 3)), written_png(drawn_picture(19, 99, 3))};
  const auto expect_parts = [&](const ImageCrop& crop) {
    const Block whole = decoded(encoded);
    const Block parts = decoded(encoded, {.crop = crop, .seed = 5});
    const CropWindow window(crop, "test");
    const CounterRng rng(5, operator_id("decode_image"));
    for (size_t i = 0; i < encoded.size(); ++i) {
      const Shape shape = whole.column(0).shape(i);
      if (!window.why_not(shape[0], shape[1]).empty()) {
        EXPECT_THAT(error(parts, i), AllOf(HasSubstr("wrong_shape: feature 'image': "), HasSubstr("smaller")));
        continue;
      }
      const ImageRegion region = window.window(shape[0], shape[1], rng, i);
      ASSERT_EQ(parts.column(0).shape(i), (Shape{region.height, region.width, 3}));
      const std::vector<uint8_t> all = pixels(whole, i);
      const std::vector<uint8_t> part = pixels(parts, i);
      for (int64_t y = 0; y < region.height; ++y) {
        const auto from = all.begin() + ((region.top + y) * shape[1] + region.left) * 3;
        ASSERT_TRUE(std::equal(from, from + region.width * 3, part.begin() + y * region.width * 3)) << i << " " << y;
      }
    }
  };
  expect_parts({.kind = CropKind::kCentre, .height = 20, .width = 30});
  expect_parts({.kind = CropKind::kRandom, .height = 7, .width = 13});
  expect_parts({.kind = CropKind::kRandomResized});
  EXPECT_EQ(decoded(encoded, {.crop = {{.height = 7, .width = 13}}}).schema()->to_string(),
            "image uint8 [7,13,3], i int64 []");
}

TEST_F(DecodeImage, ARandomPartIsDrawnAnewInEachEpochAndForEachRow) {
  const std::vector<std::string> encoded(4, written_png(drawn_picture(90, 90, 1)));
  Block block = pictures(encoded, pool_);
  const DecodeImageOptions options{.crop = {{.kind = CropKind::kRandom, .height = 5, .width = 5}}};
  const auto all = [&](const Block& of, const DecodeImageOptions& with, uint64_t occurrence = 0) {
    const Block made = DecodeImageOperator(of.schema(), "image", with, occurrence).apply(of, pool_);
    const std::span<const uint8_t> values = made.column(0).values<uint8_t>();
    return std::vector<uint8_t>(values.begin(), values.end());
  };
  const std::vector<uint8_t> whole = all(block, options);
  EXPECT_FALSE(std::equal(whole.begin(), whole.begin() + 75, whole.begin() + 75));
  std::vector<uint8_t> cut = all(block.slice(0, 1), options);
  const std::vector<uint8_t> rest = all(block.slice(1, 3), options);
  cut.insert(cut.end(), rest.begin(), rest.end());
  EXPECT_EQ(cut, whole);
  DecodeImageOptions other = options;
  other.seed = 1;
  EXPECT_NE(all(block, other), whole);
  EXPECT_NE(all(block, options, 1), whole);
  block.iteration.epoch = 1;
  EXPECT_NE(all(block, options), whole);
  EXPECT_TRUE(DecodeImageOperator(block.schema(), "image", options).traits().uses_row_numbers);
}

TEST_F(DecodeImage, APartIsScaledDownWithItsPicture) {
  const std::string jpeg = written_jpeg(drawn_picture(160, 240, 3));
  const Block made = decoded({jpeg}, {.crop = {{.height = 64, .width = 96}}, .least_side = 30});
  EXPECT_EQ(made.schema()->to_string(), "image uint8 [?,?,3], i int64 []");
  EXPECT_EQ(made.column(0).shape(0), (Shape{32, 48, 3}));
  const std::vector<uint8_t> part = pixels(made);
  const std::vector<uint8_t> whole = pixels(decoded({jpeg}, {.least_side = 60}));
  ASSERT_EQ(whole.size(), 80 * 120 * 3);
  for (size_t y = 0; y < 32; ++y) {
    const auto from = whole.begin() + static_cast<std::ptrdiff_t>(((24 + y) * 120 + 36) * 3);
    ASSERT_TRUE(std::equal(from, from + 48 * 3, part.begin() + static_cast<std::ptrdiff_t>(y * 48 * 3))) << y;
  }
}

TEST_F(DecodeImage, IsTurnedUprightWhereThatIsAskedFor) {
  const Picture picture = drawn_picture(6, 10, 3);
  const std::string plain = written_jpeg(picture, {.quality = 100});
  const std::string turned = test::with_segment(plain, 0xe1, std::string("Exif\0\0", 6) + test::exif_data(6));
  EXPECT_EQ(decoded({turned}).column(0).shape(0), (Shape{6, 10, 3}));
  const Block upright = decoded({turned}, {.upright = true});
  EXPECT_EQ(upright.column(0).shape(0), (Shape{10, 6, 3}));
  const std::vector<uint8_t> before = pixels(decoded({plain}));
  const std::vector<uint8_t> after = pixels(upright);
  // Clockwise: the first row becomes the last column.
  for (size_t x = 0; x < 10; ++x) {
    for (size_t c = 0; c < 3; ++c) ASSERT_EQ(after[(x * 6 + 5) * 3 + c], before[x * 3 + c]);
  }
}

TEST_F(DecodeImage, RefusesWhatCannotBe) {
  EXPECT_EQ(refusal({}), "image uint8 [?,?,3]");
  EXPECT_THAT(refusal({.channels = 2}), HasSubstr("channels is 2, must be 0, 1, 3 or 4"));
  EXPECT_THAT(refusal({.size = {{4}}}), HasSubstr("size is [4], must be height and width"));
  EXPECT_THAT(refusal({.size = {{4, kVaries}}}), HasSubstr("size is [4,?]"));
  EXPECT_THAT(refusal({.background = {{0, 0, 256}}}), HasSubstr("background is [0,0,256]"));
  EXPECT_THAT(refusal({.background = {{0, 0}}}), HasSubstr("background is [0,0]"));
  EXPECT_THAT(refusal({.channels = 4, .background = {{0, 0, 0}}}), HasSubstr("a background leaves no alpha"));
  EXPECT_THAT(refusal({.least_side = -1}), HasSubstr("least_side is -1"));
  EXPECT_THAT(refusal({.crop = {{.height = 5}}}), HasSubstr("decode_image: centre and random need height and width"));
  EXPECT_THAT(refusal({.size = {{9, 9}}, .crop = {{.height = 5, .width = 5}}}), HasSubstr("size is that of whole"));
  EXPECT_THAT(refusal({.max_pixels = 0}), HasSubstr("max_pixels is 0"));
  EXPECT_THAT(refusal({}, DType::kUint8), HasSubstr("decode_image: feature 'image' is uint8 []"));
  EXPECT_THAT(refusal({}, DType::kBytes, {3}), HasSubstr("put it before batch"));
}

std::vector<std::string> stream_of(const Dataset& dataset, bool rewrites) {
  std::vector<std::string> elements;
  StartOptions options{.threads = 2};
  if (!rewrites) options.disabled_rewrites = {"defer_parse"};
  Pipeline pipeline = dataset.start(options);
  try {
    while (const std::optional<Batch> batch = pipeline.next()) {
      elements.push_back(test::print_element(batch->block(), 0));
    }
  } catch (const ErrorException& error) {
    elements.emplace_back(error.what());
  }
  return elements;
}

TEST_F(DecodeImage, OfOneSizeIsMovedAfterBatch) {
  std::vector<std::string> first;
  std::vector<std::string> second;
  for (unsigned i = 1; i <= 11; ++i) {
    first.push_back(written_png(drawn_picture(4, 5, 3, i)));
    second.push_back(written_png(drawn_picture(6, 6, 1, i)));
  }
  const auto pairs = [&] { return Dataset::rows({{"first", first}, {"second", second}}); };
  const auto decoded = [](const Dataset& rows) {
    return rows.decode_image("first", {.size = {{4, 5}}})
        .decode_image("second", {.channels = 1, .crop = {{.height = 3, .width = 2}}});
  };
  for (const bool drops : {false, true}) {
    const Dataset batches = decoded(pairs()).shuffle(4).batch(3, {.drop_remainder = drops});
    EXPECT_THAT(batches.explain(), HasSubstr("decode_image after batch: rows stay compact bytes"));
    EXPECT_THAT(batches.explain(), HasSubstr("2 at once"));
    const std::vector<std::string> stream = stream_of(batches, true);
    EXPECT_EQ(stream.size(), drops ? 3 : 4);
    EXPECT_EQ(stream, stream_of(batches, false));
  }
  // The first row with an error decides, also in a remainder that is dropped.
  second[4] = "no picture";
  first[5] = "none either";
  second[10] = "nor this";
  for (const bool drops : {false, true}) {
    for (const size_t take : {11, 4}) {
      const Dataset batches = decoded(pairs().take(static_cast<int64_t>(take))).batch(3, {.drop_remainder = drops});
      const std::vector<std::string> stream = stream_of(batches, true);
      EXPECT_EQ(stream, stream_of(batches, false));
      if (take == 11) {
        EXPECT_THAT(stream.back(), AllOf(HasSubstr("'second'"), HasSubstr("6e 6f 20 70")));
      }
    }
  }
  second[4] = second[3];
  first[5] = first[4];
  const Dataset dropped = decoded(pairs()).batch(3, {.drop_remainder = true});
  EXPECT_EQ(stream_of(dropped, true), stream_of(dropped, false));
}

// A few bytes may be large pictures.
TEST_F(DecodeImage, IsDoneInBlocksThatTheMemoryHasRoomFor) {
  const Picture plain{.height = 1500, .width = 2000, .channels = 3, .pixels = std::vector<uint8_t>(9'000'000, 7)};
  const std::vector<std::string> encoded(24, written_png(plain));
  Pipeline pipeline =
      Dataset::rows({{"image", encoded}}).decode_image("image").start({.threads = 1, .memory_budget = 128 << 20});
  int count = 0;
  while (pipeline.next()) ++count;
  EXPECT_EQ(count, 24);
}

class NoWaker final : public Waker {
 public:
  void wake() noexcept override {}
};

// Gives one block.
class OneBlock final : public Stage {
 public:
  explicit OneBlock(Block block) : block_(std::move(block)) {}
  Poll next(Block& out) override {
    if (block_.num_elements() == 0) return Poll::kEnd;
    out = std::exchange(block_, Block());
    return Poll::kBlock;
  }

 private:
  Block block_;
};

// However small it is: what a picture takes is known when it is decoded only.
TEST_F(DecodeImage, GetsEachPictureAsABlockOfItsOwn) {
  const Block five = pictures(std::vector<std::string>(5, written_png(drawn_picture(4, 4, 3))), pool_);
  const auto op = std::make_shared<const DecodeImageOperator>(five.schema(), "image", DecodeImageOptions());
  NoWaker waker;
  InlineLanes lanes;
  const StageContext context{pool_, waker, {}, lanes};
  const auto stage =
      CutBlocks::before({op}, [&](const StageContext&) { return std::make_unique<OneBlock>(five); })(context);
  Block block;
  int64_t count = 0;
  for (; stage->next(block) == Poll::kBlock; ++count) {
    ASSERT_EQ(block.num_elements(), 1U);
    EXPECT_EQ(block.column(1).values<int64_t>(0)[0], count);
  }
  EXPECT_EQ(count, 5);
}

// A shuffle buffer then holds compressed bytes.
TEST_F(DecodeImage, IsMovedAfterShuffleAndRepeat) {
  std::vector<std::string> encoded;
  for (int i = 0; i < 40; ++i) {
    encoded.push_back(written_png(drawn_picture(4 + i % 3, 5, 3, static_cast<unsigned>(i + 1))));
  }
  const Dataset dataset = Dataset::rows({{"image", encoded}}).decode_image("image").shuffle(10).repeat(2);
  const auto all = [&](bool rewrites) {
    std::vector<std::vector<uint8_t>> images;
    StartOptions options{.threads = 2};
    if (!rewrites) options.disabled_rewrites = {"defer_parse"};
    Pipeline pipeline = dataset.start(options);
    while (const std::optional<Batch> batch = pipeline.next()) {
      const std::span<const uint8_t> values = batch->values<uint8_t>("image");
      images.emplace_back(values.begin(), values.end());
    }
    return images;
  };
  EXPECT_THAT(dataset.explain(), HasSubstr("decode_image after shuffle: rows stay compact bytes"));
  EXPECT_EQ(all(true), all(false));
  EXPECT_EQ(all(true).size(), 80);
}

}  // namespace
}  // namespace millrace::decode_image_test
