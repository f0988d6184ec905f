#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "millrace/formats/columnar/counted_allocator.h"
#include "millrace/ops/arguments.h"

namespace millrace {

class CounterRng;

/// Spans that mask_tokens masks, as SpanBERT has them (Joshi et al. 2019, section 3.1).
struct MaskSpans {
  double stop = 0.2;        ///< chance that a span ends after each of its tokens. Default: 0.2, on average 3.8 tokens
  int64_t max_length = 10;  ///< tokens of the longest span; longer draws are made again. Default: 10

  static constexpr auto fields() {
    using A = MaskSpans;
    return describe<A>("MaskSpans", field::stream<&A::stop>, field::stream<&A::max_length>);
  }
};

/// Chooses what is masked in a row of units: tokens, or whole words. Either each unit by itself, or spans of them whose
/// lengths are geometric up to a maximum, until they hold their share of the row. Stateless; any thread.
///
/// Draws of a row, which states rely on: of draw 0 and on the words one after the other choose the units or the places
/// of spans; those from `kSpanLengthDraws` on the lengths; word 0 of `kShareDraw` rounds the share, word 1 says which
/// span is the one that is cut.
class MaskChoice {
 public:
  static constexpr uint64_t kSpanLengthDraws = uint64_t{3} << 32;
  static constexpr uint64_t kShareDraw = uint64_t{4} << 32;

  /// Units [first, first + count).
  struct Span {
    size_t first = 0;
    size_t count = 0;
    friend bool operator==(const Span&, const Span&) = default;
  };

  /// `probability`: of a unit to be chosen; with spans at most 1/2, so that there is room between them. Arguments are
  /// the caller's to check.
  MaskChoice(double probability, const std::optional<MaskSpans>& spans);

  /// What is chosen of a row, in order; without spans each unit is one. Spans do not touch each other. The number of
  /// units in spans is the share of the row, rounded up or down at random so that it is right on average. What is
  /// needed on the way is taken from the pool of `chosen`.
  void choose(const CounterRng& rng, uint64_t row, size_t num_units, CountedVector<Span>& chosen) const;

 private:
  void choose_spans(const CounterRng& rng, uint64_t row, size_t num_units, CountedVector<Span>& chosen) const;

  uint64_t chosen_below_;               // of 2^32
  std::vector<uint64_t> length_below_;  // by length from 1: a word below gives at most that length; empty: no spans
};

}  // namespace millrace
