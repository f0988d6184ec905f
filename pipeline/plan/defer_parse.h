#pragma once

#include "millrace/pipeline/plan/plan.h"

namespace millrace {

/// Moves `parse_example` and `parse_sequence_example` after shuffle, repeat, take and batch: these move whole rows
/// without looking into them, so the rows may stay compact bytes until then, and after a batch they are parsed
/// straight into its slots. A `padded_batch` takes parsing into itself: rows are parsed when their batch is padded.
/// `parse_tensor` of tensors of one shape moves alike, several that stand next to each other as one, and not into a
/// `padded_batch`; so does `decode_image`, but after batch only where its pictures have one size, and not at all where
/// it draws a crop.
///
/// The stream stays the same, up to and including its first error, which ends it: the operators draw by row number, and
/// parsing is row by row. The rows that batch loses to an error of the source, or drops with its remainder, are parsed
/// inside batch to find the errors among them. Left as it is: a plan in which errors are swallowed; take and batch
/// below a shuffle, which gives rows from after an error before it; a second batch; batch of features whose shapes
/// vary, which after it are padded or ragged.
[[nodiscard]] PlanNodePtr defer_parse(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied);

}  // namespace millrace
