#include "millrace/pipeline/dataset.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "millrace/formats/elements/elements_folder.h"
#include "millrace/ops/batch/rebatch.h"
#include "millrace/ops/batch/unbatch.h"
#include "millrace/ops/combine/concatenate.h"
#include "millrace/ops/combine/flat_map.h"
#include "millrace/ops/combine/interleave_function.h"
#include "millrace/ops/combine/zip.h"
#include "millrace/ops/features/drop.h"
#include "millrace/ops/features/rename.h"
#include "millrace/ops/features/select.h"
#include "millrace/ops/flow/assert_cardinality.h"
#include "millrace/ops/flow/damage_budget.h"
#include "millrace/ops/flow/enumerate.h"
#include "millrace/ops/flow/ignore_errors.h"
#include "millrace/ops/flow/prefetch.h"
#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/flow/shard.h"
#include "millrace/ops/flow/skip.h"
#include "millrace/ops/flow/take.h"
#include "millrace/ops/flow/take_while.h"
#include "millrace/ops/flow/unique.h"
#include "millrace/ops/keep/load.h"
#include "millrace/ops/keep/save.h"
#include "millrace/ops/keep/snapshot.h"
#include "millrace/ops/parse/parse_sequence_example.h"
#include "millrace/ops/sources/text_lines.h"
#include "millrace/pipeline/plan/nested_arguments.h"
#include "millrace/pipeline/plan/stream_identity.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/run/inline_plan.h"
#include "millrace/pipeline/run/lowered_plan.h"

namespace millrace {
namespace {

// An operator of what is in its arguments, after what it needs to know of its inputs: the first, all of them, or
// nothing. One that draws random numbers takes its occurrence after them: how many of its name are before it.
template <typename Op, typename... Values>
std::shared_ptr<const Operator> make_operator(std::span<const SchemaPtr> inputs, uint64_t occurrence,
                                              const Values&... values) {
  if constexpr (std::is_constructible_v<Op, std::span<const SchemaPtr>, Values..., uint64_t>) {
    return std::make_shared<const Op>(inputs, values..., occurrence);
  } else if constexpr (std::is_constructible_v<Op, std::span<const SchemaPtr>, Values...>) {
    return std::make_shared<const Op>(inputs, values...);
  } else if constexpr (std::is_constructible_v<Op, SchemaPtr, Values..., uint64_t>) {
    return std::make_shared<const Op>(inputs[0], values..., occurrence);
  } else if constexpr (std::is_constructible_v<Op, SchemaPtr, Values...>) {
    return std::make_shared<const Op>(inputs[0], values...);
  } else {
    return std::make_shared<const Op>(values...);
  }
}

// What `function` makes as the operator called `name` runs it.
NestedFunction nested_function(std::string_view name, const DatasetFunction& function) {
  if (!function.make) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: no function given", name));
  }
  NestedFunction nested;
  nested.name = function.name;
  nested.schema = std::make_shared<const Schema>(function.gives);
  // What the maps of nested datasets drop is nobody's to report.
  nested.open = [name, make = function.make, schema = nested.schema,
                 statistics = std::make_shared<StageStatistics>()](const RowView& row) {
    const Dataset dataset = make(row);
    const JoinedSchema joined(name, std::array{schema, dataset.plan()->op->schema()});
    if (!(*joined.schema() == *schema)) {
      throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("a nested dataset gives {}, not {}",
                                                                    dataset.schema().to_string(), schema->to_string()));
    }
    return joined.opener(1, inline_opener(*dataset.plan(), *statistics));
  };
  return nested;
}

}  // namespace

template <typename Op, typename Of>
Dataset Dataset::made(const std::vector<Dataset>& inputs, Of arguments) {
  auto shared = std::make_shared<const ArgumentsOf<Of>>(std::move(arguments));
  std::vector<PlanNodePtr> plans;
  uint64_t occurrence = 0;
  for (const Dataset& input : inputs) {
    plans.push_back(input.plan_);
    occurrence = std::max(occurrence, count_upstream(*input.plan_, description_of<Of>().name));
  }
  const MakeOperator make = [shared, occurrence](std::span<const SchemaPtr> schemas) {
    return description_of<Of>().apply(shared->value, [&](const auto&... values) {
      return make_operator<Op>(schemas, occurrence, unwrapped(values)...);
    });
  };
  return Dataset(make_plan_node(std::move(plans), make, shared));
}

template <typename Op, typename Of>
Dataset Dataset::then(Of arguments) const {
  return made<Op>({*this}, std::move(arguments));
}

template <typename Of>
Dataset Dataset::called(Of arguments) const {
  PlanNode node = *plan_;
  node.arguments = std::make_shared<const ArgumentsOf<Of>>(std::move(arguments));
  return Dataset(std::make_shared<const PlanNode>(std::move(node)));
}

Dataset Dataset::range(int64_t start, int64_t stop, int64_t step, std::string feature) {
  return made<RangeOperator>({}, RangeArguments{start, stop, step, std::move(feature)});
}
Dataset Dataset::tfrecord(const Shards& shards, const TfrecordOptions& options) {
  return made<TfrecordOperator>({}, TfrecordArguments{shards, options});
}
Dataset Dataset::files(const Shards& files, const FilesOptions& options) {
  return made<FilesOperator>({}, FilesArguments{files, options});
}

Dataset Dataset::text_lines(const Shards& shards, const FileReadOptions& options) {
  return made<TextLinesOperator>({}, TextLinesArguments{shards, options});
}
Dataset Dataset::fixed_length_records(const Shards& shards, const FixedLengthFormat& format,
                                      const FileReadOptions& options) {
  return made<FixedLengthRecordsOperator>({}, FixedLengthRecordsArguments{shards, format, options});
}
Dataset Dataset::global_shuffle(const Shards& shards, const GlobalShuffleOptions& options) {
  return made<GlobalShuffleOperator>({}, GlobalShuffleArguments{shards, options});
}
Dataset Dataset::csv_records(const Shards& shards, const CsvFormat& format, const FileReadOptions& options) {
  return made<CsvRecordsOperator>({}, CsvRecordsArguments{shards, format, options});
}
Dataset Dataset::csv(const Shards& shards, std::vector<CsvColumn> columns, const CsvFormat& format,
                     const FileReadOptions& options) {
  CsvFormat of_files = format;
  of_files.missing.clear();
  of_files.select_columns.clear();
  CsvFormat of_records = format;
  of_records.header = false;
  // What files and records lose is held against one budget, after both.
  FileReadOptions without_budget = options;
  without_budget.damage = {.action = options.damage.action};
  return csv_records(shards, of_files, without_budget).parse_csv(std::move(columns), of_records, options.damage);
}

// A node of one operator, which need not be made again.
Dataset Dataset::rows(std::vector<MemoryFeature> features) {
  auto shared = std::make_shared<const std::vector<MemoryFeature>>(std::move(features));
  std::shared_ptr<const Operator> op = std::make_shared<const RowsOperator>(*shared);
  return from_operator({}, [op](std::span<const SchemaPtr>) { return op; }).called(RowsArguments{std::move(shared)});
}
Dataset Dataset::from_generator(Generator generator) {
  return made<FromGeneratorOperator>({}, FromGeneratorArguments{std::move(generator)});
}

namespace {

std::shared_ptr<const Operator> load_operator(std::shared_ptr<const ElementsIndex> index, const std::string& directory,
                                              bool local) {
  if (index == nullptr) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("load: '{}' holds no elements: there is no {} in it, which is written last",
                                     directory, ElementsIndex::kFileName));
  }
  return std::make_shared<const LoadOperator>(std::move(index), local);
}

}  // namespace

Dataset Dataset::load(const std::string& directory) {
  auto op = load_operator(find_elements(directory), directory, /*local=*/true);
  return from_operator({}, [op](std::span<const SchemaPtr>) { return op; }).called(LoadArguments{directory});
}
Dataset Dataset::load(Storage& storage, const std::string& directory) {
  auto op = load_operator(ElementsIndex::find(storage, directory), directory, /*local=*/false);
  return from_operator({}, [op](std::span<const SchemaPtr>) { return op; }).called(LoadArguments{directory});
}

Dataset Dataset::interleave(const std::vector<Dataset>& inputs, const InterleaveOptions& options) {
  return made<InterleaveOperator>(inputs, InterleaveArguments{options});
}
Dataset Dataset::concatenate(const std::vector<Dataset>& inputs) {
  return made<ConcatenateOperator>(inputs, ConcatenateArguments{});
}
Dataset Dataset::flat_map(const std::vector<Dataset>& inputs) {
  return made<FlatMapInputsOperator>(inputs, FlatMapInputsArguments{});
}
Dataset Dataset::flat_map(const DatasetFunction& function) const {
  return from_operator({*this},
                       [nested = nested_function("flat_map", function)](std::span<const SchemaPtr>) {
                         return std::make_shared<const FlatMapOperator>(nested);
                       })
      .called(FlatMapArguments{function});
}
Dataset Dataset::interleave(const DatasetFunction& function, const InterleaveOptions& options) const {
  return from_operator({*this},
                       [nested = nested_function("interleave", function), options](std::span<const SchemaPtr>) {
                         return std::make_shared<const InterleaveFunctionOperator>(nested, options);
                       })
      .called(InterleaveFunctionArguments{function, options});
}
Dataset Dataset::zip(const std::vector<Dataset>& inputs) { return made<ZipOperator>(inputs, ZipArguments{}); }
Dataset Dataset::choose_from_datasets(const std::vector<Dataset>& inputs, const Dataset& choices,
                                      const ChooseOptions& options) {
  std::vector<Dataset> all{choices};
  all.insert(all.end(), inputs.begin(), inputs.end());
  return made<ChooseFromDatasetsOperator>(all, ChooseFromDatasetsArguments{options});
}
Dataset Dataset::sample_from_datasets(const std::vector<Dataset>& inputs, const SampleOptions& options) {
  return made<SampleFromDatasetsOperator>(inputs, SampleFromDatasetsArguments{options});
}

Dataset Dataset::from_operator(const std::vector<Dataset>& inputs, MakeOperator make) {
  std::vector<PlanNodePtr> plans;
  plans.reserve(inputs.size());
  for (const Dataset& input : inputs) plans.push_back(input.plan_);
  return Dataset(make_plan_node(std::move(plans), std::move(make)));
}

Dataset Dataset::parse_example(std::vector<FeatureDescription> features) const {
  return then<ParseExampleOperator>(ParseExampleArguments{std::move(features)});
}
Dataset Dataset::parse_sequence_example(std::vector<FeatureDescription> context,
                                        std::vector<FeatureDescription> feature_lists) const {
  return then<ParseSequenceExampleOperator>(
      ParseSequenceExampleArguments{std::move(context), std::move(feature_lists)});
}
Dataset Dataset::parse_csv(std::vector<CsvColumn> columns, const CsvFormat& format, const DamagePolicy& damage) const {
  damage.check();
  const Dataset parsed = then<ParseCsvOperator>(ParseCsvArguments{std::move(columns), format, damage.action});
  return damage.has_budget() ? parsed.damage_budget(damage) : parsed;
}
Dataset Dataset::decode_image(const std::string& feature, const DecodeImageOptions& options) const {
  return then<DecodeImageOperator>(DecodeImageArguments{feature, options});
}
Dataset Dataset::decode_raw(const std::string& feature, RawType type, const DecodeRawOptions& options) const {
  return then<DecodeRawOperator>(DecodeRawArguments{feature, type, options});
}
Dataset Dataset::parse_tensor(const std::string& feature, DType dtype, const Shape& shape,
                              const ParseTensorOptions& options) const {
  return then<ParseTensorOperator>(ParseTensorArguments{feature, dtype, shape, options});
}
Dataset Dataset::map(RowFunction function) const { return then<MapRowsOperator>(MapArguments{std::move(function)}); }
Dataset Dataset::map(const BlockFunction& function) const {
  return then<MapBlocksOperator>(MapBlocksArguments{function});
}
Dataset Dataset::add(const std::string& feature, int64_t k) const {
  return then<AddOperator>(AddArguments{feature, k});
}
Dataset Dataset::add(const std::string& feature, double k) const { return then<AddOperator>(AddArguments{feature, k}); }
Dataset Dataset::multiply(const std::string& feature, int64_t k) const {
  return then<MultiplyOperator>(MultiplyArguments{feature, k});
}
Dataset Dataset::multiply(const std::string& feature, double k) const {
  return then<MultiplyOperator>(MultiplyArguments{feature, k});
}
Dataset Dataset::modulo(const std::string& feature, int64_t k) const {
  return then<ModuloOperator>(ModuloArguments{feature, k});
}
Dataset Dataset::cast(const std::string& feature, DType to) const {
  return then<CastOperator>(CastArguments{feature, to});
}
Dataset Dataset::rename(const std::map<std::string, std::string>& names) const {
  return then<RenameOperator>(RenameArguments{names});
}
Dataset Dataset::select(const std::vector<std::string>& features) const {
  return then<SelectOperator>(SelectArguments{features});
}
Dataset Dataset::drop(const std::vector<std::string>& features) const {
  return then<DropOperator>(DropArguments{features});
}
Dataset Dataset::one_hot(const std::string& feature, int64_t depth, const OneHotOptions& options) const {
  return then<OneHotOperator>(OneHotArguments{feature, depth, options});
}
Dataset Dataset::truncate(const TruncateOptions& options) const {
  return then<TruncateOperator>(TruncateArguments{options});
}
Dataset Dataset::truncate_pair(const TruncatePairOptions& options) const {
  return then<TruncatePairOperator>(TruncatePairArguments{options});
}
Dataset Dataset::filter(RowPredicate predicate) const {
  return then<FilterOperator>(FilterArguments{std::move(predicate)});
}
Dataset Dataset::filter(BlockPredicate predicate) const {
  return then<FilterOperator>(FilterBlocksArguments{std::move(predicate)});
}
Dataset Dataset::take_while(RowPredicate predicate) const {
  return then<TakeWhileOperator>(TakeWhileArguments{std::move(predicate)});
}
Dataset Dataset::scan(ScanFunction function) const { return then<ScanOperator>(ScanArguments{std::move(function)}); }
Dataset Dataset::enumerate(int64_t start, const std::string& feature) const {
  return then<EnumerateOperator>(EnumerateArguments{start, feature});
}
Dataset Dataset::unique(const std::string& feature) const { return then<UniqueOperator>(UniqueArguments{feature}); }
Dataset Dataset::rejection_resample(const RejectionResampleOptions& options) const {
  return then<RejectionResampleOperator>(RejectionResampleArguments{options});
}
Dataset Dataset::take(int64_t count) const { return then<TakeOperator>(TakeArguments{count}); }
Dataset Dataset::skip(int64_t count) const { return then<SkipOperator>(SkipArguments{count}); }
Dataset Dataset::shard(int64_t num_shards, int64_t index) const {
  return then<ShardOperator>(ShardArguments{num_shards, index});
}
Dataset Dataset::repeat(int64_t count) const { return then<RepeatOperator>(RepeatArguments{count}); }
Dataset Dataset::shuffle(int64_t buffer_size, const ShuffleOptions& options) const {
  return then<ShuffleOperator>(ShuffleArguments{buffer_size, options});
}
Dataset Dataset::assert_cardinality(int64_t count) const {
  return then<AssertCardinalityOperator>(AssertCardinalityArguments{count});
}
Dataset Dataset::damage_budget(const DamagePolicy& policy) const {
  return then<DamageBudgetOperator>(DamageBudgetArguments{policy});
}
Dataset Dataset::ignore_errors() const { return then<IgnoreErrorsOperator>(IgnoreErrorsArguments{}); }
Dataset Dataset::mask_tokens(const MaskTokensOptions& options) const {
  return then<MaskTokensOperator>(MaskTokensArguments{options});
}
Dataset Dataset::corrupt_spans(const CorruptSpansOptions& options) const {
  return then<CorruptSpansOperator>(CorruptSpansArguments{options});
}
Dataset Dataset::augment_images(const AugmentImagesOptions& options) const {
  return then<AugmentImagesOperator>(AugmentImagesArguments{options});
}
Dataset Dataset::resize(const ResizeOptions& options) const { return then<ResizeOperator>(ResizeArguments{options}); }
Dataset Dataset::crop(const CropOptions& options) const { return then<CropOperator>(CropArguments{options}); }
Dataset Dataset::pad(const PadOptions& options) const { return then<PadOperator>(PadArguments{options}); }
Dataset Dataset::normalize(const NormalizeOptions& options) const {
  return then<NormalizeOperator>(NormalizeArguments{options});
}
Dataset Dataset::mixup(const MixupOptions& options) const { return then<MixupOperator>(MixupArguments{options}); }
Dataset Dataset::cutmix(const CutmixOptions& options) const { return then<CutmixOperator>(CutmixArguments{options}); }
Dataset Dataset::batch(int64_t size, const BatchOptions& options) const {
  return then<BatchOperator>(BatchArguments{size, options});
}
Dataset Dataset::padded_batch(int64_t size, const PaddedBatchOptions& options) const {
  return then<PaddedBatchOperator>(PaddedBatchArguments{size, options});
}
Dataset Dataset::ragged_batch(int64_t size, const RaggedBatchOptions& options) const {
  return then<RaggedBatchOperator>(RaggedBatchArguments{size, options});
}
Dataset Dataset::unbatch() const { return then<UnbatchOperator>(UnbatchArguments{}); }
Dataset Dataset::rebatch(int64_t size, const BatchOptions& options) const {
  return then<RebatchOperator>(RebatchArguments{size, options});
}
Dataset Dataset::bucket_by_sequence_length(std::vector<std::string> features, std::vector<int64_t> boundaries,
                                           std::vector<int64_t> batch_sizes, BucketOptions options) const {
  return then<BucketBySequenceLengthOperator>(BucketBySequenceLengthArguments{
      std::move(features), std::move(boundaries), std::move(batch_sizes), std::move(options)});
}
Dataset Dataset::group_by_window(RowKey key, WindowSize window_size, const BatchingOptions& batches) const {
  return then<GroupByWindowOperator>(GroupByWindowArguments{std::move(key), std::move(window_size), batches});
}
Dataset Dataset::pack(int64_t length, const PackOptions& options) const {
  return then<PackOperator>(PackArguments{length, options});
}
Dataset Dataset::window(int64_t size, const WindowOptions& options, const BatchingOptions& batches) const {
  return then<WindowOperator>(WindowArguments{size, options, batches});
}
Dataset Dataset::cache(const CacheOptions& options) const {
  if (options.directory.empty()) {
    return from_operator(
               {*this},
               [](std::span<const SchemaPtr> inputs) { return std::make_shared<const CacheOperator>(inputs[0]); })
        .called(CacheArguments{options});
  }
  return from_operator({*this},
                       [directory = options.directory,
                        identity = identity_of("cache", plan_)](std::span<const SchemaPtr> inputs) {
                         return std::make_shared<const FileCacheOperator>(inputs[0], directory, identity);
                       })
      .called(CacheArguments{options});
}
Dataset Dataset::snapshot(const std::string& directory) const {
  return from_operator({*this},
                       [directory, identity = identity_of("snapshot", plan_)](std::span<const SchemaPtr> inputs) {
                         return std::make_shared<const SnapshotOperator>(inputs[0], directory, identity);
                       })
      .called(SnapshotArguments{directory});
}
Dataset Dataset::prefetch(int64_t buffer_size) const { return then<PrefetchOperator>(PrefetchArguments{buffer_size}); }

std::string Dataset::explain(const StartOptions& options) const {
  std::vector<AppliedRewrite> applied;
  const PlanNodePtr rewritten = rewrite_plan(plan_, options.disabled_rewrites, applied);
  std::string text = "as written:\n" + print_plan(*plan_);
  text += "rewrites:\n";
  for (const AppliedRewrite& rewrite : applied) text += fmt::format("{}: {}\n", rewrite.name, rewrite.reason);
  if (applied.empty()) text += "none\n";
  text += "as it runs:\n" + print_plan(*rewritten);
  Executor executor(checked_threads(options.threads), checked_memory_budget(options.memory_budget));
  text += LoweredPlan(executor, rewritten, {.ordered = options.ordered}).to_string();
  return text;
}

SaveReport Dataset::save(const std::string& directory, const SaveOptions& options) const {
  if (certain_cardinality(*plan_).is_infinite()) {
    throw ErrorException(ErrorCode::kInvalidArgument, "save: the dataset has no end");
  }
  const Dataset saving = from_operator({*this}, [&](std::span<const SchemaPtr> inputs) {
    return std::make_shared<const SaveOperator>(inputs[0], directory, options.overwrite);
  });
  return run_save(saving.start(options.start), directory, options);
}

Pipeline Dataset::start(const StartOptions& options) const {
  std::vector<AppliedRewrite> applied;
  return {rewrite_plan(plan_, options.disabled_rewrites, applied), *plan_, options};
}

}  // namespace millrace
