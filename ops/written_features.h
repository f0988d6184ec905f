#pragma once

#include <string_view>
#include <vector>

#include "millrace/formats/columnar/block.h"

namespace millrace {

/// The features of elements of which some are written anew and the others kept: in the place of one of the same name,
/// else after all.
class WrittenFeatures {
 public:
  /// Throws `kInvalidArgument` for a ragged feature among `writes`, which cannot be written row by row.
  WrittenFeatures(std::string_view operator_name, const Schema& input, std::vector<FeatureSpec> writes,
                  bool keep_others = true);

  /// Of the elements.
  const SchemaPtr& schema() const { return schema_; }
  /// The features that are written, alone.
  const SchemaPtr& written() const { return written_; }
  /// The elements of `block` with what was written for each; kept values are not copied. Errors of both count.
  [[nodiscard]] Block merged(const Block& block, const Block& written) const;

 private:
  SchemaPtr written_;
  SchemaPtr schema_;
  std::vector<int> kept_;     // by column of `schema_`: column of the input, or -1
  std::vector<int> new_one_;  // or of `written_`
};

}  // namespace millrace
