#include "examples/super_resolution/pair_set.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "examples/super_resolution/rgb_image.h"
#include "millrace/formats/error.h"
#include "millrace/formats/example/tensor_writer.h"
#include "millrace/formats/example/writer.h"
#include "millrace/formats/json/read_json.h"
#include "millrace/formats/random/keyed_permutation.h"
#include "millrace/formats/storage/growing_file.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/ops/images/crop_window.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/trainer/run/missing_data.h"
#include "millrace/trainer/run/ordered_work.h"
#include "millrace/trainer/run/shard_set_writer.h"

namespace millrace {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PairSplit, elements, pictures)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PairSetStatistics, scale, shards, values, crop, stride, crops_per_picture, shrink,
                                   seed, train, validation, too_small, repeated)

namespace {

[[noreturn]] void refuse(const std::string& why) { throw ErrorException(ErrorCode::kInvalidArgument, why); }

std::string pair_shard_name(int64_t shard) { return fmt::format("dataset.{}.tfrecord", shard); }

// Crops in the order in which pictures give them, until they are read in that of the set, which nobody knows before.
class CropFile {
 public:
  CropFile(const std::string& path, int64_t crop) : file_(path), crop_bytes_(crop * crop * kColours) {}

  int64_t add(const RgbImage<uint8_t>& crop) {
    file_.write({reinterpret_cast<const char*>(crop.pixels.data()), crop.pixels.size()});
    return num_crops_++;
  }
  // After the last `add`.
  void read(int64_t number, std::vector<uint8_t>& pixels) {
    if (!input_.is_open()) input_.open(file_.path(), std::ios::binary);
    pixels.resize(static_cast<size_t>(crop_bytes_));
    input_.seekg(number * crop_bytes_);
    if (input_.read(reinterpret_cast<char*>(pixels.data()), crop_bytes_)) return;
    throw ErrorException({.code = ErrorCode::kIo, .message = "cannot read a crop", .shard = file_.path()});
  }

 private:
  GrowingFile file_;
  std::ifstream input_;
  const int64_t crop_bytes_;
  int64_t num_crops_ = 0;
};

// Puts the pictures that are held out before the others, so that a copy of one is not trained on. How many they are.
size_t put_held_out_first(std::vector<std::string>& pictures, const std::vector<std::string>& held_out) {
  const std::set<std::string> names(held_out.begin(), held_out.end());
  std::set<std::string> missing = names;
  const auto others = std::stable_partition(pictures.begin(), pictures.end(), [&](const std::string& path) {
    missing.erase(picture_name(path));
    return names.contains(picture_name(path));
  });
  if (!missing.empty()) refuse(fmt::format("no picture has the name '{}', to be held out", *missing.begin()));
  return static_cast<size_t>(others - pictures.begin());
}

// Without pictures that are held out the validation split has no files, but those of an earlier set go.
ShardSetOptions shards_of_pairs(bool has_validation) {
  ShardSetOptions options{.shard_names = R"(dataset\.\d+\.tfrecord)"};
  for (const Split split : kTrainAndValidation) {
    const bool has_files = split == Split::kTrain || has_validation;
    for (int64_t shard = 0; shard < kPairShards; ++shard) {
      options.splits.push_back({.folder = std::string(to_string(split)),
                                .records_per_shard = has_files ? 0 : INT64_MAX,
                                .file_name = [shard](int64_t, int64_t) { return pair_shard_name(shard); }});
    }
  }
  return options;
}

// Where crops begin along an axis that is long enough.
std::vector<int64_t> places_of(int64_t size, int64_t crop, int64_t stride) {
  std::vector<int64_t> places;
  for (int64_t place = 0; place + crop <= size; place += stride) places.push_back(place);
  if (places.back() + crop < size) places.push_back(size - crop);
  return places;
}

// `first`: of those drawn before.
std::vector<ImageRegion> windows_in(int64_t height, int64_t width, const PairSetOptions& options, uint64_t first) {
  const int64_t crop = options.crop;
  std::vector<ImageRegion> windows;
  const CropWindow window({.kind = CropKind::kRandom, .height = crop, .width = crop}, "crop");
  const CounterRng rng(options.seed, operator_id("prepare_super_resolution"));
  for (int64_t i = 0; i < options.crops_per_picture; ++i) {
    windows.push_back(window.window(height, width, rng, first + static_cast<uint64_t>(i)));
  }
  if (!windows.empty()) return windows;
  const int64_t stride = options.stride == 0 ? crop : options.stride;
  for (const int64_t top : places_of(height, crop, stride)) {
    for (const int64_t left : places_of(width, crop, stride)) windows.push_back({top, left, crop, crop});
  }
  return windows;
}

std::string pair_record(std::vector<uint8_t> pixels, int64_t crop) {
  const RgbImage<float> high = to_floats({.height = crop, .width = crop, .pixels = std::move(pixels)});
  const int64_t quarter = crop / kUpscaling;
  const std::string high_tensor = write_tensor(high.pixels, {crop, crop, kColours});
  const std::string low_tensor = write_tensor(bicubic(high, quarter, quarter).pixels, {quarter, quarter, kColours});
  ExampleWriter example;
  example.add("high_res_image", std::array{std::string_view(high_tensor)});
  example.add("low_res_image", std::array{std::string_view(low_tensor)});
  return example.finish();
}

// On their way through the work.
struct PictureInFlight {
  std::string path = {};
  bool held_out = false;
  uint64_t digest = 0;
  RgbImage<uint8_t> image = {};
};
struct PairInFlight {
  size_t shard = 0;
  std::vector<uint8_t> pixels = {};
  std::string record = {};
};

}  // namespace

std::string printed_json(const PairSetStatistics& statistics, int indent) {
  return nlohmann::json(statistics).dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<PairSetStatistics> write_pair_set(std::vector<std::string> pictures, const std::string& folder,
                                                const PairSetOptions& options) {
  const int threads = checked_threads(options.threads);
  const auto show = [&](const char* what, size_t done, size_t all) {
    if (options.on_progress) options.on_progress(fmt::format("{} {} of {}", what, done, all));
  };
  const size_t num_held_out = put_held_out_first(pictures, options.held_out);
  ShardSetWriter writer(folder, shards_of_pairs(num_held_out > 0));
  CropFile crops(writer.temporary_path("crops"), options.crop);
  PairSetStatistics statistics{.crop = options.crop,
                               .stride = options.stride == 0 ? options.crop : options.stride,
                               .crops_per_picture = options.crops_per_picture,
                               .shrink = options.shrink,
                               .seed = options.seed};
  if (options.crops_per_picture > 0) statistics.stride = 0;

  std::vector<PictureInFlight> slots(static_cast<size_t>(threads));
  std::array<std::vector<int64_t>, kTrainAndValidation.size()> numbers;  // of crops
  std::set<uint64_t> digests;
  uint64_t num_drawn = 0;
  size_t num_read = 0;
  size_t num_cut = 0;
  const auto next_picture = [&](size_t slot) {
    if (num_read == pictures.size()) return false;
    slots[slot].held_out = num_read < num_held_out;
    slots[slot].path = pictures[num_read++];
    return true;
  };
  const auto decode = [&](size_t slot) {
    PictureInFlight& work = slots[slot];
    const std::string bytes = read_whole_anywhere(work.path, "picture");
    work.digest = XXH3_64bits(bytes.data(), bytes.size());
    work.image = shrunk(decode_picture(bytes, work.path), options.shrink);
  };
  const auto cut = [&](size_t slot) {
    const auto& [path, held_out, digest, image] = slots[slot];
    const std::string name = picture_name(path);
    show("pictures", ++num_cut, pictures.size());
    if (!digests.insert(digest).second) return statistics.repeated.push_back(name);
    if (std::min(image.height, image.width) < options.crop) return statistics.too_small.push_back(name);
    const Split split = held_out ? Split::kValidation : Split::kTrain;
    for (const ImageRegion& window : windows_in(image.height, image.width, options, num_drawn)) {
      numbers[static_cast<size_t>(split)].push_back(crops.add(cropped(image, window)));
      ++num_drawn;
    }
    statistics.of(split).pictures.push_back(name);
  };
  if (!work_in_order(threads, slots.size(), options.stop_requested,
                     {.read = next_picture, .work = decode, .write = cut})) {
    return std::nullopt;
  }
  slots.clear();

  for (const Split split : kTrainAndValidation) {
    statistics.of(split).elements = std::ssize(numbers[static_cast<size_t>(split)]);
    if (statistics.of(split).elements > 0 || (split == Split::kValidation && num_held_out == 0)) continue;
    refuse(
        fmt::format("no picture {} is left: of {} pictures {} are held out, {} are smaller than crops of {} pixels, {} "
                    "are there before",
                    split == Split::kTrain ? "to train on" : "that is held out", pictures.size(), num_held_out,
                    statistics.too_small.size(), options.crop, statistics.repeated.size()));
  }
  for (const Split split : kTrainAndValidation) {
    const std::vector<int64_t>& of_split = numbers[static_cast<size_t>(split)];
    const KeyedPermutation order(of_split.size(), options.seed, {.epoch = static_cast<int64_t>(split)});
    size_t num_taken = 0;
    size_t num_written = 0;
    const bool finished = work_in_order<PairInFlight>(
        threads, options.stop_requested,
        [&](PairInFlight& work) {
          if (num_taken == of_split.size()) return false;
          work.shard = static_cast<size_t>(split) * kPairShards + num_taken % kPairShards;
          crops.read(of_split[order(num_taken++)], work.pixels);
          return true;
        },
        [&](PairInFlight& work) { work.record = pair_record(std::move(work.pixels), options.crop); },
        [&](PairInFlight& work) {
          writer.write(work.shard, work.record);
          show(kSplitNames[static_cast<size_t>(split)], ++num_written, of_split.size());
        });
    if (!finished) return std::nullopt;
  }
  writer.finish_shards();
  writer.commit({{.name = "statistics.json", .text = printed_json(statistics, 2) + "\n"}});
  return statistics;
}

PairSetStatistics read_pair_set(const std::string& folder) {
  const std::string path = path_in(folder, "statistics.json");
  const std::optional<std::string> text = find_whole_anywhere(path, "statistics of a set of pairs");
  if (!text) throw MissingData(fmt::format("there is no {}; prepare_super_resolution writes it", path));
  auto statistics = json_as<PairSetStatistics>(*text, path);
  if (statistics.scale == kUpscaling && statistics.shards == kPairShards && statistics.train.elements > 0 &&
      statistics.validation.elements >= 0 && statistics.crop > 0 && statistics.crop % kUpscaling == 0) {
    return statistics;
  }
  throw ErrorException(
      {.code = ErrorCode::kParse,
       .message =
           fmt::format("not of a set of pairs: scale {}, shards {}, crop {}, {} and {} elements", statistics.scale,
                       statistics.shards, statistics.crop, statistics.train.elements, statistics.validation.elements),
       .shard = path});
}

Shards pair_shards(const std::string& folder, PairSetStatistics statistics, Split split) {
  const int64_t elements = statistics.of(split).elements;
  if (elements == 0) refuse(fmt::format("'{}' has no pairs in '{}'", folder, to_string(split)));
  std::vector<std::string> paths;
  std::vector<uint64_t> counts;
  for (int64_t shard = 0; shard < kPairShards; ++shard) {
    paths.push_back(path_in(folder, fmt::format("{}/{}", to_string(split), pair_shard_name(shard))));
    counts.push_back(static_cast<uint64_t>((elements - shard + kPairShards - 1) / kPairShards));
  }
  return Shards::files(located(std::move(paths))).with_counts(counts);
}

}  // namespace millrace
