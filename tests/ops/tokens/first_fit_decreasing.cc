#include "tests/ops/tokens/first_fit_decreasing.h"

#include <algorithm>

namespace millrace::test {

size_t first_fit_decreasing(std::vector<size_t> lengths, size_t row_length) {
  std::sort(lengths.rbegin(), lengths.rend());
  // The most room in any row of a part of them: a tree over the rows.
  size_t leaves = 1;
  while (leaves < lengths.size()) leaves *= 2;
  std::vector<size_t> room(2 * leaves, row_length);
  size_t rows = 0;
  for (const size_t length : lengths) {
    size_t node = 1;
    while (node < leaves) node = room[2 * node] >= length ? 2 * node : 2 * node + 1;
    rows = std::max(rows, node - leaves + 1);
    room[node] -= length;
    for (node /= 2; node > 0; node /= 2) room[node] = std::max(room[2 * node], room[2 * node + 1]);
  }
  return rows;
}

}  // namespace millrace::test
