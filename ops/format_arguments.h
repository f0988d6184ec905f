// The descriptions of the options that stand in formats/.
#pragma once

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/csv/format.h"
#include "millrace/formats/example/feature_description.h"
#include "millrace/formats/fixed_length/reader.h"
#include "millrace/formats/records/damage_policy.h"
#include "millrace/formats/records/shards.h"
#include "millrace/ops/arguments.h"

namespace millrace {

constexpr auto names_of(const DType*) { return enum_names("DType", "INT32", "INT64", "FLOAT32", "BYTES", "UINT8"); }
constexpr auto names_of(const DamagePolicy::Action*) { return enum_names("DamageAction", "FAIL", "SKIP"); }
constexpr auto names_of(const Partition::Kind*) {
  return enum_names("PartitionKind", "ROW_SPLITS", "ROW_LENGTHS", "ROW_STARTS", "ROW_LIMITS", "VALUE_ROWIDS",
                    "UNIFORM_ROW_LENGTH");
}
constexpr auto names_of(const FeatureDescription::Kind*) {
  return enum_names("FeatureKind", "FIXED_LEN", "VAR_LEN", "FIXED_LEN_SEQUENCE", "RAGGED", "SPARSE");
}

constexpr auto fields_of(const DamagePolicy*) {
  using P = DamagePolicy;
  return describe<P>("DamagePolicy", field::damage<&P::action>, field::damage<&P::max_records>,
                     field::damage<&P::max_bytes>, field::damage<&P::max_share>);
}
constexpr auto fields_of(const FixedLengthFormat*) {
  using F = FixedLengthFormat;
  return describe<F>("FixedLengthFormat", field::required<&F::record_bytes>, field::stream<&F::header_bytes>,
                     field::stream<&F::footer_bytes>);
}
constexpr auto fields_of(const CsvFormat*) {
  using F = CsvFormat;
  return describe<F>("CsvFormat", field::stream<&F::delimiter>.as_bytes(), field::stream<&F::quotes>,
                     field::stream<&F::header>, field::stream<&F::missing>.as_bytes(),
                     field::stream<&F::select_columns>);
}
constexpr auto fields_of(const Partition*) {
  using P = Partition;
  return describe<P>("Partition", field::required<&P::kind>, field::stream<&P::key>, field::stream<&P::row_length>);
}

template <>
struct WrittenAs<char> {
  using Type = std::string;
  static Type to(char byte) { return {byte}; }
  static char from(const Type& text);
};
template <>
struct WrittenAs<std::vector<bool>> {
  using Type = std::optional<std::string>;  // of 0 and 1
  static Type to(const std::vector<bool>& values);
  static std::vector<bool> from(const Type& text);
};
template <>
struct WrittenAs<Compression> {
  using Type = std::string;
  static Type to(Compression compression);
  static Compression from(const Type& name);
};

/// Bounds from the least to the most.
struct Bounds {
  double least = 0;
  double most = 0;

  static constexpr auto fields() {
    return describe<Bounds>("Bounds", field::required<&Bounds::least>, field::required<&Bounds::most>);
  }
};
template <>
struct WrittenAs<std::pair<double, double>> {
  using Type = Bounds;
  static Type to(const std::pair<double, double>& bounds) { return {bounds.first, bounds.second}; }
  static std::pair<double, double> from(const Type& bounds) { return {bounds.least, bounds.most}; }
};

/// Files in order, or patterns, which are looked up when a definition is read.
struct ShardFiles {
  std::vector<std::string> files = {};
  std::vector<uint64_t> num_records = {};  // none, or one for each file
  std::optional<std::string> glob = {};
  std::optional<std::string> counts_from = {};  // as in Shards::counts_from
  std::vector<std::string> globs = {};          // the files of each in turn

  static constexpr auto fields() {
    using S = ShardFiles;
    return describe<S>("Shards", field::stream<&S::files>.as_bytes(), field::stream<&S::num_records>,
                       field::stream<&S::glob>.as_bytes(), field::stream<&S::counts_from>.as_bytes(),
                       field::stream<&S::globs>.as_bytes());
  }
};
template <>
struct WrittenAs<Shards> {
  using Type = ShardFiles;
  static Type to(const Shards& shards);
  static Shards from(const Type& files);
};
/// Files are identified by their names and contents.
inline std::string text_of_argument(const Shards& shards, bool /*all*/) { return std::to_string(shards.size()); }

/// A FeatureDescription without what follows from the rest of it.
struct WrittenFeature {
  FeatureDescription::Kind kind = FeatureDescription::kFixedLen;
  std::string key = {};
  std::optional<std::string> name = {};  // left out: the key
  DType stored = DType::kInt64;
  std::optional<DType> dtype = {};  // left out: as stored
  Shape shape = {};                 // left out: a scalar
  std::vector<int64_t> default_integers = {};
  std::vector<float> default_reals = {};
  std::vector<std::string> default_texts = {};
  bool default_is_empty = false;  // a default of no values, of the stored type
  bool allow_missing = false;
  std::vector<Partition> partitions = {};
  std::vector<std::string> index_keys = {};
  Shape size = {};
  bool already_sorted = false;
  bool validate = false;

  static constexpr auto fields() {
    using F = WrittenFeature;
    return describe<F>("Feature", field::required<&F::kind>, field::required<&F::key>, field::stream<&F::name>,
                       field::required<&F::stored>, field::stream<&F::dtype>, field::stream<&F::shape>.as_shape(),
                       field::stream<&F::default_integers>, field::stream<&F::default_reals>,
                       field::stream<&F::default_texts>.as_bytes(), field::stream<&F::default_is_empty>,
                       field::stream<&F::allow_missing>, field::stream<&F::partitions>, field::stream<&F::index_keys>,
                       field::stream<&F::size>.as_shape(), field::stream<&F::already_sorted>,
                       field::stream<&F::validate>);
  }
};
template <>
struct WrittenAs<FeatureDescription> {
  using Type = WrittenFeature;
  static Type to(const FeatureDescription& feature);
  static FeatureDescription from(const Type& feature);
};
std::string text_of_argument(const FeatureDescription& feature, bool all);

}  // namespace millrace
