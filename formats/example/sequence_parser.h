#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/formats/error.h"
#include "millrace/formats/example/feature_description.h"
#include "millrace/formats/example/wanted_lists.h"

namespace millrace {

/// Parses serialized `tensorflow.SequenceExample` messages: a context, which is as the features of an Example, and
/// feature lists, which are lists of steps that each hold a feature.
///
/// A feature list becomes one column: `fixed_len_sequence` [?,step…], where each step must have that shape; `var_len`
/// and `ragged` [?,ragged…], the steps outside. What ExampleParser says about bytes that readers take differently holds
/// here too.
///
/// Immutable; any number of threads.
class SequenceExampleParser {
 public:
  /// `context`: of fixed or varying length, or ragged. `feature_lists`: sequences, which must be there unless
  /// `allow_missing` and take no default, or of varying length, or ragged. Throws `kInvalidArgument` otherwise and as
  /// ExampleParser does.
  SequenceExampleParser(std::vector<FeatureDescription> context, std::vector<FeatureDescription> feature_lists);

  const std::vector<FeatureDescription>& context() const { return context_; }
  const std::vector<FeatureDescription>& feature_lists() const { return feature_lists_; }
  /// The columns of one record: those of the context, then those of the feature lists.
  const std::vector<FeatureSpec>& columns() const { return columns_; }

  /// Parses one record: see ExampleParser::parse.
  [[nodiscard]] std::optional<Error> parse(std::string_view record, BufferPool& pool,
                                           std::span<std::byte* const> destinations,
                                           std::span<ColumnBuilder* const> builders, std::string_view next = {}) const;

 private:
  struct Overlong {
    bool is_read = true;      // fields at the top whose tag has more bytes than it needs
    bool has_wanted = false;  // there are some, with something that is asked for
  };
  std::optional<Error> parse_fields(std::string_view record, std::span<std::byte* const> destinations,
                                    std::span<ColumnBuilder* const> builders, Overlong& overlong) const;
  // Whether the record parses when the fields with overlong tags are left out.
  bool parses_without_overlong(std::string_view record, BufferPool& pool) const;

  std::vector<FeatureDescription> context_;
  std::vector<FeatureDescription> feature_lists_;
  std::vector<FeatureSpec> columns_;
  wire::WantedLists wanted_context_;
  wire::WantedLists wanted_lists_;
};

}  // namespace millrace
