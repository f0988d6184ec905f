#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/keep/persisted_elements.h"

namespace millrace {

/// Keeps all elements in memory in the first epoch that is read to its end, and gives them from there in the next ones:
/// what is before is not read and not calculated again.
///
/// **Every epoch gives the same elements**, those of the first one, also where the memory is not full yet: what is
/// before the cache always runs as in its first epoch. So put `shuffle` and random maps after it. (tf.data gives other
/// ones while nobody has read on after the last element.) Errors are kept in their places. Only a `repeat` without an
/// end that is cut off and started again, `cache().repeat().take(n).repeat(2)`, begins anew each time: its memory is
/// given up, and filled by the first epoch after the cut.
///
/// In a dataset that a function makes nothing is kept: each of them runs once. The memory belongs to the pipeline and
/// counts against its budget; buffers of more than three quarters of that are the error `memory_budget`. Its
/// state is a place in its input: a resumed pipeline reads on from there, and fills the memory in the next epoch.
///
///     records.parse_example(features).cache().shuffle(10'000).repeat()
class CacheOperator final : public StageOperator {
 public:
  /// `as_bytes`: each element comes out as the one `bytes` value `row` (`PackedRowCodec`), for operators that move it
  /// without looking into it; `DecodeRowsOperator` makes the element of it. Default: it comes out as it is
  explicit CacheOperator(SchemaPtr input, bool as_bytes = false);
  std::string_view name() const override { return "cache"; }
  std::string remark() const override { return schema() == input_schema_ ? "" : "as bytes"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .checkpoint_blocker = ""}; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  std::shared_ptr<SharedByRuns> share() const override;
  std::shared_ptr<const Operator> giving_bytes(const SchemaPtr& input) const override {
    return std::make_shared<const CacheOperator>(input, /*as_bytes=*/true);
  }

 private:
  SchemaPtr input_schema_;
};

struct CacheOptions {
  /// Where elements are kept for later runs too, instead of memory; see FileCacheOperator. Default: none, in memory
  std::string directory = {};

  static constexpr auto fields() {
    return describe<CacheOptions>("CacheOptions", field::speed<&CacheOptions::directory>.as_bytes());
  }
};

/// The same in a folder, which the first epoch that is read to its end writes, in this run or in an earlier one. It
/// holds the elements of one dataset: those of another one take their place. See `PersistedElementsOperator` for the
/// rules.
///
///     records.parse_example(features).cache({.directory = "/scratch/cache"}).shuffle(10'000).repeat()
class FileCacheOperator final : public PersistedElementsOperator {
 public:
  FileCacheOperator(SchemaPtr schema, std::string directory, StreamIdentity identity)
      : PersistedElementsOperator(std::move(schema), "cache", std::move(directory), /*one_for_each_digest=*/false,
                                  std::move(identity)) {}
  std::string_view name() const override { return "cache"; }
  /// Another one than that of a cache in memory, which has other states.
  uint64_t content_digest() const override { return 1; }
};

/// What `Dataset::cache` is called with.
struct CacheArguments {
  CacheOptions options = {};

  static constexpr auto fields() { return describe<CacheArguments>("cache", field::inlined<&CacheArguments::options>); }
};

}  // namespace millrace
