#include "millrace/ops/tokens/mask_choice.h"

#include <algorithm>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/formats/random/philox_words.h"
#include "millrace/formats/random/sample_without_replacement.h"

namespace millrace {

MaskChoice::MaskChoice(double probability, const std::optional<MaskSpans>& spans) : chosen_below_(chance(probability)) {
  if (!spans) return;
  std::vector<double> sums;
  double goes_on = 1;
  double sum = 0;
  for (int64_t length = 1; length <= spans->max_length; ++length) {
    sum += goes_on * spans->stop;
    goes_on *= 1 - spans->stop;
    sums.push_back(sum);
  }
  for (const double up_to : sums) length_below_.push_back(chance(up_to / sum));
}

void MaskChoice::choose(const CounterRng& rng, uint64_t row, size_t num_units, CountedVector<Span>& chosen) const {
  chosen.clear();
  if (num_units == 0) return;
  if (!length_below_.empty()) return choose_spans(rng, row, num_units, chosen);
  CountedVector<uint32_t> words((num_units + 3) / 4 * 4, 0, chosen.get_allocator());
  philox_words(rng, row, words.size() / 4, words);
  for (size_t unit = 0; unit < num_units; ++unit) {
    if (words[unit] < chosen_below_) chosen.push_back({unit, 1});
  }
}

void MaskChoice::choose_spans(const CounterRng& rng, uint64_t row, size_t num_units,
                              CountedVector<Span>& chosen) const {
  const CounterRng::Words rounding = rng.words(row, kShareDraw);
  const auto share = static_cast<size_t>((chosen_below_ * num_units + rounding[0]) >> 32);
  if (share == 0) return;
  size_t units = 0;
  CounterRng::Words lengths{};
  for (size_t i = 0; units < share; ++i) {
    if (i % 4 == 0) lengths = rng.words(row, kSpanLengthDraws + i / 4);
    const auto length = std::upper_bound(length_below_.begin(), length_below_.end() - 1, lengths[i % 4]);
    const size_t count = std::min(share - units, static_cast<size_t>(length - length_below_.begin()) + 1);
    chosen.push_back({0, count});
    units += count;
  }
  // The last one is cut to the share; it may stand anywhere.
  const auto num_spans = static_cast<uint32_t>(chosen.size());
  std::swap(chosen.back(), chosen[uniform_below(rounding[1], num_spans)]);
  // One unit more than is left out makes as many places, of which each takes one span at most.
  const size_t num_places = num_units - share + 1;
  CountedVector<uint32_t> words((num_places + 3) / 4 * 4, 0, chosen.get_allocator());
  philox_words(rng, row, words.size() / 4, words);
  size_t span = 0;
  size_t before = 0;  // units in the spans so far
  sample_without_replacement(words, num_places, chosen.size(), [&](size_t place) {
    chosen[span].first = place + before;
    before += chosen[span].count;
    ++span;
  });
}

}  // namespace millrace
