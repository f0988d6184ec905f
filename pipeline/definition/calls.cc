#include "pipeline/definition/calls.h"

#include <array>
#include <concepts>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include "pipeline/definition/fields.h"
#include "pipeline/definition/pipeline_def.pb.h"

namespace millrace::definition {

// Values. What is made of a message is a function of the direction where a type has no default or several forms.

template <>
PadLength initial() {
  return PadLength::longest();
}
template <>
Shards initial() {
  return Shards::files({"-"});
}

// The field of an alternative of a variant.
template <typename T>
constexpr std::string_view kAlternative = "";
template <>
constexpr std::string_view kAlternative<int64_t> = "integer";
template <>
constexpr std::string_view kAlternative<double> = "real";
template <>
constexpr std::string_view kAlternative<std::string> = "text";
template <>
constexpr std::string_view kAlternative<BatchOptions> = "batch";
template <>
constexpr std::string_view kAlternative<PaddedBatchOptions> = "padded_batch";
template <>
constexpr std::string_view kAlternative<RaggedBatchOptions> = "ragged_batch";

template <typename Fields, typename... Alternatives>
void visit(Fields& fields, std::variant<Alternatives...>& value) {
  if constexpr (Fields::kReads) {
    const auto take = [&]<typename T>(T alternative) {
      if (!fields.optional(kAlternative<T>, alternative)) return false;
      value = std::move(alternative);
      return true;
    };
    if (!(take(Alternatives{}) || ...)) {
      fields.refuse(fmt::format("there is none of '{}'", fmt::join(std::array{kAlternative<Alternatives>...}, "', '")));
    }
  } else {
    std::visit([&]<typename T>(const T& alternative) { fields.required(kAlternative<T>, alternative); }, value);
  }
}

template <typename Fields>
void visit(Fields& fields, PadLength& length) {
  if constexpr (Fields::kReads) {
    int64_t number = 0;
    length = PadLength::longest();
    if (fields.optional("fixed", number))
      length = PadLength::fixed(number);
    else if (fields.optional("multiple_of", number))
      length = PadLength::multiple_of(number);
  } else if (length.is_fixed()) {
    fields.required("fixed", length.fixed_length());
  } else if (length.multiple() != 1) {
    fields.required("multiple_of", length.multiple());
  }
}

// An entry of a map by feature.
template <typename T>
struct OfFeature {
  std::string feature;
  T of;
};

template <typename Fields, typename T>
void visit(Fields& fields, OfFeature<T>& entry) {
  fields.required("feature", entry.feature);
  if constexpr (std::is_same_v<T, FeaturePadding>) {
    fields.optional("length", entry.of.length);
    fields.optional("value", entry.of.value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    fields.required("to", entry.of);
  } else {
    fields.required("value", entry.of);
  }
}

template <typename Fields, typename T>
void visit_by_feature(Fields& fields, std::string_view name, std::map<std::string, T>& map) {
  std::vector<OfFeature<T>> entries;
  entries.reserve(map.size());
  for (const auto& [feature, of] : map) entries.push_back({feature, of});
  fields.optional(name, entries);
  if constexpr (Fields::kReads) {
    map.clear();
    for (const OfFeature<T>& entry : entries) {
      if (!map.emplace(entry.feature, entry.of).second) fields.refuse("'" + entry.feature + "' is there twice");
    }
  }
}

template <typename Fields>
void visit(Fields& fields, PaddedBatchOptions& padding) {
  fields.optional("drop_remainder", padding.drop_remainder);
  fields.optional("length", padding.length);
  fields.optional("value", padding.value);
  visit_by_feature(fields, "features", padding.features);
}

template <typename Fields>
void visit(Fields& fields, MaskSpans& spans) {
  fields.optional("stop", spans.stop);
  fields.optional("max_length", spans.max_length);
}

// From the least to the most.
template <typename Fields>
void visit(Fields& fields, std::pair<double, double>& bounds) {
  fields.required("least", bounds.first);
  fields.required("most", bounds.second);
}

template <typename Fields>
void visit(Fields& fields, BatchOptions& options) {
  fields.optional("drop_remainder", options.drop_remainder);
}

template <typename Fields>
void visit(Fields& fields, RaggedBatchOptions& options) {
  fields.optional("drop_remainder", options.drop_remainder);
}

template <typename Fields>
void visit(Fields& fields, Shards& shards) {
  std::vector<std::string> files;
  std::vector<uint64_t> num_records;
  if constexpr (Fields::kReads) {
    std::string glob;
    std::vector<std::string> globs;
    fields.optional("files", files);
    fields.optional("num_records", num_records);
    const int ways =
        (files.empty() ? 0 : 1) + (fields.optional("glob", glob) ? 1 : 0) + (fields.optional("globs", globs) ? 1 : 0);
    if (ways != 1) fields.refuse("'shards' takes one of 'files', 'glob' and 'globs'");
    if (!glob.empty()) globs = {glob};
    shards = files.empty() ? Shards::globs(globs) : Shards::files(files);
    if (!num_records.empty()) shards = shards.with_counts(num_records);
    std::string counts_from;
    if (fields.optional("counts_from", counts_from)) {
      if (!num_records.empty()) fields.refuse("'shards' takes either 'num_records' or 'counts_from'");
      shards = shards.counts_from(counts_from);
    }
  } else {
    for (const Shard& shard : shards.list()) {
      files.push_back(shard.path);
      if (shard.num_records) num_records.push_back(*shard.num_records);
    }
    fields.required("files", files);
    fields.required("num_records", num_records);
  }
}

template <typename Fields>
void visit(Fields& fields, DamagePolicy& damage) {
  fields.optional("action", damage.action);
  fields.optional("max_records", damage.max_records);
  fields.optional("max_bytes", damage.max_bytes);
  fields.optional("max_share", damage.max_share);
}

template <typename Fields>
void visit(Fields& fields, Partition& partition) {
  fields.required("kind", partition.kind);
  fields.optional("key", partition.key);
  fields.optional("row_length", partition.row_length);
}

template <typename Fields>
void visit(Fields& fields, FeatureDescription& feature) {
  fields.required("kind", feature.kind);
  fields.required("key", feature.key);
  fields.required("stored", feature.stored);
  if constexpr (Fields::kReads) {
    feature.name = feature.key;
    feature.dtype = feature.stored;
  }
  fields.optional("name", feature.name);
  fields.optional("dtype", feature.dtype);
  fields.optional("shape", feature.shape);
  std::vector<int64_t> integers;
  std::vector<float> reals;
  std::vector<std::string> texts;
  bool default_is_empty = false;
  if constexpr (Fields::kReads) {
    int kinds = 0;
    if (fields.optional("default_integers", integers)) feature.default_values = integers, ++kinds;
    if (fields.optional("default_reals", reals)) feature.default_values = reals, ++kinds;
    if (fields.optional("default_texts", texts)) feature.default_values = texts, ++kinds;
    if (fields.optional("default_is_empty", default_is_empty) && default_is_empty) {
      switch (feature.stored) {
        case DType::kFloat32: feature.default_values = reals; break;
        case DType::kBytes: feature.default_values = texts; break;
        default: feature.default_values = integers; break;
      }
      ++kinds;
    }
    if (kinds > 1) fields.refuse("'" + feature.key + "' has default values of several types");
  } else {
    if (const auto* values = std::get_if<std::vector<int64_t>>(&feature.default_values)) integers = *values;
    if (const auto* values = std::get_if<std::vector<float>>(&feature.default_values)) reals = *values;
    if (const auto* values = std::get_if<std::vector<std::string>>(&feature.default_values)) texts = *values;
    fields.optional("default_integers", integers);
    fields.optional("default_reals", reals);
    fields.optional("default_texts", texts);
    default_is_empty = feature.default_values.index() != 0 && integers.empty() && reals.empty() && texts.empty();
    fields.optional("default_is_empty", default_is_empty);
  }
  fields.optional("allow_missing", feature.allow_missing);
  fields.optional("partitions", feature.partitions);
  fields.optional("index_keys", feature.index_keys);
  fields.optional("size", feature.size);
  fields.optional("already_sorted", feature.already_sorted);
  fields.optional("validate", feature.validate);
}

// What a MemoryFeature is in a message: its values flat, and the lengths of the rows of a vector feature.
struct FlatFeature {
  std::string name;
  DType dtype{};
  std::vector<int64_t> integers;
  std::vector<float> reals;
  std::vector<std::string> texts;
  std::optional<Shape> row_lengths;
  std::optional<Shape> shape;

  template <typename T>
  auto& values() {
    if constexpr (std::is_integral_v<T>)
      return integers;
    else if constexpr (std::is_same_v<T, float>)
      return reals;
    else
      return texts;
  }
  template <typename T>
  void append(const T& value) {
    values<T>().push_back(value);
  }
  template <typename T>
  void append(const std::vector<T>& row) {
    if (!row_lengths) row_lengths.emplace();
    row_lengths->push_back(static_cast<int64_t>(row.size()));
    for (const T& value : row) append(value);
  }
  template <typename T>
  MemoryFeature memory_feature() {
    const auto& from = values<T>();
    if (integers.size() + reals.size() + texts.size() != from.size()) {
      FieldReader::refuse(fmt::format("'{}' has values of another type than its dtype {}", name, to_string(dtype)));
    }
    for (const auto& value : from) {
      if constexpr (std::is_same_v<T, int32_t>) {
        if (!std::in_range<int32_t>(value)) FieldReader::refuse(fmt::format("{} of '{}' is no int32", value, name));
      }
    }
    if (!row_lengths) return {name, std::vector<T>(from.begin(), from.end()), shape};
    std::vector<std::vector<T>> rows;
    auto at = from.begin();
    for (const int64_t length : *row_lengths) {
      if (length < 0 || length > from.end() - at) {
        FieldReader::refuse(fmt::format("the row lengths of '{}' do not make up its {} values", name, from.size()));
      }
      rows.emplace_back(at, at + length);
      at += length;
    }
    if (at != from.end()) {
      FieldReader::refuse(fmt::format("the row lengths of '{}' do not make up its {} values", name, from.size()));
    }
    return {name, std::move(rows), shape};
  }
};

template <typename T>
constexpr DType kDTypeOf = DType::kBytes;
template <>
constexpr DType kDTypeOf<int32_t> = DType::kInt32;
template <>
constexpr DType kDTypeOf<int64_t> = DType::kInt64;
template <>
constexpr DType kDTypeOf<float> = DType::kFloat32;
template <typename T>
constexpr DType kDTypeOf<std::vector<T>> = kDTypeOf<T>;

template <typename Fields>
void visit(Fields& fields, MemoryFeature& feature) {
  FlatFeature flat;
  if constexpr (!Fields::kReads) {
    flat.name = feature.name;
    flat.shape = feature.shape;
    std::visit(
        [&]<typename T>(const std::vector<T>& rows) {
          flat.dtype = kDTypeOf<T>;
          if (kIsVector<T>) flat.row_lengths.emplace();
          for (const T& row : rows) flat.append(row);
        },
        feature.values);
  }
  fields.required("name", flat.name);
  fields.required("dtype", flat.dtype);
  fields.optional("integers", flat.integers);
  fields.optional("reals", flat.reals);
  fields.optional("texts", flat.texts);
  fields.optional("row_lengths", flat.row_lengths);
  fields.optional("shape", flat.shape);
  if constexpr (Fields::kReads) {
    switch (flat.dtype) {
      case DType::kInt32: feature = flat.memory_feature<int32_t>(); break;
      case DType::kInt64: feature = flat.memory_feature<int64_t>(); break;
      case DType::kFloat32: feature = flat.memory_feature<float>(); break;
      case DType::kBytes: feature = flat.memory_feature<std::string>(); break;
    }
  }
}

// The calls.

template <typename Fields>
void visit(Fields& fields, calls::Range& call) {
  fields.required("start", call.start);
  fields.required("stop", call.stop);
  fields.optional("step", call.step);
  fields.optional("feature", call.feature);
}

template <typename Fields>
void visit(Fields& fields, calls::Rows& call) {
  if constexpr (Fields::kReads) {
    std::vector<MemoryFeature> features;
    fields.required("features", features);
    call.features = std::make_shared<const std::vector<MemoryFeature>>(std::move(features));
  } else {
    fields.required("features", *call.features);
  }
}

// `compression`: of a tfrecord optional.
template <typename Fields, typename Compressed>
void visit_compression(Fields& fields, Compressed& compression) {
  std::string name;
  if constexpr (Fields::kReads) {
    if (!fields.optional("compression", name)) return;
    const std::optional<Compression> found = compression_from_name(name);
    if (!found) fields.refuse("'compression' is none, zlib, gzip or zstd, not '" + name + "'");
    compression = *found;
  } else {
    const std::optional<Compression> wanted = compression;
    if (!wanted) return;
    name = to_string(*wanted);
    fields.optional("compression", name);
  }
}

template <typename Fields>
void visit(Fields& fields, FileReadOptions& options) {
  fields.optional("cycle_length", options.cycle_length);
  fields.optional("block_length", options.block_length);
  fields.optional("shuffle_shards", options.shuffle_shards);
  fields.optional("seed", options.seed);
  fields.optional("ordered", options.ordered);
  visit_compression(fields, options.compression);
  fields.optional("max_record_bytes", options.max_record_bytes);
  fields.optional("damage", options.damage);
}

template <typename Fields>
void visit(Fields& fields, calls::TextLines& call) {
  fields.required("shards", call.shards);
  fields.optional("read", call.options);
}

template <typename Fields>
void visit(Fields& fields, calls::FixedLengthRecords& call) {
  fields.required("shards", call.shards);
  fields.required("record_bytes", call.format.record_bytes);
  fields.optional("header_bytes", call.format.header_bytes);
  fields.optional("footer_bytes", call.format.footer_bytes);
  fields.optional("read", call.options);
}

template <typename Fields>
void visit(Fields& fields, CsvFormat& format) {
  std::string delimiter(1, format.delimiter);
  fields.optional("delimiter", delimiter);
  if constexpr (Fields::kReads) {
    if (delimiter.size() != 1) fields.refuse("'delimiter' is one byte, not '" + delimiter + "'");
    format.delimiter = delimiter[0];
  }
  fields.optional("quotes", format.quotes);
  fields.optional("header", format.header);
  fields.optional("missing", format.missing);
  fields.optional("select_columns", format.select_columns);
}

template <typename Fields>
void visit(Fields& fields, CsvColumn& column) {
  fields.required("name", column.name);
  fields.optional("dtype", column.dtype);
  fields.optional("default_value", column.default_value);
}

template <typename Fields>
void visit(Fields& fields, calls::CsvRecords& call) {
  fields.required("shards", call.shards);
  fields.optional("format", call.format);
  fields.optional("read", call.options);
}

template <typename Fields>
void visit(Fields& fields, calls::ParseCsv& call) {
  fields.required("columns", call.columns);
  fields.optional("format", call.format);
  fields.optional("damage", call.damage);
}

template <typename Fields>
void visit(Fields& fields, calls::Load& call) {
  fields.required("directory", call.directory);
}

template <typename Fields>
void visit(Fields& fields, calls::FromGenerator& call) {
  if constexpr (Fields::kReads) {
    std::string name;
    fields.required("generator", name);
    call.generator = registered_function<Generator>(name);
  } else {
    fields.function("generator", *call.generator);
  }
}

template <typename Fields>
void visit(Fields& fields, calls::GlobalShuffle& call) {
  GlobalShuffleOptions& options = call.options;
  fields.required("shards", call.shards);
  fields.optional("seed", options.seed);
  fields.optional("reshuffle_each_iteration", options.reshuffle_each_iteration);
  fields.optional("window", options.window);
  fields.optional("merge_gap", options.merge_gap);
  fields.optional("reads_in_flight", options.reads_in_flight);
  fields.optional("max_record_bytes", options.max_record_bytes);
  fields.optional("damage", options.damage);
}

template <typename Fields>
void visit(Fields& fields, calls::Tfrecord& call) {
  fields.required("shards", call.shards);
  fields.optional("cycle_length", call.options.cycle_length);
  fields.optional("block_length", call.options.block_length);
  fields.optional("shuffle_shards", call.options.shuffle_shards);
  fields.optional("seed", call.options.seed);
  fields.optional("ordered", call.options.ordered);
  visit_compression(fields, call.options.compression);
  fields.optional("max_record_bytes", call.options.max_record_bytes);
  fields.optional("damage", call.options.damage);
  fields.optional("chunk_bytes", call.options.chunk_bytes);
  fields.optional("read_ahead", call.options.read_ahead);
}

template <typename Fields>
void visit_options(Fields& fields, InterleaveOptions& options) {
  fields.optional("cycle_length", options.cycle_length);
  fields.optional("block_length", options.block_length);
  fields.optional("read_ahead", options.read_ahead);
  fields.optional("ordered", options.ordered);
}

template <typename Fields>
void visit(Fields& fields, calls::Interleave& call) {
  visit_options(fields, call.options);
}

template <typename Fields>
void visit(Fields&, calls::Concatenate&) {}
template <typename Fields>
void visit(Fields&, calls::FlatMapInputs&) {}
template <typename Fields>
void visit(Fields&, calls::Zip&) {}

template <typename Fields>
void visit(Fields& fields, calls::ChooseFromDatasets& call) {
  fields.optional("stop_on_empty", call.options.stop_on_empty);
}

template <typename Fields>
void visit(Fields& fields, calls::SampleFromDatasets& call) {
  fields.optional("weights", call.options.weights);
  fields.optional("seed", call.options.seed);
  fields.optional("stop_on_empty", call.options.stop_on_empty);
  fields.optional("rerandomize_each_iteration", call.options.rerandomize_each_iteration);
}

template <typename Fields>
void visit(Fields& fields, calls::ParseExample& call) {
  fields.required("features", call.features);
}

template <typename Fields>
void visit(Fields& fields, calls::ParseSequenceExample& call) {
  fields.required("context", call.context);
  fields.required("feature_lists", call.feature_lists);
}

template <typename Fields>
void visit(Fields& fields, calls::DecodeRaw& call) {
  fields.required("feature", call.feature);
  fields.required("type", call.type);
  fields.optional("shape", call.options.shape);
  fields.optional("little_endian", call.options.little_endian);
}

template <typename Fields>
void visit(Fields& fields, calls::ParseTensor& call) {
  fields.required("feature", call.feature);
  fields.required("dtype", call.dtype);
  fields.required("shape", call.shape);
  fields.optional("max_filled_values", call.options.max_filled_values);
}

template <typename Fields>
void visit(Fields& fields, calls::Map& call) {
  fields.function("function", call.function);
}
template <typename Fields>
void visit(Fields& fields, calls::MapBlocks& call) {
  fields.function("function", call.function);
}
template <typename Fields>
void visit(Fields& fields, calls::Filter& call) {
  fields.function("predicate", call.predicate);
}
template <typename Fields>
void visit(Fields& fields, calls::FilterBlocks& call) {
  fields.function("predicate", call.predicate);
}
template <typename Fields>
void visit(Fields& fields, calls::FlatMap& call) {
  fields.function("function", call.function);
}
template <typename Fields>
void visit(Fields& fields, calls::InterleaveFunction& call) {
  fields.function("function", call.function);
  visit_options(fields, call.options);
}
template <typename Fields>
void visit(Fields& fields, calls::TakeWhile& call) {
  fields.function("predicate", call.predicate);
}
template <typename Fields>
void visit(Fields& fields, calls::Scan& call) {
  fields.function("function", call.function);
}

template <typename Fields>
void visit(Fields& fields, calls::Add& call) {
  fields.required("feature", call.feature);
  fields.required("k", call.k);
}
template <typename Fields>
void visit(Fields& fields, calls::Multiply& call) {
  fields.required("feature", call.feature);
  fields.required("k", call.k);
}
template <typename Fields>
void visit(Fields& fields, calls::Modulo& call) {
  fields.required("feature", call.feature);
  fields.required("k", call.k);
}
template <typename Fields>
void visit(Fields& fields, calls::Cast& call) {
  fields.required("feature", call.feature);
  fields.required("to", call.to);
}
template <typename Fields>
void visit(Fields& fields, calls::Enumerate& call) {
  fields.optional("start", call.start);
  fields.optional("feature", call.feature);
}
template <typename Fields>
void visit(Fields& fields, calls::Unique& call) {
  fields.required("feature", call.feature);
}

template <typename Fields>
void visit(Fields& fields, calls::MaskTokens& call) {
  MaskTokensOptions& options = call.options;
  fields.required("vocab_size", options.vocab_size);
  fields.required("mask_token", options.mask_token);
  fields.optional("special_tokens", options.special_tokens);
  fields.optional("probability", options.probability);
  fields.optional("mask_share", options.mask_share);
  fields.optional("random_share", options.random_share);
  fields.optional("seed", options.seed);
  fields.optional("input_ids", options.input_ids);
  fields.optional("attention_mask", options.attention_mask);
  fields.optional("labels", options.labels);
  fields.optional("word_starts", options.word_starts);
  std::string starts_word;
  if constexpr (Fields::kReads) {
    fields.optional("starts_word", starts_word);
    if (starts_word.find_first_not_of("01") != std::string::npos) fields.refuse("'starts_word' is not of 0 and 1");
    options.starts_word.clear();
    for (const char digit : starts_word) options.starts_word.push_back(digit == '1');
  } else if (!options.starts_word.empty()) {
    for (const bool starts : options.starts_word) starts_word += starts ? '1' : '0';
    fields.optional("starts_word", starts_word);
  }
  fields.optional("spans", options.spans);
}

template <typename Fields>
void visit(Fields& fields, calls::CorruptSpans& call) {
  fields.required("vocab_size", call.options.vocab_size);
  fields.optional("noise_density", call.options.noise_density);
  fields.optional("mean_span_length", call.options.mean_span_length);
  fields.optional("first_sentinel", call.options.first_sentinel);
  fields.optional("num_sentinels", call.options.num_sentinels);
  fields.optional("end_token", call.options.end_token);
  fields.optional("seed", call.options.seed);
  fields.optional("input_ids", call.options.input_ids);
  fields.optional("labels", call.options.labels);
}
template <typename Fields>
void visit(Fields& fields, calls::OneHot& call) {
  fields.required("feature", call.feature);
  fields.required("depth", call.depth);
  fields.optional("dtype", call.options.dtype);
  fields.optional("on_value", call.options.on_value);
  fields.optional("off_value", call.options.off_value);
}
template <typename Fields>
void visit(Fields& fields, calls::Rename& call) {
  visit_by_feature(fields, "names", call.names);
}
template <typename Fields>
void visit(Fields& fields, calls::Select& call) {
  fields.required("features", call.features);
}
template <typename Fields>
void visit(Fields& fields, calls::Drop& call) {
  fields.required("features", call.features);
}
template <typename Fields>
void visit(Fields& fields, calls::Truncate& call) {
  fields.required("features", call.options.features);
  fields.optional("head", call.options.head);
  fields.optional("tail", call.options.tail);
  visit_by_feature(fields, "marker", call.options.marker);
}
template <typename Fields>
void visit(Fields& fields, calls::TruncatePair& call) {
  fields.required("first", call.options.first);
  fields.required("second", call.options.second);
  fields.required("length", call.options.length);
}
template <typename Fields>
void visit(Fields& fields, calls::RejectionResample& call) {
  fields.required("feature", call.options.feature);
  fields.required("target_distribution", call.options.target_distribution);
  fields.optional("initial_distribution", call.options.initial_distribution);
  fields.optional("seed", call.options.seed);
}
template <typename Fields>
void visit(Fields& fields, calls::AugmentImages& call) {
  fields.required("features", call.options.features);
  fields.optional("rotate", call.options.rotate);
  fields.optional("flip_left_right", call.options.flip_left_right);
  fields.optional("flip_up_down", call.options.flip_up_down);
  fields.optional("brightness", call.options.brightness);
  fields.optional("contrast", call.options.contrast);
  fields.optional("clip", call.options.clip);
  fields.optional("seed", call.options.seed);
}
template <typename Fields>
void visit(Fields& fields, calls::Mixup& call) {
  fields.required("features", call.options.features);
  fields.optional("alpha", call.options.alpha);
  fields.optional("probability", call.options.probability);
  fields.optional("seed", call.options.seed);
}
template <typename Fields>
void visit(Fields& fields, calls::Cutmix& call) {
  fields.optional("image", call.options.image);
  fields.optional("labels", call.options.labels);
  fields.optional("alpha", call.options.alpha);
  fields.optional("probability", call.options.probability);
  fields.optional("seed", call.options.seed);
}

template <typename Fields>
void visit(Fields& fields, calls::Take& call) {
  fields.required("count", call.count);
}
template <typename Fields>
void visit(Fields& fields, calls::Skip& call) {
  fields.required("count", call.count);
}
template <typename Fields>
void visit(Fields& fields, calls::Shard& call) {
  fields.required("num_shards", call.num_shards);
  fields.required("index", call.index);
}
template <typename Fields>
void visit(Fields& fields, calls::Repeat& call) {
  fields.optional("count", call.count);
}
template <typename Fields>
void visit(Fields& fields, calls::Shuffle& call) {
  fields.required("buffer_size", call.buffer_size);
  fields.optional("seed", call.options.seed);
  fields.optional("reshuffle_each_iteration", call.options.reshuffle_each_iteration);
}
template <typename Fields>
void visit(Fields& fields, calls::AssertCardinality& call) {
  fields.required("count", call.count);
}
template <typename Fields>
void visit(Fields& fields, calls::DamageBudget& call) {
  fields.required("policy", call.policy);
}
template <typename Fields>
void visit(Fields&, calls::IgnoreErrors&) {}
template <typename Fields>
void visit(Fields& fields, calls::Cache& call) {
  fields.optional("directory", call.options.directory);
}

template <typename Fields>
void visit(Fields& fields, calls::Snapshot& call) {
  fields.required("directory", call.directory);
}
template <typename Fields>
void visit(Fields& fields, calls::Prefetch& call) {
  fields.required("buffer_size", call.buffer_size);
}

template <typename Fields>
void visit(Fields& fields, calls::Batch& call) {
  fields.required("size", call.size);
  fields.optional("drop_remainder", call.options.drop_remainder);
}
template <typename Fields>
void visit(Fields& fields, calls::PaddedBatch& call) {
  fields.required("size", call.size);
  fields.optional("padding", call.options);
}
template <typename Fields>
void visit(Fields& fields, calls::RaggedBatch& call) {
  fields.required("size", call.size);
  fields.optional("drop_remainder", call.options.drop_remainder);
}
template <typename Fields>
void visit(Fields&, calls::Unbatch&) {}
template <typename Fields>
void visit(Fields& fields, calls::Rebatch& call) {
  fields.required("size", call.size);
  fields.optional("drop_remainder", call.options.drop_remainder);
}
template <typename Fields>
void visit(Fields& fields, calls::BucketBySequenceLength& call) {
  fields.required("features", call.features);
  fields.required("boundaries", call.boundaries);
  fields.required("batch_sizes", call.batch_sizes);
  fields.optional("pad_to_bucket_boundary", call.options.pad_to_bucket_boundary);
  fields.optional("padding", call.options.padding);
}

template <typename Fields>
void visit(Fields& fields, calls::GroupByWindow& call) {
  fields.function("key", call.key);
  if constexpr (Fields::kReads) {
    std::string function;
    const bool has_size = fields.optional("window_size", call.window_size.size);
    if (fields.optional("window_size_function", function) == has_size) {
      fields.refuse("it takes either 'window_size' or 'window_size_function'");
    }
    if (!has_size) call.window_size = registered_function<WindowSize>(function);
  } else if (call.window_size.function) {
    fields.function("window_size_function", call.window_size);
  } else {
    fields.required("window_size", call.window_size.size);
  }
  fields.optional("batches", call.batches);
}

template <typename Fields>
void visit(Fields& fields, calls::Window& call) {
  fields.required("size", call.size);
  fields.optional("shift", call.options.shift);
  fields.optional("stride", call.options.stride);
  fields.optional("batches", call.batches);
}

template <typename Fields>
void visit(Fields& fields, calls::Pack& call) {
  PackOptions& options = call.options;
  fields.required("length", call.length);
  fields.optional("look_ahead", options.look_ahead);
  fields.optional("long_sequences", options.long_sequences);
  fields.optional("features", options.features);
  fields.optional("value", options.value);
  visit_by_feature(fields, "values", options.values);
  fields.optional("segment_ids", options.segment_ids);
  fields.optional("positions", options.positions);
}

}  // namespace millrace::definition

namespace millrace {
namespace {

using definition::FieldReader;
using definition::FieldWriter;
using definition::Message;

template <typename Call>
Dataset build(const Call& call, const std::vector<Dataset>& inputs) {
  const auto expect_inputs = [&](bool fits, std::string_view wanted) {
    if (!fits) FieldReader::refuse(fmt::format("it takes {}, not {}", wanted, inputs.size()));
  };
  if constexpr (requires { call.build(); }) {
    expect_inputs(inputs.empty(), "no input");
    return call.build();
  } else if constexpr (requires { call.build(inputs[0]); }) {
    expect_inputs(inputs.size() == 1, "one input");
    return call.build(inputs[0]);
  } else {
    expect_inputs(!inputs.empty(), "inputs");
    return call.build(inputs);
  }
}

template <typename Call>
Dataset read_and_build(const Message& message, const std::vector<Dataset>& inputs) {
  Call call;
  FieldReader fields(message);
  visit(fields, call);
  fields.finish();
  return build(call, inputs);
}

struct CallReader {
  std::string_view field;
  Dataset (*read_and_build)(const Message& message, const std::vector<Dataset>& inputs);
};

template <typename... Calls>
constexpr std::array<CallReader, sizeof...(Calls)> readers_of(const std::variant<Calls...>*) {
  return {CallReader{Calls::kField, read_and_build<Calls>}...};
}

}  // namespace

void write_call(const BuilderCall& call, def::Step& step) {
  std::visit(
      [&](auto one) {
        const auto* field = definition::field_of(step, one.kField);
        FieldWriter fields(*step.GetReflection()->MutableMessage(&step, field));
        visit(fields, one);
      },
      call.call);
}

Dataset call_builder(const def::Step& step, const std::vector<Dataset>& inputs) {
  static constexpr auto kReaders = readers_of(static_cast<const calls::AnyCall*>(nullptr));
  const auto* field =
      step.GetReflection()->GetOneofFieldDescriptor(step, step.GetDescriptor()->FindOneofByName("operator"));
  if (field == nullptr) FieldReader::refuse("no operator is named");
  for (const CallReader& reader : kReaders) {
    if (reader.field != field->name()) continue;
    return reader.read_and_build(step.GetReflection()->GetMessage(step, field), inputs);
  }
  throw std::logic_error(field->full_name() + " is not read");
}

}  // namespace millrace
