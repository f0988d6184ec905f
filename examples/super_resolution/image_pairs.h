#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "examples/super_resolution/pair_set.h"
#include "millrace/formats/records/damage_policy.h"
#include "millrace/pipeline/dataset.h"

namespace millrace {

/// Which pairs of images a training reads, and how.
struct ImagePairsOptions {
  std::string shards = {};              ///< a folder of prepare_super_resolution, or its URL
  std::string records = {};             ///< in its place a pattern of TFRecords that others wrote. Default: none
  std::string evaluation_records = {};  ///< with `records`, those of the evaluation. Default: none
  int64_t crop = 0;                     ///< with `records`, pixels of a side of `high_res_image`
  double peak = 1;                      ///< with `records`, the value of white: 1 or 255. Default: 1
  int64_t global_batch = 16;            ///< Default: 16
  int64_t shuffle = 128;                ///< rows. Default: 128
  double brightness = 0.05;             ///< as `augment_images` adds; 0: not. Default: 0.05
  double contrast = 0.1;                ///< from 1 - it to 1 + it; 0: not. Default: 0.1
  bool augment = true;                  ///< turned and flipped as well; false: nothing is drawn. Default: true
  uint64_t seed = 42;                   ///< Default: 42
  DamagePolicy damage = {};             ///< Default: damage is an error
};

/// Pairs of images for super-resolution: records with two serialized TensorProtos of float32, `low_res_image` `[crop /
/// 4, crop / 4, 3]` and `high_res_image` `[crop, crop, 3]`.
class ImagePairs {
 public:
  /// Reads what is known of them. Throws `kInvalidArgument` for what is missing, and what the storage does.
  explicit ImagePairs(ImagePairsOptions options);

  int64_t crop() const { return options_.crop; }
  /// Rows to train on; 0: not known.
  int64_t training_rows() const { return set_ ? set_->train.elements : 0; }
  /// Batches forever: shuffled, both images of a pair turned, flipped, made brighter and richer in contrast alike.
  Dataset training_batches() const;
  /// Batches of those that are not trained on, in order; nothing where there are none.
  std::optional<Dataset> evaluation_batches() const;
  /// What a run that goes on must have in common.
  std::string describe() const;

 private:
  Dataset pairs(const Dataset& records) const;

  ImagePairsOptions options_;
  std::optional<PairSetStatistics> set_;  // of a folder of prepare_super_resolution
};

}  // namespace millrace
