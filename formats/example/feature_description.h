#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "formats/columnar/schema.h"

namespace millrace {

/// Default values of a feature, flat and row-major.
using FeatureDefault = std::variant<std::monostate, std::vector<int64_t>, std::vector<float>, std::vector<std::string>>;

/// One feature to take out of a `tensorflow.Example`: its key, how it is stored, and what becomes of it.
///
///     fixed_len("input_ids", {512}, DType::kInt64).as(DType::kInt32).named("ids")
struct FeatureDescription {
  std::string key;                ///< in the record
  std::string name;               ///< of the column
  DType stored = DType::kInt64;   ///< kInt64, kFloat32 or kBytes: the list in the record
  DType dtype = DType::kInt64;    ///< of the column
  Shape shape;                    ///< of one record's value; the record must hold exactly that many values
  FeatureDefault default_values;  ///< used when the record lacks the feature. Default: none, then that is an error

  /// The column's type when it is not the stored one: int64 as int32 (a value that does not fit is an error).
  [[nodiscard]] FeatureDescription as(DType type) const;
  /// Another name for the column.
  [[nodiscard]] FeatureDescription named(std::string column) const;
  /// Exactly as many values as the shape has, row-major.
  [[nodiscard]] FeatureDescription default_value(FeatureDefault values) const;

  /// Throws `kInvalidArgument` naming the feature when type, cast, shape or default cannot work.
  void check() const;
};

/// A feature of one shape in every record. `stored`: kInt64, kFloat32 or kBytes.
[[nodiscard]] FeatureDescription fixed_len(std::string key, Shape shape, DType stored);

}  // namespace millrace
