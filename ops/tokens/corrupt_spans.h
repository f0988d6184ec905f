#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/formats/columnar/counted_allocator.h"
#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

class CounterRng;

struct CorruptSpansOptions {
  int64_t vocab_size = 0;       ///< the first sentinel is the last id below it. No default
  double noise_density = 0.15;  ///< share of the tokens that are left out, between 0 and 1. Default: 0.15
  double mean_span_length = 3;  ///< tokens of a span that is left out, on average; at least 1. Default: 3
  /// The sentinel of the first span, below `vocab_size`; those of the next spans count down. Default: none, it is
  /// `vocab_size` - 1
  std::optional<int64_t> first_sentinel = {};
  int64_t num_sentinels = 100;            ///< how many there are; at least 1. Default: 100, as T5's vocabulary has
  std::optional<int64_t> end_token = {};  ///< is put after inputs and targets. Default: none
  uint64_t seed = 0;                      ///< another seed, other spans. Default: 0
  std::string input_ids = "input_ids";    ///< feature with the ids, becomes the inputs. Default: input_ids
  std::string labels = "labels";          ///< feature that is added: the targets. Default: labels

  static constexpr auto fields() {
    using A = CorruptSpansOptions;
    return describe<A>("CorruptSpansOptions", field::required<&A::vocab_size>, field::stream<&A::noise_density>,
                       field::stream<&A::mean_span_length>, field::stream<&A::first_sentinel>,
                       field::stream<&A::num_sentinels>, field::stream<&A::end_token>, field::stream<&A::seed>,
                       field::stream<&A::input_ids>, field::stream<&A::labels>);
  }
};

/// Which spans of a row of tokens are left out, and how many tokens that makes: T5's `random_spans_noise_mask`
/// (github.com/google-research/text-to-text-transfer-transformer, t5/data/preprocessors.py). A row begins with a span
/// that stays and ends with one that does not; both kinds are cut into as many spans at uniformly random places. A row
/// of one token stays whole. Stateless; any thread.
class SpanNoise {
 public:
  /// Arguments are the caller's to check.
  SpanNoise(double density, double mean_span_length)
      : density_(static_cast<float>(density)), mean_span_length_(static_cast<float>(mean_span_length)) {}

  struct Counts {
    int64_t tokens = 0;  ///< that are left out
    int64_t spans = 0;   ///< that they are in
    friend bool operator==(const Counts&, const Counts&) = default;
  };
  /// Of a row of this length: `round(length * density)` tokens, at least one and all but one at most, in
  /// `round(tokens / mean_span_length)` spans, at least one and no more than tokens of either kind. Rounding is to
  /// nearest in float32, halves to even, as T5's. None below two tokens.
  Counts counts(int64_t length) const;

  /// The lengths of the spans of a row in order: one that stays, one that is left out, and so on. None below two
  /// tokens. Draws of a row, which states rely on: the words from draw 0 on, one after the other, for each token that
  /// is left out but the last whether a span ends after it, then the same for those that stay. Memory
  /// on the way is of the pool of `span_lengths`.
  void draw(const CounterRng& rng, uint64_t row, int64_t length, CountedVector<int64_t>& span_lengths) const;

 private:
  float density_;
  float mean_span_length_;
};

/// Leaves out spans of tokens for a text-to-text model (Raffel et al., "Exploring the limits of transfer learning with
/// a unified text-to-text transformer", JMLR 21, 2020, section 3.1.4 and appendix): in the inputs a sentinel stands for
/// each span, and the targets are each sentinel with the tokens that it stands for. `SpanNoise` says which.
///
///     {.vocab_size = 100, .noise_density = 0.4, .mean_span_length = 1.5, .end_token = 1}
///     input_ids: 11 12 13 14 15 16 17   ->   input_ids: 11 12 99 15 16 98 1   labels: 99 13 14 98 17 1
///
/// Lengths follow from that of the row alone, so rows of one length give inputs of one length and labels of one length.
/// Works on rows [length], and on batches [n,length] of rows without padding, with the same result: every choice is a
/// function of seed, epoch and the row's ordinal. Ids are int32 or int64.
///
/// A row with more spans than there are sentinels, and one that has a sentinel among its tokens, is an error.
class CorruptSpansOperator final : public MapOperator {
 public:
  /// `occurrence`: how many corrupt_spans stand before this one. Each draws its own spans, with the same seed too.
  /// Throws `kInvalidArgument`, also where the length of the rows is known and needs more sentinels than there are.
  CorruptSpansOperator(const SchemaPtr& input, CorruptSpansOptions options, uint64_t occurrence = 0);
  std::string_view name() const override { return "corrupt_spans"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  template <typename Id>
  Block corrupt(const Block& block, BufferPool& pool) const;
  void check_spans(int64_t length, ErrorCode code) const;
  // Throws when a sentinel is among the ids.
  template <typename Id>
  void check_ids(std::span<const Id> ids) const;

  CorruptSpansOptions options_;
  uint64_t occurrence_;
  SpanNoise noise_;
  int64_t first_sentinel_;
  size_t column_;
};

/// What `Dataset::corrupt_spans` is called with.
struct CorruptSpansArguments {
  CorruptSpansOptions options = {};

  static constexpr auto fields() {
    using A = CorruptSpansArguments;
    return describe<A>("corrupt_spans", field::inlined<&A::options>);
  }
};

}  // namespace millrace
