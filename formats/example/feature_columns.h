#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/formats/example/feature_description.h"
#include "millrace/formats/example/value_list.h"

// From the lists of a record to columns whose shapes vary. Not for users.
namespace millrace::wire {

/// A list of the record that a feature is made of.
struct ListKey {
  std::string key;
  DType stored;
};
/// The lists of a feature: its values, then its partitions or indices.
std::vector<ListKey> keys_of(const FeatureDescription& feature);

/// Throws `Malformed` when there is a list and it is of another kind. `key`: named in the error, or empty.
void check_kind(const ValueList& list, DType stored, std::string_view key = {});

/// Appends one record to the columns of a feature that is not of fixed length. `lists`: as `keys_of` has them, without
/// a kind where the record lacks one. Sets `after_packed` as `read_values` does. Throws `Malformed`; the columns then
/// may have part of the record.
void append_feature(const FeatureDescription& feature, std::span<const ValueList> lists,
                    std::span<ColumnBuilder* const> columns, bool& after_packed);

/// The same for a feature list: the lists of each step.
void append_steps(const FeatureDescription& feature, std::span<const CountedVector<ValueList>> lists,
                  ColumnBuilder& column);

}  // namespace millrace::wire
