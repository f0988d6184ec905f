// What masking costs a row of 512 token ids. `items_per_second` counts rows. The tests of mask_tokens compare every
// position with its definition; here the share of labels is looked at.
#include <stdexcept>
#include <vector>

#include <benchmark/benchmark.h>

#include "ops/mask_tokens.h"
#include "ops/philox_words.h"

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
BENCHMARK(mask_tokens_int32);
BENCHMARK(mask_tokens_int64);
BENCHMARK(mask_words);
BENCHMARK(mask_spans);
BENCHMARK(mask_spans_of_words);

// The random words alone.
void words_of_a_row(benchmark::State& state) {
  const CounterRng rng(1, operator_id("mask_tokens"));
  std::vector<uint32_t> words(kLength);
  uint64_t row = 0;
  for (auto _ : state) {
    philox_words(rng, row++, kLength / 4, words);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(words_of_a_row);

void words_of_a_row_one_draw_at_a_time(benchmark::State& state) {
  const CounterRng rng(1, operator_id("mask_tokens"));
  std::vector<uint32_t> words(kLength);
  uint64_t row = 0;
  for (auto _ : state) {
    for (size_t draw = 0; draw < kLength / 4; ++draw) {
      const CounterRng::Words four = rng.words(row, draw);
      std::copy(four.begin(), four.end(), words.begin() + static_cast<int64_t>(4 * draw));
    }
    ++row;
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(words_of_a_row_one_draw_at_a_time);

}  // namespace
}  // namespace millrace
