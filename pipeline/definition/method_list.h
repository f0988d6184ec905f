// The methods of Dataset that definitions know: one line for each, its arguments and what is called with them.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "millrace/ops/batch/rebatch.h"
#include "millrace/ops/batch/unbatch.h"
#include "millrace/ops/combine/concatenate.h"
#include "millrace/ops/combine/flat_map.h"
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
#include "millrace/ops/keep/snapshot.h"
#include "millrace/ops/parse/parse_sequence_example.h"
#include "millrace/ops/sources/text_lines.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/plan/nested_arguments.h"

namespace millrace::definition {

/// A method is called with its inputs and what is in the struct `Of`, one after the other.
template <typename Of, auto kCalled>
struct Method {};
template <typename... All>
struct MethodList {};

using Datasets = std::vector<Dataset>;

// Methods that are not called with what is in the arguments, or are one of several of a name.
inline Dataset load(const std::string& directory) { return Dataset::load(directory); }
// The first input is the choices.
inline Dataset choose(const Datasets& inputs, const ChooseOptions& options) {
  return Dataset::choose_from_datasets({inputs.begin() + 1, inputs.end()}, inputs[0], options);
}
inline Dataset flat_map_inputs(const Datasets& inputs) { return Dataset::flat_map(inputs); }
inline Dataset interleave(const Datasets& inputs, const InterleaveOptions& options) {
  return Dataset::interleave(inputs, options);
}
inline Dataset parse_csv(const Dataset& input, const ParseCsvArguments& of) {
  return input.parse_csv(of.columns, of.format, {.action = of.damage});
}
template <typename Of>
Dataset map(const Dataset& input, const Of& of) {
  return input.map(of.function);
}
template <typename Of>
Dataset filter(const Dataset& input, const Of& of) {
  return input.filter(of.predicate);
}
inline Dataset flat_map(const Dataset& input, const FlatMapArguments& of) { return input.flat_map(of.function); }
inline Dataset interleave_function(const Dataset& input, const InterleaveFunctionArguments& of) {
  return input.interleave(of.function, of.options);
}
inline Dataset add(const Dataset& input, const AddArguments& of) {
  return std::visit([&](auto k) { return input.add(of.feature, k); }, of.k);
}
inline Dataset multiply(const Dataset& input, const MultiplyArguments& of) {
  return std::visit([&](auto k) { return input.multiply(of.feature, k); }, of.k);
}

// One line for each.
using Methods = MethodList<
    Method<RangeArguments, &Dataset::range>, Method<RowsArguments, &Dataset::rows>,
    Method<TfrecordArguments, &Dataset::tfrecord>, Method<FilesArguments, &Dataset::files>,
    Method<TextLinesArguments, &Dataset::text_lines>,
    Method<FixedLengthRecordsArguments, &Dataset::fixed_length_records>,
    Method<FromGeneratorArguments, &Dataset::from_generator>, Method<GlobalShuffleArguments, &Dataset::global_shuffle>,
    Method<CsvRecordsArguments, &Dataset::csv_records>, Method<LoadArguments, &load>,
    Method<InterleaveArguments, &interleave>, Method<ConcatenateArguments, &Dataset::concatenate>,
    Method<FlatMapInputsArguments, &flat_map_inputs>, Method<ZipArguments, &Dataset::zip>,
    Method<ChooseFromDatasetsArguments, &choose>, Method<SampleFromDatasetsArguments, &Dataset::sample_from_datasets>,
    Method<ParseExampleArguments, &Dataset::parse_example>,
    Method<ParseSequenceExampleArguments, &Dataset::parse_sequence_example>,
    Method<DecodeImageArguments, &Dataset::decode_image>, Method<DecodeRawArguments, &Dataset::decode_raw>,
    Method<ParseTensorArguments, &Dataset::parse_tensor>, Method<ParseCsvArguments, &parse_csv>,
    Method<MapArguments, &map<MapArguments>>, Method<MapBlocksArguments, &map<MapBlocksArguments>>,
    Method<FilterArguments, &filter<FilterArguments>>, Method<FilterBlocksArguments, &filter<FilterBlocksArguments>>,
    Method<FlatMapArguments, &flat_map>, Method<TakeWhileArguments, &Dataset::take_while>,
    Method<ScanArguments, &Dataset::scan>, Method<InterleaveFunctionArguments, &interleave_function>,
    Method<AddArguments, &add>, Method<MultiplyArguments, &multiply>, Method<ModuloArguments, &Dataset::modulo>,
    Method<CastArguments, &Dataset::cast>, Method<EnumerateArguments, &Dataset::enumerate>,
    Method<UniqueArguments, &Dataset::unique>, Method<MaskTokensArguments, &Dataset::mask_tokens>,
    Method<RenameArguments, &Dataset::rename>, Method<SelectArguments, &Dataset::select>,
    Method<DropArguments, &Dataset::drop>, Method<TruncateArguments, &Dataset::truncate>,
    Method<TruncatePairArguments, &Dataset::truncate_pair>,
    Method<RejectionResampleArguments, &Dataset::rejection_resample>,
    Method<AugmentImagesArguments, &Dataset::augment_images>, Method<ResizeArguments, &Dataset::resize>,
    Method<CropArguments, &Dataset::crop>, Method<PadArguments, &Dataset::pad>,
    Method<NormalizeArguments, &Dataset::normalize>, Method<MixupArguments, &Dataset::mixup>,
    Method<CutmixArguments, &Dataset::cutmix>, Method<OneHotArguments, &Dataset::one_hot>,
    Method<CorruptSpansArguments, &Dataset::corrupt_spans>, Method<TakeArguments, &Dataset::take>,
    Method<SkipArguments, &Dataset::skip>, Method<ShardArguments, &Dataset::shard>,
    Method<RepeatArguments, &Dataset::repeat>, Method<ShuffleArguments, &Dataset::shuffle>,
    Method<AssertCardinalityArguments, &Dataset::assert_cardinality>,
    Method<IgnoreErrorsArguments, &Dataset::ignore_errors>, Method<DamageBudgetArguments, &Dataset::damage_budget>,
    Method<CacheArguments, &Dataset::cache>, Method<SnapshotArguments, &Dataset::snapshot>,
    Method<PrefetchArguments, &Dataset::prefetch>, Method<BatchArguments, &Dataset::batch>,
    Method<PaddedBatchArguments, &Dataset::padded_batch>, Method<RaggedBatchArguments, &Dataset::ragged_batch>,
    Method<UnbatchArguments, &Dataset::unbatch>, Method<RebatchArguments, &Dataset::rebatch>,
    Method<BucketBySequenceLengthArguments, &Dataset::bucket_by_sequence_length>,
    Method<GroupByWindowArguments, &Dataset::group_by_window>, Method<WindowArguments, &Dataset::window>,
    Method<PackArguments, &Dataset::pack>>;

}  // namespace millrace::definition
