#pragma once

#include <string_view>

#include "millrace/ops/keep/persisted_elements.h"
#include "millrace/pipeline/plan/plan.h"

namespace millrace {

/// What tells the stream of a dataset, as written, from other ones: its digest is made of the plan's (PlanDigest) and
/// of its files' (ShardDigest), so functions of yours count by their names, and of what is done about damage. Where an
/// operator does not keep the order (`ordered = false`) it is another one. Throws `kInvalidArgument`, beginning with
/// the name of the `keeper` who asks, for a function without a name.
[[nodiscard]] StreamIdentity identity_of(std::string_view keeper, const PlanNodePtr& plan);

}  // namespace millrace
