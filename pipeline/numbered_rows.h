#pragma once

#include "ops/stage.h"

namespace millrace {

/// The state of a place where rows are numbered for maps: the number of the next row, and the place in the stream of
/// the stage before. How a plan is cut into segments, and so which of these places there are, is a matter of rewrites,
/// and a state must not depend on them: a state of another kind is taken as that of the stage before.
struct NumberedRows {
  static constexpr std::string_view kKind = "numbered";

  NumberedRows(int64_t row, Cursor place) : next_row(row), input(std::move(place)) {}
  explicit NumberedRows(const StageStatePtr& state);

  [[nodiscard]] Cursor cursor() const { return make_cursor(kKind, {next_row}, {input}); }

  int64_t next_row = 0;
  Cursor input;
};

/// Opens a stage that numbers no rows: what a state says of numbered rows around the stage's own is left aside.
[[nodiscard]] std::unique_ptr<Stage> open_unnumbered(const OpenStage& open, const StageContext& context);

}  // namespace millrace
