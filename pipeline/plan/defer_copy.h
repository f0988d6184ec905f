#pragma once

#include "millrace/pipeline/plan/plan.h"

namespace millrace {

/// Has a cache in memory give its elements as rows of bytes where a shuffle or a batch follows: these move them by
/// their places, and after the batch each is copied once, straight to where it belongs, in parallel.
///
/// For elements whose features all have fixed shapes and are no `bytes`. Between the cache and where rows become
/// elements again there may stand shuffle, repeat, take, skip, shard and one batch, which look at no value. The stream
/// stays the same, errors included.
[[nodiscard]] PlanNodePtr defer_copy(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied);

}  // namespace millrace
