// The methods of Dataset as values: the arguments of each, in the order of its parameters, and how it is called with
// them. A dataset keeps the call that made it, so that it can be written down (pipeline_def.h). What each call has in a
// definition is in calls.cc.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pipeline/dataset.h"

namespace millrace::calls {

using Datasets = std::vector<Dataset>;

// Sources: `build()`.

struct Range {
  static constexpr std::string_view kField = "range";
  int64_t start{}, stop{}, step = 1;
  std::string feature = "value";
  Dataset build() const { return Dataset::range(start, stop, step, feature); }
};
struct Rows {
  static constexpr std::string_view kField = "rows";
  std::shared_ptr<const std::vector<MemoryFeature>> features;
  Dataset build() const { return Dataset::rows(*features); }
};
struct Tfrecord {
  static constexpr std::string_view kField = "tfrecord";
  std::optional<Shards> shards;
  TfrecordOptions options;
  Dataset build() const { return Dataset::tfrecord(*shards, options); }
};
struct GlobalShuffle {
  static constexpr std::string_view kField = "global_shuffle";
  std::optional<Shards> shards;
  GlobalShuffleOptions options;
  Dataset build() const { return Dataset::global_shuffle(*shards, options); }
};
struct TextLines {
  static constexpr std::string_view kField = "text_lines";
  std::optional<Shards> shards;
  FileReadOptions options;
  Dataset build() const { return Dataset::text_lines(*shards, options); }
};
struct FixedLengthRecords {
  static constexpr std::string_view kField = "fixed_length_records";
  std::optional<Shards> shards;
  FixedLengthFormat format;
  FileReadOptions options;
  Dataset build() const { return Dataset::fixed_length_records(*shards, format, options); }
};
struct CsvRecords {
  static constexpr std::string_view kField = "csv_records";
  std::optional<Shards> shards;
  CsvFormat format;
  FileReadOptions options;
  Dataset build() const { return Dataset::csv_records(*shards, format, options); }
};
struct FromGenerator {
  static constexpr std::string_view kField = "from_generator";
  std::optional<Generator> generator;
  Dataset build() const { return Dataset::from_generator(*generator); }
};
struct Load {
  static constexpr std::string_view kField = "load";
  std::string directory;
  Dataset build() const { return Dataset::load(directory); }
};

// Of several inputs: `build(inputs)`.

struct Interleave {
  static constexpr std::string_view kField = "interleave";
  InterleaveOptions options;
  Dataset build(const Datasets& inputs) const { return Dataset::interleave(inputs, options); }
};
struct Concatenate {
  static constexpr std::string_view kField = "concatenate";
  Dataset build(const Datasets& inputs) const { return Dataset::concatenate(inputs); }
};
struct FlatMapInputs {
  static constexpr std::string_view kField = "flat_map_inputs";
  Dataset build(const Datasets& inputs) const { return Dataset::flat_map(inputs); }
};
struct Zip {
  static constexpr std::string_view kField = "zip";
  Dataset build(const Datasets& inputs) const { return Dataset::zip(inputs); }
};
// The first input is the choices.
struct ChooseFromDatasets {
  static constexpr std::string_view kField = "choose_from_datasets";
  ChooseOptions options;
  Dataset build(const Datasets& inputs) const {
    return Dataset::choose_from_datasets({inputs.begin() + 1, inputs.end()}, inputs[0], options);
  }
};
struct SampleFromDatasets {
  static constexpr std::string_view kField = "sample_from_datasets";
  SampleOptions options;
  Dataset build(const Datasets& inputs) const { return Dataset::sample_from_datasets(inputs, options); }
};

// Of one input: `build(input)`.

struct ParseExample {
  static constexpr std::string_view kField = "parse_example";
  std::vector<FeatureDescription> features;
  Dataset build(const Dataset& input) const { return input.parse_example(features); }
};
struct ParseSequenceExample {
  static constexpr std::string_view kField = "parse_sequence_example";
  std::vector<FeatureDescription> context, feature_lists;
  Dataset build(const Dataset& input) const { return input.parse_sequence_example(context, feature_lists); }
};
struct ParseCsv {
  static constexpr std::string_view kField = "parse_csv";
  std::vector<CsvColumn> columns;
  CsvFormat format;
  DamagePolicy::Action damage{};
  Dataset build(const Dataset& input) const { return input.parse_csv(columns, format, {.action = damage}); }
};
struct DecodeRaw {
  static constexpr std::string_view kField = "decode_raw";
  std::string feature;
  RawType type{};
  DecodeRawOptions options;
  Dataset build(const Dataset& input) const { return input.decode_raw(feature, type, options); }
};
struct ParseTensor {
  static constexpr std::string_view kField = "parse_tensor";
  std::string feature;
  DType dtype{};
  Shape shape;
  ParseTensorOptions options;
  Dataset build(const Dataset& input) const { return input.parse_tensor(feature, dtype, shape, options); }
};
struct Map {
  static constexpr std::string_view kField = "map";
  RowFunction function;
  Dataset build(const Dataset& input) const { return input.map(function); }
};
struct MapBlocks {
  static constexpr std::string_view kField = "map_blocks";
  BlockFunction function;
  Dataset build(const Dataset& input) const { return input.map(function); }
};
struct Filter {
  static constexpr std::string_view kField = "filter";
  RowPredicate predicate;
  Dataset build(const Dataset& input) const { return input.filter(predicate); }
};
struct FilterBlocks {
  static constexpr std::string_view kField = "filter_blocks";
  BlockPredicate predicate;
  Dataset build(const Dataset& input) const { return input.filter(predicate); }
};
struct FlatMap {
  static constexpr std::string_view kField = "flat_map";
  DatasetFunction function;
  Dataset build(const Dataset& input) const { return input.flat_map(function); }
};
struct InterleaveFunction {
  static constexpr std::string_view kField = "interleave_function";
  DatasetFunction function;
  InterleaveOptions options;
  Dataset build(const Dataset& input) const { return input.interleave(function, options); }
};
struct TakeWhile {
  static constexpr std::string_view kField = "take_while";
  RowPredicate predicate;
  Dataset build(const Dataset& input) const { return input.take_while(predicate); }
};
struct Scan {
  static constexpr std::string_view kField = "scan";
  ScanFunction function;
  Dataset build(const Dataset& input) const { return input.scan(function); }
};
struct Add {
  static constexpr std::string_view kField = "add";
  std::string feature;
  std::variant<int64_t, double> k;
  Dataset build(const Dataset& input) const {
    return std::visit([&](auto number) { return input.add(feature, number); }, k);
  }
};
struct Multiply {
  static constexpr std::string_view kField = "multiply";
  std::string feature;
  std::variant<int64_t, double> k;
  Dataset build(const Dataset& input) const {
    return std::visit([&](auto number) { return input.multiply(feature, number); }, k);
  }
};
struct Modulo {
  static constexpr std::string_view kField = "modulo";
  std::string feature;
  int64_t k{};
  Dataset build(const Dataset& input) const { return input.modulo(feature, k); }
};
struct Cast {
  static constexpr std::string_view kField = "cast";
  std::string feature;
  DType to{};
  Dataset build(const Dataset& input) const { return input.cast(feature, to); }
};
struct Enumerate {
  static constexpr std::string_view kField = "enumerate";
  int64_t start = 0;
  std::string feature = "index";
  Dataset build(const Dataset& input) const { return input.enumerate(start, feature); }
};
struct Unique {
  static constexpr std::string_view kField = "unique";
  std::string feature;
  Dataset build(const Dataset& input) const { return input.unique(feature); }
};
struct MaskTokens {
  static constexpr std::string_view kField = "mask_tokens";
  MaskTokensOptions options;
  Dataset build(const Dataset& input) const { return input.mask_tokens(options); }
};
struct CorruptSpans {
  static constexpr std::string_view kField = "corrupt_spans";
  CorruptSpansOptions options;
  Dataset build(const Dataset& input) const { return input.corrupt_spans(options); }
};
struct Rename {
  static constexpr std::string_view kField = "rename";
  std::map<std::string, std::string> names;
  Dataset build(const Dataset& input) const { return input.rename(names); }
};
struct Select {
  static constexpr std::string_view kField = "select";
  std::vector<std::string> features;
  Dataset build(const Dataset& input) const { return input.select(features); }
};
struct Drop {
  static constexpr std::string_view kField = "drop";
  std::vector<std::string> features;
  Dataset build(const Dataset& input) const { return input.drop(features); }
};
struct OneHot {
  static constexpr std::string_view kField = "one_hot";
  std::string feature;
  int64_t depth{};
  OneHotOptions options;
  Dataset build(const Dataset& input) const { return input.one_hot(feature, depth, options); }
};
struct Truncate {
  static constexpr std::string_view kField = "truncate";
  TruncateOptions options;
  Dataset build(const Dataset& input) const { return input.truncate(options); }
};
struct TruncatePair {
  static constexpr std::string_view kField = "truncate_pair";
  TruncatePairOptions options;
  Dataset build(const Dataset& input) const { return input.truncate_pair(options); }
};
struct RejectionResample {
  static constexpr std::string_view kField = "rejection_resample";
  RejectionResampleOptions options;
  Dataset build(const Dataset& input) const { return input.rejection_resample(options); }
};
struct AugmentImages {
  static constexpr std::string_view kField = "augment_images";
  AugmentImagesOptions options;
  Dataset build(const Dataset& input) const { return input.augment_images(options); }
};
struct Mixup {
  static constexpr std::string_view kField = "mixup";
  MixupOptions options;
  Dataset build(const Dataset& input) const { return input.mixup(options); }
};
struct Cutmix {
  static constexpr std::string_view kField = "cutmix";
  CutmixOptions options;
  Dataset build(const Dataset& input) const { return input.cutmix(options); }
};
struct Take {
  static constexpr std::string_view kField = "take";
  int64_t count{};
  Dataset build(const Dataset& input) const { return input.take(count); }
};
struct Skip {
  static constexpr std::string_view kField = "skip";
  int64_t count{};
  Dataset build(const Dataset& input) const { return input.skip(count); }
};
struct Shard {
  static constexpr std::string_view kField = "shard";
  int64_t num_shards{}, index{};
  Dataset build(const Dataset& input) const { return input.shard(num_shards, index); }
};
struct Repeat {
  static constexpr std::string_view kField = "repeat";
  int64_t count = -1;
  Dataset build(const Dataset& input) const { return input.repeat(count); }
};
struct Shuffle {
  static constexpr std::string_view kField = "shuffle";
  int64_t buffer_size{};
  ShuffleOptions options;
  Dataset build(const Dataset& input) const { return input.shuffle(buffer_size, options); }
};
struct AssertCardinality {
  static constexpr std::string_view kField = "assert_cardinality";
  int64_t count{};
  Dataset build(const Dataset& input) const { return input.assert_cardinality(count); }
};
struct DamageBudget {
  static constexpr std::string_view kField = "damage_budget";
  DamagePolicy policy;
  Dataset build(const Dataset& input) const { return input.damage_budget(policy); }
};
struct IgnoreErrors {
  static constexpr std::string_view kField = "ignore_errors";
  Dataset build(const Dataset& input) const { return input.ignore_errors(); }
};
struct Cache {
  static constexpr std::string_view kField = "cache";
  CacheOptions options;
  Dataset build(const Dataset& input) const { return input.cache(options); }
};
struct Snapshot {
  static constexpr std::string_view kField = "snapshot";
  std::string directory;
  Dataset build(const Dataset& input) const { return input.snapshot(directory); }
};
struct Prefetch {
  static constexpr std::string_view kField = "prefetch";
  int64_t buffer_size{};
  Dataset build(const Dataset& input) const { return input.prefetch(buffer_size); }
};
struct Batch {
  static constexpr std::string_view kField = "batch";
  int64_t size{};
  BatchOptions options;
  Dataset build(const Dataset& input) const { return input.batch(size, options); }
};
struct PaddedBatch {
  static constexpr std::string_view kField = "padded_batch";
  int64_t size{};
  PaddedBatchOptions options;
  Dataset build(const Dataset& input) const { return input.padded_batch(size, options); }
};
struct RaggedBatch {
  static constexpr std::string_view kField = "ragged_batch";
  int64_t size{};
  RaggedBatchOptions options;
  Dataset build(const Dataset& input) const { return input.ragged_batch(size, options); }
};
struct Unbatch {
  static constexpr std::string_view kField = "unbatch";
  Dataset build(const Dataset& input) const { return input.unbatch(); }
};
struct Rebatch {
  static constexpr std::string_view kField = "rebatch";
  int64_t size{};
  BatchOptions options;
  Dataset build(const Dataset& input) const { return input.rebatch(size, options); }
};
struct BucketBySequenceLength {
  static constexpr std::string_view kField = "bucket_by_sequence_length";
  std::vector<std::string> features;
  std::vector<int64_t> boundaries, batch_sizes;
  BucketOptions options;
  Dataset build(const Dataset& input) const {
    return input.bucket_by_sequence_length(features, boundaries, batch_sizes, options);
  }
};
struct GroupByWindow {
  static constexpr std::string_view kField = "group_by_window";
  RowKey key;
  WindowSize window_size = 0;
  GatherOptions batches;
  Dataset build(const Dataset& input) const { return input.group_by_window(key, window_size, batches); }
};
struct Window {
  static constexpr std::string_view kField = "window";
  int64_t size{};
  WindowOptions options;
  GatherOptions batches;
  Dataset build(const Dataset& input) const { return input.window(size, options, batches); }
};
struct Pack {
  static constexpr std::string_view kField = "pack";
  int64_t length{};
  PackOptions options;
  Dataset build(const Dataset& input) const { return input.pack(length, options); }
};

// Each of them.
using AnyCall =
    std::variant<Range, Rows, Tfrecord, TextLines, GlobalShuffle, FixedLengthRecords, CsvRecords, FromGenerator, Load,
                 Interleave, Concatenate, FlatMapInputs, Zip, ChooseFromDatasets, SampleFromDatasets, ParseExample,
                 ParseSequenceExample, ParseCsv, DecodeRaw, ParseTensor, Map, MapBlocks, Filter, FilterBlocks, FlatMap,
                 InterleaveFunction, TakeWhile, Scan, Add, Multiply, Modulo, Cast, Enumerate, Unique, MaskTokens,
                 CorruptSpans, Rename, Select, Drop, OneHot, Truncate, TruncatePair, RejectionResample, AugmentImages,
                 Mixup, Cutmix, Take, Skip, Shard, Repeat, Shuffle, AssertCardinality, IgnoreErrors, DamageBudget,
                 Cache, Snapshot, Prefetch, Batch, PaddedBatch, RaggedBatch, Unbatch, Rebatch, BucketBySequenceLength,
                 GroupByWindow, Window, Pack>;

}  // namespace millrace::calls

namespace millrace::def {
class Step;
}  // namespace millrace::def

namespace millrace {

/// How the method was called that made a node of a plan.
struct BuilderCall {
  calls::AnyCall call;
};

/// Writes the call to `step`. Throws `kInvalidArgument` for a function of yours that is not registered.
void write_call(const BuilderCall& call, def::Step& step);
/// Calls the method that `step` names with what it says. Throws `kInvalidArgument`.
[[nodiscard]] Dataset call_builder(const def::Step& step, const std::vector<Dataset>& inputs);

}  // namespace millrace
