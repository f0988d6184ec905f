#include "millrace/ops/format_arguments.h"

namespace millrace {

char WrittenAs<char>::from(const Type& text) {
  if (text.size() != 1) refuse_argument("'delimiter' is one byte, not '" + text + "'");
  return text[0];
}

WrittenAs<std::vector<bool>>::Type WrittenAs<std::vector<bool>>::to(const std::vector<bool>& values) {
  if (values.empty()) return std::nullopt;
  std::string digits;
  for (const bool value : values) digits += value ? '1' : '0';
  return digits;
}

std::vector<bool> WrittenAs<std::vector<bool>>::from(const Type& digits) {
  std::vector<bool> values;
  for (const char digit : digits.value_or("")) {
    if (digit != '0' && digit != '1') refuse_argument("'starts_word' is not of 0 and 1");
    values.push_back(digit == '1');
  }
  return values;
}

std::string WrittenAs<Compression>::to(Compression compression) { return std::string(to_string(compression)); }

Compression WrittenAs<Compression>::from(const Type& name) {
  const std::optional<Compression> found = compression_from_name(name);
  if (!found) refuse_argument("'compression' is none, zlib, gzip or zstd, not '" + name + "'");
  return *found;
}

ShardFiles WrittenAs<Shards>::to(const Shards& shards) {
  ShardFiles files;
  for (const Shard& shard : shards.list()) {
    files.files.push_back(shard.path);
    if (shard.num_records) files.num_records.push_back(*shard.num_records);
  }
  return files;
}

Shards WrittenAs<Shards>::from(const ShardFiles& files) {
  const int ways = (files.files.empty() ? 0 : 1) + (files.glob ? 1 : 0) + (files.globs.empty() ? 0 : 1);
  if (ways != 1) refuse_argument("'shards' takes one of 'files', 'glob' and 'globs'");
  Shards shards = !files.files.empty() ? Shards::files(files.files)
                                       : Shards::globs(files.glob ? std::vector{*files.glob} : files.globs);
  if (!files.num_records.empty()) {
    if (files.counts_from) refuse_argument("'shards' takes either 'num_records' or 'counts_from'");
    return shards.with_counts(files.num_records);
  }
  return files.counts_from ? shards.counts_from(*files.counts_from) : shards;
}

WrittenFeature WrittenAs<FeatureDescription>::to(const FeatureDescription& feature) {
  WrittenFeature written{.kind = feature.kind,
                         .key = feature.key,
                         .name = feature.name,
                         .stored = feature.stored,
                         .dtype = feature.dtype,
                         .shape = feature.shape,
                         .allow_missing = feature.allow_missing,
                         .partitions = feature.partitions,
                         .index_keys = feature.index_keys,
                         .size = feature.size,
                         .already_sorted = feature.already_sorted,
                         .validate = feature.validate};
  const auto& values = feature.default_values;
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&values)) written.default_integers = *integers;
  if (const auto* reals = std::get_if<std::vector<float>>(&values)) written.default_reals = *reals;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&values)) written.default_texts = *texts;
  written.default_is_empty = values.index() != 0 && written.default_integers.empty() && written.default_reals.empty() &&
                             written.default_texts.empty();
  return written;
}

FeatureDescription WrittenAs<FeatureDescription>::from(const WrittenFeature& written) {
  FeatureDescription feature{.kind = written.kind,
                             .key = written.key,
                             .name = written.name.value_or(written.key),
                             .stored = written.stored,
                             .dtype = written.dtype.value_or(written.stored),
                             .shape = written.shape,
                             .default_values = {},
                             .allow_missing = written.allow_missing,
                             .partitions = written.partitions,
                             .index_keys = written.index_keys,
                             .size = written.size,
                             .already_sorted = written.already_sorted,
                             .validate = written.validate};
  int kinds = 0;
  if (!written.default_integers.empty()) feature.default_values = written.default_integers, ++kinds;
  if (!written.default_reals.empty()) feature.default_values = written.default_reals, ++kinds;
  if (!written.default_texts.empty()) feature.default_values = written.default_texts, ++kinds;
  if (written.default_is_empty) {
    switch (feature.stored) {
      case DType::kFloat32: feature.default_values = written.default_reals; break;
      case DType::kBytes: feature.default_values = written.default_texts; break;
      default: feature.default_values = written.default_integers; break;
    }
    ++kinds;
  }
  if (kinds > 1) refuse_argument("'" + feature.key + "' has default values of several types");
  return feature;
}

std::string text_of_argument(const FeatureDescription& feature, bool all) {
  return all ? text_of_value(WrittenAs<FeatureDescription>::to(feature), true) : feature.to_string();
}

}  // namespace millrace
