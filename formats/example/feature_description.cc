#include "millrace/formats/example/feature_description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

std::string_view name_of(Partition::Kind kind) {
  switch (kind) {
    case Partition::kRowSplits: return "row_splits";
    case Partition::kRowLengths: return "row_lengths";
    case Partition::kRowStarts: return "row_starts";
    case Partition::kRowLimits: return "row_limits";
    case Partition::kValueRowids: return "value_rowids";
    case Partition::kUniformRowLength: return "uniform_row_length";
  }
  return "";
}

std::string print(const FeatureDefault& values) {
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&values)) return fmt::format("{}", fmt::join(*ints, " "));
  // Exactly, also what is no number.
  if (const auto* floats = std::get_if<std::vector<float>>(&values)) {
    return fmt::format("{:a}", fmt::join(*floats, " "));
  }
  if (const auto* strings = std::get_if<std::vector<std::string>>(&values)) return fmt::format("{}", *strings);
  return "";
}

FeatureDescription describe(FeatureDescription::Kind kind, std::string key, DType stored) {
  FeatureDescription description;
  description.kind = kind;
  description.name = key;
  description.key = std::move(key);
  description.stored = stored;
  description.dtype = stored;
  return description;
}

// The shape of all of a record's values, and of a feature list with its steps outside.
Shape column_shape(const FeatureDescription& feature) {
  Shape shape = feature.shape;
  if (feature.kind == FeatureDescription::kFixedLen) return shape;
  shape.insert(shape.begin(), kVaries);
  for (const Partition& partition : feature.partitions) {
    shape.push_back(partition.kind == Partition::kUniformRowLength ? partition.row_length : kRagged);
  }
  return shape;
}

}  // namespace

Partition row_splits(std::string key) { return {.kind = Partition::kRowSplits, .key = std::move(key)}; }
Partition row_lengths(std::string key) { return {.kind = Partition::kRowLengths, .key = std::move(key)}; }
Partition row_starts(std::string key) { return {.kind = Partition::kRowStarts, .key = std::move(key)}; }
Partition row_limits(std::string key) { return {.kind = Partition::kRowLimits, .key = std::move(key)}; }
Partition value_rowids(std::string key) { return {.kind = Partition::kValueRowids, .key = std::move(key)}; }
Partition uniform_row_length(int64_t length) {
  return {.kind = Partition::kUniformRowLength, .key = {}, .row_length = length};
}

FeatureDescription FeatureDescription::as(DType type) const {
  FeatureDescription other = *this;
  other.dtype = type;
  return other;
}

FeatureDescription FeatureDescription::named(std::string column) const {
  FeatureDescription other = *this;
  other.name = std::move(column);
  return other;
}

FeatureDescription FeatureDescription::default_value(FeatureDefault values) const {
  FeatureDescription other = *this;
  other.default_values = std::move(values);
  return other;
}

std::vector<FeatureSpec> FeatureDescription::columns() const {
  if (kind != kSparse) return {{.name = name, .dtype = dtype, .shape = column_shape(*this)}};
  return {
      {.name = name + "/indices", .dtype = DType::kInt64, .shape = {kVaries, static_cast<int64_t>(index_keys.size())}},
      {.name = name + "/values", .dtype = dtype, .shape = {kVaries}}};
}

std::vector<FeatureSpec> FeatureDescription::columns_of_steps() const {
  Shape steps = column_shape(*this);
  // The steps of a sequence are its rows.
  if (kind != kFixedLenSequence) {
    steps.front() = kRagged;
    steps.insert(steps.begin(), kVaries);
  }
  return {{.name = name, .dtype = dtype, .shape = std::move(steps)}};
}

std::string FeatureDescription::to_string() const {
  std::string text = fmt::format("{} {}", key, millrace::to_string(stored));
  switch (kind) {
    case kFixedLen: text += fmt::format(" {}", millrace::to_string(shape)); break;
    case kVarLen: text += " varies"; break;
    case kFixedLenSequence:
      text += fmt::format(" sequence of {}{}", millrace::to_string(shape), allow_missing ? " or missing" : "");
      break;
    case kRaggedRows:
      text += " ragged";
      for (const Partition& partition : partitions) {
        text += fmt::format(
            " {}({})", name_of(partition.kind),
            partition.kind == Partition::kUniformRowLength ? fmt::to_string(partition.row_length) : partition.key);
      }
      break;
    case kSparse:
      text += fmt::format(" sparse {} at {}{}", millrace::to_string(size), fmt::join(index_keys, " "),
                          already_sorted ? " sorted" : "");
      break;
  }
  if (validate) text += " validated";
  if (dtype != stored) text += fmt::format(" as {}", millrace::to_string(dtype));
  if (name != key) text += fmt::format(" named {}", name);
  if (!std::holds_alternative<std::monostate>(default_values))
    text += fmt::format(" default {}", print(default_values));
  return text;
}

void FeatureDescription::check(std::string_view operator_name) const {
  const auto refuse = [&](const std::string& why) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: feature '{}': {}", operator_name, key, why));
  };
  const auto check_key = [&](const std::string& text) {
    if (!is_valid_utf8(text)) refuse("a key is not UTF-8, and so in no record");
  };
  check_key(key);
  for (const Partition& partition : partitions) check_key(partition.key);
  for (const std::string& index_key : index_keys) check_key(index_key);
  if (stored == DType::kInt32 || stored == DType::kUint8)
    refuse("records store int64, float32 or bytes; use kInt64 and .as(kInt32)");
  const bool narrows = stored == DType::kInt64 && dtype == DType::kInt32;
  if (dtype != stored && !narrows) {
    refuse(fmt::format("no cast from {} to {}", millrace::to_string(stored), millrace::to_string(dtype)));
  }
  for (const int64_t length : shape) {
    if (length < 0) refuse(fmt::format("shape {} has a size that is not fixed", millrace::to_string(shape)));
  }
  if (kind == kFixedLenSequence && num_values(shape) == 0) {
    refuse(
        fmt::format("rows of shape {} have no values, so nothing says how many there are", millrace::to_string(shape)));
  }
  // A bit of the column for each dimension.
  if (partitions.size() > 16) refuse(fmt::format("{} partitions; at most 16 are possible", partitions.size()));
  for (const Partition& partition : partitions) {
    if (partition.kind == Partition::kUniformRowLength && partition.row_length < 1) {
      refuse(fmt::format("uniform_row_length must be at least 1, not {}", partition.row_length));
    }
  }
  if (kind == kSparse) {
    if (index_keys.empty() || index_keys.size() != size.size()) {
      refuse(fmt::format("{} index keys for the size {}", index_keys.size(), millrace::to_string(size)));
    }
    for (const int64_t length : size) {
      if (length < 0) refuse(fmt::format("size {} is negative", millrace::to_string(size)));
    }
  }
  const bool has_default = !std::holds_alternative<std::monostate>(default_values);
  if (has_default && kind != kFixedLen && kind != kFixedLenSequence) {
    refuse("a default is for features of fixed length and sequences; this one is empty when it is missing");
  }
  const auto check_default = [&](size_t count, DType type) {
    if (type != stored) {
      refuse(fmt::format("the default is {}, the feature {}", millrace::to_string(type), millrace::to_string(stored)));
    }
    const auto values = kind == kFixedLen ? static_cast<size_t>(num_values(shape)) : 1;
    if (count != values) {
      refuse(kind == kFixedLen ? fmt::format("the default has {} values, the shape {} needs {}", count,
                                             millrace::to_string(shape), values)
                               : fmt::format("the default of a sequence is one value, not {}", count));
    }
  };
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&default_values)) {
    check_default(ints->size(), DType::kInt64);
    for (const int64_t value : *ints) {
      if (narrows && value != static_cast<int32_t>(value)) refuse(fmt::format("default {} does not fit int32", value));
    }
  } else if (const auto* floats = std::get_if<std::vector<float>>(&default_values)) {
    check_default(floats->size(), DType::kFloat32);
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&default_values)) {
    check_default(strings->size(), DType::kBytes);
  }
}

FeatureDescription fixed_len(std::string key, Shape shape, DType stored) {
  FeatureDescription description = describe(FeatureDescription::kFixedLen, std::move(key), stored);
  description.shape = std::move(shape);
  return description;
}

FeatureDescription var_len(std::string key, DType stored) {
  return describe(FeatureDescription::kVarLen, std::move(key), stored);
}

FeatureDescription fixed_len_sequence(std::string key, Shape row, DType stored, const SequenceOptions& options) {
  FeatureDescription description = describe(FeatureDescription::kFixedLenSequence, std::move(key), stored);
  description.shape = std::move(row);
  description.allow_missing = options.allow_missing;
  return description;
}

FeatureDescription ragged(std::string value_key, DType stored, std::vector<Partition> partitions,
                          const RaggedOptions& options) {
  FeatureDescription description = describe(FeatureDescription::kRaggedRows, std::move(value_key), stored);
  description.partitions = std::move(partitions);
  description.validate = options.validate;
  return description;
}

FeatureDescription sparse(std::string name, std::vector<std::string> index_keys, std::string value_key, DType stored,
                          Shape size, const SparseOptions& options) {
  FeatureDescription description = describe(FeatureDescription::kSparse, std::move(value_key), stored);
  description.name = std::move(name);
  description.index_keys = std::move(index_keys);
  description.size = std::move(size);
  description.already_sorted = options.already_sorted;
  description.validate = options.validate;
  return description;
}

}  // namespace millrace
