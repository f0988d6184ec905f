#include "examples/super_resolution/image_pairs.h"

#include <utility>

#include <fmt/format.h>

#include "millrace/command_line/given_options.h"
#include "millrace/trainer/models/image_generator.h"

namespace millrace {
namespace {

constexpr const char* kLow = "low_res_image";
constexpr const char* kHigh = "high_res_image";

}  // namespace

ImagePairs::ImagePairs(ImagePairsOptions options) : options_(std::move(options)) {
  if (options_.records.empty()) {
    set_ = read_pair_set(options_.shards);
    options_.crop = set_->crop;
  }
  require(options_.crop > 0 && options_.crop % kUpscaling == 0,
          fmt::format("--crop is {}, must be a multiple of {} above 0", options_.crop, kUpscaling));
}

Dataset ImagePairs::pairs(const Dataset& records) const {
  const int64_t high = options_.crop;
  const int64_t low = high / kUpscaling;
  Dataset parsed = records.parse_example({fixed_len(kLow, {}, DType::kBytes), fixed_len(kHigh, {}, DType::kBytes)})
                       .parse_tensor(kLow, DType::kFloat32, {low, low, 3})
                       .parse_tensor(kHigh, DType::kFloat32, {high, high, 3});
  if (options_.peak == 1) return parsed;
  return parsed.multiply(kLow, 1 / options_.peak).multiply(kHigh, 1 / options_.peak);
}

Dataset ImagePairs::training_batches() const {
  const Shards shards = set_ ? pair_shards(options_.shards, *set_, Split::kTrain) : Shards::glob(options_.records);
  const Dataset records = Dataset::tfrecord(shards, {.cycle_length = kPairShards,
                                                     .shuffle_shards = options_.shuffle > 1,
                                                     .seed = options_.seed,
                                                     .damage = options_.damage});
  Dataset rows = pairs(records).shuffle(options_.shuffle, {.seed = options_.seed}).repeat();
  if (options_.augment) {
    rows = rows.augment_images({.features = {kLow, kHigh},
                                .rotate = true,
                                .flip_left_right = true,
                                .brightness = options_.brightness,
                                .contrast = {1 - options_.contrast, 1 + options_.contrast},
                                .clip = {{0.0, 1.0}},
                                .seed = options_.seed});
  }
  return rows.batch(options_.global_batch, {.drop_remainder = true}).prefetch(2);
}

std::optional<Dataset> ImagePairs::evaluation_batches() const {
  const bool none = set_ ? set_->validation.elements == 0 : options_.evaluation_records.empty();
  if (none) return std::nullopt;
  const Shards shards =
      set_ ? pair_shards(options_.shards, *set_, Split::kValidation) : Shards::glob(options_.evaluation_records);
  const Dataset records = Dataset::tfrecord(shards, {.cycle_length = kPairShards, .damage = options_.damage});
  return pairs(records).batch(options_.global_batch).prefetch(2);
}

std::string ImagePairs::describe() const {
  std::string text = fmt::format("pairs of {} pixels, global batch {}, shuffle {}", options_.crop,
                                 options_.global_batch, options_.shuffle);
  if (!options_.augment) return text + ", as they are";
  return text + fmt::format(", brightness {}, contrast {}", options_.brightness, options_.contrast);
}

}  // namespace millrace
