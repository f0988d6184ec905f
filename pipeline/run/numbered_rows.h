#pragma once

#include "millrace/ops/operator.h"

namespace millrace {

/// The state of a map: the number of the next row, and the place in the stream of what is before it. Each map has one,
/// however many share a segment: how a plan is cut into segments is a matter of prefetch and rewrites, and a state must
/// not depend on them.
struct NumberedRows {
  static constexpr std::string_view kKind = "numbered";

  NumberedRows(int64_t row, Cursor place) : next_row(row), input(std::move(place)) {}
  /// Null: the beginning. Throws `kState` for another kind of state.
  explicit NumberedRows(const StageStatePtr& state);

  [[nodiscard]] Cursor cursor() const { return make_cursor(kKind, {next_row}, {input}); }

  int64_t next_row = 0;
  Cursor input;
};

/// Whether a map has such a state. Not where it neither cares for the numbers nor changes what there is to number: a
/// rewrite that moves it must not change what states look like.
[[nodiscard]] inline bool needs_numbered_rows(const MapOperator& map) {
  return map.traits().uses_row_numbers || !map.one_to_one();
}

}  // namespace millrace
