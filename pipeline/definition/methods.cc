#include "millrace/pipeline/definition/methods.h"

#include <string_view>

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
#include "millrace/pipeline/definition/fields.h"
#include "millrace/pipeline/definition/proto_text.h"
#include "millrace/pipeline/plan/nested_arguments.h"
#include "pipeline/definition/pipeline_def.pb.h"

namespace millrace {
namespace {

using definition::Message;
using Datasets = std::vector<Dataset>;

// Methods with a struct of arguments are called with what is in it, one after the other.
void expect_inputs(bool fits, std::string_view wanted, const Datasets& inputs) {
  if (!fits) refuse_argument(fmt::format("it takes {}, not {}", wanted, inputs.size()));
}
template <typename Of, typename... Parameters>
Dataset call(Dataset (*source)(Parameters...), const Datasets& inputs, const Of& arguments) {
  if constexpr (std::is_invocable_v<decltype(source), const Dataset&, const Of&>) {
    expect_inputs(inputs.size() == 1, "one input", inputs);
    return source(inputs[0], arguments);
  } else {
    return description_of<Of>().apply(arguments, [&](const auto&... values) {
      if constexpr (std::is_invocable_v<decltype(source), const Datasets&, decltype(unwrapped(values))...>) {
        expect_inputs(!inputs.empty(), "inputs", inputs);
        return source(inputs, unwrapped(values)...);
      } else {
        expect_inputs(inputs.empty(), "no input", inputs);
        return source(unwrapped(values)...);
      }
    });
  }
}
template <typename Of, typename... Parameters>
Dataset call(Dataset (Dataset::*method)(Parameters...) const, const Datasets& inputs, const Of& arguments) {
  expect_inputs(inputs.size() == 1, "one input", inputs);
  return description_of<Of>().apply(arguments,
                                    [&](const auto&... values) { return (inputs[0].*method)(unwrapped(values)...); });
}

struct Method {
  std::string_view name;
  Dataset (*read)(const Message& message, const Datasets& inputs);
  void (*write)(const Arguments& arguments, Message& message);
  void (*add_step)(definition::ProtoText& proto);
};

template <typename Of, auto kMethod>
constexpr Method method() {
  return {.name = description_of<Of>().name,
          .read =
              [](const Message& message, const Datasets& inputs) {
                Of arguments{};
                definition::FieldReader(message).read(arguments);
                return call<Of>(kMethod, inputs, arguments);
              },
          .write = [](const Arguments& arguments,
                      Message& message) { definition::FieldWriter(message).write(*arguments.as<Of>()); },
          .add_step = [](definition::ProtoText& proto) { proto.add_step<Of>(); }};
}

// Methods that are not called with what is in the arguments, or are one of several of a name.
Dataset load(const std::string& directory) { return Dataset::load(directory); }
// The first input is the choices.
Dataset choose(const Datasets& inputs, const ChooseOptions& options) {
  return Dataset::choose_from_datasets({inputs.begin() + 1, inputs.end()}, inputs[0], options);
}
Dataset flat_map_inputs(const Datasets& inputs) { return Dataset::flat_map(inputs); }
Dataset interleave(const Datasets& inputs, const InterleaveOptions& options) {
  return Dataset::interleave(inputs, options);
}
Dataset parse_csv(const Dataset& input, const ParseCsvArguments& of) {
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
Dataset flat_map(const Dataset& input, const FlatMapArguments& of) { return input.flat_map(of.function); }
Dataset interleave_function(const Dataset& input, const InterleaveFunctionArguments& of) {
  return input.interleave(of.function, of.options);
}
Dataset add(const Dataset& input, const AddArguments& of) {
  return std::visit([&](auto k) { return input.add(of.feature, k); }, of.k);
}
Dataset multiply(const Dataset& input, const MultiplyArguments& of) {
  return std::visit([&](auto k) { return input.multiply(of.feature, k); }, of.k);
}

// One line for each.
constexpr std::array kMethods = {
    method<RangeArguments, &Dataset::range>(),
    method<RowsArguments, &Dataset::rows>(),
    method<TfrecordArguments, &Dataset::tfrecord>(),
    method<TextLinesArguments, &Dataset::text_lines>(),
    method<FixedLengthRecordsArguments, &Dataset::fixed_length_records>(),
    method<FromGeneratorArguments, &Dataset::from_generator>(),
    method<GlobalShuffleArguments, &Dataset::global_shuffle>(),
    method<CsvRecordsArguments, &Dataset::csv_records>(),
    method<LoadArguments, &load>(),
    method<InterleaveArguments, &interleave>(),
    method<ConcatenateArguments, &Dataset::concatenate>(),
    method<FlatMapInputsArguments, &flat_map_inputs>(),
    method<ZipArguments, &Dataset::zip>(),
    method<ChooseFromDatasetsArguments, &choose>(),
    method<SampleFromDatasetsArguments, &Dataset::sample_from_datasets>(),
    method<ParseExampleArguments, &Dataset::parse_example>(),
    method<ParseSequenceExampleArguments, &Dataset::parse_sequence_example>(),
    method<DecodeRawArguments, &Dataset::decode_raw>(),
    method<ParseTensorArguments, &Dataset::parse_tensor>(),
    method<ParseCsvArguments, &parse_csv>(),
    method<MapArguments, &map<MapArguments>>(),
    method<MapBlocksArguments, &map<MapBlocksArguments>>(),
    method<FilterArguments, &filter<FilterArguments>>(),
    method<FilterBlocksArguments, &filter<FilterBlocksArguments>>(),
    method<FlatMapArguments, &flat_map>(),
    method<TakeWhileArguments, &Dataset::take_while>(),
    method<ScanArguments, &Dataset::scan>(),
    method<InterleaveFunctionArguments, &interleave_function>(),
    method<AddArguments, &add>(),
    method<MultiplyArguments, &multiply>(),
    method<ModuloArguments, &Dataset::modulo>(),
    method<CastArguments, &Dataset::cast>(),
    method<EnumerateArguments, &Dataset::enumerate>(),
    method<UniqueArguments, &Dataset::unique>(),
    method<MaskTokensArguments, &Dataset::mask_tokens>(),
    method<RenameArguments, &Dataset::rename>(),
    method<SelectArguments, &Dataset::select>(),
    method<DropArguments, &Dataset::drop>(),
    method<TruncateArguments, &Dataset::truncate>(),
    method<TruncatePairArguments, &Dataset::truncate_pair>(),
    method<RejectionResampleArguments, &Dataset::rejection_resample>(),
    method<AugmentImagesArguments, &Dataset::augment_images>(),
    method<MixupArguments, &Dataset::mixup>(),
    method<CutmixArguments, &Dataset::cutmix>(),
    method<OneHotArguments, &Dataset::one_hot>(),
    method<CorruptSpansArguments, &Dataset::corrupt_spans>(),
    method<TakeArguments, &Dataset::take>(),
    method<SkipArguments, &Dataset::skip>(),
    method<ShardArguments, &Dataset::shard>(),
    method<RepeatArguments, &Dataset::repeat>(),
    method<ShuffleArguments, &Dataset::shuffle>(),
    method<AssertCardinalityArguments, &Dataset::assert_cardinality>(),
    method<IgnoreErrorsArguments, &Dataset::ignore_errors>(),
    method<DamageBudgetArguments, &Dataset::damage_budget>(),
    method<CacheArguments, &Dataset::cache>(),
    method<SnapshotArguments, &Dataset::snapshot>(),
    method<PrefetchArguments, &Dataset::prefetch>(),
    method<BatchArguments, &Dataset::batch>(),
    method<PaddedBatchArguments, &Dataset::padded_batch>(),
    method<RaggedBatchArguments, &Dataset::ragged_batch>(),
    method<UnbatchArguments, &Dataset::unbatch>(),
    method<RebatchArguments, &Dataset::rebatch>(),
    method<BucketBySequenceLengthArguments, &Dataset::bucket_by_sequence_length>(),
    method<GroupByWindowArguments, &Dataset::group_by_window>(),
    method<WindowArguments, &Dataset::window>(),
    method<PackArguments, &Dataset::pack>(),
};

const Method& method_called(std::string_view name) {
  const auto* found =
      std::find_if(kMethods.begin(), kMethods.end(), [&](const Method& one) { return one.name == name; });
  if (found == kMethods.end()) throw std::logic_error(fmt::format("{} is no method of Dataset", name));
  return *found;
}

}  // namespace

void write_call(const Arguments& arguments, def::Step& step) {
  const auto* field = definition::field_of(step, arguments.method());
  method_called(arguments.method()).write(arguments, *step.GetReflection()->MutableMessage(&step, field));
}

Dataset call_method(const def::Step& step, const std::vector<Dataset>& inputs) {
  const auto* field =
      step.GetReflection()->GetOneofFieldDescriptor(step, step.GetDescriptor()->FindOneofByName("operator"));
  if (field == nullptr) refuse_argument("no operator is named");
  return method_called(field->name()).read(step.GetReflection()->GetMessage(step, field), inputs);
}

std::string proto_of_methods() {
  definition::ProtoText proto;
  for (const Method& method : kMethods) method.add_step(proto);
  return proto.text();
}

}  // namespace millrace
