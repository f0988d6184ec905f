#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "millrace/formats/columnar/block.h"
#include "millrace/ops/batch/padding.h"

namespace millrace {

/// What stays of a vector: its first `head` and its last `tail` values. Both together are no more than it has.
struct Kept {
  int64_t head = 0;
  int64_t tail = 0;
};

/// Vectors of `from` of which only the beginning and the end stay: those of element i as `kept[i]` says. Values are
/// copied, what `bytes` point into is held. Elements that have an error in `block` are left empty.
/// `to`: the feature that comes out, of the same type, [n] or [?]. `marker`: a value of its type that stands between
/// head and tail where something was left out.
[[nodiscard]] Column cut_vectors(const Block& block, const Column& from, const FeatureSpec& to,
                                 std::span<const Kept> kept, const std::optional<PaddingValue>& marker,
                                 BufferPool& pool);

/// How many values the vectors of `columns` have in each element. Where they are unlike, the element becomes an error
/// that begins with the name of the operator, and its length is 0; so is that of an element that is an error already.
[[nodiscard]] std::vector<int64_t> common_lengths(Block& block, std::span<const size_t> columns,
                                                  std::string_view operator_name);

}  // namespace millrace
