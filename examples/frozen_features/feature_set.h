#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "examples/frozen_features/picture_folders.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/trainer/models/vgg.h"

namespace millrace {

/// The parts of a set.
enum class FeatureSplit {
  kTrain,
  kTest,
};
inline constexpr std::array<const char*, 2> kFeatureSplits = {"train", "test"};
inline constexpr int64_t kFeatureShards = 8;  ///< of a part

/// Pictures whose features are in a set: statistics.json.
struct FeatureSet {
  std::vector<std::string> classes = {};         ///< by label
  std::vector<int64_t> train = {};               ///< pictures to train on, by label
  std::vector<int64_t> test = {};                ///< and to test on
  std::map<std::string, int64_t> left_out = {};  ///< why, and how many files
  uint64_t seed = 0;                             ///< of the pictures that were drawn
  std::string network = {};                      ///< `Vgg::describe`
  int64_t size = 0;                              ///< pixels of a side of what the network saw
  std::vector<int64_t> background = {};          ///< red, green, blue
  std::vector<double> mean = {};                 ///< of each feature, over the pictures to train on
  std::vector<double> deviation = {};            ///< the same

  int64_t length() const { return std::ssize(mean); }
  std::vector<int64_t>& of(FeatureSplit split) { return split == FeatureSplit::kTrain ? train : test; }
  int64_t num_pictures(FeatureSplit split) const;
};

struct FeatureSetOptions {
  PictureFoldersOptions pictures = {};
  std::string out = {};  ///< folder of the set, which may be one of a bucket
  /// Safetensors file of the network. Default: empty, a small one is drawn, always the same, written beside the shards
  /// as network.safetensors, and read from there as any other is
  std::string features = {};
  int64_t size = 96;  ///< the shorter side of a picture is scaled to so many pixels, and the centre kept. Default: 96
  std::vector<int64_t> background = {255, 255,
                                     255};  ///< over which pixels that are not opaque are laid. Default: white
  /// Pictures that cannot be decoded are left out and named on standard error. Default: false, they are errors
  bool skips_damage = false;
  int threads = 0;  ///< 0: one for each core. The files do not depend on it. Default: 0
  std::function<void(int64_t done, int64_t all)> on_progress = nullptr;  ///< Default: nobody is told
  std::function<bool()> stop_requested = nullptr;                        ///< asked before each picture. Default: never
};

/// Chooses pictures (`choose_pictures`), lets the network see each once, and writes a set of shards (ShardSetWriter):
///
///     train/dataset.{0..7}.tfrecord  test/dataset.{0..7}.tfrecord  statistics.json  pictures.csv  network.safetensors
///
/// A record is a `tensorflow.Example` with `features`, float32 [length], and `label`, float32 [classes], one-hot.
/// Element i of a part is in shard i mod 8; pictures.csv names them, in order. The bytes do not depend on the threads.
///
/// Nothing when it was asked to stop. Throws what `choose_pictures`, `Vgg::read` and the writer do; for a picture that
/// cannot be decoded, or a class of which nothing is left then, an error that names it. The folder stays as it was.
[[nodiscard]] std::optional<FeatureSet> write_feature_set(const FeatureSetOptions& options);

/// Reads statistics.json, which is there only where a set is whole. Throws MissingData without it, `kIo`, and `kParse`
/// naming the file, also for numbers that do not fit together.
[[nodiscard]] FeatureSet read_feature_set(const std::string& folder);
/// A part in its order: `features` and `label`.
[[nodiscard]] Dataset feature_rows(const std::string& folder, const FeatureSet& set, FeatureSplit split);
/// The paths of its pictures, in that order. Throws as `read_feature_set`.
[[nodiscard]] std::vector<std::string> picture_paths(const std::string& folder, FeatureSplit split);

}  // namespace millrace
