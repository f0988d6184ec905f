#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

struct PlanNode;

/// What decides the stream of a dataset besides its files: its operators as written, with those of their arguments that
/// are described as `Effect::kStream`, and their schemas. Not what changes speed only (prefetch), nor rewrites, threads
/// and budgets, which are no part of a dataset.
struct PlanDigest {
  struct Operator {
    std::string name;
    std::string arguments;  ///< for messages, cut after 160 bytes
    uint64_t digest = 0;
  };
  std::vector<Operator> operators;  ///< inputs before the operator that takes them

  /// What the first difference is, as a sentence; empty when both are of one dataset. `saved`: of the state.
  [[nodiscard]] std::string difference(const PlanDigest& saved) const;
};

/// `plan`: as written, before rewrites.
[[nodiscard]] PlanDigest digest_of(const PlanNode& plan);

}  // namespace millrace
