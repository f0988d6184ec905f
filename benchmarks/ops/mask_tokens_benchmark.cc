// What masking costs a row of 512 token ids. Its floor is the random words and two copies of the ids; that of the
// words, one draw after the other. `items_per_second` counts rows. The tests of mask_tokens compare every position with
// its definition; here the share of labels is looked at.
#include <cstring>
#include <stdexcept>
#include <vector>

#include <benchmark/benchmark.h>

#include "millrace/formats/random/philox_words.h"
#include "millrace/ops/tokens/mask_tokens.h"

namespace millrace {
namespace {

constexpr size_t kRows = 128;
constexpr size_t kLength = 512;

template <typename Id>
void mask_batches(benchmark::State& state, MaskTokensOptions options) {
  BufferPool pool;
  const Shape shape{kRows, kLength};
  const auto schema = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{.name = "input_ids", .dtype = DTypeOf<Id>::value, .shape = shape},
                               {.name = "attention_mask", .dtype = DType::kInt64, .shape = shape}});
  Column ids = Column::fixed(pool, DTypeOf<Id>::value, shape, 1);
  Column attention = Column::fixed(pool, DType::kInt64, shape, 1);
  Id next = 0;
  for (Id& id : ids.template mutable_values<Id>()) id = next = (next * 7 + 13) % 25'000;
  for (int64_t& one : attention.mutable_values<int64_t>()) one = 1;
  Block batch(schema, {ids, attention}, 1);
  batch.rows_per_element = kRows;
  options.vocab_size = 25'000;
  options.mask_token = 4;
  options.special_tokens = {0, 1};
  options.seed = 1;
  const MaskTokensOperator mask(schema, options);
  double labels = 0;
  for (const Id label : mask.apply(batch, pool).column("labels").template values<Id>()) labels += label != -100 ? 1 : 0;
  if (labels < 0.14 * kRows * kLength || labels > 0.16 * kRows * kLength) throw std::logic_error("wrong share");
  for (auto _ : state) {
    benchmark::DoNotOptimize(mask.apply(batch, pool));
    batch.first_row += kRows;
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kRows));
}

// Every second id starts a word.
std::vector<bool> even_ids() {
  std::vector<bool> even(25'000);
  for (size_t id = 0; id < even.size(); id += 2) even[id] = true;
  return even;
}

void mask_tokens_int32(benchmark::State& state) { mask_batches<int32_t>(state, {}); }
void mask_tokens_int64(benchmark::State& state) { mask_batches<int64_t>(state, {}); }
void mask_words(benchmark::State& state) { mask_batches<int32_t>(state, {.starts_word = even_ids()}); }
void mask_spans(benchmark::State& state) { mask_batches<int32_t>(state, {.spans = MaskSpans{}}); }
void mask_spans_of_words(benchmark::State& state) {
  mask_batches<int32_t>(state, {.starts_word = even_ids(), .spans = MaskSpans{}});
}

template <typename Id>
void copy_ids(benchmark::State& state) {
  std::vector<Id> original(kRows * kLength, 7);
  std::vector<Id> ids(original.size());
  std::vector<Id> labels(original.size());
  std::vector<uint32_t> words(kLength);
  const CounterRng rng(1, operator_id("mask_tokens"));
  uint64_t ordinal = 0;
  for (auto _ : state) {
    for (size_t row = 0; row < kRows; ++row) {
      philox_words(rng, ordinal++, kLength / 4, words);
      std::memcpy(ids.data() + row * kLength, original.data() + row * kLength, kLength * sizeof(Id));
      std::memcpy(labels.data() + row * kLength, original.data() + row * kLength, kLength * sizeof(Id));
      benchmark::ClobberMemory();
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kRows));
}

BENCHMARK(mask_tokens_int32);
BENCHMARK(copy_ids<int32_t>)->Name("mask_tokens_int32_floor");
BENCHMARK(mask_tokens_int64);
BENCHMARK(copy_ids<int64_t>)->Name("mask_tokens_int64_floor");
BENCHMARK(mask_words);
BENCHMARK(mask_spans);
BENCHMARK(mask_spans_of_words);

// `draw_row(rng, row, words)` draws the words of a row.
template <typename DrawRow>
void words_of_rows(benchmark::State& state, DrawRow&& draw_row) {
  const CounterRng rng(1, operator_id("mask_tokens"));
  std::vector<uint32_t> words(kLength);
  draw_row(rng, 5, words);
  for (size_t i = 0; i < kLength; ++i) {
    if (words[i] != rng.words(5, i / 4)[i % 4]) throw std::logic_error("other words");
  }
  uint64_t row = 0;
  for (auto _ : state) {
    draw_row(rng, row++, words);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}

void random_words(benchmark::State& state) {
  words_of_rows(state, [](const CounterRng& rng, uint64_t row, std::vector<uint32_t>& words) {
    philox_words(rng, row, kLength / 4, words);
  });
}
void random_words_floor(benchmark::State& state) {
  words_of_rows(state, [](const CounterRng& rng, uint64_t row, std::vector<uint32_t>& words) {
    for (size_t draw = 0; draw < kLength / 4; ++draw) {
      const CounterRng::Words four = rng.words(row, draw);
      std::copy(four.begin(), four.end(), words.begin() + static_cast<int64_t>(4 * draw));
    }
  });
}
BENCHMARK(random_words);
BENCHMARK(random_words_floor);

}  // namespace
}  // namespace millrace
