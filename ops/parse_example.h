#pragma once

#include <vector>

#include "formats/example/parser.h"
#include "ops/operator.h"

namespace millrace {

/// Parses raw `tensorflow.Example` records into columns. Rows become features of their shapes; behind a batch (elements
/// of n records) they become [n, shape…], parsed straight into the batch.
///
///     record bytes []  ->  input_ids int32 [512], attention_mask int64 [512]
///
/// A record that does not parse is the error of its element, of a batch the first such record's.
class ParseExampleOperator final : public MapOperator {
 public:
  /// `input`: raw records, one `bytes` feature of rank 0 or 1.
  ParseExampleOperator(const SchemaPtr& input, std::vector<FeatureDescription> features);
  std::string_view name() const override { return "parse_example"; }
  std::string arguments() const override;
  Block apply(Block block, BufferPool& pool) const override;
  bool uses_row_numbers() const override { return false; }

 private:
  ExampleParser parser_;
};

}  // namespace millrace
