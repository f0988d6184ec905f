#include "tests/contract/twin_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/random/counter_rng.h"
#include "tests/contract/functions.h"
#include "tests/contract/kept_folders.h"
#include "tests/contract/pending_operator.h"
#include "tests/contract/shard_files.h"
#include "tests/contract/text_files.h"

namespace millrace::test {
namespace {

std::string damage_code(const DamagePolicy& damage) {
  return fmt::format(".damage = {{.action = DamagePolicy::kSkip{}}}",
                     damage.max_records ? fmt::format(", .max_records = {}", *damage.max_records) : "");
}

std::string quoted(const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  texts.reserve(names.size());
  for (const std::string& name : names) texts.push_back('"' + name + '"');
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

std::string_view dtype_code(DType dtype) {
  switch (dtype) {
    case DType::kInt32: return "DType::kInt32";
    case DType::kInt64: return "DType::kInt64";
    case DType::kFloat32: return "DType::kFloat32";
    case DType::kBytes: return "DType::kBytes";
    case DType::kUint8: return "DType::kUint8";
  }
  return "?";
}

std::string length_code(const PadLength& length) {
  if (length.is_fixed()) return fmt::format("PadLength::fixed({})", length.fixed_length());
  if (length.multiple() == 1) return "PadLength::longest()";
  return fmt::format("PadLength::multiple_of({})", length.multiple());
}

std::vector<bool> ragged_features(const Schema& schema) {
  std::vector<bool> ragged;
  for (const FeatureSpec& feature : schema.features()) ragged.push_back(feature.is_ragged());
  return ragged;
}

bool drops_remainder(const BatchingOptions& options) {
  return std::visit([](const auto& some) { return some.drop_remainder; }, options);
}

// With what the table draws: no padding of single features, and integers.
ModelGather gather_of(const Schema& input, const Schema& batches, const BatchingOptions& options) {
  const auto* padded = std::get_if<PaddedBatchOptions>(&options);
  if (padded == nullptr) return stacking(ragged_features(batches));
  std::optional<int64_t> value;
  if (padded->value) value = std::get<int64_t>(*padded->value);
  return padding(input, padded->length, value);
}

std::string gather_code(const BatchingOptions& options) {
  const std::string drop = fmt::format(".drop_remainder = {}", drops_remainder(options));
  const auto* padded = std::get_if<PaddedBatchOptions>(&options);
  if (padded == nullptr) {
    const bool ragged = std::holds_alternative<RaggedBatchOptions>(options);
    return fmt::format("{}{{{}}}", ragged ? "RaggedBatchOptions" : "BatchOptions", drop);
  }
  return fmt::format("PaddedBatchOptions{{{}, .length = {}{}}}", drop, length_code(padded->length),
                     padded->value ? fmt::format(", .value = int64_t{{{}}}", std::get<int64_t>(*padded->value)) : "");
}

int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The integer as its type has it, all bits above cut off.
int64_t wrapped(DType dtype, int64_t value) {
  if (dtype == DType::kUint8) return static_cast<uint8_t>(value);
  return dtype == DType::kInt32 ? static_cast<int32_t>(value) : value;
}

// The remainder that has the sign of k.
float floor_modulo(float x, float k) {
  if (!std::isfinite(x)) return std::fmod(x, k);
  const float from_zero = std::fmod(std::abs(x), std::abs(k));
  if ((x < 0) == (k < 0)) return std::copysign(from_zero, x);
  const float from_k = std::abs(k) - from_zero;
  return std::copysign(from_k == std::abs(k) ? 0 : from_k, k);
}

// Rows of these lengths.
ModelValue ragged_integers(const std::vector<int64_t>& lengths, std::vector<int64_t> values) {
  ModelValue value = integers({static_cast<int64_t>(values.size())}, std::move(values));
  value.shape = {static_cast<int64_t>(lengths.size()), kRagged};
  for (const int64_t length : lengths) value.rows.push_back({{length}, {}});
  return value;
}

// One feature of an Example, described and as its value.
struct ParsedFeature {
  FeatureDescription description;
  std::string code;
  ModelValue (*value)(const ExampleModel&);
  ModelGather gather = stacking({false});  // what a batch of records makes of it
};

ParsedFeature parsed_feature(const std::string& name) {
  const auto scalar = [](std::string key, DType dtype) { return fixed_len(std::move(key), {}, dtype); };
  if (name == "id") {
    return {scalar("id", DType::kInt64), "fixed_len(\"id\", {}, DType::kInt64)",
            [](const ExampleModel& e) { return integers({}, {e.id}); }};
  }
  if (name == "tokens") {
    return {fixed_len("tokens", {kTokens}, DType::kInt64), "fixed_len(\"tokens\", {kTokens}, DType::kInt64)",
            [](const ExampleModel& e) { return integers({kTokens}, e.tokens); }};
  }
  if (name == "tokens32") {
    return {fixed_len("tokens", {kTokens}, DType::kInt64).as(DType::kInt32),
            "fixed_len(\"tokens\", {kTokens}, DType::kInt64).as(DType::kInt32)",
            [](const ExampleModel& e) { return integers({kTokens}, e.tokens, DType::kInt32); }};
  }
  if (name == "mask") {
    return {fixed_len("mask", {kTokens}, DType::kInt64), "fixed_len(\"mask\", {kTokens}, DType::kInt64)",
            [](const ExampleModel& e) { return integers({kTokens}, e.mask); }};
  }
  if (name == "weight") {
    return {scalar("weight", DType::kFloat32), "fixed_len(\"weight\", {}, DType::kFloat32)",
            [](const ExampleModel& e) { return floats({}, {e.weight.value_or(-1)}); }};
  }
  if (name == "weight_or_half") {
    return {scalar("weight", DType::kFloat32).default_value(std::vector<float>{0.5F}),
            "fixed_len(\"weight\", {}, DType::kFloat32).default_value(std::vector<float>{0.5F})",
            [](const ExampleModel& e) { return floats({}, {e.weight.value_or(0.5F)}); }};
  }
  if (name == "pixels") {
    return {scalar("pixels", DType::kBytes), "fixed_len(\"pixels\", {}, DType::kBytes)",
            [](const ExampleModel& e) { return bytes({}, {e.pixels}); }};
  }
  if (name == "tensor") {
    return {scalar("tensor", DType::kBytes), "fixed_len(\"tensor\", {}, DType::kBytes)",
            [](const ExampleModel& e) { return bytes({}, {e.tensor}); }};
  }
  if (name == "words") {
    return {var_len("words", DType::kBytes), "var_len(\"words\", DType::kBytes)",
            [](const ExampleModel& e) { return bytes({static_cast<int64_t>(e.words.size())}, e.words); },
            stacking({true})};
  }
  if (name == "rows") {
    return {ragged("tokens", DType::kInt64, {row_lengths("cuts")}).named("rows"),
            "ragged(\"tokens\", DType::kInt64, {row_lengths(\"cuts\")}).named(\"rows\")",
            [](const ExampleModel& e) { return ragged_integers(e.cuts, e.tokens); }, stacking({true})};
  }
  if (name == "pairs") {
    return {
        fixed_len_sequence("pairs", {2}, DType::kInt64, {.allow_missing = true}).default_value(std::vector<int64_t>{9}),
        "fixed_len_sequence(\"pairs\", {2}, DType::kInt64, {.allow_missing = true})"
        ".default_value(std::vector<int64_t>{9})",
        [](const ExampleModel& e) {
          return integers({static_cast<int64_t>(e.pairs.size()) / 2, 2}, e.pairs);
        },
        padding({}, PadLength::longest(), 9, std::nullopt)};
  }
  return {scalar("name", DType::kBytes), "fixed_len(\"name\", {}, DType::kBytes)",
          [](const ExampleModel& e) { return bytes({}, {e.name}); }};
}

// Rows of an element along its first dimension, in whatever the table draws.
constexpr int64_t kMostRows = 9;

}  // namespace

void TwinDataset::join(const std::string& name) {
  if (!operators_.empty()) pairs_.emplace_back(operators_.back(), name);
  operators_.push_back(name);
  const uint64_t seed = weave_.seed * 1000003 + operators_.size() * 31 + code_.size();
  const uint64_t bits = CounterRng(seed, operator_id("weave")).bits(0);
  if (weave_.pending && bits % 2 == 0) dataset_ = with_pending(dataset_, seed);
  if (weave_.prefetch && bits / 2 % 2 == 0) dataset_ = dataset_.prefetch(static_cast<int64_t>(bits / 4 % 3));
}

TwinDataset TwinDataset::then(const std::string& name, const Dataset& dataset, Model model,
                              const std::string& code) const {
  TwinDataset twin = *this;
  twin.dataset_ = dataset;
  twin.model_ = std::move(model);
  twin.code_ = code_ + code;
  twin.join(name);
  return twin;
}

TwinDataset TwinDataset::range(int64_t start, int64_t stop, int64_t step, const Weave& weave,
                               const std::string& feature) {
  TwinDataset twin(Dataset::range(start, stop, step, feature), model_of_range(start, stop, step),
                   fmt::format("Dataset::range({}, {}, {}{})", start, stop, step,
                               feature == "value" ? "" : fmt::format(", \"{}\"", feature)),
                   weave);
  twin.most_ = std::max<int64_t>(0, step > 0 ? ceiling(stop - start, step) : ceiling(start - stop, -step));
  twin.join("range");
  return twin;
}

TwinDataset TwinDataset::load(int64_t count, const Weave& weave) {
  TwinDataset twin(Dataset::load(folder_of_numbers(count)), model_of_range(0, count, 1),
                   fmt::format("Dataset::load(folder_of_numbers({}))", count), weave);
  twin.most_ = count;
  twin.reads_shards_ = true;
  twin.join("load");
  return twin;
}

TwinDataset TwinDataset::rows(int64_t count, const Weave& weave) {
  std::vector<int64_t> ids;
  std::vector<std::vector<int64_t>> tokens;
  std::vector<float> scores;
  std::vector<std::string> words;
  std::vector<ModelElement> elements;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(i * i - 20);
    tokens.emplace_back();
    for (int64_t p = 0; p < 1 + i * 5 % 4; ++p) tokens.back().push_back((i * 3 + p * 11) % 50);
    scores.push_back(static_cast<float>(i) / 8);
    words.push_back(std::string(static_cast<size_t>(i * 7 % 5), static_cast<char>('a' + i % 26)));
    ModelElement& element = elements.emplace_back();
    element.values = {integers({}, {ids.back()}), integers({static_cast<int64_t>(tokens.back().size())}, tokens.back()),
                      floats({}, {scores.back()}), bytes({}, {words.back()})};
  }
  TwinDataset twin(Dataset::rows({{"id", ids}, {"tokens", tokens}, {"score", scores}, {"word", words}}),
                   model_of_elements(std::move(elements)), fmt::format("TwinDataset::rows({}).dataset()", count),
                   weave);
  twin.most_ = count;
  twin.join("rows");
  return twin;
}

TwinDataset TwinDataset::tfrecord(const std::vector<std::string>& names, const TfrecordOptions& options,
                                  const Weave& weave) {
  std::vector<Model> models;
  std::string code = fmt::format("Dataset::tfrecord(shards({}), {{.cycle_length = {}, .block_length = {}",
                                 quoted(names), options.cycle_length, options.block_length);
  if (options.shuffle_shards) code += fmt::format(", .shuffle_shards = true, .seed = {}", options.seed);
  const bool skips = options.damage.action == DamagePolicy::kSkip;
  if (skips) code += ", .damage = {.action = DamagePolicy::kSkip";
  if (options.damage.max_records) code += fmt::format(", .max_records = {}", *options.damage.max_records);
  if (skips) code += "}";
  for (const std::string& name : names) models.push_back(ShardFiles::get().records(name));
  Model model = model_of_shards(std::move(models), options.cycle_length, options.block_length,
                                options.shuffle_shards ? std::optional<uint64_t>(options.seed) : std::nullopt);
  if (skips) model = model_of_skipped_damage(std::move(model), options.damage.max_records);
  TwinDataset twin(Dataset::tfrecord(shards(names), options), std::move(model), code + "})", weave);
  for (const std::string& name : names) twin.most_ += name.starts_with("long") ? kLongShard : 21;
  twin.reads_shards_ = true;
  twin.reads_compressed_shards_ = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.starts_with("zlib") || name.starts_with("gzip") || name.starts_with("zstd") || name == "odd-1" ||
           name == "long-1";
  });
  twin.join("tfrecord");
  return twin;
}

TwinDataset TwinDataset::of_text_files(const std::string& name, const std::string& format, const Dataset& dataset,
                                       const std::vector<std::string>& names, const FileReadOptions& options,
                                       const Weave& weave) {
  const bool compressed = options.compression != Compression::kNone;
  const std::string_view compression = !compressed                                 ? "kNone"
                                       : options.compression == Compression::kZlib ? "kZlib"
                                       : options.compression == Compression::kGzip ? "kGzip"
                                                                                   : "kZstd";
  std::string code = fmt::format("Dataset::{}(TextFiles::get().shards({}, Compression::{}){}, {{.cycle_length = {}",
                                 name, quoted(names), compression, format, options.cycle_length);
  code += fmt::format(", .block_length = {}", options.block_length);
  if (options.shuffle_shards) code += fmt::format(", .shuffle_shards = true, .seed = {}", options.seed);
  if (compressed) code += fmt::format(", .compression = Compression::{}", compression);
  if (name == "text_lines") code += ", .max_record_bytes = TextFiles::kMostBytes";
  const bool skips = options.damage.action == DamagePolicy::kSkip;
  if (skips) code += ", " + damage_code(options.damage);
  std::vector<Model> models;
  models.reserve(names.size());
  for (const std::string& file : names) models.push_back(TextFiles::get().records(file, options.compression, skips));
  Model model = model_of_shards(std::move(models), options.cycle_length, options.block_length,
                                options.shuffle_shards ? std::optional<uint64_t>(options.seed) : std::nullopt);
  if (name == "csv") model = TextFiles::parsed(std::move(model));
  if (skips) model = model_of_skipped_damage(std::move(model), options.damage.max_records);
  TwinDataset twin(dataset, std::move(model), code + "})", weave);
  for (const std::string& file : names) twin.most_ += file.ends_with("2") ? TextFiles::kMany : TextFiles::kFew;
  twin.reads_shards_ = true;
  twin.reads_compressed_shards_ = compressed;
  twin.join(name == "csv" ? "csv_records" : name);
  return twin;
}

TwinDataset TwinDataset::files(const std::vector<std::string>& names, FilesOptions options, const Weave& weave) {
  options.max_file_bytes = TextFiles::kMostFileBytes;
  std::string code = fmt::format("Dataset::files(TextFiles::get().shards({}, Compression::kNone), {{", quoted(names));
  if (options.label_from_folder) code += ".label_from_folder = true, ";
  if (options.shuffle_files) code += fmt::format(".shuffle_files = true, .seed = {}, ", options.seed);
  code += ".max_file_bytes = TextFiles::kMostFileBytes";
  const bool skips = options.damage.action == DamagePolicy::kSkip;
  if (skips) code += ", " + damage_code(options.damage);
  std::vector<Model> models;
  models.reserve(names.size());
  for (const std::string& file : names) models.push_back(TextFiles::get().whole(file, options.label_from_folder));
  Model model = model_of_shards(std::move(models), 16, 1,
                                options.shuffle_files ? std::optional<uint64_t>(options.seed) : std::nullopt);
  if (skips) model = model_of_skipped_damage(std::move(model), options.damage.max_records);
  TwinDataset twin(Dataset::files(TextFiles::get().shards(names, Compression::kNone), options), std::move(model),
                   code + "})", weave);
  twin.most_ = static_cast<int64_t>(names.size());
  twin.reads_shards_ = true;
  twin.join("files");
  return twin;
}

TwinDataset TwinDataset::text_lines(const std::vector<std::string>& names, FileReadOptions options,
                                    const Weave& weave) {
  options.max_record_bytes = TextFiles::kMostBytes;
  const Shards shards = TextFiles::get().shards(names, options.compression);
  return of_text_files("text_lines", "", Dataset::text_lines(shards, options), names, options, weave);
}

TwinDataset TwinDataset::fixed_length_records(const std::vector<std::string>& names, const FileReadOptions& options,
                                              const Weave& weave) {
  const Shards shards = TextFiles::get().shards(names, options.compression);
  return of_text_files("fixed_length_records", ", TextFiles::kWords",
                       Dataset::fixed_length_records(shards, TextFiles::kWords, options), names, options, weave);
}

TwinDataset TwinDataset::csv(const std::vector<std::string>& names, const FileReadOptions& options,
                             const Weave& weave) {
  const Shards shards = TextFiles::get().shards(names, options.compression);
  return of_text_files("csv", ", TextFiles::columns(), TextFiles::table()",
                       Dataset::csv(shards, TextFiles::columns(), TextFiles::table(), options), names, options, weave);
}

TwinDataset TwinDataset::from_generator(int64_t count, GeneratorRuns::Rule rule, const Weave& weave) {
  const std::string_view rule_code = rule == GeneratorRuns::Rule::kReplayed   ? "kReplayed"
                                     : rule == GeneratorRuns::Rule::kSeekable ? "kSeekable"
                                                                              : "kSaved";
  TwinDataset twin(Dataset::from_generator(some_rows(count, rule)), some_rows(count),
                   fmt::format("Dataset::from_generator(some_rows({}, GeneratorRuns::Rule::{}))", count, rule_code),
                   weave);
  twin.most_ = count;
  twin.join("from_generator");
  return twin;
}

TwinDataset TwinDataset::global_shuffle(const std::vector<std::string>& names, const GlobalShuffleOptions& options,
                                        const Weave& weave) {
  std::vector<Model> models;
  for (const std::string& name : names) models.push_back(ShardFiles::get().records(name));
  std::string code = fmt::format("Dataset::global_shuffle(shards({}), {{.seed = {}", quoted(names), options.seed);
  if (!options.reshuffle_each_iteration) code += ", .reshuffle_each_iteration = false";
  code += fmt::format(", .window = {}, .merge_gap = {}, .reads_in_flight = {}", options.window, options.merge_gap,
                      options.reads_in_flight);
  Model model = model_of_global_shuffle(std::move(models), options.seed, options.reshuffle_each_iteration);
  if (options.damage.action == DamagePolicy::kSkip) {
    code += ", " + damage_code(options.damage);
    model = model_of_skipped_damage(std::move(model), options.damage.max_records);
  }
  TwinDataset twin(Dataset::global_shuffle(shards(names), options), std::move(model), code + "})", weave);
  for (const std::string& name : names) twin.most_ += name == "indexed-4" ? kLongShard : 21;
  twin.reads_shards_ = true;
  twin.join("global_shuffle");
  return twin;
}

TwinDataset TwinDataset::of_inputs(const std::string& name, TwinDataset twin, const std::vector<TwinDataset>& inputs) {
  for (const TwinDataset& input : inputs) {
    twin.most_ = input.infinite() || twin.infinite() ? -1 : twin.most_ + input.most_;
    twin.num_shuffles_ = std::max(twin.num_shuffles_, input.num_shuffles_);
    twin.num_masks_ = std::max(twin.num_masks_, input.num_masks_);
    twin.num_corruptions_ = std::max(twin.num_corruptions_, input.num_corruptions_);
    twin.num_samples_ = std::max(twin.num_samples_, input.num_samples_);
    twin.num_resamples_ = std::max(twin.num_resamples_, input.num_resamples_);
    twin.num_augments_ = std::max(twin.num_augments_, input.num_augments_);
    twin.num_crops_ = std::max(twin.num_crops_, input.num_crops_);
    twin.num_decoded_ = std::max(twin.num_decoded_, input.num_decoded_);
    twin.num_mixups_ = std::max(twin.num_mixups_, input.num_mixups_);
    twin.num_cutmixes_ = std::max(twin.num_cutmixes_, input.num_cutmixes_);
    twin.was_infinite_ |= input.was_infinite_;
    twin.reads_shards_ |= input.reads_shards_;
    twin.reads_compressed_shards_ |= input.reads_compressed_shards_;
    twin.operators_.insert(twin.operators_.end(), input.operators_.begin(), input.operators_.end());
    twin.pairs_.insert(twin.pairs_.end(), input.pairs_.begin(), input.pairs_.end());
    twin.pairs_.emplace_back(input.operators_.back(), name);
  }
  const std::vector<std::pair<std::string, std::string>> pairs = twin.pairs_;
  twin.join(name);
  twin.pairs_ = pairs;  // the last input's is there already
  return twin;
}

namespace {

std::vector<Dataset> datasets_of(const std::vector<TwinDataset>& inputs) {
  std::vector<Dataset> datasets;
  for (const TwinDataset& input : inputs) datasets.push_back(input.dataset());
  return datasets;
}

std::vector<Model> models_of(const std::vector<TwinDataset>& inputs) {
  std::vector<Model> models;
  for (const TwinDataset& input : inputs) models.push_back(input.model());
  return models;
}

std::string codes_of(const std::vector<TwinDataset>& inputs) {
  std::vector<std::string> codes;
  for (const TwinDataset& input : inputs) codes.push_back(input.code());
  return fmt::format("{{{}}}", fmt::join(codes, ", "));
}

}  // namespace

TwinDataset TwinDataset::interleave(const std::vector<TwinDataset>& inputs, const InterleaveOptions& options,
                                    const Weave& weave) {
  const TwinDataset twin(Dataset::interleave(datasets_of(inputs), options),
                         model_of_interleave(models_of(inputs), options.cycle_length, options.block_length),
                         fmt::format("Dataset::interleave({}, {{.cycle_length = {}, .block_length = {}}})",
                                     codes_of(inputs), options.cycle_length, options.block_length),
                         weave);
  return of_inputs("interleave", twin, inputs);
}

TwinDataset TwinDataset::concatenate(const std::vector<TwinDataset>& inputs, const Weave& weave) {
  const TwinDataset twin(Dataset::concatenate(datasets_of(inputs)), model_of_concatenate(models_of(inputs)),
                         fmt::format("Dataset::concatenate({})", codes_of(inputs)), weave);
  return of_inputs("concatenate", twin, inputs);
}

TwinDataset TwinDataset::flat_map(const std::vector<TwinDataset>& inputs, const Weave& weave) {
  const TwinDataset twin(Dataset::flat_map(datasets_of(inputs)), model_of_concatenate(models_of(inputs)),
                         fmt::format("Dataset::flat_map({})", codes_of(inputs)), weave);
  return of_inputs("flat_map", twin, inputs);
}

TwinDataset TwinDataset::zip(const std::vector<TwinDataset>& inputs, const Weave& weave) {
  const TwinDataset twin(Dataset::zip(datasets_of(inputs)), model_of_zip(models_of(inputs)),
                         fmt::format("Dataset::zip({})", codes_of(inputs)), weave);
  return of_inputs("zip", twin, inputs);
}

TwinDataset TwinDataset::choose_from_datasets(const std::vector<TwinDataset>& inputs, const TwinDataset& choices,
                                              bool stop_on_empty, const Weave& weave) {
  const TwinDataset twin(
      Dataset::choose_from_datasets(datasets_of(inputs), choices.dataset(), {.stop_on_empty = stop_on_empty}),
      model_of_choose(models_of(inputs), choices.model(), stop_on_empty),
      fmt::format("Dataset::choose_from_datasets({}, {}, {{.stop_on_empty = {}}})", codes_of(inputs), choices.code(),
                  stop_on_empty),
      weave);
  std::vector<TwinDataset> all = inputs;
  all.push_back(choices);
  return of_inputs("choose_from_datasets", twin, all);
}

TwinDataset TwinDataset::sample_from_datasets(const std::vector<TwinDataset>& inputs, const SampleOptions& options,
                                              const Weave& weave) {
  uint64_t occurrence = 0;
  for (const TwinDataset& input : inputs) occurrence = std::max(occurrence, input.num_samples_);
  const TwinDataset plain(
      Dataset::sample_from_datasets(datasets_of(inputs), options),
      model_of_sample(models_of(inputs), options, occurrence),
      fmt::format("Dataset::sample_from_datasets({}, {{.weights = {{{}}}, .seed = {}, .stop_on_empty = {}, "
                  ".rerandomize_each_iteration = {}}})",
                  codes_of(inputs), fmt::join(options.weights, ", "), options.seed, options.stop_on_empty,
                  options.rerandomize_each_iteration),
      weave);
  TwinDataset twin = of_inputs("sample_from_datasets", plain, inputs);
  ++twin.num_samples_;
  return twin;
}

Model TwinDataset::parsed_model(const std::vector<std::string>& names, bool with_steps) const {
  std::vector<ParsedFeature> features;
  for (const std::string& name : names) features.push_back(parsed_feature(name));
  if (with_steps) {
    features.push_back({{},
                        "",
                        [](const ExampleModel& e) {
                          std::vector<int64_t> lengths;
                          std::vector<int64_t> values;
                          for (const std::vector<int64_t>& step : e.steps) {
                            lengths.push_back(static_cast<int64_t>(step.size()));
                            values.insert(values.end(), step.begin(), step.end());
                          }
                          return ragged_integers(lengths, values);
                        },
                        stacking({true})});
  }
  static const ExampleModel kNothing;
  static const std::vector<std::string> kMayBeMissing{"words", "rows", "pairs", "weight_or_half"};
  const bool all_may_be_missing = std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return std::count(kMayBeMissing.begin(), kMayBeMissing.end(), name) > 0;
  });
  const bool needs_weight = std::count(names.begin(), names.end(), "weight") > 0;
  return model_of_map(model_, [=](ModelElement& element, int64_t) {
    const ModelValue records = std::move(element.values[0]);
    element.values.clear();
    std::vector<std::vector<ModelElement>> columns(features.size());  // by feature, then by record
    for (const std::string& record : records.bytes) {
      // What padding puts after records: an Example without features.
      if (record.empty() && !all_may_be_missing) return element.fail(ErrorCode::kMissingFeature);
      const ExampleModel& example = record.empty() ? kNothing : ShardFiles::get().example(record);
      if (example.is_text) return element.fail(ErrorCode::kParse);
      if (needs_weight && !example.weight) return element.fail(ErrorCode::kMissingFeature);
      for (size_t f = 0; f < features.size(); ++f) {
        columns[f].emplace_back().values.push_back(features[f].value(example));
      }
    }
    for (size_t f = 0; f < features.size(); ++f) {
      if (records.shape.empty()) {
        element.values.push_back(columns[f][0].values[0]);
      } else if (records.bytes.empty()) {
        columns[f].emplace_back().values.push_back(features[f].value(kNothing));
        features[f].gather(columns[f], element);
        element.values.back().take_rows_away();
      } else {
        features[f].gather(columns[f], element);
      }
    }
  });
}

TwinDataset TwinDataset::parse_example(const std::vector<std::string>& names) const {
  std::vector<FeatureDescription> descriptions;
  std::vector<std::string> codes;
  for (const std::string& name : names) {
    const ParsedFeature feature = parsed_feature(name);
    descriptions.push_back(feature.description);
    codes.push_back(feature.code);
  }
  return then("parse_example", dataset_.parse_example(descriptions), parsed_model(names, /*with_steps=*/false),
              fmt::format(".parse_example({{{}}})", fmt::join(codes, ", ")));
}

TwinDataset TwinDataset::parse_sequence_example(const std::vector<std::string>& names) const {
  std::vector<FeatureDescription> descriptions;
  std::vector<std::string> codes;
  for (const std::string& name : names) {
    const ParsedFeature feature = parsed_feature(name);
    descriptions.push_back(feature.description);
    codes.push_back(feature.code);
  }
  return then(
      "parse_sequence_example", dataset_.parse_sequence_example(descriptions, {var_len("steps", DType::kInt64)}),
      parsed_model(names, /*with_steps=*/true),
      fmt::format(".parse_sequence_example({{{}}}, {{var_len(\"steps\", DType::kInt64)}})", fmt::join(codes, ", ")));
}

TwinDataset TwinDataset::decode_raw(bool as_uint8) const {
  if (as_uint8) {
    Model model = model_of_map(model_, [c = column("pixels")](ModelElement& element, int64_t) {
      const std::string raw = element.values[c].bytes[0];
      std::vector<int64_t> numbers;
      for (const char byte : raw) numbers.push_back(static_cast<uint8_t>(byte));
      element.values[c] = integers({static_cast<int64_t>(numbers.size())}, numbers, DType::kUint8);
    });
    return then("decode_raw", dataset_.decode_raw("pixels", RawType::kUint8, {.dtype = DType::kUint8}),
                std::move(model), ".decode_raw(\"pixels\", RawType::kUint8, {.dtype = DType::kUint8})");
  }
  Model model = model_of_map(model_, [c = column("pixels")](ModelElement& element, int64_t) {
    const std::string raw = element.values[c].bytes[0];
    if (raw.size() % 2 != 0) return element.fail(ErrorCode::kParse);
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < raw.size(); i += 2) {
      numbers.push_back(256 * static_cast<int8_t>(raw[i + 1]) + static_cast<uint8_t>(raw[i]));
    }
    element.values[c] = integers({static_cast<int64_t>(numbers.size())}, numbers, DType::kInt32);
  });
  return then("decode_raw", dataset_.decode_raw("pixels", RawType::kInt16), std::move(model),
              ".decode_raw(\"pixels\", RawType::kInt16)");
}

TwinDataset TwinDataset::parse_tensor() const {
  Model model = model_of_map(model_, [c = column("tensor")](ModelElement& element, int64_t) {
    const std::string message = element.values[c].bytes[0];
    constexpr size_t kBeforeValues = 10;
    std::vector<float> values(2);
    if (message.size() != kBeforeValues + 2 * sizeof(float)) return element.fail(ErrorCode::kParse);
    std::memcpy(values.data(), message.data() + kBeforeValues, 2 * sizeof(float));
    element.values[c] = floats({2}, values);
  });
  return then("parse_tensor", dataset_.parse_tensor("tensor", DType::kFloat32, {kVaries}), std::move(model),
              ".parse_tensor(\"tensor\", DType::kFloat32, {kVaries})");
}

TwinDataset TwinDataset::map_number_rows() const {
  return then("map", dataset_.map(number_rows()),
              model_of_map(model_, [before = schema()](ModelElement& element,
                                                       int64_t ordinal) { number_rows(before, element, ordinal); }),
              ".map(number_rows())");
}

TwinDataset TwinDataset::map_span_rows() const {
  return then("map", dataset_.map(span_rows()),
              model_of_map(model_, [before = schema()](ModelElement& element, int64_t) { span_rows(before, element); }),
              ".map(span_rows())");
}

TwinDataset TwinDataset::map_image_rows() const {
  return then("map", dataset_.map(image_rows()),
              model_of_map(model_, [](ModelElement& element, int64_t) { image_rows(element); }), ".map(image_rows())");
}

TwinDataset TwinDataset::decode_image(const DecodeImageOptions& options) const {
  const TwinDataset pictures =
      then("map", dataset_.map(picture_rows()),
           model_of_map(model_, [](ModelElement& element, int64_t) { picture_rows(element); }), ".map(picture_rows())");
  std::string code =
      fmt::format(".seed = {}, .upright = {}, .least_side = {}", options.seed, options.upright, options.least_side);
  if (options.crop && options.crop->kind == CropKind::kRandomResized) {
    code = ".crop = {{.kind = CropKind::kRandomResized}}, " + code;
  } else if (options.crop) {
    code = fmt::format(".crop = {{{{.kind = CropKind::{}, .height = {}, .width = {}}}}}, ",
                       options.crop->kind == CropKind::kCentre ? "kCentre" : "kRandom", *options.crop->height,
                       *options.crop->width) +
           code;
  }
  if (options.background) code = fmt::format(".background = {{{{{}}}}}, ", fmt::join(*options.background, ", ")) + code;
  if (options.size) code = fmt::format(".size = {{{{{}}}}}, ", fmt::join(*options.size, ", ")) + code;
  TwinDataset twin =
      pictures.then("decode_image", pictures.dataset_.decode_image("picture", options),
                    model_of_decode_image(pictures.model_, options, num_decoded_),
                    fmt::format(".decode_image(\"picture\", {{.channels = {}, {}}})", options.channels, code));
  ++twin.num_decoded_;
  return twin;
}

TwinDataset TwinDataset::map_copied_records() const {
  return then("map", dataset_.map(copied_records()),
              model_of_map(model_, [](ModelElement& element, int64_t) { copied_records(element); }),
              ".map(copied_records())");
}

TwinDataset TwinDataset::map_fail_rows(int64_t divisor, int64_t remainder) const {
  return then("map", dataset_.map(fail_rows(divisor, remainder)),
              model_of_map(model_, [=](ModelElement& element, int64_t) { fail_rows(element, divisor, remainder); }),
              fmt::format(".map(fail_rows({}, {}))", divisor, remainder));
}

TwinDataset TwinDataset::map_negate_blocks(const std::string& feature) const {
  Model model = model_of_map(model_, [c = column(feature)](ModelElement& element, int64_t) {
    for (int64_t& x : element.values[c].integers) x = static_cast<int64_t>(0 - static_cast<uint64_t>(x));
  });
  TwinDataset twin = then("map", negate_blocks(dataset_, feature), std::move(model), "");
  twin.code_ = fmt::format("negate_blocks({}, \"{}\")", code_, feature);
  return twin;
}

TwinDataset TwinDataset::arithmetic(const std::string& name, const std::string& feature, int64_t k, Dataset dataset,
                                    int64_t (*calculate)(int64_t, int64_t)) const {
  Model model = model_of_map(model_, [=, c = column(feature)](ModelElement& element, int64_t) {
    ModelValue& value = element.values[c];
    for (int64_t& x : value.integers) x = wrapped(value.dtype, calculate(x, k));
    for (float& x : value.floats) {
      const auto by = static_cast<float>(k);
      x = name == "add" ? x + by : name == "multiply" ? x * by : floor_modulo(x, by);
    }
  });
  return then(name, std::move(dataset), std::move(model), fmt::format(".{}(\"{}\", int64_t{{{}}})", name, feature, k));
}

TwinDataset TwinDataset::add(const std::string& feature, int64_t k) const {
  return arithmetic("add", feature, k, dataset_.add(feature, k), [](int64_t x, int64_t by) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(by));
  });
}

TwinDataset TwinDataset::multiply(const std::string& feature, int64_t k) const {
  return arithmetic("multiply", feature, k, dataset_.multiply(feature, k), [](int64_t x, int64_t by) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(by));
  });
}

TwinDataset TwinDataset::modulo(const std::string& feature, int64_t k) const {
  return arithmetic("modulo", feature, k, dataset_.modulo(feature, k), [](int64_t x, int64_t by) {
    const int64_t remainder = x % by;
    return remainder != 0 && (remainder < 0) != (by < 0) ? remainder + by : remainder;
  });
}

TwinDataset TwinDataset::cast(const std::string& feature, DType to) const {
  Model model = model_of_map(model_, [=, c = column(feature)](ModelElement& element, int64_t) {
    ModelValue& value = element.values[c];
    if (value.dtype == to) return;
    const double limit = to == DType::kUint8 ? 256 : to == DType::kInt32 ? 0x1p31 : 0x1p63;
    std::vector<int64_t> whole;
    std::vector<float> numbers;
    for (const int64_t x : value.integers) {
      if (to != DType::kFloat32 && wrapped(to, x) != x) return element.fail(ErrorCode::kOutOfRange);
      // From an int32 and from an int64 alike: rounded to nearest.
      (to == DType::kFloat32 ? (void)numbers.push_back(static_cast<float>(x)) : whole.push_back(x));
    }
    for (const float x : value.floats) {
      if (!(to == DType::kUint8 ? x > -1 : x >= -limit) || !(x < limit)) return element.fail(ErrorCode::kOutOfRange);
      whole.push_back(static_cast<int64_t>(x));
    }
    value.dtype = to;
    value.integers = std::move(whole);
    value.floats = std::move(numbers);
  });
  return then("cast", dataset_.cast(feature, to), std::move(model),
              fmt::format(".cast(\"{}\", {})", feature, dtype_code(to)));
}

TwinDataset TwinDataset::select(const std::vector<std::string>& features) const {
  std::vector<size_t> columns;
  for (const std::string& feature : features) columns.push_back(column(feature));
  return then("select", dataset_.select(features), model_of_columns(model_, columns),
              fmt::format(".select({})", quoted(features)));
}

TwinDataset TwinDataset::drop(const std::vector<std::string>& features) const {
  std::vector<size_t> columns;
  for (size_t c = 0; c < schema().size(); ++c) {
    if (std::count(features.begin(), features.end(), schema()[c].name) == 0) columns.push_back(c);
  }
  return then("drop", dataset_.drop(features), model_of_columns(model_, columns),
              fmt::format(".drop({})", quoted(features)));
}

TwinDataset TwinDataset::one_hot(const std::string& feature, int64_t depth, DType dtype) const {
  OneHotOptions options{.dtype = dtype, .on_value = int64_t{5}, .off_value = int64_t{2}};
  if (dtype == DType::kFloat32) options.on_value = 5.5;
  return then("one_hot", dataset_.one_hot(feature, depth, options),
              model_of_one_hot(model_, column(feature), depth, options),
              fmt::format(".one_hot(\"{}\", {}, {{.dtype = {}, .on_value = {}, .off_value = int64_t{{2}}}})", feature,
                          depth, dtype_code(dtype), dtype == DType::kFloat32 ? "5.5" : "int64_t{5}"));
}

TwinDataset TwinDataset::truncate(const std::vector<std::string>& features, int64_t head, int64_t tail,
                                  bool marks) const {
  TruncateOptions options{.features = features, .head = head, .tail = tail};
  std::vector<size_t> columns;
  std::string marker;
  for (const std::string& feature : features) {
    columns.push_back(column(feature));
    if (!marks) continue;
    const bool is_bytes = schema()[columns.back()].dtype == DType::kBytes;
    options.marker[feature] = is_bytes ? PaddingValue("cut") : PaddingValue(int64_t{7});
    marker += fmt::format("{}{{\"{}\", {}}}", marker.empty() ? "" : ", ", feature,
                          is_bytes ? "std::string(\"cut\")" : "int64_t{7}");
  }
  return then("truncate", dataset_.truncate(options), model_of_truncate(model_, columns, head, tail, marks),
              fmt::format(".truncate({{.features = {}, .head = {}, .tail = {}, .marker = {{{}}}}})", quoted(features),
                          head, tail, marker));
}

TwinDataset TwinDataset::truncate_pair(const std::string& first, const std::string& second, int64_t length) const {
  return then("truncate_pair", dataset_.truncate_pair({.first = {first}, .second = {second}, .length = length}),
              model_of_truncate_pair(model_, column(first), column(second), length),
              fmt::format(".truncate_pair({{.first = {{\"{}\"}}, .second = {{\"{}\"}}, .length = {}}})", first, second,
                          length));
}

TwinDataset TwinDataset::filter_rows(int64_t divisor, int64_t remainder) const {
  return then("filter", dataset_.filter(drop_rows(divisor, remainder)),
              model_of_filter(model_, [=](const ModelElement& e) { return !digest_is(digest(e), divisor, remainder); }),
              fmt::format(".filter(drop_rows({}, {}))", divisor, remainder));
}

TwinDataset TwinDataset::filter_blocks(int64_t divisor, int64_t remainder) const {
  return then("filter", dataset_.filter(drop_in_blocks(divisor, remainder)),
              model_of_filter(model_, [=](const ModelElement& e) { return !digest_is(digest(e), divisor, remainder); }),
              fmt::format(".filter(drop_in_blocks({}, {}))", divisor, remainder));
}

TwinDataset TwinDataset::assert_cardinality(int64_t count) const {
  return then("assert_cardinality", dataset_.assert_cardinality(count), model_of_assert_cardinality(model_, count),
              fmt::format(".assert_cardinality({})", count));
}

TwinDataset TwinDataset::flat_map_few_numbers() const {
  TwinDataset twin =
      then("flat_map", dataset_.flat_map(few_numbers()),
           model_of_flat_map(model_, [](const ModelElement& e) { return few_numbers(e); }), ".flat_map(few_numbers())");
  twin.most_ = infinite() ? -1 : 3 * most_;
  return twin;
}

TwinDataset TwinDataset::interleave_few_numbers(size_t cycle_length, size_t block_length) const {
  const InterleaveOptions options{.cycle_length = cycle_length, .block_length = block_length};
  TwinDataset twin = then("interleave", dataset_.interleave(few_numbers(), options),
                          model_of_interleave_function(
                              model_, [](const ModelElement& e) { return few_numbers(e); }, cycle_length, block_length),
                          fmt::format(".interleave(few_numbers(), {{.cycle_length = {}, .block_length = {}}})",
                                      cycle_length, block_length));
  twin.most_ = infinite() ? -1 : 3 * most_;
  return twin;
}

TwinDataset TwinDataset::take_while_rows(int64_t divisor, int64_t remainder) const {
  return then(
      "take_while", dataset_.take_while(drop_rows(divisor, remainder)),
      model_of_take_while(model_, [=](const ModelElement& e) { return !digest_is(digest(e), divisor, remainder); }),
      fmt::format(".take_while(drop_rows({}, {}))", divisor, remainder));
}

TwinDataset TwinDataset::scan_add_up_rows(int64_t divisor, int64_t remainder) const {
  return then("scan", dataset_.scan(add_up_rows(divisor, remainder)),
              model_of_scan(model_, add_up_rows(divisor, remainder).initial,
                            [=, before = schema()](ScanNumbers& carried, ModelElement& element) {
                              add_up_rows(before, carried, element, divisor, remainder);
                            }),
              fmt::format(".scan(add_up_rows({}, {}))", divisor, remainder));
}

TwinDataset TwinDataset::unique(const std::string& feature) const {
  return then("unique", dataset_.unique(feature), model_of_unique(model_, column(feature)),
              fmt::format(".unique(\"{}\")", feature));
}

TwinDataset TwinDataset::rejection_resample(const std::string& feature, const std::vector<double>& target,
                                            const std::vector<double>& initial, uint64_t seed) const {
  const RejectionResampleOptions options{
      .feature = feature, .target_distribution = target, .initial_distribution = initial, .seed = seed};
  TwinDataset twin = then(
      "rejection_resample", dataset_.rejection_resample(options),
      model_of_rejection_resample(model_, options, num_resamples_, column(feature)),
      fmt::format(".rejection_resample({{.feature = \"{}\", .target_distribution = {{{}}}, .initial_distribution = "
                  "{{{}}}, .seed = {}}})",
                  feature, fmt::join(target, ", "), fmt::join(initial, ", "), seed));
  ++twin.num_resamples_;
  return twin;
}

TwinDataset TwinDataset::take(int64_t count) const {
  TwinDataset twin = then("take", dataset_.take(count), model_of_take(model_, count), fmt::format(".take({})", count));
  // Errors do not count, but a take of an infinite stream of errors only ends where a caller stops at the first.
  // What is left out counts nothing there.
  const bool may_leave_out = has("tfrecord") || has("global_shuffle");
  if (count >= 0 && (infinite() || !may_leave_out)) twin.most_ = infinite() ? count : std::min(most_, count);
  return twin;
}

TwinDataset TwinDataset::cache() const { return then("cache", dataset_.cache(), model_of_cache(model_), ".cache()"); }

TwinDataset TwinDataset::cache_on_disk() const {
  return then("cache_on_disk", dataset_.cache({.directory = new_folder()}), model_of_cache(model_),
              ".cache({.directory = new_folder()})");
}

TwinDataset TwinDataset::snapshot() const {
  return then("snapshot", dataset_.snapshot(new_folder()), model_of_cache(model_), ".snapshot(new_folder())");
}

TwinDataset TwinDataset::skip(int64_t count) const {
  return then("skip", dataset_.skip(count), model_of_skip(model_, count), fmt::format(".skip({})", count));
}

TwinDataset TwinDataset::shard(int64_t num_shards, int64_t index) const {
  return then("shard", dataset_.shard(num_shards, index), model_of_shard(model_, num_shards, index),
              fmt::format(".shard({}, {})", num_shards, index));
}

TwinDataset TwinDataset::repeat(int64_t count) const {
  TwinDataset twin = then("repeat", dataset_.repeat(count), model_of_repeat(model_, count),
                          count < 0 ? std::string(".repeat()") : fmt::format(".repeat({})", count));
  twin.most_ = infinite() || count < 0 ? -1 : most_ * count;
  twin.was_infinite_ |= twin.infinite();
  return twin;
}

TwinDataset TwinDataset::shuffle(int64_t buffer_size, const ShuffleOptions& options) const {
  TwinDataset twin = then("shuffle", dataset_.shuffle(buffer_size, options),
                          model_of_shuffle(model_, buffer_size, options, num_shuffles_),
                          fmt::format(".shuffle({}, {{.seed = {}{}}})", buffer_size, options.seed,
                                      options.reshuffle_each_iteration ? "" : ", .reshuffle_each_iteration = false"));
  ++twin.num_shuffles_;
  return twin;
}

TwinDataset TwinDataset::ignore_errors() const {
  return then("ignore_errors", dataset_.ignore_errors(), model_of_ignore_errors(model_), ".ignore_errors()");
}

TwinDataset TwinDataset::gather(const std::string& name, const Dataset& dataset, const Model& input, int64_t size,
                                bool drop_remainder) const {
  return then(name, dataset, model_of_batch(input, size, drop_remainder, ragged_features(dataset.schema())),
              fmt::format(".{}({}{})", name, size, drop_remainder ? ", {.drop_remainder = true}" : ""));
}

TwinDataset TwinDataset::batch(int64_t size, bool drop_remainder) const {
  return gather("batch", dataset_.batch(size, {.drop_remainder = drop_remainder}), model_, size, drop_remainder);
}

TwinDataset TwinDataset::ragged_batch(int64_t size, bool drop_remainder) const {
  return gather("ragged_batch", dataset_.ragged_batch(size, {.drop_remainder = drop_remainder}), model_, size,
                drop_remainder);
}

TwinDataset TwinDataset::unbatch() const {
  TwinDataset twin = then("unbatch", dataset_.unbatch(), model_of_unbatch(model_), ".unbatch()");
  if (!infinite()) twin.most_ = most_ * kMostRows;
  return twin;
}

TwinDataset TwinDataset::rebatch(int64_t size, bool drop_remainder) const {
  TwinDataset twin = gather("rebatch", dataset_.rebatch(size, {.drop_remainder = drop_remainder}),
                            model_of_unbatch(model_), size, drop_remainder);
  if (!infinite()) twin.most_ = most_ * kMostRows;
  return twin;
}

TwinDataset TwinDataset::padded_batch(int64_t size, bool drop_remainder, PadLength length,
                                      std::optional<int64_t> value) const {
  PaddedBatchOptions options{.drop_remainder = drop_remainder, .length = length};
  if (value) options.value = *value;
  return then("padded_batch", dataset_.padded_batch(size, options),
              model_of_padded_batch(model_, schema(), size, drop_remainder, length, value),
              fmt::format(".padded_batch({}, {{.drop_remainder = {}, .length = {}{}}})", size, drop_remainder,
                          length_code(length), value ? fmt::format(", .value = int64_t{{{}}}", *value) : ""));
}

TwinDataset TwinDataset::bucket_by_sequence_length(const std::vector<std::string>& features,
                                                   const std::vector<int64_t>& boundaries,
                                                   const std::vector<int64_t>& batch_sizes, bool pad_to_boundary,
                                                   bool drop_remainder, PadLength length,
                                                   std::optional<int64_t> value) const {
  BucketOptions options{.pad_to_bucket_boundary = pad_to_boundary,
                        .padding = {.drop_remainder = drop_remainder, .length = length}};
  if (value) options.padding.value = *value;
  std::vector<size_t> columns;
  for (const std::string& feature : features) columns.push_back(column(feature));
  const auto key = [columns, boundaries](const ModelElement& element) {
    int64_t longest = 0;
    for (const size_t c : columns) longest = std::max(longest, element.values[c].shape[0]);
    return std::count_if(boundaries.begin(), boundaries.end(), [&](int64_t boundary) { return boundary <= longest; });
  };
  const auto gather = [=, input = schema()](int64_t bucket) -> ModelGather {
    if (!pad_to_boundary) return padding(input, length, value);
    if (static_cast<size_t>(bucket) < boundaries.size()) {
      return padding(input, length, value, boundaries[static_cast<size_t>(bucket)] - 1);
    }
    return [](const std::vector<ModelElement>&, ModelElement& batch) { batch.fail(ErrorCode::kWrongShape); };
  };
  return then("bucket_by_sequence_length",
              dataset_.bucket_by_sequence_length(features, boundaries, batch_sizes, options),
              model_of_groups(
                  model_, key, [batch_sizes](int64_t bucket) { return batch_sizes[static_cast<size_t>(bucket)]; },
                  [drop_remainder, too_long = pad_to_boundary ? static_cast<int64_t>(boundaries.size()) : INT64_MAX](
                      int64_t bucket) { return drop_remainder && bucket != too_long; },
                  gather),
              fmt::format(".bucket_by_sequence_length({{\"{}\"}}, {{{}}}, {{{}}}, {{.pad_to_bucket_boundary = {}, "
                          ".padding = {{.drop_remainder = {}, .length = {}{}}}}})",
                          fmt::join(features, "\", \""), fmt::join(boundaries, ", "), fmt::join(batch_sizes, ", "),
                          pad_to_boundary, drop_remainder, length_code(length),
                          value ? fmt::format(", .value = int64_t{{{}}}", *value) : ""));
}

TwinDataset TwinDataset::group_by_window(int64_t divisor, std::optional<int64_t> window_size,
                                         const BatchingOptions& batches) const {
  const Dataset dataset =
      dataset_.group_by_window(digest_modulo(divisor), window_size ? WindowSize(*window_size) : two_and_key(), batches);
  const auto key = [divisor](const ModelElement& element) { return digest_modulo(element, divisor); };
  const auto size = [window_size](int64_t k) { return window_size ? *window_size : two_and_key(k); };
  const ModelGather gather = gather_of(schema(), dataset.schema(), batches);
  return then("group_by_window", dataset,
              model_of_groups(
                  model_, key, size, [drop = drops_remainder(batches)](int64_t) { return drop; },
                  [gather](int64_t) { return gather; }),
              fmt::format(".group_by_window(digest_modulo({}), {}, {})", divisor,
                          window_size ? fmt::to_string(*window_size) : "two_and_key()", gather_code(batches)));
}

TwinDataset TwinDataset::window(int64_t size, int64_t shift, int64_t stride, const BatchingOptions& batches) const {
  const Dataset dataset = dataset_.window(size, {.shift = shift, .stride = stride}, batches);
  return then("window", dataset,
              model_of_window(model_, size, shift, stride, drops_remainder(batches),
                              gather_of(schema(), dataset.schema(), batches)),
              fmt::format(".window({}, {{.shift = {}, .stride = {}}}, {})", size, shift, stride, gather_code(batches)));
}

TwinDataset TwinDataset::pack(int64_t length, int64_t look_ahead, LongSequences long_sequences,
                              const std::vector<std::string>& features) const {
  const bool splits = long_sequences == LongSequences::kSplit;
  PackOptions options{.look_ahead = look_ahead, .long_sequences = long_sequences, .features = features};
  std::vector<size_t> columns;
  std::string values;
  for (const std::string& feature : features) {
    columns.push_back(column(feature));
    const bool is_float = schema()[columns.back()].dtype == DType::kFloat32;
    options.values[feature] = is_float ? PaddingValue(0.5) : PaddingValue(int64_t{3});
    values += fmt::format("{}{{\"{}\", {}}}", values.empty() ? "" : ", ", feature, is_float ? "0.5" : "int64_t{3}");
  }
  TwinDataset twin =
      then("pack", dataset_.pack(length, options),
           model_of_pack(model_, length, static_cast<size_t>(look_ahead), splits, columns),
           fmt::format(".pack({}, {{.look_ahead = {}, .long_sequences = LongSequences::{}, .features = {{\"{}\"}}, "
                       ".values = {{{}}}}})",
                       length, look_ahead, splits ? "kSplit" : "kError", fmt::join(features, "\", \""), values));
  if (!infinite()) twin.most_ = most_ * kMostRows;
  return twin;
}

TwinDataset TwinDataset::mask(MaskTokensOptions options, const std::string& more_code) const {
  options.vocab_size = 50;
  options.mask_token = 4;
  options.special_tokens = {1};
  options.input_ids = "tokens";
  options.attention_mask = schema().find("mask") >= 0 ? "mask" : "";
  TwinDataset twin = then(
      "mask_tokens", dataset_.mask_tokens(options),
      model_of_mask_tokens(model_, options, num_masks_, schema().find("tokens"), schema().find("mask"),
                           options.word_starts.empty() ? -1 : schema().find(options.word_starts)),
      fmt::format(".mask_tokens({{.vocab_size = 50, .mask_token = 4, .special_tokens = {{1}}, .probability = {}, .seed "
                  "= {}, .input_ids = \"tokens\", .attention_mask = \"{}\"{}}})",
                  options.probability, options.seed, options.attention_mask, more_code));
  ++twin.num_masks_;
  return twin;
}

TwinDataset TwinDataset::mask_tokens(double probability, uint64_t seed) const {
  return mask({.probability = probability, .seed = seed}, "");
}

TwinDataset TwinDataset::mask_words(double probability, uint64_t seed, const std::string& starts) const {
  if (!starts.empty()) {
    return mask({.probability = probability, .seed = seed, .word_starts = starts},
                fmt::format(", .word_starts = \"{}\"", starts));
  }
  return mask({.probability = probability, .seed = seed, .starts_word = even_ids()}, ", .starts_word = even_ids()");
}

TwinDataset TwinDataset::mask_spans(double probability, uint64_t seed, bool of_words, double stop,
                                    int64_t max_length) const {
  MaskTokensOptions options{.probability = probability, .seed = seed};
  if (of_words) options.starts_word = even_ids();
  options.spans = MaskSpans{.stop = stop, .max_length = max_length};
  return mask(options, fmt::format("{}, .spans = MaskSpans{{.stop = {}, .max_length = {}}}",
                                   of_words ? ", .starts_word = even_ids()" : "", stop, max_length));
}

TwinDataset TwinDataset::corrupt_spans(double noise_density, double mean_span_length, int64_t num_sentinels,
                                       bool with_end, uint64_t seed) const {
  CorruptSpansOptions options{.vocab_size = 1000,
                              .noise_density = noise_density,
                              .mean_span_length = mean_span_length,
                              .num_sentinels = num_sentinels,
                              .seed = seed,
                              .input_ids = "tokens"};
  if (with_end) options.end_token = 1;
  TwinDataset twin = then(
      "corrupt_spans", dataset_.corrupt_spans(options),
      model_of_corrupt_spans(model_, options, num_corruptions_, schema().find("tokens")),
      fmt::format(".corrupt_spans({{.vocab_size = 1000, .noise_density = {}, .mean_span_length = {}, .num_sentinels = "
                  "{}{}, .seed = {}, .input_ids = \"tokens\"}})",
                  noise_density, mean_span_length, num_sentinels, with_end ? ", .end_token = 1" : "", seed));
  ++twin.num_corruptions_;
  return twin;
}

TwinDataset TwinDataset::augment_images(const AugmentImagesOptions& options) const {
  std::vector<size_t> columns;
  for (const std::string& feature : options.features) columns.push_back(column(feature));
  TwinDataset twin =
      then("augment_images", dataset_.augment_images(options),
           model_of_augment_images(model_, options, num_augments_, columns),
           fmt::format(".augment_images({{.features = {}, .rotate = {}, .flip_left_right = {}, .flip_up_down = {}, "
                       ".brightness = {}, .contrast = {{{}, {}}}, .saturation = {{{}, {}}}, .hue = {}, .clip = {}, "
                       ".seed = {}}})",
                       quoted(options.features), options.rotate, options.flip_left_right, options.flip_up_down,
                       options.brightness, options.contrast.first, options.contrast.second, options.saturation.first,
                       options.saturation.second, options.hue,
                       options.clip
                           ? fmt::format("std::pair<double, double>({}, {})", options.clip->first, options.clip->second)
                           : "{}",
                       options.seed));
  ++twin.num_augments_;
  return twin;
}

TwinDataset TwinDataset::resize(const ResizeOptions& options) const {
  const std::string size = options.shorter_side ? fmt::format(".shorter_side = {}", *options.shorter_side)
                           : options.longer_side
                               ? fmt::format(".longer_side = {}", *options.longer_side)
                               : fmt::format(".height = {}, .width = {}", *options.height, *options.width);
  const std::string_view method = options.method == ResizeMethod::kNearest    ? "kNearest"
                                  : options.method == ResizeMethod::kBilinear ? "kBilinear"
                                  : options.method == ResizeMethod::kBicubic  ? "kBicubic"
                                                                              : "kArea";
  return then("resize", dataset_.resize(options), model_of_resize(model_, column(options.feature), options),
              fmt::format(".resize({{.feature = \"{}\", {}, .method = ResizeMethod::{}, .antialias = {}, "
                          ".keep_dtype = {}}})",
                          options.feature, size, method, options.antialias, options.keep_dtype));
}

TwinDataset TwinDataset::crop(const CropOptions& options) const {
  const ImageCrop& window = options.window;
  const std::string of_window =
      window.kind == CropKind::kRandomResized
          ? fmt::format(".kind = CropKind::kRandomResized, .area = {{{}, {}}}, .attempts = {}", window.area.first,
                        window.area.second, window.attempts)
          : fmt::format(".kind = CropKind::{}, .height = {}, .width = {}",
                        window.kind == CropKind::kCentre ? "kCentre" : "kRandom", *window.height, *window.width);
  TwinDataset twin =
      then("crop", dataset_.crop(options), model_of_crop(model_, column(options.features[0]), options, num_crops_),
           fmt::format(".crop({{.features = {}, .window = {{{}}}, .seed = {}}})", quoted(options.features), of_window,
                       options.seed));
  ++twin.num_crops_;
  return twin;
}

TwinDataset TwinDataset::pad(const PadOptions& options) const {
  return then("pad", dataset_.pad(options), model_of_pad(model_, column(options.feature), options),
              fmt::format(".pad({{.feature = \"{}\", .height = {}, .width = {}, .value = {}, .kind = PadKind::{}}})",
                          options.feature, options.height, options.width, options.value,
                          options.kind == PadKind::kCentre ? "kCentre" : "kTopLeft"));
}

TwinDataset TwinDataset::normalize(const NormalizeOptions& options) const {
  return then(
      "normalize", dataset_.normalize(options), model_of_normalize(model_, column(options.feature), options),
      fmt::format(".normalize({{.feature = \"{}\", .mean = {{{}}}, .standard_deviation = {{{}}}, .channels_first "
                  "= {}}})",
                  options.feature, fmt::join(options.mean, ", "), fmt::join(options.standard_deviation, ", "),
                  options.channels_first));
}

TwinDataset TwinDataset::mixup(const std::vector<std::string>& features, double alpha, double probability,
                               uint64_t seed) const {
  const MixupOptions options{.features = features, .alpha = alpha, .probability = probability, .seed = seed};
  std::vector<size_t> columns;
  for (const std::string& feature : features) columns.push_back(column(feature));
  TwinDataset twin = then("mixup", dataset_.mixup(options), model_of_mixup(model_, options, num_mixups_, columns),
                          fmt::format(".mixup({{.features = {}, .alpha = {}, .probability = {}, .seed = {}}})",
                                      quoted(features), alpha, probability, seed));
  ++twin.num_mixups_;
  return twin;
}

TwinDataset TwinDataset::cutmix(const std::string& image, const std::vector<std::string>& labels, double alpha,
                                double probability, uint64_t seed) const {
  const CutmixOptions options{
      .image = image, .labels = labels, .alpha = alpha, .probability = probability, .seed = seed};
  std::vector<size_t> columns;
  for (const std::string& label : labels) columns.push_back(column(label));
  TwinDataset twin =
      then("cutmix", dataset_.cutmix(options), model_of_cutmix(model_, options, num_cutmixes_, column(image), columns),
           fmt::format(".cutmix({{.image = \"{}\", .labels = {}, .alpha = {}, .probability = {}, .seed = {}}})", image,
                       quoted(labels), alpha, probability, seed));
  ++twin.num_cutmixes_;
  return twin;
}

TwinDataset TwinDataset::prefetch(int64_t buffer_size) const {
  return then("prefetch", dataset_.prefetch(buffer_size), model_, fmt::format(".prefetch({})", buffer_size));
}

size_t TwinDataset::rank() const {
  size_t rank = 0;
  for (const FeatureSpec& feature : schema().features()) rank = std::max(rank, feature.shape.size());
  return rank;
}

size_t TwinDataset::lowest_rank() const {
  size_t rank = SIZE_MAX;
  for (const FeatureSpec& feature : schema().features()) rank = std::min(rank, feature.shape.size());
  return rank;
}

bool TwinDataset::is_ragged() const {
  return std::any_of(schema().features().begin(), schema().features().end(),
                     [](const FeatureSpec& feature) { return feature.is_ragged(); });
}

std::vector<std::string> TwinDataset::features_of(std::optional<DType> dtype) const {
  std::vector<std::string> names;
  for (const FeatureSpec& feature : schema().features()) {
    if (dtype ? feature.dtype == *dtype : feature.dtype != DType::kBytes) names.push_back(feature.name);
  }
  return names;
}

bool TwinDataset::has(const std::string& name) const {
  return std::count(operators_.begin(), operators_.end(), name) > 0;
}

}  // namespace millrace::test
