#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/block.h"

namespace millrace {

/// What mixup and cutmix have in common: maps on the rows of batches.

/// The columns of features that are float32 batches, [rows, …]. Throws `kInvalidArgument` for others, and for one that
/// is named twice.
[[nodiscard]] std::vector<size_t> mixed_columns(const Schema& input, const std::vector<std::string>& features,
                                                std::string_view operator_name);
/// Throws `kInvalidArgument` unless alpha is above 0 and finite, and the probability in [0, 1].
void check_mixing(double alpha, double probability, std::string_view operator_name);

/// Makes an error of each element in which one of the columns has not an entry for each row: no batch.
void expect_batches(Block& block, std::span<const size_t> columns, std::string_view operator_name);
/// The ordinal of an element's first row.
[[nodiscard]] inline uint64_t first_row_of(const Block& block, size_t element) {
  return static_cast<uint64_t>(block.first_row + block.rows_per_element * static_cast<int64_t>(element));
}
/// `to` row i = lambda * row i + (1 - lambda) * row `partners[i]` of `from`. Without partners a copy.
void mix_rows(std::span<const float> from, std::span<const size_t> partners, float lambda, std::span<float> to);

}  // namespace millrace
