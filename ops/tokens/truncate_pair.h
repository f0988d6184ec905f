#pragma once

#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct TruncatePairOptions {
  std::vector<std::string> first = {};   ///< features of the first sequence, of one length. No default
  std::vector<std::string> second = {};  ///< features of the second sequence, of one length. No default
  int64_t length = 0;                    ///< of both together; at least 1. No default

  static constexpr auto fields() {
    using A = TruncatePairOptions;
    return describe<A>("TruncatePairOptions", field::required<&A::first>, field::required<&A::second>,
                       field::required<&A::length>);
  }
};

/// Cuts two sequences at their ends until both together have no more than `length` values: while they have more, the
/// longer one loses its last value, of equal ones the second, as in BERT (Devlin et al. 2018, `_truncate_seq_pair`; in
/// Hugging Face tokenizers `longest_first`).
///
///     {.first = {"question"}, .second = {"answer"}, .length = 5}
///     question=[1,2,3,4] answer=[5,6,7,8]  ->  question=[1,2,3] answer=[5,6]
///     question=[1] answer=[5,6,7,8,9]      ->  question=[1] answer=[5,6,7,8]
///
/// An element where the features of one sequence have unlike lengths becomes an error. It works on rows, before they
/// are batched.
class TruncatePairOperator final : public MapOperator {
 public:
  /// Throws `kInvalidArgument` for a feature that is no vector or named twice, and for a length below 1.
  TruncatePairOperator(const SchemaPtr& input, TruncatePairOptions options);
  std::string_view name() const override { return "truncate_pair"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .uses_row_numbers = false}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  TruncatePairOptions options_;
  std::vector<size_t> first_;
  std::vector<size_t> second_;
};

/// What `Dataset::truncate_pair` is called with.
struct TruncatePairArguments {
  TruncatePairOptions options = {};

  static constexpr auto fields() {
    using A = TruncatePairArguments;
    return describe<A>("truncate_pair", field::inlined<&A::options>);
  }
};

}  // namespace millrace
