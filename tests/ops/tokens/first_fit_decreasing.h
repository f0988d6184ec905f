#pragma once

#include <cstddef>
#include <vector>

namespace millrace::test {

/// Rows of `row_length` that first-fit-decreasing (Johnson 1974) makes of sequences that are all there: each goes to
/// the first row in which it fits, the longest first. None may be longer than a row.
[[nodiscard]] size_t first_fit_decreasing(std::vector<size_t> lengths, size_t row_length);

}  // namespace millrace::test
