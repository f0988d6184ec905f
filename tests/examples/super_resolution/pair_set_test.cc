#include "examples/super_resolution/pair_set.h"

#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/random/keyed_permutation.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/examples/super_resolution/small_pictures.h"
#include "tests/support/temporary_folder.h"

namespace millrace::pair_set_test {
namespace {

namespace fs = std::filesystem;
using test::drawn_image;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// Both images of an element.
struct Pair {
  std::vector<float> low;
  std::vector<float> high;
};

Dataset pairs_in(const std::string& folder, Split split, int64_t crop) {
  return Dataset::tfrecord(pair_shards(folder, read_pair_set(folder), split))
      .parse_example({fixed_len("low_res_image", {}, DType::kBytes), fixed_len("high_res_image", {}, DType::kBytes)})
      .parse_tensor("low_res_image", DType::kFloat32, {crop / 4, crop / 4, 3})
      .parse_tensor("high_res_image", DType::kFloat32, {crop, crop, 3});
}

std::vector<Pair> read_pairs(const std::string& folder, Split split, int64_t crop) {
  std::vector<Pair> pairs;
  Pipeline pipeline = pairs_in(folder, split, crop).start({.threads = 1});
  while (const std::optional<Batch> one = pipeline.next()) {
    const auto values = [&](const char* feature) {
      const auto span = one->values<float>(feature);
      return std::vector<float>(span.begin(), span.end());
    };
    pairs.push_back({values("low_res_image"), values("high_res_image")});
  }
  return pairs;
}

// Four pictures of other sizes, one of them held out.
class PairSet : public ::testing::Test {
 protected:
  PairSet() {
    fs::create_directories(path("pictures"));
    const std::pair<int64_t, int64_t> sizes[] = {{40, 56}, {33, 32}, {48, 48}, {64, 40}};
    for (size_t i = 0; i < 4; ++i) {
      images_.push_back(drawn_image(sizes[i].first, sizes[i].second, i));
      paths_.push_back(path("pictures/picture" + std::to_string(i) + ".png"));
      test::write_picture(paths_.back(), images_.back());
    }
  }
  std::string path(const std::string& name) const { return folder_.path(name); }
  PairSetStatistics write(const std::string& out, PairSetOptions options = {}) const {
    if (options.crop == PairSetOptions().crop) options.crop = 16;
    return write_pair_set(paths_, path(out), options).value();
  }
  std::string refusal(const PairSetOptions& options) const {
    try {
      write("refused", options);
      return "none";
    } catch (const ErrorException& exception) {
      EXPECT_FALSE(fs::exists(path("refused")));
      return exception.what();
    }
  }
  // Whether the picture has these pixels somewhere.
  bool has(size_t picture, const std::vector<float>& pixels, int64_t crop) const {
    const RgbImage<float> image = to_floats(images_[picture]);
    for (int64_t top = 0; top + crop <= image.height; ++top) {
      for (int64_t left = 0; left + crop <= image.width; ++left) {
        if (cropped(image, {top, left, crop, crop}).pixels == pixels) return true;
      }
    }
    return false;
  }

  const test::TemporaryFolder folder_;
  std::vector<RgbImage<uint8_t>> images_;
  std::vector<std::string> paths_;
};

TEST_F(PairSet, HasEachCropOfTheGridOnceWithPartsAtTheBorders) {
  const PairSetStatistics statistics = write("out");
  EXPECT_EQ(statistics.stride, 16);
  std::multiset<std::vector<float>> expected;
  for (const RgbImage<uint8_t>& image : images_) {
    std::set<int64_t> tops, lefts;
    for (int64_t at = 0; at + 16 <= image.height; at += 16) tops.insert(at);
    for (int64_t at = 0; at + 16 <= image.width; at += 16) lefts.insert(at);
    tops.insert(image.height - 16);
    lefts.insert(image.width - 16);
    for (const int64_t top : tops) {
      for (const int64_t left : lefts) expected.insert(to_floats(cropped(image, {top, left, 16, 16})).pixels);
    }
  }
  EXPECT_EQ(expected.size(), 12U + 6 + 9 + 12);
  std::multiset<std::vector<float>> found;
  for (const Pair& pair : read_pairs(path("out"), Split::kTrain, 16)) found.insert(pair.high);
  EXPECT_TRUE(found == expected);
  EXPECT_EQ(statistics.train.elements, 39);
  EXPECT_EQ(statistics.validation.elements, 0);
  // Another distance of crops.
  EXPECT_EQ(write("overlapping", {.stride = 8}).train.elements, 4 * 6 + 4 * 3 + 5 * 5 + 7 * 4);
}

TEST_F(PairSet, HasQuartersThatAreThoseOfThePipeline) {
  write("out", {.crop = 32});
  Pipeline resized = pairs_in(path("out"), Split::kTrain, 32)
                         .resize({.feature = "high_res_image",
                                  .height = 8,
                                  .width = 8,
                                  .method = ResizeMethod::kBicubic,
                                  .antialias = true})
                         .start({.threads = 1});
  int64_t elements = 0;
  while (const std::optional<Batch> one = resized.next()) {
    const auto low = one->values<float>("low_res_image");
    const auto quarter = one->values<float>("high_res_image");
    ASSERT_EQ(low.size(), 8U * 8 * 3);
    ASSERT_EQ(quarter.size(), low.size());
    for (size_t i = 0; i < low.size(); ++i) ASSERT_EQ(low[i], std::clamp(quarter[i], 0.0F, 1.0F));
    ++elements;
  }
  EXPECT_EQ(elements, 4 + 2 + 4 + 4);
}

TEST_F(PairSet, DrawsTheOrderOverAllPictures) {
  const PairSetStatistics statistics = write("out", {.crops_per_picture = 50});
  ASSERT_EQ(statistics.train.elements, 200);
  // Of each picture in each shard; 25 elements a shard, so that one without would be rare.
  for (int shard = 0; shard < 8; ++shard) {
    const std::string name = path("out/train/dataset." + std::to_string(shard) + ".tfrecord");
    Pipeline pipeline = Dataset::tfrecord(Shards::files({name}))
                            .parse_example({fixed_len("high_res_image", {}, DType::kBytes)})
                            .parse_tensor("high_res_image", DType::kFloat32, {16, 16, 3})
                            .start({.threads = 1});
    std::vector<size_t> pictures;
    while (const std::optional<Batch> one = pipeline.next()) {
      const auto pixels = one->values<float>("high_res_image");
      for (size_t picture = 0; picture < 4; ++picture) {
        if (has(picture, {pixels.begin(), pixels.end()}, 16)) pictures.push_back(picture);
      }
    }
    EXPECT_EQ(pictures.size(), 25U);
    EXPECT_EQ(std::set<size_t>(pictures.begin(), pictures.end()).size(), 4U);
    EXPECT_FALSE(std::ranges::is_sorted(pictures));
  }
  const auto files = test::files_below(path("out"));
  write("again", {.crops_per_picture = 50});
  EXPECT_TRUE(test::files_below(path("again")) == files);
  write("other", {.crops_per_picture = 50, .seed = 43});
  EXPECT_FALSE(test::files_below(path("other")).at("train/dataset.0.tfrecord") == files.at("train/dataset.0.tfrecord"));
}

TEST_F(PairSet, HasElementIOfTheDrawnOrderInShardIModEight) {
  for (const uint64_t seed : {42, 43}) {
    write("out", {.seed = seed});
    // As the pictures give them.
    std::vector<std::vector<float>> crops;
    for (const RgbImage<uint8_t>& image : images_) {
      for (int64_t top = 0; top < image.height; top += 16) {
        for (int64_t left = 0; left < image.width; left += 16) {
          const ImageRegion part{std::min(top, image.height - 16), std::min(left, image.width - 16), 16, 16};
          crops.push_back(to_floats(cropped(image, part)).pixels);
        }
      }
    }
    ASSERT_EQ(crops.size(), 39U);
    const KeyedPermutation order(crops.size(), seed);
    for (uint64_t shard = 0; shard < 8; ++shard) {
      Pipeline pipeline = Dataset::tfrecord(Shards::files({path(fmt::format("out/train/dataset.{}.tfrecord", shard))}))
                              .parse_example({fixed_len("high_res_image", {}, DType::kBytes)})
                              .parse_tensor("high_res_image", DType::kFloat32, {16, 16, 3})
                              .start({.threads = 1});
      for (uint64_t i = shard; i < crops.size(); i += 8) {
        const std::optional<Batch> one = pipeline.next();
        ASSERT_TRUE(one);
        EXPECT_TRUE(std::ranges::equal(one->values<float>("high_res_image"), crops[order(i)])) << seed << ", " << i;
      }
      EXPECT_FALSE(pipeline.next());
    }
  }
}

TEST_F(PairSet, HasTheSameBytesForAnyNumberOfThreads) {
  const WorkerLimit limit(8);
  const PairSetOptions options{.held_out = {"picture2"}};
  for (const int threads : {1, 2, 8}) {
    PairSetOptions with_threads = options;
    with_threads.threads = threads;
    write("threads" + std::to_string(threads), with_threads);
  }
  const auto files = test::files_below(path("threads1"));
  EXPECT_EQ(files.size(), 17U);
  EXPECT_TRUE(test::files_below(path("threads2")) == files);
  EXPECT_TRUE(test::files_below(path("threads8")) == files);
}

TEST_F(PairSet, KeepsWhatIsHeldOutAndItsCopiesFromTheTrainingShards) {
  // A copy under another name, which stands before.
  paths_.insert(paths_.begin(), path("pictures/copy.png"));
  test::write_file(paths_.front(), test::read_file(path("pictures/picture2.png")));
  const PairSetStatistics statistics = write("out", {.held_out = {"picture2", "picture0"}});
  EXPECT_THAT(statistics.train.pictures, ElementsAre("picture1", "picture3"));
  EXPECT_THAT(statistics.validation.pictures, ElementsAre("picture0", "picture2"));
  EXPECT_THAT(statistics.repeated, ElementsAre("copy"));
  const auto of_pictures = [&](Split split) {
    std::set<size_t> pictures;
    for (const Pair& pair : read_pairs(path("out"), split, 16)) {
      for (size_t picture = 0; picture < 4; ++picture) {
        if (has(picture, pair.high, 16)) pictures.insert(picture);
      }
    }
    return pictures;
  };
  EXPECT_THAT(of_pictures(Split::kTrain), ElementsAre(1, 3));
  EXPECT_THAT(of_pictures(Split::kValidation), ElementsAre(0, 2));
  EXPECT_EQ(statistics.validation.elements, 12 + 9);
  // Without them there are no validation shards, also not of the set before.
  write("out");
  const auto files = test::files_below(path("out"));
  EXPECT_EQ(files.size(), 9U);
  for (const auto& [name, bytes] : files) EXPECT_THAT(name, Not(HasSubstr("validation")));
}

TEST_F(PairSet, ShrinksPicturesAndNamesThoseThatAreTooSmall) {
  const PairSetStatistics statistics = write("out", {.shrink = 2});
  EXPECT_THAT(statistics.too_small, IsEmpty());
  EXPECT_EQ(statistics.train.elements, 4 + 1 + 4 + 4);
  std::set<std::vector<float>> halves;
  const RgbImage<float> half = to_floats(shrunk(images_[1], 2));
  ASSERT_EQ(half.height, 16);
  for (const Pair& pair : read_pairs(path("out"), Split::kTrain, 16)) halves.insert(pair.high);
  EXPECT_TRUE(halves.contains(half.pixels));
  EXPECT_THAT(write("thirds", {.shrink = 3}).too_small, UnorderedElementsAre("picture0", "picture1", "picture3"));
}

TEST_F(PairSet, SaysWhatIsInIt) {
  write("out", {.held_out = {"picture1"}});
  const auto json = nlohmann::json::parse(test::read_file(path("out/statistics.json")));
  EXPECT_EQ(json.at("crop"), 16);
  EXPECT_EQ(json.at("scale"), 4);
  EXPECT_EQ(json.at("values"), "float32 from 0 to 1");
  EXPECT_EQ(json.at("train").at("elements"), 33);
  EXPECT_EQ(json.at("validation").at("pictures"), nlohmann::json({"picture1"}));
  PairSetStatistics read = read_pair_set(path("out"));
  EXPECT_EQ(read.of(Split::kValidation).elements, 6);
  EXPECT_EQ(pair_shards(path("out"), read, Split::kTrain).num_records(), 33U);
  EXPECT_EQ(pair_shards(path("out"), read, Split::kTrain).count(0), 5U);
  EXPECT_EQ(pair_shards(path("out"), read, Split::kTrain).count(1), 4U);
  read.validation = {};
  EXPECT_THROW((void)pair_shards(path("out"), read, Split::kValidation), ErrorException);
  test::write_file(path("out/statistics.json"), "{\"crop\": 16}");
  EXPECT_THROW((void)read_pair_set(path("out")), ErrorException);
}

TEST_F(PairSet, IsNotWrittenWhereItCannotBeWhole) {
  EXPECT_THAT(
      refusal({.crop = 68}),
      HasSubstr("no picture to train on is left: of 4 pictures 0 are held out, 4 are smaller than crops of 68"));
  EXPECT_THAT(refusal({.crop = 36, .held_out = {"picture1"}}), HasSubstr("no picture that is held out is left"));
  EXPECT_THAT(refusal({.held_out = {"picture7"}}), HasSubstr("no picture has the name 'picture7', to be held out"));
  EXPECT_THAT(refusal({.held_out = {"picture0", "picture1", "picture2", "picture3"}}),
              HasSubstr("to train on is left"));
  const auto before = (write("out"), test::files_below(path("out")));
  test::write_file(paths_[2], "no picture");
  EXPECT_THAT(refusal({}), HasSubstr("picture2.png"));
  EXPECT_THROW(write("out"), ErrorException);
  fs::remove(paths_[2]);
  EXPECT_THAT(refusal({}), HasSubstr("picture2.png"));
  EXPECT_FALSE(write_pair_set({paths_[0]}, path("out"), {.crop = 16, .stop_requested = [] { return true; }}));
  EXPECT_TRUE(test::files_below(path("out")) == before);
}

}  // namespace
}  // namespace millrace::pair_set_test
