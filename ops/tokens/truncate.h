#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/batch/padding.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct TruncateOptions {
  std::vector<std::string> features = {};  ///< vectors of one length that are cut alike. No default
  int64_t head = 0;                        ///< values that stay of the beginning of a longer vector. Default: 0
  int64_t tail = 0;                        ///< and of its end. Default: 0
  /// One value for each feature that stands between head and tail of a vector that was cut. Default: none
  std::map<std::string, PaddingValue> marker = {};

  static constexpr auto fields() {
    using A = TruncateOptions;
    return describe<A>("TruncateOptions", field::required<&A::features>, field::stream<&A::head>,
                       field::stream<&A::tail>, field::stream<&A::marker>);
  }
};

/// Cuts long sequences: of a vector with more than `head + tail` values (and one for the marker) the first `head` and
/// the last `tail` stay; shorter ones stay whole. Head-only (`tail = 0`), tail-only and head-tail truncation are those
/// of Sun et al., "How to fine-tune BERT for text classification?", 2019, section 5.3.1.
///
///     {.features = {"ids", "mask"}, .head = 2, .tail = 1}
///     ids=[1,2,3,4,5] mask=[1,1,1,1,0]  ->  ids=[1,2,5] mask=[1,1,0]
///     {.features = {"ids"}, .head = 2, .tail = 1, .marker = {{"ids", int64_t{99}}}}
///     ids=[1,2,3,4,5]                   ->  ids=[1,2,99,5]
///
/// An element whose features have unlike lengths becomes an error. It works on rows, before they are batched.
class TruncateOperator final : public MapOperator {
 public:
  /// Throws `kInvalidArgument` for a feature that is no vector, a marker without one for each feature, and where
  /// nothing would be left.
  TruncateOperator(const SchemaPtr& input, TruncateOptions options);
  std::string_view name() const override { return "truncate"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .uses_row_numbers = false}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  TruncateOptions options_;
  std::vector<size_t> columns_;
  std::vector<std::optional<PaddingValue>> markers_;  // by feature
};

/// What `Dataset::truncate` is called with.
struct TruncateArguments {
  TruncateOptions options = {};

  static constexpr auto fields() {
    using A = TruncateArguments;
    return describe<A>("truncate", field::inlined<&A::options>);
  }
};

}  // namespace millrace
