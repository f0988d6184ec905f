#pragma once

#include <functional>
#include <memory>
#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/batch/batching.h"
#include "millrace/ops/row_view.h"

namespace millrace {

/// Which group an element belongs to. Must be thread safe, and a pure function of the element.
struct RowKey {
  static constexpr std::string_view kKind = "row key";
  std::string name = {};  ///< appears in errors and in `explain()`
  std::function<int64_t(const RowView&)> key = {};
};

/// How many elements a group is to have: a number, or a function of its key.
struct WindowSize {
  static constexpr std::string_view kKind = "window size";
  WindowSize(int64_t count) : size(count) {}  // NOLINT(google-explicit-constructor): it reads as a number
  /// `name` appears in errors and in `explain()`. The function must be thread safe and pure.
  static WindowSize by_key(std::string name, std::function<int64_t(int64_t key)> function);

  int64_t size = 0;                               ///< where there is no function
  std::string name = {};                          ///< of the function
  std::function<int64_t(int64_t)> function = {};  ///< or none
};

/// Gathers elements with equal keys: those of a key become a batch when there are `window_size` of them. What is left
/// at the end comes in order of the keys, or is dropped. tf.data: `group_by_window` with a function that batches.
///
///     range(7), group_by_window({"parity", value % 2}, 2)   // [0,2] [1,3] [4,6] [5]
///     rows [1] [2,3] [4], group_by_window(key, 2, PaddedBatchOptions{.value = -1})
///
/// Errors and notes go out in their places, and no group loses anything to them; where a function throws, or a window
/// size is below 1, the element is the error. State: where the oldest group that is not empty began in the input, and
/// how far after it each of the others did: some bytes for each key whose group is open.
class GroupByWindowOperator final : public StageOperator {
 public:
  GroupByWindowOperator(const SchemaPtr& input, RowKey key, WindowSize window_size,
                        const BatchingOptions& options = BatchOptions{});
  std::string_view name() const override { return "group_by_window"; }
  /// As in tf.data: of an infinite input infinite, else unknown.
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override { return {.checkpoint_blocker = "", .pads = batching_.pads()}; }

 private:
  GroupByWindowOperator(SchemaPtr input, RowKey key, WindowSize window_size, Batching batching);

  SchemaPtr input_schema_;
  RowKey key_;
  WindowSize window_size_;
  Batching batching_;
};

/// As definitions have it: one of the two.
struct WrittenWindowSize {
  std::optional<int64_t> window_size = {};
  std::optional<WindowSize> window_size_function = {};

  static constexpr auto fields() {
    using A = WrittenWindowSize;
    return describe<A>("WindowSize", field::stream<&A::window_size>, field::stream<&A::window_size_function>);
  }
};
template <>
struct WrittenAs<WindowSize> {
  using Type = WrittenWindowSize;
  static Type to(const WindowSize& size);
  static WindowSize from(const Type& size);
};

/// What `Dataset::group_by_window` is called with.
struct GroupByWindowArguments {
  RowKey key = {};
  WindowSize window_size = 0;
  BatchingOptions batches = {};

  static constexpr auto fields() {
    using A = GroupByWindowArguments;
    return describe<A>("group_by_window", field::required<&A::key>, field::inlined<&A::window_size>,
                       field::stream<&A::batches>);
  }
};

}  // namespace millrace
