#include "pipeline/dataset.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "formats/elements/local_folder.h"
#include "ops/assert_cardinality.h"
#include "ops/concatenate.h"
#include "ops/damage_budget.h"
#include "ops/drop.h"
#include "ops/enumerate.h"
#include "ops/flat_map.h"
#include "ops/ignore_errors.h"
#include "ops/interleave_function.h"
#include "ops/load.h"
#include "ops/parse_sequence_example.h"
#include "ops/prefetch.h"
#include "ops/rebatch.h"
#include "ops/rename.h"
#include "ops/repeat.h"
#include "ops/save.h"
#include "ops/select.h"
#include "ops/shard.h"
#include "ops/skip.h"
#include "ops/snapshot.h"
#include "ops/take.h"
#include "ops/take_while.h"
#include "ops/text_lines.h"
#include "ops/unbatch.h"
#include "ops/unique.h"
#include "ops/zip.h"
#include "pipeline/definition/calls.h"
#include "pipeline/executor.h"
#include "pipeline/inline_plan.h"
#include "pipeline/lowering.h"
#include "pipeline/stream_identity.h"

namespace millrace {
namespace {

template <typename Op, typename... Arguments>
MakeOperator of_inputs(Arguments... arguments) {
  return [=](std::span<const SchemaPtr> inputs) { return std::make_shared<const Op>(inputs, arguments...); };
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

template <typename Op, typename... Arguments>
Dataset Dataset::then(Arguments... arguments) const {
  return Dataset(make_plan_node(
      {plan_}, [=](std::span<const SchemaPtr> inputs) { return std::make_shared<const Op>(inputs[0], arguments...); }));
}

template <typename Call, typename Op, typename... Arguments>
Dataset Dataset::call(Arguments... arguments) const {
  return then<Op>(arguments...).called(Call{arguments...});
}

template <typename Call, typename Op, typename... Arguments>
Dataset Dataset::source(Arguments... arguments) {
  return Dataset(
             make_plan_node({}, [=](std::span<const SchemaPtr>) { return std::make_shared<const Op>(arguments...); }))
      .called(Call{arguments...});
}

template <typename Call>
Dataset Dataset::called(Call call) const {
  PlanNode node = *plan_;
  node.call = std::make_shared<const BuilderCall>(BuilderCall{std::move(call)});
  return Dataset(std::make_shared<const PlanNode>(std::move(node)));
}

Dataset Dataset::range(int64_t start, int64_t stop, int64_t step, std::string feature) {
  return source<calls::Range, RangeOperator>(start, stop, step, std::move(feature));
}

Dataset Dataset::tfrecord(const Shards& shards, const TfrecordOptions& options) {
  return source<calls::Tfrecord, TfrecordOperator>(shards, options);
}

Dataset Dataset::text_lines(const Shards& shards, const FileReadOptions& options) {
  return source<calls::TextLines, TextLinesOperator>(shards, options);
}

Dataset Dataset::fixed_length_records(const Shards& shards, const FixedLengthFormat& format,
                                      const FileReadOptions& options) {
  return source<calls::FixedLengthRecords, FixedLengthRecordsOperator>(shards, format, options);
}

Dataset Dataset::global_shuffle(const Shards& shards, const GlobalShuffleOptions& options) {
  return source<calls::GlobalShuffle, GlobalShuffleOperator>(shards, options);
}

Dataset Dataset::csv_records(const Shards& shards, const CsvFormat& format, const FileReadOptions& options) {
  return source<calls::CsvRecords, CsvRecordsOperator>(shards, format, options);
}

Dataset Dataset::csv(const Shards& shards, std::vector<CsvColumn> columns, const CsvFormat& format,
                     const FileReadOptions& options) {
  CsvFormat of_files = format;
  of_files.missing.clear();
  of_files.select_columns.clear();
  CsvFormat of_records = format;
  of_records.header = false;
  // What files and records lose is held against one budget, behind both.
  FileReadOptions without_budget = options;
  without_budget.damage = {.action = options.damage.action};
  return csv_records(shards, of_files, without_budget).parse_csv(std::move(columns), of_records, options.damage);
}

Dataset Dataset::rows(std::vector<MemoryFeature> features) {
  auto shared = std::make_shared<const std::vector<MemoryFeature>>(std::move(features));
  const std::shared_ptr<const Operator> op = std::make_shared<const RowsOperator>(*shared);
  return Dataset(make_plan_node({}, [op](std::span<const SchemaPtr>) { return std::shared_ptr<const Operator>(op); }))
      .called(calls::Rows{std::move(shared)});
}

Dataset Dataset::from_generator(Generator generator) {
  return source<calls::FromGenerator, FromGeneratorOperator>(std::move(generator));
}

namespace {

PlanNodePtr load_node(std::shared_ptr<const ElementsIndex> index, const std::string& directory, bool local) {
  if (index == nullptr) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("load: '{}' holds no elements: there is no {} in it, which is written last",
                                     directory, ElementsIndex::kFileName));
  }
  const auto op = std::make_shared<const LoadOperator>(std::move(index), local);
  return make_plan_node({}, [op](std::span<const SchemaPtr>) { return std::shared_ptr<const Operator>(op); });
}

}  // namespace

Dataset Dataset::load(const std::string& directory) {
  return Dataset(load_node(find_local_elements(directory), directory, /*local=*/true)).called(calls::Load{directory});
}

Dataset Dataset::load(Storage& storage, const std::string& directory) {
  return Dataset(load_node(ElementsIndex::find(storage, directory), directory, /*local=*/false))
      .called(calls::Load{directory});
}

Dataset Dataset::interleave(const std::vector<Dataset>& inputs, const InterleaveOptions& options) {
  return from_operator(inputs, of_inputs<InterleaveOperator>(options)).called(calls::Interleave{options});
}

Dataset Dataset::concatenate(const std::vector<Dataset>& inputs) {
  return from_operator(inputs, of_inputs<ConcatenateOperator>()).called(calls::Concatenate{});
}

Dataset Dataset::flat_map(const std::vector<Dataset>& inputs) {
  return from_operator(inputs, of_inputs<FlatMapInputsOperator>()).called(calls::FlatMapInputs{});
}

Dataset Dataset::flat_map(const DatasetFunction& function) const {
  const NestedFunction nested = nested_function("flat_map", function);
  return from_operator({*this},
                       [nested](std::span<const SchemaPtr>) { return std::make_shared<const FlatMapOperator>(nested); })
      .called(calls::FlatMap{function});
}

Dataset Dataset::interleave(const DatasetFunction& function, const InterleaveOptions& options) const {
  const NestedFunction nested = nested_function("interleave", function);
  return from_operator({*this},
                       [nested, options](std::span<const SchemaPtr>) {
                         return std::make_shared<const InterleaveFunctionOperator>(nested, options);
                       })
      .called(calls::InterleaveFunction{function, options});
}

Dataset Dataset::zip(const std::vector<Dataset>& inputs) {
  return from_operator(inputs, of_inputs<ZipOperator>()).called(calls::Zip{});
}

Dataset Dataset::choose_from_datasets(const std::vector<Dataset>& inputs, const Dataset& choices,
                                      const ChooseOptions& options) {
  std::vector<Dataset> all{choices};
  all.insert(all.end(), inputs.begin(), inputs.end());
  return from_operator(all, of_inputs<ChooseFromDatasetsOperator>(options)).called(calls::ChooseFromDatasets{options});
}

Dataset Dataset::sample_from_datasets(const std::vector<Dataset>& inputs, const SampleOptions& options) {
  uint64_t occurrence = 0;
  for (const Dataset& input : inputs) {
    occurrence = std::max(occurrence, num_on_the_way(*input.plan_, "sample_from_datasets"));
  }
  return from_operator(inputs, of_inputs<SampleFromDatasetsOperator>(options, occurrence))
      .called(calls::SampleFromDatasets{options});
}

Dataset Dataset::from_operator(const std::vector<Dataset>& inputs, MakeOperator make) {
  std::vector<PlanNodePtr> plans;
  plans.reserve(inputs.size());
  for (const Dataset& input : inputs) plans.push_back(input.plan_);
  return Dataset(make_plan_node(std::move(plans), std::move(make)));
}

Dataset Dataset::parse_example(std::vector<FeatureDescription> features) const {
  return call<calls::ParseExample, ParseExampleOperator>(std::move(features));
}

Dataset Dataset::parse_sequence_example(std::vector<FeatureDescription> context,
                                        std::vector<FeatureDescription> feature_lists) const {
  return call<calls::ParseSequenceExample, ParseSequenceExampleOperator>(std::move(context), std::move(feature_lists));
}

Dataset Dataset::parse_csv(std::vector<CsvColumn> columns, const CsvFormat& format, const DamagePolicy& damage) const {
  damage.check();
  const Dataset parsed = call<calls::ParseCsv, ParseCsvOperator>(std::move(columns), format, damage.action);
  return damage.has_budget() ? parsed.damage_budget(damage) : parsed;
}

Dataset Dataset::decode_raw(const std::string& feature, RawType type, const DecodeRawOptions& options) const {
  return call<calls::DecodeRaw, DecodeRawOperator>(feature, type, options);
}

Dataset Dataset::parse_tensor(const std::string& feature, DType dtype, const Shape& shape,
                              const ParseTensorOptions& options) const {
  return call<calls::ParseTensor, ParseTensorOperator>(feature, dtype, shape, options);
}

Dataset Dataset::map(RowFunction function) const { return call<calls::Map, MapRowsOperator>(std::move(function)); }

Dataset Dataset::map(const BlockFunction& function) const {
  return from_operator(
             {*this},
             [function](std::span<const SchemaPtr>) { return std::make_shared<const MapBlocksOperator>(function); })
      .called(calls::MapBlocks{function});
}

Dataset Dataset::add(const std::string& feature, int64_t k) const {
  return then<ArithmeticOperator>(feature, Arithmetic::kAdd, k).called(calls::Add{feature, k});
}
Dataset Dataset::add(const std::string& feature, double k) const {
  return then<ArithmeticOperator>(feature, Arithmetic::kAdd, k).called(calls::Add{feature, k});
}
Dataset Dataset::multiply(const std::string& feature, int64_t k) const {
  return then<ArithmeticOperator>(feature, Arithmetic::kMultiply, k).called(calls::Multiply{feature, k});
}
Dataset Dataset::multiply(const std::string& feature, double k) const {
  return then<ArithmeticOperator>(feature, Arithmetic::kMultiply, k).called(calls::Multiply{feature, k});
}
Dataset Dataset::modulo(const std::string& feature, int64_t k) const {
  return then<ArithmeticOperator>(feature, Arithmetic::kModulo, k).called(calls::Modulo{feature, k});
}

Dataset Dataset::cast(const std::string& feature, DType to) const {
  return call<calls::Cast, CastOperator>(feature, to);
}

Dataset Dataset::rename(const std::map<std::string, std::string>& names) const {
  return call<calls::Rename, RenameOperator>(names);
}

Dataset Dataset::select(const std::vector<std::string>& features) const {
  return call<calls::Select, SelectOperator>(features);
}

Dataset Dataset::drop(const std::vector<std::string>& features) const {
  return call<calls::Drop, DropOperator>(features);
}

Dataset Dataset::one_hot(const std::string& feature, int64_t depth, const OneHotOptions& options) const {
  return call<calls::OneHot, OneHotOperator>(feature, depth, options);
}

Dataset Dataset::truncate(const TruncateOptions& options) const {
  return call<calls::Truncate, TruncateOperator>(options);
}

Dataset Dataset::truncate_pair(const TruncatePairOptions& options) const {
  return call<calls::TruncatePair, TruncatePairOperator>(options);
}

Dataset Dataset::filter(RowPredicate predicate) const {
  return call<calls::Filter, FilterOperator>(std::move(predicate));
}

Dataset Dataset::filter(BlockPredicate predicate) const {
  return call<calls::FilterBlocks, FilterOperator>(std::move(predicate));
}

Dataset Dataset::take_while(RowPredicate predicate) const {
  return call<calls::TakeWhile, TakeWhileOperator>(std::move(predicate));
}

Dataset Dataset::scan(ScanFunction function) const { return call<calls::Scan, ScanOperator>(std::move(function)); }

Dataset Dataset::enumerate(int64_t start, const std::string& feature) const {
  return call<calls::Enumerate, EnumerateOperator>(start, feature);
}

Dataset Dataset::unique(const std::string& feature) const { return call<calls::Unique, UniqueOperator>(feature); }

Dataset Dataset::rejection_resample(const RejectionResampleOptions& options) const {
  return then<RejectionResampleOperator>(options, num_on_the_way(*plan_, "rejection_resample"))
      .called(calls::RejectionResample{options});
}

Dataset Dataset::take(int64_t count) const { return call<calls::Take, TakeOperator>(count); }

Dataset Dataset::skip(int64_t count) const { return call<calls::Skip, SkipOperator>(count); }

Dataset Dataset::shard(int64_t num_shards, int64_t index) const {
  return call<calls::Shard, ShardOperator>(num_shards, index);
}

Dataset Dataset::repeat(int64_t count) const { return call<calls::Repeat, RepeatOperator>(count); }

Dataset Dataset::shuffle(int64_t buffer_size, const ShuffleOptions& options) const {
  return then<ShuffleOperator>(buffer_size, options, num_on_the_way(*plan_, "shuffle"))
      .called(calls::Shuffle{buffer_size, options});
}

Dataset Dataset::assert_cardinality(int64_t count) const {
  return call<calls::AssertCardinality, AssertCardinalityOperator>(count);
}

Dataset Dataset::damage_budget(const DamagePolicy& policy) const {
  return call<calls::DamageBudget, DamageBudgetOperator>(policy);
}

Dataset Dataset::ignore_errors() const { return call<calls::IgnoreErrors, IgnoreErrorsOperator>(); }

Dataset Dataset::mask_tokens(const MaskTokensOptions& options) const {
  return then<MaskTokensOperator>(options, num_on_the_way(*plan_, "mask_tokens")).called(calls::MaskTokens{options});
}

Dataset Dataset::corrupt_spans(const CorruptSpansOptions& options) const {
  return then<CorruptSpansOperator>(options, num_on_the_way(*plan_, "corrupt_spans"))
      .called(calls::CorruptSpans{options});
}

Dataset Dataset::augment_images(const AugmentImagesOptions& options) const {
  return then<AugmentImagesOperator>(options, num_on_the_way(*plan_, "augment_images"))
      .called(calls::AugmentImages{options});
}

Dataset Dataset::mixup(const MixupOptions& options) const {
  return then<MixupOperator>(options, num_on_the_way(*plan_, "mixup")).called(calls::Mixup{options});
}

Dataset Dataset::cutmix(const CutmixOptions& options) const {
  return then<CutmixOperator>(options, num_on_the_way(*plan_, "cutmix")).called(calls::Cutmix{options});
}

Dataset Dataset::batch(int64_t size, const BatchOptions& options) const {
  return call<calls::Batch, BatchOperator>(size, options);
}

Dataset Dataset::padded_batch(int64_t size, const PaddedBatchOptions& options) const {
  return call<calls::PaddedBatch, PaddedBatchOperator>(size, options);
}

Dataset Dataset::ragged_batch(int64_t size, const RaggedBatchOptions& options) const {
  return call<calls::RaggedBatch, RaggedBatchOperator>(size, options);
}

Dataset Dataset::unbatch() const { return call<calls::Unbatch, UnbatchOperator>(); }

Dataset Dataset::rebatch(int64_t size, const BatchOptions& options) const {
  return call<calls::Rebatch, RebatchOperator>(size, options);
}

Dataset Dataset::bucket_by_sequence_length(std::vector<std::string> features, std::vector<int64_t> boundaries,
                                           std::vector<int64_t> batch_sizes, BucketOptions options) const {
  return call<calls::BucketBySequenceLength, BucketBySequenceLengthOperator>(
      std::move(features), std::move(boundaries), std::move(batch_sizes), std::move(options));
}

Dataset Dataset::group_by_window(RowKey key, WindowSize window_size, const GatherOptions& batches) const {
  return call<calls::GroupByWindow, GroupByWindowOperator>(std::move(key), std::move(window_size), batches);
}

Dataset Dataset::pack(int64_t length, const PackOptions& options) const {
  return call<calls::Pack, PackOperator>(length, options);
}

Dataset Dataset::window(int64_t size, const WindowOptions& options, const GatherOptions& batches) const {
  return call<calls::Window, WindowOperator>(size, options, batches);
}

Dataset Dataset::cache(const CacheOptions& options) const {
  const Dataset cached = options.directory.empty()
                             ? then<CacheOperator>()
                             : then<FileCacheOperator>(options.directory, identity_of("cache", plan_));
  return cached.called(calls::Cache{options});
}

Dataset Dataset::snapshot(const std::string& directory) const {
  return then<SnapshotOperator>(directory, identity_of("snapshot", plan_)).called(calls::Snapshot{directory});
}

Dataset Dataset::prefetch(int64_t buffer_size) const { return call<calls::Prefetch, PrefetchOperator>(buffer_size); }

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
  return run_save(then<SaveOperator>(directory, options.overwrite).start(options.start), directory, options);
}

Pipeline Dataset::start(const StartOptions& options) const {
  std::vector<AppliedRewrite> applied;
  return {rewrite_plan(plan_, options.disabled_rewrites, applied), *plan_, options};
}

}  // namespace millrace
