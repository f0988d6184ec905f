#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace {

/// Bilinear resizing of pictures of 3 channels and what follows it, row by row, without a pass over memory in between.
/// The values are those of `resize`, `augment_images` and `normalize` one after the other, bit for bit.

/// New pixel i of an axis is `of_first[i]` times pixel `first[i]` plus `of_second[i]` times pixel `second[i]`.
struct BilinearAxis {
  /// Half-pixel centres, without antialiasing. Uses its memory again.
  void assign(int64_t from, int64_t to, bool reversed);

  std::vector<uint32_t> first, second;
  std::vector<float> of_first, of_second;
};

/// sums[i] = of_first * first[i] + of_second * second[i].
void add_rows(const uint8_t* first, const uint8_t* second, float of_first, float of_second, size_t count, float* sums);

/// The pixels of a new row, each channel less its mean and over its deviation. `sums`: with a value more than there
/// are; `means`, `deviations`: of all values of the row; `resized`: room for a row and a value more.
void make_row(const float* sums, const BilinearAxis& columns, const float* means, const float* deviations,
              float* resized, float* out);

}  // namespace millrace
