#include "millrace/ops/tokens/row_masker.h"

#include <algorithm>

namespace millrace {

template <typename Id>
void RowMasker<Id>::mask(const RowToMask<Id>& row) {
  constexpr size_t kRowsAtOnce = 16;
  const size_t length = row.original.size();
  const size_t num_draws = (length + 3) / 4;
  memory_.words_.resize(std::max(memory_.words_.size(), 4 * num_draws));
  philox_words(rng_, row.number, num_draws, memory_.words_);
  const size_t begin = memory_.drawn_.size();
  memory_.drawn_.resize(begin + drawn_bytes(length));
  mask_row(rule_, row.original.data(), row.attention, memory_.words_.data(), length, row.ids, row.labels,
           std::span(memory_.drawn_).subspan(begin));
  memory_.rows_.push_back({.number = row.number, .ids = row.ids, .drawn_end = memory_.drawn_.size(), .draws_end = 0});
  if (memory_.rows_.size() == kRowsAtOnce) finish();
}

template <typename Id>
void RowMasker<Id>::finish() {
  auto& [words, rows, drawn, positions, draws] = memory_;
  draws.clear();
  size_t begin = 0;
  for (auto& row : rows) {
    const std::span<const uint8_t> of_row = std::span(drawn).subspan(begin, row.drawn_end - begin);
    begin = row.drawn_end;
    positions.resize(std::max(positions.size(), 8 * of_row.size() + 4));
    const size_t count = list_drawn(of_row, positions.data());
    for (size_t i = 0; i < count; ++i) draws.push_back({row.number, kRandomIdDraws + positions[i]});
    row.draws_end = draws.size();
  }
  words.resize(std::max(words.size(), draws.size()));
  philox_first_words(rng_, draws, words);
  size_t i = 0;
  for (const auto& row : rows) {
    for (; i < row.draws_end; ++i) row.ids[draws[i].draw - kRandomIdDraws] = random_id<Id>(rule_, words[i]);
  }
  forget_rows();
}

template class RowMasker<int32_t>;
template class RowMasker<int64_t>;

}  // namespace millrace
