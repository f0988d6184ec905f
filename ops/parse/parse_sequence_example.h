#pragma once

#include <vector>

#include "millrace/formats/example/sequence_parser.h"
#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"
#include "millrace/ops/parse/parsed_records.h"

namespace millrace {

/// Parses raw `tensorflow.SequenceExample` records into columns: first the context's, then those of the feature lists,
/// whose first dimension is the steps. A name that is in both needs another name in one (`named`).
///
///     record bytes []  ->  context        fixed_len("label", {}, kInt64)                     label int64 []
///                          feature lists  fixed_len_sequence("frames", {1024}, kFloat32)     frames float32 [?,1024]
///                                         var_len("words", kBytes)                           words bytes [?,ragged]
///
/// After a batch (elements of n records) the columns have one dimension more: fixed shapes [n,shape…], sequences
/// padded to the batch's longest with zeros, [n,?,step…], the others ragged, [n,ragged…]. The same where rows have
/// records in a feature of theirs, as many as they like each: 0 records are 0 rows.
///
/// A record that does not parse is the error of its element, of a batch the first such record's.
class ParseSequenceExampleOperator final : public MapOperator {
 public:
  /// `input`: raw records, one `bytes` feature of rank 0 or 1. The features: see SequenceExampleParser.
  ParseSequenceExampleOperator(const SchemaPtr& input, std::vector<FeatureDescription> context,
                               std::vector<FeatureDescription> feature_lists);
  std::string_view name() const override { return "parse_sequence_example"; }
  OperatorTraits traits() const override {
    return {
        .is_nonblocking = true, .uses_row_numbers = false, .parses = Parses::kRecords, .parses_batches = of_batches_};
  }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  ParseSequenceExampleOperator(const SchemaPtr& input, SequenceExampleParser parser);

  std::vector<ParsedColumn> columns_;
  bool of_batches_;
  Ref<HeldParser<SequenceExampleParser>> parser_;
};

/// What `Dataset::parse_sequence_example` is called with.
struct ParseSequenceExampleArguments {
  std::vector<FeatureDescription> context = {};
  std::vector<FeatureDescription> feature_lists = {};

  static constexpr auto fields() {
    using A = ParseSequenceExampleArguments;
    return describe<A>("parse_sequence_example", field::required<&A::context>, field::required<&A::feature_lists>);
  }
};

}  // namespace millrace
