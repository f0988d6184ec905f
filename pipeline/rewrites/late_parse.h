#pragma once

#include "pipeline/plan.h"

namespace millrace {

/// Moves `parse_example` behind shuffle, repeat, take and batch: these move whole rows without looking into them, so
/// the rows may stay compact bytes until then, and behind a batch they are parsed straight into its slots.
///
/// The stream stays the same: the operators draw by row number, and parsing is row by row. A record that does not parse
/// ends the stream with the same error after the same batches, since nobody swallows errors in between. What differs: a
/// row that batch drops with its remainder is not parsed, so an error in it is not found.
[[nodiscard]] PlanNodePtr late_parse(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied);

}  // namespace millrace
