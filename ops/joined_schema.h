#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "millrace/ops/operator.h"

namespace millrace {

/// The features of several inputs whose elements come out as one stream. Names, types and ranks must be equal, in any
/// order; the first input's order is that of the stream. Where sizes differ the stream's varies; what is ragged must be
/// so everywhere.
///
///     x int64 [], y int64 [3]   and   y int64 [2], x int64 []   ->   x int64 [], y int64 [?]
class JoinedSchema {
 public:
  /// Throws `kInvalidArgument` when there are no inputs or their features are not the same.
  JoinedSchema(std::string_view operator_name, std::span<const SchemaPtr> inputs);

  const SchemaPtr& schema() const { return schema_; }
  size_t num_inputs() const { return columns_.size(); }
  /// Opens an input of this number so that its blocks have the features of the stream. Costs nothing where they have
  /// them already. Its states are the input's own.
  [[nodiscard]] OpenStage opener(size_t input, OpenStage open) const;

 private:
  SchemaPtr schema_;
  std::vector<std::vector<size_t>> columns_;  // of each input, by column of the stream; empty: all as they are
};

}  // namespace millrace
