#include "benchmarks/workloads.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "benchmarks/bench_shards.h"
#include "benchmarks/workload_features.h"
#include "millrace/formats/example/survey.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/utf8.h"
#include "millrace/pipeline/definition/pipeline_def.h"

namespace millrace {
namespace {

// A run of them would end at once, with a count of batches that does not say why.
void refuse_empty_files(const std::string& pattern) {
  const Shards& shards = bench_shards(pattern);
  const auto is_empty = [](const Shard& shard) { return known_size(shard.path) == 0U; };
  if (!std::ranges::all_of(shards.list(), is_empty)) return;
  throw ErrorException({.code = ErrorCode::kInvalidArgument,
                        .message = fmt::format("{} of 0 bytes, without a record; give TFRecord files that hold some",
                                               shards.size() == 1 ? "a file" : fmt::format("{} files", shards.size())),
                        .shard = pattern});
}

Dataset records(const BenchOptions& options, bool shuffle_shards = false) {
  return Dataset::tfrecord(bench_shards(options.shards), {.cycle_length = static_cast<size_t>(options.cycle_length),
                                                          .block_length = static_cast<size_t>(options.block_length),
                                                          .shuffle_shards = shuffle_shards,
                                                          .seed = options.seed,
                                                          .ordered = options.ordered,
                                                          .damage = options.damage,
                                                          .chunk_bytes = static_cast<size_t>(options.chunk_bytes),
                                                          .read_ahead = static_cast<size_t>(options.read_ahead)});
}

MadeWorkload read_workload(const BenchOptions& options) {
  return {records(options).repeat().batch(options.batch, {.drop_remainder = true}).prefetch(options.prefetch)};
}

// The same records in one random order of all shards, another one in each epoch.
MadeWorkload global_shuffle_workload(const BenchOptions& options) {
  return {Dataset::global_shuffle(bench_shards(options.shards), {.seed = options.seed, .damage = options.damage})
              .repeat()
              .batch(options.batch, {.drop_remainder = true})
              .prefetch(options.prefetch)};
}

// Unless the user has said how many rows of this mean size are shuffled: no more than take a gibibyte, on any machine.
int64_t rows_to_shuffle(const BenchOptions& options, int64_t row_bytes) {
  constexpr int64_t kMostBytes = 1 << 30;
  if (options.shuffle_was_given) return options.shuffle;
  return std::clamp<int64_t>(kMostBytes / std::max<int64_t>(row_bytes, 1), 1, options.shuffle);
}

// The picture of each record, and its class where there is one; nothing where there are no pictures.
std::vector<FeatureDescription> picture_features(const std::vector<FeatureDescription>& proposal) {
  std::vector<FeatureDescription> features;
  for (const FeatureDescription& feature : proposal) {
    const bool is_picture = feature.name == kEncodedImage && feature.stored == DType::kBytes;
    const bool is_class = feature.name == kImageLabel && feature.stored == DType::kInt64;
    const bool is_one = feature.kind == FeatureDescription::kFixedLen && num_values(feature.shape) == 1;
    if ((is_picture || is_class) && is_one) features.push_back(fixed_len(feature.key, {}, feature.stored));
  }
  const bool has_pictures = std::ranges::any_of(features, [](const auto& f) { return f.name == kEncodedImage; });
  return has_pictures ? features : std::vector<FeatureDescription>();
}

// As a network is trained on pictures: random resized crops, every second one flipped, mean and deviation of ImageNet.
Dataset augmented_pictures(const Dataset& rows, uint64_t seed, bool scaled = false) {
  const std::string image(kEncodedImage);
  return rows.decode_image(image, jpeg_decoding(seed, scaled))
      .resize({.feature = image, .height = kPictureSide, .width = kPictureSide})
      .augment_images({.features = {image}, .flip_left_right = true, .seed = seed})
      .normalize(picture_normalization());
}

// What the records are like is found out: the features of them, or the records as they are where there are none.
MadeWorkload examples_workload(const BenchOptions& options) {
  constexpr int64_t kLookedAt = 256;
  ExampleSurvey survey;
  std::optional<Error> refused;
  int64_t num_records = 0;
  int64_t bytes = 0;
  BenchOptions in_order = options;
  in_order.ordered = true;  // the same records each time
  Pipeline pipeline = records(in_order).take(kLookedAt).start({.threads = 1});
  for (; const std::optional<Batch> batch = pipeline.next(); ++num_records) {
    const std::string_view record = batch->values<std::string_view>("record")[0];
    bytes += static_cast<int64_t>(record.size());
    try {
      survey.add(record);
    } catch (const ErrorException& exception) {
      if (refused) continue;
      refused = exception.error();
      batch->block().origins().locate(0, *refused);
    }
  }
  if (num_records == 0) {
    throw ErrorException(
        {.code = ErrorCode::kInvalidArgument, .message = "there are no records", .shard = options.shards});
  }
  const std::vector<FeatureDescription> proposal = survey.proposal();
  const bool has_examples = !proposal.empty();
  if (refused && has_examples) {
    refused->message +=
        "; what the first records are like cannot be told: measure them as they are with the workload read, or write "
        "the pipeline down for --pipeline";
    throw ErrorException(std::move(*refused));
  }
  const bool fixed = std::all_of(proposal.begin(), proposal.end(), [](const FeatureDescription& feature) {
    return feature.kind == FeatureDescription::kFixedLen;
  });
  const int64_t shuffled = rows_to_shuffle(options, bytes / num_records);
  Dataset rows = records(options, /*shuffle_shards=*/true);
  const std::vector<FeatureDescription> pictures = picture_features(proposal);
  if (has_examples) rows = rows.parse_example(pictures.empty() ? proposal : pictures);
  rows = rows.shuffle(shuffled, {.seed = options.seed}).repeat();
  if (!pictures.empty()) rows = augmented_pictures(rows, options.seed);
  rows = fixed || !pictures.empty() ? rows.batch(options.batch, {.drop_remainder = true})
                                    : rows.padded_batch(options.batch, {.drop_remainder = true});
  const std::string by = shuffled == options.shuffle ? "shuffled" : fmt::format("shuffled by {}", shuffled);
  const std::vector<std::string> left_out = survey.left_out();
  const size_t others = left_out.size() - std::min<size_t>(left_out.size(), 1);
  std::string remark;
  if (!pictures.empty()) {
    remark = fmt::format(
        "{} records looked at; {} and decoded: random resized crops of 224, flipped, normalized and batched:\n{}",
        num_records, by, survey.to_string());
  } else if (has_examples) {
    const std::string parsed = left_out.empty() ? "all features are parsed"
                                                : fmt::format("their features are parsed, but for {} that {} left out",
                                                              left_out.size(), others == 0 ? "is" : "are");
    remark = fmt::format("{} records looked at; {}, {} and {}:\n{}", num_records, parsed, by,
                         fixed ? "batched" : "batched with padding", survey.to_string());
  } else {
    const std::string why = refused            ? printable(refused->message)
                            : left_out.empty() ? "without a feature"
                                               : fmt::format("left out: {}{}", left_out[0],
                                                             others == 0 ? "" : fmt::format("; and {} more", others));
    remark = fmt::format(
        "{} records looked at; they are no tensorflow.Examples with features ({}): {} and batched as they are\n",
        num_records, why, by);
  }
  return {rows.prefetch(options.prefetch), std::move(remark), shuffled};
}

// The masked language model of RoBERTa as trained from scratch: ids and mask of 512 positions, new masks each epoch.
MadeWorkload mlm_workload(const BenchOptions& options) {
  return {records(options, /*shuffle_shards=*/true)
              .parse_example(mlm_features())
              .shuffle(options.shuffle, {.seed = options.seed})
              .repeat()
              .batch(options.batch, {.drop_remainder = true})
              .mask_tokens(mlm_masking(options.seed))
              .prefetch(options.prefetch)};
}

// Question answering with two texts a row, as fine-tuning on a small set does it: the parsed rows may stay in memory.
MadeWorkload quest_workload(const BenchOptions& options) {
  Dataset rows = records(options).parse_example(quest_features());
  if (options.cache) rows = rows.cache();
  return {rows.shuffle(options.shuffle, {.seed = options.seed})
              .repeat()
              .batch(options.batch, {.drop_remainder = true})
              .prefetch(options.prefetch)};
}

Dataset token_rows(const BenchOptions& options) { return records(options).parse_example(token_features()).repeat(); }

// Texts of any length, as translation models batch them.
MadeWorkload bucket_workload(const BenchOptions& options) {
  return {token_rows(options)
              .bucket_by_sequence_length({"tokens"}, {32, 64, 128, 256, 512}, {256, 256, 128, 64, 32, 16})
              .prefetch(options.prefetch)};
}

MadeWorkload pad_workload(const BenchOptions& options) {
  return {token_rows(options)
              .shuffle(options.shuffle, {.seed = options.seed})
              .padded_batch(options.batch)
              .prefetch(options.prefetch)};
}

// Pairs of images for super-resolution, each a serialised TensorProto.
MadeWorkload images_workload(const BenchOptions& options) {
  std::vector<FeatureDescription> features;
  for (const WorkloadImage& image : workload_images()) features.push_back(fixed_len(image.feature, {}, DType::kBytes));
  Dataset images = records(options).parse_example(std::move(features));
  for (const WorkloadImage& image : workload_images()) {
    images = images.parse_tensor(image.feature, DType::kFloat32, image.shape);
  }
  return {images.repeat().batch(options.batch, {.drop_remainder = true}).prefetch(options.prefetch)};
}

// Photographs for a classifier.
MadeWorkload pictures_workload(const BenchOptions& options, bool scaled) {
  const Dataset rows = records(options, /*shuffle_shards=*/true)
                           .parse_example(jpeg_features())
                           .shuffle(options.shuffle, {.seed = options.seed})
                           .repeat();
  return {augmented_pictures(rows, options.seed, scaled)
              .batch(options.batch, {.drop_remainder = true})
              .prefetch(options.prefetch)};
}

MadeWorkload jpeg_workload(const BenchOptions& options) { return pictures_workload(options, /*scaled=*/false); }
MadeWorkload jpeg_scaled_workload(const BenchOptions& options) { return pictures_workload(options, /*scaled=*/true); }

constexpr int64_t kEndless = 1'000'000'000'000;

MadeWorkload noop_workload(const BenchOptions& options) {
  Dataset numbers = Dataset::range(0, kEndless);
  for (int i = 0; i < kNoopMaps; ++i) numbers = numbers.add("value", 1);
  return {numbers.batch(options.batch).prefetch(options.prefetch)};
}

MadeWorkload noop_rows_workload(const BenchOptions& options) {
  Dataset numbers = Dataset::range(0, kEndless);
  for (int i = 0; i < kNoopMaps; ++i) {
    numbers = numbers.map(RowFunction{
        .name = "add_one",
        .writes = {{.name = "value", .dtype = DType::kInt64, .shape = {}}},
        .function = [](const RowView& row, RowWriter& out) { out.set("value", row.value<int64_t>("value") + 1); }});
  }
  return {numbers.batch(options.batch).prefetch(options.prefetch)};
}

}  // namespace

std::span<const Workload> all_workloads() {
  static constexpr Workload::Defaults kShuffled = {
      .batch = 128, .shuffle = 16384, .cycle_length = 16, .takes_seed = true};
  static constexpr Workload::Defaults kPictures = {
      .batch = 64, .shuffle = 1024, .cycle_length = 16, .takes_seed = true};
  static constexpr std::array kWorkloads = {
      Workload{"read", "the records as they are, in batches of 128", {.batch = 128, .cycle_length = 16}, read_workload},
      Workload{"global_shuffle",
               "the same in one random order of all shards, which dataset_index has indexed",
               {.batch = 128, .takes_seed = true},
               global_shuffle_workload},
      Workload{"examples", "any TFRecords: all features of their tensorflow.Examples, or as they are; shuffled",
               kShuffled, examples_workload},
      Workload{"mlm", "masked language model: parse 512 ids and mask, shuffle, batch 128, mask tokens", kShuffled,
               mlm_workload},
      Workload{"mlm_gz", "the same of compressed shards", kShuffled, mlm_workload},
      Workload{"quest",
               "two texts of 416 and 480 ids with masks and 30 labels; shuffle 2,048, batch 64",
               {.batch = 64, .shuffle = 2048, .cycle_length = 4, .takes_seed = true, .takes_cache = true},
               quest_workload},
      Workload{"bucket",
               "texts of any length in buckets of 32 to 512 tokens, 256 to 16 rows in a batch",
               {.cycle_length = 16},
               bucket_workload},
      Workload{"pad",
               "the same shuffled, in batches of 128 padded to the longest",
               {.batch = 128, .shuffle = 4096, .cycle_length = 16, .takes_seed = true},
               pad_workload},
      Workload{"images",
               "pairs of images of 128 and 512 pixels as TensorProtos, batch 8",
               {.batch = 8, .cycle_length = 8},
               images_workload},
      Workload{"jpeg", "pictures: shuffle 1,024, decode random resized crops of 224, flip, normalize, batch 64",
               kPictures, jpeg_workload},
      Workload{"jpeg_scaled", "the same, large crops decoded at a half, a quarter or an eighth of their size",
               kPictures, jpeg_scaled_workload},
      Workload{"noop",
               "what the stages cost: numbers, 4 maps of the engine, batch 1,024; no shards",
               {.batch = 1024, .takes_shards = false},
               noop_workload},
      Workload{"noop_rows",
               "the same with functions that are called for each row",
               {.batch = 1024, .takes_shards = false},
               noop_rows_workload},
  };
  return kWorkloads;
}

const Workload& find_workload(std::string_view name) {
  std::string names;
  for (const Workload& workload : all_workloads()) {
    if (workload.name == name) return workload;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", workload.name);
  }
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("no workload and no file '{}'; workloads: {}", name, names));
}

MadeWorkload make_workload(const BenchOptions& options) {
  if (!options.pipeline.empty()) return {PipelineDef::load(options.pipeline).dataset()};
  const Workload& workload = find_workload(options.workload);
  if (workload.defaults.takes_shards && !options.shards.empty()) refuse_empty_files(options.shards);
  return workload.make(options);
}

}  // namespace millrace
