#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "millrace/formats/records/shards.h"
#include "millrace/trainer/models/image_generator.h"
#include "millrace/trainer/run/split.h"

namespace millrace {

/// Shards of a split.
inline constexpr int64_t kPairShards = 8;

/// How pictures become pairs of crops.
struct PairSetOptions {
  int64_t crop = 128;  ///< pixels of a side of `high_res_image`, a multiple of 4. Default: 128
  /// Crops are of a grid, so many pixels from one to the next; where the last one leaves pixels over there is one more,
  /// which ends at the border. Default: 0, that of `crop`
  int64_t stride = 0;
  int64_t crops_per_picture = 0;                   ///< in place of a grid so many, at random. Default: 0, a grid
  int64_t shrink = 1;                              ///< pictures are first made so many times smaller. Default: 1
  std::vector<std::string> held_out = {};          ///< names of pictures, without ending, for validation. Default: none
  uint64_t seed = 42;                              ///< of the order, and of crops at random. Default: 42
  int threads = 0;                                 ///< 0: one for each core. The files do not depend on it. Default: 0
  std::function<bool()> stop_requested = nullptr;  ///< Default: none
  std::function<void(const std::string& line)> on_progress = nullptr;  ///< gets what is done. Default: none
};

/// What is in a split.
struct PairSplit {
  int64_t elements = 0;
  std::vector<std::string> pictures = {};  ///< their names
};

/// `statistics.json` of a set.
struct PairSetStatistics {
  int64_t scale = kUpscaling;
  int64_t shards = kPairShards;  ///< of a split
  std::string values = "float32 from 0 to 1";
  int64_t crop = 0;
  int64_t stride = 0;             ///< 0: crops are at random
  int64_t crops_per_picture = 0;  ///< 0: crops are of a grid
  int64_t shrink = 1;
  uint64_t seed = 0;
  PairSplit train = {};
  PairSplit validation = {};
  std::vector<std::string> too_small = {};  ///< pictures left out: a side is smaller than a crop
  std::vector<std::string> repeated = {};   ///< pictures left out: a file with the same bytes came before

  PairSplit& of(Split split) { return split == Split::kTrain ? train : validation; }
};

/// `indent`: spaces of a level; -1: all in one line.
[[nodiscard]] std::string printed_json(const PairSetStatistics& statistics, int indent = -1);

/// Makes pairs of crops and their bicubic quarters of pictures, and writes them as shards of `tensorflow.Example`s with
/// the features `low_res_image` and `high_res_image`: serialized TensorProtos of float32 `[crop / 4, crop / 4, 3]` and
/// `[crop, crop, 3]`, from 0 to 1. In `folder`, whole or not at all:
///
///     train/dataset.{0..7}.tfrecord       element i in shard i mod 8
///     validation/dataset.{0..7}.tfrecord  of the pictures that are held out; no files where none are
///     statistics.json                     PairSetStatistics
///
/// The order of a split's elements is drawn over all its pictures. Memory: a picture for each thread. While it works
/// the crops lie in `folder` a second time, as bytes. Nothing when it was stopped. Throws `kInvalidArgument` for a name
/// of `held_out` that no picture has, and where a split is left without an element; `kIo` and the errors of
/// ImageDecoder naming the picture.
std::optional<PairSetStatistics> write_pair_set(std::vector<std::string> pictures, const std::string& folder,
                                                const PairSetOptions& options);

/// That of a folder, which may be one of a bucket. Throws MissingData without it, `kIo`, and `kParse` naming the file.
[[nodiscard]] PairSetStatistics read_pair_set(const std::string& folder);
/// The shards of a split, with their numbers of elements. Throws `kInvalidArgument` for a split without elements.
[[nodiscard]] Shards pair_shards(const std::string& folder, PairSetStatistics statistics, Split split);

}  // namespace millrace
