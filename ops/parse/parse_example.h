#pragma once

#include <vector>

#include "millrace/formats/example/parser.h"
#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"
#include "millrace/ops/parse/parsed_records.h"

namespace millrace {

/// Parses raw `tensorflow.Example` records into columns, which FeatureDescription says for each kind of feature.
///
///     record bytes []  ->  fixed_len("ids", {512}, kInt64).as(kInt32)         ids int32 [512]
///                          var_len("tags", kBytes)                            tags bytes [?]
///                          fixed_len_sequence("boxes", {4}, kFloat32, …)      boxes float32 [?,4]
///                          ragged("v", kInt64, {row_lengths("n")}).named("r") r int64 [?,ragged]
///                          sparse("s", {"i"}, "w", kFloat32, {100})           s/indices int64 [?,1], s/values float32
///                          [?]
///
/// After a batch (elements of n records) the columns have one dimension more, as tf.io.parse_example has them: fixed
/// shapes are parsed straight into the batch, [n,shape…]; sequences are padded to the batch's longest with their
/// default, [n,?,row…]; the others are ragged, [n,ragged…]. Rows that are parsed alone give the same through `batch`,
/// `padded_batch` and `ragged_batch`.
///
/// The same where rows have records in a feature of theirs, as many as they like each: 0 records are 0 rows.
///
/// A record that does not parse is the error of its element, of a batch the first such record's.
class ParseExampleOperator final : public MapOperator {
 public:
  /// `input`: raw records, one `bytes` feature of rank 0 or 1.
  ParseExampleOperator(const SchemaPtr& input, std::vector<FeatureDescription> features);
  std::string_view name() const override { return "parse_example"; }
  OperatorTraits traits() const override {
    return {
        .is_nonblocking = true, .uses_row_numbers = false, .parses = Parses::kRecords, .parses_batches = of_batches_};
  }
  Block apply(Block block, BufferPool& pool) const override;
  const ExampleParser& parser() const { return **parser_; }

 private:
  ParseExampleOperator(const SchemaPtr& input, ExampleParser parser);

  std::vector<ParsedColumn> columns_;
  bool of_batches_;
  Ref<HeldParser<ExampleParser>> parser_;
};

/// What `Dataset::parse_example` is called with.
struct ParseExampleArguments {
  std::vector<FeatureDescription> features = {};

  static constexpr auto fields() {
    using A = ParseExampleArguments;
    return describe<A>("parse_example", field::required<&A::features>);
  }
};

}  // namespace millrace
